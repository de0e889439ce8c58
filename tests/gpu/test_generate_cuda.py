"""Generators on a real GPU: the graph of a seed is the one that the CPU makes, bit by bit."""

import numpy as np
import pytest

import evener as ev
from evener.device import download
from evener.graph import gpu

WEIGHTS = [None, (1, 63), (-(1 << 40), 1 << 50), (0.25, 7.5)]


def assert_same_everywhere(kind, *args, **options):
    """Equal on the host; and what is on the GPU is what is on the host."""
    make = getattr(ev.generate, kind)
    want, have = make(*args, **options), make(*args, **options, device="cuda")
    message = f"{kind} {args} {options}"
    assert (have.directed, have.num_vertices) == (want.directed, want.num_vertices), message
    there = [gpu.graph_cache(have)[what, 0].get() for what in gpu.ROWS]
    for name, on_gpu in zip(("indptr", "indices", "weights"), there, strict=True):
        a, b = getattr(want, name), getattr(have, name)
        if a is None:
            assert b is None
            assert on_gpu.size == 0
            continue
        assert a.dtype == b.dtype, message
        np.testing.assert_array_equal(b, a, err_msg=message)
        np.testing.assert_array_equal(on_gpu.view(b.dtype), b, err_msg=message)
    return have


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["rmat", "uniform"])
def test_random_graphs(kind, directed, weights):
    for scale, edge_factor, seed in [(0, 16, 0), (1, 3, 5), (7, 5, 1), (12, 17, 2), (15, 33, -3)]:
        options = {"seed": seed, "directed": directed, "weights": weights}
        assert_same_everywhere(kind, scale, edge_factor, **options)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_grids(weights):
    for rows, columns, removed in [(0, 0, 0), (1, 1, 0), (1, 50, 0.5), (130, 77, 0.05), (9, 9, 1)]:
        options = {"removed": removed, "seed": 3, "weights": weights}
        assert_same_everywhere("grid", rows, columns, **options)


def test_rmat_of_other_shapes():
    assert_same_everywhere("rmat", 10, 0)
    assert_same_everywhere("rmat", 12, 16, permute=False, seed=4)  # the largest hub comes first
    assert_same_everywhere("rmat", 11, 9, a=0.25, b=0.25, c=0.25, seed=6)
    assert_same_everywhere("rmat", 6, 1, a=1, b=0, c=0, permute=False)  # nothing but loops


@pytest.mark.parametrize("at_once", [1000, 1 << 20])
def test_rows_in_ranges(monkeypatch, at_once):
    monkeypatch.setattr(gpu, "ARCS_AT_ONCE", at_once)
    assert_same_everywhere("rmat", 14, 16, seed=7, weights=(1, 255))
    assert_same_everywhere("uniform", 14, 16, seed=7, directed=True)


def test_a_large_graph():
    assert_same_everywhere("rmat", 20, 33, seed=1, weights=(1, 63))


def test_arrays_whose_pages_are_touched_first(monkeypatch):
    monkeypatch.setattr(download, "AT_ONCE", 0)
    assert_same_everywhere("rmat", 10, 16, seed=7, weights=(0.0, 1.0))


def test_programs_use_what_is_there():
    graph = ev.generate.rmat(12, 16, seed=1, weights=(1, 9), device="cuda")
    made = [gpu.graph_cache(graph)[what, 0] for what in gpu.ROWS]
    have = ev.sssp(graph, 3, device="cuda").distance
    np.testing.assert_array_equal(have, ev.sssp(graph, 3, device="cpu").distance)
    for what, array in zip(gpu.ROWS, made, strict=True):
        assert gpu.graph_cache(graph)[what, 0] is array  # nothing was uploaded


def test_nothing_but_the_graph_stays_and_goes_with_it():
    import cupy

    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    graph = ev.generate.rmat(16, 16, seed=1, weights=(1, 9), device="cuda")
    kept = pool.used_bytes() - before
    assert graph.nbytes <= kept <= graph.nbytes + 4096
    del graph
    assert pool.used_bytes() == before


def test_by_name():
    spec = "uniform:scale=9,seed=4,weights=1-9"
    have, want = (ev.generate.from_spec(f"{spec},device={name}") for name in ("cuda:0", "cpu"))
    np.testing.assert_array_equal(have.weights, want.weights)


def test_a_gpu_that_is_not_there():
    with pytest.raises(ev.DeviceError, match="there is no GPU 99"):
        ev.generate.grid(3, device="cuda:99")


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr("evener.device.cuda.free_memory", lambda: 1000)
    for kind in ("rmat", "uniform", "grid"):
        with pytest.raises(ev.MemoryBudgetError, match="on the GPU while it is built, but only 10"):
            getattr(ev.generate, kind)(12, device="cuda")
