"""Compiled code on disk, keyed by everything that decides what the code does.

A key covers a function with all that it reads (`evener.device.keys`), argument types, options,
library versions, the processor and the modules here that tell Numba how to compile. One file holds
one compiled signature (`evener.device.kept_files`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evener.device.compile import load_compiler
from evener.device.kept_files import cache_folder, has_bytes, load_bytes, save_bytes
from evener.device.keys import fingerprint, hash_of, is_lasting, told_of

# `compile.py` has the options that are given for all functions.
_COMPILER = ("compile.py", "cpu/atomic.py", "cpu/inner.py", "cpu/types.py", "typing_cache.py")


@functools.cache
def _compiler() -> str:
    """Hash the modules that tell Numba what to make of a function: no bytecode shows a change."""
    here = Path(__file__).parent
    return hash_of([(here / name).read_bytes() for name in _COMPILER])


def _takes_functions(signature: Any) -> bool:
    """Whether a function is an argument: then only the caller's code is worth keeping."""
    return "Dispatcher(" in str(signature)


class DiskCache:
    """What a Numba dispatcher asks for compiled overloads: one file for each signature."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function = function
        self._options = options
        self._fingerprint: str | None = None
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder, as Numba's dispatcher shows it."""
        return str(cache_folder())

    def enable(self) -> None:
        """Load and save from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor save from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Nothing is held back in memory."""

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is a file for a signature."""
        return self._is_kept() and has_bytes(self._file(signature, target_context))

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled result for a signature, or None when it must be compiled."""
        found = self._load(signature, target_context)
        if found is None:
            load_compiler()
        return found

    def _load(self, signature: Any, target_context: Any) -> Any:
        if not self._is_kept() or _takes_functions(signature):
            return None
        import pickle

        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        rtsys.initialize(target_context)  # all that finished code needs: see `refresh` in Numba
        try:
            content = load_bytes(self._file(signature, target_context))
            if content is None:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:  # a damaged or foreign file is only a reason to compile again
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled result; a read-only or full disk only costs the cache."""
        if not self._is_kept() or result.lifted or result.library.has_dynamic_globals:
            return
        if _takes_functions(signature):
            return
        from numba.core import serialize

        name = self._file(signature, result.target_context)
        save_bytes(name, serialize.dumps(result._reduce()))

    def _is_kept(self) -> bool:
        """Whether a file can serve: not where the key holds in this process only."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._function)
        return self._enabled and is_lasting(self._fingerprint)

    def _file(self, signature: Any, target_context: Any) -> str:
        import llvmlite
        import numba

        versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
        processor = target_context.codegen().magic_tuple()
        told = (
            self._fingerprint,
            told_of(self._options),
            str(signature),
            versions,
            processor,
            numba.config.BOUNDSCHECK,  # type: ignore[attr-defined]
            _compiler(),
        )
        return f"{self._function.__name__}-{hash_of(told)[:32]}.bin"
