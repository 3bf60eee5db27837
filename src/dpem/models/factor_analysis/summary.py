"""What fitted factors say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.summary import Profile, cells_of, column_names, gaussian_figures, numbered_rows, schema_of

if TYPE_CHECKING:
    from dpem.models.factor_analysis.estimator import FactorAnalysis

__all__ = ["figures_of", "profile_of", "spread_of"]


def profile_of(model: FactorAnalysis) -> Profile:
    """Return the mean, and the loadings of every factor."""
    columns, units = schema_of(model)
    rows = [("mean", cells_of(model.mean_, model.standard_errors_["mean"], columns))]
    rows += numbered_rows(model.components_, model.standard_errors_["components"], [None] * len(columns))
    return Profile("factor", column_names(model), units, rows, has_shares=False)


def figures_of(model: FactorAnalysis) -> dict[str, Any]:
    """Return what a page draws: one Gaussian."""
    return gaussian_figures(model, np.ones(1), model.mean_[None], model.get_covariance()[None])


def spread_of(model: FactorAnalysis) -> dict[str, float]:
    """Return the deviation of each column."""
    within = np.sqrt(np.diagonal(model.get_covariance()))
    return dict(zip(column_names(model), map(float, within), strict=True))
