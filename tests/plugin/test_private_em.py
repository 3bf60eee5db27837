"""The estimator of plug-in models: fits, relations, files, the ledger, and the paper's sensitivity."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpem
from dpem import ExponentialFamily, Ledger, PrivateEM, Schema
from dpem.errors import (
    DeltaWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    ModelFileError,
    ModelWarning,
)
from dpem.paper import generic_sensitivity
from dpem.testing import insecure_noise

RELATIONS = ["replace_one", "add_remove"]


class Waiting(ExponentialFamily):
    """A mixture of two exponential distributions."""

    nonnegative = True

    def __init__(self, longest=20.0):
        self.longest = longest

    def start(self, schema, random_state, centres):
        return {"weight": 0.5, "means": [0.5, 5.0]}

    def responsibilities(self, x, parameters):
        w, m = parameters["weight"], parameters["means"]
        joint = np.array([w, 1 - w]) * np.exp(-x / m) / m
        return joint / joint.sum(), np.log(joint.sum())

    def expected_statistics(self, row, parameters):
        g, _ = self.responsibilities(row[0], parameters)
        return np.concatenate([g, g * row[0] / self.longest])

    def m_step(self, statistics, parameters, n_rows, noise):
        counts = np.maximum(statistics[:2], 2 * noise + 1e-9)
        means = np.clip(self.longest * statistics[2:] / counts, 0.05, self.longest)
        return {"weight": counts[0] / counts.sum(), "means": means}

    def norm_bound(self, schema):
        return math.sqrt(2)

    def log_density(self, row, parameters):
        return self.responsibilities(row[0], parameters)[1]

    def sample(self, n, parameters, random_state):
        which = (random_state.uniform(size=n) >= parameters["weight"]).astype(int)
        return random_state.exponential(parameters["means"][which])[:, None]


def waits(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.exponential(np.where(rng.random(n) < 0.3, 0.2, 3.0))[:, None].clip(0, 20)


@pytest.fixture(scope="module")
def plain():
    """Fit without privacy, for fits under both relations."""
    return PrivateEM(Waiting(), epsilon=math.inf, bounds=(0, 20), max_iter=40).fit(waits(5000)[:2000])


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_plug_in_model_is_fitted(adjacency, plain):
    """The fit is close to the plain one, and has a statement, plan, standard errors, density and samples."""
    X = waits(5000)
    model = PrivateEM(Waiting(), epsilon=12.0, bounds=(0, 20), adjacency=adjacency).fit(X)
    np.testing.assert_allclose(model.parameters_["means"], [0.2, 3.0], atol=0.4)
    assert model.privacy_.is_private
    assert model.privacy_.adjacency == adjacency
    assert model.privacy_.bounds == {"x0": "0 to 20"}
    assert {name for name, *_ in model.privacy_.compare()} >= {"gdp", "zcdp"}
    assert not plain.privacy_.is_private
    assert model.n_iter_ == 15
    assert 0 < model.standard_errors_["means"].max() < 1
    assert abs(model.score(X[:2000]) - plain.score(X[:2000])) < 0.05
    assert model.sample(100).shape == (100, 1)
    assert ("rows" in [stage.name for stage in model.plan_.stages]) == (adjacency == "add_remove")


def test_plain_em_agrees_with_an_independent_implementation():
    """Each plain step equals the step written in this test."""
    X = waits(500)
    w, m = 0.5, np.array([0.5, 5.0])
    for _ in range(7):
        joint = np.array([w, 1 - w]) * np.exp(-X / m) / m
        g = joint / joint.sum(axis=1, keepdims=True)
        w, m = g.mean(axis=0)[0], (g * X).sum(axis=0) / g.sum(axis=0)
    model = PrivateEM(Waiting(), epsilon=math.inf, bounds=(0, 20), max_iter=7, tol=0.0).fit(X)
    np.testing.assert_allclose(model.parameters_["means"], m, rtol=1e-7)
    np.testing.assert_allclose(model.parameters_["weight"], w, rtol=1e-7)
    converged = PrivateEM(Waiting(), epsilon=math.inf, bounds=(0, 20)).fit(X)
    assert 7 < converged.n_iter_ < 200


def test_sensitivity_equals_that_of_the_paper():
    """2 C for the sum is N times the paper's (2/N) C for the mean; nonnegative entries save sqrt 2."""

    class Signed(Waiting):
        nonnegative = False

    X = waits(1000)
    plans = [
        PrivateEM(model, epsilon=1.0, delta=1e-4, bounds=(0, 20)).fit(X).plan_
        for model in (Signed(), Waiting())
    ]
    one = 2.0**20 / math.sqrt(2)  # grid units per unit of the statistic, C = sqrt 2
    found = [plan.stage("em 1").sensitivity / one for plan in plans]
    assert found[0] == pytest.approx(1000 * generic_sensitivity(math.sqrt(2), 1000))
    assert found[1] == pytest.approx(found[0] / math.sqrt(2))
    assert generic_sensitivity(1.0, 3) >= 2 / 3
    with pytest.raises(InvalidArgumentError, match="n_rows"):
        generic_sensitivity(1.0, 0)


