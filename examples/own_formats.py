"""Read graphs in other formats with `Graph.from_edges` and `Graph.from_frame`.

python examples/own_formats.py DATA

DATA is a folder with ``actor.dat.gz`` (one film per line, as the ids of its actors) and
``openflights-routes.dat.gz`` (CSV without a header).
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import polars as pl

import evener as ev

ROUTE_COLUMNS = (
    "airline", "airline_id", "from", "from_id", "to", "to_id", "codeshare", "stops", "equipment",
)  # fmt: skip


def actors(path: Path) -> ev.Graph:
    """Two actors are neighbours if they appear in the same film: every line is a clique."""
    src, dst = [], []
    with gzip.open(path, "rt") as file:
        for line in file:
            cast = np.array(line.split(), dtype=np.int32)
            first, second = np.triu_indices(len(cast), k=1)
            src.append(cast[first])
            dst.append(cast[second])
    graph = ev.Graph.from_edges(
        np.concatenate(src), np.concatenate(dst),
        directed=False, self_loops="drop", duplicates="first",
    )  # fmt: skip
    return graph.subgraph(np.flatnonzero(graph.degrees))  # without actors who have no co-actor


def flights(path: Path) -> ev.Graph:
    """Airports by their OpenFlights number; ``\\N`` stands for an unknown one."""
    routes = pl.read_csv(
        path, has_header=False, null_values="\\N", new_columns=list(ROUTE_COLUMNS)
    ).drop_nulls(["from_id", "to_id"])
    return ev.Graph.from_frame(routes, "from_id", "to_id")


def main() -> None:
    data = Path(sys.argv[1])
    print("actors: ", actors(data / "actor.dat.gz"))
    print("flights:", flights(data / "openflights-routes.dat.gz"))


if __name__ == "__main__":
    main()
