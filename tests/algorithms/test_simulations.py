"""Circuits, heat and neural networks on every device against dense matrices and `verify`."""

import warnings

import numpy as np
import pytest

import evener as ev
import references
from comparing import case
from device_sets import on_devices
from evener.algorithms import circuit, heat, neural
from graphs import FAMILIES, NOT_EMPTY, weighted
from references import verify

pytestmark = pytest.mark.usefixtures("whole_crews")


@on_devices
def test_circuit(device):
    for name in NOT_EMPTY:
        with case(name), warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = weighted(FAMILIES[name], np.float64, spread=3)
            fixed = {graph.labels[0]: 1.0, graph.labels[-1]: -2.0}
            result = circuit(graph, fixed, tol=1e-9, max_iterations=50_000, device=device)
            verify(circuit, graph, result, fixed, tol=1e-9)


@on_devices
def test_circuit_against_a_solver(device):
    graph = weighted(ev.generate.grid(5, 6), np.float64, spread=7)
    fixed = {0: 5.0, 29: -5.0, 13: 1.0}
    result = circuit(graph, fixed, tol=1e-12, max_iterations=5000, device=device)
    np.testing.assert_allclose(result.potential, references.potentials(graph, fixed), atol=1e-9)
    again = circuit(graph, fixed, initial=result.potential, device=device)
    assert again.stats["supersteps"] == 1


@on_devices
def test_heat(device):
    for name in NOT_EMPTY:
        with case(name):
            graph = weighted(FAMILIES[name], np.float64, spread=3)
            start = {graph.labels[0]: 8.0, graph.labels[-1]: 2.0}
            result = heat(graph, start, tol=1e-7, max_iterations=20_000, device=device)
            assert result.stats["converged"] is True
            verify(heat, graph, result, start, tol=1e-7)


@on_devices
def test_steps_of_heat(device):
    for name in NOT_EMPTY:
        graph = weighted(FAMILIES[name], np.float64, spread=3)
        values = np.arange(graph.num_vertices, dtype=float)
        with case(name), pytest.warns(RuntimeWarning, match="did not converge"):
            result = heat(graph, values, step=0.01, tol=0, max_iterations=5, device=device)
        assert result.stats["converged"] is False
        expected = references.temperatures(graph, values, 0.01, 5)
        np.testing.assert_allclose(result.temperature, expected, rtol=1e-12, err_msg=name)


@on_devices
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # some do not converge
def test_neural(device):
    for name in NOT_EMPTY:
        graph = weighted(FAMILIES[name], np.float32, spread=2)
        signs = np.where((graph._sources() + graph.indices) % 3 == 0, -0.5, 0.5).astype(np.float32)
        graph = ev.Graph(
            graph.indptr, graph.indices, graph.weights * signs, directed=graph.directed,
            labels=graph._labels,
        )  # fmt: skip
        values = np.linspace(-1, 1, graph.num_vertices)
        with case(name):
            result = neural(graph, initial=values, tol=0, max_iterations=7, device=device)
            expected = references.activations(graph, values, 7)
            np.testing.assert_allclose(result.activation, expected, atol=1e-12)
            result = neural(graph, initial=values, device=device)
            if result.stats["converged"]:
                verify(neural, graph, result, initial=values)
