"""What a fitted mixture says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.summary import Cell, Profile, cells_of, column_names, gaussian_figures, schema_of

if TYPE_CHECKING:
    from dpem.models.gaussian_mixture.estimator import GaussianMixture

__all__ = ["figures_of", "profile_of", "spread_of"]


def profile_of(model: GaussianMixture) -> Profile:
    """Return the share, means and deviations of every component."""
    columns, units = schema_of(model)
    errors = model.standard_errors_
    deviations = np.sqrt(np.diagonal(model._full_covariances(), axis1=1, axis2=2))
    rows = []
    for k in range(len(model.weights_)):
        share = Cell(float(model.weights_[k]), float(errors["weights"][k]))
        cells = cells_of(model.means_[k], errors["means"][k], columns, deviations[k])
        rows.append((str(k + 1), [share, *cells]))
    return Profile("component", ["share", *column_names(model)], [None, *units], rows, has_shares=True)


def figures_of(model: GaussianMixture) -> dict[str, Any]:
    """Return what a page draws: components, and the background."""
    inside = 1 - float(model.background_.weights.sum())
    behind = (model.background_.weights, model.background_.means, model.background_.covariances)
    return gaussian_figures(
        model, model.weights_ * inside, model.means_, model._full_covariances(), background=behind
    )


def spread_of(model: GaussianMixture) -> dict[str, float]:
    """Return the deviation of each column within components."""
    variances = np.diagonal(model._full_covariances(), axis1=1, axis2=2)
    within = np.sqrt(np.average(variances, axis=0, weights=model.weights_))
    return dict(zip(column_names(model), map(float, within), strict=True))
