"""The private Gaussian mixture: fits, bits, replays, relations, files, and scikit-learn's checks."""

import dataclasses
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture as PlainGaussianMixture

import dpem
from dpem import GaussianMixture, Ledger, Schema, _compiled
from dpem.errors import (
    DataQualityWarning,
    FewerComponentsWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    ModelFileError,
    NoLedgerWarning,
    WeakFitWarning,
)
from dpem.fitting.standard_errors import few_draws
from dpem.testing import Recording, insecure_noise, record, replay
from support.blocks import blocks_of
from support.scikit_learn import checks

RELATIONS = ["replace_one", "add_remove"]
KINDS = ["full", "tied", "diag", "spherical"]


def blobs(n=4000, d=2, k=3, seed=0, spread=0.06):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-0.8, 0.8, (k, d)) / math.sqrt(d)
    return centres[rng.integers(k, size=n)] + rng.normal(0, spread, (n, d))


def seeded_fit(X, seed=5, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(seed):
            settings = {"n_components": 3, "epsilon": 1.0, "data_norm": 1.0, "random_state": 0} | arguments
            return GaussianMixture(**settings).fit(X)


def same(one, two):
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    np.testing.assert_array_equal(one.background_.weights, two.background_.weights)


# -- fits ------------------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("d", [1, 2, 6])
def test_separated_clusters_are_found(d, covariance_type, adjacency):
    """At a comfortable budget the density is within a tenth of a nat of the plain fit, on secure noise."""
    X = blobs(n=20_000, d=d, spread=0.05)
    model = GaussianMixture(
        3, epsilon=3.0, data_norm=1.5, covariance_type=covariance_type, adjacency=adjacency, random_state=0
    ).fit(X)
    plain = PlainGaussianMixture(3, covariance_type=covariance_type, n_init=5, random_state=0).fit(X)
    assert model.score(X) > plain.score(X) - 0.1
    assert model.covariances_.shape == plain.covariances_.shape
    assert model.precisions_cholesky_.shape == plain.precisions_cholesky_.shape
    for name in ("weights", "means", "covariances"):
        assert model.standard_errors_[name].shape == getattr(model, f"{name}_").shape
        assert (model.standard_errors_[name] >= 0).all()
        assert model.standard_errors_[name].max() < 0.05


def test_the_mixture_is_in_the_units_of_the_columns():
    """Other units and bounds give the same mixture; log-densities differ by the Jacobian."""
    X = blobs(n=3000)
    scale, shift = np.array([64.0, 0.25]), np.array([1024.0, -8.0])
    base = seeded_fit(X, data_norm=None, bounds=(-2, 2))
    moved = seeded_fit(X * scale + shift, data_norm=None, bounds=(-2 * scale + shift, 2 * scale + shift))
    np.testing.assert_allclose(moved.means_, base.means_ * scale + shift, rtol=1e-5)
    np.testing.assert_allclose(moved.covariances_, base.covariances_ * np.outer(scale, scale), rtol=1e-4)
    np.testing.assert_allclose(
        moved.score_samples(X * scale + shift), base.score_samples(X) - np.log(scale).sum(), atol=1e-3
    )


def test_many_narrow_modes():
    """Most of forty modes, each a hundredth as wide as the map, are found."""
    rng = np.random.default_rng(3)
    modes = rng.uniform(-0.65, 0.65, (40, 2))
    X = modes[rng.integers(40, size=60_000)] + rng.normal(0, 0.008, (60_000, 2))
    model = GaussianMixture(40, epsilon=2.0, data_norm=1.0, random_state=0).fit(X)
    truth = np.mean(
        np.log(np.mean([stats.multivariate_normal(m, 0.008**2).pdf(X[:2000]) for m in modes], axis=0))
    )
    assert model.score(X[:2000]) > truth - 0.4


def test_far_rows_do_not_spoil_the_fit():
    """With one distant row in a hundred, components stay on the clusters; the background covers the rest."""
    X = blobs(n=20_000, spread=0.02)
    X[::100] = np.random.default_rng(0).uniform(-0.7, 0.7, (200, 2))
    with_background = GaussianMixture(3, epsilon=1.0, data_norm=1.0, random_state=0).fit(X)
    assert np.sqrt(np.linalg.eigvalsh(with_background.covariances_)).max() < 0.04
    assert 0.005 < with_background.background_.weights.sum() < 0.03
    without = GaussianMixture(3, epsilon=1.0, data_norm=1.0, background_weight=0, random_state=0).fit(X)
    assert without.background_.weights.size == 0
    assert without.score(X) < with_background.score(X)


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 60])
def test_few_rows_never_raise(n, covariance_type, adjacency):
    """There is always a proper density, even if nothing can be learned."""
    if n == 0 and adjacency == "replace_one":
        return  # the number of rows is public, and zero rows are refused
    X = blobs(n=60)[:n]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(
            5, epsilon=0.5, data_norm=1.0, covariance_type=covariance_type, adjacency=adjacency
        ).fit(X)
    assert model.weights_.sum() == pytest.approx(1)
    assert np.isfinite(model.score_samples(blobs(n=50))).all()
    assert (np.linalg.norm(model.means_, axis=1) <= 1 + 1e-9).all()


