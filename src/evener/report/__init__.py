"""Tables and plots of runs and benchmarks."""
