"""The paper's k-means and DPLloyd: their budgets, and the pairs of rows that require corrections."""

import math

import numpy as np
import pytest

import dpem
from dpem import Ledger, paper
from dpem.data.domain import GRID, onto_grid
from dpem.errors import InvalidArgumentError
from dpem.paper.cluster_sums import ClusterCounts, ClusterSums, CountsAndSums
from dpem.privacy.accountants import LinearAccountant, ZcdpAccountant

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(m, 0.1, (4000, 2)) for m in (-0.5, 0.5)])
MODELS = {
    "laplace zcdp": lambda **k: paper.KMeans(2, data_norm=1.0, **k),
    "laplace linear": lambda **k: paper.KMeans(2, data_norm=1.0, composition="linear", **k),
    "gaussian zcdp": lambda **k: paper.KMeans(2, data_norm=1.0, noise="gaussian", **k),
    "gaussian linear": lambda **k: paper.KMeans(
        2, data_norm=1.0, noise="gaussian", composition="linear", **k
    ),
    "lloyd linear": lambda **k: paper.DPLloyd(2, data_norm=1.0, **k),
    "lloyd zcdp": lambda **k: paper.DPLloyd(2, data_norm=1.0, composition="zcdp", **k),
}


@pytest.mark.parametrize("name", MODELS)
def test_large_budgets_find_the_clusters(name):
    """At a large epsilon the baselines work, and their statements use their own composition."""
    model = MODELS[name](epsilon=30.0, delta=1e-6, random_state=0).fit(X)
    found = model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])]
    assert np.abs(found - [[-0.5, -0.5], [0.5, 0.5]]).max() < 0.1
    assert model.privacy_.accountant == model.composition
    assert model.predict(X).shape == (8000,)
    assert model.n_iter_ == 10


def budget_of_one(composition, noise, n, epsilon, delta):
    """Return the parameter of one of n equal mechanisms by the formulas of the paper's section 5.

    It is epsilon_i for Laplace noise, and the ratio of noise to sensitivity for Gaussian noise.
    """
    if composition == "linear":  # n epsilon_i and n delta_i
        classical = math.sqrt(2 * math.log(1.25 * n / delta)) * n / epsilon
        return epsilon / n if noise == "laplace" else classical
    # rho + 2 sqrt(rho log(1 / delta)) = epsilon; rho is n epsilon_i^2 / 2, or n / (2 ratio^2)
    log = math.log(1 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    return math.sqrt(2 * rho / n) if noise == "laplace" else math.sqrt(n / (2 * rho))


@pytest.mark.parametrize("name", MODELS)
def test_each_mechanism_has_an_equal_part_of_the_budget(name):
    """The composition of all mechanisms gives epsilon up to 1e-9, and no more.

    The private k-means has J(K+1) mechanisms, K means and the counts in each step. The paper says nothing of
    the counts of k-means; 2K+1 is its number for mixtures. DPLloyd has J.
    """
    model = MODELS[name](epsilon=0.7, delta=1e-6).fit(X)
    n, noise = 10 if "lloyd" in name else 10 * (2 + 1), getattr(model, "noise", "laplace")
    expected = budget_of_one(model.composition, noise, n, 0.7, 1e-6)
    field = "epsilon" if noise == "laplace" else "noise_multiplier"
    for stage in model.plan_.stages:
        assert getattr(stage.event, field) == pytest.approx(expected, rel=1e-9)
    assert sum(stage.repeats * stage.mechanisms for stage in model.plan_.stages) == n
    accountant = LinearAccountant() if model.composition == "linear" else ZcdpAccountant()
    total = accountant.epsilon(model.plan_.event, 1e-6)
    assert total <= 0.7
    if name != "gaussian linear":  # the classical sigma is looser than its exact curve
        assert total >= 0.7 * (1 - 1e-9)
    assert sum(repeats for _, repeats in model.plan_.event.parts) == n


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("laplace zcdp", {"counts": 2.0, "sums": 2 * math.sqrt(2) * GRID}),
        ("gaussian zcdp", {"counts": math.sqrt(2), "sums": 2.0 * GRID}),
        ("lloyd linear", {"counts and sums": 2 * (1 + math.sqrt(2)) * GRID}),
    ],
)
def test_sensitivities_agree_with_the_unit_disc(name, expected):
    """For a replaced row and d = 2: 2 and 2 sqrt(d) in L1, sqrt(2) and 2 in L2, 2 (1 + sqrt(d)) together."""
    model = MODELS[name](epsilon=5.0, delta=1e-6).fit(X)
    planned = {stage.name: stage.sensitivity for stage in model.plan_.stages}
    assert planned == pytest.approx(expected, rel=1e-5)  # tolerance for rounding to the grid