def test_an_epsilon_that_protects_nothing_is_not_advised():
    """A warning that would need an epsilon above 20 advises fewer components or more rows."""
    outlook = dpem.plan(GaussianMixture(9, epsilon=0.5, bounds=(0, 1)), 300, columns=6)
    (words,) = [words for words in outlook.warnings if "n_components" in words]
    assert "which protects nothing. Use fewer components, more rows," in words
    assert "use epsilon" not in words


def test_no_warning_advises_the_current_epsilon():
    """The advised epsilon and number of rows exceed the current ones, as written."""
    for n in range(2000, 9000, 500):
        for words in dpem.plan(GaussianMixture(1, epsilon=0.02, bounds=(0, 1)), n, columns=3).warnings:
            if "Remedies" in words:
                assert float(words.split("epsilon of about ")[1].split(",")[0]) > 0.02
                assert " 1 times the rows" not in words


@pytest.mark.filterwarnings("ignore::dpem.errors.WeakFitWarning")
def test_fewer_components_give_a_warning():
    """The warning states the number of fitted components and an epsilon that suffices for all of them."""
    X = blobs(n=2000, d=4)
    expected = r"got enough for 1 at .* epsilon of about"
    with pytest.warns(FewerComponentsWarning, match=expected) as caught:
        model = GaussianMixture(6, epsilon=0.05, data_norm=1.0, delta=1e-6).fit(X)
    assert model.n_components_ == len(model.weights_) == 1
    needed = float(str(caught[0].message).split("epsilon of about ")[1].split(",")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FewerComponentsWarning)
        GaussianMixture(6, epsilon=1.05 * needed, data_norm=1.0, delta=1e-6).fit(X)
    with pytest.warns(FewerComponentsWarning):
        GaussianMixture(6, epsilon=0.9 * needed, data_norm=1.0, delta=1e-6).fit(X)
    with pytest.warns(FewerComponentsWarning):
        GaussianMixture(6, epsilon=0.05, data_norm=1.0, adjacency="add_remove").fit(X)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_component_is_not_biased_by_clipping(d):
    """At small noise the variance of a Gaussian is correct within one or two hundredths."""
    X = np.random.default_rng(0).normal(size=(100_000, d))
    model = GaussianMixture(1, epsilon=20.0, delta=1e-7, data_norm=8.0).fit(X)
    np.testing.assert_allclose(np.diag(model.covariances_[0]), X.var(axis=0), rtol=0.025)


