"""The noise that a plan puts into each kind of model, as the formulas of its release give it.

Each function is a page of docs/planner.md: standard deviations of what the last releases add, for
components of equal size. Shrinkage makes the noise of a fit smaller where it is large.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID
from dpem.em.frames import column_stretch
from dpem.em.gaussian_moments import kept_variance
from dpem.em.mixture_tables import ROW_UNIT
from dpem.em.planned_columns import AGAINST_SPREAD, ExpectedNoise
from dpem.models.factor_fit import FactorShape
from dpem.models.factor_round import COUNT_SCALE, noise_of_one_row
from dpem.models.gaussian_mixture_fit import MixtureShape
from dpem.models.gaussian_mixture_step import noise_of_averages
from dpem.models.gaussian_pool import clip_radius

if TYPE_CHECKING:
    from dpem.data import Domain
    from dpem.em.plan import Plan
    from dpem.em.planned_columns import PlannedColumns
    from dpem.models.factor_fit import FactorRequest
    from dpem.models.gaussian_mixture_fit import MixtureRequest
    from dpem.models.private_em_fit import ModelRequest

__all__ = ["of_clusters", "of_factors", "of_mixture", "of_statistics", "of_table"]

# What the stages of a table count; a typical value is that of one row in twenty.
_COUNTED = {
    "columns": "a value",
    "columns again": "a value",
    "target": "a value and one of the target",
    "pairs": "a pair of values",
    "em": "a value in a component",
}


def of_mixture(
    request: MixtureRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and noise of shares, means and deviations.

    Noise of deviation sigma lies on the diagonal of a component's moments of psi = (s, z), and sigma / sqrt 2
    beside it (S-9): its count has sigma / s^2, its mean sigma / (sqrt 2 s n_k), its variance sigma / n_k,
    the last two in units of the component's own deviation.
    """
    shape = MixtureShape.allowed(request, n_rows, plan)
    d, k = request.n_columns, shape.n_components
    tau, s = clip_radius(d)
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


def of_clusters(
    plan: Plan, n_clusters: int, n_rows: int, columns: PlannedColumns, domain: Domain
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and noise of centres: that of the last step's sums over a cluster's rows."""
    steps = plan.stage("lloyd")
    # Sums relative to a centre, in units of the clipping radius: 2 where a row is replaced.
    one = (2.0 if plan.adjacency == "replace_one" else 1.0) * plan.unit.rows_per_person
    # Most of a cluster's rows lie within 1 + sqrt(2 / d) of their root-mean-square distance.
    d = len(columns.names)
    radius = (1 + math.sqrt(2 / d)) * float(np.sqrt(((columns.spread / domain.scale) ** 2).sum()))
    sizes = one * steps.noise_multiplier * radius * n_clusters / n_rows * domain.scale
    if domain.grid_box is not None:
        low, high = domain.grid_box
        stretch = column_stretch(radius * GRID, high - low)
        sizes = sizes if stretch is None else sizes * stretch
    noise = [
        ExpectedNoise("centre", name, float(size), unit, float(size / deviation), AGAINST_SPREAD)
        for name, unit, deviation, size in zip(
            columns.names, columns.units, columns.spread, sizes, strict=True
        )
    ]
    return {"clusters": n_clusters, "steps": steps.repeats}, noise


def of_factors(
    request: FactorRequest, plan: Plan, n_rows: int, columns: PlannedColumns
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and noise of means, deviations and correlations: that of the last moment."""
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


def of_statistics(request: ModelRequest, plan: Plan, n_rows: int) -> list[ExpectedNoise]:
    """Return the noise of the mean of a row's statistics within a component, over the norm they are cut to.

    Sums of the second half of the steps are averaged by their precision.
    """
    steps = [stage for stage in plan.stages if stage.name.startswith("em ")]
    statistic = request.statistic({})
    precision = sum((statistic.unit / stage.noise_stddev) ** 2 for stage in steps[len(steps) // 2 :])
    size = max(request.model.start_centres, 1) / n_rows / math.sqrt(precision)
    against = "the norm that a row's statistics are cut to"
    return [ExpectedNoise("statistics of a component", None, size, None, size, against)]


def of_table(plan: Plan, n_rows: int) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return noise of the share of rows that have a value, and of a pair of values, from counts."""
    precisions: dict[str, float] = {}
    for stage in plan.stages:
        kind = stage.name.rstrip(" 0123456789") if stage.name.startswith("em") else stage.name
        if kind in _COUNTED:  # releases of the same counts are averaged by their precision
            what = _COUNTED[kind]
            noise_in_rows = stage.noise_stddev / (ROW_UNIT if kind == "em" else 1.0)
            precisions[what] = precisions.get(what, 0.0) + stage.repeats / noise_in_rows**2
    noise = [
        ExpectedNoise(f"share of rows with {what}", None, share, None, share * one_in, f"one row in {one_in}")
        for what, precision in precisions.items()
        for share, one_in in [(1 / math.sqrt(precision) / n_rows, 400 if what != "a value" else 20)]
    ]
    return {"releases": sum(stage.repeats for stage in plan.stages)}, noise
