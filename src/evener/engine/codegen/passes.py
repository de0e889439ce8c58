"""From the stages of a program to the plan of its kernel, in passes.

`plan_of` builds a tree of the stages, which each pass rewrites. A pass decides one thing and leaves
the rest unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from evener.engine.codegen import fusion, plan
from evener.engine.codegen.analysis import Needs
from evener.engine.codegen.rewrite import far_is_global
from evener.engine.job import Job
from evener.errors import DeviceError
from evener.programs import kinds
from evener.programs.program import Declaration
from evener.programs.stages import walk

Steps = tuple[plan.Step, ...]
IDEMPOTENT = ("min", "max", "any")


class NotLoweredError(DeviceError):
    """A program uses something that this version runs only in the interpreter."""


class Shape(NamedTuple):
    """The properties of devices that the plan of a kernel depends on."""

    on_grid: bool = False  # of a GPU, rather than threads of a CPU
    over_parts: bool = False
    hub: bool = False  # whether some parts are on other machines

    @property
    def refusal(self) -> str:
        """The end of the message that refuses a program there."""
        if self.on_grid and self.over_parts:
            return (
                "which this version does not run on parts of a GPU; use one device, or parts of "
                "the CPU."
            )
        if self.on_grid:
            return "which this version does not run on a GPU."
        return "which this version runs only on device='python'."


def plan_of(job: Job, direction: str, shape: Shape) -> plan.KernelPlan:
    """The plan of a job's kernel; DeviceError if the program does not run there."""
    d = job.declaration
    needs = Needs(d) if shape.over_parts else None
    made = plan.KernelPlan(d, direction, job.graph.directed, _Builder(d, shape, direction).body())
    made = replace(made, over_parts=shape.over_parts, hub=shape.hub)
    made = fuse_gathers(made, needs)
    made = choose_loops(made, needs)
    if needs is not None:
        return exchange(made, needs, shape)
    made = find_exact(made)
    return resume(made) if shape.on_grid else made


def stage_plan(job: Job, stage: kinds.Stage, direction: str) -> plan.KernelPlan:
    """The plan of a kernel of one stage, whose frontiers the host makes and reads."""
    d = job.declaration
    if isinstance(stage, kinds.Advance):  # edges arrive as their targets; none is emitted twice
        stage = replace(stage, idempotent=False)
    builder = _Builder(d, Shape(), direction, keeps=True, has_edges=False)
    body = builder.steps((replace(stage, over_all=False),))
    return fuse_gathers(plan.KernelPlan(d, direction, job.graph.directed, body), None)


def rewrite(steps: Steps, change: Callable[[Steps], Steps]) -> Steps:
    """Apply ``change`` to each sequence of steps, those in loops first."""

    def within(step: plan.Step) -> plan.Step:
        nodes = tuple(
            replace(node, body=rewrite(node.body, change)) if isinstance(node, plan.AnyLoop)
            else node
            for node in step.nodes
        )  # fmt: skip
        return replace(step, nodes=nodes)

    return change(tuple(map(within, steps)))


# ---- the tree of the stages --------------------------------------------------------------------


