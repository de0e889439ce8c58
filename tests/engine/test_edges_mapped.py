"""Edges in the host's memory, without a GPU: what is decided, locked, moved, planned and chosen."""

import contextlib
import gc
import mmap
from types import SimpleNamespace

import numpy as np
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.algorithms.pagerank import PageRank
from evener.algorithms.sssp import SSSP
from evener.device import mapped_memory as mapped
from evener.engine import devices as devices_module
from evener.engine.codegen.passes import NotLoweredError
from evener.engine.devices import Device
from evener.engine.job import set_up
from evener.engine.memory import edges as gpu_placement
from evener.engine.memory import gpu_graph as gpu_memory
from evener.engine.memory.edges import choose_mapped, edge_arrays, edges_mapped, place_edges
from evener.engine.memory.estimate import edge_bytes, estimate_memory
from evener.engine.memory.gpu_graph import BOTH, BY_DEGREE, LAUNCH, MAPPED
from evener.engine.planning import larger_than_gpu
from evener.engine.planning.calibrate import EDGES_MAPPED, Calibration
from evener.engine.planning.planner import as_dict, choose, plan
from evener.engine.request import Request
from evener.engine.targets import gpu
from evener.engine.targets.table import run_on, target_of
from evener.errors import MemoryBudgetError
from evener.graph.gpu import NEIGHBOURS, STARTS, WEIGHTS, graph_cache
from programs.stages import Around
from rates import SEARCH, Given

GIB = 1 << 30


@pytest.fixture
def directed():
    return ev.generate.rmat(10, 8, seed=1, weights=(1, 9), directed=True)


@pytest.fixture
def kron():
    return ev.generate.rmat(12, 16, seed=1, weights=(1, 9))


def job_of(program, graph, **parameters):
    return set_up(program, graph, parameters, deferred=True)


# ---- what is decided -----------------------------------------------------------------------


def test_arrays_are_in_the_order_of_their_use(directed, kron):
    def names(job, pulls, both=False):
        return [one.name for one in edge_arrays(job, pulls, both)]

    assert names(job_of(BFS, directed, source=0), True) == ["neighbours", "in-neighbours"]
    assert names(job_of(BFS, directed, source=0), False) == ["neighbours"]
    assert names(job_of(BFS, kron, source=0), True) == ["neighbours"]  # both ways at once
    assert names(job_of(SSSP, kron, source=0), False) == ["neighbours", "weights"]
    # Nothing is pushed along out-edges: they give way first.
    assert names(job_of(PageRank, directed), True) == ["in-neighbours", "neighbours"]
    joined = edge_arrays(job_of(Around, directed), True, True)
    assert joined[0].name == "edges of both directions"
    assert joined[0].nbytes == 2 * (directed.indices.nbytes + directed.weights.nbytes)


def test_as_much_as_fits_is_on_the_card(kron):
    arrays = edge_arrays(job_of(SSSP, kron, source=0), False, False)
    whole = kron.indices.nbytes + kron.weights.nbytes

    def names(allowed):
        return [one.name for one in choose_mapped(arrays, 1000, 1000 + allowed)]

    assert names(whole) == []
    assert names(whole - 1) == ["weights"]
    assert names(kron.indices.nbytes - 1) == ["neighbours", "weights"]
    assert names(0) == ["neighbours", "weights"]


@pytest.fixture
def free(monkeypatch):
    """Sets how much is free on a GPU that is not there."""

    def put(nbytes):
        monkeypatch.setattr("evener.device.cuda.free_memory", lambda: nbytes)
        monkeypatch.setattr("evener.device.cuda.current", lambda: 0)

    put(GIB)
    return put


def placed(job, limit=None, besides=1000):
    arrays = edge_arrays(job, True, False)
    return place_edges(job, arrays, besides, limit, 0)


