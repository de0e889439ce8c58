"""What algorithms do to the result of their program before they hand it on."""

from __future__ import annotations

import warnings

from evener.engine.results.result import Result


def only(result: Result, *names: str) -> Result:
    """The result with the fields that the algorithm promises, less what it only worked with."""
    result._fields = result._fields.only(*names)
    result._extra.clear()
    return result


def note_convergence(result: Result, algorithm: str, moved: float, tol: float, limit: int) -> None:
    """Set ``stats["converged"]``, and warn in one sentence if the answer is not the one asked for.

    ``moved`` is what ``tol`` bounds, as the last iteration left it.
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
