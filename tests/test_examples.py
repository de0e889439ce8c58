"""Every example runs, and gives the counts that are known."""

import importlib.util
import inspect
import subprocess
import sys

import pytest

import evener as ev
from evener.engine.results.result import Result
from evener.engine.results.trace import Trace
from places import DATA, EXAMPLES, needs_data


def module(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def public():
    """What users call: of the package, its modules, and the classes that they are given."""
    for module in (ev, ev.atomic, ev.gas, ev.generate, ev.stages, ev.vertex):
        yield from named(module, module.__all__)
    for owner in (ev.Graph, Result, Trace):
        yield from named(owner, [name for name in vars(owner) if not name.startswith("_")])


def named(owner, names):
    for name in names:
        found = getattr(owner, name)
        if callable(found):  # not an attribute, such as r.graph
            yield f"{owner.__name__}.{name}", found


def test_every_public_function_and_class_shows_an_example():
    names = dict(public())
    assert {"evener.bfs", "evener.programs.gas.GasProgram", "Trace.to_chrome"} <= names.keys()
    without = [name for name, found in names.items() if ">>> " not in (inspect.getdoc(found) or "")]
    assert without == []


def test_demo():
    command = [sys.executable, EXAMPLES / "demo.py", "--scale", "10"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Graph(1,024 vertices" in out
    table = out.partition("algorithm ")[2]
    for name in ("bfs", "sssp", "pagerank", "connected_components"):
        assert f"\n{name} " in table


@needs_data
def test_flights():
    graph = module("own_formats").flights(DATA / "openflights-routes.dat.gz")
    assert graph.num_vertices == 3330
    assert graph.num_edges == 67240


@needs_data
@pytest.mark.slow
def test_actors():
    graph = module("own_formats").actors(DATA / "actor.dat.gz")
    assert graph.num_vertices == 382219
    assert graph.num_edges == 2 * 15038083
