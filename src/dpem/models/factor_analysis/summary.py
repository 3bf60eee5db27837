"""The summary of factor analysis for planner, report and commands: expected noise, profile and figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.estimator.summary import (
    Profile,
    column_names,
    gaussian_figures,
    numbered_rows,
    schema_of,
    values_of,
)
from dpem.fitting.shrinkage import relative_sensitivity
from dpem.models.factor_analysis.one_round import COUNT_SCALE
from dpem.statistics.gaussian import kept_variance

if TYPE_CHECKING:
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan
    from dpem.models.factor_analysis.estimator import FactorAnalysis
    from dpem.models.factor_analysis.fit import FactorRequest


__all__ = ["figures_of", "noise_of_factors", "profile_of", "spread_of"]


def noise_of_factors(
    request: FactorRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return the numbers of factors and rounds, and the noise of means, deviations and correlations."""
    d = request.n_columns
    shape = request.shape(n_rows, plan)
    squared = max(d + shape.widening * math.sqrt(2 * d), d / 2)
    multiplier = plan.numbered("moment")[-1].noise_multiplier
    sigma = relative_sensitivity(plan) * multiplier * squared * (1 + COUNT_SCALE**2) / n_rows
    kept = kept_variance(d, math.sqrt(squared))
    mean = sigma / math.sqrt(2) / (COUNT_SCALE * math.sqrt(squared))
    correlation = sigma / kept / math.sqrt(2)
    allowed = min(request.n_components, int(d * shape.factors))
    noise = columns.noise("mean", mean) + columns.noise("standard deviation", sigma / kept / 2)
    noise.append(ExpectedNoise("correlation", None, correlation, None, correlation, "a full correlation"))
    return {"factors that stand out": max(allowed, 0), "rounds": shape.rounds}, noise


def profile_of(model: FactorAnalysis) -> Profile:
    """Return the mean and the loadings of every factor."""
    columns, units = schema_of(model)
    rows = [("mean", values_of(model.mean_, model.standard_errors_["mean"], columns))]
    rows += numbered_rows(model.components_, model.standard_errors_["components"], [None] * len(columns))
    return Profile("factor", column_names(model), units, rows, has_shares=False)


def figures_of(model: FactorAnalysis) -> dict[str, Any]:
    """Return the data of the report's charts: one Gaussian."""
    return gaussian_figures(model, model._gaussians())


def spread_of(model: FactorAnalysis) -> dict[str, float]:
    """Return the standard deviation of each column."""
    within = np.sqrt(np.diagonal(model.get_covariance()))
    return dict(zip(column_names(model), map(float, within), strict=True))
