"""The operators for the grid of threads of a GPU: same meaning, other distribution of work."""
