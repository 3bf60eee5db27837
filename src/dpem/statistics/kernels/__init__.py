"""Compiled kernels of row statistics, one module for each kind of statistic.

A kernel reads a block of grid rows (columns, rows) in single or double precision, one chunk of rows at a
time, and adds its sums to an array of 64-bit integers. Sums of integers are exact in every order. Everything
else is IEEE arithmetic in the order of the NumPy code, which is the reference for the bits.
"""
