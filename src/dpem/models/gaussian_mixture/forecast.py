"""The noise that a plan puts into a mixture, for components of equal size (docs/planner.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.fitting.noise import noise_of_one_row
from dpem.models.gaussian_mixture.fit import MixtureShape
from dpem.models.gaussian_mixture.m_step import noise_of_averages
from dpem.models.gaussian_mixture.pool import frame_limits
from dpem.statistics.gaussian import kept_variance

if TYPE_CHECKING:
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan
    from dpem.models.gaussian_mixture.fit import MixtureRequest

__all__ = ["noise_of_mixture"]


def noise_of_mixture(
    request: MixtureRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and noise of shares, means and deviations.

    Noise of deviation sigma lies on the diagonal of a component's moments of psi = (s, z), and sigma / sqrt 2
    beside it (S-9): its count has sigma / s^2, its mean sigma / (sqrt 2 s n_k), its variance sigma / n_k,
    the last two in units of the component's own deviation.
    """
    shape = MixtureShape.allowed(request, n_rows, plan)
    d, k = request.n_columns, shape.n_components
    tau, s = frame_limits(d)
    per_unit = noise_of_one_row(plan) * (s * s + tau * tau)
    steps = [stage for stage in plan.stages if stage.name.startswith("em ")]
    noises = [per_unit * stage.noise_multiplier for stage in steps]
    sigma = noise_of_averages(noises, len(steps) // 2)
    count = n_rows / k
    variance = sigma / count / kept_variance(d, tau)
    if request.covariance == "spherical":
        variance /= d
    share = sigma / (s * s) / n_rows
    # A component's is divided by its noisy count; one for all is averaged over all rows.
    variance = variance / k if request.covariance == "tied" else math.hypot(variance, share * k)
    granted = {"components": k, "steps": len(steps)}
    noise = [ExpectedNoise("share of rows", None, share, None, share * k, "an even share")] if k > 1 else []
    noise += columns.noise("mean", sigma / math.sqrt(2) / s / count)
    return granted, noise + columns.noise("standard deviation", variance / 2)
