"""The memory of a run: estimates and limits, arrays on a GPU, and the hub between machines."""
