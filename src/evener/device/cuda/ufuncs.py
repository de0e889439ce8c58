"""NumPy's scalar functions in functors on a GPU, as far as numba-cuda lacks them.

It has trigonometry, logarithms, comparisons and bit operations, and fails on ``np.sqrt`` and the
like. Each is defined for dtypes as in NumPy's own table: ``d->d`` maps float64 to float64, and
other numbers are cast.
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.errors import UnsupportedError
from numba.cuda import libdevice, ufuncs

_LIBRARY = {
    np.sqrt: "sqrt", np.exp: "exp", np.exp2: "exp2", np.expm1: "expm1", np.log1p: "log1p",
    np.cbrt: "cbrt", np.floor: "floor", np.ceil: "ceil", np.trunc: "trunc", np.rint: "rint",
    np.fabs: "fabs", np.power: "pow", np.copysign: "copysign",
}  # fmt: skip


def _absolute(x):
    return -x if x < 0 else x


def _negative(x):
    return -x


def _square(x):
    return x * x


def _reciprocal(x):
    return 1 / x


def _sign(x):
    return 1 if x > 0 else (-1 if x < 0 else 0)


def _sign_of_float(x):
    return 1.0 if x > 0 else (-1.0 if x < 0 else x)


def _power(x, y):
    return x**y


def _remainder(x, y):
    return x % y


def _floor_divide(x, y):
    return x // y


def _is_infinite(x):
    return x - x != 0 and x == x


def _is_finite(x):
    return x - x == 0


_PLAIN = {
    np.absolute: (_absolute, "ilILfd"), np.negative: (_negative, "ilfd"),
    np.square: (_square, "ilILfd"), np.sign: (_sign, "il"), np.power: (_power, "ilIL"),
    np.remainder: (_remainder, "ilILfd"), np.floor_divide: (_floor_divide, "ilILfd"),
    np.reciprocal: (_reciprocal, "fd"),
}  # fmt: skip


def _made_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A code generator for a function of Python or of NVIDIA's library."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.compile_internal(builder, function, sig, args)

    return generate


def _call_of(name: str, arguments: int) -> Callable[..., Any]:
    call = getattr(libdevice, name)
    if arguments == 1:
        return lambda x: call(x)
    return lambda x, y: call(x, y)


def _table() -> dict[Any, dict[str, Any]]:
    table: dict[Any, dict[str, Any]] = {}
    for ufunc, name in _LIBRARY.items():
        for kind, suffix in (("d", ""), ("f", "f")):
            call = _call_of(name + suffix, ufunc.nin)
            table.setdefault(ufunc, {})[f"{kind * ufunc.nin}->{kind}"] = _made_of(call)
    for ufunc, (function, kinds) in _PLAIN.items():
        for kind in kinds:
            loop = f"{kind * ufunc.nin}->{kind}"
            table.setdefault(ufunc, {})[loop] = _made_of(function)
    table[np.sign] |= {"f->f": _made_of(_sign_of_float), "d->d": _made_of(_sign_of_float)}
    for ufunc, function in ((np.isinf, _is_infinite), (np.isfinite, _is_finite)):
        table[ufunc] = {"f->?": _made_of(function), "d->?": _made_of(function)}
    return table


_ours, _theirs = _table(), ufuncs.get_ufunc_info


def _get_ufunc_info(ufunc: Any) -> dict[str, Any]:
    """The loops of a function: those of numba-cuda, and ours where it has none."""
    loops = dict(_ours.get(ufunc, {}))
    try:
        loops |= _theirs(ufunc)
    except KeyError:
        if not loops:
            raise UnsupportedError(f"there is no numpy.{ufunc.__name__} on a GPU.") from None
    return loops


ufuncs.get_ufunc_info = _get_ufunc_info
