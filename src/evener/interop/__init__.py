"""Adapters that let other libraries call Evener, one file each."""
