"""The operators for the threads of a CPU: claims of work, barriers, frontiers of bits."""
