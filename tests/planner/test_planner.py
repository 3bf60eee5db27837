"""The planner predicts the number of components, the noise and the warnings of a fit."""

import math
import warnings

import numpy as np
import pytest

import dpem
from dpem.errors import InsecureNoiseWarning, InvalidArgumentError
from dpem.testing import insecure_noise

LOW, HIGH = 0.0, 100.0


def fitted(estimator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureNoiseWarning)
        with insecure_noise(5):
            return estimator.fit(rows)


def blobs(k, d, n, deviation=10.0):
    rng = np.random.default_rng(1)
    centres = np.array([[20, 20], [50, 80], [80, 20]]) if d == 2 else rng.uniform(15, 85, (k, d))
    return np.concatenate([rng.normal(centre, deviation, (n // k, d)) for centre in centres[:k]])


def sizes(outlook, parameter):
    return np.array([entry.size for entry in outlook.noise if entry.parameter == parameter])


def near(expected, found, factor=1.3):
    return 1 / factor < np.mean(expected) / np.sqrt(np.mean(np.square(found))) < factor


@pytest.mark.all_draws
@pytest.mark.parametrize(
    ("d", "k", "n", "arguments"),
    [
        (2, 3, 20_000, {}),
        (5, 4, 50_000, {"covariance_type": "diag"}),
        (5, 3, 50_000, {"covariance_type": "tied"}),
        (5, 3, 50_000, {"covariance_type": "spherical"}),
        (5, 3, 50_000, {"rows_per_person": 3}),
        (5, 3, 50_000, {"adjacency": "add_remove"}),
        (3, 1, 5_000, {}),
    ],
)
def test_a_mixture_has_the_planned_noise(d, k, n, arguments):
    """The expected noise of means and shares agrees with the standard errors of the fit."""
    deviation = 5.0 if d == 2 else 10.0
    model = dpem.GaussianMixture(k, epsilon=1.0, bounds=([LOW] * d, [HIGH] * d), random_state=0, **arguments)
    outlook = dpem.plan(model, n, spread=deviation / (HIGH - LOW))
    fit = fitted(model, blobs(k, d, n, deviation))
    assert outlook.granted == {"components": fit.n_components_, "steps": fit.n_iter_}
    errors = fit.standard_errors_
    assert near(sizes(outlook, "mean"), errors["means"])
    # The comparison is sharp: it rejects figures that are off by 1.6, and so a wrong factor of 2.
    assert not near(1.6 * sizes(outlook, "mean"), errors["means"])
    assert not near(sizes(outlook, "mean") / 1.6, errors["means"])
    if k > 1:
        assert near(sizes(outlook, "share of rows"), errors["weights"], 1.5)


@pytest.mark.all_draws
def test_centres_and_factors_have_the_planned_noise():
    d, n = 5, 50_000
    rows = blobs(4, d, n)
    model = dpem.KMeans(4, epsilon=1.0, bounds=([LOW] * d, [HIGH] * d), random_state=0)
    errors = fitted(model, rows).standard_errors_["cluster_centers"]
    assert near(sizes(dpem.plan(model, n), "centre"), errors, 1.6)
    rng = np.random.default_rng(2)
    rows = 50 + rng.normal(size=(n, 2)) @ rng.normal(0, 5, (2, d)) + rng.normal(0, 6, (n, d))
    model = dpem.FactorAnalysis(2, epsilon=1.0, bounds=([LOW] * d, [HIGH] * d), random_state=0)
    outlook = dpem.plan(model, n, spread={f"x{j}": float(rows[:, j].std()) for j in range(d)})
    assert near(sizes(outlook, "mean"), fitted(model, rows).standard_errors_["mean"])


def test_a_table_has_the_noise_of_its_counts():
    """The noise of a share is the planned noise of the counts over the number of rows."""
    schema = dpem.Schema({name: {"kind": "boolean"} for name in "abc"})
    model = dpem.MixedMixture(schema=schema, epsilon=0.5)
    outlook = dpem.plan(model, 10_000)
    assert {entry.parameter for entry in outlook.noise} == {
        "share of rows with a value",
        "share of rows with a pair of values",
    }
    pairs = next(entry for entry in outlook.noise if "pair" in entry.parameter)
    assert pairs.size == pytest.approx(outlook.plan.stage("pairs").noise_stddev / 10_000)


def test_small_tables_give_warnings():
    schema = dpem.Schema({"age": {"kind": "integer", "bounds": [0, 120], "unit": "years"}})
    outlook = dpem.plan(dpem.GaussianMixture(8, epsilon=0.05, schema=schema, delta=0.01), 300)
    assert outlook.granted["components"] < 8
    assert any("n_components" in warning for warning in outlook.warnings)
    assert any("delta" in warning for warning in outlook.warnings)
    assert "years" in str(outlook)
    assert any(
        "hides the clusters" in w
        for w in dpem.plan(dpem.KMeans(8, epsilon=0.05, schema=schema), 300).warnings
    )


def test_an_outlook_has_the_plan_of_the_fit():
    """The plan of an outlook equals the plan that the fit then charges."""
    rows = blobs(3, 2, 3000)
    bounds = ([LOW] * 2, [HIGH] * 2)
    for model in (
        dpem.GaussianMixture(3, epsilon=1.0, bounds=bounds),
        dpem.KMeans(3, epsilon=1.0, bounds=bounds),
        dpem.FactorAnalysis(1, epsilon=1.0, bounds=bounds),
    ):
        assert dpem.plan(model, 3000).plan == fitted(model, rows).plan_


def test_epsilon_needed_is_the_smallest_sufficient_epsilon():
    """The required accuracy is reached at the returned epsilon, and not slightly below it."""
    schema = dpem.Schema({name: {"kind": "continuous", "bounds": [0, 10]} for name in "ab"})
    for model in (
        dpem.GaussianMixture(3, epsilon=1.0, schema=schema),
        dpem.KMeans(3, epsilon=1.0, schema=schema),
        dpem.FactorAnalysis(1, epsilon=1.0, schema=schema),
    ):
        needed = dpem.epsilon_needed(model, 20_000, {"a": 0.01})
        assert model.epsilon == 1.0
        noise = {
            part: next(
                e.size
                for e in dpem.plan(model.set_params(epsilon=part * needed), 20_000).noise
                if e.column == "a"
            )
            for part in (0.98, 1.0)
        }
        assert noise[1.0] <= 0.01 < noise[0.98]
        model.set_params(epsilon=1.0)
    mixture = dpem.GaussianMixture(3, epsilon=1.0, schema=schema)
    assert dpem.epsilon_needed(mixture, 20_000, {"share of rows": 0.01}) < 1
    assert dpem.epsilon_needed(mixture, 10, {"a": 1e-9}) == math.inf
    factors = dpem.FactorAnalysis(2, epsilon=1.0, schema=schema)  # one factor for each column
    assert dpem.epsilon_needed(factors, 10**6, {"a": 0.1}) < 1
    wide = dpem.Schema(
        {name: {"kind": "continuous", "bounds": [0, size]} for name, size in (("a", 1), ("b", 1000))}
    )
    model = dpem.GaussianMixture(1, epsilon=1.0, schema=wide)
    assert dpem.epsilon_needed(model, 10**5, {"mean": 0.1}) == dpem.epsilon_needed(model, 10**5, {"b": 0.1})


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda m: dpem.plan(m, 0), "n_rows"),
        (lambda m: dpem.plan(m, 1.5), "n_rows"),
        (lambda m: dpem.plan("mixture", 10), "estimator"),
        (lambda m: dpem.plan(m.set_params(epsilon=math.inf), 10), "epsilon"),
        (lambda m: dpem.plan(m.set_params(n_components=0), 10), "n_components"),
        (lambda m: dpem.plan(m.set_params(bounds=(0, 1)), 10), "columns"),
        (lambda m: dpem.plan(m, 10, spread=-1), "spread"),
        (lambda m: dpem.plan(m, 10, spread={"weight": 1.0}), "weight"),
        (lambda m: dpem.epsilon_needed(m, 10, {}), "accuracy"),
        (lambda m: dpem.epsilon_needed(m, 10, {"weight": 1.0}), "weight"),
        (lambda m: dpem.epsilon_needed(m, 10, {"x0": 0.0}), "x0"),
    ],
)
def test_invalid_arguments_are_named(call, named):
    with pytest.raises(InvalidArgumentError, match=named):
        call(dpem.GaussianMixture(2, epsilon=1.0, bounds=([0, 0], [1, 1])))
