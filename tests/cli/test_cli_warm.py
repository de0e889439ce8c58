"""``evener warm``: what it compiles, counts and tells."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from commands import assert_one_error
from evener.cli import warm
from evener.cli.algorithm import Algorithm
from evener.cli.warm import _warm, example_graphs
from evener.device.kept_files import cache_folder
from evener.engine.results.result import Result
from evener.graph.files import load

RMAT = "rmat:scale=6,seed=1,weights=1-9"


def test_warm_compiles_loading_of_names_gaps_and_parallel_rows(monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(
        warm, "load", lambda path, **how: read.append((path, how)) or load(path, **how)
    )
    warm._warm_loading([], tmp_path)
    kinds = {g._labels.kind for g in warm._labelled_graphs()}
    assert kinds == {"objects", "integers"}
    assert {how.get("verify") for path, how in read if path.suffix == ".evg"} == {True}


# A program that does not read weights has one kernel, others one for each dtype; a search that is
# bounded is another program.
WARMED = [("neural", 3, 12), pytest.param("bfs", 2, 24, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "kernels", "calls"), WARMED)
def test_warm_then_nothing_is_compiled(tmp_path, name, kernels, calls):
    for file in cache_folder().glob("*_chunks-*"):  # what makes graphs is not the point
        shutil.copy(file, tmp_path)
    environment = {**os.environ, "EVENER_CACHE": str(tmp_path)}

    def warm():
        command = [sys.executable, "-m", "evener", "warm", name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        report = json.loads(done.stdout)
        assert report["cache"] == str(tmp_path)
        return {row["algorithm"]: (row["compiled"], row["found"]) for row in report["warmed"]}

    assert warm() == {name: (kernels, calls - kernels)}
    assert warm() == {name: (0, calls)}


def test_warm_counts_kernels_of_gpus_and_what_finds_parents(tmp_path):
    asked = []

    def call(graph, device):
        (tmp_path / f"kernel-{graph.directed}.cubin").touch()  # of two kinds

        def parent():
            asked.append(graph)
            kind = None if graph.weights is None else graph.weights.dtype
            (tmp_path / f"adopt-{kind}.bin").touch()  # of four
            return np.zeros(graph.num_vertices)

        return Result("SSSP", graph, {"parent": parent}, stats={"compile_seconds": 1.0})

    graphs = example_graphs()
    target = Algorithm("sssp", "", [], call)
    warmed = _warm(target, "cuda", graphs, tmp_path)
    assert (warmed.compiled, warmed.found) == (5, 3)
    assert warmed.seconds >= len(asked) == len(graphs)
    warmed = _warm(target, "cuda", graphs, tmp_path)
    assert (warmed.compiled, warmed.found) == (0, 8)


def test_warm_for_people(run):
    code, out, err = run("warm", "bfs", "--device", "cpu:1")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split("  ")[0] == "algorithm"
    assert out.splitlines()[1].split()[:2] == ["bfs", "cpu:1"]
    assert str(cache_folder()) in out


def test_warm_knows_every_kind_of_graph():
    kinds = {
        (g.directed, None if g.weights is None else str(g.weights.dtype)) for g in example_graphs()
    }
    assert len(kinds) == 8
    assert {str(g.indices.dtype) for g in example_graphs()} == {"int32"}


def test_warm_of_bad_input(run, tmp_path, monkeypatch):
    assert_one_error(run("warm", "bsf"), "no algorithm 'bsf'")
    assert_one_error(run("warm", "--device", "tpu"), "no device 'tpu'")
    assert_one_error(run("warm", "--device", "python"), "nothing to compile")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path / "file"))
    assert_one_error(run("warm", "bfs"), "EVENER_CACHE")
