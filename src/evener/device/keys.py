"""Keys of compiled code: everything that determines what a function does.

A key covers bytecode, constants, the values of globals and closures that a function reads, and its
helpers recursively: compiled, vectorized, overloaded or intrinsic. What has no comparable content
(an address, an object of an unknown class) gets a key that is valid for this object in this
process only, and is not kept on disk.
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
    """Hash everything that determines what a function does, helpers included."""
    visits: dict[Any, int] = {_ON_GPU: 0} if on_gpu else {}
    key = hash_of(_of_function(function, visits))
    return _UNKEYED + key if _UNKEYED in visits else key


def is_lasting(key: str) -> bool:
    """Whether a fingerprint is valid in every process."""
    return not key.startswith(_UNKEYED)


def hash_of(content: Any) -> str:
    """The hash of plain values in tuples, whose `repr` is unique."""
    return hashlib.sha256(repr(content).encode()).hexdigest()


_UNKEYED = "unkeyed-"
_ON_GPU = "on a gpu"
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
_BUILTINS = vars(builtins)  # where notebook tools add names
_unkeyed: dict[int, Any] = {}  # objects with such a key, kept so that no other gets the same id
_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
# Written in C, in a library whose version, or Python's, is in every key: the names suffice.
_NAMED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    np.ufunc,
)
_SHOWN = (np.dtype, range, slice, Identity)  # whose repr says all
_LIBRARIES = ("builtins", "evener", "math", "numba", "numpy", "typing", "cmath", "operator")
_IN_C = frozenset(_LIBRARIES) | sys.stdlib_module_names


def content_of(
    value: Any, visits: dict[Any, int] | None = None, names: tuple[str, ...] = ()
) -> Any:
    """Describe a value by plain values in tuples: unique, and the same in every process.

    ``visits`` numbers the functions and modules already described; ``names`` may be looked up in
    a module.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    visits = {} if visits is None else visits
    if _ON_GPU in visits:
        value = getattr(value, "of_gpu", None) or value
    function = _text_of(value)
    if isinstance(function, types.FunctionType):  # plain, or behind a compiled one
        instead = _of_extensions([id(value)], visits)
        text = _of_function(function, visits)
        return "function", kind.__name__, content_of(_options_of(value), visits), text, instead
    if isinstance(value, types.ModuleType):
        return _of_module(value, visits, names)
    if kind is types.CodeType:
        return "code", _of_code(value)[0]
    if isinstance(value, type):
        return _of_class(value, visits)
    name = [kind.__module__, kind.__qualname__]
    if isinstance(value, np.ndarray | np.generic):
        return *name, repr(value.dtype), value.shape, value.tobytes()
    if isinstance(value, enum.Enum):
        return *_of_class(kind, visits), value.name
    if isinstance(value, tuple | list):
        name += _of_class(kind, visits) if kind not in (tuple, list) else ()
        return *name, *(content_of(item, visits, names) for item in value)
    if isinstance(value, set | frozenset):
        return *name, *sorted((content_of(item, visits) for item in value), key=repr)
    if isinstance(value, dict):
        return *name, *(content_of(item, visits, names) for item in value.items())
    if isinstance(value, _NAMED) and _library(value) in _IN_C:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            instead = _of_extensions([id(value)], visits)
            return *name, value.__module__, value.__qualname__, *instead
    if isinstance(value, _SHOWN) or _is_type_of_numba(value):
        return *name, repr(value)
    return _unknown(value, visits)


def _unknown(value: Any, visits: dict[Any, int]) -> tuple[Any, ...]:
    """A description that is unique in this process only."""
    visits[_UNKEYED] = len(visits)
    _unkeyed[id(value)] = value
    return "unkeyed", id(value)


def _library(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "builtins").partition(".")[0]


def _is_type_of_numba(value: Any) -> bool:
    types_of_numba = sys.modules.get("numba.core.types")
    return types_of_numba is not None and isinstance(value, types_of_numba.Type)


def _text_of(value: Any) -> Any:
    """The Python function that a helper was made from; other values unchanged."""
    if _library(type(value)) == "numba":  # vectorize, guvectorize, intrinsic
        value = getattr(value, "_dispatcher", None) or getattr(value, "gufunc_builder", value)
        value = getattr(value, "_defn", value)
    return getattr(value, "python", None) or getattr(value, "py_func", value)


