"""Moments of rows with missing cells equal those of EM, row by row, and stay within the sensitivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem import _compiled
from dpem.data import Domain, IncompleteRows
from dpem.data.domain import GRID, onto_grid
from dpem.gate.released import _GATE, ReleasedStatistics
from dpem.statistics import missing_cells
from dpem.statistics.gaussian import FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import CentredMoments, IncompleteMoments
from dpem.statistics.missing_cells import Frame, fill_rows, incomplete_parts, missing_patterns
from support import incomplete_em

KINDS = ["full", "tied", "diag", "spherical"]
RELATIONS = ["replace_one", "add_remove"]


def components(d, m, seed, width=None):
    rng = np.random.default_rng(seed)
    width = width or rng.choice([1e-3, 0.03, 0.3])
    factors = width * (np.eye(d) + 0.4 * np.tril(rng.normal(size=(m, d, d)), -1))
    factors *= rng.choice([0.3, 1.0, 3.0], size=(m, 1, 1))
    means = rng.normal(size=(m, d)) * rng.choice([0.0, 0.3])
    return GaussianComponents.from_parameters(rng.dirichlet(np.ones(m)), means, factors)


def moments(kind, d, seed, spread=1.0):
    tau = math.sqrt(d + spread * math.sqrt(2 * d))
    return IncompleteMoments(components(d, 4, seed), 2, kind, tau, max(0.35, 0.6 * d**-0.25) * tau)


def rows_with_holes(statistic, rng, n=40):
    """Return grid rows on the sphere, at centres and a few widths from them, with missing cells."""
    found = statistic.components
    d = found.centres.shape[1]
    far = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 2.5, 100.0], size=(n, 1))
    which = rng.integers(len(found.centres), size=n)
    rows = found.centres[which] + np.einsum("nij,nj->ni", found.factors[which], far)
    rows = onto_grid(rows * GRID)
    rows[rng.random(rows.shape) < rng.choice([0.2, 0.6])] = np.nan
    rows[0] = np.nan
    return np.ascontiguousarray(rows.T)


def released(values, statistic, noise=1.0):
    return ReleasedStatistics("em", values.astype(float), noise * statistic.noise_shape, False, _GATE)


# -- moments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_equal_the_expectations_of_em(kind, d):
    """Without clipping, moments equal the textbook's expectations, in the frame of each component."""
    statistic = moments(kind, d, seed=d, spread=40.0)
    rng = np.random.default_rng(d)
    rows = rows_with_holes(statistic, rng, n=60)
    near = onto_grid((statistic.components.centres[0] + 1e-3 * rng.normal(size=(60, d))) * GRID).T
    rows = np.where(np.isnan(rows), np.nan, near)
    weights = np.exp(
        statistic.components.constants
        + np.log(np.diagonal(statistic.components.factors, axis1=1, axis2=2)).sum(axis=1)
        + d / 2 * math.log(2 * math.pi)
    )
    factors = statistic.components.factors
    covariances = factors @ factors.transpose(0, 2, 1)
    expected = np.zeros((2, d + 1, d + 1))
    s = statistic.count_scale
    for x in rows.T / GRID:
        joint = np.array(
            [
                math.log(w) + incomplete_em.log_density(x[None], np.ones(1), mean[None], c[None])[0]
                for w, mean, c in zip(weights, statistic.components.centres, covariances, strict=True)
            ]
        )
        g = np.exp(joint - joint.max())
        g /= g.sum()
        for k in range(2):
            mean, c, known = statistic.components.centres[k], covariances[k], ~np.isnan(x)
            gain = c[:, known] @ np.linalg.inv(c[np.ix_(known, known)])
            inverse = np.linalg.inv(factors[k])
            z = inverse @ gain @ (x[known] - mean[known])
            second = np.outer(z, z) + inverse @ (c - gain @ c[known]) @ inverse.T
            psi = np.append(s, z)
            expected[k] += g[k] * np.outer(psi, psi)
            expected[k, 1:, 1:] += g[k] * (second - np.outer(z, z))
    found = statistic.read(released(statistic.sum_block(rows) >> statistic.coarse_bits, statistic)).moments
    if kind == "diag":
        off = ~np.eye(d, dtype=bool)
        expected[:, 1:, 1:][:, off] = found[:, 1:, 1:][:, off] = 0
    if kind == "spherical":
        trace = np.trace(expected[:, 1:, 1:], axis1=1, axis2=2) / d
        expected[:, 1:, 1:] = trace[:, None, None] * np.eye(d)
    np.testing.assert_allclose(found, expected, atol=60 * 2e-3 * (d + 1))


@pytest.mark.parametrize("kind", KINDS)
@given(d=st.sampled_from([1, 2, 3, 6]), seed=st.integers(0, 10**6), cut=st.integers(0, 39))
@settings(max_examples=20, deadline=None)
def test_rows_are_independent(kind, d, seed, cut):
    """The sum of a block equals the sum of single rows, bit for bit, in any mixture of patterns."""
    statistic = moments(kind, d, seed)
    rows = rows_with_holes(statistic, np.random.default_rng(seed))
    each = np.stack([moments(kind, d, seed).sum_block(rows[:, [i]]) for i in range(rows.shape[1])])
    np.testing.assert_array_equal(statistic.sum_block(rows), each.sum(axis=0))
    without = np.ascontiguousarray(np.delete(rows, cut, axis=1))
    np.testing.assert_array_equal(statistic.sum_block(without), each.sum(axis=0) - each[cut])


