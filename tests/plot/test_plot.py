"""Figures show the released numbers: positions, heights and curves equal those of the models."""

import inspect
import math
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy import special
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.exceptions import NotFittedError

import dpem
from dpem import plot
from dpem.errors import InsecureNoiseWarning, InvalidArgumentError
from dpem.generated_tables import PATIENTS_SCHEMA, patients
from dpem.plot.tables import cramers_v
from dpem.privacy import ComposedEvent, GaussianEvent, accountant_named, calibrate
from dpem.privacy.gaussian_dp import mu_for
from dpem.testing import insecure_noise

KEPT = Path(__file__).parents[1] / "kept"
NUMBERS = ["age", "bmi", "systolic"]
WORDS = ["sex", "ward", "smoker", "readmitted"]
BOX = {"epsilon": 2.0, "bounds": (-6, 6), "random_state": 0}


@pytest.fixture(autouse=True)
def _figures():
    """Draw with the default style, and close all figures."""
    with mpl.rc_context():
        mpl.rcdefaults()
        plt.switch_backend("agg")
        yield
    plt.close("all")


def seeded(estimator, rows):
    with pytest.warns(InsecureNoiseWarning), insecure_noise(3):
        return estimator.fit(rows)


@pytest.fixture(scope="module")
def table():
    return patients(6000, 0)


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(m, 0.6, (2500, 3)) @ np.diag([1, 2, 0.5]) for m in (-2, 0, 2)])


@pytest.fixture(scope="module")
def models(table, clouds):
    """Return one model of every kind."""
    schema = PATIENTS_SCHEMA.select(NUMBERS)
    words = PATIENTS_SCHEMA.select(WORDS)
    incomplete = clouds.copy()
    incomplete[::7, 1] = np.nan
    common = {"epsilon": 2.0, "random_state": 0}
    fits = {
        "mixture": (dpem.GaussianMixture(3, schema=schema, **common), table),
        "missing": (dpem.GaussianMixture(2, missing="em", **BOX), incomplete),
        "one component": (dpem.GaussianMixture(1, **BOX), clouds),
        "one column": (dpem.GaussianMixture(2, **BOX), clouds[:, :1]),
        "kmeans": (dpem.KMeans(4, schema=schema, **common), table),
        "factors": (dpem.FactorAnalysis(1, schema=schema, **common), table),
        "table": (dpem.MixedMixture(schema=PATIENTS_SCHEMA, **common), table),
        "classes": (dpem.CategoricalMixture(2, schema=words, **common), table),
        "yes and no": (dpem.BernoulliMixture(2, **BOX | {"bounds": (0, 1)}), clouds > 0),
        "counts": (dpem.PoissonMixture(2, schema=PATIENTS_SCHEMA.select(["age", "stay"]), **common), table),
    }
    for kind in ("tied", "diag", "spherical"):
        fits[kind] = dpem.GaussianMixture(2, covariance_type=kind, **BOX), clouds
    with warnings.catch_warnings(action="ignore"):
        return {name: seeded(*fit) for name, fit in fits.items()}


@pytest.fixture
def ledger(tmp_path):
    made = dpem.Ledger.create(tmp_path / "l", name="patients", cap_epsilon=2.0, cap_delta=1e-6)
    for epsilon, purpose in ((0.5, "income in $, bounds of $"), (1.0, "mixture"), (0.2, "a" * 300)):
        made.spend(calibrate(GaussianEvent(1.0), epsilon=epsilon, delta=1e-6), purpose=purpose, analyst="a")
    return made


def new_axes():
    """Return axes outside pyplot."""
    return Figure().subplots()


def bars_of(ax):
    """Return the ends of the error bars of each `errorbar` call, of shape (k, 2, 2)."""
    found = []
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            found += [np.array(lines.get_segments()) for lines in container.lines[2]]
    return found


