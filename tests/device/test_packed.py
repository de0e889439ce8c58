"""Packed floats against fractions: what is exact, what is rounded, and how codes compare."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import int64

from evener.algorithms import packed
from evener.device import compiled

whole = st.integers(1, 2**44)
exponents = st.integers(-5000, 5000)


def value(code):
    return Fraction(int(code) & packed.MANTISSA) * Fraction(2) ** (
        packed.exponent_of(int(code)) + 1 - packed.BITS
    )


def code_of(number, exponent=0):
    return packed.pack(float(number), exponent)


@given(st.integers(1, 2**44 - 1), exponents)
def test_packing_is_exact(number, exponent):
    code = code_of(number, exponent)
    assert value(code) == Fraction(number) * Fraction(2) ** exponent
    assert 1 <= packed.fraction_of(code) < 2
    assert Fraction(packed.fraction_of(code)) * Fraction(2) ** int(packed.exponent_of(code)) == (
        value(code)
    )


@given(st.floats(1e-300, 1e300))
def test_packing_rounds_to_44_bits(number):
    assert abs(value(code_of(number)) / Fraction(number) - 1) <= Fraction(2) ** -43


@given(whole, whole)
def test_small_sums_are_exact(a, b):
    if a + b < 2**44:
        assert value(packed.plus(code_of(a), code_of(b))) == a + b


@given(whole, exponents, whole, exponents)
def test_sums_are_near(a, i, b, j):
    a, b = code_of(a, i), code_of(b, j)
    total = packed.plus(a, b)
    assert total == packed.plus(b, a)
    assert abs(value(total) / (value(a) + value(b)) - 1) <= Fraction(2) ** -43
    assert packed.plus(a, int64(0)) == packed.plus(int64(0), a) == a


@given(whole, exponents, whole, exponents)
def test_codes_compare_like_their_values(a, i, b, j):
    a, b = code_of(a, i), code_of(b, j)
    assert (a < b) == (value(a) < value(b))
    assert a > 0


def test_a_sum_carries():
    ones = packed.pack(2.0 - 2.0**-43, 0)  # all bits of the mantissa
    assert value(packed.plus(ones, ones)) == 2 * value(ones)
    assert packed.exponent_of(packed.plus(ones, ones)) == 1


@given(whole, whole, st.integers(-4000, 4000), st.floats(0.5, 1e9))
def test_products_and_ratios(a, b, exponent, factor):
    a, b = code_of(a, exponent), code_of(b, -exponent)
    assert math.isclose(packed.product(a, b), value(a) * value(b), rel_tol=1e-12)
    b = code_of(3, exponent)
    expected = Fraction(factor) * value(a) / value(b)
    assert math.isclose(packed.scaled(factor, a, b), expected, rel_tol=1e-12)


@pytest.mark.parametrize("name", ["plus", "product", "exponent_of", "fraction_of"])
def test_compiled_they_do_the_same(name):
    function, rng = getattr(packed, name), np.random.default_rng(1)
    function = getattr(function, "python", function)
    kernel = compiled(function)
    for _ in range(200):
        codes = [code_of(rng.integers(1, 2**44), int(rng.integers(-99, 99))) for _ in range(2)]
        codes = codes[: function.__code__.co_argcount]
        assert kernel(*codes) == function(*codes)
