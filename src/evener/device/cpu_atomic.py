"""The CPU's instructions behind `evener.device.atomic`, registered with Numba on import."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from evener.device import atomic


@intrinsic
def _fetch_add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    if not isinstance(array.dtype, types.Integer):
        return None
    element = array.dtype

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        view = make_array(sig.args[0])(context, builder, args[0])
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        amount = context.cast(builder, args[2], sig.args[2], element)
        pointer = cgutils.get_item_pointer(context, builder, sig.args[0], view, [position])
        return builder.atomic_rmw("add", pointer, amount, "seq_cst")

    return signature(element, array, index, value), generate


@overload(atomic.add)
def _add(array, index, value):  # Numba compares these names with the lambda's
    if isinstance(array, types.Array) and isinstance(array.dtype, types.Integer):
        return lambda array, index, value: _fetch_add(array, index, value)  # type: ignore[call-arg]
    return None
