"""The command in this process."""

import json

import pytest

import evener as ev
from evener.cli import main


@pytest.fixture
def run(capsys):
    """Run a command in this process: (exit code, standard output, standard error)."""

    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def facts(run):
    """Run ``evener run … --json``, which must succeed."""

    def call(*words):
        code, out, err = run("run", *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


@pytest.fixture
def towns(tmp_path):
    """Labels that are names, one of them with a comma."""
    graph = ev.Graph.from_edges(
        [0, 1, 2], [1, 2, 3], [4, 2, 3], directed=False, labels=["Bonn", "Ulm, Donau", "Trier", "7"]
    )
    graph.save(tmp_path / "towns.evg")
    return tmp_path / "towns.evg"
