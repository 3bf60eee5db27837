"""The cost of a fit and its expected noise, from public numbers alone, before any value is read.

May import: the registry, estimators. Never sees: rows, a particular model.
"""

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.planner.outlook import Outlook
from dpem.planner.planning import epsilon_needed, plan

__all__ = ["ExpectedNoise", "Outlook", "epsilon_needed", "plan"]
