"""What a program becomes on a device: the plan, the text and the PTX, without running anything."""

import ast
import re

import pytest

import evener as ev
from evener.algorithms.betweenness import Betweenness
from evener.algorithms.bfs import BFS
from evener.algorithms.pagerank import PageRank
from evener.algorithms.sssp import SSSP
from evener.cli import main
from places import ROOT
from programs.loops import Repeats

GRAPH = ev.generate.rmat(6, 4, seed=1, weights=(1, 9))
COMPILED = ["cpu", "cpu:1", "cpu+cpu", "cuda", "cuda:3", "cuda+cuda", "cpu+cuda"]


@pytest.mark.parametrize("device", COMPILED)
def test_each_device_has_a_kernel_that_is_python(device):
    for program in (BFS, PageRank, SSSP, Betweenness):
        lowered = ev.lower(program, GRAPH, device=device)
        names = {node.name for node in ast.walk(ast.parse(lowered.text))
                 if isinstance(node, ast.FunctionDef)}  # fmt: skip
        assert "worker" in names
        assert str(lowered.plan).startswith(f"{program.__name__}, direction auto\n")
        assert lowered.device == device


def test_a_plan_tells_what_is_decided():
    one = str(ev.lower(PageRank, GRAPH, device="cpu").plan)
    assert "share written to a second copy; movement is reduced on the way" in one
    assert "in buckets of distance by delta, fused: relax" in str(ev.lower(SSSP, GRAPH).plan)
    both = str(ev.lower(SSSP, GRAPH, device="cpu+cuda").plan)
    assert "runs ahead while others are late: relax" in both
    parts = str(ev.lower(Betweenness, GRAPH, device="cpu+cpu", direction="push").plan)
    assert "all parts push" in parts
    assert "broadcast coefficient, depth" in parts
    alone = str(ev.lower(Betweenness, GRAPH, device="cuda").plan)
    assert "recorded, resumes at 1" in alone


def test_both_sides_of_a_mixed_set_print_one_plan():
    lowered = ev.lower(BFS, GRAPH, device="cpu+cuda")
    on_gpu, on_cpu = lowered._kernels
    assert on_gpu.plan is on_cpu.plan
    told = [line.split("(")[0].strip() for kernel in (on_gpu, on_cpu)
            for line in kernel.text.splitlines() if " census" in line or " carry" in line]  # fmt: skip
    assert told[: len(told) // 2] == told[len(told) // 2 :] != []


def test_start_is_not_called():
    class Starts(ev.Program):
        level = ev.Field(int, fill=0)
        times = ev.Param(int, 3)

        def start(self, source: ev.Vertex):
            raise AssertionError("nothing runs")

        @ev.functor
        def mark(v, s):
            s.level[v] = s.times

        loop = ev.stages.compute(mark)

    assert "compute mark" in str(ev.lower(Starts, GRAPH).plan)
    assert "f_mark" in ev.lower(Starts, GRAPH, source=3, times=4).text
    with pytest.raises(ev.ProgramError, match="sorce"):
        ev.lower(Starts, GRAPH, sorce=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "python"}, "has no kernel to show"),
        ({"device": "cpu+python"}, "has no kernel to show"),
        ({"device": "gpu"}, "did you mean 'cuda'"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"device": "cuda", "schedule": "none"}, "there is no schedule 'none'"),
        ({"schedule": "dynamic"}, "schedule is for a GPU"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ev.EvenerError, match=message):
        ev.lower(BFS, GRAPH, **options)


def test_ptx():
    pytest.importorskip("numba_cuda")
    for device in ("cuda", "cuda+cuda", "cpu+cuda"):
        assert ".visible .entry" in ev.lower(Repeats, GRAPH, device=device).ptx
    with pytest.raises(ev.DeviceError, match="there is no PTX for cpu"):
        _ = ev.lower(BFS, GRAPH).ptx


def test_the_command(capsys):
    assert main(["show", "bfs", "--device", "cpu+cuda"]) == 0
    out = capsys.readouterr().out
    assert "deliver depth, parent of emitted vertices" in out
    assert "Other programs of bfs: evener.algorithms.bfs:" in out
    assert main(["show", "evener.algorithms.sssp:SSSP", "grid:rows=3", "--text"]) == 2
    assert "needs weights" in capsys.readouterr().err
    assert main(["show", "sssp", "grid:rows=3,weights=1-9", "--text", "--device", "cuda"]) == 0
    ast.parse(capsys.readouterr().out)
    assert main(["show", "nothing"]) == 2
    assert main(["show", "bfs", "--device", "cpu", "--ptx"]) == 2
    assert "there is no PTX for cpu" in capsys.readouterr().err


def test_the_page_about_a_kernel_shows_what_is_printed():
    page = (ROOT / "docs" / "kernel.md").read_text()
    blocks = dict(re.findall(r"```(plan parts|plan|kernel)\n(.*?)```", page, re.DOTALL))
    graph = ev.generate.rmat(8, 8, seed=1, weights=(1, 9))
    lowered = ev.lower(BFS, graph, device="cuda")
    assert blocks["plan"] == f"{lowered.plan}\n"
    assert blocks["plan parts"] == f"{ev.lower(BFS, graph, device='cuda+cuda').plan}\n"
    kernel = re.sub(r"(?m)^ *#.*\n", "", blocks["kernel"])
    assert kernel == lowered.text