def test_the_number_of_rows_at_a_time_changes_no_bits(monkeypatch):
    statistic = moments("full", 6, 1)
    rows = rows_with_holes(statistic, np.random.default_rng(0), n=300)
    base = statistic.sum_block(rows)
    monkeypatch.setattr(missing_cells, "PART_ROWS", 7)
    np.testing.assert_array_equal(moments("full", 6, 1).sum_block(rows), base)


def test_complete_rows_have_the_moments_without_missing_cells():
    statistic = moments("full", 3, 5)
    rows = np.nan_to_num(rows_with_holes(statistic, np.random.default_rng(0)))
    plain = FrameMoments(statistic.components, 2, "full", statistic.clip, statistic.count_scale)
    np.testing.assert_array_equal(statistic.sum_block(rows), plain.sum_block(rows))


# -- sensitivity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(d=st.sampled_from([1, 2, 3, 6, 12]), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_the_distance_of_two_rows_is_at_most_the_sensitivity(kind, d, seed):
    """Norms and distances of vectors of rows, over the relative noise, as in Eq. (S-13)."""
    statistic = moments(kind, d, seed)
    rows = rows_with_holes(statistic, np.random.default_rng(seed))
    each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])]) / statistic.noise_shape
    assert (np.linalg.norm(each, axis=1) <= 2.0**42).all()
    gaps = np.linalg.norm(each[:, None] - each[None], axis=2)
    assert (gaps <= math.sqrt(2) * 2.0**42 * (1 + 1e-12)).all()
    for adjacency in RELATIONS:
        one = 2.0**42 * (math.sqrt(2) if adjacency == "replace_one" else 1.0)
        assert one / 2**statistic.coarse_bits < statistic.sensitivity(adjacency)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@pytest.mark.parametrize("q", [1, 3])
def test_the_bound_is_nearly_attained_and_no_row_is_lost(kind, q):
    """Rows at the clip radius keep nearly all of their norm, and the integer check sets none to zero."""
    d = 6
    one = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, d)), 0.05 * np.eye(d)[None])
    tau = math.sqrt(d + math.sqrt(2 * d))
    statistic = IncompleteMoments(one, 1, kind, tau, 0.35 * tau)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, d))
    rows[:, :q] = np.nan
    rows *= 0.05 * 5 * tau / np.sqrt(np.nansum(rows**2, axis=1, keepdims=True))
    grid = np.ascontiguousarray(np.rint(rows * GRID).T)
    norms = [
        np.linalg.norm(statistic.sum_block(grid[:, [i]]) / statistic.noise_shape)
        for i in range(grid.shape[1])
    ]
    assert min(norms) > (0.5 if kind == "diag" else 0.8) * 2.0**42  # a diagonal is only a part of the moment
    assert max(norms) <= 2.0**42


def test_a_norm_beyond_the_bound_becomes_zero(monkeypatch):
    """If clipping fails, the integer check sets the row to zero."""
    statistic = moments("full", 4, 3)
    rows = rows_with_holes(statistic, np.random.default_rng(1))

    def no_clip(self, n_missing):
        return np.full(len(n_missing), 1e9), np.ones(len(n_missing))

    monkeypatch.setattr(IncompleteMoments, "_reach", no_clip)
    each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])]) / statistic.noise_shape
    assert (np.linalg.norm(each, axis=1) <= 2.0**42).all()


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
@given(d=st.sampled_from([1, 2, 5]), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_centred_moments_with_counts(kind, d, seed):
    """Rows are independent, with distances within the sensitivity; counts are read unchanged."""
    inner = moments(kind, d, seed)
    one = GaussianComponents.from_parameters(
        np.ones(1), inner.components.centres[:1], np.diag(np.diagonal(inner.components.factors[0]))[None]
    )
    statistic = CentredMoments(FrameMoments(one, 1, kind, inner.clip, inner.count_scale))
    rows = rows_with_holes(inner, np.random.default_rng(seed))
    each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])])
    np.testing.assert_array_equal(statistic.sum_block(rows), each.sum(axis=0))
    known = (~np.isnan(rows)).sum(axis=1)
    np.testing.assert_array_equal(each.sum(axis=0)[-d:] / statistic.one_cell, known)
    scaled = each / statistic.noise_shape
    exact = math.sqrt(4.0**42 + d * float(statistic.one_cell) ** 2)
    assert (np.linalg.norm(scaled, axis=1) <= exact * (1 + 1e-12)).all()
    gaps = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    assert (gaps <= math.sqrt(2) * exact * (1 + 1e-12)).all()
    assert exact / 2**12 < statistic.sensitivity("add_remove")
    assert math.sqrt(2) * exact / 2**12 < statistic.sensitivity("replace_one")
    assert np.isfinite(statistic.read(released(each.sum(axis=0) >> 12, statistic)).moments).all()