def test_limits_and_free_memory_decide(kron, free):
    job = job_of(SSSP, kron, source=0)
    assert placed(job).mapped == ()
    assert gpu_placement.reasons_of(placed(job)) == []
    limited = placed(job, 1000 + kron.indices.nbytes)
    assert [one.name for one in limited.mapped] == ["weights"]
    assert limited.mapped_bytes == kron.weights.nbytes
    assert limited.in_host_memory == ((kron, WEIGHTS),)
    (reason,) = gpu_placement.reasons_of(limited)
    assert reason.startswith("The GPU read weights (")
    assert "and memory_limit allows" in reason
    free(1000)
    everything = placed(job)
    assert everything.in_host_memory == everything.wanted == ((kron, NEIGHBOURS), (kron, WEIGHTS))
    assert "and the GPU has 1000 B" in gpu_placement.reasons_of(everything)[0]
    # What the card has of the graph is not lost to it.
    graph_cache(kron)[NEIGHBOURS, 0] = kron.indices
    assert [one.name for one in placed(job).mapped] == ["weights"]


def test_what_cannot_fit_is_refused_before_anything_is_allocated(kron, free, monkeypatch):
    job = job_of(BFS, kron, source=0)
    with pytest.raises(MemoryBudgetError) as refused:
        placed(job, 999)
    assert "BFS, with all edges in the host's memory, needs about" in str(refused.value)
    assert "(1,000 bytes) on cuda, and memory_limit allows 999 B" in str(refused.value)
    free(999)
    with pytest.raises(MemoryBudgetError, match="needs about 1000 B on the GPU, but only 999 B"):
        placed(job)
    assert not graph_cache(kron)


def test_memory_of_the_host_is_checked_for_graphs_in_files(tmp_path, kron, free, monkeypatch):
    kron.save(tmp_path / "kron.evg")
    loaded = ev.load(tmp_path / "kron.evg")
    assert mapped.bytes_to_map(loaded._indices) == loaded._indices.nbytes
    free(1000)
    monkeypatch.setattr("evener.device.limits.available_memory", lambda: 10)
    with pytest.raises(MemoryBudgetError, match="BFS with edges in the host's memory needs about"):
        placed(job_of(BFS, loaded, source=0))


def test_edges_may_be_mapped_whatever_fits(kron, free):
    job = job_of(BFS, kron, source=0)
    with edges_mapped():
        assert placed(job).in_host_memory == ((kron, NEIGHBOURS),)
    assert placed(job).mapped == ()


def test_the_order_of_degrees_is_for_what_is_on_the_card(kron, free):
    job = job_of(PageRank, kron)
    on_card = placed(job)
    enough = gpu_memory.bytes_to_relabel(kron)
    assert gpu._has_room_to_relabel(kron, on_card._replace(left=enough), 0)
    assert not gpu._has_room_to_relabel(kron, on_card._replace(left=enough - 1), 0)
    with edges_mapped():
        assert not gpu._has_room_to_relabel(kron, placed(job), 0)


# ---- where arrays are ----------------------------------------------------------------------


def test_what_moves_takes_its_launches_along(directed, free):
    turned = directed.transpose()
    here = {(STARTS, 0): 1, (NEIGHBOURS, 0): 2, (WEIGHTS, 0): 3, (LAUNCH, 0, 9): 4, "largest": 5}
    graph_cache(directed).update(here)
    graph_cache(turned).update(here | {(BY_DEGREE, 0): 6})
    wanted = ((directed, NEIGHBOURS), (turned, NEIGHBOURS))
    gpu_memory.move_edges(directed, wanted, ())
    assert graph_cache(directed) == here
    gpu_memory.move_edges(directed, wanted, ((turned, NEIGHBOURS),))
    assert set(graph_cache(directed)) == {(STARTS, 0), (NEIGHBOURS, 0), (WEIGHTS, 0), "largest"}
    assert set(graph_cache(turned)) == {(STARTS, 0), (WEIGHTS, 0), "largest"}
    graph_cache(turned)[(MAPPED, NEIGHBOURS), 0] = 7
    gpu_memory.move_edges(directed, wanted, ())
    assert ((MAPPED, NEIGHBOURS), 0) not in graph_cache(turned)


def test_weights_are_placed_only_for_programs_that_read_them(directed):
    there = gpu_memory.place_graph(np, directed, True, False, False, weights=False)
    assert there.rows[2].size == there.columns[2].size == 0
    with_weights = gpu_memory.place_graph(np, directed, False, True, True)
    np.testing.assert_array_equal(with_weights.rows[2], directed.weights)
    assert with_weights.nbytes == sum(
        array.nbytes for array in (*with_weights.rows, *with_weights.both, with_weights.degrees)
    )
    assert (MAPPED, BOTH) not in graph_cache(directed)


