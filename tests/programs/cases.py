"""Each program with a graph and parameters to run it on."""

import numpy as np

import evener as ev
from evener.algorithms.betweenness import Betweenness, DirectedBetweenness
from evener.algorithms.bfs import BFS, BoundedBFS
from evener.algorithms.circuit import Circuit
from evener.algorithms.connected_components import Components, DirectedComponents
from evener.algorithms.heat import Heat
from evener.algorithms.neural import Neural
from evener.algorithms.pagerank import (
    DanglingPageRank,
    PageRank,
    PersonalPageRank,
    WeightedPageRank,
)
from evener.algorithms.parents import LevelParents, Parents
from evener.algorithms.sssp import SSSP, CutoffSSSP, TargetSSSP
from evener.algorithms.sswp import SSWP
from evener.programs.reals import with_reals
from programs.examples import module, programs
from programs.loops import EdgesThroughout, LoopsInLoops, Nested, OverEdges
from programs.merged import Reset
from programs.ordered import Bounded
from programs.searches import Paths, Search
from programs.stages import Around, Everything, Gathered, OnEdges, Spread

WHOLE = ev.generate.rmat(5, 4, weights=(1, 9), seed=1)  # undirected, integer weights
WIDE = ev.Graph(WHOLE._indptr, WHOLE._indices, WHOLE._weights << 26, directed=False)
REAL = ev.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], [1.5, 2.0, 3.0, 1.0])
ONES = np.ones(WHOLE.num_vertices)
IN_32_BITS = {
    with_reals(DanglingPageRank, "float32"): (REAL, {}),
    with_reals(PageRank, "float32"): (WHOLE, {}),
    with_reals(PersonalPageRank, "float32"): (REAL, {}),
    with_reals(WeightedPageRank, "float32"): (REAL, {}),
}
CASES = {
    BFS: (WHOLE, {"source": 0}),
    BoundedBFS: (WHOLE, {"source": 0}),
    SSSP: (WHOLE, {"source": 0}),
    CutoffSSSP: (WIDE, {"source": 0}),
    TargetSSSP: (REAL, {"source": 0}),
    Parents: (WHOLE, {"source": 0, "distances": ONES}),
    LevelParents: (REAL, {"source": 0, "distances": np.zeros(4)}),
    SSWP: (WHOLE, {"source": 0}),
    PageRank: (WHOLE, {}),
    DanglingPageRank: (REAL, {}),
    PersonalPageRank: (WHOLE, {}),
    WeightedPageRank: (WHOLE, {}),
    Components: (WHOLE, {}),
    DirectedComponents: (REAL, {}),
    Betweenness: (WHOLE, {"sources": np.array([0, 1])}),
    DirectedBetweenness: (REAL, {"sources": np.array([0, 1])}),
    Circuit: (WHOLE, {"initial": ONES, "held": np.array([0])}),
    Heat: (WHOLE, {"initial": ONES}),
    Neural: (WHOLE, {"initial": ONES}),
    **IN_32_BITS,
}
# Between them these have every operator that a schedule changes.
FEW = [BFS, SSSP, PageRank, Betweenness, Components]
QUICK = [BFS, SSSP, PageRank, Components]  # betweenness takes as long to compile as all of them
# And these every stage and loop that no algorithm has.
STAGES = [OverEdges, Bounded, Spread]
MORE_STAGES = [Everything, EdgesThroughout, Nested, LoopsInLoops, Around, *programs()]

_FEW_STOPS = module("few_stops").FewStops
_HOPS = module("vertex_centric").Hops
_K_CORE = module("k_core").KCore

# Programs whose kernels `make test` compiles or simulates for a target: between them they name every
# operator that the kernel of any program names, which `engine/test_kernel_texts.py` checks.
COVERING = {
    "cpu_parts_of_one_thread": [
        Search, SSSP, PageRank, LevelParents, Reset, OnEdges, Gathered, EdgesThroughout, Bounded,
        _FEW_STOPS, module("vertex_centric").Rank,
        module("gather_apply_scatter").Rank,
    ],
    "gpu": [
        DanglingPageRank, OnEdges, Bounded, LoopsInLoops, _K_CORE, EdgesThroughout, SSSP,
        _FEW_STOPS, _HOPS,
    ],
    "gpu_parts": [
        _K_CORE, TargetSSSP, Circuit, OnEdges, LoopsInLoops, Paths, EdgesThroughout, SSSP,
        _FEW_STOPS, _HOPS,
    ],
    "gpu_beside_cpu": [
        _K_CORE, TargetSSSP, Circuit, module("widest_path").Widest, OnEdges, Paths, LoopsInLoops,
        EdgesThroughout, _FEW_STOPS, _HOPS,
    ],
}  # fmt: skip


def parameters_for(program, graph):
    """Parameters that suit any graph that has a vertex."""
    n = graph.num_vertices
    ones = np.ones(n)
    known = {
        "source": 0, "distances": np.zeros(n), "initial": ones * np.arange(n), "held": np.array([0]),
        "sources": np.arange(min(2, n)), "seeds": np.array([0]), "target": 5, "max_iterations": 3,
    }  # fmt: skip
    d = program.declaration
    asked = {*d.start_parameters, *d.params}
    return {name: value for name, value in known.items() if name in asked}


def needs_source(program):
    """Whether its ``start`` asks for a source."""
    return "source" in program.declaration.start_parameters


def parameters_of(program, graph):
    """Parameters for a program, or None where the graph has too few vertices for them."""
    found = parameters_for(program, graph)
    if program is Bounded:
        found["delta"] = 1.0
    needed = 6 if "target" in found else int(program in programs() or len(found) > 0)
    if graph.num_vertices < needed:
        return None
    for name in found.keys() & {"source", "seeds"}:
        found[name] = graph.labels[0] if name == "source" else graph.labels[:1]
    return found


def suits(program, graph):
    """Whether a program takes graphs of this direction."""
    return program.__name__.startswith("Directed") or not (
        graph.directed and program.__name__ in ("Betweenness", "Components")
    )
