"""What a fit would cost and give, before any row is read: from public numbers alone."""

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.planner.outlook import Outlook
from dpem.planner.planning import epsilon_needed, plan

__all__ = ["ExpectedNoise", "Outlook", "epsilon_needed", "plan"]
