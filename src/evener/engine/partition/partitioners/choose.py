"""`partition`: the part of each vertex by the name of a partitioner, checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.engine.partition.partitioners import by_vertex, neighbours
from evener.errors import EvenerError, ProgramError, did_you_mean
from evener.graph.csr import Graph
from evener.graph.generate.common import seed_of

FACTOR = 0.5  # of `biased`: as much bias as chance

# What each does with the graph, positive shares that add up to 1, the options given, and the part
# of the CPU; and its options, beside `alpha` and `shares`, which all have.
PARTITIONERS: dict[str, tuple[Callable[[Graph, np.ndarray, Partitioner, int], np.ndarray], Any]] = {
    "random": (lambda graph, shares, p, cpu: by_vertex.random(graph, shares, p.seed), ["seed"]),
    "static": (lambda graph, shares, p, cpu: by_vertex.static(graph, shares), []),
    "contiguous": (lambda graph, shares, p, cpu: by_vertex.contiguous(graph, shares), []),
    "metis": (lambda graph, shares, p, cpu: neighbours.metis(graph, shares, p.seed), ["seed"]),
    "biased": (
        lambda graph, shares, p, cpu: neighbours.biased(graph, shares, p.factor, p.seed),
        ["factor", "seed"],
    ),
    "high": (
        lambda graph, shares, p, cpu: by_vertex.by_degree(graph, shares, cpu, True, p.seed),
        ["seed"],
    ),
    "low": (
        lambda graph, shares, p, cpu: by_vertex.by_degree(graph, shares, cpu, False, p.seed),
        ["seed"],
    ),
}


class Partitioner(NamedTuple):
    """A partitioner by name, with the options after the colon."""

    name: str
    alpha: float | None = None
    shares: tuple[float, ...] | None = None
    factor: float = FACTOR
    seed: int = 0


def partition(
    graph: Graph, how: Any, shares: Sequence[float], seed: int = 0, *, cpu: int = 0
) -> np.ndarray:
    """Assign every vertex, and with it its out-edges, to a part.

    Parameters
    ----------
    graph
        The graph.
    how
        ``"random"`` (the same as ``"auto"``); ``"static"``: round robin, vertex v to part v mod k
        where shares are equal; ``"contiguous"``: ranges of vertices with their share of the edges;
        ``"metis"``: few edges between parts, with pymetis; ``"biased"``: random, but towards the
        part of most neighbours; ``"high"`` and ``"low"``: the vertices of the highest or lowest
        degree to the part ``cpu`` until it has its share of the edges, the rest at random. Options
        follow a colon, separated by commas: ``alpha=`` (the share of part ``cpu``), ``shares=``
        (all of them, as ``2/1/1``), ``factor=`` (of ``biased``, from 0, no bias, to 1, nothing
        but bias) and ``seed=``. Or a function ``(graph, shares)``.
    shares
        How much of the graph each part should have. Only a part with share 0 may stay empty,
        unless there are more parts than vertices.
    seed
        Seed of the random numbers.
    cpu
        The part that ``alpha``, ``high`` and ``low`` refer to: the first CPU of a device set.

    Returns
    -------
    np.ndarray
        The part of each vertex, int32.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners import partition
    >>> star = generate.star(6)
    >>> partition(star, "static", [1, 1]).tolist()
    [0, 1, 0, 1, 0, 1]
    >>> partition(star, "high:alpha=0.5", [1, 1]).tolist()
    [0, 1, 1, 1, 1, 1]
    """
    wanted = _checked(shares)
    if callable(how):
        name = getattr(how, "__name__", "given")
        _require_two(how, name)
        return _validated(how(graph, wanted.tolist()), graph.num_vertices, wanted, name)
    chosen = parse_partitioner(how, len(wanted), seed)
    if chosen.shares is not None:
        wanted = _checked(chosen.shares)
    if chosen.alpha is not None:
        wanted = _with_alpha(wanted, chosen.alpha, cpu)
    # Partitioners see only the parts with a share.
    active = np.flatnonzero(wanted)
    if len(active) == 1:
        return np.full(graph.num_vertices, active[0], np.int32)
    at = int(np.searchsorted(active, cpu))
    name = chosen.name
    if name in ("high", "low") and wanted[cpu] == 0:
        name = "random"
    assign, _ = PARTITIONERS[name]
    part_of = assign(graph, wanted[active], chosen, at)
    _fill_empty(part_of, len(active))
    return part_of if len(active) == len(wanted) else active.astype(np.int32)[part_of]


def parse_partitioner(how: Any, k: int | None = None, seed: int = 0) -> Partitioner:
    """A partitioner from its name and options; ``k`` is the number of parts, where known.

    Examples
    --------
    >>> from evener.engine.partition.partitioners import parse_partitioner
    >>> parse_partitioner("high:alpha=0.75").alpha
    0.75
    >>> parse_partitioner("hihg")
    Traceback (most recent call last):
    evener.errors.EvenerError: there is no partitioner 'hihg' (did you mean 'high'?); there \
