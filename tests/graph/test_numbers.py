"""The compiled number parser against Python's own."""

import math
import random
import struct

import numpy as np
import pytest

from evener.graph.files import numbers


def read(reader, text):
    data = np.frombuffer(text.encode(), np.uint8).copy()
    value, position, status = reader(data, np.uint64(0), np.uint64(len(data)))
    return value, int(position), status


EDGES = [
    "0", "-0", "1e308", "1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2.4e-324",
    "2.5e-324", "2.2250738585072014e-308", "2.2250738585072011e-308", "1e-400", "1e400",
    "9007199254740993", "9007199254740992.5", "1e23", "8.5e22", ".5", "5.", "+3", "1e22", "1e-22",
    "inf", "-Infinity", "18446744073709551615", "9223372036854775807e-19", "1" + "0" * 40,
]  # fmt: skip


def outcome(text):
    """What reading a float comes to: it is refused if digits of a whole number would be lost."""
    if math.isinf(float(text)) and "inf" not in text.lower():
        return numbers.INFINITE
    is_whole = text.lstrip("+-").isdigit()
    return numbers.INEXACT if is_whole and float(text) != int(text) else numbers.OK


def test_float_edges():
    for text in EDGES:
        value, position, status = read(numbers.read_float, text)
        assert status == outcome(text), text
        assert position == (len(text) if status == numbers.OK else 0), text
        if status == numbers.OK:
            assert value == float(text), text
            assert math.copysign(1, value) == math.copysign(1, float(text)), text


def test_whole_numbers_as_floats():
    """Those that a float equals are read, others refused; so are digits behind the nineteenth."""
    rng = random.Random(3)
    for _ in range(3000):
        exact = rng.randrange(1, 1 << 53) << rng.randrange(20)
        for text in (str(exact), str(exact + 1), f"-{exact}", f"{exact}00"):
            if len(text.lstrip("-").rstrip("0")) <= 19:
                assert read(numbers.read_float, text)[2] == outcome(text), text
    assert read(numbers.read_float, "12345678901234567890123")[2] == numbers.INEXACT


def test_floats_round_as_python_does():
    rng = random.Random(20)
    for _ in range(30_000):
        kind = rng.randrange(3)
        if kind == 0:
            text = repr(struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0])
        elif kind == 1:
            text = repr(rng.random() * 10 ** rng.randint(-5, 20))
        else:
            text = f"{rng.randrange(10 ** rng.randint(1, 19))}e{rng.randint(-340, 310)}"
        if "nan" not in text and outcome(text) == numbers.OK:
            assert read(numbers.read_float, text) == (float(text), len(text), numbers.OK), text


@pytest.mark.parametrize("text", ["", "-", ".", "e5", "1e", "1e+", "nan", "--1", "in", "x", "+-1"])
def test_not_floats(text):
    assert read(numbers.read_float, text)[1:] == (0, numbers.NOT_A_NUMBER)


@pytest.mark.parametrize(
    ("text", "value", "status"),
    [
        ("12", 12, numbers.OK),
        ("-9223372036854775808", -(2**63), numbers.OK),
        ("9223372036854775807", 2**63 - 1, numbers.OK),
        ("9223372036854775808", 0, numbers.TOO_LARGE),
        ("-9223372036854775809", 0, numbers.TOO_LARGE),
        ("000000000000000000000000000007", 7, numbers.OK),
        ("1.5", 0, numbers.NEEDS_FLOAT),
        ("99999999999999999999.5", 0, numbers.NEEDS_FLOAT),
        ("x", 0, numbers.NEEDS_FLOAT),
    ],
)
def test_integers(text, value, status):
    found, position, outcome = read(numbers.read_integer, text)
    assert (found, outcome) == (value, status)
    assert position == (len(text) if status == numbers.OK else 0)