class Driver:
    """A runtime that only keeps a list of what is locked."""

    class CUDARuntimeError(RuntimeError):
        pass

    def __init__(self):
        self.locked, self.refuses = {}, set()

    def hostRegister(self, address, nbytes, flags):
        assert flags == 3
        if address in self.locked or address in self.refuses:
            raise self.CUDARuntimeError
        self.locked[address] = nbytes

    def hostUnregister(self, address):
        del self.locked[address]

    def pointerGetAttributes(self, address):
        return SimpleNamespace(devicePointer=address)


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    library = SimpleNamespace(
        asarray=np.asarray,
        ndarray=lambda shape, dtype, at: SimpleNamespace(shape=shape, dtype=dtype, at=at),
        cuda=SimpleNamespace(
            runtime=made, MemoryPointer=lambda memory, first: memory,
            UnownedMemory=lambda address, nbytes, owner, ordinal: (address, nbytes, owner),
        ),
    )  # fmt: skip
    monkeypatch.setattr("evener.device.cuda.library", lambda: library)
    monkeypatch.setattr("evener.device.cuda.current", lambda: 0)
    yield made
    gc.collect()
    assert made.locked == {}
    assert mapped.mapped_bytes() == 0


def test_memory_is_locked_once_and_as_long_as_somebody_maps_it(driver):
    array = np.arange(mapped.OWN_PAGES)
    one, other = mapped.map_array(array), mapped.map_array(array.view(np.uint64))
    assert one.at[0] == array.ctypes.data  # nothing was copied
    assert driver.locked == {array.ctypes.data: array.nbytes}
    assert mapped.mapped_bytes() == array.nbytes
    del one
    gc.collect()
    assert len(driver.locked) == 1
    del other
    gc.collect()
    assert driver.locked == {}
    again = mapped.map_array(array)
    del array  # the pages live as long as they are locked
    gc.collect()
    assert len(driver.locked) == 1
    del again


@pytest.mark.parametrize("why", ["small", "refused"])
def test_pages_that_cannot_be_locked_are_copied(driver, why):
    array = np.arange(100 if why == "small" else mapped.OWN_PAGES)
    driver.refuses.add(array.ctypes.data)
    there = mapped.map_array(array)
    ((address, nbytes),) = driver.locked.items()
    assert (there.at[0], nbytes) == (address, array.nbytes)
    assert address % mmap.PAGESIZE == 0
    assert address != array.ctypes.data
    assert mapped.map_array(array[:0]).size == 0


def test_a_host_that_locks_nothing(driver):
    def refuse(*_):
        raise Driver.CUDARuntimeError

    driver.hostRegister = refuse
    with pytest.raises(ev.DeviceError, match="800 bytes of host memory cannot be locked"):
        mapped.map_array(np.arange(100))


# ---- plans ---------------------------------------------------------------------------------


class Rates(Given):
    """Edges a second of the CPU, and of the GPU with edges in both places."""

    def rate(self, workload, device, like):
        if device.endswith(EDGES_MAPPED):
            return self.rates["mapped"]
        return super().rate(workload, device, like)


@pytest.fixture
def a_gpu(monkeypatch):
    """A GPU by name, of which a planner only asks what is free."""
    monkeypatch.setattr("evener.engine.planning.planner._gpu_memory", lambda ordinal: GIB)
    monkeypatch.setattr("evener.device.cuda.on", lambda ordinal: contextlib.nullcontext())
    monkeypatch.setattr("evener.device.cuda.free_memory", lambda: GIB)


def test_a_gpu_is_planned_with_edges_in_both_places(kron, a_gpu):
    rates = Rates(cpu=1e6, cuda=1e9, mapped=1e8)
    devices = [Device("cpu", 2), Device("cuda")]
    whole = estimate_memory(BFS.declaration, kron)[0]
    least = whole - edge_bytes(BFS.declaration, kron)

    def placements(limit):
        return plan(
            kron, devices, SEARCH, partitioners=["high"], limits=[None, limit], calibration=rates
        )

    cpu, card, edges, both = placements(None)
    assert (card.devices, card.mapped) == (("cuda",), False)
    assert (edges.devices, edges.mapped) == (("cuda",), True)
    assert edges.seconds == pytest.approx(kron.num_edges / 1e8)
    assert edges.memory == (least,)
    assert whole - least == kron.indices.nbytes
    assert choose([cpu, card, edges, both]) is card
    assert as_dict(edges)["edges_mapped"] is True
    cpu, card, edges, both = placements(least)
    assert [one.fits for one in (cpu, card, edges)] == [True, False, True]
    assert choose([cpu, card, edges, both]).mapped


