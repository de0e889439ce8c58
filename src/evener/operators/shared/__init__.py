"""Operators shared by CPU and GPU, and how machines exchange data."""
