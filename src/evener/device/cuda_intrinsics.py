"""The GPU's instructions behind `evener.device.atomic` and `evener.device.warp`.

Registered with numba-cuda on import. Atomics are relaxed, as on the CPU: an atomic protects its own
element; what else must be visible is made so by the barriers between the stages of a kernel.
"""

# The simulator in Numba, all that a type checker finds without numba-cuda, has other types.
# mypy: ignore-errors

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda import cgutils, libdevice, types
from numba.cuda.core.imputils import lower_constant
from numba.cuda.cudadrv.nvvm import ADDRSPACE_SHARED
from numba.cuda.cudaimpl import _generic_array
from numba.cuda.datamodel import models
from numba.cuda.extending import intrinsic, overload, register_model, typeof_impl
from numba.cuda.np.arrayobj import make_array
from numba.cuda.typing import signature

from evener.device import atomic, warp
from evener.device.states import Identity

_ORDER = "monotonic"
_I32 = ir.IntType(32)
_FULL = ir.Constant(_I32, -1)  # all lanes take part


# ---- atomics -----------------------------------------------------------------------------------


def _is_supported(array: Any) -> bool:
    return (
        isinstance(array, types.Array)
        and isinstance(array.dtype, types.Integer | types.Float)
        and array.dtype.bitwidth >= 32
    )


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    view = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [index])


def _operands(context: Any, builder: Any, sig: Any, args: Any) -> tuple[Any, ...]:
    """The pointer to the element and the values in its type."""
    element = sig.args[0].dtype
    position = context.cast(builder, args[1], sig.args[1], types.intp)
    pointer = _pointer(context, builder, sig.args[0], args[0], position)
    values = [
        context.cast(builder, value, kind, element)
        for value, kind in zip(args[2:], sig.args[2:], strict=True)
    ]
    return (pointer, *values)


def _as_bits(builder: Any, element: Any, pointer: Any, *values: Any) -> tuple[Any, ...]:
    """Floats as integers of their width: those have all the instructions."""
    if not isinstance(element, types.Float):
        return (pointer, *values)
    bits = ir.IntType(element.bitwidth)
    cast = [builder.bitcast(value, bits) for value in values]
    return (builder.bitcast(pointer, bits.as_pointer()), *cast)


def _as_element(builder: Any, element: Any, value: Any) -> Any:
    if isinstance(element, types.Float):
        return builder.bitcast(value, ir.FloatType() if element.bitwidth == 32 else ir.DoubleType())
    return value


@intrinsic
def _fetch_add(typing, array, index, value):
    element = array.dtype

    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        if not isinstance(element, types.Float):
            return builder.atomic_rmw("add", pointer, new, _ORDER)
        width = element.bitwidth
        constraint = "=f,l,f" if width == 32 else "=d,l,d"
        kind = ir.FunctionType(new.type, [ir.IntType(64), new.type])
        code = ir.InlineAsm(
            kind, f"atom.add.f{width} $0, [$1], $2;", constraint + ",~{memory}", side_effect=True
        )
        return builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64)), new])

    return signature(element, array, index, value), generate


def _extreme(lower: bool) -> Any:
    """The instructions of min (``lower``) or max, tried only where a plain load says they matter.

    Positive floats are ordered like their bits as signed integers, negative ones the other way
    round as unsigned; a zero is made a positive one. Not-a-numbers change nothing.
    """

    @intrinsic
    def update(typing, array, index, value):
        element = array.dtype

        def generate(context, builder, sig, args):
            pointer, new = _operands(context, builder, sig, args)
            old = builder.load(pointer)
            result = cgutils.alloca_once_value(builder, old)
            sign = "<" if lower else ">"
            if isinstance(element, types.Float):
                matters = builder.fcmp_ordered(sign, new, old)
            elif element.signed:
                matters = builder.icmp_signed(sign, new, old)
            else:
                matters = builder.icmp_unsigned(sign, new, old)
            with builder.if_then(matters):
                if isinstance(element, types.Float):
                    zero = ir.Constant(new.type, 0.0)
                    negative = builder.fcmp_ordered("<", new, zero)
                    new = builder.fadd(new, zero)
                    place, bits = _as_bits(builder, element, pointer, new)
                    first, second = ("min", "umax") if lower else ("max", "umin")
                    with builder.if_else(negative) as (then, otherwise):
                        with then:
                            was = builder.atomic_rmw(second, place, bits, _ORDER)
                            builder.store(_as_element(builder, element, was), result)
                        with otherwise:
                            was = builder.atomic_rmw(first, place, bits, _ORDER)
                            builder.store(_as_element(builder, element, was), result)
                else:
                    name = ("" if element.signed else "u") + ("min" if lower else "max")
                    builder.store(builder.atomic_rmw(name, pointer, new, _ORDER), result)
            return builder.load(result)

        return signature(element, array, index, value), generate

    return update


_fetch_min, _fetch_max = _extreme(True), _extreme(False)


@intrinsic
def _fetch_set(typing, array, index, value):
    element = array.dtype

    def generate(context, builder, sig, args):
        operands = _operands(context, builder, sig, args)
        pointer, new = _as_bits(builder, element, *operands)
        return _as_element(builder, element, builder.atomic_rmw("xchg", pointer, new, _ORDER))

    return signature(element, array, index, value), generate


