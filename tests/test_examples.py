"""Every example runs, and gives the counts that are known."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from test_files_read import DATA, needs_data

EXAMPLES = Path(__file__).parents[1] / "examples"


def module(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_demo():
    command = [sys.executable, EXAMPLES / "demo.py", "--scale", "10"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Graph(1,024 vertices" in out
    table = out.partition("algorithm ")[2]
    for name in ("bfs", "sssp", "pagerank", "components"):
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
