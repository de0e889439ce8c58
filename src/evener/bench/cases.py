"""The cases of the benchmark: algorithms and their work, graphs by name, and sources.

The five algorithms and their conventions are those of the GAP Benchmark Suite (Beamer, Asanović,
Patterson: arXiv 1508.03619): integer weights from 1 to 255, betweenness from four sources, 32-bit
ranks. PageRank does a fixed number of iterations, so that all contenders do the same work.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evener import algorithms
from evener.bench.brandes import check_betweenness
from evener.bench.findings import Finding, components, depths, near_top
from evener.errors import EvenerError, GraphError, did_you_mean
from evener.graph import files, generate
from evener.graph.csr import Graph
from evener.graph.files.source import Source
from evener.graph.generate.common import seed_of
from evener.graph.generate.spec import read_spec
from evener.graph.generate.weights import weight_range, with_weights

ITERATIONS = 20  # of PageRank
BC_SOURCES = 4
WEIGHTS = (1, 255)
DEFAULT_GRAPHS = ("kron20", "uniform20", "kron18x48", "grid1500")

_NAMED = re.compile(r"(kron|uniform|grid)(\d+)(?:x(\d+))?")
_REMOVED = 0.05  # share of a grid's edges


class Algorithm(NamedTuple):
    """One algorithm: how to run it, how to check an answer, and how many arcs it counts as."""

    name: str
    run: Callable[..., Any]  # graph, sources, device
    verify: Callable[..., None]  # graph, result, sources
    arcs: Callable[[Graph, int], float]  # graph, mean number of arcs that a search reaches
    summarize: Callable[[Any, Sequence[int]], Finding]  # what other answers must agree with
    sources: int  # number of sources of one call


def _bfs(graph: Graph, sources: Sequence[int], device: str) -> Any:
    return algorithms.bfs(graph, sources[0], device=device)


def _sssp(graph: Graph, sources: Sequence[int], device: str) -> Any:
    return algorithms.sssp(graph, sources[0], device=device)


def _pagerank(graph: Graph, sources: Sequence[int], device: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about stopping at max_iterations
        return algorithms.pagerank(
            graph, tol=0.0, max_iterations=ITERATIONS, dtype=np.float32, device=device
        )


def _components(graph: Graph, sources: Sequence[int], device: str) -> Any:
    return algorithms.connected_components(graph, device=device)


def _betweenness(graph: Graph, sources: Sequence[int], device: str) -> Any:
    return algorithms.betweenness(graph, sources=list(sources), device=device)


def _verify_bfs(graph: Graph, result: Any, sources: Sequence[int]) -> None:
    from evener.algorithms.bfs import verify

    verify(graph, result, sources[0])


def _verify_sssp(graph: Graph, result: Any, sources: Sequence[int]) -> None:
    from evener.algorithms.sssp import verify

    verify(graph, result, sources[0])


def _verify_pagerank(graph: Graph, result: Any, sources: Sequence[int]) -> None:
    from evener.algorithms.pagerank import verify

    # Ranks start at most 2 away from the answer; each iteration multiplies that by the damping.
    verify(graph, result, tol=2 * 0.85**ITERATIONS)


def _verify_components(graph: Graph, result: Any, sources: Sequence[int]) -> None:
    from evener.algorithms.connected_components import verify

    verify(graph, result)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "bfs", _bfs, _verify_bfs, lambda graph, reached: reached,
            lambda r, _: depths(r.depth), 1,
        ),
        Algorithm(
            "sssp", _sssp, _verify_sssp, lambda graph, reached: reached,
            lambda r, _: depths(r.distance), 1,
        ),
        Algorithm(
            "pagerank", _pagerank, _verify_pagerank,
            lambda graph, reached: ITERATIONS * graph.num_edges,
            lambda r, _: near_top(r.rank), 0,
        ),
        Algorithm(
            "cc", _components, _verify_components, lambda graph, reached: graph.num_edges,
            lambda r, _: components(r.count), 0,
        ),
        Algorithm(
            "bc", _betweenness, check_betweenness, lambda graph, reached: reached,
            lambda r, sources: near_top(r.score, sources), BC_SOURCES,
        ),
    )
}  # fmt: skip


def parse_algorithms(text: str) -> list[Algorithm]:
    """The algorithms in a comma-separated list of names.

    Examples
    --------
    >>> from evener.bench.cases import parse_algorithms
    >>> [algorithm.name for algorithm in parse_algorithms("bfs,cc")]
    ['bfs', 'cc']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            near = did_you_mean(name, ALGORITHMS)
            raise EvenerError(f"there is no benchmark {name!r}{near}; there are {known}.")
    if not names:
        raise EvenerError("--algorithms is empty; name one, such as bfs.")
    return [ALGORITHMS[name] for name in dict.fromkeys(names)]


