"""The parts of a graph: owners of vertices, ghosts, and statistics of partitions."""
