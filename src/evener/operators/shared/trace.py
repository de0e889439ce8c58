"""The words of the trace that a kernel writes, the same on all targets.

After `CALLS` a CPU has a word for each thread, and a GPU its own words (`gpu.trace`).
"""

# Of a superstep.
STEP, MEMBERS, PULLED, CYCLES, CALLS = range(5)
# Of the first row, for the whole run: the supersteps, those beyond the first of a fused loop, and
# all calls, since some stages are in no loop.
ROWS, FUSED, VISITED = 0, 1, CALLS
