"""Olivetti: ten factors of 400 faces, compared with a subspace that needs no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

import dpem
from dpem import paper
from dpem.privacy import Budget, gaussian_dp
from dpem.privacy.randomness import public_random
from dpem.reproduce.datasets import SIDE
from dpem.reproduce.experiment import Experiment, Task, folds, pick, repeatable
from dpem.reproduce.text import interval, markdown, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Datasets

__all__ = ["DATA_FREE", "NOISE", "OLIVETTI", "OURS", "PAPER", "PAPER_CENTRED"]

DATA, FACTORS, DIRECTIONS, DELTA = "olivetti_faces", 10, 64, 1e-4
EPSILONS = (0.2, 0.3, 1.0, 3.0, 10.0, 30.0)
PAPER_EPSILONS = (0.2, 0.3, 1.0, 3.0)  # above about 8 the classical noise misses delta and is rejected
PLAIN, OURS = "principal components", "dpem"
# The text does not centre pictures. The authors' code subtracts each picture's mean and the mean picture.
PAPER, PAPER_CENTRED = "paper's text", "paper's text, centred pictures"
EM, EM_CENTRED = "factor analysis by EM", "factor analysis by EM, centred pictures"
OF_CENTRED = (PAPER_CENTRED, EM_CENTRED)
FOLDS = 5
ALL_FACES = FOLDS  # the fold number for no held-out rows
DATA_FREE, NOISE = "cosine images, no data", "structured noise, no face"
# Pixels from 0 to 1, minus their mean, have a norm of at most 64 / 2.
NORM = SIDE / 2


def _tasks(data: Datasets) -> list[Task]:
    n_folds = pick(data.size, FOLDS, 1, 1)
    epsilons = pick(data.size, EPSILONS, EPSILONS, (0.3, 30.0))
    tasks = []
    for fold in range(n_folds):
        tasks += [Task(DATA, method, math.inf, fold=fold) for method in (PLAIN, DATA_FREE, NOISE)]
        tasks += [Task(DATA, OURS, epsilon, fold=fold) for epsilon in epsilons]
        if fold == 0 and data.size != "tiny":  # half a minute each
            tasks += [Task(DATA, method, math.inf, fold=fold) for method in (EM, EM_CENTRED)]
            some = pick(data.size, PAPER_EPSILONS, (0.3,), ())
            tasks += [
                Task(DATA, how, epsilon, fold=fold) for how in (PAPER, PAPER_CENTRED) for epsilon in some
            ]
    return tasks


def _pictures(data: Datasets) -> NDArray[np.float64]:
    """Return the pictures, each minus its own mean. This depends on one row at a time and costs no budget."""
    rows = data.load(DATA).rows
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _split(task: Task, data: Datasets) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = _pictures(data)
    if task.fold == ALL_FACES:
        return rows, rows
    fit, test = folds(len(rows), task.fold, FOLDS)
    return rows[fit], rows[test]


def _components(task: Task, data: Datasets) -> NDArray[np.float64]:
    """Return the ten components of a task, (10, 4096)."""
    if task.method in (PAPER, PAPER_CENTRED, EM, EM_CENTRED):
        return _papers_components(task, data)
    X, _ = _split(task, data)
    basis = _basis()
    if task.method == PLAIN:
        return np.asarray(np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:FACTORS])
    if task.method == DATA_FREE:
        return np.asarray(basis[:, :FACTORS].T)
    if task.method == NOISE:
        return _smooth_noise(task.fold)
    budget: dict[str, Any] = {"epsilon": task.epsilon, "delta": DELTA, "data_norm": NORM, "n_jobs": 1}
    with repeatable(task):
        model = dpem.FactorAnalysis(FACTORS, basis=basis, **budget, random_state=task.fold)
        return np.asarray(model.fit(X).components_)


def _papers_components(task: Task, data: Datasets) -> NDArray[np.float64]:
    """Fit the paper's factor analysis to the original or to centred pictures."""
    rows = data.load(DATA).rows
    if task.fold != ALL_FACES:
        rows = rows[folds(len(rows), task.fold, FOLDS)[0]]
    if task.method in OF_CENTRED:
        rows = _without_means(rows)
    norm = float(np.linalg.norm(rows, axis=1).max())  # as in the paper; it leaks
    with repeatable(task):
        factors = paper.FactorAnalysis(
            FACTORS,
            epsilon=task.epsilon,
            delta=DELTA,
            data_norm=norm,
            n_jobs=1,
            random_state=task.fold,
        )
        return np.asarray(factors.fit(rows).components_)