def parse_graphs(text: str) -> list[str]:
    """The graphs in a comma-separated list of names, generators (which have commas) and files.

    Examples
    --------
    >>> from evener.bench.cases import parse_graphs
    >>> parse_graphs("kron14,rmat:scale=10,edge_factor=8,grid100")
    ['kron14', 'rmat:scale=10,edge_factor=8', 'grid100']
    """
    graphs: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if graphs and ":" in graphs[-1] and re.fullmatch(r"\w+\s*=[^:]*", part):
            graphs[-1] += f",{part}"
        else:
            graphs.append(part)
    if not graphs:
        raise EvenerError("--graphs is empty; name one, such as kron14.")
    return list(dict.fromkeys(graphs))


def spec_of(name: str, seed: int) -> str:
    """The generator or file of a name: ``kron18x48`` is R-MAT of scale 18, 48 edges per vertex.

    Examples
    --------
    >>> from evener.bench.cases import spec_of
    >>> spec_of("kron18x48", 1), spec_of("grid1500", 1)
    ('rmat:scale=18,edge_factor=48,seed=1', 'grid:rows=1500,removed=0.05,seed=1')
    """
    match = _NAMED.fullmatch(name)
    if match is None:
        kind = name.partition(":")[0].strip()
        if kind not in generate.KINDS:
            return name
        colon = "" if ":" in name else ":"
        has_seed = re.search(r"[:,]\s*seed\s*=", name)
        return name if has_seed else f"{name}{colon},seed={seed}".replace(":,", ":")
    kind, size, factor = match.groups()
    if kind == "grid":
        columns = f",columns={factor}" if factor else ""
        return f"grid:rows={size}{columns},removed={_REMOVED},seed={seed}"
    kind = "rmat" if kind == "kron" else kind
    return f"{kind}:scale={size},edge_factor={factor or 16},seed={seed}"


def check_graph(name: str, seed: int) -> None:
    """Refuse an unknown graph, before any work is done for others.

    Examples
    --------
    >>> from evener.bench.cases import check_graph
    >>> check_graph("nosuch", 1)
    Traceback (most recent call last):
    evener.graph.files.source.MissingFileError: nosuch does not exist.
    """
    spec = spec_of(name, seed)
    if _is_generator(spec):
        read_spec(spec)
        return
    path = Path(spec).expanduser()
    # Graphalytics files may be named by their common name.
    if files.format_of(path) != "graphalytics" or path.suffix.lower() in (".e", ".v"):
        Source(path)


def make_graph(name: str, seed: int) -> Graph:
    """Make or load a graph, with weights and with labels equal to indices.

    Examples
    --------
    >>> from evener.bench.cases import make_graph
    >>> make_graph("kron6", 1).weights.max() <= 255
    np.True_
    """
    spec = spec_of(name, seed)
    graph = generate.from_spec(spec) if _is_generator(spec) else files.load(spec)
    if graph.num_edges == 0:
        raise GraphError(f"{name} has no edges; there is nothing to measure.")
    if graph.weights is None:
        return with_weights(graph, weight_range(WEIGHTS), seed)
    return Graph(graph._indptr, graph._indices, graph._weights, directed=graph.directed)


def _is_generator(spec: str) -> bool:
    return spec.partition(":")[0].strip() in generate.KINDS


def choose_sources(graph: Graph, count: int, seed: int) -> list[int]:
    """Draw vertices with out-arcs from the largest component; fewer if it is small.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.bench.cases import choose_sources
    >>> sorted(choose_sources(Graph.from_edges([0, 2, 3], [1, 3, 4], directed=False), 3, 1))
    [2, 3, 4]
    """
    rng = np.random.default_rng(seed_of(seed, low=0))
    found = algorithms.connected_components(graph, device="cpu").component
    largest = np.bincount(found).argmax()
    candidates = np.flatnonzero((found == largest) & (graph.degrees > 0))
    return rng.permutation(candidates)[:count].tolist()  # a larger count keeps the first ones


def reached_arcs(graph: Graph, sources: Sequence[int]) -> dict[int, int]:
    """The number of arcs of the vertices that a search from each source reaches."""
    found = {}
    for source in sources:
        depth = algorithms.bfs(graph, source, device="cpu").depth
        found[source] = int(graph.degrees[depth >= 0].sum(dtype=np.int64))
    return found
