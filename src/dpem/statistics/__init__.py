"""Bounded row statistics and their kernels. Each row gives an integer vector whose norm is checked.

May import: data, and of the privacy core `privacy.sensitivity` alone. Never sees: noise, plans, models.
"""
