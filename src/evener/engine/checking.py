"""Runs of programs that check themselves (`evener.programs.with_guards`)."""

from __future__ import annotations

import os

import numpy as np

from evener.engine.codegen.functors import fingerprints_of
from evener.engine.job import Job, field_dtype
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs.program import Program, program_cache
from evener.programs.with_guards import FAULTS, describe_faults, with_guards


def is_requested(check: bool) -> bool:
    """Whether a run must check itself, by its option or by ``EVENER_CHECK``."""
    return bool(check) or os.environ.get("EVENER_CHECK", "") not in ("", "0")


class Checking:
    """The checked form of a program, and the faults of its runs."""

    def __init__(self, program: type[Program], graph: Graph):
        d = program.declaration
        dtypes = tuple(field_dtype(field.dtype, graph) for field in d.fields.values())
        key = (fingerprints_of(d), dtypes)
        known = program_cache(program, "checked")
        if key not in known:
            known.clear()  # a global has changed, and so has the program
            known[key] = with_guards(program, lambda field: field_dtype(field.dtype, graph))
        self.program, self._places = known[key]
        self._original = program

    def finish(self, job: Job) -> None:
        """Remove the faults from a job that has run; ProgramError if there are any."""
        faults = np.asarray(job.fields.pop(FAULTS))
        job.program = self._original
        labels = job.graph.labels
        message = describe_faults(self._places, faults, lambda v: np.asarray(labels[v]).item())
        if message is not None:
            raise ProgramError(message)
