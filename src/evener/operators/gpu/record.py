"""Recorded frontiers of a GPU kernel, which asks the host for more room."""

from __future__ import annotations

from evener.device import compiled
from evener.operators.gpu.frontier import EDGES, FORM, INFO_WORDS, TURNS
from evener.operators.gpu.trace import NEEDED, RECORDED
from evener.operators.shared.frontier import QUEUE, SIZE
from evener.operators.shared.record import remember as remember_vertices
from evener.operators.shared.record import remember_edges as remember_of_edges


@compiled(allocates=False)
def remember(team, current, kept, recorded, trace):
    """As `evener.operators.shared.record.remember`; without room it tells the host."""
    now = remember_vertices(team, current, kept, recorded)
    if now < 0:
        _ask_for_room(team, kept, recorded, current.info[SIZE], trace)
    return now


@compiled(allocates=False)
def remember_edges(team, current, kept, recorded, trace):
    """As `remember`, for a frontier of edges."""
    now = remember_of_edges(team, current, kept, recorded)
    if now < 0:
        _ask_for_room(team, kept, recorded, current.info[SIZE], trace)
    return now


@compiled(allocates=False)
def _ask_for_room(team, kept, recorded, size, trace):
    if team.thread == 0:
        # A record of this size has room for the ends of its supersteps too, however short they are.
        trace[NEEDED] = max(kept.bounds[recorded] + size, recorded + 2)
        trace[RECORDED] = recorded


@compiled(allocates=False)
def prepare_replay(team, infos, kept, step):
    """Write the words of a recorded frontier before the superstep that uses it."""
    if team.thread == 0 and step >= 0:
        first = (step % TURNS) * INFO_WORDS
        infos[first + SIZE] = kept.bounds[step + 1] - kept.bounds[step]
        infos[first + FORM] = QUEUE
        infos[first + EDGES] = 0
