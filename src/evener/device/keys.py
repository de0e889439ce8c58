"""Keys of compiled code: everything that decides what a function does.

A key covers bytecode, constants, the values of globals and closures that a function reads, and its
helpers recursively, whatever made them: compiled, vectorized, overloaded or written as an
intrinsic. What cannot be told by its content (an address, an object of a class that nobody knows
here) gets a key that holds for this object in this process only, and is not kept on disk.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from evener.device.overloads import ANYWHERE, known_extensions
from evener.device.tuples import Identity


def fingerprint(function: Callable[..., Any], *, on_gpu: bool = False) -> str:
    """Hash all that decides what a function does, its helpers included."""
    visits: dict[Any, int] = {_ON_GPU: 0} if on_gpu else {}
    told = hash_of(_of_function(function, visits))
    return _UNKEYED + told if _UNKEYED in visits else told


def is_lasting(key: str) -> bool:
    """Whether a fingerprint means the same in every process."""
    return not key.startswith(_UNKEYED)


def hash_of(told: Any) -> str:
    """The hash of plain values in tuples: `repr` writes no two of them alike."""
    return hashlib.sha256(repr(told).encode()).hexdigest()


_UNKEYED = "unkeyed-"
_ON_GPU = "on a gpu"
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
_BUILTINS = vars(builtins)  # where tools of a notebook put names of their own
_unkeyed: dict[int, Any] = {}  # what has such a key, kept so that no other gets its number
_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
# Written in C, in a library whose version, or Python's, is in every key: their names tell them.
_NAMED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    np.ufunc,
)
_SHOWN = (np.dtype, range, slice, Identity)  # what they look like tells all
_LIBRARIES = ("builtins", "evener", "math", "numba", "numpy", "typing", "cmath", "operator")
_IN_C = frozenset(_LIBRARIES) | sys.stdlib_module_names


def told_of(value: Any, visits: dict[Any, int] | None = None, names: tuple[str, ...] = ()) -> Any:
    """A value as plain values in tuples, other ones for every other value, in any process the same.

    ``visits`` numbers the functions and modules that were told before; ``names`` are those that
    may be looked up in a module.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    visits = {} if visits is None else visits
    if _ON_GPU in visits:
        value = getattr(value, "of_gpu", None) or value
    function = _text_of(value)
    if isinstance(function, types.FunctionType):  # plain, or the text of a compiled one
        instead = _of_extensions([id(value)], visits)
        text = _of_function(function, visits)
        return "function", kind.__name__, told_of(_options_of(value), visits), text, instead
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
        told += _of_class(kind, visits) if kind not in (tuple, list) else ()
        return *told, *(told_of(item, visits, names) for item in value)
    if isinstance(value, set | frozenset):
        return *told, *sorted((told_of(item, visits) for item in value), key=repr)
    if isinstance(value, dict):
        return *told, *(told_of(item, visits, names) for item in value.items())
    if isinstance(value, _NAMED) and _library(value) in _IN_C:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            instead = _of_extensions([id(value)], visits)
            return *told, value.__module__, value.__qualname__, *instead
    if isinstance(value, _SHOWN) or _is_type_of_numba(value):
        return *told, repr(value)
    return _unknown(value, visits)


def _unknown(value: Any, visits: dict[Any, int]) -> tuple[Any, ...]:
    """What can only be told apart from others in this process."""
    visits[_UNKEYED] = len(visits)
    _unkeyed[id(value)] = value
    return "unkeyed", id(value)


def _library(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "builtins").partition(".")[0]


def _is_type_of_numba(value: Any) -> bool:
    types_of_numba = sys.modules.get("numba.core.types")
    return types_of_numba is not None and isinstance(value, types_of_numba.Type)


def _text_of(value: Any) -> Any:
    """The Python function that a helper was made from; a value that is none, as it is."""
    if _library(type(value)) == "numba":  # vectorize, guvectorize, intrinsic
        value = getattr(value, "_dispatcher", None) or getattr(value, "gufunc_builder", value)
        value = getattr(value, "_defn", value)
    return getattr(value, "python", None) or getattr(value, "py_func", value)


