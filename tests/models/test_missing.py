"""The Gaussian mixture on rows with missing cells: plain EM, private fits, replays, imputation."""

import warnings

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import GaussianMixture, Schema
from dpem.errors import InvalidArgumentError
from dpem.testing import insecure_noise
from support import incomplete_em

KINDS = ["full", "tied", "diag", "spherical"]
RELATIONS = ["replace_one", "add_remove"]


def table(n=3000, d=3, seed=0, part=0.25):
    rng = np.random.default_rng(seed)
    means = 0.5 * np.eye(3, d)
    rows = means[rng.integers(3, size=n)] + rng.normal(0, 0.1, (n, d)) @ (np.eye(d) + 0.5 * np.tri(d, k=-1))
    holes = rows.copy()
    holes[rng.random(rows.shape) < part] = np.nan
    return rows, holes


def full(model):
    d = model.means_.shape[1]
    return {
        "full": lambda c: c,
        "tied": lambda c: np.repeat(c[None], model.n_components_, axis=0),
        "diag": lambda c: c[:, :, None] * np.eye(d),
        "spherical": lambda c: c[:, None, None] * np.eye(d),
    }[model.covariance_type](model.covariances_)


# -- plain EM --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_plain_em_agrees_with_an_independent_implementation(kind):
    """Five steps from the same start give the same parameters."""
    _, holes = table(n=300)
    holes[5] = np.nan
    arguments = {"epsilon": np.inf, "covariance_type": kind, "missing": "em", "tol": 0.0, "random_state": 0}
    arguments |= {"bounds": (-2, 2), "reg_covar": 1e-4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = GaussianMixture(2, max_iter=1, **arguments).fit(holes)
        model = GaussianMixture(2, max_iter=6, **arguments).fit(holes)
    weights, means, covariances, _ = incomplete_em.em(
        holes,
        start.weights_,
        start.means_,
        full(start),
        covariance_type=kind,
        n_iter=5,
        reg_covar=1e-4,
    )
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-6)
    np.testing.assert_allclose(model.means_, means, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(full(model), covariances, rtol=1e-6, atol=1e-9)
    density = incomplete_em.log_density(holes, weights, means, covariances)
    np.testing.assert_allclose(model.score_samples(holes), density, rtol=1e-6, atol=1e-8)
    filled = incomplete_em.impute(holes, weights, means, covariances)
    np.testing.assert_allclose(model.impute(holes), filled, rtol=1e-6, atol=1e-8)
    assert not model.privacy_.is_private


def test_missing_em_does_not_change_the_fit_of_complete_rows():
    """Plain EM of complete rows gives the same result with and without `missing`."""
    rows, _ = table(n=800)
    plain = [
        GaussianMixture(2, epsilon=np.inf, bounds=(-2, 2), missing=m, random_state=0).fit(rows)
        for m in (None, "em")
    ]
    np.testing.assert_allclose(plain[0].means_, plain[1].means_, rtol=1e-12)


def test_plain_em_refuses_a_column_of_missing_cells():
    holes = np.column_stack([np.arange(9.0), np.full(9, np.nan)])
    with pytest.raises(InvalidArgumentError, match="known cell in every column"):
        GaussianMixture(1, epsilon=np.inf, bounds=(-2, 2), missing="em").fit(holes)


# -- private fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_private_fits_are_close_to_those_of_complete_rows(adjacency):
    """The noise is secure, a quarter of the cells is missing, and rows are not centred in the bounds."""
    rows, holes = table(n=20_000)
    settings = {"epsilon": 2.0, "bounds": (-2, 6), "adjacency": adjacency, "random_state": 0}
    complete = GaussianMixture(3, **settings).fit(rows).score(rows)
    assert GaussianMixture(3, **settings, missing="em").fit(holes).score(rows) > complete - 0.3
    alone = GaussianMixture(1, **settings, missing="em").fit(holes)
    assert alone.score(rows) > GaussianMixture(1, **settings).fit(rows).score(rows) - 0.05


def test_cells_missing_at_random():
    """Cells are missing at random, but not completely: EM corrects for the dependence on another column."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 40_000)
    rows = np.column_stack([x, x + 0.3 * rng.normal(size=len(x))])
    rows[x > 0.3, 1] = np.nan
    model = GaussianMixture(1, epsilon=4.0, bounds=(-5, 5), missing="em").fit(rows)
    known = rows[~np.isnan(rows[:, 1]), 1].mean()
    assert known < -0.4
    assert abs(model.means_[0, 1]) < 0.12
    assert abs(model.impute([[1.5, np.nan]])[0, 1] - 1.5) < 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_fits_do_not_depend_on_threads(kind):
    _, holes = table(n=9000, part=0.3)
    found = []
    for n_jobs in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with insecure_noise(3):
                model = GaussianMixture(
                    3,
                    epsilon=1.0,
                    bounds=(-2, 2),
                    missing="em",
                    covariance_type=kind,
                    n_jobs=n_jobs,
                    random_state=0,
                    max_iter=3,
                )
                found.append(model.fit(holes))
    np.testing.assert_array_equal(found[0].means_, found[1].means_)
    np.testing.assert_array_equal(found[0].covariances_, found[1].covariances_)


def test_a_schema_declares_missing_cells():
    _, holes = table(n=4000)
    cells = pd.DataFrame(holes, columns=["a", "b", "c"]).astype(object)
    cells = cells.where(cells.notna(), "unknown")
    number = {"kind": "continuous", "bounds": [-2, 2], "missing": True}
    schema = Schema({"a": number, "b": number, "c": number})
    with pytest.raises(InvalidArgumentError, match="missing=True for column 'a'"):
        GaussianMixture(1, epsilon=1.0, schema=schema).fit(cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(1):
            one = GaussianMixture(1, epsilon=1.0, schema=schema, missing="em", data_quality=False).fit(cells)
        with insecure_noise(1):
            two = GaussianMixture(1, epsilon=1.0, bounds=(-2, 2), missing="em").fit(holes)
    np.testing.assert_array_equal(one.means_, two.means_)
    np.testing.assert_array_equal(one.impute(cells), two.impute(holes))
    assert one.privacy_.bounds["a"] == "-2 to 2, or missing"
    with pytest.raises(InvalidArgumentError, match="missing=True in the schema for missing='em'"):
        GaussianMixture(1, epsilon=1.0, schema=schema.filled(), missing="em").fit(cells)


def test_a_column_known_in_one_row_of_a_hundred():
    """With data_norm, known cells stay unchanged, and the mean of the column is still found."""
    rng = np.random.default_rng(0)
    rows = 0.3 * rng.normal(size=(60_000, 3)) + [0, 4, 0]
    rows[rng.random(60_000) > 0.01, 1] = np.nan
    model = GaussianMixture(1, epsilon=4.0, data_norm=6.0, missing="em", random_state=0).fit(rows)
    assert abs(model.means_[0, 1] - 4) < 0.6
    filled = model.impute([[5.9, np.nan, 0.1]])
    np.testing.assert_array_equal(filled[0, [0, 2]], [5.9, 0.1])


def test_predictions_and_files(tmp_path):
    _, holes = table(n=4000)
    model = GaussianMixture(3, epsilon=2.0, bounds=(-2, 2), missing="em", random_state=0).fit(holes)
    weights, means, covariances = model._all_components()
    np.testing.assert_allclose(
        model.score_samples(holes[:50]),
        incomplete_em.log_density(holes[:50], weights, means, covariances),
        rtol=1e-9,
        atol=1e-9,
    )
    filled = model.impute(holes)
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], holes[known])
    assert np.isfinite(filled).all()
    assert ((filled[~known] >= -2) & (filled[~known] <= 2)).all()
    beyond = model.impute(
        [[50.0, np.nan, np.nan], [2.0, np.nan, np.nan]]
    )  # known cells are clipped as in the fit
    np.testing.assert_array_equal(beyond[0, 1:], beyond[1, 1:])
    assert beyond[0, 0] == 50.0
    np.testing.assert_allclose(model.predict_proba(holes).sum(axis=1), 1.0)
    model.save(tmp_path / "m.dpem")
    again = dpem.load(tmp_path / "m.dpem")
    assert again.missing == "em"
    np.testing.assert_array_equal(again.impute(holes), filled)
    with pytest.raises(InvalidArgumentError, match="infinity"):
        model.predict([[np.inf, 0, 0]])
    with pytest.raises(InvalidArgumentError, match="missing='em'"):
        GaussianMixture(1, epsilon=1.0, bounds=(-2, 2)).fit(holes).impute(holes)
    with pytest.raises(InvalidArgumentError, match="for missing"):
        GaussianMixture(1, epsilon=1.0, bounds=(-2, 2), missing="drop").fit(holes)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_private_score_of_known_cells(adjacency):
    _, holes = table(n=20_000)
    settings = {"epsilon": 2.0, "bounds": ([-2, -3, -2], [2, 2, 40]), "adjacency": adjacency}
    model = GaussianMixture(3, **settings, missing="em", random_state=0).fit(holes)
    score = model.private_score(holes, epsilon=2.0)
    assert abs(score.value - model.score(holes)) < 5 * score.standard_error + 0.01
