"""Our own types for compiled code, registered with Numba on import."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba.core import types
from numba.core.imputils import lower_constant
from numba.extending import (
    NativeValue,
    box,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)

from evener.device.tuples import Identity


class IdentityType(types.Type):
    """The type of `Identity`."""

    def __init__(self) -> None:
        super().__init__(name="Identity")


identity_type = IdentityType()
register_model(IdentityType)(models.OpaqueModel)


@typeof_impl.register(Identity)
def _typeof(value: Any, context: Any) -> IdentityType:
    return identity_type


@unbox(IdentityType)
def _unbox(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(context.context.get_dummy_value())


@box(IdentityType)
def _box(kind: Any, value: Any, context: Any) -> Any:
    return context.pyapi.unserialize(context.pyapi.serialize_object(Identity()))


@overload(operator.getitem)
def _getitem(table, index):
    if isinstance(table, IdentityType) and isinstance(index, types.Integer):
        return lambda table, index: np.int64(index)
    return None


class FunctionType(types.Dispatcher):
    """The type of one of our compiled functions as a value, such as an operator's argument.

    The type alone says which function is called. Numba would still write the address of its
    Python object into the code, which could then not be kept on disk.
    """


register_model(FunctionType)(models.OpaqueModel)


@lower_constant(FunctionType)
def _function_constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()
