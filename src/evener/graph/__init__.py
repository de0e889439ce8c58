"""Graphs: the CSR class, building, files, generators, labels."""
