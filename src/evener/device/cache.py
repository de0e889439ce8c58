"""Compiled code on disk, keyed by everything that decides what the code does.

The key covers bytecode, constants, the values of globals and closures that a function reads, its
compiled helpers recursively, argument types, options, library versions and the processor. One
file holds one compiled signature and is put in place by a rename, so two processes that compile
the same function at once each write a whole file and either one serves. A file begins with the hash
of the rest, because loading does not notice damaged machine code.

The files are pickles, as Numba's own cache is: they live in a folder that belongs to the user.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evener.device.compile import load_compiler

_HASH_BYTES = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where compiled code is kept: ``EVENER_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("EVENER_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "evener"


def fingerprint(function: Callable[..., Any]) -> str:
    """Hash all that decides what a function does, its helpers included."""
    digest = hashlib.sha256()
    _feed_function(digest, function, seen=set())
    return digest.hexdigest()


def _feed_function(digest: Any, function: Any, seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    _feed_code(digest, function.__code__)
    _feed_value(digest, function.__defaults__, seen)
    names = names_read(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        digest.update(name.encode())
        value = function.__globals__[name]
        if isinstance(value, types.ModuleType):
            _feed_module(digest, value, names, seen)
        else:
            _feed_value(digest, value, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        digest.update(name.encode())
        _feed_value(digest, cell.cell_contents, seen)


def _feed_code(digest: Any, code: types.CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed_code(digest, constant)
        else:
            digest.update(_text(constant).encode())


def _text(value: Any) -> str:
    """A value written out as `repr` does, sets in an order that is the same in every process."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(key)}: {_text(item)}' for key, item in value.items())}}}"
    return repr(value)


def names_read(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that a function reads."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_read(constant)
    return names


def _feed_module(digest: Any, module: types.ModuleType, names: set[str], seen: set[int]) -> None:
    digest.update(module.__name__.encode())
    if module.__name__.partition(".")[0] != "numpy":  # NumPy's version is in every key anyway
        for name in sorted(names & vars(module).keys()):
            digest.update(name.encode())
            _feed_value(digest, vars(module)[name], seen)


def _feed_value(digest: Any, value: Any, seen: set[int]) -> None:
    function = getattr(value, "python", value)  # a Compiled carries its text there
    if isinstance(function, types.FunctionType):
        digest.update(_text(getattr(value, "options", None)).encode())
        _feed_function(digest, function, seen)
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(value.tobytes())
    elif isinstance(value, tuple):
        for item in value:
            _feed_value(digest, item, seen)
    elif isinstance(value, type | types.BuiltinFunctionType):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
    else:
        digest.update(_text(value).encode())


def load_bytes(name: str) -> bytes | None:
    """What was kept under a name; None if that is nothing, or damaged."""
    try:
        content = (cache_folder() / name).read_bytes()
    except OSError:
        return None
    whole = content[:_HASH_BYTES] == hashlib.sha256(content[_HASH_BYTES:]).digest()
    return content[_HASH_BYTES:] if whole else None


def save_bytes(name: str, content: bytes) -> None:
    """Keep something under a name; a read-only or full disk only costs the cache."""
    path = cache_folder() / name
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


@functools.cache
def _atomics() -> str:
    """Hash the module that tells Numba how to write atomics: no bytecode shows a change there."""
    here = Path(__file__).parent
    texts = [(here / name).read_bytes() for name in ("cpu_atomic.py", "cpu_types.py")]
    return hashlib.sha256(b"".join(texts)).hexdigest()


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
        return self._enabled and (cache_folder() / self._file(signature, target_context)).exists()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the compiled result for a signature, or None when it must be compiled."""
        found = self._load(signature, target_context)
        if found is None:
            load_compiler()
        return found

    def _load(self, signature: Any, target_context: Any) -> Any:
        if not self._enabled or _takes_functions(signature):
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
        if not self._enabled or result.lifted or result.library.has_dynamic_globals:
            return
        if _takes_functions(signature):
            return
        from numba.core import serialize

        name = self._file(signature, result.target_context)
        save_bytes(name, serialize.dumps(result._reduce()))

    def _file(self, signature: Any, target_context: Any) -> str:
        import llvmlite
        import numba

        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._function)
        versions = (sys.version, np.__version__, numba.__version__, llvmlite.__version__)
        processor = target_context.codegen().magic_tuple()
        key = repr(
            (
                self._fingerprint,
                _text(self._options),
                str(signature),
                versions,
                processor,
                _atomics(),
            )
        )
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        return f"{self._function.__name__}-{name}.bin"
