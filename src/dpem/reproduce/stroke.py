"""Stroke: a mixture in 100 dimensions. The paper's data is private; patients with diabetes stand in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpem.reproduce.experiment import Experiment, Task, pick
from dpem.reproduce.mixtures import (
    COMPOSITIONS,
    OURS,
    PLAIN,
    SCENARIOS,
    MixtureSetting,
    as_printed,
    as_private,
)

if TYPE_CHECKING:
    import pandas as pd

    from dpem.reproduce.datasets import Datasets

__all__ = ["STROKE"]

DATA = "diabetes130_binary"
STEPS, COMPONENTS, DELTA = 20, 10, 1e-4
# The paper's 1e-6 would spend J(2K+1) 1e-6 = 4.2e-4 > delta under advanced composition.
SETTING = MixtureSetting(DATA, COMPONENTS, STEPS, DELTA, delta_i=DELTA / (2 * STEPS * (2 * COMPONENTS + 1)))


def _tasks(data: Datasets) -> list[Task]:
    n_folds = pick(data.size, 10, 1, 1)
    epsilons = pick(data.size, (0.1, 0.2, 0.5, 1.0, 2.0, 4.0), (1.0, 4.0), (4.0,))
    smaller = pick(data.size, (0.01, 0.02, 0.03, 0.05), (0.05,), ())
    part = pick(data.size, 1.0, 0.1 if data.has(DATA) else 0.4, 0.5)
    compositions = pick(data.size, COMPOSITIONS, ("linear", "zcdp"), ("zcdp",))
    tasks = []
    for fold in range(n_folds):
        one = {"fold": fold, "part": part}
        tasks.append(Task(DATA, PLAIN, math.inf, **one))
        tasks += [Task(DATA, OURS, epsilon, **one) for epsilon in (*smaller, *epsilons)]
        tasks += [
            Task(DATA, as_private(scenario, composition), epsilon, **one)
            for scenario in pick(data.size, SCENARIOS, SCENARIOS, ("GGG",))
            for composition in compositions
            for epsilon in epsilons
        ]
        # In this many columns the formulas as printed take long; their best one is enough.
        if fold == 0:
            tasks += [Task(DATA, as_printed("GGG", "zcdp"), epsilon, **one) for epsilon in epsilons]
    return tasks


def _measure(task: Task, data: Datasets) -> dict[str, float]:
    return SETTING.measure(task, data.load(DATA))


def _draw(results: pd.DataFrame, data: Datasets) -> Any:
    return SETTING.draw(results, data.load(DATA))


def _describe(results: pd.DataFrame, data: Datasets) -> dict[str, str]:
    rows = data.load(DATA)
    mechanisms = STEPS * (2 * COMPONENTS + 1)
    return {
        "data": f"{rows.title}, {len(rows.rows):,} rows",
        "table": SETTING.table(results),
        "saving": SETTING.saving(results),
        "mechanisms": str(mechanisms),
        "overspent": f"{mechanisms * 1e-6:.2g}",
        "delta_i": f"{SETTING.delta_i:.2g}",
    }


STROKE = Experiment("stroke", _tasks, _measure, _draw, _describe)