# -- density -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tied", "diag", "spherical", "missing", "one component"])
def test_the_density_on_a_contour_equals_its_level(models, name):
    """The density is constant along a contour of columns 0 and 2, with column 1 integrated by quadrature."""
    model = models[name]
    ax = plot.density(model, [0, 2], levels=5, ax=new_axes())
    contours = ax.collections[-1]
    assert len(contours.levels) == 5
    y = np.linspace(-12, 12, 400)
    for level, path in zip(contours.levels, contours.get_paths(), strict=True):
        for x, z in path.vertices[:: max(len(path.vertices) // 8, 1)]:
            rows = np.column_stack([np.full_like(y, x), y, np.full_like(y, z)])
            found = np.trapezoid(np.exp(model.score_samples(rows)), y)
            assert found == pytest.approx(level, rel=0.05)


def test_contours_of_all_columns_agree_with_score_samples(clouds):
    model = seeded(dpem.GaussianMixture(3, **BOX), clouds[:, :2])
    contours = plot.density(model, levels=[0.001, 0.01, 0.05], ax=new_axes()).collections[-1]
    np.testing.assert_array_equal(contours.levels, [0.001, 0.01, 0.05])
    for level, path in zip(contours.levels, contours.get_paths(), strict=True):
        np.testing.assert_allclose(np.exp(model.score_samples(path.vertices)), level, rtol=0.05)


def test_contours_enclose_equal_steps_of_probability(models):
    """Of three contours, the outermost encloses three quarters of all synthetic rows."""
    model = models["one component"]
    levels = plot.density(model, levels=3, ax=new_axes()).collections[-1].levels
    drawn = model.sample(20_000, random_state=1)[:, :2]
    drawn = drawn[(np.abs(drawn) < 6).all(axis=1)]  # other rows were moved to the bounds
    found = model._gaussians().marginal([0, 1]).densities(drawn).sum(axis=1)
    np.testing.assert_allclose([(found >= level).mean() for level in levels], [0.75, 0.5, 0.25], atol=0.04)


def test_the_curve_of_one_column_is_the_density(models):
    model = models["one column"]
    curve = plot.density(model, ax=new_axes()).lines[0]
    np.testing.assert_allclose(
        curve.get_ydata(), np.exp(model.score_samples(curve.get_xdata()[:, None])), rtol=1e-9
    )
    assert np.trapezoid(curve.get_ydata(), curve.get_xdata()) == pytest.approx(1, abs=0.05)


def test_the_curve_of_factor_analysis_is_a_normal_law(models):
    model = models["factors"]
    x, y = plot.density(model, "bmi", ax=new_axes()).lines[0].get_data()
    mean, deviation = model.mean_[1], math.sqrt(model.get_covariance()[1, 1])
    np.testing.assert_allclose(
        y, np.exp(-(((x - mean) / deviation) ** 2) / 2) / deviation / math.sqrt(2 * math.pi)
    )


def test_rows_are_drawn_behind_a_density(models, table):
    ax = plot.density(models["mixture"], ["bmi", "age"], rows=table, ax=new_axes())
    points = ax.collections[0].get_offsets()
    assert len(points) == 5000
    assert set(map(tuple, np.asarray(points))) <= set(zip(table["bmi"], table["age"], strict=True))
    curve = plot.density(models["mixture"], "age", rows=table, ax=new_axes())
    assert sum(bar.get_height() * bar.get_width() for bar in curve.patches) == pytest.approx(1)


def test_a_density_ends_at_the_bounds(models):
    ax = plot.density(models["factors"], ["age"], ax=new_axes())
    x = ax.lines[0].get_xdata()
    assert x.min() >= 0
    assert x.max() <= 110


# -- clusters, components, factors ---------------------------------------------------------------------------


def test_centres_are_drawn_at_their_released_positions(models):
    model = models["kmeans"]
    ax = plot.clusters(model, ["age", "systolic"], ax=new_axes())
    centres = [
        (line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_marker() in "os^Dv"
    ]
    np.testing.assert_allclose(centres, model.cluster_centers_[:, [0, 2]])
    spans = [np.ptp(bar[0], axis=0).max() for bar in bars_of(ax)]
    expected = 4 * model.standard_errors_["cluster_centers"][:, [0, 2]]  # two standard errors on each side
    np.testing.assert_allclose(np.reshape(spans, (-1, 2)), expected)
    assert [text.get_text() for text in ax.texts] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("name", ["mixture", "tied", "spherical", "diag", "missing", "one component"])
def test_ellipses_are_two_deviations_wide(models, name):
    model = models[name]
    ax = plot.clusters(model, [0, 1], ax=new_axes())
    ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == model.n_components_
    turns = np.linspace(0, 2 * np.pi, 9)
    for ellipse, mean, covariance in zip(ellipses, model.means_, model._full_covariances(), strict=True):
        np.testing.assert_allclose(ellipse.center, mean[:2])
        circle = np.column_stack([np.cos(turns), np.sin(turns)])
        edge = ellipse.get_patch_transform().transform(circle) - mean[:2]
        distance = np.einsum("ij,jk,ik->i", edge, np.linalg.inv(covariance[:2, :2]), edge)
        np.testing.assert_allclose(distance, 4.0)
    shares = [f"{k + 1}: {share:.0%}" for k, share in enumerate(model.weights_)]
    assert [text.get_text() for text in ax.texts] == shares


def test_a_component_below_the_noise_is_dashed(models):
    model = pickle.loads(pickle.dumps(models["one component"]))
    model.standard_errors_["means"][0, 1] = 2 * math.sqrt(model.covariances_[0, 1, 1])
    dashed = [
        plot.clusters(model, columns, ax=new_axes()).patches[0].get_linestyle()
        for columns in ([0, 1], [0, 2])
    ]
    assert dashed == ["--", "-"]


def test_rows_are_coloured_by_predicted_cluster(models, table):
    model = models["kmeans"]
    ax = plot.clusters(model, rows=table, ax=new_axes())
    colours = ax.collections[0].get_facecolors()
    kept = np.linspace(0, len(table) - 1, 5000).astype(int)
    labels = model.predict(table)[kept]
    for label in range(4):
        assert len(np.unique(colours[labels == label], axis=0)) == 1
    assert len(np.unique(colours, axis=0)) == 4


def test_clusters_of_one_column(models, clouds):
    for name, columns in (("one column", None), ("kmeans", "bmi")):
        ax = plot.clusters(models[name], columns, ax=new_axes())
        assert len(ax.get_yticks()) == len(
            getattr(models[name], "cluster_centers_", getattr(models[name], "means_", None))
        )
    drawn = plot.clusters(models["one column"], rows=clouds[:, :1], ax=new_axes())
    assert len(drawn.collections[0].get_offsets()) == 5000


def test_weights_are_bars_with_two_standard_errors(models):
    model = models["mixture"]
    ax = plot.weights(model, ax=new_axes())
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], model.weights_)
    spans = np.ptp(bars_of(ax)[0][:, :, 1], axis=1)
    np.testing.assert_allclose(spans, 4 * model.standard_errors_["weights"])
    assert not any(bar.get_hatch() for bar in ax.patches)


def test_a_share_within_the_noise_is_hatched(models):
    model = pickle.loads(pickle.dumps(models["mixture"]))
    model.standard_errors_["weights"][1] = model.weights_[1]
    bars = plot.weights(model, ax=new_axes()).patches
    assert [bool(bar.get_hatch()) for bar in bars] == [False, True, False]


def test_profiles_are_coloured_by_distance_in_widths_of_bounds(models):
    model = models["mixture"]
    ax = plot.profiles(model, ax=new_axes())
    low, high = model.schema.bounds
    expected = (model.means_ - model.weights_ @ model.means_) / (high - low)
    np.testing.assert_allclose(ax.images[0].get_array(), expected, atol=1e-12)
    first = f"{model.means_[0, 0]:.1f}\n±{model.standard_errors_['means'][0, 0]:.2g}"
    assert ax.texts[0].get_text() == first
    assert [label.get_text() for label in ax.get_xticklabels()] == [
        "age (years)",
        "bmi (kg/m2)",
        "systolic (mmHg)",
    ]
    centres = models["kmeans"].cluster_centers_
    found = plot.profiles(models["kmeans"], ax=new_axes()).images[0].get_array()
    np.testing.assert_allclose(found, (centres - centres.mean(axis=0)) / (high - low))


def test_profiles_of_classes_are_probabilities(models):
    model = models["classes"]
    found = plot.profiles(model, ax=new_axes()).images[0]
    np.testing.assert_allclose(found.get_array(), np.concatenate(model.probabilities_, axis=1))
    assert found.get_clim() == (0, 1)
    yes = plot.profiles(models["yes and no"], ax=new_axes()).images[0].get_array()
    np.testing.assert_allclose(yes, models["yes and no"].probabilities_)
    means = models["counts"].means_
    found = plot.profiles(models["counts"], ax=new_axes()).images[0].get_array()
    np.testing.assert_allclose(found, (means - models["counts"].weights_ @ means) / [110, 60])


def test_dates_of_a_profile_are_shown_as_dates():
    schema = dpem.Schema({"day": {"kind": "date", "bounds": ["2020-01-01", "2021-12-31"]}})
    days = pd.DataFrame({"day": pd.date_range("2020-06-01", periods=500).repeat(10)})
    model = seeded(dpem.KMeans(1, epsilon=5.0, schema=schema), days)
    assert plot.profiles(model, ax=new_axes()).texts[0].get_text().startswith("20")
    ax = plot.clusters(model, ax=new_axes())
    ax.figure.canvas.draw()
    assert all(label.get_text().startswith("202") for label in ax.get_xticklabels())


def test_loadings_are_correlations_with_the_factor(models):
    model = models["factors"]
    ax = plot.loadings(model, ax=new_axes())
    expected = model.components_ / np.sqrt(np.diagonal(model.get_covariance()))
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    assert np.abs(expected).max() <= 1
    hidden = model.standard_errors_["components"] > np.abs(model.components_)
    assert len(ax.patches) == hidden.sum()


# -- tables --------------------------------------------------------------------------------------------------


def test_margins_are_the_marginals_of_a_synthetic_table(models):
    model = models["table"]
    axes = plot.margins(model, axes=Figure().subplots(3, 3))
    for ax, column in zip(axes, model.schema.columns, strict=True):
        expected = model.marginals(column.name)
        stairs = [patch for patch in ax.patches if hasattr(patch, "get_data")]
        if stairs:  # probabilities over widths
            values, edges, _ = stairs[0].get_data()
            np.testing.assert_allclose(values * np.diff(edges), expected)
            low, high = column.limits
            half = 0.5 * column.is_whole
            assert (edges[0], edges[-1]) == (low - half, high + half)
        else:
            np.testing.assert_allclose([bar.get_height() for bar in ax.patches], expected)
    assert axes[7].get_xticklabels()[-1].get_text() == "missing"


def test_margins_of_rows_are_their_shares(models, table):
    ax = plot.margins(models["table"], "smoker", rows=table, axes=new_axes())[0]
    real = [bar.get_height() for bar in ax.patches][3:]
    smoker = table["smoker"]
    np.testing.assert_allclose(
        real, [(smoker == value).sum() / len(table) for value in (False, True)] + [smoker.isna().mean()]
    )
    ages = plot.margins(models["table"], "age", rows=table, axes=new_axes())[0].patches[1].get_data()
    np.testing.assert_allclose(
        ages.values * np.diff(ages.edges), np.histogram(table["age"], ages.edges)[0] / len(table)
    )


def test_margins_of_classes(models, clouds):
    model = models["classes"]
    for ax, law in zip(plot.margins(model), model.probabilities_, strict=True):
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], model.weights_ @ law)
    model = models["yes and no"]
    ax = plot.margins(model, 1, rows=clouds > 0, axes=[new_axes()])[0]
    yes = float(model.weights_ @ model.probabilities_[:, 1])
    real = float((clouds[:, 1] > 0).mean())
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], [1 - yes, yes, 1 - real, real])


