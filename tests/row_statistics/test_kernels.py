"""Compiled kernels: the bits of NumPy for every statistic, in both precisions and any split of the rows."""

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest

import dpem.statistics
from dpem import _compiled
from dpem.data import Schema, TableRows, grid_kernel
from dpem.data.domain import GRID, Domain, IncompleteRows, onto_grid
from dpem.data.table_grid import TableGrid
from dpem.engines.base import grid_rows
from dpem.statistics.contingency import Histograms, PairTables
from dpem.statistics.frame_sizes import FrameSizes
from dpem.statistics.gaussian import COVARIANCES, FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import CentredMoments, IncompleteMoments
from dpem.statistics.mixture_tables import MixtureTables
from dpem.statistics.simple import (
    BoxHistogram,
    ColumnSquares,
    DistanceHistogram,
    RelativeSums,
    SecondMoments,
    SquaredDistances,
    Sums,
)

# Released once or on few columns, or sums of rows that other statistics have completed.
WITHOUT_KERNEL = {"CountedRows", "IntervalSum", "JointStatistic"}
SIZES = (1, 2, 255, 256, 257, 4097)


def ball(rng, d, n=5000):
    """Return grid rows: clusters, the centre, the border and negative zeros."""
    rows = (
        rng.normal(0, 0.3 / np.sqrt(d), (n, d))
        + rng.normal(0, 0.3 / np.sqrt(d), (3, d))[rng.integers(0, 3, n)]
    )
    rows[::50] *= 100  # at the border
    rows[1::50] = 0.0
    grid = np.ascontiguousarray(onto_grid(rows * GRID).T)
    grid[:, 2::50] = -0.0
    return grid


def levels(rng, d, n=5000):
    """Return levels of columns with 1 to 6 values, and cells out of range."""
    rows = rng.integers(0, 1 + np.arange(d)[:, None] % 6, (d, n)).astype(float)
    rows[:, ::70] = 17.0
    rows[:, 1::70] = -3.0
    rows[:, 2::70] = np.nan
    return rows


def gaussians(rng, d, m):
    factors = 0.2 / np.sqrt(d) * (np.eye(d) + 0.2 * np.tril(rng.normal(size=(m, d, d)), -1))
    return GaussianComponents.from_parameters(rng.dirichlet(np.ones(m)), rng.normal(0, 0.2, (m, d)), factors)


def boxes(rng, d):
    p = min(3, d)
    axes = np.rint(np.linalg.qr(rng.normal(size=(d, p)))[0].T * 2.0**20)
    halved = tuple(int(axis) for axis in rng.integers(0, p, 18))
    starts = np.unique(np.r_[0, rng.integers(0, 1 << 18, 40)])
    return BoxHistogram(np.rint(rng.normal(0, 1e6, d)), axes, np.full(p, 0.4 * GRID), halved, starts)


