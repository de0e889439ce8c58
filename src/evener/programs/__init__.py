"""Declarations of graph programs: fields, functors, stages. Nothing here compiles or runs them."""

from evener.programs import gas, stages, vertex
from evener.programs.fields import DISTANCE, ID, REAL, VERTEX, WEIGHT, Field, Param, Scalar, Vertex
from evener.programs.functors import functor
from evener.programs.program import Program

__all__ = [
    "DISTANCE", "ID", "REAL", "VERTEX", "WEIGHT", "Field", "Param", "Program", "Scalar", "Vertex",
    "functor", "gas", "stages", "vertex",
]  # fmt: skip