class _Builder:
    def __init__(
        self, d: Declaration, shape: Shape, direction: str, keeps: bool = False,
        has_edges: bool | None = None,
    ):  # fmt: skip
        self.d, self.shape, self.direction, self.keeps_all = d, shape, direction, keeps
        emits = any(isinstance(s, kinds.Advance) and s.emit == "edges" for s in walk(d.loop))
        self.has_edges = emits if has_edges is None else has_edges
        self.replays = d.replays
        self.loops = self.gathers = 0
        self.in_replay = self.in_place = False

    def body(self) -> Steps:
        return self.steps(self.d.loop)

    def steps(self, stages: tuple[kinds.Stage, ...]) -> Steps:
        return tuple(
            plan.Step(stage, tuple(self.nodes(stage, self.keeps(stages, i))))
            for i, stage in enumerate(stages)
        )

    def keeps(self, stages: tuple[kinds.Stage, ...], at: int) -> bool:
        """Whether a stage may take the frontier that this one makes; else it is only counted."""
        if self.in_place:
            return at + 1 < len(stages)
        loops = kinds.Repeat | kinds.Backwards | kinds.Edges
        return self.keeps_all or any(
            not stage.over_all and not isinstance(stage, loops) for stage in walk(self.d.loop)
        )

    def nodes(self, stage: kinds.Stage, keeps: bool) -> Iterable[plan.Node]:
        match stage:
            case kinds.Repeat():
                yield self.loop(stage)
            case kinds.Backwards():
                yield self.replay(stage)
            case kinds.Advance():
                yield plan.Advance(stage, tuple(self.advance(stage)))
            case kinds.Gather():
                self.gathers += 1
                yield plan.Gather(stage, self.gathers - 1, keeps)
            case _:
                yield plan.OF_STAGE[type(stage)](stage)  # type: ignore[call-arg]

    def advance(self, stage: kinds.Advance) -> Iterable[plan.Node]:
        if self.has_edges and not stage.over_all:
            yield plan.Targets()
        if stage.emit == "edges":
            yield plan.EmitEdges(stage)
            return
        always_pushes = self.direction == "auto" and stage.where is None
        yield plan.PushOrPull(stage, "push" if always_pushes else self.direction)

    def loop(self, stage: kinds.Repeat) -> plan.Loop:
        if stage.record and self.in_replay:
            self.refuse("records within backwards")
        self.loops += 1
        number = self.loops
        records = stage.record and self.replays
        return plan.Loop(stage, number, self.steps(stage.stages), records)

    def replay(self, stage: kinds.Backwards) -> plan.Replay:
        if self.in_replay:
            self.refuse("goes backwards within backwards")
        inner = walk(stage.stages)
        in_place = not self.has_edges and not any(isinstance(s, kinds.Repeat) for s in inner)
        self.loops += 1
        number = self.loops
        self.in_replay, self.in_place = True, in_place
        body = self.steps(stage.stages)
        self.in_replay = self.in_place = False
        return plan.Replay(stage, number, body, in_place)

    def refuse(self, what: str) -> None:
        raise NotLoweredError(f"{self.d.name} {what}, {self.shape.refusal}")


# ---- gathers and advances ----------------------------------------------------------------------


def fuse_gathers(made: plan.KernelPlan, needs: Needs | None) -> plan.KernelPlan:
    """Let gathers over all vertices compute the reductions after them on the way."""
    d = made.d

    def fused(steps: Steps) -> Steps:
        found, at = [], 0
        while at < len(steps):
            step = steps[at]
            at += 1
            (node, *_) = step.nodes
            if isinstance(node, plan.Gather):
                node = _with_copies(d, node)
                unites = needs is not None and needs.exchange(node.stage, pull=True).replicated
                if node.all_at_once and not unites:
                    after = tuple(other.stage for other in steps[at:])
                    node = replace(node, fused=tuple(fusion.reductions(d, after)))
                    at += len(node.fused)
                step = replace(step, nodes=(node,))
            found.append(step)
        return tuple(found)

    return replace(made, body=rewrite(made.body, fused))


def _with_copies(d: Declaration, node: plan.Gather) -> plan.Gather:
    """The gather, with the fields whose new values its totals must not see."""
    stage = node.stage
    seen = () if stage.asynchronous else fusion.seen_by_others(d, stage)
    copies = stage.over_all and not any(d.fields[name].replicated for name in seen)
    return replace(node, seen=seen, copies=copies)


def find_exact(made: plan.KernelPlan) -> plan.KernelPlan:
    """Decide for each advance whether a vertex must not be twice in the frontier that it makes."""

    def found(steps: Steps) -> Steps:
        return tuple(_with_advance(step, exact) for step in steps)

    def exact(node: plan.Node) -> plan.Node:
        if isinstance(node, plan.PushOrPull):
            return replace(node, exact=made.has_edges or _is_exact(made.d, node.stage))
        return node

    return replace(made, body=rewrite(made.body, found))


def _with_advance(step: plan.Step, change: Callable[[plan.Node], plan.Node]) -> plan.Step:
    (node, *_) = step.nodes
    if not isinstance(node, plan.Advance):
        return step
    return replace(step, nodes=(replace(node, nodes=tuple(map(change, node.nodes))),))


def _is_exact(d: Declaration, stage: kinds.Advance) -> bool:
    """Whether duplicates would do harm: only advances with idempotent writes tolerate them."""
    if stage.idempotent != "auto":
        return not stage.idempotent
    for other in walk(d.loop):
        if isinstance(other, kinds.Repeat) and other.record:
            return True
        if isinstance(other, kinds.Advance):
            if not _is_idempotent(d, other):
                return True
        elif other.takes and not other.over_all:
            return True
    return False


def _is_idempotent(d: Declaration, stage: kinds.Advance) -> bool:
    for access in (a for found in d.touched(stage) for a in found.fields if a.kind != "read"):
        declared = d.fields[access.field]
        follows = declared.follows is not None and declared.merge != "sum"
        if not (declared.merge in IDEMPOTENT or (declared.merge is None and follows)):
            return False
    return True


# ---- loops -------------------------------------------------------------------------------------


