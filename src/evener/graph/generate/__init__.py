"""Graph generators: the random graphs that papers use, and regular shapes.

A seed gives the same graph with any number of threads, on any device and machine: each random
number is a function of the seed and of its purpose (`evener.device.random`), not of the order of
drawing. With ``device="cuda"``, R-MAT, uniform graphs and grids are made on a GPU.

>>> import evener as ev
>>> g = ev.generate.rmat(6, seed=1)
>>> (g.indices == ev.generate.from_spec("rmat:scale=6,seed=1").indices).all()
np.True_
"""

from evener.graph.generate.geometry import delaunay, geometric
from evener.graph.generate.lattices import complete, grid, path, star, tree
from evener.graph.generate.pairing import regular
from evener.graph.generate.random_graphs import rmat, uniform
from evener.graph.generate.spec import KINDS, from_spec

__all__ = [
    "KINDS",
    "complete",
    "delaunay",
    "from_spec",
    "geometric",
    "grid",
    "path",
    "regular",
    "rmat",
    "star",
    "tree",
    "uniform",
]
