"""Programs with mistakes that only a run with ``check=True`` finds."""

import inspect

import numpy as np
import pytest

import evener as ev
from evener.errors import ProgramError

TABLE = np.arange(4)


SQUARE = np.arange(16).reshape(4, 4)


MIXED = (1, 2.5)


class Mistaken(ev.Program):
    """One mistake, chosen by a parameter."""

    which = ev.Param("int64", 0)
    zero = ev.Param("int64", 0)
    root = ev.Field(ev.VERTEX, fill=0, merge="min", replicated=True)
    small = ev.Field("int32")
    real = ev.Field("float64")
    single = ev.Field("float32")
    summed = ev.Field("int32", fill=1 << 30, merge="sum")

    @ev.functor
    def err(v, s):
        if s.id[v] != 3:
            return
        if s.which == 1:
            s.small[v] = s.root[s.id[v] + s.num_vertices]
        elif s.which == 2:
            s.root[s.zero - 1] = 5
        elif s.which == 3:
            s.real[v] = 1 / s.zero
        elif s.which == 4:
            s.small[v] = s.id[v] // (s.degree[v] - s.degree[v])
        elif s.which == 5:
            s.small[v] = 1 << 40
        elif s.which == 6:
            big = s.id[v] + 4611686018427387904
            s.real[v] = big * s.degree[v] * 2
        elif s.which == 7:
            s.real[v] = np.inf * s.zero
        elif s.which == 8:
            s.single[v] = 1e39
        elif s.which == 9:
            s.real[v] += TABLE[s.id[v] + 4]
        elif s.which == 10:
            ev.atomic.min(
                s.root,
                s.id[v] * 1000,
                0,
            )
        elif s.which == 11:
            s.real[v] = SQUARE[s.id[v], s.id[v] + 1]
        elif s.which == 12:
            s.real[v] = SQUARE[-1][s.id[v] - 8]
        elif s.which == 13:
            s.real[v] = (s.id[v] + 7) ** 40
        elif s.which == 14:
            ev.atomic.add(s.summed, v, 1 << 30)
        elif s.which == 15:
            table = TABLE
            s.real[v] = table[s.id[v] + 1]
        elif s.which == 16:
            s.real[v] = int(np.inf * s.degree[v])
        elif s.which == 17:
            s.small[v] = np.inf * s.degree[v]
        elif s.which == 18:
            s.real[v] = divmod(s.id[v], s.zero)[1]
        elif s.which == 19:
            s.real[v] = np.floor_divide(s.id[v], s.zero)
        elif s.which == 20:
            s.real[v] = -(s.zero - 9223372036854775807 - 1)
        elif s.which == 21:
            s.real[v] = abs(s.zero - 9223372036854775807 - 1)
        else:
            s.real[v] = TABLE[s.zero - 1] * MIXED[1] + SQUARE[1:, 2][s.zero]

    loop = ev.stages.compute(err)


FOUND = {
    1: ("s.small[v] = s.root", "s.root is indexed out of range"),
    2: ("s.root[s.zero - 1]", "s.root is indexed out of range"),
    3: ("1 / s.zero", "a division by 0"),
    4: ("s.id[v] //", "a division by 0"),
    5: ("1 << 40", "does not fit int32"),
    6: ("big * s.degree[v]", "a number overflows"),
    7: ("np.inf * s.zero", "a NaN is stored in"),
    8: ("1e39", "too large for float32"),
    9: ("TABLE[s.id[v] + 4]", "TABLE is indexed out of range"),
    10: ("s.id[v] * 1000", "s.root is indexed out of range"),
    11: ("SQUARE[s.id[v], s.id[v] + 1]", "SQUARE is indexed out of range"),
    12: ("SQUARE[-1][s.id[v] - 8]", "SQUARE[-1] is indexed out of range"),
    13: ("(s.id[v] + 7) ** 40", "a number overflows"),
    14: ("ev.atomic.add(s.summed", "the sum in summed overflows int32"),
    15: ("table[s.id[v] + 1]", "table is indexed out of range"),
    16: ("int(np.inf * s.degree[v])", "does not fit int64 is converted to an integer"),
    17: ("s.small[v] = np.inf", "does not fit int32 is stored in small"),
    18: ("divmod(s.id[v]", "a division by 0"),
    19: ("np.floor_divide", "a division by 0"),
    20: ("-(s.zero - 9", "a number overflows"),
    21: ("abs(s.zero - 9", "a number overflows"),
}


def line_with(text):
    lines, first = inspect.getsourcelines(Mistaken)
    return first + next(i for i, line in enumerate(lines) if text in line)


def assert_told(device):
    """Check that every mistake is told with functor, line and vertex."""
    graph = ev.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], labels=list("abcde"))
    ev.run(Mistaken, graph, device=device, check=True)
    for which, (text, said) in FOUND.items():
        with pytest.raises(ProgramError) as caught:
            ev.run(Mistaken, graph, which=which, device=device, check=True)
        told = str(caught.value)
        assert said in told
        assert f"Mistaken.err, line {line_with(text)}:" in told
        assert "vertex 'd'" in told


class Divided(ev.Program):
    total = ev.Field("float64", merge="sum")

    @ev.functor
    def share(src, dst, edge, s):
        ev.atomic.add(s.total, dst, 1 / (s.id[dst] - 2))
        return False

    loop = ev.stages.advance(share)


def assert_both_ends_told(device, *directions):
    """Check that a mistake along an edge names its ends, in these directions or in both."""
    graph = ev.Graph.from_edges([0, 1, 3], [1, 2, 0])
    for direction in directions or ("push", "pull"):
        with pytest.raises(ProgramError, match="by 0 at the edge from 1 to 2"):
            ev.run(Divided, graph, device=device, direction=direction, check=True)
