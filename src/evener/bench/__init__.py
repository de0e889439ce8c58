"""The benchmark: cases, the harness that times them, and those it is measured against."""