def test_bounds_may_be_far_wider_than_the_data():
    """Two clusters a ten-thousandth of the range wide are separated: the start looks near the pool."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(3e5 + shift, 100, (10_000, 1)) for shift in (-500, 500)])
    model = GaussianMixture(2, epsilon=5.0, bounds=(0, 1e6)).fit(X)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [3e5 - 500, 3e5 + 500], atol=20)


def test_a_warning_raised_as_an_error_loses_no_fit():
    """With add_remove the warning comes after the fit, so that the fitted model is kept."""
    model = GaussianMixture(8, epsilon=0.1, data_norm=1.0, adjacency="add_remove")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NoLedgerWarning)
        with pytest.raises((FewerComponentsWarning, WeakFitWarning)):
            model.fit(blobs(n=1000))
    assert np.isfinite(model.score(blobs(n=50)))


def test_a_public_start_is_used():
    """Given means replace the k-means start, which then costs no budget."""
    X = blobs()
    centres = [[0.1, 0.1], [0.2, -0.2], [-0.3, 0.3]]
    model = GaussianMixture(3, epsilon=2.0, data_norm=1.0, means_init=centres).fit(X)
    assert not any(stage.name in ("grid", "lloyd") for stage in model.plan_.stages)
    with pytest.raises(InvalidArgumentError, match="means_init"):
        GaussianMixture(3, epsilon=2.0, data_norm=1.0, means_init=centres[:2]).fit(X)


# -- bits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("covariance_type", KINDS)
def test_the_model_is_independent_of_order_block_size_and_threads(
    covariance_type, adjacency, compiled, monkeypatch
):
    """Sums are exact, so the order of summation does not show, with compiled kernels or without."""
    X = blobs(n=1500, d=3)
    arguments = {"covariance_type": covariance_type, "adjacency": adjacency, "max_iter": 4}
    base = seeded_fit(X, n_jobs=1, **arguments)
    monkeypatch.setattr(_compiled, "ENABLED", compiled)
    shuffled = seeded_fit(X[np.random.default_rng(1).permutation(len(X))], n_jobs=2, **arguments)
    same(shuffled, base)
    for block_rows in (17, 1499):
        with blocks_of(block_rows):
            same(seeded_fit(X, **arguments), base)
    small = seeded_fit(X[:200], **arguments)
    with blocks_of(1, kept=False):
        same(seeded_fit(X[:200], **arguments), small)


def test_every_kind_of_table_gives_the_same_model():
    """NumPy, pandas and polars give the same model, with the column names."""
    X = blobs(n=1000)
    base = seeded_fit(X)
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        model = seeded_fit(frame)
        same(model, base)
        assert list(model.feature_names_in_) == ["a", "b"]
        np.testing.assert_array_equal(model.score_samples(frame), base.score_samples(X))


# -- releases, and what stays private ------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_one_component_has_three_rounds_of_the_pooled_gaussian(adjacency):
    """EM with a background follows the three rounds."""
    X = blobs(n=900)
    with record() as transcript:
        GaussianMixture(1, epsilon=2.0, data_norm=1.0, max_iter=2, adjacency=adjacency).fit(X)
    assert [release.stage for release in transcript.releases] == [
        "pool 1",
        "pool 2",
        "pool 3",
        "em 1",
        "em 2",
    ]


def test_the_number_of_rows_stays_private(tmp_path):
    """With add_remove a replayed fit of fewer rows gives the same model, plan, statement and file."""
    X = blobs(n=3000)
    arguments = {"epsilon": 1.0, "data_norm": 1.0, "adjacency": "add_remove", "random_state": 0}
    with record() as transcript:
        model = GaussianMixture(3, **arguments).fit(X)
    with replay(transcript):
        fewer = GaussianMixture(3, **arguments).fit(X[:1234])
    assert vars(model).keys() == vars(fewer).keys()
    model.save(tmp_path / "a")
    fewer.save(tmp_path / "b")
    with np.load(tmp_path / "a") as one, np.load(tmp_path / "b") as two:
        assert one.files == two.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], two[name])


# -- the ledger and the statement ------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_ledger_statement_and_plan(tmp_path, adjacency):
    """A fit is charged once and in full; if a noisy number of rows shaped it, its steps cost no more."""
    X = blobs()
    path = tmp_path / "l"
    ledger = Ledger.create(path, name="x", cap_epsilon=1.0, cap_delta=1e-5, adjacency=adjacency)
    model = GaussianMixture(3, epsilon=1.0, bounds=(-1, 1), adjacency=adjacency, ledger=path).fit(X)
    charge = ledger.history()[0]
    assert charge.event == model.plan_.event == model.privacy_.event
    assert charge.purpose == "dpem.GaussianMixture.fit"
    n_releases = sum(stage.repeats for stage in model.plan_.stages)
    assert f"touched by {n_releases} Gaussian mechanisms" in str(model.privacy_)
    assert ("charged beforehand as " in str(model.privacy_)) is (adjacency == "add_remove")
    spent = sum(stage.repeats / stage.event.noise_multiplier**2 for stage in model.plan_.stages)
    assert spent <= model.plan_.budget.mu**2 * (1 + 1e-9)
    assert spent > 0.999 * model.plan_.budget.mu**2
    with pytest.raises(InsufficientBudgetError):
        GaussianMixture(3, epsilon=1.0, bounds=(-1, 1), adjacency=adjacency, ledger=ledger).fit(X)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"delta": 0},
        {"covariance_type": "round"},
        {"adjacency": "swap"},
        {"rows_per_person": 0},
        {"max_iter": 0},
        {"background_weight": -0.1},
        {"background_weight": 0.9},
        {"means_init": [[0, 0]]},
        {"means_init": [[0, 0], [0, 1], [math.nan, 1]]},
        {"n_jobs": 0},
        {"random_state": "x"},
        {"data_norm": None},
        {"bounds": (0, 1)},
    ],
)
def test_invalid_arguments_spend_nothing(tmp_path, arguments):
    """The error names the argument, and the ledger is not charged."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=9.0, cap_delta=1e-5)
    good = {"n_components": 3, "epsilon": 1.0, "data_norm": 1.0, "ledger": ledger}
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        GaussianMixture(**(good | arguments)).fit(blobs())
    assert ledger.history() == []


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_callers_floating_point_settings_do_not_reveal_rows(adjacency):
    """Denormal, huge and invalid rows never raise or warn, whatever NumPy's error settings."""
    X = blobs(n=400)
    X[0], X[1], X[2], X[3] = [1e-200, 0], [1e308, -1e308], [np.nan, 0], [5e-324, 5e-324]
    model = GaussianMixture(2, epsilon=5.0, delta=1e-6, data_norm=1.0, adjacency=adjacency)
    with np.errstate(all="raise", under="ignore"):
        model.fit(X)
    assert np.isfinite(model.covariances_).all()


