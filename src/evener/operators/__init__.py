"""Frontiers and the operators over them: advance, filter, compute, gather, edges, reduce."""
