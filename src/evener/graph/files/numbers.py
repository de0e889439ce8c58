"""Compiled parsing of numbers in text: whole numbers and correctly rounded decimals.

Positions are always uint64: with signed positions every access checks for a negative index, which
made the edge-list parser three times slower.

Decimals follow Lemire, *Number parsing at a gigabyte per second* (2021): an exact product if digits
and exponent are small, otherwise one or two 64 × 64-bit products with a table of powers of five.
In a decimal, digits after the nineteenth significant one are ignored; a whole number that no
float64 equals is refused.
"""

from __future__ import annotations

import math

import numpy as np

from evener.device import compiled

# Outcomes of reading a number.
OK = 0
NOT_A_NUMBER = 1
TOO_LARGE = 2
NEEDS_FLOAT = 3  # a decimal instead of a whole number
INFINITE = 4  # a decimal that overflows a float64
INEXACT = 5  # a whole number that no float64 equals, where a float64 is wanted

_MIN_POWER, _MAX_POWER = -342, 308  # beyond these every float64 is zero or infinite
_MAX_INT64_DIGITS = np.uint64(18)  # any number of 18 digits fits 63 bits

_U0, _U1, _U3, _U5 = (np.uint64(value) for value in (0, 1, 3, 5))
_U8 = np.uint64(8)
_U10, _U32, _U63 = np.uint64(10), np.uint64(32), np.uint64(63)
_LOW32 = np.uint64(0xFFFFFFFF)
_INT64_MAX = np.uint64((1 << 63) - 1)
_NINE_ONES = np.uint64(0x1FF)
_EXACT_DIGITS = np.uint64(1 << 53)
_EXACT_POWERS = 10.0 ** np.arange(23)


def _powers_of_five() -> np.ndarray:
    """The leading 128 bits of 5^q for each q, as pairs (upper, lower) of uint64."""
    table = np.empty((_MAX_POWER - _MIN_POWER + 1, 2), np.uint64)
    for q in range(_MIN_POWER, _MAX_POWER + 1):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << 128 >> power.bit_length()
        else:  # the reciprocal, rounded up
            size = power.bit_length() - (power & (power - 1) == 0)
            bits = (
                (1 << (size + 127)) // power + 1 if q >= -27 else (1 << 2 * size + 128) // power + 1
            )
            while bits >= 1 << 128:
                bits >>= 1
        table[q - _MIN_POWER] = bits >> 64, bits & ((1 << 64) - 1)
    return table


_POWERS_OF_FIVE = _powers_of_five()


@compiled(allocates=False)
def read_digits(data, at, end):
    """Read decimal digits from ``at``; returns (value, position after them, number of digits).

    The value wraps beyond 64 bits: check the number of digits.
    """
    value = _U0
    start = at
    while at < end:
        digit = data[at] - np.uint8(48)
        if digit > 9:
            break
        value = value * _U10 + np.uint64(digit)
        at += _U1
    return value, at, at - start


@compiled(allocates=False)
def read_index(data, at, end):
    """Read a whole number from 0 to 2^63 - 1; returns (value, position, status)."""
    value, stop, status = _read_limited(data, at, end, _INT64_MAX)
    return np.int64(value), stop, status


@compiled(allocates=False)
def _read_limited(data, at, end, limit):
    value, stop, digits = read_digits(data, at, end)
    if digits == _U0:
        return _U0, at, NOT_A_NUMBER
    if digits > _MAX_INT64_DIGITS:
        value = _U0
        for i in range(at, stop):
            digit = np.uint64(data[i] - np.uint8(48))
            if value > (limit - digit) // _U10:
                return _U0, at, TOO_LARGE
            value = value * _U10 + digit
    return value, stop, OK


@compiled(allocates=False)
def read_integer(data, at, end):
    """Read a whole number with an optional sign; returns (value, position, status)."""
    negative = at < end and data[at] == 45
    start = at + _U1 if at < end and (data[at] == 45 or data[at] == 43) else at
    value, stop, status = _read_limited(data, start, end, _INT64_MAX + np.uint64(negative))
    if status == NOT_A_NUMBER:  # maybe .5 or inf
        return np.int64(0), at, NEEDS_FLOAT
    if status == OK and stop < end and _continues_decimal(data[stop]):
        return np.int64(0), at, NEEDS_FLOAT
    if status == TOO_LARGE:
        return np.int64(0), at, NEEDS_FLOAT if _is_decimal(data, start, end) else TOO_LARGE
    return np.int64(_U0 - value) if negative else np.int64(value), stop, status


@compiled(allocates=False)
def _continues_decimal(byte):
    return byte == 46 or byte == 69 or byte == 101  # . E e


@compiled(allocates=False)
def _is_decimal(data, at, end):
    _, stop, _ = read_digits(data, at, end)
    return stop < end and _continues_decimal(data[stop])


