"""The parts of a graph: who owns which vertex, ghosts, and what a division looks like."""
