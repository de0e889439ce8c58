"""PageRank on every device against powers of a dense matrix and `verify`."""

import numpy as np
import pytest

import evener as ev
import references
from comparing import case
from device_sets import on_devices
from evener.algorithms import pagerank
from graphs import FAMILIES, NOT_EMPTY, weighted
from references import verify

pytestmark = pytest.mark.usefixtures("whole_crews")


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pagerank(dtype, device):
    near = 1e-9 if dtype == np.float64 else 1e-5
    options = {"tol": near / 10 if dtype == np.float64 else near, "device": device, "dtype": dtype}
    for name, graph in FAMILIES.items():
        with case(name):
            result = pagerank(graph, max_iterations=500, **options)
            assert result.stats["converged"] is True
            assert result.rank.dtype == dtype
            # An iteration shrinks the error to 0.85 of it, so it is at most 0.85 / 0.15 of the
            # last move.
            np.testing.assert_allclose(result.rank, references.ranks(graph), atol=6 * near)
            verify(pagerank, graph, result, tol=options["tol"])


@on_devices
def test_pagerank_with_weights(device):
    for name, graph in FAMILIES.items():
        with case(name):
            heavy = weighted(graph)
            result = pagerank(heavy, weighted=True, tol=1e-10, max_iterations=500, device=device)
            expected = references.ranks(heavy, weighted=True)
            np.testing.assert_allclose(result.rank, expected, atol=1e-9)
            verify(pagerank, heavy, result, weighted=True, tol=1e-10)


@on_devices
def test_pagerank_with_preferences(device):
    for name in NOT_EMPTY:
        graph = FAMILIES[name]
        wish = {graph.labels[0]: 3, graph.labels[-1]: 1}
        jumps = np.zeros(graph.num_vertices)
        jumps[0] = 3
        jumps[-1] = 1
        expected = references.ranks(
            graph, damping=0.5, jumps=jumps if graph.num_vertices > 1 else np.ones(1)
        )
        for given in (wish, jumps):
            with case(name, type(given)):
                result = pagerank(
                    graph, personalization=given, damping=0.5, tol=1e-10, device=device
                )
                np.testing.assert_allclose(result.rank, expected, atol=1e-9)
                verify(pagerank, graph, result, personalization=given, damping=0.5, tol=1e-10)


@on_devices
def test_pagerank_that_is_cut_short(device):
    graph = ev.generate.rmat(6, 4, seed=5)
    with pytest.warns(RuntimeWarning, match="did not converge in 3 iterations"):
        result = pagerank(graph, tol=0, max_iterations=3, device=device)
    assert result.stats["converged"] is False
    np.testing.assert_allclose(result.rank, references.ranks(graph, iterations=3), rtol=1e-12)
    assert list(result.to_numpy()) == ["rank"]