@pytest.mark.parametrize("column", ["stay", "age"])  # by values, and by intervals
def test_margins_of_counts_are_poisson(models, column):
    model = models["counts"]
    place = column == "stay"
    values, edges, _ = plot.margins(model, column, axes=new_axes())[0].patches[0].get_data()
    assert (values * np.diff(edges)).sum() == pytest.approx(1)
    k = np.arange(math.ceil(edges[0]), math.ceil(edges[5]))
    means = model.means_[:, int(place)]
    expected = model.weights_ @ np.exp(k * np.log(means[:, None]) - means[:, None] - special.gammaln(k + 1))
    assert (values * np.diff(edges))[:5].sum() == pytest.approx(expected.sum())


def test_margins_of_a_density_are_curves(models):
    model = models["mixture"]
    x, y = plot.margins(model, "bmi", axes=new_axes())[0].lines[0].get_data()
    np.testing.assert_allclose(y, model._gaussians().marginal([1]).densities(x[:, None]).sum(axis=1))


def test_association_is_cramers_v():
    rng = np.random.default_rng(0)
    a = rng.integers(3, size=4000)
    frame = pd.DataFrame(
        {"a": a, "same": a + 1, "other": rng.integers(3, size=4000), "x": a + 0.1 * rng.random(4000)}
    )
    for given in (frame, pl.from_pandas(frame), frame.to_numpy()):
        values = plot.association(given, ax=new_axes()).images[0].get_array()
        assert values[0, 1] == pytest.approx(1, abs=0.01)
        assert values[0, 2] < 0.03
        assert values[0, 3] > 0.8
        np.testing.assert_array_equal(values, values.T)