# -- epsilon = inf ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_means", [False, True])
@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_infinite_epsilon_equals_scikit_learn(covariance_type, given_means, n_jobs):
    """From the same start and settings, all parameters agree to one part in a million."""
    X = blobs(n=5000, d=3, spread=0.2) * [1, 20, 0.1] + [5, -100, 0]
    means = X[[3, 700, 1500]] if given_means else None
    settings = {"covariance_type": covariance_type, "random_state": 3, "means_init": means, "tol": 1e-4}
    plain = PlainGaussianMixture(3, max_iter=300, **settings).fit(X)
    model = GaussianMixture(3, epsilon=math.inf, data_norm=1e4, max_iter=300, n_jobs=n_jobs, **settings).fit(
        X
    )
    assert plain.n_iter_ > 5
    assert model.n_iter_ == plain.n_iter_
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_", "precisions_"):
        scale = np.abs(getattr(plain, name)).max()
        np.testing.assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-6, atol=1e-9 * scale)
    assert model.score(X) == pytest.approx(plain.score(X), rel=1e-9)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    assert not model.privacy_.is_private
    with pytest.raises(InvalidArgumentError, match="background"):
        model.private_score(X, epsilon=1.0)


def test_plain_em_warns_if_it_does_not_converge(tmp_path):
    X = blobs(spread=0.3)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        GaussianMixture(3, epsilon=math.inf, data_norm=1.0, max_iter=2, tol=0).fit(X)
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    with pytest.raises(InvalidArgumentError, match="finite epsilon with a ledger"):
        GaussianMixture(3, epsilon=math.inf, data_norm=1.0, ledger=ledger).fit(X)


