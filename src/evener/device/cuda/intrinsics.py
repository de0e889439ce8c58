"""The GPU's instructions behind `evener.device.atomic` and `evener.device.warp`.

Registered with numba-cuda on import. Atomics are relaxed, as on the CPU: an atomic protects its own
element; the barriers between the stages of a kernel make all else visible.
"""

# Without numba-cuda a type checker finds Numba's simulator, which has other types.
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
from numba.cuda.datamodel import models
from numba.cuda.extending import overload, register_model, typeof_impl
from numba.cuda.typing import signature
from numba.cuda.typing.templates import AbstractTemplate, infer_global

from evener.device import atomic, warp
from evener.device.cuda.arrays import SpanType, install, span_of
from evener.device.tuples import Identity

_ORDER = "monotonic"
_I32 = ir.IntType(32)
_FULL = ir.Constant(_I32, -1)  # all lanes take part


def _instruction(function: Any) -> Any:
    """Define a plain function on a GPU: by a signature, and what generates its code.

    An ``overload`` would be one more function to compile for each.
    """

    def register(define: Any) -> Any:
        found: dict[Any, Any] = {}

        class Template(AbstractTemplate):
            key = function
            metadata = {"target": "cuda"}  # noqa: RUF012  preferred to the CPU's

            def generic(self, args: Any, kws: Any) -> Any:
                if args not in found:
                    found[args] = define(self.context, *args)
                    if found[args] is not None:
                        kind, generate = found[args]
                        install(generate, kind.args)
                return found[args] and found[args][0]

            def get_impl_key(self, sig: Any) -> Any:
                return found[sig.args][1]

        infer_global(function, types.Function(Template))
        return define

    return register


# ---- atomics -----------------------------------------------------------------------------------


def _is_supported(array: Any) -> bool:
    return (
        isinstance(array, SpanType)
        and isinstance(array.dtype, types.Integer | types.Float)
        and array.dtype.bitwidth >= 32
    )


def _operands(context: Any, builder: Any, sig: Any, args: Any) -> tuple[Any, ...]:
    """The pointer to the element and the values in its type."""
    element = sig.args[0].dtype
    position = context.cast(builder, args[1], sig.args[1], types.intp)
    pointer = builder.gep(builder.extract_value(args[0], 0), [position])
    values = [
        context.cast(builder, value, kind, element)
        for value, kind in zip(args[2:], sig.args[2:], strict=True)
    ]
    return (pointer, *values)


def _as_bits(builder: Any, element: Any, pointer: Any, *values: Any) -> tuple[Any, ...]:
    """Floats as integers of their width, which have all instructions."""
    if not isinstance(element, types.Float):
        return (pointer, *values)
    bits = ir.IntType(element.bitwidth)
    cast = [builder.bitcast(value, bits) for value in values]
    return (builder.bitcast(pointer, bits.as_pointer()), *cast)


def _as_element(builder: Any, element: Any, value: Any) -> Any:
    if isinstance(element, types.Float):
        return builder.bitcast(value, ir.FloatType() if element.bitwidth == 32 else ir.DoubleType())
    return value


@_instruction(atomic.add)
def _fetch_add(typing, array, index, value):
    if not _is_supported(array):
        return None
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


def _extreme(function: Any, lower: bool) -> None:
    """The instructions of min (``lower``) or max, run only if a plain load shows that they matter.

    Positive floats are ordered like their bits as signed integers, negative ones in reverse as
    unsigned; a zero is made positive. NaNs change nothing.
    """

    @_instruction(function)
    def update(typing, array, index, value):
        if not _is_supported(array):
            return None
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


_extreme(atomic.min, True)
_extreme(atomic.max, False)


@_instruction(atomic.exchange)
def _fetch_set(typing, array, index, value):
    if not _is_supported(array):
        return None
    element = array.dtype

    def generate(context, builder, sig, args):
        operands = _operands(context, builder, sig, args)
        pointer, new = _as_bits(builder, element, *operands)
        return _as_element(builder, element, builder.atomic_rmw("xchg", pointer, new, _ORDER))

    return signature(element, array, index, value), generate


@_instruction(atomic.cas)
def _compare_and_set(typing, array, index, expected, value):
    if not _is_supported(array):
        return None
    element = array.dtype

    def generate(context, builder, sig, args):
        operands = _operands(context, builder, sig, args)
        pointer, old, new = _as_bits(builder, element, *operands)
        found = builder.extract_value(builder.cmpxchg(pointer, old, new, _ORDER, _ORDER), 0)
        return _as_element(builder, element, found)

    return signature(element, array, index, expected, value), generate


# ---- positions in the grid ---------------------------------------------------------------------


def _place(function: Any, register: str) -> None:
    @_instruction(function)
    def read(typing):
        def generate(context, builder, sig, args):
            kind, name = ir.FunctionType(_I32, []), f"llvm.nvvm.read.ptx.sreg.{register}"
            code = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.zext(builder.call(code, []), ir.IntType(64))

        return signature(types.int64), generate


_place(warp.thread_of_block, "tid.x")
_place(warp.block, "ctaid.x")
_place(warp.num_blocks, "nctaid.x")


# ---- lanes -------------------------------------------------------------------------------------


@_instruction(warp.ballot)
def _vote(typing, holds):
    def generate(context, builder, sig, args):
        kind = ir.FunctionType(_I32, [_I32, ir.IntType(1)])
        name = "llvm.nvvm.vote.ballot.sync"
        code = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(code, [_FULL, context.is_true(builder, sig.args[0], args[0])])

    return signature(types.uint32, holds), generate


