"""The paper's mixture and DPLloyd as printed, in floating point, and the authors' k-means.

None of these methods is private if a row is replaced, which is what they demonstrate. The mixture follows the
paper's equations with exact counts: it divides means by exact counts and scales the noise by noisy counts.
DPLloyd follows section 7 with noisy counts. Both DPLloyd and the authors' k-means add noise for too small a
sensitivity. docs/paper/methods.md shows neighbouring tables that prove it. The private forms are in
`dpem.paper`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from dpem.privacy.per_mechanism import mixture_mechanisms, per_mechanism_budget
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["authors_kmeans", "log_joint", "printed_dplloyd", "printed_mixture"]

SMALLEST_EIGENVALUE = 1e-3  # from the authors' code: the text says "near zero"


def log_joint(
    X: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the logarithm of weight times density, (n, k)."""
    columns = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        factor = np.linalg.cholesky(covariance)
        z = np.linalg.solve(factor, (X - mean).T)
        log_det = np.log(np.diag(factor)).sum() + X.shape[1] / 2 * np.log(2 * np.pi)
        columns.append(np.log(max(weight, 1e-300)) - 0.5 * (z * z).sum(axis=0) - log_det)
    return np.stack(columns, axis=1)


def printed_mixture(
    X: NDArray[np.float64],
    start: NDArray[np.float64],
    *,
    epsilon: float,
    delta: float,
    delta_i: float | None,
    scenario: str,
    composition: str,
    steps: int,
    seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return MAP estimates of weights, means and covariances, with the noise of the paper's text."""
    random = public_random(seed)
    n, d = X.shape
    k = len(start)
    laplace, gaussian = mixture_mechanisms(scenario, k, steps)
    # The text uses integer orders and states no largest order.
    budget = per_mechanism_budget(
        composition,
        epsilon,
        delta,
        n_laplace=laplace,
        n_gaussian=gaussian,
        delta_i=delta_i,
        max_order=None,
    )
    sigma = budget.noise_multiplier or 0.0

    def noise(shape: tuple[int, ...], l1: float, l2: float) -> NDArray[np.float64]:
        if scenario == "LLG":
            return np.asarray(random.laplace(0.0, l1 / budget.epsilon_i, shape))
        return np.asarray(random.normal(0.0, sigma * l2, shape))

    weights, means, covariances = np.full(k, 1 / k), start, np.stack([np.eye(d)] * k)
    for _ in range(steps):
        joint = log_joint(X, weights, means, covariances)
        g = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        exact = g.sum(axis=0)
        share = np.clip(exact / n + noise((k,), 2 / n, 2 / n), 0.0, 1.0)
        noisy = n * (share / share.sum() if share.sum() > 0 else np.full(k, 1 / k))
        weights = (noisy + 1) / (n + k)
        new_means, new_covariances = [], []
        for j in range(k):
            total = g[:, j] @ X
            own = total / max(exact[j], 1e-12)
            # The exact count is the divisor. The noisy count only scales the noise.
            mean = total / (exact[j] + 1) + noise((d,), *np.array([2 * np.sqrt(d), 2.0]) / (noisy[j] + 1))
            scatter = (X * g[:, [j]]).T @ X - exact[j] * np.outer(own, own)
            posterior = 0.1 * np.eye(d) + scatter + exact[j] / (1 + exact[j]) * np.outer(own, own)
            upper = np.triu(random.normal(0.0, 2 * sigma / (noisy[j] + 2 * d + 4), (d, d)))
            covariance = posterior / (exact[j] + 2 * d + 4) + upper + np.triu(upper, 1).T
            values, vectors = np.linalg.eigh(covariance)
            new_means.append(mean / max(1.0, float(np.linalg.norm(mean))))
            new_covariances.append(vectors * np.maximum(values, SMALLEST_EIGENVALUE) @ vectors.T)
        means, covariances = np.stack(new_means), np.stack(new_covariances)
    return weights, means, covariances


def authors_kmeans(
    X: NDArray[np.float64], start: NDArray[np.float64], *, epsilon: float, delta: float, steps: int, seed: int
) -> NDArray[np.float64]:
    """Run k-means with Laplace noise on each mean, as in the authors' published code.

    The noise is too small for three reasons. The sensitivity is sqrt(d) / N_k, half of that in the text. The
    budget is for J mechanisms, not for one per mean and step. The exact counts are not charged.

    The code sorts the counts, so that a mean gets the noise for the count of another cluster. Counts of zero
    become 2 after that. An empty cluster becomes the mean of four rows drawn with replacement, each counted
    once. Centres are clipped to [-1, 1] in every coordinate. The authors' loop discards the last of J steps
    and can stop early because of the exact error. Here all J steps are used.
    """
    random = public_random(seed)
    k, d = start.shape
    budget = per_mechanism_budget("zcdp", epsilon, delta, n_laplace=steps, n_gaussian=0)
    centres = start
    for _ in range(steps):
        counts, sums = _clusters(X, centres)
        means = sums / np.maximum(counts, 1.0)[:, None]
        for empty in np.flatnonzero(counts == 0):
            means[empty] = X[np.unique(random.randint(len(X), size=4))].mean(axis=0)
        divisors = np.sort(counts)
        divisors[divisors == 0] = 2.0
        scale = np.sqrt(d) / divisors[:, None] / budget.epsilon_i
        centres = np.clip(means + random.laplace(0.0, 1.0, (k, d)) * scale, -1.0, 1.0)
    return centres


def printed_dplloyd(
    X: NDArray[np.float64],
    start: NDArray[np.float64],
    *,
    epsilon: float,
    delta: float,
    composition: str,
    steps: int,
    seed: int,
) -> NDArray[np.float64]:
    """Run DPLloyd with Laplace noise of sensitivity d + 1 on counts and sums.

    This sensitivity is right for rows in a box that are added or removed. The text leaves open how far means
    may lie outside and how small a noisy count may be. Here means are moved onto the unit ball, and noisy
    counts are at least 1. The authors' code clips means to [-1, 1] in every coordinate and has no floor.
    """
    random = public_random(seed)
    k, d = start.shape
    budget = per_mechanism_budget(composition, epsilon, delta, n_laplace=steps, n_gaussian=0)
    centres = start
    for _ in range(steps):
        counts, sums = _clusters(X, centres)
        scale = (d + 1) / budget.epsilon_i
        noisy = np.maximum(counts + random.laplace(0.0, scale, k), 1.0)
        centres = _into_ball((sums + random.laplace(0.0, scale, (k, d))) / noisy[:, None])
    return centres


def _clusters(
    X: NDArray[np.float64], centres: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    labels = (centres @ X.T - 0.5 * (centres**2).sum(axis=1)[:, None]).argmax(axis=0)
    counts = np.bincount(labels, minlength=len(centres)).astype(np.float64)
    sums = np.stack([np.bincount(labels, column, minlength=len(centres)) for column in X.T], axis=1)
    return counts, np.asarray(sums, dtype=np.float64)


def _into_ball(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1.0))