@lru_cache(maxsize=1)
def _basis() -> NDArray[np.float64]:
    return dpem.cosine_basis((SIDE, SIDE), DIRECTIONS, constant=False)


def _smooth_noise(seed: int) -> NDArray[np.float64]:
    """Return pictures with the spectrum of photographs and no face: a control for visual impressions."""
    frequency = np.hypot(*np.meshgrid(np.arange(SIDE), np.arange(SIDE)))
    weight = 1 / np.maximum(frequency, 1.0) ** 2
    weight[0, 0] = 0.0
    draws = public_random(seed).standard_normal((FACTORS, SIDE, SIDE))
    return np.asarray(fft.idctn(draws * weight, axes=(1, 2), norm="ortho").reshape(FACTORS, -1))


def _captured(components: NDArray[np.float64], X: NDArray[np.float64]) -> float:
    return float(((X @ np.linalg.qr(components.T)[0]) ** 2).sum())


def _measure(task: Task, data: Datasets) -> dict[str, float]:
    X, test = _split(task, data)
    relative = test - X.mean(axis=0)
    best = _components(Task(DATA, PLAIN, math.inf, fold=task.fold), data)
    return {"captured": _captured(_components(task, data), relative) / _captured(best, relative)}


def _draw(results: pd.DataFrame, data: Datasets) -> Any:
    """Draw the ten components of each method and epsilon, fitted to all faces as in the paper's figure."""
    order = [EM, PAPER, EM_CENTRED, PAPER_CENTRED, PLAIN, OURS, DATA_FREE, NOISE]
    captured = results.groupby(["method", "epsilon"]).captured.mean().reset_index()
    captured = captured.assign(order=captured.method.map(order.index)).sort_values(
        ["order", "epsilon"], ascending=[True, False]
    )
    figure, axes = new_figure(
        len(captured), FACTORS, width=1.1 * FACTORS + 2.8, height=1.2 * len(captured) + 0.5
    )
    for line, (_, row) in zip(np.atleast_2d(axes), captured.iterrows(), strict=True):
        task = Task(DATA, row.method, row.epsilon, fold=ALL_FACES)
        label = row.method if math.isinf(row.epsilon) else f"{row.method},\nepsilon {row.epsilon:g}"
        for axis, image in zip(line, _components(task, data), strict=True):
            limit = float(np.abs(image).max()) or 1.0
            axis.imshow(image.reshape(SIDE, SIDE), cmap="gray", vmin=-limit, vmax=limit)
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(f"{label}\n({row.captured:.2f})", rotation=0, ha="right", va="center", fontsize=8)
    loaded = data.load(DATA)
    figure.suptitle(
        f"{loaded.title}: {FACTORS} components of all {len(loaded.rows)} pictures; in brackets the part of "
        f"held-out variance that components of a split capture",
        fontsize=9,
    )
    return figure


@dataclass(frozen=True)
class NoiseLevel:
    """The level at which a direction emerges from the noise of the text, relative to component variances."""

    first: float
    second: float
    tenth: float
    exact: float  # relative to the first, with exact accounting and the right sensitivity
    weighted: float  # the same, with off-diagonal noise of sigma / sqrt 2


