"""The paper's factor analysis: noise, sensitivity and refused budgets."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import dpem
from dpem import paper
from dpem.errors import InvalidArgumentError, UnreachableBudgetError
from dpem.models.factor_analysis.em import DenseMoment, Factors, fit_factors
from dpem.reproduce.olivetti import refused_from
from dpem.testing import record, replay


def rows(n=3000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return 0.1 * (rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d)))


def test_the_noise_agrees_with_the_text():
    """It is sqrt(2 ln(1.25/delta)) 2 / epsilon on every entry of the upper triangle of sum x x'."""
    X = rows()
    with record() as transcript:
        model = paper.FactorAnalysis(2, epsilon=0.5, delta=1e-4, data_norm=1.0).fit(X)
    (release,) = transcript.releases
    assert release.sensitivity == 2 * 4.0**13
    assert release.event.noise_multiplier == pytest.approx(math.sqrt(2 * math.log(1.25e4)) / 0.5)
    assert release.statistic.noise_shape is None
    exact = X.T @ X
    np.testing.assert_allclose(release.raw / 4.0**13, exact[np.triu_indices(5)], atol=0.05)
    np.testing.assert_array_equal(model.mean_, np.zeros(5))
    assert model.plan_.accountant == "linear"


def expected_log_likelihood(X, old):
    """Return E[log p(x, z | W, Psi)] per row as a function of (W, Psi), with z from the old posterior.

    It uses the joint Gaussian law of rows and factors, row by row, and none of the paper's matrices.
    """
    covariance = old.loadings @ old.loadings.T + np.diag(old.noise)
    means = np.linalg.solve(covariance, X.T).T @ old.loadings
    spread = np.eye(old.loadings.shape[1]) - old.loadings.T @ np.linalg.solve(covariance, old.loadings)

    def value(loadings, noise):
        left = X - means @ loadings.T
        squares = left**2 + np.einsum("jk,kl,jl->j", loadings, spread, loadings)
        return -0.5 * (np.log(noise) + squares / noise).sum(axis=1).mean()

    return value


@pytest.mark.parametrize("seed", range(4))
def test_one_step_maximises_the_expected_log_likelihood(seed):
    """Items 56 and 57 reach a numerical optimum; Psi with the old W, as in the text, does not."""
    rng = np.random.default_rng(seed)
    d, k = 4, 2
    X = rng.normal(size=(60, k)) @ rng.normal(size=(k, d)) + 0.7 * rng.normal(size=(60, d)) + 0.3
    moment = X.T @ X / len(X)
    old = Factors(rng.normal(size=(d, k)), np.diagonal(moment) * rng.uniform(0.2, 0.8, d))
    value = expected_log_likelihood(X, old)

    def loss(flat):
        return -value(flat[: d * k].reshape(d, k), np.exp(flat[d * k :]))

    best = minimize(
        loss, rng.normal(size=d * (k + 1)), method="BFGS", options={"gtol": 1e-7, "maxiter": 5000}
    )
    best_loadings, best_noise = best.x[: d * k].reshape(d, k), np.exp(best.x[d * k :])
    new, steps = fit_factors(DenseMoment(moment), k, None, least_noise=1e-9, start=old, max_iter=1)
    assert steps == 1
    np.testing.assert_allclose(new.loadings, best_loadings, atol=1e-4)
    np.testing.assert_allclose(new.noise, best_noise, atol=1e-4)
    assert value(new.loadings, new.noise) == pytest.approx(-best.fun, abs=1e-8)

    inverse = np.diag(1 / old.noise)
    g = np.linalg.inv(np.eye(k) + old.loadings.T @ inverse @ old.loadings)
    printed = np.diagonal(moment - old.loadings @ g @ old.loadings.T @ inverse @ moment)
    wrong = [(new.loadings, printed), (old.loadings, new.noise), (1.02 * new.loadings, new.noise)]
    for loadings, noise in wrong:
        near = np.allclose(loadings, best_loadings, atol=1e-2) and np.allclose(noise, best_noise, atol=1e-2)
        assert not near
        if (noise > 0).all():  # with the old W, Psi need not even be positive
            assert value(loadings, noise) < -best.fun - 1e-4


