"""Models that other packages register: a real entry point, treated like a model of dpem.

Commands, planner, report, audit and conformance tests see it with no other change.
"""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import registry
from dpem.audit import run
from dpem.audit.findings_page import audit_page
from dpem.errors import InvalidArgumentError, ModelFileError
from dpem.plugin import registered
from support.commands import called
from support.model_files import with_metadata

PACKAGE = '''
"""A package of somebody else: waiting times, in one part or two."""

import numpy as np

import dpem


class WaitingTimes(dpem.ExponentialFamily):
    """Two exponential laws of waiting times."""

    nonnegative = True

    def __init__(self, longest=20.0):
        self.longest = longest

    def start(self, schema, random_state, centres):
        return {"weight": 0.5, "means": [0.5, 5.0]}

    def expected_statistics(self, row, parameters):
        w, m = parameters["weight"], parameters["means"]
        joint = np.array([w, 1 - w]) * np.exp(-row[0] / m) / m
        g = joint / joint.sum()
        return np.concatenate([g, g * row[0] / self.longest])

    def m_step(self, statistics, parameters, n_rows, noise):
        counts = np.maximum(statistics[:2], 2 * noise)
        means = np.clip(self.longest * statistics[2:] / counts, 0.05, self.longest)
        return {"weight": counts[0] / counts.sum(), "means": means}

    def norm_bound(self, schema):
        return np.sqrt(2)

    def trial_schema(self):
        return dpem.Schema({"wait": {"kind": "continuous", "bounds": [0, 20]}})

    def predict_proba(self, row, parameters):
        return self.expected_statistics(row, parameters)[:2]

    def sample(self, n, parameters, random_state):
        part = (random_state.uniform(size=n) > parameters["weight"]).astype(int)
        return random_state.exponential(parameters["means"][part])[:, None].clip(0, self.longest)


class Remembering(WaitingTimes):
    """A model that keeps rows."""

    seen = []

    def expected_statistics(self, row, parameters):
        self.seen.append(row)
        return super().expected_statistics(row, parameters)


class Shares(dpem.ExponentialFamily):
    """The mean of a share, without a proven bound and without trial columns."""

    def start(self, schema, random_state, centres):
        return {"mean": 0.5}

    def expected_statistics(self, row, parameters):
        return row

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": statistics[0] / n_rows}


class Coins(dpem.ExponentialFamily):
    """A model with an argument n_components: groups of coins."""

    nonnegative = True

    def __init__(self, n_components):
        self.n_components = self.start_centres = n_components

    def start(self, schema, random_state, centres):
        k = self.n_components
        return {"weights": np.full(k, 1 / k), "p": np.clip(centres, 0.05, 0.95)}

    def predict_proba(self, row, parameters):
        p = parameters["p"]
        joint = parameters["weights"] * np.where(row > 0.5, p, 1 - p).prod(axis=1)
        return joint / joint.sum()

    def expected_statistics(self, row, parameters):
        g = self.predict_proba(row, parameters)
        return np.concatenate([g, np.outer(g, row).ravel()])

    def m_step(self, statistics, parameters, n_rows, noise):
        k = self.n_components
        counts = np.maximum(statistics[:k], 2 * noise)
        p = statistics[k:].reshape(k, -1) / counts[:, None]
        return {"weights": counts / counts.sum(), "p": np.clip(p, 0.01, 0.99)}

    def norm_bound(self, schema):
        return np.sqrt(1 + len(schema.columns))


no_model = "text"
'''
POINTS = """[dpem.models]
waiting = somebodys_models:WaitingTimes
remembering = somebodys_models:Remembering
shares = somebodys_models:Shares
coins = somebodys_models:Coins
broken = somebodys_models:no_model
kmeans = somebodys_models:WaitingTimes
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package as pip does: its module, and metadata with entry points, on the path."""
    site = tmp_path / "site"
    information = site / "somebodys_models-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "somebodys_models.py").write_text(PACKAGE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-models\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("somebodys_models", None)


@pytest.fixture
def table(tmp_path):
    """Write a table of waiting times and its schema."""
    rng = np.random.default_rng(0)
    waits = rng.exponential(np.where(rng.random(5000) < 0.3, 0.2, 3.0)).clip(0, 20)
    pd.DataFrame({"wait": waits}).to_csv(tmp_path / "waits.csv", index=False)
    schema = dpem.Schema({"wait": {"kind": "continuous", "bounds": [0, 20], "unit": "minutes"}})
    schema.save(tmp_path / "waits.toml")
    return tmp_path / "waits.csv", tmp_path / "waits.toml"


