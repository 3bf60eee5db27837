"""Bounded row statistics and their kernels: an integer vector for every row, whose norm is checked.

May import: data, and of the privacy core `privacy.sensitivity` alone. Never sees: noise, plans, models.
"""