@intrinsic
def _compare_and_set(typing, array, index, expected, value):
    element = array.dtype

    def generate(context, builder, sig, args):
        operands = _operands(context, builder, sig, args)
        pointer, old, new = _as_bits(builder, element, *operands)
        found = builder.extract_value(builder.cmpxchg(pointer, old, new, _ORDER, _ORDER), 0)
        return _as_element(builder, element, found)

    return signature(element, array, index, expected, value), generate


@overload(atomic.add)
def _add(array, index, value):
    if _is_supported(array):
        return lambda array, index, value: _fetch_add(array, index, value)
    return None


@overload(atomic.min)
def _min(array, index, value):
    if _is_supported(array):
        return lambda array, index, value: _fetch_min(array, index, value)
    return None


@overload(atomic.max)
def _max(array, index, value):
    if _is_supported(array):
        return lambda array, index, value: _fetch_max(array, index, value)
    return None


@overload(atomic.exchange)
def _exchange(array, index, value):
    if _is_supported(array):
        return lambda array, index, value: _fetch_set(array, index, value)
    return None


@overload(atomic.cas)
def _cas(array, index, expected, value):
    if _is_supported(array):
        return lambda array, index, expected, value: _compare_and_set(array, index, expected, value)
    return None


# ---- places in the grid ------------------------------------------------------------------------


@overload(warp.thread_of_block)
def _thread_of_block():
    return lambda: np.int64(cuda.threadIdx.x)


@overload(warp.block)
def _block():
    return lambda: np.int64(cuda.blockIdx.x)


@overload(warp.num_blocks)
def _num_blocks():
    return lambda: np.int64(cuda.gridDim.x)


# ---- lanes -------------------------------------------------------------------------------------


@intrinsic
def _vote(typing, holds):
    def generate(context, builder, sig, args):
        kind = ir.FunctionType(_I32, [_I32, ir.IntType(1)])
        name = "llvm.nvvm.vote.ballot.sync"
        code = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(code, [_FULL, context.is_true(builder, sig.args[0], args[0])])

    return signature(types.uint32, holds), generate


def _exchange_lanes(mode: str, clamp: int) -> Any:
    """One kind of shuffle, for values of up to 64 bits: two instructions for the wide ones."""

    @intrinsic
    def move(typing, value, where):
        def generate(context, builder, sig, args):
            kind = ir.FunctionType(_I32, [_I32, _I32, _I32, _I32])
            name = f"llvm.nvvm.shfl.sync.{mode}.i32"
            code = cgutils.get_or_insert_function(builder.module, kind, name)
            lane = context.cast(builder, args[1], sig.args[1], types.int32)

            def moved(word: Any) -> Any:
                return builder.call(code, [_FULL, word, lane, ir.Constant(_I32, clamp)])

            given = args[0]
            if isinstance(sig.args[0], types.Float):
                wide = ir.IntType(sig.args[0].bitwidth)
                bits = builder.bitcast(given, wide)
            else:
                bits, wide = given, given.type
            if wide.width == 64:
                low = moved(builder.trunc(bits, _I32))
                high = moved(builder.trunc(builder.lshr(bits, ir.Constant(wide, 32)), _I32))
                upper = builder.shl(builder.zext(high, wide), ir.Constant(wide, 32))
                result = builder.or_(upper, builder.zext(low, wide))
            elif wide.width == 32:
                result = moved(bits)
            else:
                result = builder.trunc(moved(builder.zext(bits, _I32)), wide)
            return builder.bitcast(result, given.type) if given.type != wide else result

        return signature(value, value, where), generate

    return move


_shuffle_index = _exchange_lanes("idx", 31)
_shuffle_up = _exchange_lanes("up", 0)
_shuffle_xor = _exchange_lanes("bfly", 31)


@overload(warp.ballot)
def _overload_ballot(holds):
    return lambda holds: _vote(holds)


@overload(warp.shuffle)
def _overload_shuffle(value, lane):
    return lambda value, lane: _shuffle_index(value, lane)


@overload(warp.shuffle_up)
def _overload_shuffle_up(value, delta):
    return lambda value, delta: _shuffle_up(value, delta)


@overload(warp.shuffle_xor)
def _overload_shuffle_xor(value, mask):
    return lambda value, mask: _shuffle_xor(value, mask)


@overload(warp.count_bits)
def _overload_count_bits(word):
    return lambda word: np.int64(cuda.popc(np.uint32(word)))


@overload(warp.lowest_bit)
def _overload_lowest_bit(word):
    return lambda word: np.int64(cuda.ffs(np.uint32(word))) - 1


@intrinsic
def _fetch_or(typing, array, index, value):
    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        builder.atomic_rmw("or", pointer, new, _ORDER)
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


@overload(warp.set_bits)
def _overload_set_bits(array, index, bits):
    def set_bits(array, index, bits):
        _fetch_or(array, index, bits)

    return set_bits


