"""The summary of a Gaussian mixture for planner, report and commands: expected noise, profile, figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.estimator.summary import (
    Profile,
    ReleasedValue,
    column_names,
    gaussian_figures,
    schema_of,
    values_of,
)
from dpem.fitting.shrinkage import relative_sensitivity
from dpem.models.gaussian_mixture.fit import MixtureShape
from dpem.models.gaussian_mixture.m_step import noise_of_averages
from dpem.models.gaussian_mixture.pool import frame_limits
from dpem.statistics.gaussian import kept_variance

if TYPE_CHECKING:
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan
    from dpem.models.gaussian_mixture.estimator import GaussianMixture
    from dpem.models.gaussian_mixture.fit import MixtureRequest


__all__ = ["figures_of", "noise_of_mixture", "profile_of", "spread_of"]


def noise_of_mixture(
    request: MixtureRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return the numbers of components and steps, and the noise of shares, means and standard deviations.

    The noise of a component's moments of psi = (s, z) has standard deviation sigma on the diagonal and
    sigma / sqrt 2 off it (S-9). The noise of its count is then sigma / s^2, that of its mean
    sigma / (sqrt 2 s n_k), and that of its variance sigma / n_k, the last two in units of the component's own
    standard deviation.
    """
    shape = MixtureShape.allowed(request, n_rows, plan)
    d, k = request.n_columns, shape.n_components
    tau, s = frame_limits(d)
    per_unit = relative_sensitivity(plan) * (s * s + tau * tau)
    steps = plan.numbered("em")
    noises = [per_unit * stage.noise_multiplier for stage in steps]
    sigma = noise_of_averages(noises, len(steps) // 2)
    count = n_rows / k
    variance = sigma / count / kept_variance(d, tau)
    if request.covariance == "spherical":
        variance /= d
    share = sigma / (s * s) / n_rows
    # A component's variance is divided by a noisy count; the tied variance is averaged over all rows.
    variance = variance / k if request.covariance == "tied" else math.hypot(variance, share * k)
    granted = {"components": k, "steps": len(steps)}
    noise = [ExpectedNoise("share of rows", None, share, None, share * k, "an even share")] if k > 1 else []
    noise += columns.noise("mean", sigma / math.sqrt(2) / s / count)
    return granted, noise + columns.noise("standard deviation", variance / 2)


def profile_of(model: GaussianMixture) -> Profile:
    """Return the share, means and standard deviations of every component."""
    columns, units = schema_of(model)
    errors = model.standard_errors_
    deviations = np.sqrt(np.diagonal(model._full_covariances(), axis1=1, axis2=2))
    rows = []
    for k in range(len(model.weights_)):
        share = ReleasedValue(float(model.weights_[k]), float(errors["weights"][k]))
        cells = values_of(model.means_[k], errors["means"][k], columns, deviations[k])
        rows.append((str(k + 1), [share, *cells]))
    return Profile("component", ["share", *column_names(model)], [None, *units], rows, has_shares=True)


def figures_of(model: GaussianMixture) -> dict[str, Any]:
    """Return the data of the report's charts: components and background."""
    return gaussian_figures(model, model._gaussians())


def spread_of(model: GaussianMixture) -> dict[str, float]:
    """Return the standard deviation of each column within components."""
    variances = np.diagonal(model._full_covariances(), axis1=1, axis2=2)
    within = np.sqrt(np.average(variances, axis=0, weights=model.weights_))
    return dict(zip(column_names(model), map(float, within), strict=True))