def test_cramers_v_of_a_table_by_hand():
    """Chi squared of [[30, 10], [10, 30]] is 20; less the bias, phi squared is 20/80 - 1/79."""
    first, second = np.repeat([0, 0, 1, 1], [30, 10, 10, 30]), np.repeat([0, 1, 0, 1], [30, 10, 10, 30])
    expected = math.sqrt((20 / 80 - 1 / 79) / (2 - 1 / 79 - 1))
    assert cramers_v(first, second) == pytest.approx(expected)
    assert cramers_v(np.zeros(10, dtype=int), second[:10]) == 0


def test_association_supports_missing_cells_and_constant_columns():
    frame = pd.DataFrame({"a": [1.0, np.nan] * 50, "b": ["x", None] * 50, "c": 1})
    values = plot.association(frame, ax=new_axes()).images[0].get_array()
    assert values[0, 1] == pytest.approx(1)
    assert values[0, 2] == 0


def test_association_of_a_model_equals_that_of_its_rows(models, table):
    synthetic = plot.association(models["table"], ax=new_axes()).images[0].get_array()
    real = plot.association(table[list(PATIENTS_SCHEMA.names)], ax=new_axes()).images[0].get_array()
    assert np.abs(synthetic - real).max() < 0.25
    assert plot.association(models["missing"], ax=new_axes()).get_xticklabels()[0].get_text() == "x0"


