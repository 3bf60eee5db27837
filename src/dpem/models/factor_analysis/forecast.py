"""The noise that a plan puts into means, deviations and correlations (docs/planner.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.fitting.noise import noise_of_one_row
from dpem.models.factor_analysis.fit import FactorShape
from dpem.models.factor_analysis.one_round import COUNT_SCALE
from dpem.statistics.gaussian import kept_variance

if TYPE_CHECKING:
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan
    from dpem.models.factor_analysis.fit import FactorRequest

__all__ = ["noise_of_factors"]


def noise_of_factors(
    request: FactorRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and the noise of the last moment in means, deviations and correlations."""
    d = request.n_columns
    shape = FactorShape.allowed(d, n_rows, plan)
    squared = max(d + shape.widening * math.sqrt(2 * d), d / 2)
    multiplier = plan.stage(f"moment {shape.rounds}").noise_multiplier
    sigma = noise_of_one_row(plan) * multiplier * squared * (1 + COUNT_SCALE**2) / n_rows
    kept = kept_variance(d, math.sqrt(squared))
    mean = sigma / math.sqrt(2) / (COUNT_SCALE * math.sqrt(squared))
    correlation = sigma / kept / math.sqrt(2)
    allowed = min(request.n_components, int(d * shape.factors))
    noise = columns.noise("mean", mean) + columns.noise("standard deviation", sigma / kept / 2)
    noise.append(ExpectedNoise("correlation", None, correlation, None, correlation, "a full correlation"))
    return {"factors that stand out": max(allowed, 0), "rounds": shape.rounds}, noise
