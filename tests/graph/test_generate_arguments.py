"""Generators: what they refuse, and the texts that name them."""

import math
import subprocess
import sys
import tracemalloc

import pytest

from evener.errors import GraphError, MemoryBudgetError
from evener.graph import generate
from graphs import assert_same

# ---- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: generate.rmat(40),
        lambda: generate.rmat(48, 1, weights=(1, 2)),
        lambda: generate.uniform(45),
        lambda: generate.rmat(10, 10**12),
        lambda: generate.regular(10**11, 10),
        lambda: generate.regular(10**7, 10**7 - 2),
        lambda: generate.geometric(10**12),
        lambda: generate.geometric(10**7, 1.0),
        lambda: generate.delaunay(10**11),
        lambda: generate.grid(10**6),
        lambda: generate.grid(10**14),
        lambda: generate.path(10**13),
        lambda: generate.star(10**13),
        lambda: generate.tree(60),
        lambda: generate.tree(10**12, 10**12),
        lambda: generate.complete(10**9),
    ],
)
def test_what_cannot_fit_is_refused_before_anything_is_made(call):
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBudgetError, match="needs about"):
            call()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("rmat", {"scale": -1}, "scale is -1"),
        ("rmat", {"scale": 49}, "from 0 to 48"),
        ("uniform", {"scale": 60}, "from 0 to 48"),
        ("rmat", {"scale": 2.0}, "whole number"),
        ("rmat", {"scale": True}, "whole number"),
        ("rmat", {"scale": "5"}, "whole number"),
        ("rmat", {"scale": 5, "edge_factor": -1}, "edge_factor"),
        ("rmat", {"scale": 5, "edge_factor": 1.5}, "edge_factor"),
        ("rmat", {"scale": 5, "a": -0.1}, "a is -0.1"),
        ("rmat", {"scale": 5, "b": math.nan}, "b is nan"),
        ("rmat", {"scale": 5, "c": "x"}, "c is 'x'"),
        ("rmat", {"scale": 5, "a": 0.7, "b": 0.2, "c": 0.2}, "cannot sum to more than 1"),
        ("rmat", {"scale": 5, "seed": 1.5}, "seed"),
        ("rmat", {"scale": 5, "directed": 1}, "directed"),
        ("rmat", {"scale": 5, "permute": None}, "permute"),
        ("regular", {"num_vertices": 5, "degree": 3}, "even"),
        ("regular", {"num_vertices": 5, "degree": 5}, "below 5"),
        ("regular", {"num_vertices": 0, "degree": 1}, "below"),
        ("regular", {"num_vertices": -2, "degree": 1}, "num_vertices is -2"),
        ("regular", {"num_vertices": 4, "degree": -1}, "degree is -1"),
        ("geometric", {"num_vertices": -1}, "num_vertices"),
        ("geometric", {"num_vertices": 5, "radius": -0.1}, "from 0 up"),
        ("geometric", {"num_vertices": 5, "radius": math.inf}, "radius is inf"),
        ("geometric", {"num_vertices": 5, "radius": math.nan}, "radius is nan"),
        ("delaunay", {"num_vertices": 2.5}, "num_vertices"),
        ("grid", {"rows": -1}, "rows is -1"),
        ("grid", {"rows": 3, "columns": 1.0}, "columns is 1.0"),
        ("grid", {"rows": 3, "removed": 1.1}, "from 0 to 1"),
        ("grid", {"rows": 3, "removed": -0.1}, "removed"),
        ("path", {"num_vertices": -1}, "num_vertices"),
        ("path", {"num_vertices": 10**30}, r"2\^48"),
        ("star", {"num_vertices": None}, "num_vertices"),
        ("tree", {"height": -1}, "height"),
        ("tree", {"height": 2, "branching": 0}, "from 1"),
        ("complete", {"num_vertices": 1.5}, "num_vertices"),
    ],
)
def test_bad_arguments(kind, arguments, message):
    with pytest.raises(GraphError, match=message) as error:
        generate.KINDS[kind](**arguments)
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text


NEEDED = {
    "rmat": {"scale": 8}, "uniform": {"scale": 8}, "regular": {"num_vertices": 200, "degree": 7},
    "geometric": {"num_vertices": 300}, "delaunay": {"num_vertices": 300}, "grid": {"rows": 13},
    "path": {"num_vertices": 20}, "star": {"num_vertices": 20}, "tree": {"height": 4},
    "complete": {"num_vertices": 20},
}  # fmt: skip


@pytest.mark.parametrize("kind", list(generate.KINDS))
@pytest.mark.parametrize(
    "bad",
    [5, (1,), (1, 2, 3), (2, 1), (1.0, 0.5), ("a", 2), (1, math.inf), (math.nan, 1), (True, 2),
     (0, 2**63), (-(2**63), 2**63 - 1), (-1e308, 1e308), "1-2"],
)  # fmt: skip
def test_bad_weights(kind, bad):
    with pytest.raises(GraphError, match="weights is"):
        generate.KINDS[kind](**NEEDED[kind], weights=bad)


# ---- texts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rmat:scale=6,edge_factor=4,seed=1", lambda: generate.rmat(6, 4, seed=1)),
        ("rmat:scale=5,weights=1-255", lambda: generate.rmat(5, weights=(1, 255))),
        ("uniform:scale=5,weights=0.5-2.0", lambda: generate.uniform(5, weights=(0.5, 2.0))),
        ("path:num_vertices=5,weights=-5--1", lambda: generate.path(5, weights=(-5, -1))),
        ("path:num_vertices=5,weights=1e-3-1", lambda: generate.path(5, weights=(1e-3, 1))),
        (" grid: rows=10, removed=0.05", lambda: generate.grid(10, removed=0.05)),
        ("rmat:scale=5,a=.45,b=.25,c=.15", lambda: generate.rmat(5, a=0.45, b=0.25, c=0.15)),
        ("rmat:scale=5,directed=true,permute=False", None),
        ("regular:num_vertices=10,degree=3", lambda: generate.regular(10, 3)),
        ("tree:height=3", lambda: generate.tree(3)),
    ],
)
def test_from_spec(text, expected):
    if expected is None:
        expected = lambda: generate.rmat(5, directed=True, permute=False)  # noqa: E731
    g, h = generate.from_spec(text), expected()
    assert_same(g, h)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are rmat, uniform, regular"),
        ("rmatt:scale=5", r"no generator 'rmatt' \(did you mean 'rmat'\?\); there are rmat"),
        ("rmat", "rmat needs scale"),
        ("rmat:", "rmat needs scale"),
        ("regular:num_vertices=5", "needs degree"),
        ("rmat:scale=5,size=2", "takes no 'size'; it takes scale, edge_factor, a, b, c"),
        ("rmat:5", "takes no '5'"),
        ("rmat:scale", "needs a value for scale"),
        ("rmat:scale=", "needs a value for scale"),
        ("rmat:scale=5,scale=6", "twice"),
        ("rmat:scale=five", "scale is 'five'"),
        ("rmat:scale=5.5", "scale is 5.5"),
        ("rmat:scale=5,directed=1", "directed is 1"),
        ("rmat:scale=5,weights=5", "such as 1-255"),
        ("rmat:scale=5,weights=9-1", "must not exceed"),
        ("rmat:scale=5,weights=a-b", "such as 1-255"),
    ],
)
def test_from_spec_refuses(text, message):
    with pytest.raises(GraphError, match=message):
        generate.from_spec(text)


def test_importing_is_light():
    code = (
        "import sys; from evener.graph import generate; "
        "print([m for m in ('numba', 'scipy', 'polars', 'networkx') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
