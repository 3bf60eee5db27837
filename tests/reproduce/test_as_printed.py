"""The paper's formulas to the letter: without noise those of `dpem.paper`, with noise as it is printed."""

import numpy as np
import pytest
from scipy.special import logsumexp

import dpem
from dpem import paper
from dpem.reproduce.as_printed import log_joint, printed_dplloyd, printed_kmeans, printed_mixture

LARGE = 1e5  # epsilon: no noise to speak of


def rows(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array([[0.5, 0.3], [-0.5, 0.1], [0.1, -0.6]])[rng.integers(3, size=n)]
    return X + rng.normal(0, 0.08, (n, 2))


START = np.array([[0.3, 0.3], [-0.3, 0.0], [0.0, -0.4]])


@pytest.mark.parametrize("scenario", ["GGG", "LLG"])
def test_mixture_without_noise_is_the_papers(scenario):
    X = rows()
    settings = {"epsilon": LARGE, "delta": 1e-4, "scenario": scenario, "composition": "zcdp", "delta_i": 1e-8}
    weights, means, covariances = printed_mixture(X, START, **settings, steps=5, seed=0)
    model = paper.GaussianMixture(3, **settings, data_norm=1.0, max_iter=5, means_init=START).fit(X)
    np.testing.assert_allclose(weights, model.weights_, atol=5e-3)
    np.testing.assert_allclose(means, model.means_, atol=5e-3)
    np.testing.assert_allclose(covariances, model.covariances_, atol=5e-3)
    score = logsumexp(log_joint(X, weights, means, covariances), axis=1).mean()
    assert score == pytest.approx(model.score(X), abs=5e-2)


def test_mixture_noise_is_over_the_noisy_count():
    """One step, one component: the mean moves by sigma 2 / (N + 1), the covariance by 2 / (N + 2 d + 4)."""
    X = rows(500)
    settings = {"delta": 1e-4, "scenario": "GGG", "composition": "zcdp", "delta_i": 1e-8, "steps": 1}
    exact = printed_mixture(X, START[:1], epsilon=LARGE, seed=0, **settings)
    noisy = [printed_mixture(X, START[:1], epsilon=1.0, seed=seed, **settings) for seed in range(400)]
    from dpem.privacy.per_mechanism import per_mechanism_budget

    budget = per_mechanism_budget("zcdp", 1.0, 1e-4, n_laplace=0, n_gaussian=3, delta_i=1e-8)
    sigma = budget.noise_multiplier
    moved = np.array([means[0] - exact[1][0] for _, means, _ in noisy])
    assert moved.std() == pytest.approx(sigma * 2 / 501, rel=0.15)
    off = np.array([covariances[0][0, 1] - exact[2][0][0, 1] for _, _, covariances in noisy])
    assert off.std() == pytest.approx(sigma * 2 / 508, rel=0.2)


def test_kmeans_without_noise_is_lloyds():
    X = rows()
    budget = {"epsilon": LARGE, "delta": 1e-4, "steps": 8, "seed": 0}
    centres = [
        printed_kmeans(X, START, **budget),
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


def test_dplloyd_noise_has_the_printed_scale():
    """Sums move by Laplace noise of (d + 1) J / epsilon, which is too little for rows that are replaced."""
    X = np.full((1000, 2), 0.1)
    start = np.array([[0.1, 0.1], [-0.9, -0.9]])
    runs = [
        printed_dplloyd(X, start, epsilon=1.0, delta=1e-4, composition="linear", steps=1, seed=seed)[0]
        for seed in range(600)
    ]
    # Both coordinates and the count are noised; for a mean of 0.1 the count's noise hardly shows.
    expected = np.sqrt(2) * 3 / 1000
    assert np.std([run[0] for run in runs]) == pytest.approx(expected, rel=0.2)
