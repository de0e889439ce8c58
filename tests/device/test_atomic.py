"""Atomics: the same answers interpreted and compiled, and no update lost between threads."""

import numpy as np
import pytest

from evener.device import atomic, compiled, parallel

DTYPES = [np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64]


@compiled
def call_add(array, index, value):
    return atomic.add(array, index, value)


@compiled
def call_min(array, index, value):
    return atomic.min(array, index, value)


@compiled
def call_max(array, index, value):
    return atomic.max(array, index, value)


@compiled
def call_exchange(array, index, value):
    return atomic.exchange(array, index, value)


@compiled
def call_cas(array, index, expected, value):
    return atomic.cas(array, index, expected, value)


CALLS = {
    "add": call_add, "min": call_min, "max": call_max, "exchange": call_exchange, "cas": call_cas,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_compiled_equals_interpreted(name, dtype):
    values = [0, 3, 5, 7, 100] if np.dtype(dtype).kind == "u" else [-7, 0, 3, 5, 100]
    for old in values:
        for new in values:
            plain = np.array([old, old, old], dtype)
            machine = plain.copy()
            extra = [dtype(5)] if name == "cas" else []
            expected = getattr(atomic, name)(plain, 1, *extra, dtype(new))
            found = CALLS[name](machine, 1, *extra, dtype(new))
            assert found == expected
            np.testing.assert_array_equal(machine, plain)


@parallel
def hammer(chunk, total, low, high, claimed):
    for i in range(1000):
        atomic.add(total, 0, 1)
        atomic.min(low, 0, 5000 - chunk * 10 - i % 10)
        atomic.max(high, 0, chunk * 10 + i % 10)
        if atomic.cas(claimed, i, 0, chunk + 1) == 0:
            atomic.add(total, 1, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_update_is_lost(dtype):
    total, low, high = np.zeros(2, dtype), np.full(1, 9999, dtype), np.zeros(1, dtype)
    claimed = np.zeros(1000, dtype)
    hammer(200, total, low, high, claimed)
    assert total.tolist() == [200_000, 1000]
    assert (low[0], high[0]) == (5000 - 1999, 1999)
    assert claimed.min() >= 1
