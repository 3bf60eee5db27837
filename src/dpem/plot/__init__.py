"""Figures of released models, plans and ledgers, drawn with matplotlib (the extra ``plot``).

Each function draws into the axes that it is given, or into a new figure, and returns the axes. All but those
that are given `rows` draw released or public numbers alone: they are free.

May import: the planner, estimators, the privacy core's statements and ledgers. Never sees: a particular
model, or rows that the owner did not hand over to be drawn.
"""

from dpem.plot.budgets import ledger, noise, plan
from dpem.plot.densities import density
from dpem.plot.groups import clusters, loadings, profiles, weights
from dpem.plot.guarantees import privacy_curve, trade_off
from dpem.plot.tables import association, data_quality, margins

__all__ = [
    "association",
    "clusters",
    "data_quality",
    "density",
    "ledger",
    "loadings",
    "margins",
    "noise",
    "plan",
    "privacy_curve",
    "profiles",
    "trade_off",
    "weights",
]
