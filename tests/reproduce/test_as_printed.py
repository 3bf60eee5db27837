"""The paper's formulas with exact counts: without noise equal to `dpem.paper`, with noise as printed."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import dpem
from dpem import paper
from dpem.privacy.randomness import public_random
from dpem.reproduce.as_printed import authors_kmeans, log_joint, printed_dplloyd, printed_mixture

COMPOSITIONS = ["linear", "advanced", "zcdp", "moments"]
LARGE = 1e5  # an epsilon with negligible noise


def rows(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array([[0.5, 0.3], [-0.5, 0.1], [0.1, -0.6]])[rng.integers(3, size=n)]
    return X + rng.normal(0, 0.08, (n, 2))


START = np.array([[0.3, 0.3], [-0.3, 0.0], [0.0, -0.4]])


@pytest.mark.parametrize("scenario", ["GGG", "LLG"])
def test_the_mixture_without_noise_equals_that_of_dpem(scenario):
    X = rows()
    settings = {"epsilon": LARGE, "delta": 1e-4, "scenario": scenario, "composition": "zcdp", "delta_i": 1e-8}
    weights, means, covariances = printed_mixture(X, START, **settings, steps=5, seed=0)
    model = paper.GaussianMixture(3, **settings, data_norm=1.0, max_iter=5, means_init=START).fit(X)
    np.testing.assert_allclose(weights, model.weights_, atol=5e-3)
    np.testing.assert_allclose(means, model.means_, atol=5e-3)
    np.testing.assert_allclose(covariances, model.covariances_, atol=5e-3)
    score = logsumexp(log_joint(X, weights, means, covariances), axis=1).mean()
    assert score == pytest.approx(model.score(X), abs=5e-2)


def budget_of_one(composition, epsilon, delta, laplace, gaussian, delta_i):
    """Return epsilon_i by the formulas of the paper's section 5, by bisection."""
    n, log = laplace + gaussian, math.log(1 / delta)
    # (sensitivity / sigma)^2 over epsilon_i^2
    per_square = 1 / (2 * math.log(1.25 / delta_i)) if gaussian else 0.0
    orders = np.arange(1.0, 3001.0)  # all integers; at the epsilons below the best are far below 3000

    def total(one):
        square = one**2 * per_square
        if composition == "linear":
            return n * one
        if composition == "advanced":
            slack = math.log(1 / (delta - gaussian * delta_i))
            return n * one * math.expm1(one) + math.sqrt(2 * n * slack) * one
        if composition == "zcdp":
            rho = laplace * one**2 / 2 + gaussian * square / 2
            return rho + 2 * math.sqrt(rho * log)
        rising = np.log((orders + 1) / (2 * orders + 1)) + orders * one
        falling = np.log(orders / (2 * orders + 1)) - (orders + 1) * one
        moments = laplace * np.logaddexp(rising, falling) + gaussian * (orders**2 + orders) * square / 2
        best = ((moments + log) / orders).argmin()
        assert best < len(orders) - 1
        return (moments[best] + log) / orders[best]

    low, high = 0.0, epsilon
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= epsilon else (low, middle)
    return low


def densities(X, weights, means, covariances):
    """Return weight times density, by scipy."""
    laws = [stats.multivariate_normal(m, c) for m, c in zip(means, covariances, strict=True)]
    return np.stack([w * law.pdf(X) for w, law in zip(weights, laws, strict=True)], axis=1)


