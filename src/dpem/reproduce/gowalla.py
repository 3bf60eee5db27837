"""Gowalla: k-means of places, DPLloyd beside the paper's method and the default, at epsilon = 0.01."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

import dpem
from dpem import paper
from dpem.data.domain import GRID
from dpem.paper.kmeans import latin_hypercube
from dpem.privacy.per_mechanism import per_mechanism_budget
from dpem.privacy.randomness import public_random
from dpem.reproduce.as_printed import printed_dplloyd, printed_kmeans
from dpem.reproduce.experiment import Experiment, Task, folds, pick, repeatable
from dpem.reproduce.text import COLOURS, interval, markdown, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Datasets

__all__ = ["GOWALLA"]

SETS = ("gowalla_locations", "gowalla_checkins")
CLUSTERS, STEPS, DELTA = 5, 10, 1e-4
PAPER_EPSILON = 0.01
PLAIN, OURS = "scikit-learn, best of 10", "dpem"
PAPER, LINEAR, ZCDP = "paper's k-means, zCDP", "DPLloyd, linear", "DPLloyd, zCDP"
PRINTED = ", as printed"
METHODS = (OURS, PAPER, LINEAR, ZCDP, PAPER + PRINTED, LINEAR + PRINTED, ZCDP + PRINTED)
PANELS = (LINEAR, ZCDP, PAPER, OURS)  # the paper's three, then the default


def _tasks(data: Datasets) -> list[Task]:
    n_folds = pick(data.size, 10, 3, 1)
    epsilons = pick(data.size, (0.01, 0.05, 0.1, 0.5, 1.0), (0.01, 0.1), (0.01,))
    names = SETS if data.has(SETS[1]) and data.size == "full" else SETS[:1]
    return [
        Task(name, method, epsilon, fold=fold)
        for name in names
        for fold in range(n_folds)
        for method, some in ((PLAIN, (math.inf,)), *((method, epsilons) for method in METHODS))
        for epsilon in some
    ]


def _measure(task: Task, data: Datasets) -> dict[str, float]:
    rows = data.load(task.data).rows
    fit, test = folds(len(rows), task.fold)
    return {"nicv": float(dpem.nicv(rows[test], _centres(task, rows[fit])))}


def _centres(task: Task, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit the task's method."""
    if task.method == PLAIN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(
                PlainKMeans(CLUSTERS, n_init=10, random_state=task.fold).fit(X).cluster_centers_
            )
    budget: dict[str, Any] = {"epsilon": task.epsilon, "delta": DELTA}
    if task.method.endswith(PRINTED):
        start = latin_hypercube(CLUSTERS, X.shape[1], public_random(task.fold)) / GRID
        rest: dict[str, Any] = {"steps": STEPS, "seed": task.noise_seed}
        if task.method.startswith(PAPER):
            return printed_kmeans(X, start, **budget, **rest)
        composition = "linear" if task.method.startswith(LINEAR) else "zcdp"
        return printed_dplloyd(X, start, **budget, composition=composition, **rest)
    common = {**budget, "data_norm": 1.0, "random_state": task.fold, "n_jobs": 1}
    models: dict[str, Any] = {
        OURS: lambda: dpem.KMeans(CLUSTERS, **common),
        PAPER: lambda: paper.KMeans(CLUSTERS, **common, composition="zcdp", max_iter=STEPS),
        LINEAR: lambda: paper.DPLloyd(CLUSTERS, **common, composition="linear", max_iter=STEPS),
        ZCDP: lambda: paper.DPLloyd(CLUSTERS, **common, composition="zcdp", max_iter=STEPS),
    }
    with repeatable(task):
        return np.asarray(models[task.method]().fit(X).cluster_centers_)


def _draw(results: pd.DataFrame, data: Datasets) -> Any:
    """Draw the panels of the paper: the run of median quality of each method."""
    whole = data.load(SETS[0])
    figure, axes = new_figure(1, len(PANELS), width=14.0, height=3.4, sharey=True)
    shown = whole.rows[public_random(0).permutation(len(whole.rows))[:4000]]
    for axis, method in zip(axes, PANELS, strict=True):
        own = results[
            (results.data == SETS[0]) & (results.method == method) & (results.epsilon == PAPER_EPSILON)
        ].sort_values("nicv")
        fold = int(own.fold.iloc[len(own) // 2])
        fit, _ = folds(len(whole.rows), fold)
        centres = _centres(Task(SETS[0], method, PAPER_EPSILON, fold=fold), whole.rows[fit])
        labels = ((shown[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        axis.scatter(shown[:, 1], shown[:, 0], s=1, c=[COLOURS[label] for label in labels], rasterized=True)
        axis.scatter(centres[:, 1], centres[:, 0], marker="X", s=80, c="black", edgecolors="white")
        axis.set_title(f"{method}\nNICV {interval(own.nicv, 5)}", fontsize=9)
        axis.set_xlabel("longitude, scaled")
    axes[0].set_ylabel("latitude, scaled")
    figure.suptitle(
        f"{whole.title}: N = {len(whole.rows):,}, K = {CLUSTERS}, "
        f"epsilon = {PAPER_EPSILON}, delta = {DELTA:g}",
        fontsize=9,
    )
    return figure


def _describe(results: pd.DataFrame, data: Datasets) -> dict[str, str]:
    tables = []
    for name in results.data.unique():
        own = results[results.data == name]
        whole = data.load(name)
        epsilons = sorted(e for e in own.epsilon.unique() if np.isfinite(e))
        rows = [
            [method, *(interval(own[(own.method == method) & (own.epsilon == e)].nicv, 5) for e in epsilons)]
            for method in METHODS
        ]
        plain = interval(own[own.method == PLAIN].nicv, 5)
        rows.append([f"{PLAIN}, not private", *[plain] * len(epsilons)])
        header = [f"{whole.title}, N = {len(whole.rows):,}", *(f"eps {e:g}" for e in epsilons)]
        tables.append(markdown(header, rows))
    return {"tables": "\n\n".join(tables), "steps": str(STEPS), "enough_steps": str(_steps_for_zcdp())}


def _steps_for_zcdp() -> int:
    """Return from how many steps on zCDP leaves a Laplace mechanism more than linear composition."""

    def share(composition: str, steps: int) -> float:
        return per_mechanism_budget(
            composition, PAPER_EPSILON, DELTA, n_laplace=steps, n_gaussian=0
        ).epsilon_i

    return next(steps for steps in range(1, 1000) if share("zcdp", steps) > share("linear", steps))


GOWALLA = Experiment("gowalla", _tasks, _measure, _draw, _describe)