def noise_over_signal(data: Datasets, epsilon: float, *, centred: bool) -> NoiseLevel:
    """Return the noise of the text relative to the components of all pictures, scaled by the largest norm.

    The text does not centre pictures, and the authors' code does. Analyze Gauss has the same noise on and off
    the diagonal. The Frobenius norm counts each entry off the diagonal twice, so that their noise may be
    sigma / sqrt 2, which lowers the level by sqrt 2.
    """
    rows = _centred(data) if centred else data.load(DATA).rows
    n, d = rows.shape
    unit = rows / np.linalg.norm(rows, axis=1).max()
    variances = np.linalg.svd(unit / math.sqrt(n), compute_uv=False) ** 2
    text = _classical(epsilon) * 2 / n * math.sqrt(d)
    exact = math.sqrt(2) / (n * Budget.from_epsilon(epsilon, DELTA).mu) * math.sqrt(d)
    first, second, tenth = (text / variances[j] for j in (0, 1, FACTORS - 1))
    exact /= variances[0]
    return NoiseLevel(first, second, tenth, exact, exact / math.sqrt(2))


def _centred(data: Datasets) -> NDArray[np.float64]:
    """Return pictures minus their own means and the mean picture, as in the authors' code."""
    return _without_means(data.load(DATA).rows)


def _without_means(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(rows - rows.mean(axis=0))


def _classical(epsilon: float) -> float:
    """Return the classical Gaussian noise per unit of sensitivity."""
    return math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


@lru_cache(maxsize=1)
def refused_from() -> float:
    """Return the smallest epsilon, in tenths, at which the classical noise misses its guarantee."""
    tenths = (step / 10 for step in range(1, 1000))
    return next(e for e in tenths if gaussian_dp.delta_at(1 / _classical(e), e) > DELTA)


def _slips(data: Datasets) -> tuple[float, list[list[str]]]:
    """Return the largest row norm under the authors' scaling, and the epsilon that their code spends."""
    centred = _centred(data)
    n = len(centred)
    row_norm = float(np.linalg.norm(centred, axis=1).max() / np.linalg.norm(centred, axis=0).max())
    rows = []
    for epsilon in (0.3, 1.0):
        sigma = _classical(epsilon) * 2 / n
        mu = math.sqrt(2) * row_norm**2 / n / sigma**2  # their code uses the variance as a standard deviation
        rows.append([f"{epsilon:g}", f"{1 / sigma:.1f}", f"{Budget.from_mu(mu, DELTA).epsilon:.0f}"])
    return row_norm, rows


def _describe(results: pd.DataFrame, data: Datasets) -> dict[str, str]:
    epsilons = sorted(e for e in results.epsilon.unique() if np.isfinite(e))
    by_method = {
        method: results[results.method == method]
        for method in (OURS, PAPER, PAPER_CENTRED, DATA_FREE, NOISE, EM, EM_CENTRED, PLAIN)
    }
    rows = []
    for method, own in by_method.items():
        if own.empty:
            continue
        if np.isfinite(own.epsilon).any():
            refused = refused_from() if method in (PAPER, PAPER_CENTRED) else math.inf
            empty = ["rejected" if e >= refused else "not run" for e in epsilons]
            cells = [
                interval(own[own.epsilon == e].captured, 3) or word
                for e, word in zip(epsilons, empty, strict=True)
            ]
        else:
            cells = [interval(own.captured, 3)] * len(epsilons)
        rows.append([method, *cells])
    levels = []
    for centred, title in ((False, "the text: not centred"), (True, "centred, as in the authors' code")):
        for e in PAPER_EPSILONS:
            level = noise_over_signal(data, e, centred=centred)
            shown = (level.first, level.second, level.tenth, level.exact, level.weighted)
            levels.append(
                [title, f"{e:g}", *(f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in shown)]
            )
    row_norm, slips = _slips(data)
    return {
        "table": markdown(["", *(f"eps {e:g}" for e in epsilons)], rows),
        "levels": markdown(
            [
                "pictures",
                "epsilon",
                "level over the variance of the first component",
                "of the second",
                "of the tenth",
                "of the first, with exact accounting and sensitivity",
                "the same, with noise of sigma / sqrt(2) off the diagonal",
            ],
            levels,
        ),
        "delta": f"{DELTA:g}",
        "refused_from": f"{refused_from():g}",
        "row_norm": f"{row_norm:.2f}",
        "row_norm_squared": f"{row_norm**2:.1f}",
        "slips": markdown(['"epsilon"', "noise too small by", "true epsilon of both slips"], slips),
    }


OLIVETTI = Experiment("olivetti", _tasks, _measure, _draw, _describe)