@pytest.mark.parametrize(
    ("scenario", "composition", "epsilon"),
    [
        *((scenario, composition, 8.0) for scenario in ("GGG", "LLG") for composition in COMPOSITIONS),
        # At 0.1 the best orders exceed 100, the largest order of the authors' code.
        ("GGG", "moments", 0.1),
        ("LLG", "moments", 0.1),
    ],
)
@pytest.mark.parametrize("steps", [1, 3])
def test_the_mixture_has_the_noise_of_the_text(scenario, composition, epsilon, steps):
    """Every step has the noise for J steps: J(K+1) Laplace and JK Gaussian, or J(2K+1) Gaussian mechanisms.

    Exact counts divide the sums, and noisy counts scale the noise (perturbmean and perturbcovfull).
    """
    n, d, k, delta, delta_i, seed = 60_000, 2, 2, 1e-4, 1e-8, 5
    X, copies = np.array([[0.02, 0.0], [-0.01, 0.03]]), np.array([40_000, 20_000])
    means = np.array([[0.3, 0.3], [-0.3, 0.0]])
    found = printed_mixture(
        np.repeat(X, copies, axis=0),
        means,
        epsilon=epsilon,
        delta=delta,
        delta_i=delta_i,
        scenario=scenario,
        composition=composition,
        steps=steps,
        seed=seed,
    )
    laplace, gaussian = (steps * (k + 1), steps * k) if scenario == "LLG" else (0, steps * (2 * k + 1))
    one = budget_of_one(composition, epsilon, delta, laplace, gaussian, delta_i)
    multiplier = math.sqrt(2 * math.log(1.25 / delta_i)) / one
    draws = public_random(seed)  # in each step: weights, then the mean and the covariance of each component

    def noise(size, l1, l2):
        if scenario == "LLG":
            return l1 / one * draws.laplace(size=size)
        return multiplier * l2 * draws.normal(size=size)

    weights, covariances = np.full(k, 1 / k), np.stack([np.eye(d)] * k)
    for _ in range(steps):
        g = densities(X, weights, means, covariances)
        g *= (copies / g.sum(axis=1))[:, None]
        exact = g.sum(axis=0)
        share = np.clip(exact / n + noise(k, 2 / n, 2 / n), 0, 1)
        noisy = n * share / share.sum()
        assert np.abs(noisy / exact - 1).min() > 1e-6  # the exact and noisy counts differ
        weights, means = (noisy + 1) / (n + k), np.empty((k, d))
        for j in range(k):
            own = g[:, j] @ X / exact[j]
            scale = 1 / (noisy[j] + 1)
            moved = exact[j] * own / (exact[j] + 1) + noise(d, 2 * math.sqrt(d) * scale, 2 * scale)
            means[j] = moved / max(1.0, np.linalg.norm(moved))
            about = X - own
            scatter = (about * g[:, [j]]).T @ about + exact[j] / (exact[j] + 1) * np.outer(own, own)
            upper = np.triu(draws.normal(size=(d, d)))
            added = multiplier * 2 / (noisy[j] + 2 * d + 4) * (upper + np.triu(upper, 1).T)
            values, vectors = np.linalg.eigh((0.1 * np.eye(d) + scatter) / (exact[j] + 2 * d + 4) + added)
            covariances[j] = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    for array, expected in zip(found, (weights, means, covariances), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-8, atol=1e-10)


def test_kmeans_without_noise_equals_lloyds_algorithm():
    X = rows()
    budget = {"epsilon": LARGE, "delta": 1e-4, "steps": 8, "seed": 0}
    centres = [
        authors_kmeans(X, START, **budget),
        printed_dplloyd(X, START, **budget, composition="linear"),
        printed_dplloyd(X, START, **budget, composition="zcdp"),
    ]
    lloyd = START
    for _ in range(8):
        labels = ((X[:, None] - lloyd) ** 2).sum(axis=2).argmin(axis=1)
        lloyd = np.stack([X[labels == j].mean(axis=0) for j in range(3)])
    for found in centres:
        np.testing.assert_allclose(found, lloyd, atol=5e-3)
        assert dpem.nicv(X, found) < 0.02


def test_the_authors_kmeans_has_the_noise_of_their_code():
    """The scale is sqrt(d) / N over epsilon_i of J mechanisms, with sorted counts; centres are clipped."""
    X = np.repeat([[0.1, 0.1], [-0.2, -0.2]], [9000, 1000], axis=0)
    start, steps, epsilon, delta = np.array([[0.1, 0.1], [-0.2, -0.2]]), 1, 0.5, 1e-4
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    epsilon_i = math.sqrt(2 * rho / steps)
    seed = 3
    found = authors_kmeans(X, start, epsilon=epsilon, delta=delta, steps=steps, seed=seed)
    draws = public_random(seed).laplace(0.0, 1.0, (2, 2))
    # The first cluster has 9,000 rows, but the noise of 1,000 rows, because the counts are sorted.
    expected = start + draws * math.sqrt(2) / np.array([[1000], [9000]]) / epsilon_i
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    loud = authors_kmeans(X, start, epsilon=1e-6, delta=delta, steps=steps, seed=seed)
    assert set(np.abs(loud).ravel()) == {1.0}


