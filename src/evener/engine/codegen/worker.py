"""A kernel as something to call: its text, compiled when it first runs."""

from __future__ import annotations

import linecache
import weakref
from typing import Any

from evener.device.compile import Compiled
from evener.programs.program import program_cache


def worker_of(text: str, key: Any, names: dict[str, Any]) -> Compiled:
    """The kernel of a text, made once for each key, which begins with the program."""
    program, *rest = key
    known = program_cache(program, "workers")
    found = known.get((text, *rest))
    if found is None:
        found = known[text, *rest] = _made_worker(text, names)
    return found


def _made_worker(text: str, names: dict[str, Any]) -> Compiled:
    file = f"<evener kernel {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {**names, "__name__": __name__}  # cached code looks its module up
    exec(compile(text, file, "exec"), scope)
    made = Compiled(scope["worker"], _nrt=False)  # it makes no arrays: nobody counts references
    weakref.finalize(made, linecache.cache.pop, file, None).atexit = False
    return made
