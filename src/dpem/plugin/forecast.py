"""The noise that a plan puts into the statistics of a plug-in model (docs/planner.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpem.estimator.planned_columns import ExpectedNoise

if TYPE_CHECKING:
    from dpem.gate.plan import Plan
    from dpem.plugin.fit import ModelRequest

__all__ = ["noise_of_statistics"]


def noise_of_statistics(request: ModelRequest, plan: Plan, n_rows: int) -> list[ExpectedNoise]:
    """Return the noise of the mean of a row's statistics within a component, over the norm they are cut to.

    Sums of the second half of the steps are averaged by their precision.
    """
    steps = [stage for stage in plan.stages if stage.name.startswith("em ")]
    statistic = request.statistic({})
    precision = sum((statistic.unit / stage.noise_stddev) ** 2 for stage in steps[len(steps) // 2 :])
    size = max(request.model.start_centres, 1) / n_rows / math.sqrt(precision)
    against = "the norm that a row's statistics are cut to"
    return [ExpectedNoise("statistics of a component", None, size, None, size, against)]
