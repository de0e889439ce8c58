"""The benchmark: cases, the timing harness, and the libraries that Evener is compared with."""
