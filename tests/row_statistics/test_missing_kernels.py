"""Kernels for missing cells: the bits of NumPy, and of each row alone, whatever rows are beside it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpem import _compiled
from dpem.data import Domain, IncompleteRows, TableRows
from dpem.data.domain import GRID, onto_grid
from dpem.engines import LocalEngine
from dpem.gate.mapped_rows import _MappedStatistic
from dpem.statistics.gaussian import COVARIANCES, FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import CentredMoments, IncompleteMoments
from dpem.statistics.missing_cells import FilledRows, fill_rows
from dpem.statistics.simple import Sums

pytest.importorskip("numba")


def gaussians(rng, d, m, near=0.3):
    """Return components whose columns depend on each other; `near` is the least width of a column."""
    factors = np.tril(rng.normal(size=(m, d, d)), -1) * 0.3 / math.sqrt(d)
    factors += np.eye(d) * rng.uniform(near, 0.3, (m, d, 1)) / math.sqrt(d)
    weights = np.r_[rng.dirichlet(np.ones(m - 1)), 1e-300] if m > 1 else np.ones(1)  # the last has no rows
    return GaussianComponents.from_parameters(weights, rng.normal(0, 0.2, (m, d)), factors)


def moments(components, n_framed, kind):
    d = components.offsets.shape[1]
    tau = math.sqrt(d + math.sqrt(2 * d))
    return IncompleteMoments(components, n_framed, kind, tau, max(0.35, 0.6 * d**-0.25) * tau)


def holes(rng, d, n):
    """Return grid rows (d, n): complete ones, few and many patterns, and rows without a known cell."""
    rows = onto_grid(rng.normal(0, 0.4 / math.sqrt(d), (n, d)) * GRID).T.copy()
    rows[:, ::7] = onto_grid(rng.normal(0, 9.0, (len(rows[0, ::7]), d)) * GRID).T  # at the border
    lost = rng.random((d, n)) < rng.choice([0.0, 0.1, 0.5, 1.0], size=n)
    few = rng.random((d, 3)) < 0.4
    shared = rng.random(n) < 0.5
    lost[:, shared] = few[:, rng.integers(0, 3, shared.sum())]
    rows[lost] = np.nan
    return rows


def in_numpy(function, rows, monkeypatch):
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(_compiled, "ENABLED", False)
        return function(rows)


@pytest.mark.parametrize("kind", COVARIANCES)
@pytest.mark.parametrize("d", [1, 2, 9, 20, 70])
def test_blocks_have_the_bits_of_numpy_and_of_single_rows(d, kind, monkeypatch):
    """In one block, cut anywhere, in another order and in single precision; more rows than a window."""
    rng = np.random.default_rng(d)
    statistic = moments(gaussians(rng, d, 4), 3, kind)
    rows = holes(rng, d, 9000 if d < 10 else 400)
    expected = in_numpy(statistic.sum_block, rows, monkeypatch)
    assert expected[: d + 2].all()
    with _compiled.for_any_size():
        for cut in (0, 1, 255, rows.shape[1] - 1):
            parts = np.split(rows.astype(np.float32), [cut], axis=1)
            np.testing.assert_array_equal(sum(map(statistic.sum_block, parts)), expected)
        shuffled = rows[:, rng.permutation(rows.shape[1])]
        np.testing.assert_array_equal(statistic.sum_block(shuffled), expected)
        some = rows[:, :60]
        each = [statistic.sum_block(some[:, [i]]) for i in range(some.shape[1])]
        np.testing.assert_array_equal(sum(each), statistic.sum_block(some))


@pytest.mark.parametrize("kind", COVARIANCES)
def test_columns_that_nearly_depend_on_each_other(kind, monkeypatch):
    """Coordinates that overflow change no other row, and no row changes which of them do."""
    rng = np.random.default_rng(3)
    beyond = 0
    for trial in range(12):
        d = int(rng.choice([3, 6, 12]))
        found = gaussians(rng, d, 2)
        whitening = np.rint(found.whitening * 10.0 ** -rng.uniform(0, 8, (2 * d, 1)))
        widths = 2.0 ** rng.choice([0, 100, 450, 505, 960], size=(2, d), p=[0.6, 0.1, 0.1, 0.1, 0.1])
        found = replace(found, whitening=whitening, scales=found.scales * widths)
        statistic = moments(found, 1 + trial % 2, kind)
        rows = holes(rng, d, 300)
        expected = in_numpy(statistic.sum_block, rows, monkeypatch)
        with _compiled.for_any_size(), np.errstate(all="ignore"):
            np.testing.assert_array_equal(statistic.sum_block(rows), expected)
            each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(100)])
            np.testing.assert_array_equal(each.sum(axis=0), statistic.sum_block(rows[:, :100]))
            assert (np.linalg.norm(each / statistic.noise_shape, axis=1) <= 2.0**42).all()
        alone = np.stack([in_numpy(statistic.sum_block, rows[:, [i]], monkeypatch) for i in range(100)])
        np.testing.assert_array_equal(alone, each)
        beyond += int((~each.any(axis=1)).sum())
    assert beyond > 20


@pytest.mark.parametrize("d", [1, 2, 9, 20])
def test_filled_rows_have_the_bits_of_numpy(d, monkeypatch):
    rng = np.random.default_rng(d)
    rows = holes(rng, d, 9000 if d < 10 else 300)
    for near in (0.3, 0.01):
        alone = gaussians(rng, d, 1, near)
        expected = in_numpy(lambda rows, alone=alone: fill_rows(alone, rows), rows, monkeypatch)
        assert not np.isnan(expected).any()
        with _compiled.for_any_size():
            np.testing.assert_array_equal(fill_rows(alone, rows), expected)
            single = fill_rows(alone, rows.astype(np.float32))
            assert single.dtype == np.float32
            np.testing.assert_array_equal(single, expected)
            np.testing.assert_array_equal(fill_rows(alone, rows[:, 100:101]), expected[:, 100:101])


@pytest.mark.parametrize("missing", ["none", "all", "half"])
def test_a_statistic_takes_rows_of_one_kind(missing, monkeypatch):
    """Blocks without a missing cell, and blocks without a known one."""
    rng = np.random.default_rng(0)
    components = gaussians(rng, 5, 3)
    rows = np.nan_to_num(holes(rng, 5, 500))
    rows[:, {"none": slice(0), "all": slice(None), "half": slice(250)}[missing]] = np.nan
    alone = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, 5)), 0.2 * np.eye(5)[None])
    for kind in COVARIANCES:
        inner = moments(components, 2, kind)
        for statistic in (
            inner,
            CentredMoments(FrameMoments(alone, 1, kind, inner.clip, inner.count_scale)),
            _MappedStatistic(Sums(5, counted=True), FilledRows(components)),
        ):
            expected = in_numpy(statistic.sum_block, rows, monkeypatch)
            with _compiled.for_any_size():
                np.testing.assert_array_equal(statistic.sum_block(rows.astype(np.float32)), expected)


@pytest.mark.parametrize("d", [1, 7, 64, 65, 130])
def test_rows_are_sorted_by_number_of_missing_cells_and_by_pattern(d):
    from dpem.statistics.kernels.patterns import WINDOW, sort_by_pattern, sorting_buffers

    rng = np.random.default_rng(d)
    rows = holes(rng, d, 2 * WINDOW)
    order, pattern, size = (np.empty(WINDOW, np.int64) for _ in range(3))
    for start, n in ((0, WINDOW), (WINDOW, 1000), (17, 1)):
        missing = np.isnan(rows[:, start : start + n])
        count = sort_by_pattern(rows, start, n, sorting_buffers(d), order, pattern, size)
        np.testing.assert_array_equal(size[:n], missing.sum(axis=0))
        np.testing.assert_array_equal(np.sort(order[:count]), np.flatnonzero(missing.any(axis=0)))
        assert (np.diff(size[order[:count]]) >= 0).all()
        found, patterns = pattern[order[:count]], missing.T[order[:count]]
        changes = np.flatnonzero(np.diff(found)) + 1
        assert len(changes) + (count > 0) == len(np.unique(found)) == len(np.unique(patterns, axis=0))
        for group in np.split(patterns, changes):
            assert (group == group[:1]).all()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_filled_rows_go_to_kernels_in_large_blocks(n_jobs, monkeypatch):
    """The engine hands whole pieces over, in single precision; a map without a kernel gets small blocks."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.2, (40_000, 4))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    alone = gaussians(rng, 4, 1)
    source, grid = TableRows(rows), IncompleteRows(Domain.from_arguments(4, data_norm=1.0))
    seen = []

    def as_numpy(block):
        seen.append(block.dtype)
        return fill_rows(alone, block)

    statistic = Sums(4, counted=False)
    by_kernel = _MappedStatistic(statistic, FilledRows(alone))
    assert by_kernel.has_kernel
    found = LocalEngine(n_jobs).sum(by_kernel, source, grid)
    slow = _MappedStatistic(statistic, as_numpy)
    assert not slow.has_kernel
    np.testing.assert_array_equal(LocalEngine(n_jobs).sum(slow, source, grid), found)
    assert set(seen) == {np.dtype(np.float64)}
    monkeypatch.setattr(_compiled, "ENABLED", False)
    np.testing.assert_array_equal(LocalEngine(n_jobs).sum(by_kernel, source, grid), found)
