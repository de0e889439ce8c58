"""Guarded operations for the functors of checked programs, which record faults.

A fault is recorded in a field of the program, at a vertex that the device owns, as the number of
its place in the source and the other end of the edge. Places are numbered from last to first and
the maximum is kept, so that the first place in the source wins. The run continues with a safe
value and reports faults at its end.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic
from evener.programs.functors import routine

OTHER_BITS = 44  # low bits of a fault, for the index of the other end; the place is above them

_WRAPPED = 4e18  # an integer that wraps around is off by 2**64
_ROUNDED = 1e-6  # a 32-bit float is off by less than this share


@routine
def note(faults, at, place, other):
    """Record a fault."""
    atomic.max(faults, at, (np.int64(place) << np.int64(44)) + np.int64(other))
    return 0


@routine
def index(faults, at, place, other, value, length):
    """An index that must be within bounds."""
    if value < 0 or value >= length:
        note(faults, at, place, other)
        return value - value
    return value


@routine
def entry(faults, at, place, other, value, length):
    """An index into an array or a tuple, where negative ones count from the end."""
    if value < -length or value >= length:
        note(faults, at, place, other)
        return value - value
    return value


@routine
def divisor(faults, at, place, other, value):
    """A divisor."""
    if value == 0:
        note(faults, at, place, other)
        return value + 1
    return value


@routine
def number(faults, at, place, other, value):
    """A value that must not be NaN."""
    if value != value:
        note(faults, at, place, other)
    return value


@routine
def whole(faults, at, place, other, value, low, high):
    """A value that is converted to an integer with these limits."""
    if not (value >= low and value <= high):
        note(faults, at, place, other)
        return value < value  # 0, also for infinity and NaN
    return value


@routine
def single(faults, at, place, other, value, high):
    """A value that is converted to a 32-bit float: infinite or not too large."""
    if value != value or (abs(value) > high and value * 0 == 0):
        note(faults, at, place, other)
    return value


@routine
def add(faults, at, place, other, a, b):
    """A sum that must not overflow."""
    found, wanted = a + b, 1.0 * a + b
    if a * 0 == 0 and b * 0 == 0 and not abs(wanted - found) <= _WRAPPED + _ROUNDED * abs(wanted):
        note(faults, at, place, other)
    return found


@routine
def subtract(faults, at, place, other, a, b):
    """A difference that must not overflow."""
    found, wanted = a - b, 1.0 * a - b
    if a * 0 == 0 and b * 0 == 0 and not abs(wanted - found) <= _WRAPPED + _ROUNDED * abs(wanted):
        note(faults, at, place, other)
    return found


@routine
def multiply(faults, at, place, other, a, b):
    """A product that must not overflow."""
    found, wanted = a * b, 1.0 * a * b
    if a * 0 == 0 and b * 0 == 0 and not abs(wanted - found) <= _WRAPPED + _ROUNDED * abs(wanted):
        note(faults, at, place, other)
    return found


@routine
def negate(faults, at, place, other, value):
    """A negated number: the least integer has no opposite."""
    found = -value
    if value * 0 == 0 and abs(1.0 * found + 1.0 * value) > _WRAPPED:
        note(faults, at, place, other)
    return found


@routine
def magnitude(faults, at, place, other, value):
    """An absolute value."""
    found = abs(value)
    if found < 0:
        note(faults, at, place, other)
    return found


@routine
def shift(faults, at, place, other, a, b):
    """A left shift that must not overflow."""
    found = a << b
    if b < 0 or b > 63 or abs(a * 2.0**b - found) > _WRAPPED:
        note(faults, at, place, other)
    return found


@routine
def power(faults, at, place, other, a, b):
    """A power that must not overflow."""
    found, wanted = a**b, (1.0 * a) ** b
    if a * 0 == 0 and b * 0 == 0 and not abs(wanted - found) <= _WRAPPED + _ROUNDED * abs(wanted):
        note(faults, at, place, other)
    return found


@routine
def added(faults, at, place, other, value, old, low, high):
    """The old value of an addition to a field with these limits."""
    wanted = 1.0 * old + value
    if wanted < low or wanted > high or abs(wanted - (old + value)) > _WRAPPED:
        note(faults, at, place, other)
    return old


GUARDS = (
    index, entry, divisor, number, whole, single, add, subtract, multiply, negate, magnitude, shift,
    power, added,
)  # fmt: skip