def _options_of(value: Any) -> Any:
    """What a helper was made with beside its text: options, and the types it was declared for.

    One that declared none is compiled for those that it meets, which it lists in the same places.
    """
    if _library(type(value)) not in ("numba", "numba_cuda"):
        return getattr(value, "options", None)
    made = getattr(value, "_dispatcher", value)  # of vectorize, guvectorize
    found = [getattr(made, name, None) for name in ("targetoptions", "locals")]
    found += [getattr(value, name, None) for name in ("identity", "signature")]
    found += [getattr(getattr(value, "_compiler", None), "pipeline_class", None)]
    if getattr(value, "_frozen", False):
        found += value.types
    if not getattr(value, "_can_compile", True):
        signatures = [one.signature for one in value.overloads.values()]
        found += [(one.args, one.return_type) for one in signatures]
    return found


def _of_extensions(keys: Iterable[Any], visits: dict[Any, int]) -> tuple[Any, ...]:
    """What compiled code has instead of what these names, or ids of functions, stand for."""
    known = known_extensions()
    found = [one for key in keys for one in known.get(key, ())] if known else []
    return tuple(
        _unknown(template, visits) if maker is None else
        (_of_function(maker, visits), told_of(getattr(template, "_jit_options", None), visits))
        for template, maker in found
    )  # fmt: skip


def _of_function(function: Any, visits: dict[Any, int]) -> tuple[Any, ...]:
    if id(function) in visits:
        return "visited", visits[id(function)]
    visits[id(function)] = len(visits)
    code, names = _of_code(function.__code__)
    scope, read = function.__globals__, globals_read(function.__code__)
    scopes = [(name, scope if name in scope else _BUILTINS) for name in read]
    # Evener's own functions mean the same whatever others tell Numba: its own answers come first.
    is_ours = _library(function) == "evener"
    return (
        code,
        told_of(function.__defaults__, visits),
        told_of(function.__kwdefaults__, visits),
        [(name, told_of(where[name], visits, names)) for name, where in scopes if name in where],
        [told_of(cell.cell_contents, visits, names) for cell in function.__closure__ or ()],
        () if is_ours else _of_extensions((*names, ANYWHERE), visits),
    )


@functools.lru_cache(maxsize=4096)
def _of_code(code: types.CodeType) -> tuple[str, tuple[str, ...]]:
    """A hash of the text of a function alone, and the names that it reads, in order.

    They are kept because every run asks for them, and code does not change.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = [_of_constant(constant) for constant in code.co_consts]
    told = (code.co_code, code.co_exceptiontable, counts, names, constants)
    return hash_of(told), tuple(sorted(names_read(code)))


@functools.lru_cache(maxsize=4096)
def globals_read(code: types.CodeType) -> tuple[str, ...]:
    """The names of globals alone: a field may have the name of one that is not read."""
    found = {one.argval for one in dis.get_instructions(code) if one.opname in _GLOBAL}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(globals_read(constant))
    return tuple(sorted(found))


def _of_constant(constant: Any) -> Any:
    return told_of(constant, {})


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
    found = [(name, told_of(scope[name], visits, names)) for name in names if name in scope]
    return "module", module.__name__, found


def _of_class(value: type, visits: dict[Any, int]) -> tuple[Any, ...]:
    """What code can use of a class: members of enumerations, fields of named tuples."""
    found: Any = None
    if issubclass(value, enum.Enum):
        found = [(name, told_of(one.value, visits)) for name, one in value.__members__.items()]
    elif issubclass(value, tuple) and hasattr(value, "_fields"):
        found = value._fields, told_of(getattr(value, "_field_defaults", None), visits)
    elif _library(value) not in _LIBRARIES and not issubclass(value, BaseException):
        return _unknown(value, visits)  # a jitclass has methods
    bases = [base.__qualname__ for base in value.__bases__]
    return "class", value.__module__, value.__qualname__, bases, found
