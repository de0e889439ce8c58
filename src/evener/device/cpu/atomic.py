"""The CPU's instructions behind `evener.device.atomic`, registered with Numba on import.

Order is relaxed ("monotonic"): an atomic protects its own element; the barriers between the stages
of a kernel make all else visible.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from evener.device import atomic, sync

_ORDER = "monotonic"


def _is_supported(array: Any) -> bool:
    return isinstance(array, types.Array) and isinstance(array.dtype, types.Integer | types.Float)


def _pointer(
    context: Any, builder: Any, array_type: Any, array: Any, index: Any, *, is_hint: bool = False
) -> Any:
    """The address of an element, checked against the bounds with NUMBA_BOUNDSCHECK=1.

    A hint may be beyond the array, since it reads nothing.
    """
    view = make_array(array_type)(context, builder, array)
    checks = context.enable_boundscheck and not is_hint
    return cgutils.get_item_pointer(context, builder, array_type, view, [index], boundscheck=checks)


def _update(instruction: Any, *, skips: str | None = None) -> Any:
    """An intrinsic around one read-modify-write instruction.

    ``instruction`` maps the element type to the name of the operation. ``skips`` compares the old
    value with the new one: if it holds, nothing would change, and a plain load, at a twentieth of
    the cost, suffices.
    """

    @intrinsic
    def update(typing: Any, array: Any, index: Any, value: Any) -> Any:
        element = array.dtype

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            position = context.cast(builder, args[1], sig.args[1], types.intp)
            new = context.cast(builder, args[2], sig.args[2], element)
            pointer = _pointer(context, builder, sig.args[0], args[0], position)
            if skips is None:
                return builder.atomic_rmw(instruction(element), pointer, new, _ORDER)
            result = cgutils.alloca_once(builder, new.type)
            old = builder.load_atomic(pointer, _ORDER, element.bitwidth // 8, typ=new.type)
            builder.store(old, result)
            if isinstance(element, types.Float):
                unchanged = builder.fcmp_ordered(skips, old, new)
            elif element.signed:
                unchanged = builder.icmp_signed(skips, old, new)
            else:
                unchanged = builder.icmp_unsigned(skips, old, new)
            with builder.if_then(builder.not_(unchanged)):
                builder.store(
                    builder.atomic_rmw(instruction(element), pointer, new, _ORDER), result
                )
            return builder.load(result)

        return signature(element, array, index, value), generate

    return update


def _named(signed: str, unsigned: str, real: str) -> Any:
    def name(element: Any) -> str:
        if isinstance(element, types.Float):
            return real
        return signed if element.signed else unsigned

    return name


_fetch_add = _update(_named("add", "add", "fadd"))
_fetch_min = _update(_named("min", "umin", "fmin"), skips="<=")
_fetch_max = _update(_named("max", "umax", "fmax"), skips=">=")
_fetch_set = _update(_named("xchg", "xchg", "xchg"))


@intrinsic
def _compare_and_set(typing: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    element = array.dtype

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        old = context.cast(builder, args[2], sig.args[2], element)
        new = context.cast(builder, args[3], sig.args[3], element)
        pointer = _pointer(context, builder, sig.args[0], args[0], position)
        bits = ir.IntType(element.bitwidth)
        if isinstance(element, types.Float):  # the instruction compares bits
            real = old.type
            old, new = builder.bitcast(old, bits), builder.bitcast(new, bits)
            pointer = builder.bitcast(pointer, bits.as_pointer())
        found = builder.extract_value(builder.cmpxchg(pointer, old, new, _ORDER, _ORDER), 0)
        return builder.bitcast(found, real) if isinstance(element, types.Float) else found

    return signature(element, array, index, expected, value), generate


_cas4: Any = _compare_and_set  # mypy sees the undecorated type

# Numba compares the names of an overload's arguments with those of the function it returns.


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
        return lambda array, index, expected, value: _cas4(array, index, expected, value)
    return None


# ---- shared words of threads, for evener.device.sync -------------------------------------------


@intrinsic
def _arrive(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        pointer = _pointer(context, builder, sig.args[0], args[0], position)
        one = context.get_constant(array.dtype, 1)
        return builder.atomic_rmw("add", pointer, one, "acq_rel")

    return signature(array.dtype, array, index), generate


@intrinsic
def _load(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        pointer = _pointer(context, builder, sig.args[0], args[0], position)
        kind = context.get_value_type(array.dtype)
        return builder.load_atomic(pointer, "acquire", array.dtype.bitwidth // 8, typ=kind)

    return signature(array.dtype, array, index), generate


@intrinsic
def _publish(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        new = context.cast(builder, args[2], sig.args[2], array.dtype)
        pointer = _pointer(context, builder, sig.args[0], args[0], position)
        builder.store_atomic(new, pointer, "release", array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature(types.none, array, index, value), generate


@intrinsic
def _fence(typing: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return signature(types.none), generate


_X86_PAUSE = "llvm.x86.sse2.pause"  # other processors just spin


@intrinsic
def _pause(typing: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, _X86_PAUSE), [])
        return context.get_dummy_value()

    return signature(types.none), generate


_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_SLEEP_MICROSECONDS = 50


@overload(sync.arrive)
def _overload_arrive(array, index):
    return lambda array, index: _arrive(array, index)  # type: ignore[call-arg]


@overload(sync.load)
def _overload_load(array, index):
    return lambda array, index: _load(array, index)  # type: ignore[call-arg]


@overload(sync.publish)
def _overload_publish(array, index, value):
    return lambda array, index, value: _publish(array, index, value)  # type: ignore[call-arg]


@overload(sync.fence)
def _overload_fence():
    return lambda: _fence()  # type: ignore[call-arg]


@overload(sync.pause)
def _overload_pause():
    return lambda: _pause()  # type: ignore[call-arg]


@overload(sync.give_way)
def _overload_give_way():
    def give_way():
        _sched_yield()

    return give_way


@overload(sync.doze)
def _overload_doze():
    def doze():
        _usleep(_SLEEP_MICROSECONDS)  # type: ignore[call-overload]

    return doze


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        pointer = _pointer(context, builder, sig.args[0], args[0], position, is_hint=True)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = word(0), word(3), word(1)
        builder.call(fetch, [builder.bitcast(pointer, byte), read, keep, data])
        return context.get_dummy_value()

    return signature(types.none, array, index), generate


@overload(sync.prefetch)
def _overload_prefetch(array, index):
    return lambda array, index: _prefetch(array, index)  # type: ignore[call-arg]


@intrinsic
def _cycles(typing: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        name = "llvm.readcyclecounter"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    return signature(types.int64), generate


@overload(sync.cycles)
def _overload_cycles():
    return lambda: _cycles()  # type: ignore[call-arg]


# ---- parking: Linux's futex, which compares the lower half of a word ---------------------------

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_FUTEX_NUMBER = _FUTEX.get(platform.machine()) if sys.platform == "linux" else None
_WAIT, _WAKE = 128, 129  # within one process
_ALL = 0x7FFFFFFF


def _futex(builder: Any, pointer: Any, operation: int, value: Any, timeout: Any) -> None:
    word = ir.IntType(64)
    kind = ir.FunctionType(word, [word], var_arg=True)
    call = cgutils.get_or_insert_function(builder.module, kind, "syscall")
    builder.call(call, [word(_FUTEX_NUMBER), pointer, word(operation), value, timeout])


def _lower_half(builder: Any, pointer: Any) -> Any:
    half = builder.bitcast(pointer, ir.IntType(32).as_pointer())
    return half if sys.byteorder == "little" else builder.gep(half, [ir.IntType(32)(1)])


@intrinsic
def _park(typing: Any, array: Any, index: Any, seen: Any, nanoseconds: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        value = context.cast(builder, args[2], sig.args[2], types.int64)
        length = context.cast(builder, args[3], sig.args[3], types.int64)
        pointer = _lower_half(builder, _pointer(context, builder, sig.args[0], args[0], position))
        word = ir.IntType(64)
        span = cgutils.alloca_once(builder, ir.ArrayType(word, 2))
        for place, part in enumerate((word(0), length)):
            at = builder.gep(span, [ir.IntType(32)(0), ir.IntType(32)(place)])
            builder.store(part, at)
        _futex(builder, pointer, _WAIT, value, span)
        return context.get_dummy_value()

    return signature(types.none, array, index, seen, nanoseconds), generate


@intrinsic
def _unpark(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        position = context.cast(builder, args[1], sig.args[1], types.intp)
        pointer = _lower_half(builder, _pointer(context, builder, sig.args[0], args[0], position))
        _futex(builder, pointer, _WAKE, ir.IntType(64)(_ALL), ir.IntType(64)(0))
        return context.get_dummy_value()

    return signature(types.none, array, index), generate


@overload(sync.park)
def _overload_park(array, index, seen, nanoseconds):
    if _FUTEX_NUMBER is None:  # no thread can be woken, so the sleep is short

        def park(array, index, seen, nanoseconds):
            _usleep(_SLEEP_MICROSECONDS)  # type: ignore[call-overload]

        return park
    return lambda array, index, seen, nanoseconds: _park4(array, index, seen, nanoseconds)


@overload(sync.unpark)
def _overload_unpark(array, index):
    if _FUTEX_NUMBER is None:
        return lambda array, index: None
    return lambda array, index: _unpark(array, index)  # type: ignore[call-arg]


_park4: Any = _park  # mypy sees the undecorated type
