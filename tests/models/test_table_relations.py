"""What a synthetic table keeps of the relations between columns: warnings, remarks and the plan."""

import functools
import shlex
import warnings

import numpy as np
import pytest
from scipy import special, stats

import dpem
from dpem.errors import WeakFitWarning, WeakSignalWarning
from dpem.models.table.relations import MODERATE, Relations, relations_of, visible_correlation
from dpem.testing import insecure_noise
from experiments.weak_tables import correlated, table_of
from support.commands import called

pytestmark = pytest.mark.good_tables
DEVIATIONS = "rows per standard deviation of noise in a count of 'pairs': "


def generated(law, n, m=7, types="mixed"):
    return table_of(correlated(law, 0.7, n, m, np.random.default_rng(0)), types)


@functools.cache
def fitted(law, n, m=7, types="mixed", seed=0, **arguments):
    """Fit with seeded noise; return the model, the texts of its warnings by class, and the rows."""
    rows, schema = generated(law, n, m, types)
    arguments = {"schema": schema, "epsilon": 1.0, "random_state": 0} | arguments
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with insecure_noise(seed):
            model = dpem.MixedMixture(**arguments).fit(rows)
    said = {kind: [str(one.message) for one in caught if one.category is kind] for kind in BOTH}
    return model, said, rows


BOTH = (WeakSignalWarning, WeakFitWarning)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_lost_relation_gives_a_warning(adjacency, seed):
    """6000 rows and 7 columns at epsilon 1: a rank correlation of 0.68 nearly vanishes."""
    model, said, rows = fitted("one", 6000, seed=seed, adjacency=adjacency)
    assert rows["c0"].corr(rows["c1"], "spearman") > 0.65
    synthetic = model.sample(20_000)
    assert synthetic["c0"].corr(synthetic["c1"], "spearman") < 0.4
    (text,) = said[WeakFitWarning]
    clear = int((model.diagnostics()["dependence"] > 3).sum())
    assert f"{clear} of 21 pairs of columns depend beyond the noise" in text
    for remedy in ("epsilon", "more rows", "fewer columns", "target"):
        assert remedy in text


def test_the_warning_is_repeated_wherever_the_model_is_shown(tmp_path):
    model, said, _ = fitted("one", 6000)
    finding = said[WeakFitWarning][0].partition(" Use a larger")[0]
    model.save(tmp_path / "model")
    for one in (model, dpem.load(tmp_path / "model")):
        assert f"Weak fit: {finding}" in str(one)
        assert f"Weak fit: {finding}" in dpem.report.render_report(one)


@pytest.mark.parametrize(
    "table",
    [("factor", 20_000, 4), ("factor", 6000, 7), ("pairs", 6000, 4, "listed"), ("none", 20_000, 4)],
)
def test_a_good_fit_gives_no_warning_after_it(table):
    """Also if columns are independent and the release could have shown that they are not."""
    for seed in range(2):
        model, said, rows = fitted(*table, seed=seed)
        assert said[WeakFitWarning] == []
        assert "Weak fit" not in str(model)
        if table[0] != "none":
            real, synthetic = rows["c0"].corr(rows["c1"], "spearman"), model.sample(20_000)
            assert synthetic["c0"].corr(synthetic["c1"], "spearman") / real > 0.7


def test_what_a_good_fit_keeps_is_shown_with_the_model(tmp_path):
    model, _, _ = fitted("factor", 20_000, 4)
    line = "Relations: in the release, 6 of 6 pairs of columns depend beyond the noise, and the model keeps"
    assert line in str(model)
    assert line in dpem.report.render_report(model)
    assert relations_of(model).kept > 0.9


