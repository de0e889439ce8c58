"""What values of fields the engine decides: the index of a vertex, and dtypes of a run or a graph."""

import pickle

import numpy as np
import pytest

import evener as ev
from evener.engine.bucket_width import bucket_width
from evener.engine.devices import KINDS
from evener.engine.job import set_up
from evener.engine.reference.loop import interpret
from evener.programs import Field, Param, Program, Scalar, Vertex, functor
from evener.programs.reals import with_reals
from evener.programs.stages import advance, compute, nearest, reduce, repeat
from gpu_simulator import simulate
from parts_gpu_simulator import simulate_parts

DEVICES = ["python", "cpu:1", "cpu:2", "python+python", "cpu:1+cpu:1", "cpu:1+python"]
on_devices = pytest.mark.parametrize("device", DEVICES)
GRAPHS = {
    "empty": ev.Graph.from_edges([], []),
    "one vertex": ev.Graph.from_edges([], [], num_vertices=1),
    "two components": ev.Graph.from_edges([1, 2, 4], [3, 1, 5], directed=False),
}


class Lowest(Program):
    """The lowest index from which a vertex is reached, whose own begins as its index."""

    lowest = Field(ev.VERTEX, fill=ev.ID, merge="min")
    twin = Field("uint64", fill=ev.ID, missing=0)
    kept = Field("int32", fill=ev.ID, merge="max", replicated=True)

    @functor
    def lower(src, dst, edge, s):
        offer = s.lowest[src]
        return ev.atomic.min(s.lowest, dst, offer) > offer

    loop = repeat(advance(lower))


class LowestFrom(Lowest):
    def start(self, source: Vertex):
        self.twin[source] = 9
        return [source]


def assert_lowest(fields, graph):
    n = graph.num_vertices
    interpret(job := set_up(Lowest, graph, {}))
    assert fields["lowest"].tolist() == job.fields["lowest"].tolist()
    assert fields["kept"].tolist() == list(range(n))
    assert fields["lowest"].dtype == graph.indices.dtype


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@on_devices
def test_fields_that_begin_with_the_index(graph, device):
    found = ev.run(Lowest, graph, device=device)
    assert_lowest(found.to_numpy(), graph)
    assert (
        found.twin.tolist() == [0] * graph.num_vertices
    )  # what is missing is what was not changed


@pytest.mark.parametrize("name", ["one vertex", "two components"])
def test_fields_that_begin_with_the_index_on_a_gpu(name):
    graph = GRAPHS[name]
    assert_lowest(simulate(Lowest, graph, "auto", "auto").fields, graph)
    assert_lowest(simulate_parts(Lowest, graph, 2).fields, graph)


def test_what_is_reached_where_fields_begin_with_the_index():
    found = ev.run(LowestFrom, GRAPHS["two components"], source=2, device="cpu")
    for one in (found, pickle.loads(pickle.dumps(found))):
        assert one.twin.tolist() == [0, 0, 9, 0, 0, 0]
        assert one.reached.tolist() == [False, False, True, False, False, False]
    assert pickle.loads(pickle.dumps(ev.ID)) is ev.ID


@pytest.mark.parametrize("dtype", ["float64", "bool", ev.WEIGHT])
def test_only_integers_begin_with_the_index(dtype):
    with pytest.raises(ev.ProgramError, match="has fill=ID; it must hold integers"):
        Field(dtype, fill=ev.ID)


def test_python_and_lazy_fields_begin_alike():
    for deferred in (False, True):
        made = set_up(Lowest, GRAPHS["two components"], {}, deferred=deferred).fields
        assert not deferred or all(field.is_deferred for field in made.values())
        assert all(np.asarray(field).tolist() == list(range(6)) for field in made.values())


class Decaying(Program):
    """Values of what a run chooses, in a field, a parameter and a scalar."""

    value = Field(ev.REAL, fill=1.0, merge="sum")
    exact = Field("float64")
    factor = Param(ev.REAL, 0.1)
    total = Scalar(ev.REAL, "sum")

    @functor
    def decay(v, s):
        s.value[v] *= s.factor
        s.exact[v] = s.factor

    @functor
    def value_of(v, s):
        return s.value[v]

    loop = (compute(decay, over="all"), reduce(value_of, "sum", into=total, over="all"))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(
    ("device", "dtype"),
    [(device, dtype) for device in DEVICES for dtype in (None, "float64", np.float32)
     if dtype is np.float32 or "cpu:1+" not in device],  # a set has kernels of its own
)  # fmt: skip
def test_a_run_chooses_what_reals_are(dtype, graph, device):
    found = ev.run(Decaying, graph, dtype=dtype, device=device)
    kind, n = np.dtype(dtype or "float64"), graph.num_vertices
    assert (found.value.dtype, found.exact.dtype) == (kind, np.float64)
    assert found.value.tolist() == [kind.type(0.1).item()] * n
    assert found.exact.tolist() == [kind.type(0.1).item()] * n  # the parameter was rounded too
    assert found.total == pytest.approx(0.1 * n)


