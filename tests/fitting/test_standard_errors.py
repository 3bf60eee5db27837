"""Draws of the noise are evaluated in stacks: each draw has the bits that it has alone."""

import numpy as np
import pytest

import dpem
from dpem.fitting import standard_errors
from dpem.fitting.standard_errors import deviations_of_stacks, few_draws
from dpem.models.factor_analysis import em
from dpem.models.factor_analysis import estimator as factor_analysis
from dpem.models.gaussian_mixture import estimator as gaussian_mixture

MODELS = {
    "KMeans, ball": lambda **common: dpem.KMeans(3, data_norm=1.0, **common),
    "KMeans, box": lambda **common: dpem.KMeans(3, bounds=([-0.5] * 3 + [-0.1], [0.5] * 3 + [0.1]), **common),
    "mixture, full": lambda **common: dpem.GaussianMixture(3, data_norm=1.0, **common),
    "mixture, tied": lambda **common: dpem.GaussianMixture(
        3, data_norm=1.0, covariance_type="tied", **common
    ),
    "mixture, diag": lambda **common: dpem.GaussianMixture(
        3, bounds=(-1, 1), covariance_type="diag", **common
    ),
    "mixture, spherical": lambda **common: dpem.GaussianMixture(
        3, data_norm=1.0, covariance_type="spherical", **common
    ),
    "mixture, one component": lambda **common: dpem.GaussianMixture(1, data_norm=1.0, **common),
    "mixture, no background": lambda **common: dpem.GaussianMixture(
        3, data_norm=1.0, background_weight=0.0, **common
    ),
    "mixture, missing cells": lambda **common: dpem.GaussianMixture(2, data_norm=1.0, missing="em", **common),
    "factors, one": lambda **common: dpem.FactorAnalysis(1, data_norm=1.0, **common),
    "factors, two": lambda **common: dpem.FactorAnalysis(2, data_norm=1.0, **common),
    "factors, basis": lambda **common: dpem.FactorAnalysis(
        1, data_norm=1.0, basis=np.eye(4)[:, :3], **common
    ),
}


def rows(n=4000):
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 0.25, (3, 4))
    return centres[rng.integers(0, 3, n)] + 0.1 * rng.normal(size=(n, 4)) * [0.5, 1, 1, 2]


@pytest.fixture
def stacks(monkeypatch):
    """Record the function and the noise of every call of `deviations_of_stacks`."""
    calls = []

    def recorded(redrawn, draw, *arguments):
        calls.append((redrawn, draw(5)))
        return deviations_of_stacks(redrawn, draw, *arguments)

    for module in (standard_errors, gaussian_mixture, factor_analysis):
        monkeypatch.setattr(module, "deviations_of_stacks", recorded)
    return calls


@pytest.mark.parametrize("epsilon", [0.5, 20.0])
@pytest.mark.parametrize("name", MODELS)
def test_a_draw_has_the_same_bits_in_a_stack_and_alone(name, epsilon, stacks):
    MODELS[name](epsilon=epsilon, random_state=0).fit(rows())
    ((redrawn, noise),) = stacks
    assert len(noise) == 5
    together = redrawn(noise)
    for draw in range(len(noise)):
        one = redrawn(noise[draw : draw + 1])
        for several, alone in zip(together, one, strict=True):
            np.testing.assert_array_equal(several[draw], alone[0])


@pytest.mark.parametrize("name", [name for name in MODELS if name != "factors, basis"])
def test_a_stack_has_the_bits_of_single_releases(name, stacks):
    MODELS[name](epsilon=5.0, random_state=0).fit(rows())
    ((redrawn, noise),) = stacks
    single = [redrawn(draw) for draw in noise]
    for several, alone in zip(redrawn(noise), zip(*single, strict=True), strict=True):
        np.testing.assert_array_equal(several, np.stack(alone))


@pytest.mark.filterwarnings("ignore::dpem.errors.InsecureNoiseWarning")
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_standard_errors_depend_on_neither_stacks_nor_threads(name, n_jobs, monkeypatch):
    def fitted(**settings):
        with dpem.testing.insecure_noise(1):
            return MODELS[name](epsilon=5.0, random_state=0, **settings).fit(rows()).standard_errors_

    expected = fitted(n_jobs=1)
    monkeypatch.setattr(standard_errors, "_NUMBERS_OF_STACK", 150)
    found = fitted(n_jobs=n_jobs)
    for part in expected:
        np.testing.assert_array_equal(found[part], expected[part])


def test_each_fit_of_a_stack_stops_at_its_own_step():
    """Fits that need different numbers of EM steps end with the bits and the steps that they have alone."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(6, 8, 2)) * np.array([0.1, 0.3, 0.6, 1.0, 2.0, 5.0])[:, None, None]
    noisy = rng.normal(size=(6, 8, 8)) * 0.05
    matrices = loadings @ loadings.swapaxes(1, 2) + np.eye(8) + noisy @ noisy.swapaxes(1, 2)
    start = em.Factors(rng.normal(size=(8, 2)), np.ones(8))
    settings = {"least_noise": 1e-3, "start": start, "max_iter": 120, "tol": 1e-6}
    alone = [em.fit_factors(em.DenseMoment(matrix), 2, None, **settings) for matrix in matrices]
    steps = [n for _, n in alone]
    assert len(set(steps)) > 2
    assert max(steps) == 120  # one does not converge
    together, total = em.fit_factors(em.DenseMoment(matrices), 2, None, **settings)
    assert total == sum(steps)
    np.testing.assert_array_equal(together.loadings, [factors.loadings for factors, _ in alone])
    np.testing.assert_array_equal(together.noise, [factors.noise for factors, _ in alone])


def test_several_starts_are_those_of_one_after_the_other():
    """The best of several starts, fitted at once, is the fit with the largest likelihood."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))
    moment = em.DenseMoment(rows.T @ rows / 50)
    found, steps = em.fit_factors(moment, 3, np.random.RandomState(0))
    unit = em._Correlations(moment, np.sqrt(moment.diagonal))
    draws = np.random.RandomState(0)
    starts = [em._start(unit, 6, 3), *(0.5 * draws.normal(size=(6, 3)) for _ in range(4))]
    fits = [em._em(unit, em.Factors(s[None], np.full((1, 6), 0.5)), 1e-3, 2000, 1e-7) for s in starts]
    best = max(fits, key=lambda fit: em._log_likelihood(unit, fit[0])[0])
    np.testing.assert_array_equal(found.loadings, best[0].fits(0).scaled(unit.widths).loadings)
    assert steps == best[1][0]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (300, 3)])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_deviations_are_those_of_numpy(shape, n_threads, monkeypatch):
    monkeypatch.setattr(standard_errors, "_NUMBERS_OF_STACK", 500)
    random_state = np.random.RandomState(0)
    drawn = []

    def draw(n):
        drawn.append(random_state.normal(size=(n, *shape)))
        return drawn[-1]

    with few_draws(20):
        (found,) = deviations_of_stacks(lambda noise: (noise**3,), draw, 40, 100, n_threads)
    assert [len(part) for part in drawn] == [5] * 4
    np.testing.assert_array_equal(found, np.std(np.concatenate(drawn) ** 3, axis=0))
