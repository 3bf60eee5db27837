"""The summary of a table model for planner, report and commands: expected noise and figures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.estimator.summary import MOST_COLUMNS, ColumnLaw, short
from dpem.fitting.averaging import noise_after
from dpem.statistics.mixture_tables import ROW_UNIT

if TYPE_CHECKING:
    from dpem.gate.plan import Plan
    from dpem.models.table.estimator import MixedMixture


__all__ = ["figures_of", "last_noise", "law_of", "noise_of_counts"]

# What each stage counts. A typical value occurs in one row of twenty.
_COUNTED = {
    "columns": "a value",
    "columns again": "a value",
    "target": "a value and one of the target",
    "pairs": "a pair of values",
}


def noise_of_counts(plan: Plan, n_rows: int) -> tuple[dict[str, int], list[ExpectedNoise]]:
    """Return the number of releases, and the noise of the shares of rows with a value or a pair of values."""
    precisions: dict[str, float] = {}
    for stage in plan.stages:
        if stage.kind in _COUNTED:  # releases of the same counts are averaged by precision
            what = _COUNTED[stage.kind]
            precisions[what] = precisions.get(what, 0.0) + stage.repeats / stage.noise_stddev**2
    noises = {what: precision**-0.5 for what, precision in precisions.items()}
    steps = [stage.noise_stddev / ROW_UNIT for stage in plan.numbered("em")]
    if steps:
        noises["a value in a component"] = noise_after(steps)
    noise = [
        ExpectedNoise(f"share of rows with {what}", None, share, None, share * one_in, f"one row in {one_in}")
        for what, size in noises.items()
        for share, one_in in [(size / n_rows, 400 if what != "a value" else 20)]
    ]
    return {"releases": sum(stage.repeats for stage in plan.stages)}, noise


def last_noise(plan: Plan) -> float:
    """Return the standard deviation of noise in a count of the last tables of a plan, in rows."""
    stage = plan.stages[-1]
    return stage.noise_stddev / (ROW_UNIT if stage.kind == "em" else 1.0)


def law_of(model: MixedMixture, column: int) -> ColumnLaw:
    """Return the distribution of a column."""
    declared = model.schema.columns[column]
    series = model.marginals(declared.name)
    labels, shares = list(series.index), series.to_numpy()
    missing = None
    if declared.missing:
        labels, shares, missing = labels[:-1], shares[:-1], float(shares[-1])
    edges = None
    if hasattr(labels[0], "left"):
        edges = np.array([*(value.left for value in labels), labels[-1].right])
    return ColumnLaw(
        declared.name,
        declared.unit_shown,
        labels,
        shares,
        declared.limits[0],
        edges,
        declared.is_whole,
        missing,
    )


_MOST_ENTRIES = 200_000  # of all tables of pairs in a report


def figures_of(model: MixedMixture) -> dict[str, Any]:
    """Return the data of the report's charts: distributions of columns, and the first tables of pairs."""
    shown = list(model.schema.columns[:MOST_COLUMNS])
    columns = []
    for j in range(len(shown)):
        law = law_of(model, j)
        columns.append(law.figure() | {"edges": None if law.edges is None else law.edges[:-1].tolist()})
    pairs, entries = {}, 0
    for (i, a), (j, b) in itertools.combinations(enumerate(shown), 2):
        size = len(columns[i]["labels"]) * len(columns[j]["labels"])
        if entries + size > _MOST_ENTRIES:
            continue
        entries += size
        table = model.marginals(a.name, b.name).to_numpy().reshape(len(columns[i]["labels"]), -1)
        pairs[f"{i},{j}"] = short(table)
    return {"kind": "tables", "columns": columns, "pairs": pairs}