def choose_loops(made: plan.KernelPlan, needs: Needs | None) -> plan.KernelPlan:
    """Fuse ordered loops where that is possible, and let some loops run ahead."""

    def chosen(steps: Steps) -> Steps:
        return tuple(replace(step, nodes=tuple(map(choose, step.nodes))) for step in steps)

    def choose(node: plan.Node) -> plan.Node:
        if not isinstance(node, plan.Loop):
            return node
        stage, only = node.stage, node.stage.stages[0]
        stale = needs.stale_of.get(only) if needs is not None else None  # type: ignore[call-overload]
        fuses = _may_fuse(made, stage) and (needs is None or _sends_emitted_only(needs, only))
        if made.hub and fuses and _may_run_ahead(made, only):
            return plan.RunAhead(stage, node.number, (), stale)
        if made.hub and fuses:  # CPUs and GPUs fuse in different ways: run without the order
            return replace(node, stage=replace(stage, order=None))
        if stage.order is None:
            return node
        if fuses:
            return plan.FusedBuckets(stage, node.number, (), stale)
        return plan.Buckets(stage, node.number, node.body, node.records)

    return _with_rooms(replace(made, body=rewrite(made.body, chosen)))


def _with_rooms(made: plan.KernelPlan) -> plan.KernelPlan:
    """Number the rooms for waiting vertices: each loop over buckets has its own."""
    loops = [node.number for node in made.nodes() if isinstance(node, plan.Buckets)]

    def numbered(node: plan.Node) -> plan.Node:
        if isinstance(node, plan.Buckets):
            return replace(node, room=loops.index(node.number))
        return node

    def changed(steps: Steps) -> Steps:
        return tuple(replace(step, nodes=tuple(map(numbered, step.nodes))) for step in steps)

    return replace(made, body=rewrite(made.body, changed))


def _may_fuse(made: plan.KernelPlan, stage: kinds.Repeat) -> bool:
    """Whether a loop is one advance, and nothing depends on where supersteps end."""
    only = stage.stages[0]
    if len(stage.stages) > 1 or not isinstance(only, kinds.Advance) or made.has_edges:
        return False
    read = {name for found in made.d.touched(only) for name in found.offered}
    bounded = stage.until is not None or stage.max_supersteps is not None or stage.record
    return not (bounded or read & {"superstep", "changed"})


def _sends_emitted_only(needs: Needs, stage: kinds.Stage) -> bool:
    """Whether a part sends only its emitted ghosts to others."""
    if not isinstance(stage, kinds.Advance) or stage not in needs.stale_of:
        return False
    return not needs.exchange(stage, pull=False).replicated


def _may_run_ahead(made: plan.KernelPlan, stage: Any) -> bool:
    """Whether a machine may push its frontier before the boxes of the others arrive.

    It then pushes values that may still improve, and pushes them again if they do. So nothing may
    depend on where supersteps end, and the stage may write only one field, whose merge drops worse
    values, as where ghosts may be stale. Followers, and a ``where`` that excludes finished
    vertices, are correct only if all values of a frontier are equally good.
    """
    written = [a for found in made.d.touched(stage) for a in found.fields if a.kind != "read"]
    pushes = made.direction != "pull" and stage.where is None and not stage.over_all
    return pushes and len(written) == 1 and written[0].place == "dst"


# ---- what parts exchange -----------------------------------------------------------------------


def exchange(made: plan.KernelPlan, needs: Needs, shape: Shape) -> plan.KernelPlan:
    """Add what parts exchange before and after each stage."""
    shares = needs.may_share and not shape.hub
    exchanger = _Exchanger(needs, shares, watches=shares and not shape.on_grid)

    def with_exchanges(steps: Steps) -> Steps:
        return tuple(map(exchanger.step, steps))

    return replace(
        made,
        body=rewrite(made.body, with_exchanges),
        shares=shares,
        far_is_global=far_is_global(made.d) and not (shape.hub or shape.on_grid),
    )