def _exchange_lanes(function: Any, mode: str, clamp: int) -> None:
    """One kind of shuffle, for values of up to 64 bits: two instructions for wide ones."""

    @_instruction(function)
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


_exchange_lanes(warp.shuffle, "idx", 31)
_exchange_lanes(warp.shuffle_up, "up", 0)
_exchange_lanes(warp.shuffle_xor, "bfly", 31)


def _of_word(function: Any, count: Any) -> None:
    """A count over the bits of a 32-bit word."""

    @_instruction(function)
    def of_word(typing, word):
        def generate(context, builder, sig, args):
            bits = context.cast(builder, args[0], sig.args[0], types.uint32)
            return builder.zext(count(builder, bits), ir.IntType(64))

        return signature(types.int64, word), generate


_of_word(warp.count_bits, lambda builder, bits: builder.ctpop(bits))
_of_word(warp.lowest_bit, lambda builder, bits: builder.cttz(bits, ir.Constant(ir.IntType(1), 1)))


@_instruction(warp.set_bits)
def _fetch_or(typing, array, index, value):
    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        builder.atomic_rmw("or", pointer, new, _ORDER)
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


def _plain(function: Any, name: str, *given: Any) -> None:
    """An instruction without arguments and result."""

    @_instruction(function)
    def plain(typing):
        def generate(context, builder, sig, args):
            kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), given)
            return context.get_dummy_value()

        return signature(types.none), generate


_plain(warp.sync_warp, "llvm.nvvm.bar.warp.sync", _FULL)


# ---- blocks and the grid -----------------------------------------------------------------------


_plain(warp.sync_block, "llvm.nvvm.barrier0")
_plain(warp.fence_host, "llvm.nvvm.membar.sys")


def _load(text: str) -> Any:
    """An instruction that loads the 32-bit word at the address $1."""

    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        kind = ir.FunctionType(_I32, [ir.IntType(64)])
        code = ir.InlineAsm(kind, text, "=r,l,~{memory}", side_effect=True)
        return builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64))])

    return generate


@_instruction(warp.arrive)
def _arrive(typing, array, index, value):
    def generate(context, builder, sig, args):
        pointer, new = _operands(context, builder, sig, args)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64), _I32])
        text = "red.release.gpu.add.u32 [$0], $1;"
        code = ir.InlineAsm(kind, text, "l,r,~{memory}", side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64)), new])
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


@_instruction(warp.load_now)
def _load_now(typing, array, index):
    return signature(array.dtype, array, index), _load("ld.relaxed.gpu.u32 $0, [$1];")


@_instruction(warp.load_after)
def _load_after(typing, array, index):
    return signature(array.dtype, array, index), _load("ld.acquire.gpu.u32 $0, [$1];")


@_instruction(warp.prefetch)
def _ask_for(typing, array, index):
    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        code = ir.InlineAsm(kind, "prefetch.global.L2 [$0];", "l", side_effect=True)
        builder.call(code, [builder.ptrtoint(pointer, ir.IntType(64))])
        return context.get_dummy_value()

    return signature(types.none, array, index), generate


@_instruction(warp.told)
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


@_instruction(warp.hear)
def _hear(typing, array, index):
    def generate(context, builder, sig, args):
        (pointer,) = _operands(context, builder, sig, args)
        word = ir.IntType(64)
        text = "ld.acquire.sys.u64 $0, [$1];"
        code = ir.InlineAsm(ir.FunctionType(word, [word]), text, "=l,l,~{memory}", side_effect=True)
        return builder.call(code, [builder.ptrtoint(pointer, word)])

    return signature(array.dtype, array, index), generate


def _shared(function: Any, name: str, size: int) -> None:
    """An array in shared memory: all functions that use it with one dtype share it."""

    @_instruction(function)
    def shared(typing, like):
        kind = SpanType(like.dtype)

        def generate(context, builder, sig, args):
            element = context.get_data_type(like.dtype)
            symbol = f"evener_{name}_{like.dtype}"
            made = builder.module.globals.get(symbol)
            if made is None:
                room = ir.ArrayType(element, size)
                made = cgutils.add_global_variable(builder.module, room, symbol, ADDRSPACE_SHARED)
                made.initializer = ir.Constant(room, ir.Undefined)
                made.linkage = "linkonce_odr"
                made.align = like.dtype.bitwidth // 8
            data = builder.addrspacecast(made, element.as_pointer(), "generic")
            return span_of(context, builder, kind, data, context.get_constant(types.intp, size))

        return signature(kind, like), generate


_shared(warp.shared_buffer, "buffer", warp.BUFFER * warp.BLOCK // warp.WARP)
_shared(warp.shared_parts, "parts", warp.BLOCK // warp.WARP)


@_instruction(warp.cycles)
def _clock(typing):
    def generate(context, builder, sig, args):
        code = ir.InlineAsm(
            ir.FunctionType(ir.IntType(64), []), "mov.u64 $0, %clock64;", "=l", side_effect=True
        )
        return builder.call(code, [])

    return signature(types.int64), generate


@_instruction(warp.unknown)
def _unknown(typing, value):
    def generate(context, builder, sig, args):
        word = ir.IntType(64)
        code = ir.InlineAsm(ir.FunctionType(word, [word]), "mov.b64 $0, $1;", "=l,l")
        return builder.call(code, [context.cast(builder, args[0], sig.args[0], types.int64)])

    return signature(types.int64, value), generate


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
