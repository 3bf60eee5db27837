"""k-means with columns in very different units, and centres clipped to public bounds."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans as PlainKMeans

import dpem
from dpem import FactorAnalysis, GaussianMixture, KMeans
from dpem.errors import InvalidArgumentError, WeakFitWarning, WeakSignalWarning
from dpem.fitting.ball import column_stretch
from dpem.statistics.simple import RelativeSums
from dpem.testing import insecure_noise, record, replay, trial_table

BOUNDS = ([0, 0], [120, 300_000])
WIDTHS = np.array([120.0, 300_000.0])


def apart(found, expected, units):
    """Return the distances of centres from the expected ones by column, for the best matching."""
    cost = np.linalg.norm((found[:, None] - expected) / units, axis=2)
    one, two = linear_sum_assignment(cost)
    return np.abs(found[one] - expected[two]).max(axis=0)


@pytest.mark.parametrize("seed", range(20))
def test_age_and_income_have_the_same_influence(seed):
    """With 8,000 rows at epsilon 1, centres are within 6 years and 6,000 of the best of 20 plain fits."""
    rows = trial_table("age_income", seed=seed).to_numpy()
    best = PlainKMeans(3, n_init=20, random_state=0).fit(rows / WIDTHS).cluster_centers_ * WIDTHS
    model = KMeans(3, epsilon=1.0, delta=1e-6, bounds=BOUNDS).fit(rows)
    years, income = apart(model.cluster_centers_, best, WIDTHS)
    assert years < 6
    assert income < 6000


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
@pytest.mark.parametrize("scale", ["bounds", "none"])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_centres_and_means_lie_in_the_bounds(scale, epsilon):
    rows = trial_table("age_income", n_rows=2000).to_numpy()
    low, high = map(np.array, BOUNDS)
    for adjacency in ("replace_one", "add_remove"):
        shared = {"epsilon": epsilon, "bounds": BOUNDS, "adjacency": adjacency}
        centres = KMeans(3, scale=scale, **shared).fit(rows).cluster_centers_
        means = GaussianMixture(2, **shared).fit(rows).means_
        mean = FactorAnalysis(1, **shared).fit(rows).mean_
        for found in (centres, means, mean):
            assert (found >= low).all()
            assert (found <= high).all()


def test_the_default_scale_follows_the_bounds():
    """It is "bounds" with a schema or bounds for each column, else "none"."""
    schema = dpem.Schema({"x": {"kind": "continuous", "bounds": [0, 2]}})
    settings = {
        "bounds": ({"bounds": ([0, 0], [1, 2])}, {"schema": schema}, {"bounds": (0, 1), "scale": "bounds"}),
        "none": ({"bounds": (0, 1)}, {"data_norm": 1.0}, {"schema": schema, "scale": "none"}),
    }
    for scale, arguments in settings.items():
        for given in arguments:
            assert KMeans(2, epsilon=1.0, **given)._keeps_distances == (scale == "none")
    with pytest.raises(InvalidArgumentError, match="scale"):
        KMeans(2, epsilon=1.0, bounds=(0, 1), scale="widths").fit(np.zeros((9, 2)))
    with pytest.raises(InvalidArgumentError, match="use scale='none'"):
        KMeans(2, epsilon=1.0, data_norm=1.0, scale="bounds").fit(np.zeros((9, 2)))


def test_predictions_and_scores_are_in_widths(tmp_path):
    """`predict`, `transform`, `score` and `nicv` use the units of the fit, also after loading a file."""
    rows = trial_table("age_income", n_rows=3000).to_numpy()
    model = KMeans(3, epsilon=5.0, bounds=BOUNDS).fit(rows)
    model.save(tmp_path / "m")
    scaled, centres = rows / WIDTHS, model.cluster_centers_ / WIDTHS
    distances = np.linalg.norm(scaled[:, None] - centres, axis=2)
    for fitted in (model, dpem.load(tmp_path / "m")):
        np.testing.assert_array_equal(fitted.predict(rows), distances.argmin(axis=1))
        np.testing.assert_allclose(fitted.transform(rows), distances)
        assert -fitted.score(rows) == pytest.approx((distances.min(axis=1) ** 2).sum())
    expected = (distances.min(axis=1) ** 2).mean()
    assert dpem.nicv(rows, model.cluster_centers_, bounds=BOUNDS) == pytest.approx(expected)
    released = dpem.private_nicv(rows, model.cluster_centers_, epsilon=5.0, bounds=BOUNDS)
    assert released.value == pytest.approx(expected, abs=8 * released.standard_error + 1e-5)
    own = dpem.private_nicv(rows, model.cluster_centers_, epsilon=5.0, bounds=BOUNDS, scale="none")
    plain = dpem.nicv(rows, model.cluster_centers_)
    assert own.value == pytest.approx(plain, abs=8 * own.standard_error + 1e-5 * plain)


def test_plain_fits_scale_too():
    rows = trial_table("age_income", n_rows=3000).to_numpy()
    model = KMeans(3, epsilon=math.inf, bounds=BOUNDS, random_state=0).fit(rows)
    plain = PlainKMeans(3, n_init=10, random_state=0).fit(rows / WIDTHS).cluster_centers_ * WIDTHS
    assert apart(model.cluster_centers_, plain, WIDTHS).max() < 1e-6
    assert KMeans(3, epsilon=math.inf, bounds=BOUNDS, max_iter=1, random_state=0).fit(rows).n_iter_ == 1


def test_noise_of_a_narrow_column_follows_its_width():
    """Also with scale="none", the noise of ages is far smaller than that of incomes."""
    rows = trial_table("age_income").to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(0):
            model = KMeans(3, epsilon=1.0, bounds=BOUNDS, scale="none").fit(rows)
    assert model.standard_errors_["cluster_centers"][:, 0].max() < 30  # ages are at most 120


def test_stretched_rows_fill_the_ball_and_no_more():
    """The ellipsoid contains all rows with the least volume; equal widths stay unchanged."""
    rng = np.random.default_rng(0)
    assert column_stretch(1.0, np.full(5, 2.0)) is None
    for d in (2, 3, 8):
        for _ in range(50):
            widths = 10.0 ** rng.uniform(-3, 1, d)
            stretch = column_stretch(1.0, widths)
            if stretch is None:
                continue
            rows = rng.normal(size=(4000, d))
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
            rows *= np.minimum(1.0, (widths / np.abs(rows)).min(axis=1, keepdims=True))  # on the boundary
            assert np.linalg.norm(rows / stretch, axis=1).max() <= 1 + 1e-9
            assert np.log(stretch).sum() <= 1e-12  # no larger than the ball
            assert (
                np.log(stretch).sum() <= np.log(np.sqrt(d) * widths).sum() + 1e-12
            )  # nor than the ellipsoid of the box
    everything = column_stretch(1.0, np.array([0.1, 0.2]))
    np.testing.assert_allclose(everything, np.sqrt(2) * np.array([0.1, 0.2]))


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_a_stretched_statistic_keeps_its_sensitivity(adjacency):
    """For any rows, vectors stay within the radius, and sums of neighbours within the sensitivity."""
    rng = np.random.default_rng(0)
    centres = np.rint(rng.uniform(-1, 1, (3, 4)) * 2.0**22)
    query = RelativeSums(centres, 2.0**21, 0.7, np.array([1e-4, 0.3, 1.1, 2.0]))
    limit = query.sensitivity(adjacency) * (1 + 1e-12)
    rows = np.rint(rng.uniform(-1, 1, (4, 400)) * 2.0**23)
    sums = [query.sum_block(rows[:, [i]]) for i in range(400)]
    for one, two in itertools.pairwise(sums):
        moved = one - two if adjacency == "replace_one" else one
        assert np.linalg.norm(moved.astype(float)) <= limit


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
@pytest.mark.parametrize("scale", ["bounds", "none"])
def test_releases_of_neighbouring_tables_differ_by_at_most_the_sensitivity(scale):
    rows = trial_table("age_income", n_rows=300).to_numpy()
    model = KMeans(2, epsilon=2.0, bounds=BOUNDS, scale=scale, random_state=0)
    with record() as first:
        model.fit(rows)
    for canary in ([0, 300_000], [120, 0], [1e9, -1e9], [math.nan, 5]):
        other = rows.copy()
        other[7] = canary
        with replay(first) as second:
            model.fit(other)
        pairs = zip(first.releases, second.releases, strict=True)
        assert max(a.distance(b) for a, b in pairs) <= 1


@pytest.mark.filterwarnings("ignore::dpem.errors.WeakFitWarning")
def test_the_warning_of_noise_precedes_the_charge(tmp_path):
    """It names columns, their noise and remedies; raised as an error, it costs nothing."""
    frame = trial_table("age_income", n_rows=400)
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=9.0, cap_delta=1e-3)
    for make in (
        lambda **a: KMeans(5, **a),
        lambda **a: GaussianMixture(1, **a),
        lambda **a: FactorAnalysis(1, **a),
    ):
        model = make(epsilon=0.05, bounds=BOUNDS, ledger=ledger)
        with warnings.catch_warnings():
            warnings.simplefilter("error", WeakSignalWarning)
            with pytest.raises(WeakSignalWarning, match=r"rows"):
                model.fit(frame)
    assert ledger.history() == []
    expected = r"'income' \(\d+%\), 'age' .*Remedies: epsilon of about .* times the rows"
    with pytest.warns(WeakSignalWarning, match=expected):
        GaussianMixture(1, epsilon=0.1, bounds=BOUNDS).fit(frame)
    outlook = dpem.plan(GaussianMixture(1, epsilon=0.1, bounds=BOUNDS), 400, columns=["age", "income"])
    assert any("Remedies" in words for words in outlook.warnings)


@pytest.mark.filterwarnings("ignore::dpem.errors.WeakFitWarning")
def test_tables_and_latent_classes_warn_of_noise_too():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(200) < 0.5, "b": rng.random(200) < 0.5})
    schema = dpem.Schema({"a": {"kind": "boolean"}, "b": {"kind": "boolean"}})
    with pytest.warns(WeakSignalWarning, match="times the rows"):
        dpem.BernoulliMixture(4, epsilon=0.1, schema=schema).fit(table)
    with pytest.warns(WeakSignalWarning):
        dpem.MixedMixture(schema=schema, epsilon=0.05).fit(table)


def test_a_weak_fit_gives_a_warning_after_the_fit():
    """The warning also appears in print and in the report; a good fit has none."""
    rows = trial_table("age_income", n_rows=500).to_numpy()
    model = KMeans(8, epsilon=0.1, bounds=BOUNDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakSignalWarning)
        warnings.simplefilter("error", WeakFitWarning)
        with pytest.raises(WeakFitWarning, match="of 8 clusters may be empty"):
            model.fit(rows)
    assert "clusters may be empty" in str(model)
    assert "clusters may be empty" in dpem.report.render_report(model)
    strong = KMeans(3, epsilon=5.0, bounds=BOUNDS).fit(trial_table("age_income").to_numpy())
    assert "Weak" not in str(strong)
