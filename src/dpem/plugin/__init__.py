"""Models that users write: what they implement, how they are checked, and the estimator around them.

Their code sees one row at a time and is checked before anything is charged.
"""
