"""The parser of the command line: one subcommand per module, errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from evener.errors import did_you_mean

Run = Callable[[argparse.Namespace], None]

_EXAMPLE = """\
example:
  evener generate rmat kron.evg --scale 16 --seed 1
  evener run bfs kron.evg --source 0
  evener convert kron.evg kron.mtx
"""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples, and leaves room for long options."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=30)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and whose help ends in an example.

    A command may set ``prepare``, which sees the words first and adds the options that depend on
    them. This parser refuses unknown words itself, unless ``is_strict`` is False: the parser above
    it knows neither these options nor the command for their help.
    """

    prepare: Callable[[Sequence[str]], None] | None = None
    is_strict = True

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, after adding the options that depend on the words."""
        self._words = sys.argv[1:] if args is None else list(args)
        if self.prepare is not None:
            self.prepare(self._words)
        known, others = super().parse_known_args(self._words, namespace)
        if others and self.is_strict:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return known, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown command or kind, and suggest a known one."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                None,
                f"there is no {str(action.metavar).lower()} {value!r}"
                f"{did_you_mean(str(value), known)}; there are {', '.join(known)}",
            )

    def _unknown_option(self) -> str | None:
        """The first word that looks like an option but is not one."""
        for word in self._words:
            name = word.partition("=")[0]
            if word == "--":
                break
            is_option = len(name) > 1 and name[0] == "-" and " " not in word
            is_number = self._negative_number_matcher.match(word)
            if is_option and not is_number and name not in self._option_string_actions:
                return name
        return None

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line that names the help."""
        if "required" in message or "unrecognized" in message:  # maybe because of a misspelt option
            unknown = self._unknown_option()
            if unknown is not None:
                near = did_you_mean(unknown, self._option_string_actions).replace("'", "")
                message = f"there is no option {unknown}{near}"
        sys.stderr.write(f"evener: error: {message}; see {self.prog} --help.\n")
        sys.exit(2)


def build_parser() -> Parser:
    """The parser with all commands.

    Examples
    --------
    >>> from evener.cli.parser import build_parser
    >>> build_parser().parse_args(["info", "roads.gr", "--check"]).check
    True
    """
    from evener.cli import bench, cache, convert, devices, generate, info, plan, show, warm
    from evener.cli import run as run_command
    from evener.versions import evener_version

    parser = Parser(
        prog="evener",
        description="Graph analytics on CPUs, GPUs and both together: runs algorithms, and makes, "
        "reads, checks\nand converts graphs. evener devices lists the devices of this machine.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--version", action="version", version=f"evener {evener_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (run_command, info, convert, generate, devices, plan, show, warm, cache, bench):
        module.add_command(commands)
    return parser


def new_command(commands: Any, name: str, run: Run | None, summary: str, example: str) -> Parser:
    """Add one command: its summary, its example and the function that runs it."""
    description = f"{summary[0].upper()}{summary[1:]}."
    epilog = f"example:\n{example}"
    parser: Parser = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def add_direction(parser: argparse.ArgumentParser) -> None:
    """Add ``--directed`` and ``--undirected``; ``arguments.directed`` is None without either."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--directed", dest="directed", action="store_true", default=None,
        help="read each line of the file as one arc",
    )  # fmt: skip
    group.add_argument(
        "--undirected", dest="directed", action="store_false", default=None,
        help="read each line of the file as an edge in both directions",
    )  # fmt: skip


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add ``--force``, which allows ``-o`` to replace a file."""
    parser.add_argument("--force", action="store_true", help="let -o replace an existing file")