def test_the_fit_is_close_with_many_rows():
    X = rows(n=400_000)
    model = paper.FactorAnalysis(2, epsilon=0.9, delta=1e-6, data_norm=1.5, random_state=0).fit(X)
    np.testing.assert_allclose(model.get_covariance(), X.T @ X / len(X), atol=1e-3)


def test_the_moment_is_not_centred():
    """A mean far from zero becomes part of the first factor, as in the text."""
    X = rows(n=100_000) + 0.4
    model = paper.FactorAnalysis(1, epsilon=0.9, delta=1e-6, data_norm=2.0, random_state=0).fit(X)
    np.testing.assert_allclose(model.components_[0], 0.4, atol=0.15)


def test_the_classical_sigma_is_refused_if_it_misses_its_delta(tmp_path):
    """At epsilon 30 the classical sigma misses its delta, and is refused before any charge."""
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=50.0, cap_delta=1e-3)
    paper.FactorAnalysis(2, epsilon=0.99, delta=1e-4, data_norm=1.0).fit(rows())
    with pytest.raises(UnreachableBudgetError, match="classical"):
        paper.FactorAnalysis(2, epsilon=30.0, delta=1e-4, data_norm=1.0, ledger=ledger).fit(rows())
    assert ledger.history() == []


def test_the_classical_sigma_is_valid_for_epsilons_beyond_one():
    """At delta 1e-4 it satisfies its guarantee up to an epsilon of about 8, as dpem.reproduce also states."""
    assert refused_from() == 8.0
    for epsilon in (3.0, 7.9):
        paper.FactorAnalysis(2, epsilon=epsilon, delta=1e-4, data_norm=1.0).fit(rows())
    for epsilon in (8.0, 8.2):
        with pytest.raises(UnreachableBudgetError, match="classical"):
            paper.FactorAnalysis(2, epsilon=epsilon, delta=1e-4, data_norm=1.0).fit(rows())


@pytest.mark.parametrize("canary", [[1, 0, 0, 0, 0], [-9, 9, 9, 9, 9], [np.nan] * 5, [0.5, -0.5, 0.5, 0, 0]])
def test_one_row_changes_the_moment_by_at_most_its_sensitivity(canary):
    X = rows(n=300)
    neighbour = np.concatenate([[canary], X[1:]])
    with record() as first:
        model = paper.FactorAnalysis(2, epsilon=0.5, data_norm=1.0, random_state=0).fit(X)
    with replay(first) as second:
        again = paper.FactorAnalysis(2, epsilon=0.5, data_norm=1.0, random_state=0).fit(neighbour)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert first.releases[0].distance(second.releases[0]) <= 1 / math.sqrt(2) + 1e-9


def test_noise_far_above_the_signal():
    """Negative variances on the diagonal and an indefinite moment still give a proper density."""
    model = paper.FactorAnalysis(3, epsilon=0.1, data_norm=1.0, random_state=0).fit(rows(n=50, d=30))
    assert (model.noise_variance_ > 0).all()
    assert np.isfinite(model.score(rows(n=50, d=30)))
    assert np.isfinite(model.sample(10)).all()


def test_save_load_and_dataframes(tmp_path):
    frame = pd.DataFrame(rows(), columns=list("abcde"))
    model = paper.FactorAnalysis(2, epsilon=0.9, bounds=(-1, 1), random_state=0).fit(frame)
    model.save(tmp_path / "m")
    again = dpem.load(tmp_path / "m")
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.score(frame) == model.score(frame)
    assert list(again.feature_names_in_) == list("abcde")


@pytest.mark.parametrize("arguments", [{"n_components": 6}, {"epsilon": -1.0}, {"max_iter": 0}])
def test_invalid_arguments(arguments):
    good = {"n_components": 2, "epsilon": 0.9, "data_norm": 1.0}
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        paper.FactorAnalysis(**(good | arguments)).fit(rows())
