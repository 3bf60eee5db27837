"""Private factor analysis: fits, bits, replays, basis, files, and scikit-learn's checks."""

import dataclasses
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.decomposition import FactorAnalysis as PlainFactorAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpem
from dpem import FactorAnalysis, Ledger, Schema, cosine_basis, factors_allowed
from dpem.errors import (
    InsufficientBudgetError,
    InvalidArgumentError,
    ModelFileError,
    WeakSignalWarning,
)
from dpem.fitting.standard_errors import few_draws
from dpem.models.factor_analysis import em as factor_em
from dpem.models.factor_analysis import fit as factor_fit
from dpem.models.factor_analysis import one_round as factor_round
from dpem.testing import Recording, insecure_noise, record, replay
from support.blocks import blocks_of
from support.scikit_learn import checks

RELATIONS = ["replace_one", "add_remove"]


def factor_rows(n=4000, d=6, k=2, seed=0, scale=0.08):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(k, d)) * np.linspace(1.5, 0.8, k)[:, None]
    rows = rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, d)) * rng.uniform(0.5, 1.2, d)
    return scale * (rows + rng.normal(size=d))


def quiet_fit(X, **arguments):
    settings = {"n_components": 2, "epsilon": 1.0, "data_norm": 1.0, "random_state": 0} | arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpem.errors.DpemWarning)
        return FactorAnalysis(**settings).fit(X)


def seeded_fit(X, seed=5, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpem.errors.InsecureNoiseWarning)
        with insecure_noise(seed):
            return quiet_fit(X, **arguments)


