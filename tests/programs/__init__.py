"""Programs that several tests run, beside the tests of how programs are declared.

Kernels are compiled for a program, so a program that two files need is defined here, once.
"""
