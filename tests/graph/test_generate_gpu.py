"""Generators on a GPU, as far as machines without one can tell: `tests/gpu` has the rest.

What a GPU does an item at a time is done here by the cores an item at a time, and the build of rows
for GPUs with NumPy in place of CuPy; the kernels are compiled to PTX.
"""

import importlib.util

import numpy as np
import pytest

from evener.cli import main
from evener.device import cuda
from evener.device.processors import Host, place_of, ptx_of
from evener.device.random import rounded_product
from evener.errors import DeviceError, GraphError
from evener.graph import build, generate, gpu
from evener.graph.generate import lattices, random_graphs, weights
from evener.graph.generate.common import Stream, key_of

needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda is not installed (extras cu12, cu13)",
)
needs_no_gpu = pytest.mark.skipif(cuda.why_not() is None, reason="there is a GPU")


class ItemByItem(Host):
    """The cores, working as a GPU does."""

    def each(self, function, num_items, size, *arguments):
        function(num_items, 1, *arguments)


PLACE = ItemByItem()
QUADRANTS = random_graphs._quadrants(0.57, 0.19, 0.19)


# ---- the same numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0, 1, 6, 7])
@pytest.mark.parametrize("permute", [False, True])
def test_rmat_edge_by_edge(scale, permute):
    arguments = (scale, 5 << scale, QUADRANTS, 3, permute)
    for have, want in zip(
        random_graphs.rmat_ends(PLACE, *arguments),
        random_graphs.rmat_ends(Host(), *arguments),
        strict=True,
    ):
        np.testing.assert_array_equal(have, want)


def test_uniform_edge_by_edge():
    have, want = (random_graphs._uniform_ends(at, 7, 3 << 7, 9) for at in (PLACE, Host()))
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("limits", [(1, 9), (-(1 << 40), 1 << 50), (0.25, 1.5)])
@pytest.mark.parametrize("directed", [False, True])
def test_weights_arc_by_arc(limits, directed):
    graph = generate.rmat(7, 3, seed=2, directed=directed, weights=limits)
    drawn = weights.weight_range(limits)
    have = weights.draw_weights(PLACE, graph._indptr, graph._indices, directed, drawn, 2)
    assert have.dtype == graph.weights.dtype
    np.testing.assert_array_equal(have, graph.weights)


def test_grid_vertex_by_vertex():
    grid = generate.grid(9, 14, removed=0.3, seed=4)
    counts, indices = np.zeros_like(grid._indptr), np.zeros_like(grid._indices)
    shape = (9, 14, key_of(4, Stream.REMOVED), 0.3)
    PLACE.each(lattices._lattice, 9 * 14, 1, *shape, False, counts, indices[:0])
    np.testing.assert_array_equal(counts.cumsum(), grid.indptr)
    PLACE.each(lattices._lattice, 9 * 14, 1, *shape, True, grid._indptr, indices)
    np.testing.assert_array_equal(indices, grid.indices)


# ---- the same rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 7, 100, 1 << 27])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("num_vertices", [1, 2, 50, 1000])
def test_rows_in_ranges(monkeypatch, at_once, symmetric, num_vertices):
    monkeypatch.setattr(gpu, "ARCS_AT_ONCE", at_once)
    rng = np.random.default_rng(num_vertices)
    for num_edges in (0, 1, 600):
        ends = (rng.random((2, num_edges)) ** 3 * num_vertices).astype(np.int32)  # hubs come first
        want = build.build_csr(
            *ends, None, num_vertices, symmetric=symmetric, drop_loops=True, duplicates="first"
        )
        have = gpu.build_simple(PLACE, *ends, num_vertices, symmetric=symmetric)
        for array, expected in zip(have, want[:2], strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


def test_row_starts_of_more_arcs_than_32_bits(monkeypatch):
    monkeypatch.setattr(build, "INT32_MAX", 100)
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 90, (2, 200)).astype(np.int32)
    indptr, indices = gpu.build_simple(PLACE, *ends, 90, symmetric=True)
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
    assert indptr[-1] == len(indices) > 100


