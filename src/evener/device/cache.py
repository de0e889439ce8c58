"""Compiled code on disk, keyed by everything that determines what the code does.

A key covers a function and all it reads (`evener.device.keys`), argument types, options,
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
from evener.device.keys import content_of, fingerprint, hash_of, is_lasting

# `compile.py` sets the options of all functions.
_COMPILER = ("compile.py", "cpu/atomic.py", "cpu/inner.py", "cpu/types.py", "typing_cache.py")


@functools.cache
def _compiler() -> str:
    """Hash the modules that tell Numba how to compile: no bytecode reveals their changes."""
    here = Path(__file__).parent
    return hash_of([(here / name).read_bytes() for name in _COMPILER])


def _takes_functions(signature: Any) -> bool:
    """Whether a function is an argument: then only the caller's code is worth keeping."""
    return "Dispatcher(" in str(signature)


class DiskCache:
    """The cache of a Numba dispatcher: one file per compiled signature."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function = function
        self._options = options
        self._fingerprint: str | None = None
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder that Numba's dispatcher shows."""
        return str(cache_folder())

    def enable(self) -> None:
        """Load and save from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor save from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: files are written at once."""

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is a file for a signature."""
        return self._is_kept() and has_bytes(self._file(signature, target_context))

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled result for a signature, or None when it must be compiled."""
        result = self._load(signature, target_context)
        if result is None:
            load_compiler()
        return result

    def _load(self, signature: Any, target_context: Any) -> Any:
        if not self._is_kept() or _takes_functions(signature):
            return None
        import pickle

        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        rtsys.initialize(target_context)  # compiled code needs no more: see `refresh` in Numba
        try:
            content = load_bytes(self._file(signature, target_context))
            if content is None:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:  # a damaged or foreign file is only a reason to compile again
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save a compiled result; a read-only or full disk is not an error."""
        if not self._is_kept() or result.lifted or result.library.has_dynamic_globals:
            return
        if _takes_functions(signature):
            return
        from numba.core import serialize

        name = self._file(signature, result.target_context)
        save_bytes(name, serialize.dumps(result._reduce()))

    def _is_kept(self) -> bool:
        """Whether results go to disk: not if the key is valid in this process only."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._function)
        return self._enabled and is_lasting(self._fingerprint)

    def _file(self, signature: Any, target_context: Any) -> str:
        import llvmlite
        import numba

        versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
        processor = target_context.codegen().magic_tuple()
        key = (
            self._fingerprint,
            content_of(self._options),
            str(signature),
            versions,
            processor,
            numba.config.BOUNDSCHECK,  # type: ignore[attr-defined]
            _compiler(),
        )
        return f"{self._function.__name__}-{hash_of(key)[:32]}.bin"
