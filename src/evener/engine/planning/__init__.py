"""Predicted costs of the placements of a graph, by a model and stored measurements."""
