"""The noise that a plan puts into shares of rows (docs/planner.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.statistics.mixture_tables import ROW_UNIT

if TYPE_CHECKING:
    from dpem.gate.plan import Plan

__all__ = ["noise_of_counts"]

# What the stages of a table count; a typical value is that of one row in twenty.
_COUNTED = {
    "columns": "a value",
    "columns again": "a value",
    "target": "a value and one of the target",
    "pairs": "a pair of values",
    "em": "a value in a component",
}


def noise_of_counts(plan: Plan, n_rows: int) -> tuple[dict[str, int], list[ExpectedNoise]]:
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
