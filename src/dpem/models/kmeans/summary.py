"""The summary of k-means for planner, report and commands: expected noise, profile and figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.domain import GRID
from dpem.estimator.planned_columns import AGAINST_SPREAD, ExpectedNoise
from dpem.estimator.summary import (
    Profile,
    column_names,
    columns_of_numbers,
    label_of_part,
    numbered_rows,
    schema_of,
    short,
)
from dpem.fitting.ball import column_stretch

if TYPE_CHECKING:
    from dpem.data import Domain
    from dpem.estimator.planned_columns import PlannedColumns
    from dpem.gate.plan import Plan
    from dpem.models.kmeans.estimator import KMeans


__all__ = ["figures_of", "noise_of_centres", "profile_of"]


def noise_of_centres(
    plan: Plan, n_clusters: int, n_rows: int, columns: PlannedColumns, domain: Domain
) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return the numbers of clusters and steps, and the expected noise of centres from the last step."""
    steps = plan.stage("lloyd")
    # Sensitivity of sums relative to a centre, in units of the clipping radius: 2 if a row is replaced.
    one = (2.0 if plan.adjacency.n_rows_public else 1.0) * plan.unit.rows_per_person
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


def profile_of(model: KMeans) -> Profile:
    """Return the centres with their standard errors."""
    columns, units = schema_of(model)
    rows = [
        (label_of_part(int(name), model.supported_), cells)
        for name, cells in numbered_rows(
            model.cluster_centers_, model.standard_errors_["cluster_centers"], columns
        )
    ]
    return Profile("cluster", column_names(model), units, rows, has_shares=False)


def figures_of(model: KMeans) -> dict[str, Any]:
    """Return the data of the report's charts: centres and their standard errors."""
    centres = model.cluster_centers_
    columns = columns_of_numbers(model, centres, np.ptp(centres, axis=0) / 2 + 1e-9)
    d = len(columns)
    return {
        "kind": "centres",
        "columns": columns,
        "centres": short(centres[:, :d]),
        "errors": short(model.standard_errors_["cluster_centers"][:, :d]),
    }