def test_every_command_supports_a_registered_model(package, table, tmp_path, capsys):
    data, schema = table
    common = ["--schema", schema, "--model", "waiting", "--epsilon", "2"]
    planned = called(capsys, "plan", *common, "--rows", "5000", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["noise"][0]["parameter"] == "statistics of a component"
    model, page, rows = tmp_path / "waits.dpem", tmp_path / "report.html", tmp_path / "rows.csv"
    fitted = called(capsys, "fit", data, *common, "--output", model, "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["privacy"]["epsilon"] <= 2
    # A model file contains no code: the class is found through its registration.
    assert called(capsys, "sample", model, "-n", "50", "-o", rows).code == 0
    assert pd.read_csv(rows)["wait"].between(0, 20).all()
    assert called(capsys, "report", model, "-o", page).code == 0
    assert "means[1]" in page.read_text()
    loaded = dpem.load(model)
    assert type(loaded) is dpem.PrivateEM
    assert type(loaded.model).__name__ == "WaitingTimes"
    assert abs(loaded.parameters_["means"][1] - 3.0) < 1.0
    predicted = tmp_path / "predicted.csv"
    assert called(capsys, "predict", model, data, "-o", predicted, "--keep", "wait").code == 0
    found = pd.read_csv(predicted)
    assert found["component"].nunique() == 2
    assert found.groupby("component")["wait"].mean().is_monotonic_increasing
    assert called(capsys, "predict", model, data, "-o", tmp_path / "p.csv", "--probabilities").code == 0
    assert list(pd.read_csv(tmp_path / "p.csv")) == ["probability of 1", "probability of 2"]


def test_a_file_keeps_the_number_of_components(package, tmp_path, capsys):
    """The loaded model has the fitted number of components; the default number is 2."""
    answers = pd.DataFrame(np.random.default_rng(0).random((900, 3)) < 0.4, columns=list("abc"))
    answers.to_csv(tmp_path / "t.csv", index=False)
    dpem.Schema({name: {"kind": "boolean"} for name in "abc"}).save(tmp_path / "t.toml")
    fit = ["fit", tmp_path / "t.csv", "--schema", tmp_path / "t.toml", "--model", "coins", "--epsilon", "4"]
    for options, parts in (((), 2), (("-k", "4"), 4)):
        model, said = tmp_path / f"{parts}.dpem", tmp_path / f"{parts}.csv"
        assert called(capsys, *fit, *options, "-o", model).code == 0
        assert dpem.load(model).model.n_components == parts
        assert called(capsys, "predict", model, tmp_path / "t.csv", "-o", said, "--probabilities").code == 0
        assert len(pd.read_csv(said).columns) == parts
    forged = tmp_path / "forged"
    with_metadata(model, forged, lambda metadata: metadata["parameters"].update(n_components=10**9))
    with pytest.raises(ModelFileError, match="number of components"):
        dpem.load(forged)


def test_a_model_without_predict_proba_does_not_predict(package, table, tmp_path, capsys):
    data, _ = table
    model = dpem.PrivateEM(
        registry.entry_named("shares").plug_in(), epsilon=1.0, bounds=(0, 20), clip_norm=1.0
    )
    model.fit(pd.read_csv(data)).save(tmp_path / "m")
    refused = called(capsys, "predict", tmp_path / "m", data, "-o", tmp_path / "p.csv")
    assert refused.code == 2
    assert "a method predict_proba, got Shares without" in refused.err


@pytest.mark.parametrize("name", ["waiting", "shares"])
def test_the_audit_includes_a_registered_model(name, package, capsys):
    """The worker processes of the audit find and import the package themselves."""
    found = called(capsys, "audit", "--tiny", "--only", name, "--jobs", "1", "--json")
    assert found.code == 0, found.err
    assert found.json["audits"] == 2
    assert found.json["summary"][0]["audit"] == "Record and replay"
    assert "somebodys_models" not in sys.modules


@pytest.mark.parametrize("name", ["waiting", "shares", "coins"])
def test_the_conformance_tests_include_a_registered_model(name, package):
    dpem.testing.check_conformance(name)


def test_a_failing_package_does_not_end_the_audit(package):
    """Its exception becomes a finding, and other audits continue."""
    tasks = [run.Attack("replay", name, effort=1) for name in ("broken", "remembering", "waiting")]
    broken, remembering, waiting = map(run.perform, tasks)
    assert not broken.passed
    assert "got str" in broken.text
    assert not remembering.passed
    assert "keeps nothing between rows" in remembering.text
    assert waiting.passed
    assert "**2 FAILED.**" in audit_page([broken, remembering, waiting], "tiny", 1.0)


def test_trials_of_a_package_replace_no_other_trial(package, monkeypatch):
    points = registered.registered_points()
    monkeypatch.setattr(registry, "registered_points", lambda: points | {"KMeans": points["waiting"]})
    assert registry.trials()["KMeans"].fit is dpem.KMeans
    assert "kmeans" not in registry.trials()


def test_registration_confers_no_trust(package, table, tmp_path, capsys):
    """The code is inspected and refused before any charge, and names of dpem cannot be taken."""
    data, schema = table
    ledger = tmp_path / "ledger"
    dpem.Ledger.create(ledger, name="waits", cap_epsilon=5.0, cap_delta=1e-5)
    common = ["--schema", schema, "--epsilon", "1", "--ledger", ledger, "-o", tmp_path / "m"]
    refused = called(capsys, "fit", data, "--model", "remembering", *common)
    assert refused.code == 2
    assert "Remembering" in refused.err
    assert dpem.Ledger(ledger).history() == []
    assert type(registry.make("kmeans", 2, None, {}, epsilon=1.0, bounds=(0, 1))) is dpem.KMeans
    assert registry.model_names().count("kmeans") == 1


def test_mistakes_are_named(package):
    with pytest.raises(InvalidArgumentError, match=r"'broken'.*got str"):
        registry.entry_named("broken")
    with pytest.raises(InvalidArgumentError, match="Did you mean 'waiting'"):
        registry.entry_named("waitings")
    with pytest.raises(InvalidArgumentError, match="no --components"):
        registry.make("waiting", 3, dpem.Schema({"w": {"kind": "boolean"}}), {}, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="--target only with --model table"):
        registry.make("waiting", None, None, {"target": "w"}, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="--schema for --model waiting"):
        registry.make("waiting", None, None, {}, epsilon=1.0)


def test_loading_a_file_without_its_package_names_what_is_missing(
    package, table, tmp_path, capsys, monkeypatch
):
    data, schema = table
    fit = ["fit", data, "--schema", schema, "--model", "waiting", "--epsilon", "1", "-o", tmp_path / "m"]
    assert called(capsys, *fit).code == 0
    monkeypatch.setattr(registered, "entry_points", lambda group: ())
    ended = called(capsys, "sample", tmp_path / "m")
    assert ended.code == 2
    assert "package that registers it" in ended.err


@pytest.mark.parametrize("entry", registry.shipped().values(), ids=lambda entry: entry.name)
def test_every_command_supports_every_shipped_model(entry, tmp_path, capsys):
    """plan, fit, report, predict and sample work with each registered model."""
    rng = np.random.default_rng(1)
    n = 1500
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).round(1),
            "bmi": rng.normal(25, 4, n).round(1),
            "visits": rng.poisson(3, n).clip(0, 20),
            "smoker": rng.random(n) < 0.3,
            "ward": rng.choice(["a", "b"], n),
        }
    )
    declared = {
        "age": {"kind": "continuous", "bounds": [0, 120]},
        "bmi": {"kind": "continuous", "bounds": [10, 60]},
        "visits": {"kind": "integer", "bounds": [0, 20]},
        "smoker": {"kind": "boolean"},
        "ward": {"kind": "categorical", "categories": ["a", "b"]},
    }
    kept = [name for name, column in declared.items() if column["kind"] not in entry.refuses]
    if entry.name == "bernoulli":
        kept = ["smoker"]
    data, schema, model = tmp_path / "t.csv", tmp_path / "t.toml", tmp_path / "t.dpem"
    frame.to_csv(data, index=False)
    dpem.Schema(declared).save(schema)
    common = ["--schema", schema, "--columns", ",".join(kept), "--model", entry.name, "--epsilon", "3"]
    if "target" in entry.options:
        common += ["--target", "smoker"]
    planned = called(capsys, "plan", *common, "--rows", n, "--json")
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["noise"]
    assert called(capsys, "fit", data, *common, "-k", "2", "--output", model).code == 0
    page = tmp_path / "report.html"
    assert called(capsys, "report", model, "-o", page).code == 0
    text = page.read_text()
    assert all(name in text for name in kept)
    assert 'id="profiles"' in text or entry.name == "table"
    predicted = called(capsys, "predict", model, data, "-o", tmp_path / "predicted.csv")
    assert predicted.code == 0, predicted.err
    assert len(pd.read_csv(tmp_path / "predicted.csv")) == n
    drawn = called(capsys, "sample", model, "-n", "20", "-o", tmp_path / "rows.csv")
    if entry.name == "kmeans":
        assert drawn.code == 2
    else:
        assert drawn.code == 0, drawn.err
        assert list(pd.read_csv(tmp_path / "rows.csv").columns) == kept