def test_memory_that_building_takes():
    edges, n = 63 << 24, 1 << 24
    assert 24e9 < gpu.build_bytes(edges, n, symmetric=True) < 32e9
    assert gpu.build_bytes(edges, n, symmetric=False) < gpu.build_bytes(edges, n, symmetric=True)


# ---- the same text for the GPU ----------------------------------------------------------------

_IDS, _STARTS, _KEYS = np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.uint64)
_KEY = np.uint64(1)
KERNELS = {
    "fall": (random_graphs._fall, (_KEY, 20, *QUADRANTS, _IDS, _IDS)),
    "renumber": (random_graphs._renumber, (_KEY, 20, _IDS)),
    "uniform": (random_graphs._draw_ends, (_KEY, _KEY, _IDS, _IDS)),
    "grid": (lattices._lattice, (3, 4, _KEY, 0.5, True, _IDS, _IDS)),
    "whole weights": (weights._draw_whole, (_STARTS, _IDS, True, _KEY, np.int64(1), _KEY, _IDS)),
    "real weights": (
        weights._draw_real, (_IDS, _IDS, True, _KEY, 1.0, 2.0, 3.0, np.zeros(1)),
    ),
    "count": (gpu._count, (_IDS, _IDS, True, _STARTS)),
    "collect": (gpu._collect, (_IDS, _IDS, True, 0, 4, 0, 5, _STARTS, _KEYS)),
}  # fmt: skip


@needs_compiler
@pytest.mark.usefixtures("without_nvrtc")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile(name):
    text = ptx_of(*KERNELS[name], (9, 0))
    assert text.count(".visible .entry") == 1
    assert "\n\tcall" not in text, "something was not inlined"
    assert "fma." not in text, "sums would be rounded in another way than on the CPU"


@needs_compiler
@pytest.mark.usefixtures("without_nvrtc")
def test_a_product_is_rounded_by_itself():
    """Without this the compiler fuses it with the sum."""

    def kernel(values):
        values[0] = values[1] + rounded_product(values[2], values[3])

    def fused(values):
        values[0] = values[1] + values[2] * values[3]

    texts = [cuda.compile_ptx(given, ("float64[]",), (9, 0), 1) for given in (kernel, fused)]
    assert ["fma." in text for text in texts] == [False, True]


# ---- how it is asked for ----------------------------------------------------------------------


@needs_no_gpu
@pytest.mark.parametrize(
    "spec", ["rmat:scale=4,device=cuda", "uniform:scale=4,device=cuda:1", "grid:rows=4,device=cuda"]
)
def test_no_gpu(spec):
    with pytest.raises(DeviceError, match=f"device '{spec.partition('device=')[2]}': "):
        generate.from_spec(spec)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:-1", "cpu+cuda", "", 0, None])
def test_devices_that_are_not_there(device):
    with pytest.raises(DeviceError, match="it must be 'cpu', 'cuda' or 'cuda:N'"):
        generate.rmat(4, device=device)


def test_the_cpu_by_name():
    assert isinstance(place_of("cpu"), Host)
    have, want = generate.from_spec("rmat:scale=6,device=cpu"), generate.rmat(6)
    np.testing.assert_array_equal(have.indices, want.indices)


def test_other_generators_have_no_device():
    with pytest.raises(GraphError, match="path takes no 'device'"):
        generate.from_spec("path:num_vertices=4,device=cuda")


@needs_no_gpu
def test_the_command_says_so(capsys, tmp_path):
    out = str(tmp_path / "kron.evg")
    code = main(["generate", "rmat", out, "--scale", "4", "--device", "cuda"])
    assert code == 2
    assert "device 'cuda': " in capsys.readouterr().err
