"""The operators for CPU threads: claims of work, barriers, frontiers of bits."""