@overload(warp.sync_warp)
def _overload_sync_warp():
    return lambda: cuda.syncwarp()


# ---- blocks and the grid -----------------------------------------------------------------------


@overload(warp.sync_block)
def _overload_sync_block():
    return lambda: cuda.syncthreads()


def _load(text: str) -> Any:
    """An instruction that loads the word of 32 bits at the address $1."""

    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        kind = ir.FunctionType(_I32, [ir.IntType(64)])
        code = ir.InlineAsm(kind, text, "=r,l,~{memory}", side_effect=True)
        return builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64))])

    return generate


@intrinsic
def _arrive(typing, array, index, value):
    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64), _I32])
        text = "red.release.gpu.add.u32 [$0], $1;"
        code = ir.InlineAsm(kind, text, "l,r,~{memory}", side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64)), new])
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


@intrinsic
def _load_now(typing, array, index):
    return signature(array.dtype, array, index), _load("ld.relaxed.gpu.u32 $0, [$1];")


@intrinsic
def _load_after(typing, array, index):
    return signature(array.dtype, array, index), _load("ld.acquire.gpu.u32 $0, [$1];")


@overload(warp.arrive)
def _overload_arrive(array, index, value):
    def arrive(array, index, value):
        _arrive(array, index, value)

    return arrive


@overload(warp.load_now)
def _overload_load_now(array, index):
    return lambda array, index: _load_now(array, index)


@overload(warp.load_after)
def _overload_load_after(array, index):
    return lambda array, index: _load_after(array, index)


@intrinsic
def _ask_for(typing, array, index):
    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        code = ir.InlineAsm(kind, "prefetch.global.L2 [$0];", "l", side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64))])
        return context.get_dummy_value()

    return signature(types.none, array, index), generate


@overload(warp.prefetch)
def _overload_prefetch(array, index):
    def prefetch(array, index):
        _ask_for(array, index)

    return prefetch


@intrinsic
def _told(typing, array, index, value):
    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word])
        text = "st.release.sys.u64 [$0], $1;"
        code = ir.InlineAsm(kind, text, "l,l,~{memory}", side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, word), new])
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


@intrinsic
def _hear(typing, array, index):
    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        word = ir.IntType(64)
        text = "ld.acquire.sys.u64 $0, [$1];"
        code = ir.InlineAsm(ir.FunctionType(word, [word]), text, "=l,l,~{memory}", side_effect=True)
        return builder.call(code, [builder.ptrtoint(pointer, word)])

    return signature(array.dtype, array, index), generate


@overload(warp.told)
def _overload_told(array, index, value):
    def told(array, index, value):
        _told(array, index, value)

    return told


@overload(warp.hear)
def _overload_hear(array, index):
    return lambda array, index: _hear(array, index)


@overload(warp.fence_host)
def _overload_fence_host():
    return lambda: cuda.threadfence_system()


@intrinsic
def _shared_parts(typing, like):
    """One array for each dtype, however many functions use it: they are linked more than once."""

    def generate(context, builder, sig, args):
        before = set(builder.module.global_values)
        array = _generic_array(
            context, builder, shape=(warp.BLOCK // warp.WARP,), dtype=like.dtype,
            symbol_name=f"evener_parts_{like.dtype}", addrspace=ADDRSPACE_SHARED,
        )  # fmt: skip
        for made in set(builder.module.global_values) - before:
            made.linkage = "linkonce_odr"
        return array

    return signature(types.Array(like.dtype, 1, "C"), like), generate


# Inlined by Numba, since a function may not return an array that it did not get.


@overload(warp.shared_buffer, inline="always")
def _overload_shared_buffer(like):
    size, kind = warp.BUFFER * warp.BLOCK // warp.WARP, like.dtype
    return lambda like: cuda.shared.array(size, kind)


@overload(warp.shared_parts, inline="always")
def _overload_shared_parts(like):
    return lambda like: _shared_parts(like)


@intrinsic
def _clock(typing):
    def generate(context, builder, sig, args):
        code = ir.InlineAsm(
            ir.FunctionType(ir.IntType(64), []), "mov.u64 $0, %clock64;", "=l", side_effect=True
        )
        return builder.call(code, [])

    return signature(types.int64), generate


@overload(warp.cycles)
def _overload_cycles():
    return lambda: _clock()


# ---- floats ------------------------------------------------------------------------------------


@cuda.jit(device=True, forceinline=True)
def rounded_product(a, b):
    """`evener.device.random.rounded_product`: an instruction that is never fused."""
    return libdevice.dmul_rn(a, b)


# ---- the table of ids --------------------------------------------------------------------------


class IdentityType(types.Type):
    """The type of `Identity`."""

    def __init__(self) -> None:
        super().__init__(name="Identity")


identity_type = IdentityType()
register_model(IdentityType)(models.OpaqueModel)


@typeof_impl.register(Identity)
def _typeof(value: Any, context: Any) -> IdentityType:
    return identity_type


@lower_constant(IdentityType)
def _identity_constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


@overload(operator.getitem)
def _getitem(table, index):
    if isinstance(table, IdentityType) and isinstance(index, types.Integer):
        return lambda table, index: np.int64(index)
    return None