@compiled(allocates=False)
def read_float(data, at, end):
    """Read a decimal number or inf, with an optional sign; returns (value, position, status)."""
    start = at
    negative = at < end and data[at] == 45
    if at < end and (data[at] == 45 or data[at] == 43):
        at += _U1
    mantissa, exponent, digits = _U0, 0, 0
    any_digit = is_decimal = dropped = False
    while at < end:
        byte = data[at]
        digit = byte - np.uint8(48)
        if digit <= 9:
            any_digit = True
            if digits < 19:
                mantissa = mantissa * _U10 + np.uint64(digit)
                digits += mantissa != _U0
                exponent -= is_decimal
            else:
                exponent += not is_decimal
                dropped |= digit != 0
        elif byte == 46 and not is_decimal:
            is_decimal = True
        else:
            break
        at += _U1
    if not any_digit:
        return _read_infinity(data, start, at, end, negative)
    if at < end and (data[at] == 69 or data[at] == 101):
        after, power = _read_power(data, at + _U1, end)
        if after == at + _U1:
            return 0.0, start, NOT_A_NUMBER
        at = after
        exponent += power
        is_decimal = True
    value = _scaled(mantissa, exponent)
    if value == np.inf:
        return value, start, INFINITE
    if not is_decimal and (dropped or not _is_exact(mantissa, exponent)):
        return value, start, INEXACT
    return -value if negative else value, at, OK


@compiled(allocates=False)
def _is_exact(mantissa, exponent):
    """Whether a float64 equals ``mantissa * 10**exponent``, a whole number."""
    if mantissa <= _EXACT_DIGITS and exponent == 0:
        return True
    while mantissa & _U1 == _U0:
        mantissa >>= _U1
    for _ in range(exponent):  # only the factor five uses digits; powers of two are exact
        if mantissa > _EXACT_DIGITS:
            return False
        mantissa *= _U5
    return mantissa <= _EXACT_DIGITS


@compiled(allocates=False)
def _read_power(data, at, end):
    """Read the exponent after an e; returns (position, value), with ``at`` if there is none."""
    start = at
    negative = at < end and data[at] == 45
    if at < end and (data[at] == 45 or data[at] == 43):
        at += _U1
    value, stop, digits = read_digits(data, at, end)
    if digits == _U0:
        return start, np.int64(0)
    power = np.int64(99999) if digits > _U5 else np.int64(value)
    return stop, -power if negative else power


@compiled(allocates=False)
def _read_infinity(data, start, at, end, negative):
    stop = at
    for i in range(8):  # "infinity" or its prefix "inf"
        if stop < end and (data[stop] | 32) == b"infinity"[i]:
            stop += _U1
        else:
            break
    if stop - at != _U3 and stop - at != _U8:
        return 0.0, start, NOT_A_NUMBER
    return -np.inf if negative else np.inf, stop, OK


@compiled(allocates=False)
def _scaled(mantissa, exponent):
    """``mantissa * 10**exponent``, rounded to the nearest float64."""
    if mantissa < _EXACT_DIGITS and -22 <= exponent <= 22:  # both factors are exact
        if exponent < 0:
            return np.float64(mantissa) / _EXACT_POWERS[-exponent]
        return np.float64(mantissa) * _EXACT_POWERS[exponent]
    if mantissa == _U0 or exponent < _MIN_POWER:
        return 0.0
    if exponent > _MAX_POWER:
        return np.inf
    return _rounded(mantissa, exponent)


@compiled(allocates=False)
def _rounded(mantissa, exponent):
    zeros = _leading_zeros(mantissa)
    mantissa <<= np.uint64(zeros)
    row = exponent - _MIN_POWER
    high, low = _product(mantissa, _POWERS_OF_FIVE[row, 0])
    if high & _NINE_ONES == _NINE_ONES:  # the upper half of the power does not decide the rounding
        more, _ = _product(mantissa, _POWERS_OF_FIVE[row, 1])
        low += more
        if more > low:
            high += _U1
    upper_bit = high >> _U63
    shift = upper_bit + np.uint64(9)
    bits = high >> shift
    power = ((217706 * exponent) >> 16) + 63 + np.int64(upper_bit) - zeros + 1023
    if power <= 0:  # subnormal
        if 1 - power >= 64:
            return 0.0
        bits >>= np.uint64(1 - power)
        bits = (bits + (bits & _U1)) >> _U1
        return math.ldexp(np.float64(bits), -1074)
    if low <= _U1 and -4 <= exponent <= 23 and bits & _U3 == _U1 and bits << shift == high:
        bits &= ~_U1  # exactly half way: round to even
    bits = (bits + (bits & _U1)) >> _U1
    return math.ldexp(np.float64(bits), power - 1075)  # exact, or infinite on overflow


@compiled(allocates=False)
def _leading_zeros(value):
    zeros = 0
    while value >> _U63 == _U0:
        value <<= _U1
        zeros += 1
    return zeros


@compiled(allocates=False)
def _product(a, b):
    """The upper and lower 64 bits of a product of two 64-bit numbers."""
    a1, a0 = a >> _U32, a & _LOW32
    b1, b0 = b >> _U32, b & _LOW32
    low = a0 * b0
    middle = a1 * b0 + (low >> _U32)
    other = a0 * b1 + (middle & _LOW32)
    return a1 * b1 + (middle >> _U32) + (other >> _U32), (other << _U32) | (low & _LOW32)