def _options_of(value: Any) -> Any:
    """What a helper was made with besides its code: options and declared types.

    Without declared types it is compiled for those it meets, listed in the same places.
    """
    if _library(type(value)) not in ("numba", "numba_cuda"):
        return getattr(value, "options", None)
    dispatcher = getattr(value, "_dispatcher", value)  # of vectorize, guvectorize
    options = [getattr(dispatcher, name, None) for name in ("targetoptions", "locals")]
    options += [getattr(value, name, None) for name in ("identity", "signature")]
    options += [getattr(getattr(value, "_compiler", None), "pipeline_class", None)]
    if getattr(value, "_frozen", False):
        options += value.types
    if not getattr(value, "_can_compile", True):
        signatures = [one.signature for one in value.overloads.values()]
        options += [(one.args, one.return_type) for one in signatures]
    return options


def _of_extensions(keys: Iterable[Any], visits: dict[Any, int]) -> tuple[Any, ...]:
    """The extensions that compiled code has for these names or ids of functions."""
    known = known_extensions()
    extensions = [one for key in keys for one in known.get(key, ())] if known else []
    return tuple(
        _unknown(template, visits) if maker is None else
        (_of_function(maker, visits), content_of(getattr(template, "_jit_options", None), visits))
        for template, maker in extensions
    )  # fmt: skip


def _of_function(function: Any, visits: dict[Any, int]) -> tuple[Any, ...]:
    if id(function) in visits:
        return "visited", visits[id(function)]
    visits[id(function)] = len(visits)
    code, names = _of_code(function.__code__)
    scope, read = function.__globals__, globals_read(function.__code__)
    scopes = [(name, scope if name in scope else _BUILTINS) for name in read]
    # Others' extensions cannot change Evener's own functions: Numba's own answers come first.
    is_ours = _library(function) == "evener"
    return (
        code,
        content_of(function.__defaults__, visits),
        content_of(function.__kwdefaults__, visits),
        [(name, content_of(where[name], visits, names)) for name, where in scopes if name in where],
        [content_of(cell.cell_contents, visits, names) for cell in function.__closure__ or ()],
        () if is_ours else _of_extensions((*names, ANYWHERE), visits),
    )


@functools.lru_cache(maxsize=4096)
def _of_code(code: types.CodeType) -> tuple[str, tuple[str, ...]]:
    """A hash of a function's own code, and the names that it reads, in order.

    Cached because every run asks for them, and code does not change.
    """
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = [_of_constant(constant) for constant in code.co_consts]
    content = (code.co_code, code.co_exceptiontable, counts, names, constants)
    return hash_of(content), tuple(sorted(names_read(code)))


@functools.lru_cache(maxsize=4096)
def globals_read(code: types.CodeType) -> tuple[str, ...]:
    """The names of globals only: a field may have the name of a global that is not read."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in _GLOBAL}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(globals_read(constant))
    return tuple(sorted(names))


def _of_constant(constant: Any) -> Any:
    return content_of(constant, {})


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
    """What a function that reads these names can find in a module and the modules in it."""
    if module.__name__.partition(".")[0] == "numpy":  # its version is in every key anyway
        return "module", module.__name__
    visit = (id(module), names)
    if visit in visits:
        return "visited", visits[visit]
    visits[visit] = len(visits)
    scope = vars(module)
    content = [(name, content_of(scope[name], visits, names)) for name in names if name in scope]
    return "module", module.__name__, content


def _of_class(value: type, visits: dict[Any, int]) -> tuple[Any, ...]:
    """What code can use of a class: enumeration members, fields of named tuples."""
    content: Any = None
    if issubclass(value, enum.Enum):
        content = [(name, content_of(one.value, visits)) for name, one in value.__members__.items()]
    elif issubclass(value, tuple) and hasattr(value, "_fields"):
        content = value._fields, content_of(getattr(value, "_field_defaults", None), visits)
    elif _library(value) not in _LIBRARIES and not issubclass(value, BaseException):
        return _unknown(value, visits)  # a jitclass has methods
    bases = [base.__qualname__ for base in value.__bases__]
    return "class", value.__module__, value.__qualname__, bases, content
