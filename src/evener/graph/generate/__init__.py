"""Generated graphs: random ones as the papers use them, and regular shapes.

A seed gives the same graph on any number of threads, device and machine: each random number is a
function of the seed and of what it is for (`evener.device.random`), not of the order of drawing.
R-MAT, uniform graphs and grids are also made on a GPU, with ``device="cuda"``.

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
