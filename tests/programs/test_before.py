"""``s.before``: fields as they were when the superstep began, on every device."""

import numpy as np
import pytest
from evener.stages import advance, backwards, compute, gather, nearest, repeat

import evener as ev
from evener.errors import ProgramError
from programs.examples import module
from tables import slow_but

FewStops = module("few_stops").FewStops
DEVICES = ("python", "cpu:1", "cpu", "python+python", "cpu+cpu", "cpu:1+python")


def widest_within(graph, source, stops):
    """The same by plain rounds over all arcs."""
    width = np.zeros(graph.num_vertices)
    width[source] = np.inf
    src = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    for _ in range(stops):
        before = width.copy()
        np.maximum.at(width, graph.indices, np.minimum(before[src], graph.weights))
    return width


WAYS = [f"{device} {way}" for device in DEVICES for way in ("push", "pull")]
FEW = [
    "python push", "python pull", "cpu pull", "python+python push", "python+python pull",
    "cpu:1+python push",
]  # fmt: skip


@pytest.mark.parametrize("way", slow_but(WAYS, *FEW))
def test_paths_of_few_stops(way):
    device, direction = way.split()
    for directed in (False, True):
        graph = ev.generate.rmat(6, 5, weights=(1, 99), seed=2, directed=directed)
        source = int(np.argmax(graph.degrees))
        for stops in (1, 2, 3, 50):
            found = ev.run(
                FewStops, graph, source=source, stops=stops, device=device, direction=direction
            )
            assert found.width.tolist() == widest_within(graph, source, stops).tolist()
    assert list(found.to_numpy()) == ["width"]


@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "cpu", "python+python", "cpu+cpu"))
def test_both_ends_and_fields_that_every_device_has(device):
    class Jumped(ev.Program):
        root = ev.Field(ev.VERTEX, merge="min", replicated=True)
        seen = ev.Field("int64", merge="max", fill=0)

        @ev.functor
        def begin(v, s):
            s.root[v] = max(s.id[v] - 1, 0)

        @ev.functor
        def jump(v, s):
            s.root[v] = s.before.root[s.before.root[v]]

        @ev.functor
        def look(src, dst, edge, s):
            ev.atomic.max(s.seen, dst, s.before.seen[dst] + s.before.seen[src] + 1)
            return True

        loop = (
            compute(begin, over="all"),
            repeat(compute(jump, over="all"), advance(look, over="all"), max_supersteps=2),
        )

    graph = ev.generate.path(9)
    found = ev.run(Jumped, graph, device=device)
    assert found.root.tolist() == [max(v - 4, 0) for v in range(9)]
    assert found.seen.tolist() == [3] * 9


@pytest.mark.parametrize(
    "device", slow_but(DEVICES, "python", "cpu", "python+python", "cpu:1+python")
)
def test_outside_loops_in_gathers_and_in_replays(device):
    class Replayed(ev.Program):
        depth = ev.Field("int64", merge="min")
        below = ev.Field("int64", fill=0)

        @ev.functor
        def reach(src, dst, edge, s):
            return ev.atomic.min(s.depth, dst, s.superstep + 1) > s.superstep + 1

        @ev.functor
        def mark(v, s):
            s.below[v] = s.before.below[v] + 1

        @ev.functor
        def offer(src, dst, edge, s):
            return s.before.below[src]

        @ev.functor
        def take(v, total, s):
            s.below[v] = total
            return False

        def start(self):
            self.depth[0] = 0
            return [0]

        loop = (
            repeat(advance(reach), record=True),
            backwards(compute(mark)),
            gather(offer, "sum", take, over="all"),
        )

    found = ev.run(Replayed, ev.generate.path(5), device=device)
    assert found.below.tolist() == [1, 2, 2, 2, 1]


def test_what_is_refused():
    def writes():
        class Refused(ev.Program):
            width = ev.Field("float64", merge="max")

            @ev.functor
            def widen(src, dst, edge, s):
                s.before.width[dst] = 1.0
                return False

            loop = repeat(advance(widen))

    def unknown():
        class Refused(ev.Program):
            width = ev.Field("float64", merge="max")

            @ev.functor
            def widen(src, dst, edge, s):
                return s.before.size[src] > 0

            loop = repeat(advance(widen))

    def ordered():
        class Refused(ev.Program):
            width = ev.Field("float64", merge="max")

            @ev.functor
            def widen(src, dst, edge, s):
                return s.before.width[src] > 0

            loop = repeat(advance(widen), order=nearest(width, 1.0))

    def named():
        class Refused(ev.Program):
            before = ev.Field("float64")

            @ev.functor
            def fill(v, s):
                s.before[v] = 1

            loop = compute(fill)

    for make, said in (
        (writes, r"widen, line \d+: writes s.before.width, which is read-only; write s.width"),
        (unknown, "s.before.size is not a field; the program has width"),
        (ordered, "cannot be read in a repeat with order="),
        (named, "reserved"),
    ):
        with pytest.raises(ProgramError, match=said):
            make()


def test_checked_and_subclassed():
    class Wider(FewStops):
        @ev.functor
        def widen(src, dst, edge, s):
            offer = min(s.before.width[src], 2.0 * s.weight[edge])
            return ev.atomic.max(s.width, dst, offer) < offer

    graph = ev.generate.path(5, weights=(1, 9), seed=1)
    plain = ev.run(FewStops, graph, source=0, stops=2, device="cpu", check=True)
    wider = ev.run(Wider, graph, source=0, stops=2, device="python")
    assert np.array_equal(plain.width, widest_within(graph, 0, 2))
    assert wider.width[1:3].tolist() == (2 * plain.width[1:3]).tolist()