def test_data_quality_shows_the_released_counts():
    schema = dpem.Schema(
        {"a": {"kind": "continuous", "bounds": [0, 1]}, "b": {"kind": "continuous", "bounds": [0, 9]}}
    )
    rows = np.random.default_rng(0).uniform(0, 9, (5000, 2))
    with pytest.warns(dpem.errors.DataQualityWarning):
        model = seeded(dpem.KMeans(1, epsilon=5.0, schema=schema), rows)
    ax = plot.data_quality(model, ax=new_axes())
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], model.data_quality_.counts.T.ravel())
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False] * 6 + [True, False]  # clipped
    np.testing.assert_allclose(np.ptp(bars_of(ax)[0][:, :, 0], axis=1), 4 * model.data_quality_.noise)


# -- budgets and guarantees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixture", "kmeans", "factors", "table"])
def test_bars_of_a_plan_are_its_shares_of_the_budget(models, name):
    model = models[name]
    for given in (model, model.plan_):
        bars = plot.plan(given, ax=new_axes()).patches
        shares = [stage.share for stage in model.plan_.stages]
        np.testing.assert_allclose(sorted(bar.get_width() for bar in bars), sorted(shares))
        assert sum(bar.get_width() for bar in bars) == pytest.approx(1)


def test_noise_equals_that_of_the_planner():
    model = dpem.GaussianMixture(8, epsilon=math.inf, bounds=(0, 1))
    ax = plot.noise(model, 5000, [10.0, 0.03, 1.0], columns=2, spread=0.2, ax=new_axes())
    lines = {line.get_label(): line for line in ax.lines}
    x, y = lines["mean"].get_data()
    assert list(x) == [0.03, 1.0, 10.0]
    for epsilon, found in zip(x, y, strict=True):
        outlook = dpem.plan(model.set_params(epsilon=epsilon), 5000, columns=2, spread=0.2)
        assert found == max(entry.relative for entry in outlook.noise if entry.parameter == "mean")
    granted = [dpem.plan(model.set_params(epsilon=e), 5000, columns=2).granted["components"] for e in x]
    open_markers = [
        line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert granted[0] < 8
    assert list(open_markers[0].get_xdata()) == [e for e, k in zip(x, granted, strict=True) if k < 8]
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_noise_does_not_change_its_model():
    model = dpem.KMeans(3, epsilon=0.7, bounds=(0, 1))
    plot.noise(model, 1000, [1.0], columns=2, ax=new_axes())
    assert model.epsilon == 0.7


def test_the_ledger_fills_to_the_total_of_its_accountant(ledger):
    ax = plot.ledger(ledger, ax=new_axes())
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches][1::2]
    charges = ledger.history()
    for k, end in enumerate(ends, start=1):
        event = ComposedEvent(tuple((charge.event, 1) for charge in charges[:k]))
        assert end == pytest.approx(accountant_named("gdp").epsilon(event, 1e-6), rel=1e-9)
    assert ax.lines[0].get_xdata()[0] == 2.0
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == r"1 income in \$, bounds of \$"
    assert len(names[2]) == 40
    ax.figure.canvas.draw()  # a dollar sign does not start a formula
    by_path = plot.ledger(ledger.path, ax=new_axes())
    assert len(by_path.patches) == len(ax.patches)


