"""Running programs: lowering to kernels, partitions, exchange, planner, trace, results."""
