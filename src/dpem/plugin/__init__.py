"""Models that users write: what they implement, how they are checked, and the estimator around them.

Their code is checked before anything is charged.

May import: everything up to the estimator. Never sees: more than one row at a time, in code of others.
"""
