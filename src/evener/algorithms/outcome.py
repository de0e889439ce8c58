"""What algorithms do with the result of their program before returning it."""

from __future__ import annotations

import warnings

from evener.engine.results.result import Result


def keep_only(result: Result, *names: str) -> Result:
    """Remove all fields from the result but those that the algorithm documents."""
    result._fields = result._fields.only(*names)
    result._extra.clear()
    return result


def note_convergence(result: Result, algorithm: str, moved: float, tol: float, limit: int) -> None:
    """Set ``stats["converged"]``, and warn if the iteration ended before it converged.

    ``moved`` is the quantity that ``tol`` bounds, after the last iteration.
    """
    ended = result.stats["supersteps"] > 0 and moved < tol
    converged = result.graph.num_vertices == 0 or ended
    result.stats["converged"] = converged
    if not converged:
        warnings.warn(
            f"{algorithm} did not converge in {limit} iterations; raise max_iterations or tol.",
            RuntimeWarning,
            stacklevel=3,
        )
