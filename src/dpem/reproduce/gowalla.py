"""Gowalla: k-means of locations by DPLloyd, the paper's method and the default, at epsilon = 0.01.

The text states neither the number of clusters nor the number of steps. The authors' published code has two
settings, which are judged separately. A grid of both numbers is run in addition.
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
DELTA = 1e-4
# Clusters and steps of two files of the authors' code. The first fits one row in a hundred at several
# epsilons; the second fits all rows at epsilon 0.01 and plots the centres of the figure's three methods.
AUTHORS_SETTINGS = {"testGowalla.m": (3, 10), "compute_NICV.m": (5, 40)}
(CLUSTERS, STEPS), FIGURE = AUTHORS_SETTINGS.values()
PAPER_EPSILON = 0.01
PLAIN, OURS = "scikit-learn, best of 10", "dpem"
PAPER, LINEAR, ZCDP = "paper's k-means, zCDP", "DPLloyd, linear", "DPLloyd, zCDP"
# Not private. DPLloyd follows the text. For k-means, only the authors' code defines the method.
LITERAL = {
    PAPER: f"{PAPER}, authors' code",
    LINEAR: f"{LINEAR}, as printed",
    ZCDP: f"{ZCDP}, as printed",
}
METHODS = (OURS, *LITERAL, *LITERAL.values())
THREE = (LINEAR, ZCDP, PAPER)  # in the order of the paper's panels
PANELS = (*(LITERAL[method] for method in THREE), PLAIN, *THREE, OURS)


def on_grid(method: str, clusters: int, steps: int) -> str:
    """Name a method with a given number of clusters and steps."""
    return f"{method}, K = {clusters}, J = {steps}"


def with_clusters(method: str, clusters: int) -> str:
    """Name a method without a number of steps."""
    return method if clusters == CLUSTERS else f"{method}, K = {clusters}"


GRID_OF_BOTH = [(clusters, steps) for clusters in (3, 5, 10) for steps in (5, 10, 20, 30, 40)]
_ON_GRID = {
    on_grid(method, *point): (method, *point)
    for point in GRID_OF_BOTH
    for method in (*LITERAL, *LITERAL.values())
}
# Methods without steps that the figure shows as well.
_WITHOUT_STEPS = {with_clusters(method, FIGURE[0]): (method, *FIGURE) for method in (PLAIN, OURS)}


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
    # Steps on the larger set take several times as long.
    n_seeds = {SETS[0]: pick(data.size, 3, 1, 1), SETS[1]: 1}
    tasks += [
        Task(name, with_clusters(method, FIGURE[0]), epsilon, fold=fold)
        for name in names
        for fold in range(n_folds)
        for method, epsilon in ((PLAIN, math.inf), (OURS, PAPER_EPSILON))
    ]
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
    """Fit the method of the task, and return its centres."""
    method, clusters, steps = (_ON_GRID | _WITHOUT_STEPS).get(task.method, (task.method, CLUSTERS, STEPS))
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


def _figure_method(method: str) -> str:
    """Name the method of a panel at the setting of the figure."""
    clusters, steps = FIGURE
    return with_clusters(method, clusters) if method in (PLAIN, OURS) else on_grid(method, clusters, steps)


def _draw(results: pd.DataFrame, data: Datasets) -> Any:
    """Draw the paper's panels as printed (top) and private (bottom), each with its run of median quality."""
    whole = data.load(SETS[0])
    figure, axes = new_figure(2, 4, width=14.0, height=6.6, sharex=True, sharey=True)
    shown = whole.rows[public_random(0).permutation(len(whole.rows))[:4000]]
    for axis, method in zip(axes.ravel(), PANELS, strict=True):
        named = _figure_method(method)
        own = results[(results.data == SETS[0]) & (results.method == named)].sort_values("nicv")
        median = own.iloc[len(own) // 2]
        fold, seed = int(median.fold), int(median.seed)
        fit, _ = folds(len(whole.rows), fold)
        task = Task(SETS[0], named, float(median.epsilon), fold=fold, seed=seed)
        centres = _centres(task, whole.rows[fit])
        labels = ((shown[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        axis.scatter(shown[:, 1], shown[:, 0], s=1, c=[COLOURS[label] for label in labels], rasterized=True)
        axis.scatter(centres[:, 1], centres[:, 0], marker="X", s=80, c="black", edgecolors="white")
        axis.set_title(f"{method}\nNICV {interval(own.nicv, 5)}", fontsize=9)
    for axis in axes[1]:
        axis.set_xlabel("longitude, scaled")
    for axis in axes[:, 0]:
        axis.set_ylabel("latitude, scaled")
    clusters, steps = FIGURE
    figure.suptitle(
        f"{whole.title}: N = {len(whole.rows):,}, K = {clusters}, J = {steps}, "
        f"epsilon = {PAPER_EPSILON}, delta = {DELTA:g}. Above: not private; below: private.",
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
        "settings": _settings_table(results, data),
        "grid": _grid_table(results, data),
        "setting": f"K = {CLUSTERS} and J = {STEPS}",
        "figure_setting": f"K = {FIGURE[0]} and J = {FIGURE[1]}",
        "grid_epsilon": f"{PAPER_EPSILON:g}",
        "enough_steps": str(_steps_for_zcdp()),
    }


def _settings_table(results: pd.DataFrame, data: Datasets) -> str:
    """Return a table of the NICV at the two settings of the authors' code."""
    rows = []
    for name in results.data.unique():
        own = results[results.data == name]
        for file, (clusters, steps) in AUTHORS_SETTINGS.items():
            for kind, methods in (("private", THREE), ("not private", [LITERAL[method] for method in THREE])):
                cells = (
                    interval(own[own.method == on_grid(method, clusters, steps)].nicv, 4)
                    for method in methods
                )
                rows.append([data.load(name).title, f"{clusters}, {steps} ({file})", kind, *cells])
    return markdown(["data", "K, J", "", *THREE], rows)


def _grid_table(results: pd.DataFrame, data: Datasets) -> str:
    """Return a table of the NICV of the paper's three methods for every number of clusters and steps."""
    rows = []
    for name in results.data.unique():
        own = results[results.data == name]
        for point in GRID_OF_BOTH:
            cells = (interval(own[own.method == on_grid(method, *point)].nicv, 4) for method in THREE)
            rows.append([data.load(name).title, *point, *cells])
    return markdown(["data", "K", "J", *THREE], rows)


def share(composition: str, steps: int) -> float:
    """Return the epsilon of each of `steps` Laplace mechanisms at the paper's budget, by composition."""
    budget = per_mechanism_budget(composition, PAPER_EPSILON, DELTA, n_laplace=steps, n_gaussian=0)
    return budget.epsilon_i


def _steps_for_zcdp() -> int:
    """Return the smallest number of steps at which zCDP gives a mechanism more than linear composition."""
    return next(steps for steps in range(1, 1000) if share("zcdp", steps) > share("linear", steps))


GOWALLA = Experiment("gowalla", _tasks, _measure, _draw, _describe)
