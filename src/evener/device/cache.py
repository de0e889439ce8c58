"""Compiled code on disk, keyed by everything that decides what the code does.

The key covers bytecode, constants, the values of globals and closures that a function reads, its
compiled helpers recursively, argument types, options, library versions, the processor and the
modules here that tell Numba how to compile. One file holds one compiled signature and is put in
place by a rename, so two processes that compile the same function at once each write a whole file
and either one serves. A file begins with the hash of the rest, because loading does not notice
damaged machine code.

The files are pickles, as Numba's own cache is: they live in a folder that belongs to the user.
"""

from __future__ import annotations

import contextlib
import enum
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

# `compile.py` has the options that are given for all functions.
_COMPILER = ("compile.py", "cpu_atomic.py", "cpu_inner.py", "cpu_types.py", "typing_memory.py")
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
    return _hash(_of_function(function, {}))


def _hash(told: Any) -> str:
    """The hash of plain values in tuples: `repr` writes no two of them alike."""
    return hashlib.sha256(repr(told).encode()).hexdigest()


_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))


def _told(value: Any, visits: dict[Any, int], names: tuple[str, ...] = ()) -> Any:
    """A value as plain values in tuples, other ones for every other value, in any process the same.

    ``visits`` numbers the functions and modules that were told before; ``names`` are those that
    may be looked up in a module.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    function = getattr(value, "python", None) or getattr(value, "py_func", value)
    if isinstance(function, types.FunctionType):  # plain, or the text of a compiled one
        options = getattr(value, "options", None) or getattr(value, "targetoptions", None)
        return "function", kind.__name__, _told(options, visits), _of_function(function, visits)
    if isinstance(value, types.ModuleType):
        return _of_module(value, visits, names)
    if kind is types.CodeType:
        return "code", _of_code(value)[0]
    if isinstance(value, type):
        return _of_class(value, visits)
    told = [kind.__module__, kind.__qualname__]
    if isinstance(value, np.ndarray | np.generic):
        return *told, repr(value.dtype), value.shape, value.tobytes()
    if isinstance(value, enum.Enum):
        return *_of_class(kind, visits), value.name
    if isinstance(value, tuple | list):
        return *told, *(_told(item, visits, names) for item in value)
    if isinstance(value, set | frozenset):
        return *told, *sorted((_told(item, visits) for item in value), key=repr)
    if isinstance(value, dict):
        return *told, *(_told(item, visits, names) for item in value.items())
    name = getattr(value, "__qualname__", None)  # functions that are not written in Python
    return *told, f"{value.__module__}.{name}" if name else repr(value)


def _of_function(function: Any, visits: dict[Any, int]) -> tuple[Any, ...]:
    if id(function) in visits:
        return "visited", visits[id(function)]
    visits[id(function)] = len(visits)
    code, names = _of_code(function.__code__)
    scope = function.__globals__
    return (
        code,
        _told(function.__defaults__, visits),
        _told(function.__kwdefaults__, visits),
        [(name, _told(scope[name], visits, names)) for name in names if name in scope],
        [_told(cell.cell_contents, visits, names) for cell in function.__closure__ or ()],
    )


@functools.lru_cache(maxsize=4096)
def _of_code(code: types.CodeType) -> tuple[str, tuple[str, ...]]:
    """A hash of the text of a function alone, and the names that it reads, in order.

    They are kept because every run asks for them, and code does not change.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = [_told(constant, {}) for constant in code.co_consts]
    told = (code.co_code, code.co_exceptiontable, counts, names, constants)
    return _hash(told), tuple(sorted(names_read(code)))


def names_read(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that a function reads."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_read(constant)
    return names


def _of_module(
    module: types.ModuleType, visits: dict[Any, int], names: tuple[str, ...]
) -> tuple[Any, ...]:
    """What a function that reads these names may find in a module, and in the modules in it."""
    if module.__name__.partition(".")[0] == "numpy":  # its version is in every key anyway
        return "module", module.__name__
    visit = (id(module), names)
    if visit in visits:
        return "visited", visits[visit]
    visits[visit] = len(visits)
    scope = vars(module)
    found = [(name, _told(scope[name], visits, names)) for name in names if name in scope]
    return "module", module.__name__, found


def _of_class(value: type, visits: dict[Any, int]) -> tuple[Any, ...]:
    """What code can use of a class: members of enumerations, fields of named tuples."""
    found: Any = None
    if issubclass(value, enum.Enum):
        found = [(name, _told(one.value, visits)) for name, one in value.__members__.items()]
    elif issubclass(value, tuple) and hasattr(value, "_fields"):
        found = value._fields, _told(getattr(value, "_field_defaults", None), visits)
    bases = [base.__qualname__ for base in value.__bases__]
    return "class", value.__module__, value.__qualname__, bases, found


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
def _compiler() -> str:
    """Hash the modules that tell Numba what to make of a function: no bytecode shows a change."""
    here = Path(__file__).parent
    return _hash([(here / name).read_bytes() for name in _COMPILER])


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
        told = (
            self._fingerprint,
            _told(self._options, {}),
            str(signature),
            versions,
            processor,
            numba.config.BOUNDSCHECK,  # type: ignore[attr-defined]
            _compiler(),
        )
        return f"{self._function.__name__}-{_hash(told)[:32]}.bin"
