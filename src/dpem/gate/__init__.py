"""The only path from rows to released values: plan, charge, sum, add noise.

May import: data, engines, statistics and the privacy core. Only this room brings rows and noise together.
Never sees: models.
"""