def test_a_ledger_with_many_charges_is_a_curve(tmp_path):
    made = dpem.Ledger.create(tmp_path / "l", name="p", cap_epsilon=2.0, cap_delta=1e-6)
    plot.ledger(made, ax=new_axes())
    for _ in range(41):
        made.spend(GaussianEvent(100.0), purpose="one of many")
    y = plot.ledger(made, ax=new_axes()).lines[0].get_ydata()
    expected = accountant_named("gdp").epsilon(ComposedEvent(((GaussianEvent(100.0), 41),)), 1e-6)
    assert y[-1] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["mixture", "table"])
def test_the_privacy_curve_equals_that_of_the_accountant(models, name):
    statement = models[name].privacy_
    for given in (models[name], statement):
        ax = plot.privacy_curve(given, ax=new_axes())
        x, y = ax.lines[0].get_data()
        expected = [accountant_named("gdp").delta(statement.event, epsilon) for epsilon in x[::20]]
        np.testing.assert_allclose(y[::20], expected)
        assert (ax.lines[1].get_xdata()[0], ax.lines[1].get_ydata()[0]) == (
            statement.epsilon,
            statement.delta,
        )
        assert "NOT PRIVATE" in ax.lines[1].get_label()  # the noise was seeded


def test_the_curve_of_another_accountant():
    model = dpem.load(KEPT / "paper-gaussianmixture.dpem")
    x, y = plot.privacy_curve(model, ax=new_axes()).lines[0].get_data()
    statement = model.privacy_
    assert statement.accountant != "gdp"
    assert y[10] == accountant_named(statement.accountant).delta(statement.event, x[10])


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_trade_off_touches_the_bound_of_epsilon_and_delta(epsilon):
    """The curve lies on or above the bound of an (epsilon, delta) mechanism, and touches it."""
    ax = plot.trade_off(epsilon, delta=1e-4, ax=new_axes())
    alpha, beta = ax.lines[0].get_data()
    mu = mu_for(epsilon, 1e-4)
    np.testing.assert_allclose(beta, special.ndtr(special.ndtri(1 - alpha) - mu), atol=1e-12)
    above = beta - (1 - 1e-4 - math.exp(epsilon) * alpha)
    assert above.min() >= -1e-12
    assert above.min() < 1e-5


