"""Bounded row statistics and their kernels: an integer vector for every row, whose norm is checked.

Sees rows on the grid. Of the privacy core it imports `privacy.sensitivity` alone; it knows no plan, no noise
and no model.
"""
