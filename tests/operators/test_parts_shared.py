"""Compiled parts in one memory: replicated fields that they share, and lists without ghosts."""

import numpy as np
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.algorithms.connected_components import Components, DirectedComponents
from evener.device import atomic
from evener.engine.codegen.analysis import Needs
from evener.engine.codegen.rewrite import far_is_global
from evener.programs import VERTEX, Field, Program, functor
from evener.programs.stages import compute, edges, gather, repeat
from graphs import weighted_by_arc
from programs.merged import Reset, Totals

TWO, THREE = "cpu:1+cpu:1", "cpu:2+cpu:1+cpu:1"


class Farthest(Program):
    """Numbers of neighbours in arithmetic that would be done in floats if they were unsigned."""

    far = Field(np.int64, fill=-1, merge="max", replicated=True)
    mine = Field(np.int64)

    @functor
    def look(src, dst, edge, s):
        atomic.max(s.far, src, s.id[dst] - s.id[src] + s.num_vertices)
        atomic.max(s.far, dst, s.id[dst])
        return False

    @functor
    def take(v, s):
        s.mine[v] = s.far[v] * 2 + s.far[s.num_vertices - 1 - s.id[v]]

    loop = (edges(look), compute(take, over="all"))


class Weighed(Program):
    """As above with the degree of the far end, for which it must have a local number."""

    most = Field(np.int64, merge="max", replicated=True)

    @functor
    def look(src, dst, edge, s):
        atomic.max(s.most, s.id[src], np.int64(s.degree[dst]))
        return False

    loop = edges(look)


class Spreading(Program):
    """A gather that writes what the totals of others read: new values wait for all parts."""

    heat = Field(np.int64, merge="max", replicated=True)

    @functor
    def there(src, dst, edge, s):
        return s.heat[src]

    @functor
    def keep(v, total, s):
        s.heat[v] = s.heat[v] * 3 % 1009 + total % 31
        return True

    def start(self):
        self.heat[:] = np.arange(self.num_vertices)

    loop = repeat(gather(there, "sum", keep, over="all"), max_supersteps=3)


def graph():
    return weighted_by_arc(ev.generate.rmat(8, 6, seed=4, directed=True))


@pytest.mark.parametrize("device", [TWO, THREE])
@pytest.mark.parametrize("program", [Farthest, Weighed, Spreading, Reset, Totals])
def test_replicated_fields(program, device):
    expected = ev.run(program, graph(), device="python")
    found = ev.run(program, graph(), device=device)
    for name in program.declaration.fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.stats["bytes_sent"] > 0


def test_which_programs_need_ghosts():
    without = {program for program in (Components, DirectedComponents, Farthest, Weighed, Totals,
                                       Reset, BFS)
               if far_is_global(program.declaration)}  # fmt: skip
    assert without == {Components, DirectedComponents, Farthest, Totals}


def test_which_programs_share():
    assert Needs(Components.declaration).may_share
    assert not Needs(Spreading.declaration).may_share


def test_components_have_no_ghosts():
    ring = ev.generate.rmat(10, 2, seed=1)
    found = ev.connected_components(ring, device=THREE)
    assert found.stats["ghosts"] == [0, 0, 0]
    assert (
        found.component.tolist() == ev.connected_components(ring, device="cpu:1").component.tolist()
    )
    with_ghosts = ev.bfs(ring, int(ring.degrees.argmax()), device=THREE)
    assert min(with_ghosts.stats["ghosts"]) > 0


class Chosen(Program):
    """A vertex in a replicated field, written by whoever sees it first."""

    by = Field(VERTEX, fill=-1, merge="max", replicated=True)

    @functor
    def mark(src, dst, edge, s):
        return atomic.max(s.by, s.id[dst], s.id[src]) < s.id[src]

    loop = edges(mark)


def test_vertices_in_shared_fields():
    expected = ev.run(Chosen, graph(), device="cpu:1").by
    assert np.array_equal(ev.run(Chosen, graph(), device=TWO).by, expected)
