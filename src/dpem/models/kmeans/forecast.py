"""The noise that a plan puts into centres, for clusters of equal size (docs/planner.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID
from dpem.estimator.planned_columns import AGAINST_SPREAD, ExpectedNoise
from dpem.fitting.ball import column_stretch

if TYPE_CHECKING:
    from dpem.data import Domain
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan

__all__ = ["noise_of_centres"]


def noise_of_centres(
    plan: Plan, n_clusters: int, n_rows: int, columns: PlannedColumns, domain: Domain
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return what is granted, and the noise that the sums of the last step put into centres."""
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