# -- common to all figures ----------------------------------------------------------------------------------


DRAWN = {
    "density": "mixture",
    "clusters": "mixture",
    "profiles": "mixture",
    "weights": "mixture",
    "loadings": "factors",
    "margins": "table",
    "association": "table",
    "data_quality": "mixture",
    "plan": "mixture",
    "privacy_curve": "mixture",
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_does_not_change_model_style_and_pyplot(models, name):
    """Without axes, one new figure is opened; given axes are used and returned."""
    model, draw = models[DRAWN[name]], getattr(plot, name)
    before, style = pickle.dumps(model), dict(mpl.rcParams)
    argument = "axes" if name == "margins" else "ax"
    first = np.ravel(draw(model))[0]
    assert len(plt.get_fignums()) == 1
    first.figure.canvas.draw()
    given = Figure().subplots(3, 3) if name == "margins" else new_axes()
    found = draw(model, **{argument: given})
    assert np.ravel(found)[0] is np.ravel(given)[0]
    found = np.ravel(found)[0]
    found.figure.canvas.draw()
    assert len(plt.get_fignums()) == 1
    assert pickle.dumps(model) == before
    assert dict(mpl.rcParams) == style


@pytest.mark.parametrize("name", DRAWN)
def test_a_loaded_model_gives_the_same_figure(models, name, tmp_path):
    """A file contains everything for the figure, so that no rows are needed."""
    model, draw = models[DRAWN[name]], getattr(plot, name)
    model.save(tmp_path / "m.dpem")
    pictures = []
    for one in (model, dpem.load(tmp_path / "m.dpem")):
        figure = np.ravel(draw(one))[0].figure
        figure.canvas.draw()
        pictures.append(np.asarray(figure.canvas.buffer_rgba()).copy())
    np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize("name", DRAWN)
def test_an_unfitted_model_is_refused(name):
    estimator = dpem.GaussianMixture(2, epsilon=1.0, bounds=(0, 1))
    with pytest.raises(NotFittedError):
        getattr(plot, name)(estimator)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("density", "kmeans"),
        ("density", "table"),
        ("clusters", "factors"),
        ("clusters", "classes"),
        ("profiles", "factors"),
        ("profiles", "table"),
        ("weights", "kmeans"),
        ("weights", "table"),
        ("loadings", "mixture"),
        ("margins", "kmeans"),
        ("association", "kmeans"),
    ],
)
def test_an_unsupported_model_is_refused_with_a_remedy(models, name, model):
    public = models[model]._public_name
    with pytest.raises(TypeError, match=rf"^Expected a fitted .*, got {public}\. .*\.$"):
        getattr(plot, name)(models[model])


@pytest.mark.parametrize("name", [*DRAWN, "noise"])
def test_estimators_of_other_packages_are_refused(name):
    foreign = PlainKMeans(2)
    arguments = (1000,) if name == "noise" else ()
    with pytest.raises((TypeError, InvalidArgumentError), match=r"^Expected .*, got .*KMeans"):
        getattr(plot, name)(foreign, *arguments)


