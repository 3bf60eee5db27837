"""Shared parts of the two mixture experiments: methods, their fits, and curves against epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture as PlainMixture

import dpem
from dpem import paper
from dpem.privacy.randomness import public_random
from dpem.reproduce.as_printed import log_joint, printed_mixture
from dpem.reproduce.experiment import Task, folds, repeatable
from dpem.reproduce.text import COLOURS, interval, markdown, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Dataset

__all__ = [
    "COMPOSITIONS",
    "NOISELESS",
    "OURS",
    "PLAIN",
    "SCENARIOS",
    "MixtureSetting",
    "as_printed",
    "as_private",
    "latin_start",
]

SCENARIOS = ("LLG", "GGG")
COMPOSITIONS = ("linear", "advanced", "zcdp", "moments")
NAMES = {"linear": "linear", "advanced": "advanced", "zcdp": "zCDP", "moments": "moments"}
OURS, PLAIN = "dpem", "plain EM"
NOISELESS = "paper's MAP EM"  # the paper's priors, number of steps and start, without noise
# Checks of why plain EM can be below a private fit: other starts, training rows, and a better start.
OTHER_STARTS, CONTINUED = "plain EM, other starts", "plain EM, started at the fit of dpem"
ON_OWN_ROWS = {method: f"{method}, on the rows that were fitted" for method in (OURS, PLAIN)}


def as_private(scenario: str, composition: str) -> str:
    """Name the paper's method in its private form."""
    return f"{scenario} {composition}"


def as_printed(scenario: str, composition: str) -> str:
    """Name the paper's method with exact counts, with the delta_i of the text and all integer orders."""
    return f"{scenario} {composition}, as printed"


_PLAIN: dict[str, Any] = {"max_iter": 500, "tol": 1e-5, "reg_covar": 1e-7}


