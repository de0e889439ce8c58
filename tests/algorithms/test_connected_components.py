"""Connected components on every device against a serial reference and `verify`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import references
from comparing import case
from device_sets import on_devices
from evener.algorithms import connected_components
from graphs import FAMILIES, random_graph
from references import verify

pytestmark = pytest.mark.usefixtures("whole_crews")


@on_devices
def test_connected_components(device):
    for name, graph in FAMILIES.items():
        with case(name):
            result = connected_components(graph, device=device)
            expected = references.components(graph)
            assert result.component.tolist() == expected.tolist()
            assert result.count == len(np.unique(expected))
            verify(connected_components, graph, result)


@on_devices
@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 30), m=st.integers(0, 60), directed=st.booleans(), seed=st.integers(0, 999))
def test_connected_components_of_any_graph(device, n, m, directed, seed):
    graph = random_graph(n, m, directed=directed, seed=seed)
    result = connected_components(graph, device=device)
    assert result.component.tolist() == references.components(graph).tolist()