# -- standard errors -------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("k", [1, 3])
def test_standard_errors_agree_with_fresh_noise(k):
    """With all but the last release replayed, parameters vary by the stated standard errors.

    Averaging with earlier steps, and shrinkage that keeps small moves from showing, make the stated errors
    larger than the last release's own, never smaller.
    """
    X = blobs(n=5000)
    settings = {"epsilon": 1.0, "data_norm": 1.0, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            insecure_noise(0),
            record() as transcript,
        ):  # seeded, because the effect of shrinkage depends on the noise
            model = GaussianMixture(k, max_iter=2, **settings).fit(X)
    last = transcript.releases[-1]
    stddev = last.sensitivity * last.event.noise_multiplier * last.shape
    rng = np.random.default_rng(0)
    means, covariances = [], []
    for _ in range(60):
        noisy = last.raw + rng.normal(0, stddev)
        redrawn = [*transcript.releases[:-1], dataclasses.replace(last, noisy=noisy)]
        with replay(Recording(redrawn)), few_draws(1):
            again = GaussianMixture(k, max_iter=2, **settings).fit(X)
        means.append(again.means_)
        covariances.append(again.covariances_)
    stated = model.standard_errors_
    assert 0.5 < stated["means"].mean() / np.std(means, axis=0).mean() < 4.0
    assert 0.5 < stated["covariances"].mean() / np.std(covariances, axis=0).mean() < 2.5


# -- the density -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return seeded_fit(blobs(n=5000, d=3), data_norm=None, bounds=([-1, -1, -1], [1, 1, 1]))


def test_to_sklearn_has_the_same_density(fitted):
    X = blobs(n=500, d=3)
    plain = fitted.to_sklearn()
    np.testing.assert_allclose(plain.score_samples(X), fitted.score_samples(X), rtol=1e-10)
    assert plain.weights_.sum() == pytest.approx(1)
    assert plain.sample(10)[0].shape == (10, 3)


@pytest.mark.parametrize("covariance_type", KINDS)
def test_predictions_use_the_components_without_the_background(covariance_type):
    """Labels and probabilities ignore the background; densities include it."""
    X = blobs(n=3000, d=3)
    model = seeded_fit(X, covariance_type=covariance_type)
    plain = PlainGaussianMixture(3, covariance_type=covariance_type)
    plain.weights_, plain.means_, plain.covariances_ = model.weights_, model.means_, model.covariances_
    plain.precisions_cholesky_ = model.precisions_cholesky_
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    without = plain.score_samples(X) + np.log(1 - model.background_.weights.sum())
    assert (model.score_samples(X) > without).all()
    with pytest.raises(InvalidArgumentError, match="NaN or infinity"):
        model.predict([[np.nan, 0.0, 0.0]])
    assert not hasattr(model, "lower_bound_")
    assert not hasattr(model, "fit_predict")


def test_the_density_integrates_to_one(fitted):
    """The integral is estimated by importance sampling from scikit-learn's copy."""
    X, _ = fitted.to_sklearn().sample(20_000)
    volume = np.exp(
        stats.multivariate_normal(np.zeros(3), np.eye(3)).logpdf(X) - fitted.score_samples(X)
    ).mean()
    assert volume == pytest.approx(1, abs=0.5)


def test_sample(fitted):
    """Rows follow the mixture within the bounds; rows of the background are marked."""
    X, y = fitted.sample(20_000, return_components=True)
    assert X.shape == (20_000, 3)
    for k in range(3):
        inside = X[y == k]
        assert len(inside) / 20_000 == pytest.approx(fitted.weights_[k], abs=0.03)
        np.testing.assert_allclose(inside.mean(axis=0), fitted.means_[k], atol=0.02)
        np.testing.assert_allclose(np.cov(inside.T), fitted.covariances_[k], atol=0.002)
    assert (y == -1).any()
    assert (np.abs(X) <= 1).all()
    assert (np.diff(y) >= 0).all()
    np.testing.assert_array_equal(fitted.sample(5), fitted.sample(5))  # random_state=0
    with pytest.raises(InvalidArgumentError, match="n_samples"):
        fitted.sample(0)


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("covariance_type", ["full", "spherical"])
def test_private_score(adjacency, covariance_type, tmp_path):
    """It agrees with the score within its error, in the units of the columns, and is charged."""
    X = blobs(n=20_000) * [3, 40]
    model = GaussianMixture(
        3, epsilon=2.0, bounds=([-3, -40], [3, 40]), adjacency=adjacency, covariance_type=covariance_type
    ).fit(X)
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5, adjacency=adjacency)
    released = model.private_score(X, epsilon=1.0, ledger=ledger)
    assert abs(released.value - model.score(X)) < 8 * released.standard_error + 1e-4
    assert released.standard_error < 0.1
    assert ledger.history()[0].purpose == "dpem.private_score"
    with pytest.raises(InsufficientBudgetError):  # the ledger of the model is charged by default
        model.set_params(ledger=ledger).private_score(X, epsilon=1.0)
    with pytest.raises(NotFittedError):
        clone(model).private_score(X, epsilon=1.0)


