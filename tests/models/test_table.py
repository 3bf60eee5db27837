"""Synthetic tables: fidelity, guarantee, types, hostile tables, prediction, imputation, files."""

import copy
import dataclasses
import functools
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import dpem
from dpem import MixedMixture, Schema, _compiled
from dpem.errors import InvalidArgumentError, ModelFileError, WeakSignalWarning
from dpem.gate.progress import Progress
from dpem.models.table import descent_kernel, pairs
from dpem.models.table.pairs import PairEvidence, _Search, fit_pairs
from dpem.testing import insecure_noise, record, replay

RELATIONS = ["replace_one", "add_remove"]
METHODS = ["oneshot", "em"]
SCHEMA = Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 100], "unit": "years"},
        "pay": {"kind": "continuous", "bounds": [0, 1000], "missing": True},
        "region": {"kind": "categorical", "categories": ["north", "south", "west"], "outside": "north"},
        "grade": {"kind": "ordered", "categories": [1, 2, 3, 4], "missing": True},
        "sick": {"kind": "boolean"},
    }
)


def patients(n, seed=0):
    """Return a table with strong relations, a spike at zero, and missing cells in rows of old people."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 20, n), 0, 100).round().astype(int)
    sick = rng.random(n) < 1 / (1 + np.exp(-(age - 60) / 8))
    pay = np.where(age > 70, 0.0, np.clip(rng.gamma(2.0, 100.0, n), 0, 1000))
    grade = np.clip((age / 25 + rng.normal(0, 0.5, n)).astype(int) + 1, 1, 4)
    region = np.where(sick, "south", rng.choice(["north", "west"], n))
    frame = pd.DataFrame({"age": age, "pay": pay, "region": region, "grade": grade, "sick": sick})
    frame["pay"] = frame["pay"].mask(rng.random(n) < age / 400)
    frame["grade"] = frame["grade"].astype("Int64").mask(rng.random(n) < 0.05)
    return frame


def fitted(n=8000, seed=0, **arguments):
    """Fit with seeded noise, once for all tests with the same arguments; do not modify the result."""
    return _fitted(n, seed, pairs._shorter.get(), **arguments)


@functools.cache
def _fitted(n, seed, shorter, **arguments):
    arguments = {"schema": SCHEMA, "epsilon": 3.0, "random_state": 0, "n_components": 8} | arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(seed):
            return MixedMixture(**arguments).fit(patients(n))


# -- fidelity ------------------------------------------------------------------------------------------------


@pytest.mark.good_tables
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(("method", "target"), [("oneshot", None), ("oneshot", "sick"), ("em", None)])
def test_synthetic_rows_are_like_real_ones(method, target, adjacency):
    """Columns and pairs are close to held-out rows, far closer than independent columns are."""
    real = patients(20_000, seed=1)
    model = MixedMixture(
        schema=SCHEMA, epsilon=2.0, method=method, target=target, adjacency=adjacency, random_state=0
    ).fit(real)
    rows = model.sample(20_000)
    held_out = patients(20_000, seed=2)
    comparison = dpem.compare_tables(held_out, rows, SCHEMA, target="sick" if target else None)
    shuffled = pd.DataFrame(
        {name: rows[name].sample(frac=1, random_state=i).to_numpy() for i, name in enumerate(rows)}
    )
    independent = dpem.compare_tables(held_out, shuffled, SCHEMA)
    assert comparison.one_way < 0.03
    assert comparison.two_way < 0.55 * independent.two_way
    if target:
        assert comparison.target_auc > comparison.target_auc_real - 0.03


@pytest.mark.good_tables
def test_the_target_is_kept_if_noise_hides_the_pairs():
    """900 rows are too few for all pairs, but enough for the relation of each column to the target.

    The difference of the ages is 26 years among the rows. A fit keeps 17 of them on average, with a standard
    deviation of 5.4; without the relation there is none.
    """
    real = patients(900, seed=1)
    differences = []
    for _ in range(9):
        model = MixedMixture(schema=SCHEMA, epsilon=1.0, target="sick", random_state=0)
        with pytest.warns(WeakSignalWarning, match="the relation of each column to the target"):
            model.fit(real)
        rows = model.sample(2000)
        differences.append(rows["age"][rows["sick"]].mean() - rows["age"][~rows["sick"]].mean())
    assert np.mean(differences) > 4


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_with_few_rows_columns_are_independent_and_get_the_whole_budget(adjacency):
    with pytest.warns(WeakSignalWarning, match="keeps no relations"):
        model = MixedMixture(schema=SCHEMA, epsilon=0.1, adjacency=adjacency).fit(patients(300))
    assert model.n_components_ == 1
    assert {stage.name for stage in model.plan_.stages} == {"data quality", "columns", "columns again"}
    assert model.privacy_.epsilon == 0.1


@pytest.mark.good_tables
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_the_model_is_never_worse_than_independent_columns(adjacency):
    """The noisy tables reveal that columns are independent, and the model is no worse than private ones.

    Differences of rows are clipped: noise may leave a level of one row in a thousand nearly without
    probability, in either model, and a mean of logarithms would be of that level alone.
    """
    rng = np.random.default_rng(3)
    schema = Schema({name: {"kind": "integer", "bounds": [0, 9]} for name in "abcdef"})

    def table(n):
        return pd.DataFrame({name: rng.binomial(9, 0.3, n) for name in "abcdef"})

    train, test = table(5000), table(20_000)
    kind = {"schema": schema, "epsilon": 1.0, "random_state": 0, "adjacency": adjacency}
    mixture = MixedMixture(**kind).fit(train)
    alone = MixedMixture(n_components=1, **kind).fit(train)
    better = mixture.score_samples(test) - alone.score_samples(test)
    assert np.clip(better, -2, 2).mean() > -0.05


@pytest.mark.good_tables
def test_likelihood_rises_with_the_budget():
    test = patients(4000, seed=5)
    scores = [
        fitted(n=20_000, epsilon=epsilon, n_components="auto").score(test)
        for epsilon in (0.1, 0.5, 2.0, 10.0)
    ]
    assert (np.diff(scores) > -0.06).all()  # each budget has one draw of noise and of post-processing
    assert scores[-1] > scores[0] + 0.3


# -- the guarantee -------------------------------------------------------------------------------------------


def test_plans_spend_the_whole_budget():
    for target, epsilon in itertools.product((None, "sick"), (0.05, 1.0, 20.0)):
        model = fitted(n=1000, epsilon=epsilon, target=target)
        assert model.privacy_.epsilon == epsilon
        assert dict(model.privacy_.compare())["gdp"] == pytest.approx(epsilon, rel=1e-6)


def test_the_ledger_is_charged_first_and_refuses(tmp_path):
    path = tmp_path / "spent.ledger"
    ledger = dpem.Ledger.create(path, name="patients", cap_epsilon=1.2, cap_delta=1e-5)
    MixedMixture(schema=SCHEMA, epsilon=1.0, ledger=ledger).fit(patients(5000))
    with pytest.raises(dpem.errors.BudgetError):
        MixedMixture(schema=SCHEMA, epsilon=1.0, ledger=path).fit(patients(5000))
    (spend,) = ledger.history()
    assert spend.purpose == "dpem.MixedMixture.fit"


def test_a_private_number_of_rows_appears_nowhere(tmp_path):
    """Tables of different sizes with the same noisy outputs give the same model, file and statement."""
    real = patients(3000, seed=4).astype(object)
    model = MixedMixture(schema=SCHEMA, epsilon=5.0, adjacency="add_remove", random_state=0)
    with record() as first:
        model.fit(real)
    with replay(first):
        other = clone(model).fit(real[:2900])
    for name, one in (("a", model), ("b", other)):
        one.save(tmp_path / name)
    assert str(model.privacy_) == str(other.privacy_)
    assert str(model.plan_) == str(other.plan_)
    with np.load(tmp_path / "a") as a, np.load(tmp_path / "b") as b:
        assert set(a.files) == set(b.files)
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name])


def test_tables_without_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakSignalWarning)
        model = MixedMixture(schema=SCHEMA, epsilon=1.0, adjacency="add_remove").fit(patients(0))
    assert len(model.sample(10)) == 10
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        MixedMixture(schema=SCHEMA, epsilon=1.0).fit(patients(0))


# -- rows and their types ------------------------------------------------------------------------------------


@pytest.mark.good_tables
def test_rows_conform_to_the_schema():
    model = fitted()
    rows = model.sample(3000)
    assert list(rows.columns) == list(SCHEMA.names)
    types = rows.dtypes.astype(str).to_dict()
    assert types == {
        "age": "int64",
        "pay": "float64",
        "region": "category",
        "grade": "category",
        "sick": "bool",
    }
    assert rows["grade"].cat.ordered
    assert rows["age"].between(0, 100).all()
    assert rows["pay"].dropna().between(0, 1000).all()
    assert (rows["pay"] == 0).mean() == pytest.approx((patients(8000)["pay"] == 0).mean(), abs=0.05)
    old = rows["age"] > 70
    assert (
        rows["pay"].isna()[old].mean() > rows["pay"].isna()[~old].mean()
    )  # cells are missing as in the real table
    assert not rows["age"].isna().any()
    again = MixedMixture(schema=SCHEMA, epsilon=3.0).fit(rows)  # synthetic rows can be fitted too
    assert len(again.sample(5)) == 5


def test_the_same_seed_gives_the_same_rows():
    model = fitted()
    assert model.sample(100).equals(model.sample(100))
    assert not copy.deepcopy(model).set_params(random_state=1).sample(100).equals(model.sample(100))


@pytest.mark.good_tables
def test_rows_have_the_given_values_and_the_rest_depends_on_them():
    model = fitted(n=20_000)
    old = model.sample(2000, given={"age": 90})
    young = model.sample(2000, given={"age": 20, "region": "north"})
    assert (old["age"] == 90).all()
    assert (young["region"] == "north").all()
    assert old["sick"].mean() > 0.8
    assert young["sick"].mean() < 0.2
    assert model.sample(10, given={"pay": None})["pay"].isna().all()
    assert (model.sample(10, given={"pay": 12.5})["pay"] == 12.5).all()
    for given, name in (({"age": 200}, "age"), ({"age": None}, "age"), ({"region": "east"}, "region")):
        with pytest.raises(InvalidArgumentError, match=name):
            model.sample(10, given=given)
    with pytest.raises(InvalidArgumentError, match="'years'"):
        model.sample(10, given={"years": 3})


def test_marginals_agree_with_samples():
    model = fitted(target="sick")
    rows = model.sample(20_000)
    one = model.marginals("grade")
    assert list(one.index) == [1, 2, 3, 4, None]
    assert one.sum() == pytest.approx(1.0)
    assert one[2] == pytest.approx((rows["grade"] == 2).mean(), abs=0.01)
    two = model.marginals("sick", "region").unstack()
    assert two.to_numpy().sum() == pytest.approx(1.0)
    assert two.loc[True, "south"] == pytest.approx(
        (rows["sick"] & (rows["region"] == "south")).mean(), abs=0.01
    )
    ages = model.marginals("age")
    assert ages.sum() == pytest.approx(1.0)
    assert ages.index[0].left == 0
    assert ages.index[-1].right == 100
    three = model.marginals("age", "region", "sick")
    assert three.sum() == pytest.approx(1.0)
    with pytest.raises(InvalidArgumentError, match="one to three"):
        model.marginals()


@pytest.mark.good_tables
def test_diagnostics_show_which_pairs_are_dependent():
    frame = fitted(n=20_000).diagnostics()
    assert len(frame) == 10
    dependence = frame.set_index(["first", "second"])["dependence"]
    assert dependence["region", "sick"] > 20  # exactly the sick live in the south
    assert dependence["region", "sick"] > 3 * abs(dependence["pay", "region"])
    assert frame["dependence"].is_monotonic_decreasing
    assert frame["misfit"].abs().max() < frame["dependence"].max() / 2
    assert fitted(method="em").diagnostics().empty


# -- applying the model--------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_log_densities(method):
    """Their exponentials sum to 1 over all rows of a small table."""
    schema = Schema(
        {
            "a": {"kind": "categorical", "categories": ["x", "y"], "missing": True},
            "b": {"kind": "integer", "bounds": [0, 3]},
        }
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(["x", "y", None], 3000), "b": rng.integers(0, 4, 3000)})
    model = MixedMixture(schema=schema, epsilon=2.0, method=method).fit(table)
    every = pd.DataFrame(list(itertools.product(["x", "y", None], range(4))), columns=["a", "b"])
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1.0)


def test_continuous_scores_are_per_unit():
    schema = Schema({"x": {"kind": "continuous", "bounds": [0, 50]}})
    rows = np.random.default_rng(0).uniform(0, 50, size=(20_000, 1))
    model = MixedMixture(schema=schema, epsilon=5.0).fit(rows)
    middle = np.linspace(1, 49, 200)[:, None]
    assert np.exp(model.score_samples(middle)).mean() == pytest.approx(1 / 50, rel=0.05)


@pytest.mark.good_tables
@pytest.mark.parametrize("method", METHODS)
def test_missing_cells_are_filled_from_the_known_ones(method):
    model = fitted(n=20_000, method=method, n_components="auto")
    rows = pd.DataFrame(
        {
            "age": [95, 15, 50],
            "pay": [None, None, 300.0],
            "region": ["south", "north", None],
            "grade": [None, None, 3],
            "sick": [True, False, True],
        }
    )
    filled = model.impute(rows)
    assert not filled.isna().any().any()
    assert filled["pay"][0] < 60  # old people have no pay
    assert filled["pay"][1] > 100
    assert filled["region"][2] == "south"  # the sick live in the south
    assert filled["grade"][0] > filled["grade"][1]
    assert list(filled["age"]) == [95, 15, 50]
    assert filled["pay"][2] == 300.0


@pytest.mark.good_tables
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_the_target_is_predicted(kind):
    model = fitted(n=20_000, target="sick")
    test = patients(3000, seed=9)
    table = kind(test.drop(columns="sick"))
    probabilities = model.predict_proba(table)
    assert probabilities.shape == (3000, 2)
    assert list(model.classes_) == [False, True]
    assert roc_auc_score(test["sick"], probabilities[:, 1]) > 0.95
    assert (model.predict(table) == test["sick"]).mean() > 0.85
    np.testing.assert_allclose(model.predict_proba(test), probabilities)


def test_invalid_predictions_raise():
    with pytest.raises(InvalidArgumentError, match="target=None"):
        fitted().predict_proba(patients(5))
    with pytest.raises(InvalidArgumentError, match="impute"):
        fitted(n=3000, target="pay", n_components=3).predict_proba(patients(5))


# -- hostile tables ------------------------------------------------------------------------------------------


def test_every_kind_of_target():
    for target in SCHEMA.names:
        model = fitted(n=3000, target=target, n_components=3)
        assert len(model.sample(20)) == 20
        assert np.isfinite(model.score(patients(200, seed=3)))
        assert list(model.sample(3).columns) == list(SCHEMA.names)


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("method", METHODS)
def test_odd_tables_never_raise(method, adjacency):
    full = patients(400).astype(object)
    nothing = full.copy()
    nothing[:] = None
    words = full.copy()
    words[:] = "words"
    same = pd.concat([full[:1]] * 400, ignore_index=True)
    for table in (full[:1], full[:3], nothing, words, same):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MixedMixture(schema=SCHEMA, epsilon=1.0, method=method, adjacency=adjacency).fit(table)
        assert len(model.sample(30)) == 30
        assert np.isfinite(model.score_samples(full)).all()


@pytest.mark.good_tables
def test_one_column_two_columns_and_a_target():
    schema = Schema({"a": {"kind": "boolean"}, "b": {"kind": "integer", "bounds": [0, 1000]}})
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(5000) < 0.3})
    table["b"] = np.where(table["a"], 900, 10)
    alone = MixedMixture(schema=schema.select(["a"]), epsilon=1.0).fit(table)
    assert alone.sample(1000)["a"].mean() == pytest.approx(0.3, abs=0.05)
    for target in (None, "a", "b"):
        rows = MixedMixture(schema=schema, epsilon=2.0, target=target, random_state=0).fit(table).sample(3000)
        assert rows["b"][rows["a"]].median() == pytest.approx(900, abs=10)
        assert rows["b"][~rows["a"]].median() == pytest.approx(10, abs=10)


@pytest.mark.parametrize("target", [None, "c000"])
def test_many_columns_stay_in_memory(target):
    """210 columns are fitted in blocks, their tables within a fixed number of entries."""
    rng = np.random.default_rng(0)
    n, m = 1000, 210
    base = rng.random((n, 1))
    rows = (rng.random((n, m)) < 0.2 + 0.6 * base).astype(int)
    names = [f"c{j:03d}" for j in range(m)]
    schema = Schema({name: {"kind": "integer", "bounds": [0, 1]} for name in names})
    model = MixedMixture(schema=schema, epsilon=300.0, target=target, random_state=0, n_components=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pd.DataFrame(rows, columns=names))
    drawn = model.sample(500)
    assert drawn.shape == (500, m)
    assert np.abs(drawn.mean().to_numpy() - rows.mean(axis=0)).mean() < 0.05


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas])
def test_other_kinds_of_table_give_the_same_model(kind):
    frame = patients(3000)
    backwards = kind(frame[frame.columns[::-1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(0):
            other = MixedMixture(8, schema=SCHEMA, epsilon=3.0, random_state=0).fit(backwards)
    assert other.sample(100).equals(fitted(n=3000).sample(100))


def test_the_model_is_independent_of_threads():
    one, two = fitted(n=2000, n_jobs=1), fitted(n=2000, n_jobs=2)
    assert one.sample(200).equals(two.sample(200))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"method": "magic"}, "method"),
        ({"target": "nothing"}, "target"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": "many"}, "n_components"),
        ({"schema": {"a": 1}}, "schema"),
        ({"schema": Schema({"age": {"kind": "integer"}})}, "age"),
        ({"max_iter": 0, "method": "em"}, "max_iter"),
    ],
)
def test_invalid_arguments_are_named_and_spend_nothing(arguments, named, tmp_path):
    ledger = dpem.Ledger.create(tmp_path / "a.ledger", name="a", cap_epsilon=9.0, cap_delta=1e-4)
    with pytest.raises((InvalidArgumentError, ValueError, TypeError), match=named):
        MixedMixture(**{"schema": SCHEMA, "epsilon": 1.0, "ledger": ledger} | arguments).fit(patients(100))
    assert not ledger.history()


@pytest.mark.good_tables
def test_many_categories_stay_separate():
    """A thousand categories are a thousand levels, not parts of a range."""
    names = [f"c{i}" for i in range(1000)]
    schema = Schema(
        {"c": {"kind": "categorical", "categories": names, "outside": "c0"}, "b": {"kind": "boolean"}}
    )
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"b": rng.random(8000) < 0.5})
    table["c"] = np.where(table["b"], "c700", "c3")
    model = MixedMixture(schema=schema, epsilon=2.0, target="c", random_state=0).fit(table)
    assert model.predict_proba(table[:4]).shape == (4, 1000)
    assert list(model.predict(table[:50])) == list(table["c"][:50])
    assert model.marginals("c")["c700"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.good_tables
def test_conditionals_are_correct_with_many_columns():
    """With 300 columns that repeat the target, probabilities near 0 and 1 stay correct."""
    rng = np.random.default_rng(0)
    y = rng.random(6000) < 0.5
    table = pd.DataFrame({f"x{j}": np.where(rng.random(6000) < 0.01, ~y, y) for j in range(300)})
    table["y"] = y
    schema = Schema({name: {"kind": "boolean"} for name in table})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakSignalWarning)
        model = MixedMixture(schema=schema, epsilon=1.5, random_state=0, target="y").fit(table)
    others = {f"x{j}": False for j in range(1, 300)}
    alone = model.sample(1000, given={"y": True})["x0"].mean()
    crowd = model.sample(1000, given={"y": True, **others})["x0"].mean()
    assert alone > 0.9
    assert crowd == pytest.approx(alone, abs=0.05)
    assert np.isfinite(model.score_samples(~table[:5])).all()


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("continuous", 0.0, 1e-14),
        ("continuous", 1e6, 1e6 + 1e-8),
        ("continuous", 0.0, 1e20),
        ("integer", 0, 10**16),
        ("integer", 10**17, 10**17 + 1000),
    ],
)
def test_extreme_bounds_give_a_valid_model(kind, low, high, tmp_path):
    rng = np.random.default_rng(0)
    schema = Schema({"x": {"kind": kind, "bounds": [low, high]}})
    rows = pd.DataFrame({"x": low + (0.3 + 0.4 * rng.random(3000)) * (high - low)})
    model = MixedMixture(schema=schema, epsilon=2.0, random_state=0).fit(rows)
    drawn = model.sample(1000)["x"].astype(float)
    assert (drawn.between(low, high)).all()
    middle = ((drawn - low) / (high - low)).between(0.25, 0.75)
    assert middle.mean() > 0.8
    model.save(tmp_path / "model")
    assert np.isfinite(dpem.load(tmp_path / "model").score(rows))


@pytest.mark.good_tables
def test_the_fit_is_independent_of_units():
    """At a weak signal, values at a bound are no more frequent in one unit than in another."""
    rng = np.random.default_rng(0)
    part = rng.uniform(0.2, 0.8, 300)
    for unit in (1e-6, 1.0, 1e6):
        schema = Schema({"x": {"kind": "continuous", "bounds": [0, unit]}})
        with pytest.warns(WeakSignalWarning, match=r"a value' \(5%\)"):
            model = MixedMixture(schema=schema, epsilon=0.5).fit(part[:, None] * unit)
        rows = model.sample(2000)["x"]
        assert ((rows == 0) | (rows == unit)).mean() < 0.03


def test_a_warning_says_what_is_left_out_with_many_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((2000, 120)) < 0.5, columns=[f"x{j}" for j in range(120)])
    schema = Schema({name: {"kind": "boolean"} for name in table})
    with pytest.warns(WeakSignalWarning, match=r"blocks of at\s+most 60"):
        model = MixedMixture(4, schema=schema, epsilon=300.0, random_state=0).fit(table)
    assert [len(block) for block in model.blocks_] == [60, 60]


def test_categories_that_python_considers_equal():
    schema = Schema({"c": {"kind": "categorical", "categories": [1, True], "outside": 1}})
    model = MixedMixture(schema=schema, epsilon=1.0).fit(
        pd.DataFrame({"c": np.array([1, True] * 500, object)})
    )
    assert set(map(str, model.sample(100)["c"])) == {"1", "True"}


@pytest.mark.good_tables
def test_numbers_with_few_values_are_filled_by_the_most_probable_one():
    rng = np.random.default_rng(0)
    ends = np.where(rng.random(8000) < 0.7, 0.0, 10.0)
    table = pd.DataFrame({"i": np.where(rng.random(8000) < 0.1, np.nan, ends), "b": rng.random(8000) < 0.5})
    table.index = table.index[::-1]
    schema = Schema({"i": {"kind": "integer", "bounds": [0, 10], "missing": True}, "b": {"kind": "boolean"}})
    filled = MixedMixture(schema=schema, epsilon=5.0, random_state=0).fit(table).impute(table)
    assert set(filled["i"][table["i"].isna()]) == {0}
    assert filled.index.equals(table.index)


def test_rows_without_names_may_lack_the_target():
    model = fitted(n=5000, target="region")
    test = patients(50, seed=2)
    expected = model.predict_proba(test)
    without = test.drop(columns="region").astype(object)
    without = without.where(without.notna(), None).to_numpy()
    np.testing.assert_allclose(model.predict_proba(without), expected)
    np.testing.assert_allclose(model.predict_proba(without.tolist()), expected)
    with pytest.raises(InvalidArgumentError, match="5 cells"):
        model.predict_proba([[1, 2], [3, 4]])


def test_a_warning_raised_as_an_error_spends_nothing(tmp_path):
    ledger = dpem.Ledger.create(tmp_path / "a.ledger", name="a", cap_epsilon=9.0, cap_delta=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(WeakSignalWarning):
            MixedMixture(schema=SCHEMA, epsilon=0.01, ledger=ledger).fit(patients(500))
    assert not ledger.history()


def test_all_threads():
    assert fitted(n=2000, n_jobs=-1).sample(50).equals(fitted(n=2000, n_jobs=1).sample(50))


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "target"), [("oneshot", None), ("oneshot", "sick"), ("em", "sick")])
def test_save_and_load(tmp_path, method, target):
    model = fitted(method=method, target=target)
    model.save(tmp_path / "model")
    loaded = dpem.load(tmp_path / "model")
    test = patients(100, seed=7)
    np.testing.assert_allclose(loaded.score_samples(test), model.score_samples(test))
    assert loaded.set_params(random_state=0).sample(50).equals(model.sample(50))
    assert loaded.privacy_ == model.privacy_
    assert str(loaded.plan_) == str(model.plan_)
    if target is not None:
        np.testing.assert_allclose(loaded.predict_proba(test), model.predict_proba(test))
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
    assert loaded.diagnostics().equals(model.diagnostics())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parts", np.array([0.5, 0.6])),
        ("of_level", np.zeros(3, dtype=int)),
        ("block_0_weights", np.full((1, 2), np.nan)),
        ("block_0_tables", np.ones((1, 1))),
        ("block_0_columns", np.array([0, 0, 1, 2, 3])),
        ("block_0_columns", np.array([0, 99])),
        ("level_probabilities", np.zeros(4)),
        ("misfit", np.zeros((2, 2))),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, value):
    fitted().save(tmp_path / "model")
    with np.load(tmp_path / "model") as file:
        arrays = {key: file[key] for key in file.files}
    with (tmp_path / "damaged").open("wb") as file:
        np.savez(file, **arrays | {name: value})
    with pytest.raises(ModelFileError):
        dpem.load(tmp_path / "damaged")


# -- post-processing -----------------------------------------------------------------------------------------


def evidence(parts, seed=0):
    rng = np.random.default_rng(seed)
    starts = np.array([0, 3, 5, 9])
    gram = rng.normal(40, 20, size=(parts, 9, 9))
    gram += gram.transpose(0, 2, 1)
    split = None if parts == 1 else rng.normal(200, 20, size=(parts, 9))
    return PairEvidence(
        gram,
        10.0,
        rng.uniform(100, 400, 9),
        rng.uniform(10, 50, 9),
        split,
        8.0,
        rng.uniform(300, 700, parts),
        np.full(parts, 30.0),
        starts,
        1000.0,
    )


@pytest.mark.parametrize("parts", [1, 2])
def test_the_gradient_agrees_with_finite_differences(parts):
    """The objective is differentiated in double precision."""
    known = evidence(parts)
    search = _Search(known, 4, 0.05, 1, 0)
    rng = np.random.default_rng(1)
    tables = np.concatenate([rng.dirichlet(np.ones(size), size=4).T for size in np.diff(known.starts)])
    weights = rng.dirichlet(np.ones(4 * parts)).reshape(parts, 4)
    n = known.n_rows

    def objective(tables, weights):
        model = np.stack([(tables * part) @ tables.T for part in weights])
        marginal = tables @ weights.sum(axis=0)
        loss = (
            known.counted
            * (known.pairs - n * model) ** 2
            / (known.pair_noise**2 + np.maximum(known.pairs, 0))
        ).sum() / 4
        variance = known.column_variances + np.maximum(known.columns, 0)
        loss += ((n * marginal - known.columns) ** 2 / variance).sum() / 2
        if parts > 1:
            variance = known.part_variances + np.maximum(known.parts, 0)
            loss += ((n * weights.sum(axis=1) - known.parts) ** 2 / variance).sum() / 2
            split = (tables @ weights.T).T
            variance = known.by_part_noise**2 + np.maximum(known.by_part, 0)
            loss += ((n * split - known.by_part) ** 2 / variance).sum() / 2
        information = (weights.sum(axis=0) * tables * (np.log(tables) - np.log(marginal)[:, None])).sum()
        return (loss + 0.05 * n * information) / (known.pairs.size / 2)

    by_tables, by_weights = search._gradient(tables.astype(np.float32), weights.astype(np.float32))
    # Directions keep the sums within each column, and the sum of all weights.
    for _ in range(20):
        direction = rng.normal(size=tables.shape)
        for a, b in itertools.pairwise(known.starts):
            direction[a:b] -= direction[a:b].mean(axis=0)
        numeric = objective(tables + 1e-5 * direction, weights) - objective(
            tables - 1e-5 * direction, weights
        )
        assert (by_tables * direction).sum() == pytest.approx(numeric / 2e-5, rel=2e-3, abs=1e-2)
        shift = rng.normal(size=weights.shape)
        shift -= shift.mean()
        numeric = objective(tables, weights + 1e-5 * shift) - objective(tables, weights - 1e-5 * shift)
        assert (by_weights * shift).sum() == pytest.approx(numeric / 2e-5, rel=2e-3, abs=1e-2)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_compiled_descent_takes_the_steps_of_numpy(parts, k):
    """Up to rounding in single precision, which grows with the steps."""
    known = evidence(parts)
    start = _Search(known, k, 0.05, 0, 3).run()
    for steps, error in ((20, 1e-5), (100, 1e-4)):
        search = _Search(known, k, 0.05, steps, 3)
        one, other = search.run(), dataclasses.replace(search, kernels=descent_kernel).run()
        np.testing.assert_allclose(other.tables, one.tables, rtol=0, atol=error)
        np.testing.assert_allclose(other.weights, one.weights, rtol=0, atol=error)
        assert abs(one.tables - start.tables).max() > 30 * error  # so that the comparison can fail
        assert k * parts == 1 or abs(one.weights - start.weights).max() > 30 * error


def test_searches_do_not_depend_on_the_number_of_threads():
    """Compiled searches run on all threads, and each has a seed of its own."""
    known = evidence(2)
    with _compiled.for_any_size():
        found = [fit_pairs(known, 3, np.random.RandomState(0), jobs, Progress("", 0)) for jobs in (1, 2, 16)]
    for components, smoothing in found[1:]:
        assert smoothing == found[0][1]
        np.testing.assert_array_equal(components.tables, found[0][0].tables)
        np.testing.assert_array_equal(components.weights, found[0][0].weights)


def test_thinned_halves_are_independent_and_add_up():
    known = evidence(2)
    one, two = known.thinned(np.random.RandomState(0))
    np.testing.assert_allclose((one.pairs + two.pairs) / 2, known.pairs)
    np.testing.assert_allclose((one.columns + two.columns) / 2, known.columns)
    np.testing.assert_allclose((one.by_part + two.by_part) / 2, known.by_part)
    np.testing.assert_array_equal(one.pairs, one.pairs.transpose(0, 2, 1))
    draws = [known.thinned(np.random.RandomState(s))[0].pairs[0, 0, 4] for s in range(3000)]
    assert np.var(draws) == pytest.approx(known.pair_noise**2 + max(known.pairs[0, 0, 4], 0), rel=0.15)
