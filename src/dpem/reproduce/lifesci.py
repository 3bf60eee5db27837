"""Life Science: held-out log-likelihood against epsilon, for both scenarios and the four compositions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpem.reproduce.experiment import Experiment, Task, pick
from dpem.reproduce.mixtures import (
    COMPOSITIONS,
    NOISELESS,
    OURS,
    PLAIN,
    SCENARIOS,
    MixtureSetting,
    as_printed,
    as_private,
)
from dpem.reproduce.text import interval, markdown

if TYPE_CHECKING:
    import pandas as pd

    from dpem.reproduce.datasets import Datasets

__all__ = ["LIFESCI"]

DATA = "lifesci"
SETTING = MixtureSetting(DATA, n_components=3, steps=10, delta=1e-4, delta_i=1e-8, printed_delta_i=1e-8)
BEST = as_private("GGG", "zcdp")
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
PARTS_EPSILON = 1.0


def _tasks(data: Datasets) -> list[Task]:
    n_folds, n_seeds = pick(data.size, (10, 3), (2, 1), (1, 1))
    epsilons = pick(data.size, (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0), (0.1, 1.0, 4.0), (1.0, 4.0))
    smaller = pick(data.size, (0.01, 0.02, 0.03, 0.05), (0.02, 0.05), ())
    tasks = []
    for fold in range(n_folds):
        for seed in range(n_seeds):
            one = {"fold": fold, "seed": seed}
            tasks += [Task(DATA, method, math.inf, **one) for method in (PLAIN, NOISELESS)]
            tasks += [Task(DATA, OURS, epsilon, **one) for epsilon in (*smaller, *epsilons)]
            tasks += [
                Task(DATA, name(scenario, composition), epsilon, **one)
                for name in (as_private, as_printed)
                for scenario in SCENARIOS
                for composition in COMPOSITIONS
                for epsilon in epsilons
            ]
            tasks += [
                Task(DATA, method, epsilon, **one, part=part)
                for part in pick(data.size, PARTS, PARTS, PARTS[-1:])
                for method, epsilon in ((PLAIN, math.inf), (OURS, PARTS_EPSILON), (BEST, PARTS_EPSILON))
            ]
    return tasks


def _measure(task: Task, data: Datasets) -> dict[str, float]:
    return SETTING.measure(task, data.load(DATA))


def _draw(results: pd.DataFrame, data: Datasets) -> Any:
    return SETTING.draw(results, data.load(DATA))


def _describe(results: pd.DataFrame, data: Datasets) -> dict[str, str]:  # noqa: ARG001
    parts = sorted(results.part.unique())
    at = results[results.epsilon.isin([PARTS_EPSILON, math.inf])]
    fewer = [
        [method, *(interval(at[(at.method == method) & (at.part == part)].log_likelihood) for part in parts)]
        for method in (PLAIN, OURS, BEST)
    ]
    return {
        "table": SETTING.table(results),
        "saving": SETTING.saving(results),
        "parts_epsilon": f"{PARTS_EPSILON:g}",
        "parts": markdown(["", *(f"{part:g}" for part in parts)], fewer),
    }


LIFESCI = Experiment("lifesci", _tasks, _measure, _draw, _describe)