def test_private_score_checks_columns_before_it_charges(tmp_path):
    """Another number of columns or other names raise before anything is spent."""
    frame = pd.DataFrame(blobs(), columns=["a", "b"])
    model = GaussianMixture(2, epsilon=2.0, bounds=(-1, 1)).fit(frame)
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    for wrong in (frame[["b", "a"]], frame[["a"]], frame.assign(c=0.0)):
        with pytest.raises(InvalidArgumentError, match=r"feature"):
            model.private_score(wrong, epsilon=1.0, ledger=ledger)
    assert ledger.history() == []


def test_error_of_a_private_score_includes_the_noise_of_the_number_of_rows():
    """Over many releases the spread equals the stated error, also with add_remove."""
    X = blobs(n=1000)
    for adjacency in RELATIONS:
        model = GaussianMixture(1, epsilon=5.0, data_norm=1.0, adjacency=adjacency, n_jobs=1).fit(X)
        releases = [model.private_score(X, epsilon=0.3) for _ in range(150)]
        ratio = np.std([r.value for r in releases]) / np.mean([r.standard_error for r in releases])
        assert 0.7 < ratio < 1.3


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_one_row_moves_the_private_score_within_its_sensitivity(adjacency):
    """Rows lie at the largest and smallest density of the domain, and outside it."""
    X = blobs(n=500)
    model = GaussianMixture(3, epsilon=8.0, data_norm=1.0, adjacency=adjacency).fit(X)
    best = X[model.score_samples(X).argmax()]
    largest = 0.0
    for row in ([-1.0, 0.0], [0.7, 0.7], [0.7, -0.7], [1e9, 1e9], [np.nan, 0.0], best):
        with record() as first:
            model.private_score(np.concatenate([[best], X]), epsilon=1.0)
        neighbour = np.concatenate([[row], X]) if adjacency == "replace_one" else X
        with replay(first) as second:
            model.private_score(neighbour, epsilon=1.0)
        largest = max(largest, first.releases[0].distance(second.releases[0]))
    assert 0.5 < largest <= 1


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("covariance_type", KINDS)
@pytest.mark.parametrize("adjacency", RELATIONS)
def test_save_and_load(tmp_path, covariance_type, adjacency):
    """All released values are restored and densities agree; the file has no rows and no pickle."""
    frame = pd.DataFrame(blobs(), columns=["x", "y"])
    schema = Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in frame})
    model = GaussianMixture(
        3, epsilon=1.0, schema=schema, covariance_type=covariance_type, adjacency=adjacency, random_state=1
    ).fit(frame)
    model.save(tmp_path / "model.dpem")
    again = dpem.load(tmp_path / "model.dpem")
    same(again, model)
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    assert again.privacy_ == model.privacy_
    assert again.plan_ == model.plan_
    assert again.n_components_ == 3
    assert again.sample(7).shape == (7, 2)
    for name, value in model.standard_errors_.items():
        np.testing.assert_array_equal(again.standard_errors_[name], value)
    assert [file.name for file in tmp_path.iterdir()] == ["model.dpem"]
    with np.load(tmp_path / "model.dpem") as file:
        arrays = dict(file)
    for name in ("weights_", "background_means", "standard_error_means"):
        np.savez(tmp_path / "forged.npz", **{key: value for key, value in arrays.items() if key != name})
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / "forged.npz")
        np.savez(tmp_path / "forged.npz", **(arrays | {name: np.zeros((9, 9))}))
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / "forged.npz")
    for name, factor in (
        ("weights_", 2.0),
        ("covariances_", -1.0),
        ("means_", np.nan),
        ("background_weights", 9999.0),
    ):
        np.savez(tmp_path / "forged.npz", **(arrays | {name: arrays[name] * factor}))
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / "forged.npz")


