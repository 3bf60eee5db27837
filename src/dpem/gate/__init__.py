"""The one way from rows to released values: plan, charge, sum, add noise.

May import: data, engines, statistics and the privacy core: only this room joins rows and noise. Never sees:
models.
"""
