"""The paper's general DP-EM: its mechanisms and bounds, and its mixture and k-means as special cases."""

import numpy as np
import pytest

import dpem
from dpem import paper
from dpem.errors import InvalidArgumentError
from dpem.privacy.events import GaussianEvent, LaplaceEvent
from support.paper_models import (
    Clusters,
    Mixture,
    cluster_moments,
    mixture_moments,
    units_of_mixture_sums,
)

COMPOSITIONS = ["linear", "advanced", "zcdp", "moments"]
START = np.array([[0.3, 0.2], [-0.3, -0.1]])


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([[0.4, 0.3], [-0.4, -0.2]])[rng.integers(2, size=n)] + rng.normal(0, 0.1, (n, 2))


def events(plan):
    """Return the number of runs of each mechanism."""
    counted = {}
    for stage in plan.stages:
        counted[stage.event] = counted.get(stage.event, 0) + stage.repeats * stage.mechanisms
    return counted


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("scenario", ["GGG", "LLG"])
def test_the_mixture_is_a_special_case(scenario, composition):
    """Mechanisms, epsilon_i and sensitivities are the same."""
    X, common = rows(), {"composition": composition, "epsilon": 1.0, "delta": 1e-5, "max_iter": 2}
    moments = mixture_moments(2, 2, scenario)
    general = paper.GeneralEM(Mixture(START), moments=moments, bounds=(-1, 1), **common).fit(X)
    special = paper.GaussianMixture(
        2, scenario=scenario, estimate="mle", data_norm=1.0, means_init=START, **common
    ).fit(X)
    assert events(general.plan_) == events(special.plan_)
    assert general.privacy_.epsilon == special.privacy_.epsilon == 1.0
    # The text's sensitivities of N pi, N mu and N Sigma are 2, 2 (L1: 2 sqrt d) and 2. In each of them the
    # bound corresponds to 2^20 on the grid.
    found = {stage.name: stage for stage in general.plan_.stages}
    bounds = {moment.name: moment.bound for moment in moments}
    mean = 2 * np.sqrt(2) if scenario == "LLG" else 2.0
    for name, expected in (("weights", 2.0), ("mean 0", mean), ("covariance 1", 2.0)):
        assert found[name].sensitivity / 2.0**20 * bounds[name] == pytest.approx(expected)
    planned = {stage.name: stage.sensitivity for stage in special.plan_.stages}
    units = units_of_mixture_sums(2)
    assert {name: planned[name] / units[name] for name in planned} == pytest.approx(
        {"weights": 2.0, "means": mean, "covariances": 2.0}, rel=1e-3
    )


@pytest.mark.parametrize("scenario", ["GGG", "LLG"])
def test_the_mixture_without_noise_is_the_same(scenario):
    X = rows()
    moments = mixture_moments(2, 2, scenario)
    general = paper.GeneralEM(
        Mixture(START), moments=moments, bounds=(-1, 1), epsilon=np.inf, max_iter=4
    ).fit(X)
    special = paper.GaussianMixture(
        2, scenario=scenario, estimate="mle", data_norm=1.0, means_init=START, epsilon=np.inf, max_iter=4
    ).fit(X)
    np.testing.assert_allclose(general.parameters_["weights"], special.weights_, atol=1e-3)
    np.testing.assert_allclose(general.parameters_["means"], special.means_, atol=1e-3)
    np.testing.assert_allclose(general.parameters_["covariances"], special.covariances_, atol=1e-3)
    assert not general.privacy_.is_private
    assert not special.privacy_.is_private


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_k_means_is_a_special_case(noise):
    X = rows()
    special = paper.KMeans(2, epsilon=np.inf, data_norm=1.0, noise=noise, max_iter=3, random_state=0).fit(X)
    # The special class draws its public start; one step from its centres must agree.
    general = paper.GeneralEM(
        Clusters(special.cluster_centers_),
        moments=cluster_moments(2, 2, noise),
        bounds=(-1, 1),
        epsilon=np.inf,
        max_iter=1,
    ).fit(X)
    again = paper.KMeans(2, epsilon=np.inf, data_norm=1.0, noise=noise, max_iter=4, random_state=0).fit(X)
    np.testing.assert_allclose(general.parameters_["centres"], again.cluster_centers_, atol=1e-4)
    private = {"epsilon": 1.0, "max_iter": 3, "composition": "zcdp"}
    one = paper.GeneralEM(
        Clusters(START), moments=cluster_moments(2, 2, noise), bounds=(-1, 1), **private
    ).fit(X)
    other = paper.KMeans(2, data_norm=1.0, noise=noise, **private).fit(X)
    if noise == "laplace":
        assert events(one.plan_) == events(other.plan_)
    else:  # the special class charges sqrt 2 for counts; the multiplier is the same
        assert sum(events(one.plan_).values()) == sum(events(other.plan_).values())
        assert set(events(one.plan_)) == set(events(other.plan_))