are 'auto', 'random', 'static', 'contiguous', 'metis', 'biased', 'high', 'low' and functions \
(graph, shares).
    """
    text = how if isinstance(how, str) else ""
    name, _, options = text.partition(":")
    name = "random" if name == "auto" else name
    if name not in PARTITIONERS:
        known = ("auto", *PARTITIONERS)
        raise EvenerError(
            f"there is no partitioner {how!r}{did_you_mean(name, known)}; there are "
            f"{', '.join(map(repr, known))} and functions (graph, shares)."
        )
    partitioner = Partitioner(name, seed=seed_of(seed))
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        partitioner = partitioner._replace(**{key: _option(how, name, key, value)})
    if partitioner.shares is not None:
        if k is not None and len(partitioner.shares) != k:
            raise EvenerError(
                f"partition {how!r} has {len(partitioner.shares)} shares for {k} parts."
            )
        _checked(partitioner.shares)
    return partitioner


def _option(how: str, name: str, key: str, value: str) -> Any:
    allowed = ["alpha", "shares", *PARTITIONERS[name][1]]
    if key not in allowed:
        raise EvenerError(f"partition {how!r}: {name} takes {', '.join(allowed)}, not {key!r}.")
    try:
        if key == "seed":
            return int(value)
        if key == "shares":
            return tuple(map(float, value.split("/")))
        number = float(value)
    except ValueError:
        raise EvenerError(
            f"partition {how!r}: {key} is {value!r}, which is not a number."
        ) from None
    if not 0 <= number <= 1:
        raise EvenerError(f"partition {how!r}: {key} is {value}; it must be between 0 and 1.")
    return number


def _checked(shares: Sequence[float]) -> np.ndarray:
    wanted = np.asarray(shares, np.float64)
    usable = wanted.ndim == 1 and len(wanted) and np.isfinite(wanted).all() and wanted.min() >= 0
    if not usable or not 0 < wanted.sum() < math.inf:
        raise EvenerError(
            f"shares are {list(shares)}; they must be numbers of at least 0, one of them above 0."
        )
    return wanted / wanted.sum()


def _with_alpha(shares: np.ndarray, alpha: float, cpu: int) -> np.ndarray:
    """The shares with ``alpha`` for one part; the others keep their proportions."""
    others = 1.0 - shares[cpu]
    if others == 0:  # the others have no proportions
        shares = np.ones_like(shares)
        others = len(shares) - 1.0
    if others == 0:
        return np.ones(1)
    changed = shares * ((1 - alpha) / others)
    changed[cpu] = alpha
    return changed


def _fill_empty(part_of: np.ndarray, k: int) -> None:
    """Give each empty part a vertex of the largest part, as long as there are vertices."""
    counts = np.bincount(part_of, minlength=k)
    for empty in np.flatnonzero(counts == 0)[: max(0, len(part_of) - np.count_nonzero(counts))]:
        largest = np.argmax(counts)
        part_of[np.argmax(part_of == largest)] = empty
        counts[largest] -= 1
        counts[empty] += 1


def _require_two(how: Any, name: str) -> None:
    """Refuse a function that does not take a graph and shares."""
    try:
        inspect.signature(how).bind(None, None)
    except TypeError:
        raise ProgramError(
            f"partitioner {name} must take two arguments, the graph and the shares of the parts."
        ) from None
    except ValueError:  # it has no signature
        return


def _validated(returned: Any, n: int, shares: np.ndarray, name: str) -> np.ndarray:
    """The result of a user's partitioner, checked to be the part of each vertex."""
    try:
        part_of, k = np.asarray(returned), len(shares)
    except ValueError:  # lists of different lengths
        part_of, k = np.empty(0, object), len(shares)
    if part_of.shape != (n,) or (part_of.dtype.kind not in "iu" and n):
        what = f"{part_of.dtype} of shape {part_of.shape}"
        raise ProgramError(
            f"partitioner {name} must return {n} whole numbers from 0 to {k - 1}, the part of each "
            f"vertex, not {what}."
        )
    if n and (part_of.min() < 0 or part_of.max() >= k):
        outside = part_of[(part_of < 0) | (part_of >= k)][0]
        raise ProgramError(
            f"partitioner {name} must return {n} whole numbers from 0 to {k - 1}, not {outside}."
        )
    part_of = part_of.astype(np.int32)
    empty = np.flatnonzero((np.bincount(part_of, minlength=k) == 0) & (shares > 0))
    if len(empty) and n >= np.count_nonzero(shares):
        raise ProgramError(
            f"partitioner {name} leaves part {empty[0]} empty, whose share is "
            f"{shares[empty[0]]:.3g}; give it a vertex, or ask for a share of 0."
        )
    return part_of
