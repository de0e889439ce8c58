"""What Numba is told for the CPU: atomics, inner functions, types; registered when it is loaded."""