def tables(rng, d, cls):
    sizes = 1 + np.arange(d) % 6
    bins = [rng.permutation(np.arange(size)) for size in sizes]
    if cls is Histograms:
        by = (d - 1, np.minimum(np.arange(sizes[-1]), 2))
        return [Histograms(range(d), bins), Histograms([0, d - 1, 0], [bins[0], bins[-1], bins[0]], by)]
    if cls is PairTables:
        half = [list(range(d // 2)), list(range(d // 2, d))]
        return [PairTables(bins, [range(d)]), PairTables(bins, half), PairTables(bins, [range(d)], by=d - 1)]
    k = 4
    missing = [rng.uniform(0.1, 0.3, k) if j % 2 else None for j in range(d)]
    # A missing cell's bin is the last.
    with_missing = [
        np.append(one, len(one)) if lost is not None else one for one, lost in zip(bins, missing, strict=True)
    ]
    values = [rng.dirichlet(np.ones(size), k) for size in sizes]
    return [MixtureTables(with_missing, rng.dirichlet(np.ones(k)), values, missing)]


def cases():
    """Return pairs of a statistic and the rows that it takes."""
    for d in (1, 2, 5, 17, 33):
        rng = np.random.default_rng(d)
        rows = ball(rng, d)
        for k in (1, 2, 3, 20):
            points = rows[:, rng.integers(0, rows.shape[1], k)].T.copy()
            points[-1] = points[0]  # the first of two equal points is the nearest
            edges = np.geomspace(1e-4, 2, 40) * GRID
            yield DistanceHistogram(points, edges), rows
            yield SquaredDistances(points, counted=True), rows
            yield RelativeSums(points, 0.2 * GRID, 0.3), rows
            yield RelativeSums(points, 0.2 * GRID, 0.3, rng.uniform(0.5, 2, d)), rows
        yield Sums(d, counted=True), rows
        yield Sums(d, counted=False), rows
        yield SecondMoments(np.rint(rng.normal(0, 1e6, d)), 0.3 * GRID), rows
        yield ColumnSquares(np.rint(rng.normal(0, 1e6, d)), rng.uniform(1e5, 1e7, d), 2.0), rows
        yield boxes(rng, d), rows
        yield FrameSizes(gaussians(rng, d, 1), 3.0 * d), rows
        for covariance in COVARIANCES:
            yield FrameMoments(gaussians(rng, d, 4), 3, covariance, np.sqrt(d), 0.4), rows
            if d < 10:
                clip = np.sqrt(d + np.sqrt(2 * d))
                scale = max(0.35, 0.6 * d**-0.25) * clip
                statistic = IncompleteMoments(gaussians(rng, d, 4), 3, covariance, clip, scale)
                yield statistic, np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
                alone = FrameMoments(gaussians(rng, d, 1), 1, covariance, clip, scale)
                yield CentredMoments(alone), np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
        if d > 4:
            for cls in (Histograms, PairTables, MixtureTables):
                for statistic in tables(rng, d, cls):
                    yield statistic, levels(rng, d)


CASES = list(cases())


def in_numpy(statistic, rows, monkeypatch):
    """Return the reference: the sum of blocks that a single product may hold."""
    monkeypatch.setattr(_compiled, "ENABLED", False)
    total = sum(
        statistic.sum_block(np.ascontiguousarray(rows[:, start : start + 500]))
        for start in range(0, rows.shape[1], 500)
    )
    monkeypatch.undo()
    return total


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{type(CASES[i][0]).__name__}-{i}")
def test_kernels_have_the_bits_of_numpy(number, monkeypatch):
    """A compiled sum equals NumPy's, from single and double precision, whole and in parts of any length."""
    statistic, rows = CASES[number]
    expected = in_numpy(statistic, rows, monkeypatch)
    assert expected.any()
    for kind in (np.float32, np.float64):
        cells = rows.astype(kind)
        assert np.array_equal(statistic.sum_block(cells), expected)
        for size in SIZES:
            parts = [cells[:, :size], cells[:, size:]]
            assert np.array_equal(sum(statistic.sum_block(part) for part in parts), expected)
    none = statistic.sum_block(np.empty((len(rows), 0)))
    assert none.shape == expected.shape
    assert not none.any()


def test_every_statistic_has_a_kernel_or_is_named_as_an_exception():
    """A new statistic comes with a kernel, and its kernel with a case here."""
    found = {}
    for module in iter_modules(dpem.statistics.__path__):
        if not module.name.startswith("kernels"):
            found |= vars(import_module(f"dpem.statistics.{module.name}"))
    statistics = {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind)
        and hasattr(kind, "sum_block")
        and not (inspect.isabstract(kind) or getattr(kind, "_is_protocol", False))
    }
    compiled = {name for name, kind in statistics.items() if getattr(kind, "has_kernel", False)}
    assert compiled == {type(statistic).__name__ for statistic, _ in CASES}
    assert set(statistics) - compiled == WITHOUT_KERNEL


def _single(grid, columns):
    out = np.full(columns.shape, 77, dtype=np.float32)
    grid.write_single(columns, grid_kernel, out)
    return out


@pytest.mark.parametrize(
    "arguments", [{"data_norm": 1.0}, {"bounds": (-1, 2)}, {"bounds": (-1, 2), "keep_distances": False}]
)
@pytest.mark.parametrize("d", [1, 2, 10, 60])
def test_the_compiled_grid_has_the_bits_of_numpy(d, arguments):
    """Every row goes to the same integers, also rows with NaN, infinite and huge cells."""
    domain = Domain.from_arguments(d, **arguments)
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.7, (d, 3000))
    for column, cell in enumerate((np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, -0.0, 2.0, -1.0)):
        rows[rng.integers(d), column::97] = cell
    rows[:, 50::97] = 0.0
    for grid in (domain, IncompleteRows(domain)):
        expected = grid.to_grid(rows)
        assert np.array_equal(_single(grid, rows), expected, equal_nan=True)
        by_row = np.ascontiguousarray(rows.T)
        for start, stop in ((0, 256), (256, 3000)):
            part = _single(grid, by_row[start:stop].T)
            assert np.array_equal(part, expected[:, start:stop], equal_nan=True)


def test_cells_of_a_table_have_the_bits_of_numpy():
    """Every cell goes to the same integer of its column's grid, also beyond the bounds; NaN stays NaN."""
    schema = Schema(
        {
            "wide": {"kind": "continuous", "bounds": [-3, 11]},
            "whole": {"kind": "integer", "bounds": [-5, 900]},
            "kind": {"kind": "categorical", "categories": list("abcde")},
        }
    )
    cells = np.random.default_rng(0).normal(2, 8, (3, 1000))
    cells[:, :6] = [np.nan, np.inf, -np.inf, -0.0, 0.5, 2.5]
    grid = TableGrid(schema)
    assert np.array_equal(_single(grid, cells), grid.to_grid(cells), equal_nan=True)


@pytest.mark.parametrize("kind", ["array", "transposed", "frame", "columns", "float32", "one column"])
def test_engines_convert_every_layout_alike(kind, monkeypatch):
    """Rows in any layout reach the statistics as the same integers, compiled or not."""
    values = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32).astype(np.float64)
    table = {
        "array": values,
        "transposed": np.asfortranarray(values),
        "frame": pd.DataFrame(values, columns=list("abc")),
        "columns": pd.DataFrame({name: values[:, j].copy() for j, name in enumerate("abc")}),
        "float32": values.astype(np.float32),
        "one column": values[:, :1],
    }[kind]
    d = 1 if kind == "one column" else 3
    rows, domain = TableRows(table), Domain.from_arguments(d, data_norm=1.5)
    (compiled,) = grid_rows(rows, domain)
    monkeypatch.setattr(_compiled, "ENABLED", False)
    (expected,) = grid_rows(rows, domain)
    assert compiled.dtype == expected.dtype == np.float32
    assert np.array_equal(compiled, expected)
    assert np.array_equal(expected, domain.to_grid(np.ascontiguousarray(values[:, :d].T)))


