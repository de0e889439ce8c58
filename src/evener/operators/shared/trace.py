"""The words of the trace that a kernel writes, the same on all targets.

Behind `CALLS` a CPU has a word for each thread, and a GPU words of its own (`gpu.record`).
"""

# Of a superstep.
STEP, MEMBERS, PULLED, CYCLES, CALLS = range(5)
# Of the first row, which is for the whole run: how many supersteps, those beyond one of a fused
# loop, and all calls, since some stages are in no loop.
ROWS, FUSED, VISITED = 0, 1, CALLS
