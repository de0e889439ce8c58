"""Counter-based random numbers: the n-th number of a stream is a function of seed, stream and n.

No state is carried from one number to the next, so any thread of any device computes any of them
and a seed gives the same numbers everywhere. The function is the output step of SplitMix64
(Steele, Lea, Flood 2014) over a Weyl sequence that starts at a hash of seed and stream.
"""

from __future__ import annotations

import numpy as np

from evener.device.compile import compiled

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32, _S11 = (np.uint64(bits) for bits in (30, 27, 31, 32, 11))
_LOW32 = np.uint64(0xFFFFFFFF)
_TO_UNIT = 2.0**-53


def stream_key(seed: int, stream: int) -> np.uint64:
    """The key of one stream of a seed; each purpose (edges, weights, …) has its own stream.

    Examples
    --------
    >>> from evener.device.random import stream_key
    >>> int(stream_key(1, 0)) == int(stream_key(1, 1))
    False
    """
    mask = (1 << 64) - 1
    state = (int(seed) * 0xD1342543DE82EF95 + int(stream) * 0x9E3779B97F4A7C15 + 1) & mask
    for factor, shift in ((int(_FIRST), 30), (int(_SECOND), 27), (1, 31)):
        state = ((state ^ (state >> shift)) * factor) & mask
    return np.uint64(state)


@compiled
def random_bits(key, counter):
    """64 random bits: number ``counter`` of the stream ``key`` (both uint64)."""
    x = key + counter * _WEYL
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


@compiled
def random_unit(key, counter):
    """A float64 in [0, 1)."""
    return (random_bits(key, counter) >> _S11) * _TO_UNIT


@compiled
def random_below(key, counter, bound):
    """A uint64 in ``0..bound-1``; ``bound`` (uint64) at most 2^32, biased by less than 2^-32."""
    return ((random_bits(key, counter) >> _S32) * bound) >> _S32


@compiled
def rounded_product(a, b):
    """The product of two float64, rounded before it is added to anything.

    GPU compilers fuse a product and a sum into one instruction that rounds once: results would
    differ from the CPU's in the last bit. On a GPU this is a separate instruction.
    """
    return a * b


@compiled
def permuted(key, value, bits):
    """A random permutation of ``0..2^bits-1``, applied to one ``value``.

    Each step (multiply by an odd number, add, fold the upper half onto the lower) is invertible
    on ``bits`` bits, so the whole is a bijection that needs no table.
    """
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    half = np.uint64((bits + 1) // 2)
    x = np.uint64(value)
    for step in range(4):
        odd = random_bits(key, np.uint64(2 * step)) | np.uint64(1)
        x = (x * odd + random_bits(key, np.uint64(2 * step + 1))) & mask
        x ^= x >> half
    return x
