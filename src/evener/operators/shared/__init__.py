"""What the operators of a CPU and of a GPU have in common, and how machines meet."""