class Wild(dpem.ExponentialFamily):
    """A model whose statistics exceed their bounds by far on a rare row."""

    def start(self, schema, random_state, centres):
        return {"a": np.zeros(4)}

    def expected_statistics(self, row, parameters):
        return np.concatenate([row, row]) * (1e6 if row[0] == 0.25 else 1.0)

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"a": statistics / n_rows}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_one_row_changes_a_moment_by_at_most_its_sensitivity(noise):
    """Vectors beyond their bounds are clipped in the norm of each moment, as record and replay shows."""
    moments = [paper.Moment("first", 2, 0.5, noise), paper.Moment("second", 2, 1.5, noise)]
    model = paper.GeneralEM(Wild(), moments=moments, epsilon=1.0, bounds=(-1, 1), max_iter=2)
    X = rows(60)
    extreme = [[0.25, 1.0], [0.25, -1.0], [1.0, 1.0], [-1.0, -1.0]]
    pairs = []
    for one in extreme:
        for other in extreme:
            a, b = X.copy(), X.copy()
            a[0], b[0] = one, other
            pairs.append((a, b))
    found = dpem.audit.replay(model, X, pairs)
    found.require()
    assert found.worst > 0.99


def test_standard_errors_agree_with_repeated_fits():
    """The parameters of repeated one-step fits vary by the stated standard errors."""
    X, moments = rows(200), [paper.Moment("first", 2, 1.5), paper.Moment("second", 2, 1.5, "laplace")]
    fits = [
        paper.GeneralEM(Wild(), moments=moments, epsilon=2.0, bounds=(-1, 1), max_iter=1).fit(X)
        for _ in range(60)
    ]
    spread = np.std([fit.parameters_["a"] for fit in fits], axis=0)
    said = np.mean([fit.standard_errors_["a"] for fit in fits], axis=0)
    assert ((spread / said > 0.4) & (spread / said < 2.5)).all()
    plain = paper.GeneralEM(Wild(), moments=moments, epsilon=np.inf, bounds=(-1, 1), max_iter=1).fit(X)
    assert (plain.standard_errors_["a"] == 0).all()


def test_the_default_is_one_moment():
    """It contains all statistics, with the bound that the model proves."""

    class Bounded(Wild):
        def expected_statistics(self, row, parameters):
            return np.concatenate([row, row]) / 2

        def norm_bound(self, schema):
            return 1.0

    model = paper.GeneralEM(Bounded(), epsilon=1.0, bounds=(-1, 1), max_iter=2).fit(rows())
    assert [(stage.name, stage.repeats) for stage in model.plan_.stages] == [("moments", 2)]
    assert isinstance(model.plan_.stages[0].event, GaussianEvent)


def test_save_and_load(tmp_path):
    moments = mixture_moments(2, 2, "LLG")
    model = paper.GeneralEM(Mixture(START), moments=moments, epsilon=5.0, bounds=(-1, 1), max_iter=1)
    model.fit(rows()).save(tmp_path / "m")
    again = dpem.load(tmp_path / "m", model=Mixture(START))
    np.testing.assert_array_equal(again.parameters_["means"], model.parameters_["means"])
    assert {type(stage.event) for stage in again.plan_.stages} == {LaplaceEvent, GaussianEvent}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"moments": [paper.Moment("a", 3, 1.0)]}, "add up to the 4 statistics"),
        ({"moments": [paper.Moment("a", 2, 1.0), paper.Moment("a", 2, 1.0)]}, "different names"),
        ({"moments": [paper.Moment("a", 4, 0.0)]}, "bound of moment 'a'"),
        ({"moments": [paper.Moment("a", 4, 1e-310)]}, "bound of moment 'a'"),
        ({"moments": [paper.Moment("a", 1 << 20, 1.0)]}, "size of moment 'a'"),
        ({"moments": paper.Moment("a", 4, 1.0)}, "a list of dpem.paper.Moment"),
        ({"moments": "abc"}, "a list of dpem.paper.Moment"),
        ({"moments": 5}, "a list of dpem.paper.Moment"),
        ({"moments": [None]}, "a list of dpem.paper.Moment"),
        ({"moments": [("a",)]}, "a list of dpem.paper.Moment"),
        ({"moments": [(3, 4, 1.0)]}, "a list of dpem.paper.Moment"),
        ({"moments": [paper.Moment("a", 4, 1.0, "cauchy")]}, "noise of moment 'a'"),
        ({"composition": "rdp"}, "composition"),
        ({"max_iter": 0}, "max_iter"),
        ({"moments": None}, "norm"),
        ({"model": "mixture"}, "ExponentialFamily"),
    ],
)
def test_mistakes_raise_before_the_charge(wrong, said, tmp_path):
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=5.0, cap_delta=1e-5)
    settings = {"model": Wild(), "moments": [paper.Moment("a", 4, 1.0)], "epsilon": 1.0, "bounds": (-1, 1)}
    settings = settings | {"ledger": ledger} | wrong
    with pytest.raises(InvalidArgumentError, match=said):
        paper.GeneralEM(settings.pop("model"), **settings).fit(rows())
    assert ledger.history() == []
