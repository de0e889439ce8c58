"""Extensions of Numba for the CPU: atomics, inner functions, types; registered when it loads."""
