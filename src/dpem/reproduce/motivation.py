"""The motivating figure: plain EM reveals the only person in a category, and private EM hides that person.

As in the paper, there are 104 points on a map of Germany and a component for each marital status. One point
is the only married person from North Rhine-Westphalia (here, the only married person). The table of the
statistics office may not be redistributed, so this module chooses the number of people by status and state.
An attacker knows all other rows and sees the fitted mixture. The attacker guesses whether the last row is
that person or an ordinary one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpem
from dpem import paper
from dpem.privacy import Budget
from dpem.privacy.randomness import public_random
from dpem.reproduce.experiment import Experiment, Task, pick, repeatable
from dpem.reproduce.text import COLOURS, interval, markdown, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Datasets

__all__ = ["MOTIVATION", "attack"]

# Centres of states in degrees of latitude and longitude.
STATES = {
    "Baden-Wuerttemberg": (48.54, 9.04),
    "Bavaria": (48.95, 11.40),
    "Saarland": (49.38, 6.95),
    "North Rhine-Westphalia": (51.48, 7.55),
}
# People by status and state, without the last one: 103. Most live in the state of the paper's table.
CELLS = {
    ("single", "Baden-Wuerttemberg"): 55,
    ("divorced", "Saarland"): 30,
    ("widowed", "Bavaria"): 18,
}
STATUSES = ("single", "married", "divorced", "widowed")
# The only married person, and the single person who takes the place in the other world.
PERSON, ORDINARY = STATES["North Rhine-Westphalia"], STATES["Baden-Wuerttemberg"]
COMPONENTS, EPSILON, DELTA, JITTER = len(STATUSES), 1.0, 1e-4, 0.15
BOUNDS = ([47.2, 5.8], [55.1, 15.1])  # of Germany
PLAIN, OURS, PAPER = "plain EM", "dpem", "paper's GGG zCDP"
FEW, MANY, TIMES = "104 people", "5,200 people", 50
WITH, WITHOUT = 1, 0  # the two worlds, as folds
_Z = 1.96
FEATURES = ("at_person", "at_ordinary", "mean_lat", "mean_lon", "var_lat", "var_lon", "covariance")


def people(times: int, world: int, seed: int) -> NDArray[np.float64]:
    """Return rows (latitude, longitude). Every person, including the last one, occurs `times` times."""
    random = public_random(seed)
    homes = np.array([STATES[state] for _, state in CELLS])
    others = np.repeat(homes, [times * count for count in CELLS.values()], axis=0)
    last = np.repeat([PERSON if world == WITH else ORDINARY], times, axis=0)
    cells = np.concatenate([others, last])  # last, so that all other rows are equal in both worlds
    return np.asarray(cells + random.normal(0.0, JITTER, cells.shape))


def _tasks(data: Datasets) -> list[Task]:
    trials = pick(data.size, 400, 60, 8)
    repeats = pick(data.size, 20, 5, 2)
    tasks = [
        Task(FEW, method, epsilon, fold=world, seed=seed)
        for method, epsilon in ((PLAIN, math.inf), (PAPER, EPSILON), (OURS, EPSILON))
        for world in (WITHOUT, WITH)
        for seed in range(trials)
    ]
    return tasks + [
        Task(MANY, method, epsilon, fold=WITH, seed=seed)
        for method, epsilon in ((PLAIN, math.inf), (PAPER, EPSILON), (OURS, EPSILON))
        for seed in range(repeats)
    ]


def _fit(task: Task) -> Any:
    # The attacker knows all other rows, which are the same in both worlds and in all trials.
    X = people(TIMES if task.data == MANY else 1, task.fold, seed=0)
    budget: dict[str, Any] = {"epsilon": task.epsilon, "delta": DELTA, "bounds": BOUNDS, "n_jobs": 1}
    with repeatable(task):
        if task.method == PAPER:
            return paper.GaussianMixture(COMPONENTS, **budget, random_state=task.seed).fit(X)
        if task.method == OURS:
            return dpem.GaussianMixture(COMPONENTS, **budget, random_state=task.seed).fit(X)
        settings: dict[str, Any] = {"reg_covar": 1e-4, "max_iter": 200, "bounds": BOUNDS, "n_jobs": 1}
        fits = [
            dpem.GaussianMixture(
                COMPONENTS, epsilon=math.inf, random_state=1000 * task.seed + j, **settings
            ).fit(X)
            for j in range(2)
        ]
        return max(fits, key=lambda fit: fit.score(X))


def _measure(task: Task, data: Datasets) -> dict[str, float]:  # noqa: ARG001
    """Return the features of the model for the attacker, and its log-likelihood of new people."""
    model = _fit(task)
    at = model.score_samples(np.array([PERSON, ORDINARY], dtype=float))
    weights, means = model.weights_, model.means_
    mean = weights @ means
    second = np.einsum("k,kij->ij", weights, model.covariances_ + means[:, :, None] * means[:, None, :])
    covariance = second - np.outer(mean, mean)
    values = [at[0], at[1], *mean, covariance[0, 0], covariance[1, 1], covariance[0, 1]]
    fresh = people(10, WITH, seed=1)
    return dict(zip(FEATURES, map(float, values), strict=True)) | {
        "log_likelihood": float(model.score(fresh))
    }


def attack(results: pd.DataFrame) -> tuple[float, float, float]:
    """Return the accuracy of the attacker on new trials, and its 95 % confidence limits.

    The attacker is a logistic regression on the features, trained on half of the trials.
    """
    train, test = results[results.seed % 2 == 0], results[results.seed % 2 == 1]
    features = [part[list(FEATURES)].clip(-1e3, 1e3) for part in (train, test)]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(features[0], train.fold)
    right, n = float((model.predict(features[1]) == test.fold).mean()), len(test)
    # Wilson's interval is valid even if the attacker is always right.
    middle = (right + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(right * (1 - right) / n + _Z**2 / (4 * n**2))
    return right, middle - half, middle + half


def most_possible(method: str) -> float:
    """Return the highest possible accuracy of an attacker if both worlds have equal probability.

    It is exact for Gaussian noise. The default spends all of mu on the exact curve. The paper's fit spends
    what zCDP allows, mu = sqrt(2 rho). The bound by (epsilon, delta) alone is higher: (e^epsilon + delta) /
    (1 + e^epsilon).
    """
    if method == OURS:
        return float(ndtr(Budget.from_epsilon(EPSILON, DELTA).mu / 2))
    log = math.log(1 / DELTA)
    rho = (math.sqrt(log + EPSILON) - math.sqrt(log)) ** 2
    return float(ndtr(math.sqrt(2 * rho) / 2))


def _draw(results: pd.DataFrame, data: Datasets) -> Any:  # noqa: ARG001
    """Draw the paper's panels (top) and those of the default (bottom), with plain EM on the left."""
    figure, axes = new_figure(2, 3, width=11.0, height=8.0, sharex=True, sharey=True)
    panels = (
        (FEW, PLAIN, math.inf),
        (FEW, PAPER, EPSILON),
        (MANY, PAPER, EPSILON),
        (MANY, PLAIN, math.inf),
        (FEW, OURS, EPSILON),
        (MANY, OURS, EPSILON),
    )
    for axis, (which, method, epsilon) in zip(axes.ravel(), panels, strict=True):
        model = _fit(Task(which, method, epsilon, fold=WITH))
        X = people(TIMES if which == MANY else 1, WITH, seed=0)
        axis.scatter(X[:, 1], X[:, 0], s=4, color=COLOURS[6], rasterized=True)
        for weight, mean, covariance in zip(model.weights_, model.means_, model.covariances_, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            angle = np.linspace(0, 2 * np.pi, 80)
            ring = mean + 2 * (np.column_stack([np.cos(angle), np.sin(angle)]) * np.sqrt(values)) @ vectors.T
            axis.plot(ring[:, 1], ring[:, 0], color=COLOURS[0], lw=0.5 + 4 * float(weight))
            axis.plot(mean[1], mean[0], "x", color=COLOURS[0])
        circled = X[-1] if which == FEW else PERSON  # the last row is the person
        axis.scatter(circled[1], circled[0], marker="o", s=120, facecolors="none", edgecolors=COLOURS[1])
        suffix = "not private" if math.isinf(epsilon) else f"epsilon {epsilon:g}"
        axis.set_title(f"{method}, {suffix}: {which}", fontsize=9)
        axis.set_xlim(BOUNDS[0][1], BOUNDS[1][1])
        axis.set_ylim(BOUNDS[0][0], BOUNDS[1][0])
    for axis in axes[1]:
        axis.set_xlabel("longitude")
    for axis in axes[:, 0]:
        axis.set_ylabel("latitude")
    figure.suptitle(
        f"Simulated people on a map of Germany, a component for each of {COMPONENTS} marital statuses\n"
        f"circled: the only married person of 104, or the home of the {TIMES} married people of 5,200",
        fontsize=9,
    )
    return figure


def _describe(results: pd.DataFrame, data: Datasets) -> dict[str, str]:  # noqa: ARG001
    few, many = results[results.data == FEW], results[results.data == MANY]
    rows = []
    for method in (PLAIN, PAPER, OURS):
        right, low, high = attack(few[few.method == method])
        likelihoods = [
            interval(part[(part.method == method) & (part.fold == WITH)].log_likelihood)
            for part in (few, many)
        ]
        limit = "100 %" if method == PLAIN else f"{most_possible(method):.1%}"
        rows.append([method, f"{right:.1%} ({low:.1%} to {high:.1%})", limit, *likelihoods])
    header = ["", "attacker is right", "most that Gaussian noise allows here", f"log-likelihood, {FEW}", MANY]
    return {
        "setting": f"104 people, {COMPONENTS} components, epsilon {EPSILON:g}, delta {DELTA:g}",
        "trials": str((few.method == OURS).sum()),
        "table": markdown(header, rows),
    }


MOTIVATION = Experiment("motivation", _tasks, _measure, _draw, _describe)