@dataclass(frozen=True)
class MixtureSetting:
    """One mixture experiment of the paper."""

    data: str
    n_components: int
    steps: int
    delta: float
    delta_i: float
    printed_delta_i: float

    def measure(self, task: Task, data: Dataset) -> dict[str, float]:
        """Fit the method of a task, and return the mean log-likelihood of held-out rows."""
        fit, test = folds(len(data.rows), task.fold)
        fit = fit[: max(50, round(task.part * len(fit)))]
        X, k = data.rows[fit], self.n_components
        d = X.shape[1]
        common: dict[str, Any] = {"n_components": k, "data_norm": 1.0, "n_jobs": 1}
        budget: dict[str, Any] = {"epsilon": task.epsilon, "delta": self.delta}
        start = latin_start(k, d, data.radius, task.seed)
        with repeatable(task):
            if task.method in (OURS, ON_OWN_ROWS[OURS], CONTINUED):
                model: Any = dpem.GaussianMixture(**common, **budget, random_state=task.seed).fit(X)
                if task.method == CONTINUED:
                    model = _continued(X, model)
            elif task.method in (PLAIN, ON_OWN_ROWS[PLAIN], OTHER_STARTS):
                model = dpem.GaussianMixture(
                    **common, **_PLAIN, epsilon=math.inf, random_state=task.seed
                ).fit(X)
            elif task.method == NOISELESS:
                model = paper.GaussianMixture(
                    **common, epsilon=math.inf, max_iter=self.steps, means_init=start
                ).fit(X)
            elif task.method.endswith("printed"):
                scenario, composition = task.method.removesuffix(", as printed").split()
                parameters = printed_mixture(
                    X,
                    start,
                    **budget,
                    scenario=scenario,
                    composition=composition,
                    delta_i=self.printed_delta_i,
                    steps=self.steps,
                    seed=task.noise_seed,
                )
                joint = log_joint(data.rows[test], *parameters)
                return {"log_likelihood": float(logsumexp(joint, axis=1).mean())}
            else:
                scenario, composition = task.method.split()
                # Linear composition divides all of delta. The delta_i of the text would use less of it.
                delta_i = None if composition == "linear" else self.delta_i
                model = paper.GaussianMixture(
                    **common,
                    **budget,
                    scenario=scenario,
                    composition=composition,
                    delta_i=delta_i,
                    max_iter=self.steps,
                    means_init=start,
                ).fit(X)
        scored = X if task.method in ON_OWN_ROWS.values() else data.rows[test]
        return {"log_likelihood": float(model.score(scored))}

    def draw(self, results: pd.DataFrame, data: Dataset) -> Any:
        """Draw one panel per scenario with four compositions, the default, and plain EM."""
        whole = results[results.part == results.part.max()]
        figure, axes = new_figure(1, 2, sharey=True)
        lines = {"paper's MAP EM, no noise": (NOISELESS, ":"), "plain EM, not private": (PLAIN, "--")}
        for axis, scenario in zip(axes, SCENARIOS, strict=True):
            curves = {as_private(scenario, c): (NAMES[c], COLOURS[j]) for j, c in enumerate(COMPOSITIONS)}
            curves[OURS] = ("dpem, default", COLOURS[5])
            for method, (label, colour) in curves.items():
                groups = whole[whole.method == method].groupby("epsilon").log_likelihood
                if len(groups) == 0:
                    continue
                error = 1.96 * groups.std().fillna(0) / np.sqrt(groups.size())
                axis.errorbar(
                    groups.mean().index, groups.mean(), error, label=label, color=colour, marker="o", ms=3
                )
            for label, (method, dashes) in lines.items():
                reached = whole[whole.method == method].log_likelihood.mean()
                axis.axhline(reached, color="black", ls=dashes, lw=1, label=label)
            axis.set_xscale("log")
            # Linear and advanced composition are far below, and would compress the other curves.
            axis.set_yscale("symlog", linthresh=20)
            axis.set_xlabel("epsilon")
            axis.set_title(
                f"{scenario}: {'all Gaussian' if scenario == 'GGG' else 'Laplace, covariances Gaussian'}"
            )
        axes[0].set_ylabel("log-likelihood per held-out row")
        axes[1].legend(fontsize=7)
        figure.suptitle(
            f"{data.title}: N = {len(data.rows):,}, d = {data.rows.shape[1]}, K = {self.n_components}, "
            f"J = {self.steps}, delta = {self.delta:g}",
            fontsize=9,
        )
        return figure

    def table(self, results: pd.DataFrame) -> str:
        """Return a table of means and standard errors by method and epsilon."""
        whole = results[results.part == results.part.max()]
        epsilons = sorted(e for e in whole.epsilon.unique() if np.isfinite(e))
        methods = [OURS]
        methods += [as_private(s, c) for s in SCENARIOS[::-1] for c in COMPOSITIONS]
        methods += [as_printed(s, c) for s in SCENARIOS[::-1] for c in COMPOSITIONS]
        rows = []
        for method in methods:
            own = whole[whole.method == method]
            if len(own):
                cells = [interval(own[own.epsilon == e].log_likelihood) for e in epsilons]
                rows.append([method, *cells])
        for method in (NOISELESS, PLAIN):
            reached = interval(whole[whole.method == method].log_likelihood)
            rows.append([f"{method}, not private", *[reached] * len(epsilons)])
        return markdown(["", *(f"eps {e:g}" for e in epsilons)], rows)

    def saving(self, results: pd.DataFrame) -> str:
        """Describe at which tested epsilon `dpem` matches the paper's best method at epsilon 1 and 4."""
        whole = results[results.part == results.part.max()]
        ours = whole[whole.method == OURS].groupby("epsilon").log_likelihood.mean()
        lines = []
        for at in (1.0, 4.0):
            paper_at = whole[
                (whole.epsilon == at)
                & whole.method.isin([as_private(s, c) for s in SCENARIOS for c in COMPOSITIONS])
            ]
            if paper_at.empty:
                continue
            best = paper_at.groupby("method").log_likelihood.mean()
            reached = (
                f"At epsilon {at:g} the paper's best method ({best.idxmax()}) reaches {best.max():.2f}. "
                f"`dpem` "
            )
            below = ours.index[ours < best.max()]
            above = ours.index[ours.index > below.max()] if len(below) else ours.index
            if len(above) == 0:
                lines.append(f"{reached}does not reach this.")
            elif len(below) == 0:
                least = above.min()
                lines.append(
                    f"{reached}reaches this at epsilon {least:g}, the smallest that was tested: at least "
                    f"{at / least:.0f} times less."
                )
            else:
                lines.append(
                    f"{reached}reaches this between the tested epsilons {below.max():g} and {above.min():g}: "
                    f"{at / above.min():.3g} to {at / below.max():.3g} times less."
                )
        return " ".join(lines)


def _continued(X: NDArray[np.float64], model: Any) -> PlainMixture:
    """Run plain EM of scikit-learn from the parameters of a private fit."""
    k = len(model.weights_)
    return PlainMixture(
        k,
        **_PLAIN,
        weights_init=model.weights_ / model.weights_.sum(),
        means_init=model.means_,
        precisions_init=np.linalg.inv(model.covariances_),
    ).fit(X)


def latin_start(k: int, d: int, radius: float, seed: int) -> NDArray[np.float64]:
    """Return a Latin hypercube of width 1 in the units of the data, as in the authors' code."""
    random = public_random(seed)
    strata = np.stack([random.permutation(k) for _ in range(d)], axis=1)
    return np.asarray(((strata + random.uniform(size=(k, d))) / k - 0.5) / radius)
