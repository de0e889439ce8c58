"""The operators for the grid of a GPU: the same meaning with another division of work."""
