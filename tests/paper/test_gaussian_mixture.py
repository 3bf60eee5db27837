"""The paper's mixture: its mechanisms, budgets, estimates and sensitivities."""

import math
import warnings

import numpy as np
import pytest
from scipy import optimize, stats

import dpem
from dpem import paper
from dpem.data.domain import GRID, onto_grid
from dpem.errors import InvalidArgumentError, UnreachableBudgetError
from dpem.paper.mixture_sums import Counts, Moments, Sums
from dpem.privacy.events import GaussianEvent, LaplaceEvent
from dpem.privacy.per_mechanism import mixture_mechanisms, per_mechanism_budget
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.simple import SQUARED_BITS, onto_unit_grid
from support.paper_models import units_of_mixture_sums

SCENARIOS = ["GGG", "LLG"]
COMPOSITIONS = ["linear", "advanced", "zcdp", "moments"]


def rows(n=3000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([[0.4] * d, [-0.4] * d])[rng.integers(2, size=n)] + rng.normal(0, 0.1, (n, d))


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_mechanisms_agree_with_the_paper(scenario, composition):
    """Each step has 2K + 1 mechanisms, all with the epsilon_i of the composition."""
    model = paper.GaussianMixture(
        2, epsilon=1.0, data_norm=1.0, scenario=scenario, composition=composition, max_iter=4
    ).fit(rows())
    laplace, gaussian = (4 * 3, 4 * 2) if scenario == "LLG" else (0, 4 * 5)
    expected = per_mechanism_budget(composition, 1.0, 1e-6, n_laplace=laplace, n_gaussian=gaussian)
    if composition == "linear":  # by hand: epsilon and delta in equal shares
        assert expected.epsilon_i == pytest.approx(1 / 20, rel=1e-9)
        classical = math.sqrt(2 * math.log(1.25 * gaussian / 1e-6)) * 20
        assert expected.noise_multiplier == pytest.approx(classical, rel=1e-9)
    if composition == "zcdp" and scenario == "GGG":  # rho + 2 sqrt(rho log(1 / delta)) = epsilon
        log = math.log(1e6)
        rho = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
        assert expected.noise_multiplier == pytest.approx(math.sqrt(gaussian / (2 * rho)), rel=1e-6)
    if (
        composition == "zcdp" and scenario == "LLG"
    ):  # epsilon^2 / 2 for each Laplace, 1 / (2 m^2) for each Gaussian
        log = math.log(1e6)
        rho = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
        spent = laplace * expected.epsilon_i**2 / 2 + gaussian / (2 * expected.noise_multiplier**2)
        assert spent == pytest.approx(rho, rel=1e-6)
    counts = {LaplaceEvent: 0, GaussianEvent: 0}
    for stage in model.plan_.stages:
        counts[type(stage.event)] += stage.repeats * stage.mechanisms
    assert counts == {LaplaceEvent: laplace, GaussianEvent: gaussian}
    for stage in model.plan_.stages:
        if isinstance(stage.event, LaplaceEvent):
            assert stage.event.epsilon == expected.epsilon_i
        else:
            assert stage.event.noise_multiplier == expected.noise_multiplier
    assert model.privacy_.epsilon == 1.0
    assert np.isfinite(model.score(rows()))


@pytest.mark.parametrize("d", [2, 3, 30])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_planned_sensitivities_agree_with_the_equations(scenario, d):
    """They are those of N pi, N~ mu and N~ Sigma, in units of a row of norm 1 and responsibility 1."""
    model = paper.GaussianMixture(2, epsilon=1.0, data_norm=1.0, scenario=scenario, max_iter=1)
    plan = model.fit(rows(n=200, d=d)).plan_
    equations = {
        "weights": 2.0,  # Delta pi = 2 / N, in L1; the text takes it for Gaussian noise, too
        # eq. mean_sensitivity: Delta_1 mu = 2 sqrt(d) / N~_k; after eq. perturbmean: Delta_2 mu = 2 / N~_k
        "means": 2 * math.sqrt(d) if scenario == "LLG" else 2.0,
        "covariances": 2.0,  # eq. Cov_sens: 2 / N~_k, in Frobenius norm
    }
    units = units_of_mixture_sums(d)
    planned = {stage.name: stage.sensitivity / units[stage.name] for stage in plan.stages}
    assert planned == pytest.approx(equations, rel=2e-3)  # tolerance for rounding to the grid


def log_posterior(X, g, weights, means, covariances, prior):
    """Return the objective of an M-step: the free energy of responsibilities g plus the log prior.

    Densities are from scipy. The prior is Dirichlet(alpha) on weights, N(0, Sigma / kappa) on means and
    inverse Wishart on Sigma.
    """
    if (weights <= 0).any():
        return -np.inf
    k, d = means.shape
    total = 0.0
    for j in range(k):
        law = stats.multivariate_normal(means[j], covariances[j])
        total += g[:, j] @ (np.log(weights[j]) + law.logpdf(X))
        if prior is not None:
            alpha, kappa, nu, scale = prior
            total += (alpha - 1) * np.log(weights[j])
            total += stats.multivariate_normal(np.zeros(d), covariances[j] / kappa).logpdf(means[j])
            total += stats.invwishart(nu, scale * np.eye(d)).logpdf(covariances[j])
    return total


def maximised(X, g, prior):
    """Return the weights, means and covariances of the numerical maximum of the objective."""
    k, d = g.shape[1], X.shape[1]
    lower = np.tril_indices(d)

    def unpacked(v):
        weights = np.exp(v[:k] - np.logaddexp.reduce(v[:k]))
        means = v[k : k + k * d].reshape(k, d)
        factors = np.zeros((k, d, d))
        factors[:, lower[0], lower[1]] = v[k + k * d :].reshape(k, -1)
        return weights, means, factors @ factors.transpose(0, 2, 1) + 1e-12 * np.eye(d)

    start = np.concatenate([np.zeros(k + k * d), np.tile(0.3 * np.eye(d)[lower], k)])
    found = optimize.minimize(lambda v: -log_posterior(X, g, *unpacked(v), prior), start, method="BFGS")
    return unpacked(found.x)


@pytest.mark.parametrize(("estimate", "kappa"), [("mle", 1.0), ("map", 1.0), ("map", 50.0), ("map", 2000.0)])
def test_a_step_maximises_the_objective_of_em(estimate, kappa):
    """Without noise a step agrees with a numerical maximum of free energy plus log prior."""
    X = rows(n=400, d=2) + np.array([0.2, -0.1])
    start, k, d = np.array([[0.3, 0.2], [-0.3, -0.1]]), 2, 2
    model = paper.GaussianMixture(
        k,
        epsilon=np.inf,
        data_norm=1.0,
        estimate=estimate,
        kappa0=kappa,
        scale0=0.5,
        max_iter=1,
        means_init=start,
    ).fit(X)
    # The start: equal weights, unit covariances.
    joint = np.stack([stats.multivariate_normal(m, np.eye(d)).logpdf(X) for m in start], axis=1)
    g = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    prior = None if estimate == "mle" else (2.0, kappa, d + 2, 0.5)
    best = maximised(X, g, prior)
    # The tolerance covers rounding to the grid and the numerical search.
    for found, expected in zip((model.weights_, model.means_, model.covariances_), best, strict=True):
        np.testing.assert_allclose(found, expected, atol=3e-4, rtol=2e-3)
    reached = log_posterior(X, g, model.weights_, model.means_, model.covariances_, prior)
    assert reached == pytest.approx(log_posterior(X, g, *best, prior), rel=1e-5)


@pytest.mark.parametrize("estimate", ["map", "mle"])
def test_a_huge_budget_agrees_with_epsilon_inf(estimate):
    """The private path, which charges and draws noise, gives the same result as `epsilon=inf`."""
    X, means = rows(n=2000), np.array([[0.3, 0.2, 0.1], [-0.3, -0.1, -0.2]])
    common = {"data_norm": 1.0, "estimate": estimate, "max_iter": 3, "means_init": means}
    noisy = paper.GaussianMixture(2, epsilon=1e4, **common).fit(X)
    plain = paper.GaussianMixture(2, epsilon=np.inf, **common).fit(X)
    for name in ("weights_", "means_", "covariances_"):
        np.testing.assert_allclose(getattr(noisy, name), getattr(plain, name), atol=2e-3)


@pytest.mark.parametrize("kind", [Counts, Sums, Moments])
def test_extreme_pairs_of_rows_stay_within_the_sensitivity(kind):
    """The pairs are extreme rows and components, in the norms of the mechanisms."""
    rng = np.random.default_rng(0)
    reached = 0.0
    for _ in range(40):
        d, k = 3, 2
        factors = rng.choice([0.01, 0.1, 1.0]) * np.stack([np.eye(d)] * k)
        parts = GaussianComponents.from_parameters(np.full(k, 0.5), rng.normal(0, 0.5, (k, d)), factors)
        query = kind(parts)
        sphere = rng.normal(size=(8, d))
        sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
        grid = onto_grid(np.concatenate([sphere, -sphere, np.eye(d), -np.eye(d)]) * GRID).T
        vectors = np.stack([query.sum_block(grid[:, [i]]) for i in range(grid.shape[1])])
        moves = (vectors[:, None] - vectors[None]).astype(float) / 2.0**query.coarse_bits
        by_mechanism = moves.reshape(
            -1, 1 if kind is Counts else k, query.size // (1 if kind is Counts else k)
        )
        for norm, name in ((2, "l2"), (1, "l1")):
            if kind is Moments and name == "l1":
                continue
            ratio = np.linalg.norm(by_mechanism, norm, axis=2).max() / query.sensitivity("replace_one", name)
            assert ratio <= 1
            reached = max(reached, ratio)
    assert reached > 0.7  # the paper's 2 for weights and covariances is loose: sqrt 2 suffices


def test_both_computations_of_moments_give_the_same_integers():
    """With many columns, components are multiplied one by one; with few columns, all at once."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5, 1500))
    grid = onto_grid(X.T / 20 * GRID).T
    factors = 0.02 * np.stack([np.eye(5)] * 3)
    parts = GaussianComponents.from_parameters(np.full(3, 1 / 3), rng.normal(0, 0.1, (3, 5)), factors)
    query = Moments(parts)
    g, x = query.prepare(grid), onto_unit_grid(grid, GRID, SQUARED_BITS)
    assert (g == 0).any()
    np.testing.assert_array_equal(query._one_by_one(g, x), query._all_at_once(g, x))


def test_the_mean_of_the_text_is_not_private():
    """Neighbours of docs/paper/methods.md have one row alone in a component, at (1, 0, ..) or (-1, 0, ..).

    The text divides by the exact count, 1, so that the mean moves by 2; it adds noise for a sensitivity of
    2 / N~, and N~, a noisy count, is as large as the noise of the weights makes it. One mean then costs
    mu of about 1.4 where the plan charges a fiftieth of that, in the median of draws with a count above 1.
    """
    laplace, gaussian = mixture_mechanisms("GGG", n_components=3, n_iterations=10)
    charged = per_mechanism_budget("zcdp", 1.0, 1e-4, n_laplace=laplace, n_gaussian=gaussian, delta_i=1e-8)
    multiplier = charged.noise_multiplier
    noisy_count = 1 + 2 * multiplier * np.random.default_rng(0).normal(size=10_000)
    noisy_count = noisy_count[noisy_count > 1]  # half of the time
    true_mu = 2 / (multiplier * 2 / noisy_count)
    assert np.median(true_mu) > 1
    assert np.median(true_mu) * multiplier > 50  # the charge is for a mu of 1 / multiplier


def test_budget_refusals():
    """If the classical sigma misses its delta, or delta_i is invalid, the error precedes any reading."""
    X = rows()
    with pytest.raises(UnreachableBudgetError, match="classical Gaussian sigma"):
        paper.GaussianMixture(1, epsilon=1e4, data_norm=1.0, composition="linear", max_iter=1).fit(X)
    with pytest.raises(InvalidArgumentError, match="delta_i"):
        paper.GaussianMixture(3, epsilon=1.0, data_norm=1.0, composition="advanced", delta_i=1e-6).fit(X)
    for wrong in (
        {"scenario": "LGG"},
        {"composition": "rdp"},
        {"estimate": "mean"},
        {"alpha": 0.5},
        {"scale0": 0.0},
        {"kappa0": 0.0},
        {"means_init": [[0.0]]},
        {"max_iter": 0},
    ):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            paper.GaussianMixture(**({"n_components": 2, "epsilon": 1.0, "data_norm": 1.0} | wrong)).fit(X)


def test_priors_matter_with_few_rows():
    """A large scale of the prior widens covariances; a large kappa shrinks means to zero."""
    X = rows(n=500)
    common = {"epsilon": 1e4, "data_norm": 1.0, "max_iter": 3, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = paper.GaussianMixture(2, **common).fit(X)
        wide = paper.GaussianMixture(2, scale0=200.0, **common).fit(X)
        still = paper.GaussianMixture(2, kappa0=1e4, **common).fit(X)
    assert np.trace(wide.covariances_[0]) > 2 * np.trace(base.covariances_[0])
    assert np.abs(still.means_).max() < 0.2 * np.abs(base.means_).max()


def test_save_and_load(tmp_path):
    X = rows()
    model = paper.GaussianMixture(2, epsilon=1.0, data_norm=1.0, random_state=0).fit(X)
    model.save(tmp_path / "m")
    again = dpem.load(tmp_path / "m")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_allclose(model.to_sklearn().score_samples(X), model.score_samples(X))
    assert model.sample(5).shape == (5, 3)
    assert model.predict_proba(X).shape == (3000, 2)


def test_without_noise_small_variances_stay():
    """Covariances are not repaired without noise: with epsilon=inf a narrow column keeps its variance."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0, 0.2, 20_000), rng.normal(0, 0.003, 20_000)])
    model = paper.GaussianMixture(1, epsilon=math.inf, data_norm=2.0, max_iter=3).fit(X)
    # MAP with nu0 = d + 2 and S0 = 0.1 I, in units of the ball of radius 2.
    expected = (0.1 + 20_000 * (X[:, 1] / 2).var()) / (20_000 + 4 + 4) * 4
    assert model.covariances_[0, 1, 1] == pytest.approx(expected, rel=1e-3)
    assert expected < 1e-4  # a thousandth of the ball's unit would be 4e-3
    private = paper.GaussianMixture(1, epsilon=1.0, data_norm=2.0, max_iter=3).fit(X)
    assert private.covariances_[0, 1, 1] >= 4e-3 * (1 - 1e-9)