def test_reals_on_a_gpu():
    graph = GRAPHS["two components"]
    narrow = with_reals(Decaying, "float32")
    for program, dtype in ((Decaying, np.float64), (narrow, np.float32)):
        for have in (simulate(program, graph, "auto", "auto"), simulate_parts(program, graph, 2)):
            assert have.fields["value"].dtype == dtype
            assert have.fields["value"].tolist() == [dtype(0.1).item()] * 6
    assert with_reals(Decaying, np.float32) is narrow  # made once, so that kernels are too
    assert with_reals(Decaying, float) is Decaying


def test_wrong_reals():
    with pytest.raises(ev.EvenerError, match="dtype is 'int32'; it must be float32 or float64"):
        ev.run(Decaying, GRAPHS["empty"], dtype="int32")
    with pytest.raises(ev.EvenerError, match="dtype is 'real'; it must be"):
        ev.run(Decaying, GRAPHS["empty"], dtype="real")
    with pytest.raises(
        ev.ProgramError, match="Lowest has no values of type REAL; leave out dtype="
    ):
        ev.run(Lowest, GRAPHS["empty"], dtype="float32")
    with pytest.raises(ev.ProgramError, match="has no values of type REAL"):
        ev.bfs(GRAPHS["one vertex"], 0, dtype="float32")


class Lengths(Program):
    length = Field(ev.DISTANCE, merge="min", missing=-1)
    delta = Param("float64", 1.0)

    @functor
    def relax(src, dst, edge, s):
        offer = s.length[src] + s.weight[edge]
        return ev.atomic.min(s.length, dst, offer) > offer

    def start(self, source: Vertex):
        self.length[source] = 0
        return [source]

    loop = repeat(advance(relax), order=nearest(length, delta))


def path_of(weight, n=3):
    dtype = None if isinstance(weight, float) else np.int64
    return ev.Graph.from_edges(np.arange(n - 1), np.arange(1, n), np.full(n - 1, weight, dtype))


@pytest.mark.parametrize(("weight", "dtype"), [
    (0, "int32"), (5, "int32"), ((2**31 - 2) // 3, "int32"), ((2**31 - 2) // 3 + 1, "int64"),
    (2**40, "int64"), (0.5, "float64"), (-1, "int64"),
])  # fmt: skip
def test_distances_take_32_bits_where_those_suffice(weight, dtype):
    graph = path_of(weight)
    assert set_up(Lengths, graph, {"source": 0}).fields["length"].dtype == dtype
    for device in ["python", "cpu:1", "cpu:2", "python+python"] if weight >= 0 else ["cpu:1"]:
        found = ev.run(Lengths, graph, source=0, delta="auto", device=device)
        assert found.length.tolist() == [0, weight, 2 * weight]
        assert found.length.dtype == dtype
        unreached = ev.run(Lengths, graph, source=2, device=device)
        assert unreached.length.tolist() == [-1, -1, 0]


def test_a_distance_of_all_that_32_bits_hold():
    n = 2**10
    graph = path_of((2**31 - 2) // n, n)
    found = ev.sssp(graph, 0, device="cpu:2")
    assert found._fields.maker("distance").array.dtype == np.int32
    assert found.distance[-1] == (n - 1) * ((2**31 - 2) // n)
    assert found.parent.tolist() == [-1, *range(n - 1)]
    wide = ev.sssp(path_of((2**31 - 2) // n + 1, n), 0, device="cpu:2")
    assert wide._fields.maker("distance").array.dtype == np.int64
    assert wide.distance[-1] == (n - 1) * ((2**31 - 2) // n + 1)


def test_the_engine_chooses_the_width_of_buckets():
    graph = ev.generate.grid(20, 20, weights=(1, 255), seed=1)
    widths = [bucket_width(graph, KINDS[kind].arcs_a_bucket) for kind in ("cpu", "cuda")]
    assert widths[0] < widths[1]
    for kind, width in zip(("cpu", "cuda"), widths, strict=True):
        arcs = KINDS[kind].arcs_a_bucket
        job = set_up(Lengths, graph, {"source": 0, "delta": "auto"}, arcs_a_bucket=arcs)
        assert job.params["delta"] == width
        job.begin_again()
        assert job.params["delta"] == width
    assert bucket_width(ev.Graph.from_edges([], [])) == 1
    assert bucket_width(path_of(0)) == 1
    with pytest.raises(ev.ProgramError, match="delta is 'wide'; expected float64"):
        ev.run(Lengths, graph, source=0, delta="wide", device="cpu:1")
