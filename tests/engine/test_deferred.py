"""Fields that are only written down become what NumPy would have made of them."""

import numpy as np
import pytest

from evener.engine.deferred_arrays import Counting, DeferredArray


def deferred(length=6, fill=7, dtype=np.int32):
    return DeferredArray(length, np.dtype(dtype), np.dtype(dtype).type(fill))


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
    have, want = deferred(), np.full(6, 7, np.int32)
    write(have)
    write(want)
    assert have.is_deferred
    np.testing.assert_array_equal(have.to_array(np), want)


def test_one_field_begins_as_another():
    jumps, rank = deferred(dtype=np.float32), deferred(dtype=np.float64)
    rank[:] = 0.25
    jumps[:] = rank
    assert jumps.is_uniform
    np.testing.assert_array_equal(jumps.to_array(np), np.full(6, 0.25, np.float32))
    rank[3] = 1.0  # no longer uniform: then it is copied element by element
    jumps[:] = rank
    np.testing.assert_array_equal(jumps.to_array(np), [0.25, 0.25, 0.25, 1.0, 0.25, 0.25])


def test_mistakes_are_told_at_once():
    with pytest.raises(IndexError):
        deferred()[np.array([1, 6])] = np.array([1, 2])
    with pytest.raises(ValueError):
        deferred()[np.array([1, 2])] = np.array([1, 2, 3])


def both_ways(do, dtype=np.uint32):
    """What something makes of an ordinary array, and of a deferred one, in full and by its writes."""
    plain, deferred = np.full(6, 9, dtype), DeferredArray(6, np.dtype(dtype), 9)
    do(plain)
    do(deferred)
    writes = deferred.few_writes()
    if writes is not None:
        found = np.full(6, deferred._fill, dtype)
        for place, value in writes:
            found[place] = value
        np.testing.assert_array_equal(found, plain)
    np.testing.assert_array_equal(np.asarray(deferred), plain)


@pytest.mark.parametrize(
    "do",
    [
        lambda x: np.copyto(x, np.arange(6, dtype=x.dtype)),
        lambda x: np.cumsum(np.ones(6, x.dtype), out=x),
        lambda x: np.take(np.arange(9, dtype=x.dtype), np.arange(6), out=x),
        lambda x: x.__setitem__(1, np.int64(-1)),
        lambda x: x.__setitem__(-1, 4),
        lambda x: x.__setitem__(np.array([0, 1]), np.array([7, -1])),
        lambda x: x.__setitem__(np.array([1, 1, -5]), np.array([7, 8, 3])),
        lambda x: x.__setitem__(np.array([[0, 1]]), 5),
        lambda x: x.__setitem__(True, 5),
        lambda x: x.__setitem__(slice(1, 3), 5),
        lambda x: x.__setitem__(np.arange(6) > 3, 5),
        lambda x: x.__setitem__(slice(None), np.concatenate([x[:3], x[3:]])),
    ],
)
def test_writes_are_those_of_an_array(do):
    both_ways(do)
    both_ways(do, np.int64)


def test_views_stay_views():
    plain, deferred = np.zeros(4), DeferredArray(4, np.dtype(float), 0.0)
    for array in (plain, deferred):
        view = array[:3]
        array[:] = DeferredArray(4, np.dtype(float), 2.0)
        view[0] = 9.0
    assert plain.tolist() == np.asarray(deferred).tolist() == [9.0, 2.0, 2.0, 2.0]
