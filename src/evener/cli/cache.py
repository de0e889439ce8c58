"""``evener cache``: the folder of compiled code, and its size."""

from __future__ import annotations

import argparse
from typing import Any

from evener.cli.output import print_fields, print_json
from evener.cli.parser import add_json, new_command


def add_command(commands: Any) -> None:
    """Add ``cache`` to the parser."""
    parser = new_command(
        commands, "cache", run, "show the cache of compiled code, or clear it",
        "  evener cache\n  evener cache --clear",
    )  # fmt: skip
    parser.add_argument("--clear", action="store_true", help="remove all cached code")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Report the contents of the cache, and clear it on request."""
    from evener.device import format_bytes
    from evener.device.kept_files import (
        cache_folder,
        cache_room,
        clear_files,
        kept_files,
        why_unusable,
    )

    why = why_unusable(cache_folder())
    files = kept_files()
    facts: dict[str, Any] = {
        "folder": str(cache_folder()),
        "usable": why is None,
        "files": len(files),
        "bytes": sum(size for _, size in files),
        "most_bytes": cache_room(),
        "removed": clear_files() if arguments.clear and why is None else 0,
    }
    if arguments.json:
        print_json(facts)
        return
    shown = {
        "folder": facts["folder"] if why is None else f"{facts['folder']} is not used: it {why}",
        "files": f"{facts['files']:,}, {format_bytes(facts['bytes'])} "
        f"(at most {format_bytes(facts['most_bytes'])}; EVENER_CACHE_SIZE changes it)",
    }
    if arguments.clear:
        shown["removed"] = f"{facts['removed']:,} files"
    print_fields(shown)