def test_the_command_prints_what_the_model_keeps(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    rows, schema = generated("factor", 20_000, 4)
    rows.to_csv("rows.csv", index=False)
    schema.save("schema.toml")
    ended = called(capsys, *shlex.split("fit rows.csv -s schema.toml --model table -e 1 -o model"))
    assert "Relations: in the release, 6 of 6 pairs of columns depend beyond the noise" in ended.out


def test_hidden_relations_give_a_warning_before_the_charge(tmp_path):
    """The plan alone shows it, if columns are numbers with 16 bins each."""
    rows, schema = generated("factor", 6000, types="numeric")
    ledger = dpem.Ledger.create(tmp_path / "l", name="n", cap_epsilon=5, cap_delta=1e-5)
    model = dpem.MixedMixture(schema=schema, epsilon=1.0, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakSignalWarning)
        with pytest.raises(WeakSignalWarning, match="blur relations between columns") as caught:
            model.fit(rows)
    assert ledger.history() == []
    (said,) = dpem.plan(model, 6000).warnings
    assert said == str(caught.value)
    needed = float(said.partition("epsilon of about ")[2].partition(",")[0])
    assert not dpem.plan(model.set_params(epsilon=1.05 * needed), 6000).warnings
    assert dpem.plan(model.set_params(epsilon=0.9 * needed), 6000).warnings


def test_a_table_without_pairs_says_so():
    few, _, _ = fitted("factor", 300)
    alone, _, _ = fitted("factor", 6000, n_components=1)
    for model in (few, alone):
        assert relations_of(model) is None
        assert "no pairs of columns were counted. They are independent in the model." in str(model)
    assert "Relations" not in str(fitted("factor", 2000, method="em", max_iter=2)[0])


@pytest.mark.parametrize("bins", [4, 16])
def test_a_table_just_shows_the_visible_correlation(bins):
    """Tables of Gaussian columns of this correlation deviate from independence by about three deviations."""
    rng = np.random.default_rng(0)
    n, noise = 20_000, 60.0
    entries = bins**2
    rho = visible_correlation(np.array([float(entries)]), noise, n)
    edges = np.concatenate([[-9.0], special.ndtri(np.arange(1, bins) / bins), [9.0]])
    corners = np.stack(np.meshgrid(edges, edges, indexing="ij"), axis=-1)
    below = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(corners)
    law = np.diff(np.diff(below, axis=0), axis=1).clip(0)
    counts = rng.multinomial(n, law.ravel() / law.sum(), size=300) + rng.normal(0, noise, (300, entries))
    squares = ((counts - n / entries) ** 2 / (noise**2 + n / entries)).sum(axis=1)
    assert 2 < ((squares - entries) / np.sqrt(2 * entries)).mean() < 3.5


@pytest.mark.parametrize(("kept", "certain", "visible", "clear", "flattened", "hidden"), [
    (0.74, True, 0.1, 3, True, False),
    (0.76, True, 0.1, 3, False, False),
    (0.0, False, 0.1, 1, False, False),
    (1.0, True, MODERATE + 0.01, 9, False, True),
    (1.0, True, MODERATE + 0.01, 10, False, False),
    (1.0, True, None, 0, False, False),
])  # fmt: skip
def test_the_rule_at_its_limits(kept, certain, visible, clear, flattened, hidden):
    relations = Relations(20, clear, kept, certain, visible)
    assert (relations.is_flattened, relations.is_hidden) == (flattened, hidden)


def test_the_plan_says_how_many_rows_there_are_per_deviation(tmp_path, capsys, monkeypatch):
    """The number that decides about the stages (docs/guide/synthetic.md), and its limit."""
    _, schema = generated("factor", 10, types="listed")
    model = dpem.MixedMixture(schema=schema, epsilon=1.0, data_quality=False)
    outlook = dpem.plan(model, 6000)
    assert outlook.rows_per_deviation == pytest.approx(6000 / outlook.plan.stage("pairs").noise_stddev)
    assert f"{DEVIATIONS}{outlook.rows_per_deviation:.0f}" in str(outlook)
    limit = 120 / outlook.rows_per_deviation * 6000
    shares = [[round(stage.share, 2) for stage in dpem.plan(model, n).plan.stages] for n in
              (int(limit) - 1, int(limit) + 2)]  # fmt: skip
    assert shares == [[0.25, 0.25, 0.5], [0.25, 0.75]]
    assert dpem.plan(dpem.KMeans(2, epsilon=1.0, bounds=([0], [1])), 6000).rows_per_deviation is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    schema.save("schema.toml")
    command = shlex.split("plan -n 6000 -s schema.toml --model table -e 1")
    assert DEVIATIONS in called(capsys, *command).out
    assert called(capsys, *command, "--json").json["rows_per_deviation"] > 120
