"""Declarations of graph programs: fields, functors, stages; nothing here compiles or runs."""
