"""Fits with persons as the unit: the rows of one person, however many, stay within the sensitivity."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpem
from dpem import testing
from dpem.data.sources import persons
from dpem.errors import InvalidArgumentError

SCHEMA = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "stay": {"kind": "continuous", "bounds": [0, 90]},
    }
)
COUNTS = dpem.Schema({"visits": {"kind": "integer", "bounds": [0, 20]}})
SETTINGS = {"epsilon": 30.0, "delta": 1e-6, "person": "patient", "rows_per_person": 2, "random_state": 0}
FITS = {
    "kmeans": lambda **s: dpem.KMeans(2, schema=SCHEMA, **s),
    "mixture": lambda **s: dpem.GaussianMixture(2, schema=SCHEMA, **s),
    "factors": lambda **s: dpem.FactorAnalysis(1, schema=SCHEMA, **s),
    "table": lambda **s: dpem.MixedMixture(schema=SCHEMA, **s),
    "counts": lambda **s: dpem.PoissonMixture(2, schema=COUNTS, **s),
}


def visits(values=None):
    """Return rows of 60 persons; the first has 40 rows, with optional values."""
    rng = np.random.default_rng(1)
    owner = np.concatenate([np.zeros(40, int), rng.integers(1, 60, 160)])
    table = pd.DataFrame(
        {"patient": owner, "age": rng.integers(20, 90, 200), "stay": rng.uniform(0, 20, 200)}
    )
    table["visits"] = rng.integers(0, 9, 200)
    if values is not None:
        table.loc[owner == 0, ["age", "stay", "visits"]] = values
    return table


def replayed(model, one, other):
    """Return the distance of each release of two tables over its sensitivity."""
    with testing.record() as first:
        model.fit(one)
    with testing.replay(first) as second:
        model.fit(other)
    return [a.distance(b) for a, b in zip(first.releases, second.releases, strict=True)]


def pair(adjacency):
    """Return two tables that differ in one person with forty rows: extreme values, or no rows."""
    one = visits([120, 90.0, 20])
    return one, (visits([0, 0.0, 0]) if adjacency == "replace_one" else one[one["patient"] != 0])


@pytest.mark.filterwarnings("ignore::dpem.errors.WeakFitWarning")
@pytest.mark.filterwarnings("ignore::dpem.errors.WeakSignalWarning")
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", FITS)
def test_a_person_with_many_rows_stays_within_the_sensitivity(name, adjacency):
    distances = replayed(FITS[name](adjacency=adjacency, **SETTINGS), *pair(adjacency))
    assert 0.1 < max(distances) <= 1 + 1e-12


def test_without_the_cap_the_same_person_exceeds_the_sensitivity(monkeypatch):
    """The test above fails if no rows are left out."""
    model = FITS["kmeans"](**SETTINGS)
    monkeypatch.setattr(persons._KeptRows, "n_rows", 200)
    monkeypatch.setattr(persons._KeptRows, "by_piece", [np.ones(200, dtype=bool)])
    assert max(replayed(model, *pair("replace_one"))) > 5


def test_measures_support_persons(tmp_path):
    ledger = dpem.Ledger.create(
        tmp_path / "visits.ledger",
        name="visits",
        cap_epsilon=80,
        cap_delta=1e-6,
        rows_per_person=2,
        person="patient",
    )
    unit = {"person": "patient", "rows_per_person": 2, "delta": 1e-6, "ledger": ledger}
    table = visits()
    model = dpem.GaussianMixture(1, schema=SCHEMA, epsilon=10.0, **unit).fit(table)
    assert model.n_rows_ == int(np.minimum(table["patient"].value_counts(), 2).sum())
    score = model.private_score(table, epsilon=10.0, delta=1e-6)
    clipped = dpem.clipped_fraction(table, schema=SCHEMA, epsilon=10.0, **unit)
    centres = np.array([[50.0, 10.0]])
    spread = dpem.private_nicv(table, centres, schema=SCHEMA, epsilon=10.0, **unit)
    draft = dpem.Schema({"age": {"kind": "integer"}, "stay": {"kind": "continuous"}})
    bounds = dpem.private_bounds(table, draft, epsilon=10.0, **unit)
    drafted = dpem.private_bounds(table[["patient", "age", "stay"]], epsilon=10.0, **unit)
    assert drafted.schema.names == ("age", "stay")
    for made in (score.privacy, clipped.privacy, spread.privacy, bounds.privacy, model.privacy_):
        assert made.unit.person == "patient"
        assert "what a person has above 2 rows was left out" in made.neighbours
    assert [spend.number for spend in ledger.history()] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InvalidArgumentError, match="privacy unit"):
        dpem.KMeans(2, schema=SCHEMA, epsilon=10.0, delta=1e-6, rows_per_person=2, ledger=ledger).fit(table)


def test_the_column_of_persons_is_not_fitted(tmp_path):
    table = visits().drop(columns="visits").assign(patient=lambda t: "p" + t["patient"].astype(str))
    model = dpem.GaussianMixture(1, epsilon=10.0, bounds=([0, 0], [120, 90]), person="patient").fit(table)
    assert list(model.feature_names_in_) == ["age", "stay"]
    table.to_parquet(tmp_path / "visits.parquet")
    for rows in (table, pa.Table.from_pandas(table), tmp_path / "visits.parquet"):
        assert np.array_equal(model.predict(rows), model.predict(table[["age", "stay"]]))
    model.save(tmp_path / "model.dpem")
    assert dpem.load(tmp_path / "model.dpem").privacy_.unit.person == "patient"


def test_plug_in_models_by_position_and_by_name():
    table = visits()
    by_bounds = dpem.PrivateEM(
        _Mean(),
        clip_norm=300.0,
        bounds=(0, 120),
        epsilon=10.0,
        person="patient",
        rows_per_person=2,
        max_iter=1,
    )
    assert by_bounds.fit(table).n_features_in_ == 3


def test_invalid_person_columns_are_refused():
    for person in ("", 3):
        with pytest.raises(InvalidArgumentError, match="person"):
            dpem.KMeans(2, epsilon=10.0, schema=SCHEMA, person=person).fit(visits())


class _Mean(dpem.ExponentialFamily):
    """The mean of each column."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(len(schema.columns))}

    def expected_statistics(self, row, parameters):
        return row

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": statistics / n_rows}