def test_the_authors_kmeans_with_an_empty_cluster():
    """Its centre is the mean of four rows, drawn with replacement; its zero sorts first, then becomes 2."""
    X = np.repeat([[0.1, 0.1], [-0.2, -0.2]], [2, 1], axis=0)
    X += np.array([[0.0, 0.01], [0.02, 0.0], [0.0, 0.0]])
    start = np.array([[0.1, 0.1], [-0.2, -0.2], [0.9, 0.9]])
    epsilon_i, seed = 100.0, 1  # one step takes all of rho
    rho = epsilon_i**2 / 2
    delta = 1e-4
    epsilon = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    found = authors_kmeans(X, start, epsilon=epsilon, delta=delta, steps=1, seed=seed)
    draws = public_random(seed)
    drawn = draws.randint(3, size=4)
    assert len(np.unique(drawn)) < 4  # a row that is drawn twice counts once
    means = np.stack([X[:2].mean(axis=0), X[2], X[np.unique(drawn)].mean(axis=0)])
    # Sorted, the counts 2, 1, 0 are 0, 1, 2; then the zero becomes 2, which gives 2, 1, 2 and not 1, 2, 2.
    scale = math.sqrt(2) / np.array([[2.0], [1.0], [2.0]]) / epsilon_i
    np.testing.assert_allclose(found, means + draws.laplace(0.0, 1.0, (3, 2)) * scale, rtol=0, atol=1e-7)


# In the next two tests rows stay in their clusters, so that the centres depend on the noise of the last step.


@pytest.mark.parametrize("steps", [1, 4])
def test_the_authors_kmeans_has_a_budget_for_all_steps(steps):
    copies, start = np.array([9000, 3000]), np.array([[0.1, 0.1], [-0.2, -0.2]])
    epsilon, delta, seed = 0.5, 1e-4, 3
    found = authors_kmeans(
        np.repeat(start, copies, axis=0), start, epsilon=epsilon, delta=delta, steps=steps, seed=seed
    )
    epsilon_i = budget_of_one("zcdp", epsilon, delta, steps, 0, None)
    draws = public_random(seed).laplace(size=(steps, 2, 2))[-1]
    expected = start + draws * math.sqrt(2) / np.sort(copies)[:, None] / epsilon_i
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("composition", ["linear", "zcdp"])
def test_dplloyd_has_the_printed_noise(composition, steps):
    """Counts and sums have Laplace noise of scale (d + 1) J / epsilon under linear composition.

    The sensitivity d + 1 is too small if rows are replaced.
    """
    copies, start, d = np.array([9000, 3000]), np.array([[0.1, 0.1], [-0.2, -0.2]]), 2
    epsilon, delta, seed = 0.5, 1e-4, 3
    found = printed_dplloyd(
        np.repeat(start, copies, axis=0),
        start,
        epsilon=epsilon,
        delta=delta,
        composition=composition,
        steps=steps,
        seed=seed,
    )
    scale = (d + 1) * steps / epsilon
    if composition == "zcdp":
        scale = (d + 1) / budget_of_one("zcdp", epsilon, delta, steps, 0, None)
    of_counts, of_sums = np.split(public_random(seed).laplace(size=(steps, 2 + 2 * d))[-1], [2])
    noisy = copies + scale * of_counts
    assert np.abs(noisy / copies - 1).min() > 1e-6
    sums = start * copies[:, None] + scale * of_sums.reshape(2, d)
    np.testing.assert_allclose(found, sums / noisy[:, None], rtol=1e-9)


def test_dplloyd_limits_counts_and_means():
    """Noisy counts are at least 1, and means move onto the unit ball."""
    found = printed_dplloyd(
        np.full((2, 2), 0.1), START, epsilon=1e-3, delta=1e-4, composition="linear", steps=1, seed=2
    )
    scale, draws = 3 / 1e-3, public_random(2).laplace(size=9)
    counts = np.maximum(np.array([2, 0, 0]) + scale * draws[:3], 1.0)
    assert (counts == 1).any()
    means = (np.array([[0.2, 0.2], [0, 0], [0, 0]]) + scale * draws[3:].reshape(3, 2)) / counts[:, None]
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1)
    np.testing.assert_allclose(found, means, rtol=1e-9)
