"""Fields that are only written down become what NumPy would have made of them."""

import numpy as np
import pytest

from evener.engine.lazy import Counting, LazyArray


def lazy(length=6, fill=7, dtype=np.int32):
    return LazyArray(length, np.dtype(dtype), np.dtype(dtype).type(fill))


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(2, 5),
        lambda a: a.__setitem__(-1, 5),
        lambda a: a.__setitem__(np.array([1, 3]), 4),
        lambda a: a.__setitem__(np.array([1, 3]), np.array([8, 9])),
        lambda a: a.__setitem__(np.array([], int), np.array([], int)),
        lambda a: a.__setitem__(slice(None), 3),
        lambda a: a.__setitem__(slice(None), Counting(6)),
        lambda a: [a.__setitem__(slice(None), Counting(6)), a.__setitem__(0, 9)],
    ],
)
def test_writes_are_repeated(write):
    have, want = lazy(), np.full(6, 7, np.int32)
    write(have)
    write(want)
    assert have.is_lazy
    np.testing.assert_array_equal(have.made_by(np), want)


def test_one_field_begins_as_another():
    jumps, rank = lazy(dtype=np.float32), lazy(dtype=np.float64)
    rank[:] = 0.25
    jumps[:] = rank
    assert jumps.is_uniform
    np.testing.assert_array_equal(jumps.made_by(np), np.full(6, 0.25, np.float32))
    rank[3] = 1.0  # no longer uniform: then it is copied element by element
    jumps[:] = rank
    np.testing.assert_array_equal(jumps.made_by(np), [0.25, 0.25, 0.25, 1.0, 0.25, 0.25])


def test_mistakes_are_told_at_once():
    with pytest.raises(IndexError):
        lazy()[np.array([1, 6])] = np.array([1, 2])
    with pytest.raises(ValueError):
        lazy()[np.array([1, 2])] = np.array([1, 2, 3])