def test_the_ledger_is_charged_once_before_the_fit(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", name="waits", cap_epsilon=1.0, cap_delta=1e-5)
    X = waits(2000)
    PrivateEM(Waiting(), epsilon=0.9, delta=1e-5, bounds=(0, 20), ledger=ledger).fit(X)
    assert [spend.purpose for spend in ledger.history()] == ["dpem.PrivateEM.fit"]
    with pytest.raises(InsufficientBudgetError):
        PrivateEM(Waiting(), epsilon=0.9, delta=1e-5, bounds=(0, 20), ledger=tmp_path / "l.db").fit(X)
    with pytest.raises(InvalidArgumentError, match="ledger"):
        PrivateEM(Waiting(), epsilon=math.inf, bounds=(0, 20), ledger=ledger).fit(X)


def test_files_contain_no_code(tmp_path):
    X = waits(2000)
    model = PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20), random_state=0).fit(X)
    model.save(tmp_path / "m.dpem")
    with pytest.raises(InvalidArgumentError, match=r"dpem.load\(path, model=...\)"):
        dpem.load(tmp_path / "m.dpem")
    again = dpem.load(tmp_path / "m.dpem", model=Waiting())
    np.testing.assert_array_equal(again.parameters_["means"], model.parameters_["means"])
    np.testing.assert_array_equal(again.score_samples(X[:5]), model.score_samples(X[:5]))
    assert again.privacy_ == model.privacy_
    assert again.schema_ == model.schema_
    dpem.KMeans(2, epsilon=1.0, bounds=(0, 20)).fit(X).save(tmp_path / "k.dpem")
    with pytest.raises(InvalidArgumentError, match="no model for this file"):
        dpem.load(tmp_path / "k.dpem", model=Waiting())
    content = (tmp_path / "m.dpem").read_bytes()
    (tmp_path / "broken.dpem").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError):
        dpem.load(tmp_path / "broken.dpem", model=Waiting())


def test_a_schema_and_named_columns():
    table = pd.DataFrame({"other": "x", "wait": waits(3000)[:, 0].round(3).astype(str)})
    table.loc[5, "wait"] = "long"
    schema = Schema({"wait": {"kind": "continuous", "bounds": [0, 20], "unit": "hours"}})
    model = PrivateEM(Waiting(), epsilon=2.0, schema=schema).fit(table)
    assert model.privacy_.bounds == {"wait": "0 to 20 hours"}
    assert np.isfinite(model.score_samples(table)).all()
    with pytest.raises(InvalidArgumentError, match="without 'wait'"):
        model.score_samples(table[["other"]])


def test_the_same_seed_gives_the_same_fit():
    X = waits(1500)
    fits = []
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with insecure_noise(3):
                fits.append(clone(PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20), random_state=0)).fit(X))
    np.testing.assert_array_equal(fits[0].parameters_["means"], fits[1].parameters_["means"])


def test_a_failing_m_step_does_not_end_a_charged_fit():
    """After the charge, the failing step is skipped with a warning."""

    class Sulking(Waiting):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def m_step(self, statistics, parameters, n_rows, noise):
            self.calls += 1
            if self.calls == 9:
                raise IndexError("7")
            return super().m_step(statistics, parameters, n_rows, noise)

    with pytest.warns(ModelWarning, match="The step was skipped"):
        model = PrivateEM(Sulking(), epsilon=1.0, bounds=(0, 20)).fit(waits(500))
    assert np.isfinite(model.parameters_["means"]).all()


def test_tables_with_and_without_column_names():
    """Without a schema, columns are identified by position, as in the other estimators."""
    X = waits(400)
    model = PrivateEM(Waiting(), epsilon=2.0, delta=1e-4, bounds=(0, 20)).fit(pd.DataFrame(X))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert np.isfinite(model.score(pd.DataFrame(X, columns=["wait"])))
    assert np.isfinite(
        PrivateEM(Waiting(), epsilon=2.0, delta=1e-4, bounds=(0, 20)).fit(X).score(pd.DataFrame(X))
    )
    with pytest.raises(InvalidArgumentError, match="NaN or infinity"):
        model.score([[np.nan]])