@pytest.mark.parametrize(
    ("rates", "devices"),
    [
        ({"cpu": 1e6, "cuda": 1e9, "mapped": 1e8}, ["cuda"]),
        ({"cpu": 1e9, "cuda": 1e9, "mapped": 1e7}, ["cpu"]),
        ({"cpu": 4e6, "cuda": 1e7, "mapped": 1e6}, ["cpu", "cuda"]),
    ],
)
def test_auto_takes_the_fastest_for_what_does_not_fit(kron, a_gpu, rates, devices, monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", "2")
    calibration = Rates(**rates)
    whole = estimate_memory(BFS.declaration, kron)[0]

    def place(limit):
        return larger_than_gpu.place_larger(
            BFS, kron, {"source": 0}, (None, limit), calibration=calibration
        )

    assert place(None) is None
    assert place(whole) is None
    choice = place(int(0.7 * whole))
    assert [one.kind for one in choice.devices] == devices
    assert "the planner predicts" in choice.why
    assert ("edges in the host's memory" in choice.why) == (devices == ["cuda"])
    assert choice.partition.startswith("high:alpha=0.") == (len(devices) == 2)
    assert choice.limits == [None if kind == "cpu" else int(0.7 * whole) for kind in devices]
    assert place(int(0.7 * whole)) is choice


def test_auto_does_not_plan_programs_that_are_given_values_of_vertices(kron, a_gpu):
    given = {"initial": np.zeros(kron.num_vertices)}
    assert larger_than_gpu.place_larger(BFS, kron, given, (None, 1000), calibration=Rates()) is None


def test_a_run_goes_where_auto_says(kron, monkeypatch):
    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    monkeypatch.setattr(devices_module, "why_not", lambda: None)
    monkeypatch.setattr(devices_module, "require", lambda number: None)
    choice = larger_than_gpu.Choice(
        [Device("cpu", 1), Device("cpu", 1)], "static", [None, None], "it is said"
    )
    asked = []

    def place(program, graph, parameters, limits, *, direction):
        asked.append((program, parameters, limits))
        return choice

    monkeypatch.setattr(larger_than_gpu, "place_larger", place)
    result = ev.bfs(kron, 0, memory_limit="1GiB")
    assert asked == [(BFS, {"source": 0}, (GIB, GIB))]
    assert result.stats["device"] == "cpu:1+cpu:1"
    assert "it is said" in result.explain()
    np.testing.assert_array_equal(result.depth, ev.bfs(kron, 0, device="cpu").depth)


@pytest.mark.parametrize("explicit", [True, False])
def test_what_both_together_cannot_do_is_left_to_the_gpu(kron, explicit, monkeypatch):
    def refuse(job, *_):
        job.stats["threads"] = [1, 0]
        raise NotLoweredError("BFS has something.")

    given = []
    monkeypatch.setattr("evener.engine.targets.hybrid.run_hybrid", refuse)
    monkeypatch.setattr(gpu, "execute", lambda job, *rest: given.append(rest) or ["It ran."])
    job = job_of(BFS, kron, source=0)
    devices = (Device("cpu", 1), Device("cuda"))
    request = Request(devices, explicit=explicit, partition="high", limits=(None, 99))
    target = target_of(devices)
    if explicit:
        with pytest.raises(NotLoweredError):
            run_on(target, job, request)
        return
    told = run_on(target, job, request)
    assert told == ["BFS has something. Evener ran it on the GPU alone instead.", "It ran."]
    assert given == [(0, "auto", "auto", False, 99)]
    assert job.stats["device"] == "cuda"
    assert "threads" not in job.stats


def test_auto_runs_no_sets_to_calibrate(kron, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    calibration = Calibration(sets=False)
    assert calibration.costs(SEARCH, ["cpu:1", "cpu:1"], kron, np.ones(2)) is None
