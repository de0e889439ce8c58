"""What kind of frontier reaches each stage: vertices, or the edges that an advance emitted."""

from __future__ import annotations

from dataclasses import replace

from evener.errors import ProgramError
from evener.programs.stages import Advance, Backwards, Repeat, Stage

VERTICES = frozenset({"vertices"})
EDGES = frozenset({"edges"})
Kind = frozenset[str]  # both, where a loop comes back with another kind than it started with


def resolve(program: str, loop: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The loop with every filter and compute told whether it runs on edges."""
    return _Resolver(program).sequence(loop, VERTICES)[0]


class _Resolver:
    def __init__(self, program: str):
        self.program = program
        self.recorded: Kind = VERTICES

    def sequence(self, stages: tuple[Stage, ...], kind: Kind) -> tuple[tuple[Stage, ...], Kind]:
        resolved = []
        for stage in stages:
            found, kind = self.stage(stage, kind)
            resolved.append(found)
        return tuple(resolved), kind

    def stage(self, stage: Stage, kind: Kind) -> tuple[Stage, Kind]:
        """A stage that gets this kind of frontier, and the kind that it leaves."""
        if isinstance(stage, Repeat):
            return self.repeat(stage, kind)
        if isinstance(stage, Backwards):
            return replace(stage, stages=self.sequence(stage.stages, self.recorded)[0]), kind
        if not stage.takes:
            return stage, kind
        taken = VERTICES if stage.over_all else kind
        if isinstance(stage, Advance):  # which takes edges as the set of their targets
            return stage, EDGES if stage.emit == "edges" else VERTICES
        if not stage.takes_edges and taken != VERTICES:
            self.fail(stage, "cannot take a frontier of edges")
        if stage.takes_edges:
            if len(taken) > 1:
                self.fail(stage, "takes vertices in the first superstep and edges afterwards")
            stage = replace(stage, on_edges=taken == EDGES)  # type: ignore[call-arg]
        return stage, taken if stage.makes else kind

    def repeat(self, stage: Repeat, kind: Kind) -> tuple[Stage, Kind]:
        body, after = self.sequence(stage.stages, kind)
        if not after <= kind:  # the second superstep starts with another kind than the first
            kind = kind | after
            body, after = self.sequence(stage.stages, kind)
        if stage.order is not None and kind != VERTICES:
            self.fail(stage, "with order= cannot take a frontier of edges")
        if stage.record:
            self.recorded = kind
        return replace(stage, stages=body), kind | after

    def fail(self, stage: Stage, what: str) -> None:
        raise ProgramError(f"{self.program}: {type(stage).__name__.lower()} {what}.")
