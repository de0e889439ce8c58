"""From a program to the text of one kernel, for threads of a CPU and for the grid of a GPU."""
