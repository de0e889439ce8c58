"""Floats with a huge exponent range in a 64-bit integer, for counts of paths and their quotients.

The number of paths between two vertices of a lattice exceeds the range of floats (2^3000 on 1500²
vertices), and within one level it ranges from 1 to that, so a common factor per level is no
solution.

Encoding: 19 bits of exponent above 44 bits of mantissa whose top bit is set; 0 is 0. Codes compare
like their values. Addition aligns, adds and carries: a few integer operations, exact up to 2^44 and
rounded to 44 bits beyond. Exponents reach 2^±262144.

Functors call these functions; a gather uses `plus` as its combination.
"""

from __future__ import annotations

import math
from typing import Any

from numpy import float64, int64

from evener.programs.functors import routine

BITS = 44  # in the mantissa
MANTISSA = (1 << BITS) - 1
UNIT, WHOLE = 2.0 ** (1 - BITS), 2.0**BITS  # a multiplication costs less than ldexp
CENTRE = 1 << 18  # the exponent of numbers from 1 to less than 2
ONE = (CENTRE << BITS) | (1 << (BITS - 1))


@routine
def pack(value: Any, exponent: Any) -> Any:
    """The code of ``value · 2^exponent``, for a float above 0.

    Examples
    --------
    >>> from evener.algorithms.packed import ONE, pack
    >>> int(pack(1.0, 0)) == ONE
    True
    """
    fraction, power = math.frexp(value)  # 0.5 to 1
    top = int64(power - 1 + exponent + CENTRE) << BITS
    mantissa: Any = int64(fraction * WHOLE + 0.5)
    return top | min(mantissa, MANTISSA)


@routine
def exponent_of(code: Any) -> Any:
    """The power of two that goes with `fraction_of`.

    Examples
    --------
    >>> from evener.algorithms.packed import ONE, exponent_of
    >>> exponent_of(ONE)
    0
    """
    return (code >> BITS) - CENTRE


@routine
def fraction_of(code: Any) -> Any:
    """A code's value less its exponent: from 1 to less than 2, or 0.

    Examples
    --------
    >>> from evener.algorithms.packed import exponent_of, fraction_of, pack
    >>> code = pack(1.5, 3000)
    >>> float(fraction_of(code)), int(exponent_of(code))
    (1.5, 3000)
    """
    return float64(code & MANTISSA) * UNIT


def plus(a: Any, b: Any) -> Any:
    """The code of a sum.

    Examples
    --------
    >>> from evener.algorithms.packed import ONE, exponent_of, plus
    >>> two = plus(ONE, ONE)
    >>> exponent_of(two), plus(two, 0) == two
    (1, True)
    """
    high = max(a, b)
    low = min(a, b)
    shift = (high >> BITS) - (low >> BITS)
    if shift >= BITS:
        return high
    half = (1 << shift) >> 1  # to round to the nearest
    total = (high & MANTISSA) + (((low & MANTISSA) + half) >> shift)
    if total <= MANTISSA:
        return high - (high & MANTISSA) + total
    return (((high >> BITS) + 1) << BITS) | min((total + 1) >> 1, MANTISSA)


@routine
def product(a: Any, b: Any) -> Any:
    """The float that is the product of two codes' values.

    Examples
    --------
    >>> from evener.algorithms.packed import pack, product
    >>> product(pack(1.5, 3000), pack(1.0, -2999))
    3.0
    """
    return math.ldexp(fraction_of(a) * fraction_of(b), int(exponent_of(a) + exponent_of(b)))


@routine
def scaled(value: Any, a: Any, b: Any) -> Any:
    """A float times the ratio of two codes' values.

    Examples
    --------
    >>> from evener.algorithms.packed import pack, scaled
    >>> scaled(0.5, pack(1.5, 3001), pack(1.0, 3000))
    1.5
    """
    ratio = float64(a & MANTISSA) / float64(b & MANTISSA)
    return math.ldexp(ratio * value, int((a >> BITS) - (b >> BITS)))
