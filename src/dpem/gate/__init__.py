"""The one way from rows to released values: plan, charge, sum, add noise.

Only this room sees rows and the privacy core together. It knows no model.
"""