@pytest.mark.all_draws
def test_an_m_step_may_keep_its_arguments():
    """Copies of the model for rows still work if it keeps earlier parameters."""

    class Keeping(Waiting):
        def m_step(self, statistics, parameters, n_rows, noise):
            self.before = parameters
            return {"means": super().m_step(statistics, parameters, n_rows, noise)["means"], "weight": 0.5}

    model = PrivateEM(Keeping(), epsilon=16.0, delta=1e-4, bounds=(0, 20)).fit(waits(1500))
    assert model.parameters_["means"][1] > 1.5
    assert list(model.standard_errors_) == list(model.parameters_) == ["weight", "means"]


def test_files_are_for_their_own_model(tmp_path):
    class Other(Waiting):
        pass

    model = PrivateEM(Waiting(), epsilon=1.0, delta=1e-4, bounds=(0, 20)).fit(waits(300))
    model.save(tmp_path / "m.dpem")
    with pytest.raises(InvalidArgumentError, match="a model Waiting, as in the file"):
        dpem.load(tmp_path / "m.dpem", model=Other())
    with pytest.raises(InvalidArgumentError, match="tol"):
        PrivateEM(Waiting(), epsilon=1.0, delta=1e-4, bounds=(0, 20), tol=math.inf).fit(waits(300))


def test_arguments():
    X = waits(200)
    with pytest.raises(InvalidArgumentError, match="exactly one of bounds and schema"):
        PrivateEM(Waiting(), epsilon=1.0).fit(X)
    with pytest.raises(InvalidArgumentError, match=r"a dpem\.ExponentialFamily"):
        PrivateEM("model", epsilon=1.0, bounds=(0, 20)).fit(X)
    with pytest.raises(InvalidArgumentError, match=r"a dpem\.Schema"):
        PrivateEM(Waiting(), epsilon=1.0, schema={}).fit(X)
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20)).fit(X[:0])
    with pytest.warns(DeltaWarning):
        PrivateEM(Waiting(), epsilon=1.0, delta=0.01, bounds=(0, 20)).fit(X)
    with pytest.raises(NotFittedError):
        PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20)).sample(3)
    few = PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20), adjacency="add_remove").fit(X[:0])
    assert np.isfinite(few.parameters_["means"]).all()


class Telling(Waiting):
    """A model that predicts the component of a row."""

    def predict_proba(self, row, parameters):
        return self.expected_statistics(row, parameters)[:2]


def test_a_model_with_predict_proba_predicts(tmp_path):
    """Components of rows are predicted from released parameters; without the method there is no `predict`."""
    X, few = waits(1500), np.array([[0.01], [19.0]])
    model = PrivateEM(Telling(), epsilon=16.0, bounds=(0, 20), random_state=0).fit(X)
    chances = model.predict_proba(few)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert list(model.predict(few)) == [0, 1]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(dpem.load(tmp_path / "m", model=Telling()).predict_proba(few), chances)
    assert not hasattr(PrivateEM(Waiting(), epsilon=1.0, bounds=(0, 20)), "predict")
    with pytest.raises(NotFittedError):
        PrivateEM(Telling(), epsilon=1.0, bounds=(0, 20)).predict(few)


@pytest.mark.parametrize("said", [lambda row: 0.5, lambda row: np.zeros(2 if row[0] > 1 else 3)])
def test_a_wrong_prediction_raises(said):
    class Wrong(Waiting):
        def predict_proba(self, row, parameters):
            return said(row)

    model = PrivateEM(Waiting(), epsilon=4.0, bounds=(0, 20)).fit(waits(300))
    model.model = model._model = Wrong()
    with pytest.raises(InvalidArgumentError, match=r"Wrong\.predict_proba"):
        model.predict([[0.5], [2.0]])


def test_a_model_can_be_built_from_functions():
    waiting = Waiting()
    model = ExponentialFamily.from_functions(
        start=waiting.start,
        expected_statistics=waiting.expected_statistics,
        m_step=waiting.m_step,
        predict_proba=lambda row, parameters: [1.0, 0.0] if row[0] < 1 else [0.0, 1.0],
        norm_bound=math.sqrt(2),
        nonnegative=True,
    )
    fitted = PrivateEM(model, epsilon=16.0, bounds=(0, 20)).fit(waits(1500))
    assert fitted.parameters_["means"][0] < 1 < fitted.parameters_["means"][1]
    assert list(fitted.predict([[2.0], [0.5]])) == [1, 0]
    with pytest.raises(InvalidArgumentError, match="log_density"):
        fitted.score(waits(10))
    with pytest.raises(InvalidArgumentError, match="method sample"):
        fitted.sample(3)
