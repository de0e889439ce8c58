"""What algorithms do to the result of their program before they hand it on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from evener.engine.result import Result


def only(result: Result, *names: str) -> Result:
    """The result with the fields that the algorithm promises, less those it only worked with."""
    result._fields = result._fields.only(*names)
    return result


def note_convergence(result: Result, algorithm: str, largest: Any, tol: float, limit: int) -> None:
    """Set ``stats["converged"]``, and warn in one sentence if the answer is not the one asked for.

    ``largest`` maps the movements of the last iteration to the number that ``tol`` bounds.
    """
    iterations = result.stats["supersteps"]
    moved = largest(result.moved) if iterations else np.inf
    converged = result.graph.num_vertices == 0 or bool(moved < tol)
    result.stats["converged"] = converged
    if not converged:
        warnings.warn(
            f"{algorithm} did not converge in {limit} iterations; raise max_iterations or tol.",
            RuntimeWarning,
            stacklevel=3,
        )