def test_small_blocks_need_no_compiler(monkeypatch):
    """Kernels are used for large blocks only: a small first fit does not wait for a compiler."""
    monkeypatch.undo()
    monkeypatch.setattr(_compiled, "_FEWEST_CELLS", 1000)
    calls = []
    monkeypatch.setattr(_compiled, "import_module", lambda name: calls.append(name) or import_module(name))
    statistic = Sums(10, counted=True)
    rows = np.ones((10, 99))
    assert statistic.sum_block(rows)[0] == 99
    assert statistic.sum_block(rows.astype(np.float32))[0] == 99
    assert not calls
    assert statistic.sum_block(np.ones((10, 100)))[0] == 100
    assert calls == ["dpem.statistics.kernels.simple"]


def test_compiled_code_is_renewed_if_a_file_changes_that_it_contains(monkeypatch):
    """A kernel contains the functions that it calls, also those of other files."""
    from dpem.statistics.kernels import gaussian

    stamp = gaussian.frame_moments._cache._cache_file._source_stamp
    assert stamp == _compiled._sources_of_kernels()
    read = Path.read_bytes

    def changed(path):
        return read(path) + (b"#" if path.name == "arithmetic.py" else b"")

    monkeypatch.setattr(Path, "read_bytes", changed)
    assert _compiled._sources_of_kernels.__wrapped__() != stamp
