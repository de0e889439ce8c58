"""Arrays in kernels of a GPU: an address and a length.

Numba's own array type is seven words. States, frontiers and teams are tuples of arrays, and pass
through a hundred functions before these are inlined, so the size of an array determines how much
there is to compile: with two words the code of betweenness is less than half as long before it is
optimized.

This module has what kernels do with arrays: items, slices, length. For anything else Numba gets an
array of its own type.
"""

# mypy: ignore-errors

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.imputils import Registry
from numba.cuda.cpython import slicing
from numba.cuda.datamodel import models
from numba.cuda.descriptor import cuda_target
from numba.cuda.extending import register_model
from numba.cuda.np import arrayobj
from numba.cuda.np.arrayobj import make_array, populate_array

_registry = Registry("evener arrays")
_lower, _lower_getattr, _lower_cast = (
    _registry.lower, _registry.lower_getattr, _registry.lower_cast
)  # fmt: skip


class SpanType(types.Array):
    """One-dimensional, contiguous, and without an owner: there are no reference counts."""

    def __init__(self, dtype: Any):
        super().__init__(dtype, 1, "C", name=f"span({dtype})")

    @property
    def as_array(self) -> types.Array:
        """Numba's type of the same array."""
        return types.Array(self.dtype, 1, "C")

    @property
    def mangling_args(self) -> tuple[str, list[Any]]:
        """The type in names of functions."""
        return "span", [self.dtype]

    def copy(
        self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None
    ) -> types.Array:
        """The type of a part of it: also a span if contiguous."""
        if ndim in (None, 1) and layout in (None, "C") and not readonly:
            return SpanType(dtype or self.dtype)
        return self.as_array.copy(dtype, ndim, layout, readonly)


@register_model(SpanType)
class _SpanModel(models.StructModel):
    def __init__(self, manager: Any, kind: SpanType):
        members = [("data", types.CPointer(kind.dtype)), ("size", types.intp)]
        super().__init__(manager, kind, members)


def span_of(context: Any, builder: Any, kind: SpanType, data: Any, size: Any) -> Any:
    """A span made of an address and a length."""
    span = cgutils.create_struct_proxy(kind)(context, builder)
    span.data, span.size = data, size
    return span._getvalue()


def item_pointer(context: Any, builder: Any, kind: Any, span: Any, index_type: Any, i: Any) -> Any:
    """The address of an item; a negative index counts from the end, if it is signed."""
    data = builder.extract_value(span, 0)
    if index_type.signed:
        i = context.cast(builder, i, index_type, types.intp)
        i = slicing.fix_index(builder, i, builder.extract_value(span, 1))
    else:
        i = context.cast(builder, i, index_type, types.uintp)
    return builder.gep(data, [i])


@_lower(operator.getitem, SpanType, types.Integer)
def _getitem(context, builder, sig, args):
    pointer = item_pointer(context, builder, sig.args[0], args[0], sig.args[1], args[1])
    return context.unpack_value(builder, sig.args[0].dtype, pointer)


@_lower(operator.setitem, SpanType, types.Integer, types.Any)
def _setitem(context, builder, sig, args):
    kind, index_type, value_type = sig.args
    pointer = item_pointer(context, builder, kind, args[0], index_type, args[1])
    value = context.cast(builder, args[2], value_type, kind.dtype)
    context.pack_value(builder, kind.dtype, value, pointer)
    return context.get_dummy_value()


@_lower(operator.getitem, SpanType, types.slice2_type)
def _getslice(context, builder, sig, args):
    kind = sig.args[0]
    part = context.make_helper(builder, sig.args[1], args[1])
    size = builder.extract_value(args[0], 1)
    zero = ir.Constant(size.type, 0)

    def within(bound: Any) -> Any:
        bound = slicing.fix_index(builder, bound, size)
        bound = builder.select(builder.icmp_signed("<", bound, zero), zero, bound)
        return builder.select(builder.icmp_signed(">", bound, size), size, bound)

    first, last = within(part.start), within(part.stop)
    length = builder.sub(last, first)
    length = builder.select(builder.icmp_signed("<", length, zero), zero, length)
    data = builder.gep(builder.extract_value(args[0], 0), [first])
    return span_of(context, builder, kind, data, length)


@_lower(len, SpanType)
def _len(context, builder, sig, args):
    return builder.extract_value(args[0], 1)


@_lower_getattr(SpanType, "size")
def _size(context, builder, kind, value):
    return builder.extract_value(value, 1)


@_lower_cast(SpanType, types.Array)
def _cast(context, builder, from_type, to_type, value):
    return _numba_array(context, builder, from_type, value)._getvalue()


def _numba_array(context: Any, builder: Any, kind: SpanType, value: Any) -> Any:
    data, size = builder.extract_value(value, 0), builder.extract_value(value, 1)
    itemsize = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    array = make_array(kind.as_array)(context, builder)
    populate_array(array, data, [size], [itemsize], itemsize, meminfo=None)
    return array


def _make_array(kind: Any) -> Any:
    """Numba's `make_array`, which for a span makes one of Numba's structures.

    ``__array__``, Numba's hook for such types, is asked for the structure before there is a value:
    it only suits what is a structure of Numba's too, seen through a pointer.
    """
    if not isinstance(kind, SpanType):
        return make_array(kind)

    class OfSpan(make_array(kind.as_array)):
        def __init__(self, context: Any, builder: Any, value: Any = None, ref: Any = None):
            if value is not None:
                value = _numba_array(context, builder, kind, value)._getvalue()
            super().__init__(context, builder, value, ref)

    return OfSpan


def install(generate: Any, arguments: Any) -> None:
    """Register a function that generates code for arguments of these types."""
    _lower(generate, *arguments)(generate)
    cuda_target.target_context.install_registry(_registry)


arrayobj.make_array = _make_array
cuda_target.target_context.refresh()  # others may register with the first registry
cuda_target.target_context.install_registry(_registry)