def same(one, two):
    for name in ("mean_", "components_", "noise_variance_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


# -- fits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("d", [3, 8, 40])
def test_the_density_is_close_to_that_of_the_plain_fit(d, adjacency):
    """At a comfortable budget it is far closer than the density of independent columns."""
    X = factor_rows(n=30_000, d=d, k=max(1, d // 8), scale=0.2 / math.sqrt(d))
    model = seeded_fit(X, n_components=max(1, d // 8), epsilon=2.0, adjacency=adjacency)
    plain = seeded_fit(X, n_components=max(1, d // 8), epsilon=math.inf)
    assert plain.score(X) - model.score(X) < 0.05
    independent = stats.norm.logpdf(X, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
    assert model.score(X) - independent > 2 * (plain.score(X) - model.score(X))


def test_the_model_is_in_the_units_of_the_columns():
    """If the units of columns differ by factors of millions, the model is the same."""
    X = factor_rows(n=20_000, d=4)
    units = np.array([1.0, 1e6, 1e-6, 1000.0])
    base = seeded_fit(X, data_norm=None, bounds=(-1, 1))
    scaled = seeded_fit(X * units + units, data_norm=None, bounds=(-units + units, units + units))
    np.testing.assert_allclose(scaled.mean_, base.mean_ * units + units, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.get_covariance(), base.get_covariance() * units[:, None] * units, rtol=1e-4
    )


def test_bounds_may_be_far_wider_than_the_data():
    X = factor_rows(n=50_000, d=5)
    near, far = seeded_fit(X, data_norm=1.0), seeded_fit(X, data_norm=300.0)
    assert near.score(X) - far.score(X) < 0.1


def test_heavy_tails_do_not_make_the_model_too_narrow():
    """With Student's t of four degrees of freedom, the covariance includes the tails, as in the plain fit."""
    rng = np.random.default_rng(0)
    X = factor_rows(n=40_000, d=10, scale=0.02) * np.sqrt(4 / rng.chisquare(4, (40_000, 1)))
    model = seeded_fit(X, epsilon=3.0)
    plain = seeded_fit(X, epsilon=math.inf)
    assert plain.score(X) - model.score(X) < 0.15
    assert 0.75 < np.trace(model.get_covariance()) / np.trace(plain.get_covariance()) < 1.1


def test_rare_columns_keep_their_variance():
    """A column with ones in a few rows of a thousand seems to vanish by clipping, but keeps its variance."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(20_000, 3)) @ rng.normal(size=(3, 50)) + rng.normal(size=(20_000, 50))
    often = np.exp(rng.uniform(np.log(2e-3), np.log(0.3), 50))
    X = (latent > np.quantile(latent, 1 - often, axis=0).diagonal()) / math.sqrt(50)
    model = seeded_fit(X, n_components=3, epsilon=3.0)
    ratio = np.diag(model.get_covariance()) / X.var(axis=0)
    assert ratio.min() > 0.15
    assert ratio.max() < 6
    independent = stats.norm.logpdf(X, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
    assert model.score(X) > independent - 10


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 60])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_few_rows_never_raise(n, d, adjacency):
    """There is always a proper density, even if nothing can be learned."""
    if n == 0 and adjacency == "replace_one":
        return  # the number of rows is public, and zero rows are refused
    X = factor_rows(n=60, d=d)[:n]
    for epsilon in (0.001, 0.5):
        model = quiet_fit(X, n_components=d, epsilon=epsilon, adjacency=adjacency)
        assert (model.noise_variance_ > 0).all()
        assert np.isfinite(model.score_samples(factor_rows(n=50, d=d))).all()
        assert np.linalg.norm(model.mean_) <= 1
        assert np.trace(model.get_covariance()) <= 1.5  # rows have norm 1 at most
        assert model.standard_errors_["mean"].max() <= 1


def test_constant_columns():
    X = factor_rows(d=4)
    X[:, 1] = 0.25
    model = seeded_fit(X, epsilon=3.0)
    assert 0 < model.noise_variance_[1] < 0.1 * model.noise_variance_[[0, 2, 3]].min()
    assert model.mean_[1] == pytest.approx(0.25, abs=0.01)


def test_advice_on_the_number_of_factors():
    """With the allowed number of factors their directions are found; with twice as many they are noise."""
    n, d, epsilon = 4000, 40, 0.3
    allowed = factors_allowed(n, d, epsilon=epsilon)

    def overlap(k):
        rng = np.random.default_rng(k)
        directions = np.linalg.qr(rng.normal(size=(d, d)))[0][:, :k]
        X = rng.normal(size=(n, k)) @ directions.T * math.sqrt(d / (2 * k)) + rng.normal(0, 0.7, (n, d))
        found = np.linalg.qr(seeded_fit(X / 20, n_components=k, epsilon=epsilon).components_.T)[0]
        return np.linalg.norm(directions.T @ found) ** 2 / k

    assert overlap(allowed // 2) > 0.75
    assert overlap(2 * allowed) < 2 * allowed / d + 0.15  # random directions give k / d
    assert factors_allowed(n, d, epsilon=10 * epsilon) == d - 1
    assert factors_allowed(n, d, epsilon=epsilon, rows_per_person=4) < allowed
    assert factors_allowed(n, d, epsilon=epsilon, adjacency="add_remove") > allowed
    assert factors_allowed(400, 4096, epsilon=0.3, delta=1e-4) == 0


def test_hidden_factors_give_a_warning():
    """The warning states the number of factors and an epsilon that suffices."""
    X = factor_rows(n=300, d=10)
    expected = r"got enough for about 1 .*epsilon of about [0-9.]+,"
    with pytest.warns(WeakSignalWarning, match=expected) as caught:
        FactorAnalysis(4, epsilon=0.3, data_norm=1.0).fit(X)
    needed = float(str(caught[0].message).split("epsilon of about ")[1].split(",")[0])
    assert factors_allowed(300, 10, epsilon=1.05 * needed) >= 4


# -- a basis ---------------------------------------------------------------------------------------------


def pictures(n=500, side=12, seed=0):
    """Return smooth images of a few modes, each minus its own mean."""
    rng = np.random.default_rng(seed)
    basis = cosine_basis((side, side), 20, constant=False)
    mixing = np.linalg.qr(rng.normal(size=(20, 20)))[0][:, :4] * np.array([0.3, 0.25, 0.2, 0.15])
    return rng.normal(size=(n, 4)) @ (basis @ mixing).T + 0.01 * rng.normal(size=(n, side * side))


def captured(components, X):
    directions = np.linalg.qr(components.T)[0]
    relative = X - X.mean(axis=0)
    return ((relative @ directions) ** 2).sum() / (relative**2).sum()


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_basis_improves_the_fit_at_the_same_budget(adjacency):
    X = pictures()
    basis = cosine_basis((12, 12), 30, constant=False)
    arguments = {"n_components": 4, "epsilon": 3.0, "data_norm": 2.0, "adjacency": adjacency}
    with_basis, without = seeded_fit(X, basis=basis, **arguments), seeded_fit(X, **arguments)
    assert captured(with_basis.components_, X) > captured(without.components_, X) + 0.02
    assert captured(with_basis.components_, X) > captured(basis[:, :4].T, X) + 0.1
    assert with_basis.score(X) > without.score(X)
    # The variance outside the basis has the expected size.
    assert np.median(with_basis.noise_variance_) == pytest.approx(1e-4, rel=2.0)


def test_without_signal_the_factors_are_those_of_the_basis():
    """If noise hides everything, the factors are the first directions of the basis, without any data."""
    X = pictures(n=100)
    basis = cosine_basis((12, 12), 30, constant=False)
    model = seeded_fit(X, n_components=4, epsilon=0.01, data_norm=2.0, basis=basis)
    assert captured(model.components_, basis.T[:4] - basis.T[:4].mean(axis=0)) > 0.95


def test_a_complete_basis_is_a_rotation():
    X = factor_rows(n=50_000, d=5)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    model = seeded_fit(X, basis=rotation, epsilon=3.0)
    assert seeded_fit(X, epsilon=math.inf).score(X) - model.score(X) < 0.1


@pytest.mark.parametrize(
    "basis", [np.ones((3, 2)), np.eye(6)[:, :0], np.eye(7), 2 * np.eye(6), "x", [[1, 2], 3]]
)
def test_a_basis_must_be_orthonormal(basis):
    with pytest.raises(InvalidArgumentError, match="basis"):
        FactorAnalysis(2, epsilon=1.0, data_norm=1.0, basis=basis).fit(factor_rows())


def test_cosine_images():
    basis = cosine_basis((5, 8), 40)
    np.testing.assert_allclose(basis @ basis.T, np.eye(40), atol=1e-12)
    np.testing.assert_allclose(basis[:, 0], 40**-0.5)
    np.testing.assert_array_equal(cosine_basis((5, 8), 7, constant=False), basis[:, 1:8])
    turns = np.abs(np.diff(np.sign(basis.reshape(5, 8, 40) + 1e-9), axis=1)).sum(axis=(0, 1))
    assert turns[:5].max() < turns[-5:].min()
    for shape, n in (((5, 8), 41), ((0, 8), 1), ((5, 8), 0), (3, 2), ((2, 2, 2), 2)):
        with pytest.raises(InvalidArgumentError):
            cosine_basis(shape, n)


# -- many columns ----------------------------------------------------------------------------------------


def test_more_columns_than_fit_a_dense_model(monkeypatch):
    """The path for thousands of columns uses leading eigenvectors only, and gives a proper density."""
    monkeypatch.setattr(factor_round, "LARGEST_DENSE", 20)
    monkeypatch.setattr(factor_fit, "LARGEST_DENSE", 20)
    monkeypatch.setattr(factor_em, "LARGEST_DENSE", 20)
    X = factor_rows(n=30_000, d=30, k=2, scale=0.03)
    model = seeded_fit(X, epsilon=3.0)
    assert [stage.name for stage in model.plan_.stages][-2:] == ["size 1", "moment 1"]
    independent = stats.norm.logpdf(X, X.mean(axis=0), X.std(axis=0)).sum(axis=1).mean()
    assert model.score(X) > independent + 5
    assert (model.noise_variance_ > 0).all()


# -- bits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("basis", [None, np.eye(6)[:, :4]])
def test_the_model_is_independent_of_order_block_size_and_threads(basis, adjacency):
    """Sums are exact, so the order of summation does not show."""
    X = factor_rows(n=700)
    arguments = {"basis": basis, "adjacency": adjacency}
    base = seeded_fit(X, n_jobs=1, **arguments)
    same(seeded_fit(X[np.random.default_rng(1).permutation(len(X))], n_jobs=2, **arguments), base)
    for block_rows in (17, 699):
        with blocks_of(block_rows):
            same(seeded_fit(X, **arguments), base)
    small = seeded_fit(X[:100], **arguments)
    with blocks_of(1, kept=False):
        same(seeded_fit(X[:100], **arguments), small)


def test_every_kind_of_table_gives_the_same_model():
    X = factor_rows(n=1000, d=3)
    base = seeded_fit(X)
    for frame in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(X, schema=list("abc"))):
        model = seeded_fit(frame)
        same(model, base)
        assert list(model.feature_names_in_) == list("abc")
        np.testing.assert_array_equal(model.transform(frame), base.transform(X))
    assert list(model.get_feature_names_out()) == ["factoranalysis0", "factoranalysis1"]
    assert model.set_output(transform="pandas").transform(pd.DataFrame(X, columns=list("abc"))).shape == (
        1000,
        2,
    )


# -- private numbers of rows ---------------------------------------------------------------


def test_the_number_of_rows_stays_private(tmp_path):
    """With add_remove a replayed fit of fewer rows gives the same model, plan, statement and file."""
    X = factor_rows(n=3000)
    with record() as transcript:
        model = quiet_fit(X, adjacency="add_remove")
    with replay(transcript):
        fewer = quiet_fit(X[:1234], adjacency="add_remove")
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
    X = factor_rows()
    path = tmp_path / "l"
    ledger = Ledger.create(path, name="x", cap_epsilon=1.0, cap_delta=1e-5, adjacency=adjacency)
    model = FactorAnalysis(2, epsilon=1.0, bounds=(-1, 1), adjacency=adjacency, ledger=path).fit(X)
    charge = ledger.history()[0]
    assert charge.event == model.plan_.event == model.privacy_.event
    assert charge.purpose == "dpem.FactorAnalysis.fit"
    spent = sum(stage.repeats / stage.event.noise_multiplier**2 for stage in model.plan_.stages)
    assert 0.999 * model.plan_.budget.mu**2 < spent <= model.plan_.budget.mu**2 * (1 + 1e-9)
    with pytest.raises(InsufficientBudgetError):
        FactorAnalysis(2, epsilon=1.0, bounds=(-1, 1), adjacency=adjacency, ledger=ledger).fit(X)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_components": 0},
        {"n_components": 7},
        {"n_components": 3, "basis": np.eye(6)[:, :2]},
        {"n_components": 2.5},
        {"epsilon": -1},
        {"delta": 0},
        {"adjacency": "swap"},
        {"rows_per_person": 0},
        {"basis": np.ones((6, 2))},
        {"n_jobs": 0},
        {"data_norm": None},
        {"bounds": (0, 1)},
    ],
)
def test_invalid_arguments_spend_nothing(tmp_path, arguments):
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=9.0, cap_delta=1e-5)
    good = {"n_components": 2, "epsilon": 1.0, "data_norm": 1.0, "ledger": ledger}
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        FactorAnalysis(**(good | arguments)).fit(factor_rows())
    assert ledger.history() == []


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_callers_floating_point_settings_do_not_reveal_rows(adjacency):
    X = factor_rows(n=500)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dpem.errors.DpemWarning)
        clean = seeded_fit(X, adjacency=adjacency)
        X[:3] = [np.inf, np.nan, 1e300, -np.inf, 1e-320, 0]
        X[3] = 1e200
        dirty = seeded_fit(X, adjacency=adjacency)
    assert np.isfinite(dirty.components_).all()
    assert clean.components_.shape == dirty.components_.shape


@pytest.mark.all_draws
def test_an_interrupted_fit_leaves_the_old_model_complete(tmp_path, monkeypatch):
    """After an interrupt anywhere the model is unchanged, and the error says that the charge stays."""
    X = factor_rows(n=500)
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=20.0, cap_delta=1e-5)
    model = FactorAnalysis(1, epsilon=1.0, data_norm=1.0).fit(X)
    before = dict(vars(model))

    def interrupt(redrawn, draw, *_):
        redrawn(draw(2))
        raise KeyboardInterrupt

    monkeypatch.setattr("dpem.models.factor_analysis.estimator.deviations_of_stacks", interrupt)
    model.set_params(epsilon=8.0, ledger=ledger)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X)
    assert "stays charged" in caught.value.__notes__[0]
    for name in (
        "mean_",
        "components_",
        "noise_variance_",
        "standard_errors_",
        "privacy_",
        "plan_",
        "n_iter_",
    ):
        assert vars(model)[name] is before[name]


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1e-8, "delta": 1e-9}, {"epsilon": 1e-3, "rows_per_person": 10**6}]
)
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(tmp_path, adjacency, budget):
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=9.0, cap_delta=1e-5, adjacency=adjacency)
    with pytest.raises(InvalidArgumentError, match="noise_stddev"):
        quiet_fit(factor_rows(n=50), adjacency=adjacency, ledger=ledger, **budget)
    assert ledger.history() == []


# -- without privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(4000, 6), (80, 200)])
def test_infinite_epsilon_is_the_maximum_likelihood_fit(n, d):
    """It is at least as likely as scikit-learn's, with the same covariance if both converge."""
    X = factor_rows(n=n, d=d)
    model = FactorAnalysis(2, epsilon=math.inf, data_norm=100.0, random_state=0).fit(X)
    plain = PlainFactorAnalysis(2, max_iter=5000, tol=1e-8, svd_method="lapack").fit(X)
    assert model.score(X) > plain.score(X) - 1e-4 * d
    if n > d:
        np.testing.assert_allclose(model.get_covariance(), plain.get_covariance(), atol=2e-3 * X.var())
    assert model.privacy_.epsilon == math.inf
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        FactorAnalysis(2, epsilon=math.inf, data_norm=1.0, ledger="x").fit(X)
    one = FactorAnalysis(1, epsilon=math.inf, data_norm=1.0).fit(X[:1])
    assert np.isfinite(one.get_precision()).all()
    X[0, 0] = np.nan
    with pytest.raises(InvalidArgumentError, match="NaN"):
        model.fit(X)


# -- standard errors -------------------------------------------------------------------------------------


@pytest.mark.all_draws
def test_standard_errors_agree_with_fresh_noise():
    """With fresh noise in the last moment, replayed fits vary by the stated standard errors.

    The stated error of the mean includes all noise, although shrinkage undoes moves that noise explains.
    """
    X = factor_rows(n=5000, d=5)
    with record() as transcript:
        model = quiet_fit(X)
    position = max(i for i, r in enumerate(transcript.releases) if r.stage.startswith("moment"))
    last = transcript.releases[position]
    stddev = last.sensitivity * last.event.noise_multiplier * last.shape
    rng = np.random.default_rng(0)
    means, noises = [], []
    for _ in range(25):
        redrawn = list(transcript.releases)
        redrawn[position] = dataclasses.replace(last, noisy=last.raw + rng.normal(0, stddev))
        with replay(Recording(redrawn)), few_draws(1):
            again = quiet_fit(X)
        means.append(again.mean_)
        noises.append(again.noise_variance_)
    stated = model.standard_errors_
    assert stated["components"].shape == (2, 5)
    assert stated["mean"].mean() > 0.7 * np.std(means, axis=0).mean()
    assert 0.25 < stated["noise_variance"].mean() / np.std(noises, axis=0).mean() < 4
    precise = quiet_fit(X, epsilon=10.0).standard_errors_
    for name, value in stated.items():
        assert 2 < value.mean() / precise[name].mean() < 50


# -- the density -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return quiet_fit(factor_rows(), epsilon=2.0)


def test_methods_agree_with_scikit_learn(fitted):
    """scikit-learn's class with the same parameters gives the same results."""
    X = factor_rows(n=50)
    plain = PlainFactorAnalysis(2)
    plain.components_, plain.noise_variance_ = fitted.components_, fitted.noise_variance_
    plain.mean_, plain.n_features_in_ = fitted.mean_, 6
    for method in ("transform", "score_samples", "score"):
        np.testing.assert_allclose(getattr(fitted, method)(X), getattr(plain, method)(X), rtol=1e-9)
    np.testing.assert_allclose(fitted.get_covariance(), plain.get_covariance(), rtol=1e-12)
    np.testing.assert_allclose(fitted.get_precision() @ fitted.get_covariance(), np.eye(6), atol=1e-9)


def test_loadings_are_in_canonical_order(fitted):
    inner = (fitted.components_ / fitted.noise_variance_) @ fitted.components_.T
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-9)
    assert (np.diff(np.diag(inner)) < 0).all()
    largest = np.abs(fitted.components_).argmax(axis=1)
    assert (fitted.components_[np.arange(2), largest] > 0).all()


def test_sample(fitted):
    rows = fitted.sample(200_000)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-9
    np.testing.assert_allclose(rows.mean(axis=0), fitted.mean_, atol=0.005)
    np.testing.assert_allclose(np.cov(rows.T), fitted.get_covariance(), atol=0.001)
    np.testing.assert_array_equal(fitted.sample(3), clone_state(fitted).sample(3))


def clone_state(model):
    again = clone(model)
    for name, value in vars(model).items():
        setattr(again, name, value)
    return again


def test_nan_is_refused_by_methods_but_not_by_fit(fitted):
    """A row with NaN in a private fit counts as the centre, because an error would reveal it."""
    X = factor_rows(n=20)
    X[3, 2] = np.nan
    for method in (fitted.transform, fitted.score_samples, fitted.score):
        with pytest.raises(InvalidArgumentError, match="NaN"):
            method(X)


@pytest.mark.parametrize("d", [300, 1100])
def test_many_columns_repeat_bit_for_bit(d):
    """Eigenvectors are the same every time, even if no signal exceeds the noise."""
    X = 0.01 * np.random.default_rng(0).normal(size=(40, d))
    same(seeded_fit(X), seeded_fit(X))


def test_a_mean_beyond_the_ball_is_corrected():
    """The next round starts from the noisy centre, moved into the ball."""
    model = seeded_fit(
        np.full((2000, 2), 0.69) + 0.001 * factor_rows(n=2000, d=2), n_components=1, epsilon=5.0
    )
    np.testing.assert_allclose(model.mean_, 0.69, atol=0.02)


def test_in_a_pipeline():
    X = 100 * factor_rows()
    pipeline = make_pipeline(
        FunctionTransformer(lambda x: x / 100), FactorAnalysis(2, epsilon=2.0, data_norm=1.0)
    )
    assert pipeline.fit(X).transform(X).shape == (4000, 2)
    assert np.isfinite(pipeline.score(X))


def test_methods_raise_before_the_fit():
    model = FactorAnalysis(2, epsilon=1.0, data_norm=1.0)
    for use in (lambda: model.sample(3), model.get_covariance, lambda: model.transform([[0.0, 0.0]])):
        with pytest.raises(NotFittedError):
            use()


def test_verbose_prints_public_facts(capfd):
    FactorAnalysis(2, epsilon=1.0, data_norm=1.0, verbose=1).fit(factor_rows())
    assert "[FactorAnalysis] moment 4 of 4" in capfd.readouterr().err


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("basis", [None, np.eye(6)[:, :4]])
def test_save_and_load(tmp_path, basis, adjacency):
    frame = pd.DataFrame(factor_rows(), columns=list("abcdef"))
    schema = Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in frame})
    model = quiet_fit(frame, schema=schema, data_norm=None, basis=basis, adjacency=adjacency)
    model.save(tmp_path / "model.dpem")
    again = dpem.load(tmp_path / "model.dpem")
    same(again, model)
    assert again.privacy_ == model.privacy_
    assert again.plan_ == model.plan_
    assert again.sample(7).shape == (7, 6)
    if basis is not None:
        np.testing.assert_array_equal(again.basis, basis)
    for name, value in model.standard_errors_.items():
        np.testing.assert_array_equal(again.standard_errors_[name], value)
    with np.load(tmp_path / "model.dpem") as file:
        arrays = dict(file)
    for name in ("mean_", "components_", "standard_error_mean"):
        np.savez(tmp_path / "forged.npz", **{key: value for key, value in arrays.items() if key != name})
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / "forged.npz")
    for name, factor in (
        ("noise_variance_", -1.0),
        ("mean_", np.nan),
        *([("basis", 2.0)] if basis is not None else []),
    ):
        np.savez(tmp_path / "forged.npz", **(arrays | {name: arrays[name] * factor}))
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / "forged.npz")


# -- scikit-learn's own checks ---------------------------------------------------------------------------


class SeededFactorAnalysis(FactorAnalysis):
    """Repeat the noise, because scikit-learn's checks compare two fits of the same rows."""

    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


EXPECTED_FAILURES = {
    "check_dtype_object": "types are never inferred from cells: object arrays are refused by type",
    "check_estimators_nan_inf": "fit never raises because of private values: such rows count as the centre",
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(checks(SeededFactorAnalysis(1, epsilon=10.0, data_norm=100.0, random_state=0), EXPECTED_FAILURES)),
)
@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_scikit_learn_checks(estimator, check):
    """Every check passes, or fails for a documented privacy reason."""
    check(estimator)