# -- patterns and filled cells -------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 7, 9, 64, 65, 100])
def test_patterns(d):
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(d, 50))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    missing, order, which = missing_patterns(np.isnan(rows))
    np.testing.assert_array_equal(missing[which].T, np.isnan(rows)[:, order])
    np.testing.assert_array_equal(np.sort(order), np.arange(50))
    assert (np.diff(missing.sum(axis=1)) >= 0).all()
    assert (np.diff(which) >= 0).all()
    assert len(np.unique(missing, axis=0)) == len(missing)


@given(d=st.sampled_from([1, 2, 5]), seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_filled_cells_are_expectations_inside_the_ball(d, seed):
    """Known cells stay unless the row would leave the ball; each row depends on itself only."""
    alone = components(d, 1, seed)
    rows = rows_with_holes(
        IncompleteMoments(components(d, 4, seed), 2, "full", 3.0, 1.0), np.random.default_rng(seed)
    )
    filled = fill_rows(alone, rows)
    assert ((filled**2).sum(axis=0) <= GRID * GRID).all()
    np.testing.assert_array_equal(filled, np.rint(filled))
    each = np.concatenate([fill_rows(alone, rows[:, [i]]) for i in range(rows.shape[1])], axis=1)
    np.testing.assert_array_equal(filled, each)
    factor = alone.factors[0]
    expected = incomplete_em.impute(rows.T / GRID, np.ones(1), alone.centres, (factor @ factor.T)[None])
    inside = (expected**2).sum(axis=1) < 0.98
    np.testing.assert_allclose(filled.T[inside] / GRID, expected[inside], atol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 5, 9])
def test_densities_of_known_cells(d):
    """The log-density of known cells is that of the marginal Gaussian, for patterns of all sizes."""
    mixture = components(d, 2, seed=d, width=0.3)
    rows = rows_with_holes(IncompleteMoments(mixture, 2, "full", 3.0, 1.0), np.random.default_rng(d), n=80)
    rows[:, :5] = np.nan_to_num(rows[:, :5])
    (part,) = incomplete_parts(rows, np.arange(rows.shape[1]))
    for k in range(2):
        frame = Frame.of(mixture, k)
        c, log_size = part.factor(frame)
        found = frame.log_joint(part, part.places(frame, c), log_size)
        factor = mixture.factors[k]
        whole = mixture.constants[k] + np.log(np.diagonal(factor)).sum() + d / 2 * math.log(2 * math.pi)
        expected = whole + incomplete_em.log_density(
            part.rows.T / GRID, np.ones(1), mixture.centres[k][None], (factor @ factor.T)[None]
        )
        near = expected > -1e6
        np.testing.assert_allclose(found[near], expected[near], rtol=1e-5, atol=1e-4)
        assert near.sum() > 20


def test_patterns_that_cannot_be_decomposed_add_nothing(monkeypatch):
    """Nearly dependent columns give bases that are no numbers. Their rows have no weight."""
    rng = np.random.default_rng(0)
    broken = 0
    for trial in range(80):
        d = int(rng.choice([3, 6, 12]))
        factors = np.tril(rng.normal(size=(2, d, d)), -1) * rng.choice([1e3, 1e6])
        factors += np.eye(d) * 10.0 ** rng.uniform(-9, 0, (2, d, 1))
        try:
            found = GaussianComponents.from_parameters(np.full(2, 0.5), np.zeros((2, d)), factors)
        except (ArithmeticError, np.linalg.LinAlgError):  # of public factors: no rows are read
            continue
        tau = math.sqrt(d + math.sqrt(2 * d))
        statistic = IncompleteMoments(found, 2, KINDS[trial % 4], tau, 0.5 * math.sqrt(d))
        rows = np.rint(rng.normal(size=(d, 60)) * 0.1 * GRID / math.sqrt(d))
        rows[rng.random(rows.shape) < 0.5] = np.nan
        with np.errstate(all="ignore"):  # as in an engine
            for part in incomplete_parts(rows, np.flatnonzero(np.isnan(rows).any(axis=0))):
                bases = [part.basis(frame, part.factor(frame)[0]) for frame in statistic._frames]
                broken += not np.isfinite(bases).all()
            total = statistic.sum_block(rows)
            with monkeypatch.context() as patch:
                patch.setattr(_compiled, "ENABLED", False)
                np.testing.assert_array_equal(statistic.sum_block(rows), total)
            each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(60)]) / statistic.noise_shape
        assert (np.linalg.norm(each, axis=1) <= 2.0**42).all()
    assert broken >= 5


def test_missing_cells_stay_missing_on_the_grid():
    domain = Domain.from_arguments(2, bounds=([0, 0], [10, 10]))
    columns = np.array([[5.0, np.nan, np.inf, 99.0], [np.nan, np.nan, 5.0, 0.0]])
    grid = IncompleteRows(domain).to_grid(columns)
    np.testing.assert_array_equal(np.isnan(grid), ~np.isfinite(columns))
    assert grid[0, 0] == grid[1, 2] == 0.0
    assert np.hypot(*grid[:, 3]) <= GRID