def test_the_authors_exact_counts_distinguish_neighbours():
    """If a row alone in its cluster is replaced, the exact count that the authors' code divides by is zero.

    In the authors' code the mean and the scale of its noise depend on the exact count. dpem adds noise to
    counts and sums instead, which change by no more than their sensitivity.
    """
    centres = onto_grid(np.array([[-0.5, 0], [0.5, 0]]) * GRID)
    rows = onto_grid(np.array([[-1.0, 0], [1.0, 0]]) * GRID).T
    neighbour = onto_grid(np.array([[-1.0, 0], [-1.0, 0]]) * GRID).T
    counts, sums = ClusterCounts(centres), ClusterSums(centres)
    assert counts.sum_block(rows).tolist() == [1, 1]
    assert counts.sum_block(neighbour).tolist() == [2, 0]
    moved = np.abs(sums.sum_block(rows) - sums.sum_block(neighbour)).reshape(2, 2).sum(axis=1)
    assert (moved <= sums.sensitivity("replace_one", "l1")).all()


def test_the_published_sensitivity_of_dplloyd_is_too_small():
    """Replacing a row of the unit disc may change sums by 4.83, more than d + 1 = 3."""
    centres = onto_grid(np.array([[-0.5, -0.5], [0.5, 0.5]]) * GRID)
    query = CountsAndSums(centres)
    rows = onto_grid(np.array([[1.0, 1.0], [-1.0, -1.0]]) * GRID)  # on the circle, along the diagonal
    move = (query.sum_block(rows[:1].T) - query.sum_block(rows[1:].T)) / GRID
    assert np.abs(move).sum() > 4.8
    assert np.abs(move).sum() <= query.sensitivity("replace_one", "l1") / GRID


def test_files_and_ledger(tmp_path):
    """The baselines are saved and charged like every estimator."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=2.0, cap_delta=1e-5)
    model = paper.DPLloyd(2, epsilon=0.5, data_norm=1.0, ledger=ledger).fit(X)
    assert ledger.history()[0].purpose == "dpem.paper.DPLloyd.fit"
    model.save(tmp_path / "m")
    again = dpem.load(tmp_path / "m")
    assert type(again) is paper.DPLloyd
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    assert again.plan_ == model.plan_


@pytest.mark.parametrize(
    "arguments",
    [{"composition": "gdp"}, {"max_iter": 0}, {"epsilon": 0}, {"n_clusters": 0}],
)
def test_invalid_arguments(arguments):
    for kind in (paper.KMeans, paper.DPLloyd):
        with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
            kind(**({"n_clusters": 2, "epsilon": 1.0, "data_norm": 1.0} | arguments)).fit(X)
    with pytest.raises(InvalidArgumentError, match="noise"):
        paper.KMeans(2, epsilon=1.0, data_norm=1.0, noise="uniform").fit(X)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_arguments_are_checked_without_noise_too(epsilon):
    X = np.zeros((20, 2))
    with pytest.raises(InvalidArgumentError, match="noise"):
        paper.KMeans(2, epsilon=epsilon, data_norm=1.0, noise="cauchy").fit(X)
    with pytest.raises(InvalidArgumentError, match="scenario"):
        paper.GaussianMixture(2, epsilon=epsilon, data_norm=1.0, scenario="LGG").fit(X)
    with pytest.raises(InvalidArgumentError, match="composition"):
        paper.GaussianMixture(2, epsilon=epsilon, data_norm=1.0, composition="rdp").fit(X)


def test_factors_of_a_column_of_zeros_without_noise():
    X = np.random.default_rng(0).normal(0, 0.2, (300, 3)) * [1, 1, 0]
    model = paper.FactorAnalysis(1, epsilon=math.inf, data_norm=1.0).fit(X)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.score(X))
    assert not model.privacy_.is_private