class _Exchanger:
    def __init__(self, needs: Needs, shares: bool, watches: bool):
        self.needs, self.shares, self.watches = needs, shares, watches

    def step(self, step: plan.Step) -> plan.Step:
        stage, (node, *_) = step.stage, step.nodes
        if isinstance(node, plan.AnyLoop):
            return step
        exchanged = self.needs.exchange(stage, pull=isinstance(stage, kinds.Gather))
        # Other parts may still be reading what the stage writes.
        nodes: list[plan.Node] = [plan.Meet()] if self.shares and exchanged.replicated else []
        if isinstance(node, plan.Advance):
            nodes.append(replace(node, nodes=tuple(self.advance(node))))
        else:
            nodes += [*_broadcast(exchanged), node]
            if stage.sets_changed:
                nodes.append(plan.AgreeOnChanged())
            if stage.into is not None:
                nodes.append(plan.Agree(stage.into.name, stage.op))  # type: ignore[attr-defined]
            nodes += _collect(exchanged, emits=False)
        nodes += self.unite(exchanged)
        stale = self.needs.refreshed(stage)
        nodes += _broadcast(plan.Exchange(tuple(stale)))
        return replace(step, nodes=tuple(nodes))

    def unite(self, exchanged: plan.Exchange) -> Iterable[plan.Node]:
        if self.shares and not self.watches:
            return [plan.Meet()] if exchanged.replicated else []
        kind = plan.Watch if self.watches else plan.Unite
        return [kind(leader, followers) for leader, followers in exchanged.replicated]

    def advance(self, node: plan.Advance) -> Iterable[plan.Node]:
        *before, last = node.nodes
        for _ in before:
            yield plan.Targets((plan.Collect(plan.Exchange(), emits=True, into="current"),))
        if isinstance(last, plan.EmitEdges):
            exchanged = self.needs.exchange(node.stage, pull=False)
            yield from (*_broadcast(exchanged), last, *_collect(exchanged, emits=False))
        elif isinstance(last, plan.PushOrPull):
            pull = tuple(self.pull(node.stage)) if last.mode != "push" else ()
            push = tuple(self.push(node.stage)) if last.mode != "pull" else ()
            yield plan.Choose(node.stage, pull, push, last.mode)

    def push(self, stage: kinds.Advance) -> Iterable[plan.Node]:
        stale = self.needs.stale_of.get(stage)
        if stale is not None:
            return [plan.Push(stage, True), plan.Deliver(stale)]
        exchanged = self.needs.exchange(stage, pull=False)
        return [*_broadcast(exchanged), plan.Push(stage, False), *_collect(exchanged, emits=True)]

    def pull(self, stage: kinds.Advance) -> Iterable[plan.Node]:
        exchanged = self.needs.exchange(stage, pull=True)
        before = [*_broadcast(exchanged), plan.Spread(plan.Exchange(), stage)]
        before = before if exchanged.ghosts else [plan.Spread(exchanged, stage)]
        return [*before, plan.Pull(stage), *_collect(exchanged, emits=False)]


def _broadcast(exchanged: plan.Exchange) -> list[plan.Node]:
    return [plan.Broadcast(exchanged)] if exchanged.names else []


def _collect(exchanged: plan.Exchange, emits: bool) -> list[plan.Node]:
    return [plan.Collect(exchanged, emits)] if exchanged.ghosts or emits else []


# ---- where a kernel can resume -----------------------------------------------------------------


def resume(made: plan.KernelPlan) -> plan.KernelPlan:
    """Let a kernel return for more room where a superstep is recorded, and resume there."""
    if not made.replays:
        return made
    places = _Places(made)
    return replace(made, body=places.steps(made.body, False), places=places.all, saved=places.saved)


class _Places:
    def __init__(self, made: plan.KernelPlan):
        self.all, self.done = _places_in(made.d.loop), 0
        self.around: tuple[int, ...] = ()
        self.saved: tuple[int, ...] = ()

    def steps(self, steps: Steps, skipping: bool) -> Steps:
        return tuple(self.step(step, skipping) for step in steps)

    def step(self, step: plan.Step, skipping: bool) -> plan.Step:
        within = _places_in((step.stage,))
        if not (skipping or within == self.all or self.done == self.all):
            skipping = not within
            first = self.done + 1
            step = replace(step, guard=plan.Guard(first, self.done + within) if within
                           else plan.Guard())  # fmt: skip
        return replace(step, nodes=tuple(self.node(node, skipping) for node in step.nodes))

    def node(self, node: plan.Node, skipping: bool) -> plan.Node:
        if not isinstance(node, plan.AnyLoop):
            return node
        self.around += (node.number,)
        if isinstance(node, plan.Loop):
            node = self.loop(node, skipping)
        node = replace(node, body=self.steps(node.body, skipping))
        self.around = self.around[:-1]
        return node

    def loop(self, node: plan.Loop, skipping: bool) -> plan.Loop:
        node = replace(node, skips_head=not skipping and self.done != self.all)
        if isinstance(node, plan.Buckets):
            node = replace(node, has_place=_places_in((node.stage,)) > 0)
        if node.records:
            self.done += 1
            self.saved += tuple(n for n in self.around if n not in self.saved)
            node = replace(node, place=self.done)
        return node


def _places_in(stages: tuple[kinds.Stage, ...]) -> int:
    return sum(isinstance(stage, kinds.Repeat) and stage.record for stage in walk(stages))
