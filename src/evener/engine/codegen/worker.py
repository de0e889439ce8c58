"""The text of a kernel as a function, compiled on its first run."""

from __future__ import annotations

import linecache
import weakref
from typing import Any

from evener.device.compile import Compiled
from evener.programs.program import program_cache


def worker_of(text: str, key: Any, names: dict[str, Any]) -> Compiled:
    """The function of a kernel's text, made once per key; a key starts with the program."""
    program, *rest = key
    known = program_cache(program, "workers")
    found = known.get((text, *rest))
    if found is None:
        found = known[text, *rest] = _made_worker(text, names)
    return found


def _made_worker(text: str, names: dict[str, Any]) -> Compiled:
    file = f"<evener kernel {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {**names, "__name__": __name__}  # code from the cache looks its module up
    exec(compile(text, file, "exec"), scope)
    made = Compiled(scope["worker"], _nrt=False)  # no reference counts: it makes no arrays
    weakref.finalize(made, linecache.cache.pop, file, None).atexit = False
    return made