def test_a_non_private_model_has_a_density_but_no_guarantee(clouds):
    model = dpem.GaussianMixture(3, epsilon=math.inf, bounds=(-6, 6)).fit(clouds)
    plot.density(model, ax=new_axes())
    plot.clusters(model, ax=new_axes())
    plot.profiles(model, ax=new_axes())
    plot.weights(model, ax=new_axes())
    for name in ("plan", "privacy_curve"):
        with pytest.raises(InvalidArgumentError, match="got one"):
            getattr(plot, name)(model)
    with pytest.raises(InvalidArgumentError, match="data_quality=True"):
        plot.data_quality(model)


def test_the_papers_methods_have_figures():
    mixture = dpem.load(KEPT / "paper-gaussianmixture.dpem")
    plot.density(mixture, ax=new_axes())
    plot.weights(mixture, ax=new_axes())
    plot.plan(mixture, ax=new_axes())
    assert len(plot.clusters(dpem.load(KEPT / "paper-kmeans.dpem"), ax=new_axes()).texts) > 1
    plot.loadings(dpem.load(KEPT / "paper-factoranalysis.dpem"), ax=new_axes())


@pytest.mark.parametrize("columns", ["weight", 7, -1, [0, 0], [], [0, 1, 2], True, 1.5])
def test_unknown_columns_are_refused(models, columns):
    with pytest.raises(InvalidArgumentError, match=r"^Expected .*'age', 'bmi', 'systolic'"):
        plot.density(models["mixture"], columns)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda model: plot.density(model, levels=0), InvalidArgumentError),
        (lambda model: plot.density(model, ax="axes"), TypeError),
        (lambda model: plot.margins(model, axes=Figure().subplots(1, 2)), InvalidArgumentError),
        (lambda model: plot.noise(model, 1000, []), InvalidArgumentError),
        (lambda model: plot.trade_off([]), InvalidArgumentError),
        (lambda model: plot.trade_off([1, -1]), InvalidArgumentError),
        (lambda model: plot.association([1, 2, 3]), TypeError),
        (lambda model: plot.association(pd.DataFrame({"a": [1, 2]})), InvalidArgumentError),
    ],
)
def test_invalid_arguments_are_named(models, call, error):
    with pytest.raises(error, match=r"^Expected "):
        call(models["mixture"])
    assert not plt.get_fignums()


def test_a_column_name_is_shown_verbatim():
    schema = dpem.Schema(
        {
            "$a$ in $": {"kind": "continuous", "bounds": [0, 1]},
            "b_{": {"kind": "continuous", "bounds": [0, 1]},
        }
    )
    model = seeded(
        dpem.GaussianMixture(1, epsilon=5.0, schema=schema), np.random.default_rng(0).random((2000, 2))
    )
    for name in ("density", "clusters", "profiles", "margins", "association", "data_quality"):
        np.ravel(getattr(plot, name)(model))[0].figure.canvas.draw()


@pytest.mark.parametrize("name", plot.__all__)
def test_every_docstring_states_the_cost_in_privacy(name):
    text = inspect.getdoc(getattr(plot, name))
    stated = text.partition("Privacy\n-------\n")[2]
    assert "free" in stated or "nothing is charged" in stated
    assert ("do not publish it" in stated) == (
        "rows" in inspect.signature(getattr(plot, name)).parameters or name == "association"
    )


def test_without_matplotlib_the_error_names_the_extra():
    """The module can be imported without matplotlib; only drawing raises."""
    program = """
import sys
sys.modules["matplotlib"] = None
import dpem, dpem.plot
from dpem.errors import MissingExtraError
try:
    dpem.plot.trade_off(1.0)
except MissingExtraError as error:
    assert "pip install '.[plot]'" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_the_module_does_not_import_matplotlib():
    program = "import sys, dpem.plot, dpem.reproduce; dpem.plot.density; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "False"
