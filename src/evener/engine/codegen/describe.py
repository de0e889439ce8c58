"""The plan of a kernel as text for people."""

from __future__ import annotations

from evener.engine.codegen import plan
from evener.programs import kinds


def describe(made: plan.KernelPlan) -> str:
    """A plan as text, with a line for each node, indented by depth."""
    lines = [f"{made.d.name}, direction {made.direction}"]
    for step in made.body:
        lines += _lines(step, 1)
    return "\n".join(lines)


def _lines(node: plan.Node, depth: int) -> list[str]:
    title = _title(node)
    lines, deeper = (["  " * depth + title], depth + 1) if title else ([], depth)
    if isinstance(node, plan.Choose) and node.mode == "auto":
        for name, nodes in (("pull", node.pull), ("push", node.push)):
            lines.append("  " * deeper + f"{name}:")
            lines += [line for one in nodes for line in _lines(one, deeper + 1)]
        return lines
    return lines + [line for one in node.inner for line in _lines(one, deeper)]


def _title(node: plan.Node) -> str:
    """The line of a node; empty for a step."""
    match node:
        case plan.Step():
            return ""
        case plan.AnyLoop():
            return _loop(node)
        case plan.Advance() | plan.Edges():
            where = "" if node.stage.where is None else f" where {node.stage.where}"
            return f"{_name(node)} {node.stage.functor}{where}{_over(node.stage)}"
        case plan.PushOrPull():
            twice = "" if node.exact else "; a vertex may be twice in the next frontier"
            return {"auto": "push or pull, whichever is less work"}.get(
                node.mode, node.mode
            ) + twice
        case plan.Choose():
            chosen = "choose" if node.mode == "auto" else node.mode
            return f"all parts {chosen}"
        case plan.Targets():
            return "from edges to their targets"
        case plan.EmitEdges():
            return f"emit edges by {node.stage.functor}"
        case plan.Filter() | plan.Compute():
            edges = " on edges" if node.stage.on_edges else ""
            return f"{_name(node)} {node.stage.functor}{edges}{_over(node.stage)}"
        case plan.Gather():
            return _gather(node)
        case plan.Reduce():
            return f"reduce {node.stage.functor} by {node.stage.op} into {node.stage.into.name}"
        case _:
            return _exchange(node)


def _name(node: plan.Node) -> str:
    return type(node).__name__.lower()


def _gather(node: plan.Gather) -> str:
    stage = node.stage
    along = {"in": "", "out": " along out-edges", "both": " along both directions"}[stage.along]
    how = "" if node.at_once else "; all totals are stored before any is applied"
    if node.copies and node.seen:
        how = f"; {', '.join(node.seen)} written to a second copy"
    fused = "".join(f"; {other.functor} is reduced on the way" for other in node.fused)
    return (
        f"gather {stage.functor} by {stage.combine.removeprefix('@')}, apply {stage.apply}"
        f"{along}{_over(stage)}{how}{fused}"
    )


def _exchange(node: plan.Node) -> str:
    match node:
        case plan.Broadcast():
            words = [f"broadcast {', '.join(node.exchange.broadcast)}"]
            words = words if node.exchange.broadcast else []
            words += [f"clear {name} at ghosts" for name in node.exchange.zeroed]
            return ", ".join(words)
        case plan.Spread():
            names = ", ".join(node.exchange.broadcast)
            return f"spread the frontier{' with ' if names else ''}{names}"
        case plan.Collect():
            words = [*node.exchange.merged, *["emitted vertices"] * node.emits]
            return f"collect {', '.join(words)}"
        case plan.Deliver():
            return f"deliver {', '.join(node.stale.names)} of emitted vertices"
        case plan.Watch():
            return f"meet, and count changes in {', '.join(node.names)}"
        case plan.Unite():
            return f"unite {', '.join(node.names)}"
        case plan.Agree():
            return f"agree on {node.scalar} by {node.op}"
        case plan.AgreeOnChanged():
            return "agree on whether something changed"
        case plan.Meet():
            return "all parts meet"
        case plan.Push():
            return "push"
        case _:
            return _name(node)


def _loop(node: plan.AnyLoop) -> str:
    stage = node.stage
    if not isinstance(stage, kinds.Repeat):
        copy = "" if isinstance(node, plan.Replay) and node.in_place else ", with a copy"
        return f"replay {node.number}: the recorded frontiers backwards{copy}"
    kind = {
        plan.Buckets: ", a superstep for each",
        plan.FusedBuckets: ", fused",
        plan.RunAhead: ", runs ahead while others are late",
    }.get(type(node), "")
    order = ""
    if stage.order is not None:
        delta = stage.order.delta
        order = f", in buckets of {stage.order.field.name} by {getattr(delta, 'name', delta)}"
    place = getattr(node, "place", 0)
    place = f", resumes at {place}" if place else ""
    only = f": {node.advance.functor}" if isinstance(node, plan.FusedBuckets) else ""
    records = ", recorded" * getattr(node, "records", False)
    return f"loop {node.number}{_ends(stage)}{order}{kind}{records}{place}{only}"


def _over(stage: kinds.Stage) -> str:
    return " over all vertices" if stage.over_all else ""


def _ends(stage: kinds.Repeat) -> str:
    ends = ["the frontier is empty"] if stage.takes_frontier or stage.makes_frontier else []
    ends += [] if stage.until is None else [stage.until]
    limit = stage.max_supersteps
    if limit is not None:
        ends.append(f"{getattr(limit, 'name', limit)} supersteps")
    return f" until {' or '.join(ends)}" if ends else ""
