"""The paper's formulas with exact counts: without noise equal to `dpem.paper`, with noise as printed."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import dpem
from dpem import paper
from dpem.privacy.randomness import public_random
from dpem.reproduce.as_printed import authors_kmeans, log_joint, printed_dplloyd, printed_mixture

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


def zcdp_multiplier(epsilon, delta, mechanisms):
    """Return noise over sensitivity of Gaussian mechanisms: rho + 2 sqrt(rho log(1 / delta)) = epsilon."""
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    return math.sqrt(mechanisms / (2 * rho))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mixture_noise_is_divided_by_the_noisy_count(seed):
    """Exact counts divide the sums, and noisy counts scale the noise (perturbmean and perturbcovfull)."""
    n, d, epsilon, delta = 3000, 2, 8.0, 1e-4
    X = np.repeat([[0.02, 0.0], [-0.01, 0.03]], [2000, 1000], axis=0)
    start = np.array([[0.3, 0.3], [-0.3, 0.0]])
    weights, means, covariances = printed_mixture(
        X,
        start,
        epsilon=epsilon,
        delta=delta,
        delta_i=1e-8,
        scenario="GGG",
        composition="zcdp",
        steps=1,
        seed=seed,
    )
    multiplier = zcdp_multiplier(epsilon, delta, 5)
    distance = ((X[:, None] - start) ** 2).sum(axis=2)
    g = np.exp(-distance / 2) / np.exp(-distance / 2).sum(axis=1, keepdims=True)
    exact = g.sum(axis=0)
    draws = public_random(seed)  # weights, then the mean and the covariance of each component
    share = exact / n + multiplier * 2 / n * draws.normal(size=2)
    noisy = n * share / share.sum()
    assert np.abs(noisy / exact - 1).min() > 1e-4  # the exact and noisy counts differ
    np.testing.assert_allclose(weights, (noisy + 1) / (n + 2), rtol=1e-9)
    for k in range(2):
        noise = multiplier * 2 / (noisy[k] + 1) * draws.normal(size=d)
        np.testing.assert_allclose(means[k], g[:, k] @ X / (exact[k] + 1) + noise, rtol=1e-9)
        own = g[:, k] @ X / exact[k]
        about = X - own
        scatter = (about * g[:, [k]]).T @ about + exact[k] / (exact[k] + 1) * np.outer(own, own)
        upper = np.triu(draws.normal(size=(d, d)))
        noise = multiplier * 2 / (noisy[k] + 2 * d + 4) * (upper + np.triu(upper, 1).T)
        covariance = (0.1 * np.eye(d) + scatter) / (exact[k] + 2 * d + 4) + noise
        values, vectors = np.linalg.eigh(covariance)
        raised = (vectors * np.maximum(values, 1e-3)) @ vectors.T
        np.testing.assert_allclose(covariances[k], raised, rtol=1e-9, atol=1e-12)


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


def test_llg_noise_is_laplace_divided_by_the_noisy_count():
    """With one component, the mean has Laplace noise of scale 2 sqrt(d) / (N + 1) over epsilon_i."""
    X = np.full((4000, 2), 0.1)
    settings = {"delta": 1e-4, "delta_i": 1e-8, "scenario": "LLG", "composition": "linear", "steps": 1}
    seeds = range(300)
    means = [printed_mixture(X, START[:1], epsilon=3.0, seed=s, **settings)[1][0] for s in seeds]
    moved = np.array(means) - 0.1 * 4000 / 4001
    scale = 2 * math.sqrt(2) / 4001 / 1.0  # three mechanisms share epsilon 3
    # The mean absolute value of Laplace noise is its scale, with a deviation of scale / sqrt(600).
    assert np.abs(moved).mean() == pytest.approx(scale, rel=6 / math.sqrt(600))


def test_dplloyd_noise_has_the_printed_scale():
    """Sums have Laplace noise of scale (d + 1) J / epsilon, which is too small if rows are replaced."""
    X = np.full((1000, 2), 0.1)
    start = np.array([[0.1, 0.1], [-0.9, -0.9]])
    runs = [
        printed_dplloyd(X, start, epsilon=1.0, delta=1e-4, composition="linear", steps=1, seed=seed)[0]
        for seed in range(600)
    ]
    # Coordinates and the count have noise; at a mean of 0.1 the noise of the count is negligible.
    expected = np.sqrt(2) * 3 / 1000
    assert np.std([run[0] for run in runs]) == pytest.approx(expected, rel=0.2)