def test_methods_raise_before_the_fit():
    model = GaussianMixture(2, epsilon=1.0, data_norm=1.0)
    for use in (lambda: model.sample(3), model.to_sklearn, lambda: model.predict([[0.0, 0.0]])):
        with pytest.raises(NotFittedError):
            use()


def test_verbose_prints_public_facts(capfd):
    GaussianMixture(2, epsilon=1.0, data_norm=1.0, max_iter=3, verbose=1).fit(blobs())
    assert "[GaussianMixture] em 3 of 3" in capfd.readouterr().err


# -- scikit-learn's own checks ---------------------------------------------------------------------------


class SeededMixture(GaussianMixture):
    """Repeat the noise, because scikit-learn's checks compare two fits of the same rows."""

    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


EXPECTED_FAILURES = {
    "check_dtype_object": "types are never inferred from cells: object arrays are refused by type",
    "check_estimators_nan_inf": "fit never raises because of private values: such rows count as the centre",
}


@pytest.mark.parametrize(
    ("estimator", "check"), list(checks(SeededMixture(2, epsilon=10.0, data_norm=100.0), EXPECTED_FAILURES))
)
@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_scikit_learn_checks(estimator, check):
    """Every check passes, or fails for a documented privacy reason."""
    check(estimator)


def test_samples_conform_to_the_schema():
    """With a schema, rows have its names and types and lie within bounds; otherwise they are an array."""
    rng = np.random.default_rng(0)
    schema = dpem.Schema(
        {"age": {"kind": "integer", "bounds": [0, 100]}, "pay": {"kind": "continuous", "bounds": [0, 9]}}
    )
    rows = np.column_stack([rng.normal(95, 10, 4000), rng.normal(1, 1, 4000)])
    for epsilon in (1.0, math.inf):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataQualityWarning)  # a third of the ages is clipped
            model = dpem.GaussianMixture(2, epsilon=epsilon, schema=schema, random_state=0).fit(rows)
        X, y = model.sample(500, return_components=True)
        assert X.dtypes.astype(str).to_dict() == {"age": "int64", "pay": "float64"}
        assert X["age"].between(0, 100).all()
        assert X["pay"].between(0, 9).all()
        assert y.shape == (500,)
    with pytest.warns(DataQualityWarning, match=r"'age': [23]\d% clipped"):
        model = dpem.FactorAnalysis(1, epsilon=1.0, schema=schema, random_state=0).fit(rows)
    factors = model.sample(50)
    assert list(factors.columns) == ["age", "pay"]
    assert str(factors["age"].dtype) == "int64"


def test_variances_of_columns_are_found_before_covariances():
    """With many columns and much noise, variances are found at budgets far too small for covariances.

    A covariance that is believed as a whole, or not at all, gains less than 3 nats over the round shape here.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 40)) * np.exp(-np.arange(40) / 12)
    X /= np.linalg.norm(X, axis=1).max()
    with pytest.warns(dpem.errors.InsecureNoiseWarning), dpem.testing.insecure_noise(1):
        model = dpem.GaussianMixture(1, epsilon=0.2, delta=1e-5, data_norm=1.0).fit(X)
    round_shape = -20 * np.log(2 * np.pi * np.e * X.var(axis=0).mean())
    own_variances = -20 * np.log(2 * np.pi * np.e) - 0.5 * np.log(X.var(axis=0)).sum()
    assert own_variances - round_shape > 15
    assert model.score(X) > round_shape + 0.8 * (own_variances - round_shape)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_too_many_steps_are_refused_before_the_charge(adjacency, tmp_path):
    """A released number of rows may choose the stages: all possible choices are checked beforehand."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=5.0, cap_delta=1e-5, adjacency=adjacency)
    model = GaussianMixture(2, epsilon=1.0, data_norm=1.0, max_iter=1000, adjacency=adjacency, ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="at most 1000 stages"):
        model.fit(np.zeros((500, 2)))
    assert not ledger.history()
