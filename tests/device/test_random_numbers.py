"""Random numbers that are functions of their place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evener.device import parallel, use_threads
from evener.device.random import permuted, random_below, random_bits, random_unit, stream_key


@parallel
def fill_bits(chunk, key, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_bits(key, np.uint64(i))


@parallel
def fill_unit(chunk, key, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_unit(key, np.uint64(i))


@parallel
def fill_below(chunk, key, bound, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_below(key, np.uint64(i), bound)


@parallel
def fill_permuted(chunk, key, bits, values, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = permuted(key, values[i], bits)


def filled(kernel, length, *args, dtype=np.uint64):
    out = np.empty(length, dtype)
    kernel(max(1, -(-length // 1000)), *args, out)
    return out


def test_first_numbers_never_change():
    # Graphs made from a seed depend on these; SplitMix64's own first output for state 0 is here.
    assert int(random_bits(np.uint64(0), np.uint64(1))) == 0xE220A8397B1DCDAF
    assert int(stream_key(1, 2)) == 4198397071345356669
    key = stream_key(7, 3)
    assert filled(fill_bits, 2, key).tolist() == [243883325589731931, 9759306773605180596]
    assert int(permuted(key, np.uint64(5), 20)) == 757438


def test_streams_do_not_resemble_each_other():
    n = 20_000
    keys = [stream_key(seed, stream) for seed in (0, 1, -1, 2**40) for stream in range(4)]
    assert len({int(key) for key in keys}) == len(keys)
    streams = np.array([filled(fill_bits, n, key) for key in keys])
    assert len(np.unique(streams)) == streams.size  # no overlap, not even shifted
    units = streams / 2.0**64
    correlation = np.corrcoef(np.vstack([units, np.roll(units, 1, axis=1)]))
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 6 / np.sqrt(n)
    bits = np.unpackbits(streams.view(np.uint8), axis=1)
    assert np.abs(bits.mean(axis=1) - 0.5).max() < 0.003


def test_every_bit_is_fair():
    bits = filled(fill_bits, 40_000, stream_key(5, 0))
    for position in range(64):
        share = ((bits >> np.uint64(position)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 0.015


def test_units_are_uniform():
    units = filled(fill_unit, 100_000, stream_key(3, 1), dtype=np.float64)
    assert units.min() >= 0
    assert units.max() < 1
    counts = np.histogram(units, bins=64, range=(0, 1))[0]
    expected = len(units) / 64
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 20 < chi_square < 130  # 63 degrees of freedom: mean 63, deviation 11


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 2**31, 2**32])
def test_below_a_bound(bound):
    found = filled(fill_below, 50_000, stream_key(4, bound), np.uint64(bound))
    assert found.max() < bound
    assert abs(found.mean() / bound - (bound - 1) / bound / 2) < 0.02
    if bound <= 1000:
        assert len(np.unique(found)) == bound


@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_do_not_depend_on_threads(threads):
    expected = filled(fill_bits, 5000, stream_key(9, 9))
    with use_threads(threads):
        np.testing.assert_array_equal(filled(fill_bits, 5000, stream_key(9, 9)), expected)


@pytest.mark.parametrize("bits", range(13))
def test_permuted_is_a_permutation(bits):
    values = np.arange(1 << bits, dtype=np.uint64)
    seen = []
    for seed in range(5):
        found = filled(fill_permuted, len(values), stream_key(seed, 0), bits, values)
        assert np.sort(found).tolist() == values.tolist()
        seen.append(found.tolist())
    if bits >= 3:
        assert len({tuple(order) for order in seen}) > 1
        assert seen[0] != values.tolist()


@given(st.integers(13, 63), st.integers(0, 2**64 - 1), st.integers(0, 2**32))
@settings(max_examples=30)
def test_permuted_keeps_values_apart(bits, key, seed):
    rng = np.random.default_rng(seed)
    values = np.unique(rng.integers(0, 1 << bits, 2000, dtype=np.uint64))
    near = np.arange(1000, dtype=np.uint64)  # neighbours, too
    values = np.unique(np.concatenate([values, near]))
    found = filled(fill_permuted, len(values), np.uint64(key), bits, values)
    assert len(np.unique(found)) == len(values)
    assert int(found.max()) < 1 << bits


def test_permuted_moves_neighbours_far_apart():
    bits = 20
    values = np.arange(10_000, dtype=np.uint64)
    found = filled(fill_permuted, len(values), stream_key(1, 1), bits, values).astype(np.float64)
    steps = np.abs(np.diff(found)) / (1 << bits)
    assert 0.2 < steps.mean() < 0.5  # a third for a random order
    assert abs(np.corrcoef(values, found)[0, 1]) < 0.06
