"""Gowalla: k-means of places, DPLloyd beside the paper's method and the default, at epsilon = 0.01.

The text states neither the number of clusters nor that of steps, so a grid of both is run.
"""

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
from dpem.reproduce.as_printed import authors_kmeans, printed_dplloyd
from dpem.reproduce.experiment import Experiment, Task, folds, pick, repeatable
from dpem.reproduce.text import COLOURS, interval, markdown, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Datasets

__all__ = ["GOWALLA", "LINEAR", "LITERAL", "PAPER", "ZCDP", "on_grid"]

SETS = ("gowalla_locations", "gowalla_checkins")
CLUSTERS, STEPS, DELTA = 3, 10, 1e-4  # clusters and steps of the authors' script
PAPER_EPSILON = 0.01
PLAIN, OURS = "scikit-learn, best of 10", "dpem"
PAPER, LINEAR, ZCDP = "paper's k-means, zCDP", "DPLloyd, linear", "DPLloyd, zCDP"
# Not private: the text says of DPLloyd what to do, of k-means only the authors' code does.
LITERAL = {
    PAPER: f"{PAPER}, authors' code",
    LINEAR: f"{LINEAR}, as printed",
    ZCDP: f"{ZCDP}, as printed",
}
METHODS = (OURS, *LITERAL, *LITERAL.values())
PANELS = (LINEAR, ZCDP, PAPER, OURS)  # the paper's three, then the default


def on_grid(method: str, clusters: int, steps: int) -> str:
    """Name a method with its own number of clusters and steps."""
    return f"{method}, K = {clusters}, J = {steps}"


GRID_OF_BOTH = [(clusters, steps) for clusters in (3, 5, 10) for steps in (5, 10, 20, 30)]
_ON_GRID = {
    on_grid(method, *point): (method, *point)
    for point in GRID_OF_BOTH
    for method in (*LITERAL, *LITERAL.values())
}


def _tasks(data: Datasets) -> list[Task]:
    n_folds = pick(data.size, 10, 3, 1)
    epsilons = pick(data.size, (0.01, 0.05, 0.1, 0.5, 1.0), (0.01, 0.1), (0.01,))
    names = SETS if data.has(SETS[1]) and data.size == "full" else SETS[:1]
    tasks = [
        Task(name, method, epsilon, fold=fold)
        for name in names
        for fold in range(n_folds)
        for method, some in ((PLAIN, (math.inf,)), *((method, epsilons) for method in METHODS))
        for epsilon in some
    ]
    # Steps over the larger set take several times as long.
    n_seeds = {SETS[0]: pick(data.size, 3, 1, 1), SETS[1]: 1}
    return tasks + [
        Task(name, method, PAPER_EPSILON, fold=fold, seed=seed)
        for name in names
        for fold in range(n_folds)
        for seed in range(n_seeds[name])
        for method in _ON_GRID
    ]


def _measure(task: Task, data: Datasets) -> dict[str, float]:
    rows = data.load(task.data).rows
    fit, test = folds(len(rows), task.fold)
    return {"nicv": float(dpem.nicv(rows[test], _centres(task, rows[fit])))}


def _centres(task: Task, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit the task's method."""
    method, clusters, steps = _ON_GRID.get(task.method, (task.method, CLUSTERS, STEPS))
    start_seed = task.fold + 1000 * task.seed
    if method == PLAIN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(
                PlainKMeans(clusters, n_init=10, random_state=start_seed).fit(X).cluster_centers_
            )
    budget: dict[str, Any] = {"epsilon": task.epsilon, "delta": DELTA}
    if method in LITERAL.values():
        start = latin_hypercube(clusters, X.shape[1], public_random(start_seed)) / GRID
        rest: dict[str, Any] = {"steps": steps, "seed": task.noise_seed}
        if method == LITERAL[PAPER]:
            return authors_kmeans(X, start, **budget, **rest)
        composition = "linear" if method == LITERAL[LINEAR] else "zcdp"
        return printed_dplloyd(X, start, **budget, composition=composition, **rest)
    common = {**budget, "data_norm": 1.0, "random_state": start_seed, "n_jobs": 1}
    models: dict[str, Any] = {
        OURS: lambda: dpem.KMeans(clusters, **common),
        PAPER: lambda: paper.KMeans(clusters, **common, composition="zcdp", max_iter=steps),
        LINEAR: lambda: paper.DPLloyd(clusters, **common, composition="linear", max_iter=steps),
        ZCDP: lambda: paper.DPLloyd(clusters, **common, composition="zcdp", max_iter=steps),
    }
    with repeatable(task):
        return np.asarray(models[method]().fit(X).cluster_centers_)


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
        f"{whole.title}: N = {len(whole.rows):,}, K = {CLUSTERS}, J = {STEPS}, "
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
    return {
        "tables": "\n\n".join(tables),
        "grid": _grid_table(results, data),
        "setting": f"K = {CLUSTERS} and J = {STEPS}",
        "grid_epsilon": f"{PAPER_EPSILON:g}",
        "enough_steps": str(_steps_for_zcdp()),
    }


def _grid_table(results: pd.DataFrame, data: Datasets) -> str:
    """Return NICV of the paper's three methods for every number of clusters and steps."""
    rows = []
    for name in results.data.unique():
        own = results[results.data == name]
        for point in GRID_OF_BOTH:
            cells = (interval(own[own.method == on_grid(method, *point)].nicv, 4) for method in PANELS[:3])
            rows.append([data.load(name).title, *point, *cells])
    return markdown(["data", "K", "J", *PANELS[:3]], rows)


def _steps_for_zcdp() -> int:
    """Return from how many steps on zCDP leaves a Laplace mechanism more than linear composition."""

    def share(composition: str, steps: int) -> float:
        return per_mechanism_budget(
            composition, PAPER_EPSILON, DELTA, n_laplace=steps, n_gaussian=0
        ).epsilon_i

    return next(steps for steps in range(1, 1000) if share("zcdp", steps) > share("linear", steps))


GOWALLA = Experiment("gowalla", _tasks, _measure, _draw, _describe)
