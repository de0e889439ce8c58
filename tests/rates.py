"""Rates of devices as a test wants them, in the place of measured ones."""

import evener as ev
from evener.algorithms.bfs import BFS
from evener.engine.planning.calibrate import Calibration, Traffic, Workload

LINK, VALUES, NBYTES = 1e9, 2.0, 8.0


class Given(Calibration):
    """Rates as a test wants them: so many edges a second for each thread or interpreter."""

    def __init__(self, **rates):
        self.rates = rates

    def rate(self, workload, device, like):
        kind, _, number = device.partition(":")
        return self.rates[kind] * int(number or 1)

    def link(self, one, other):
        return LINK

    def traffic(self, workload):
        return Traffic(VALUES, NBYTES, BFS.declaration)

    def costs(self, workload, names, like, rates):
        return None

    def growth(self, workload, device, like, scale):
        return 1.0


def search(graph, source, **where):
    return ev.bfs(graph, source, **where)


SEARCH = Workload("bfs", search)
