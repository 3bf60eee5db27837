"""Every statistic with a device form gives the integers of NumPy, for any block size and hostile rows."""

import numpy as np
import pytest
import torch

from dpem import _compiled
from dpem.data import Domain, Schema, TableGrid, TableRows
from dpem.engines import LocalEngine, device_rows, engine_for, open_rows
from dpem.plugin.clipped import ClippedStatistic, EncodedRows, read_only
from dpem.plugin.product_mixture import CategoricalFamily, PoissonFamily
from dpem.plugin.trials import Mean
from dpem.statistics import kernels_torch_tables
from dpem.statistics.contingency import Histograms, PairTables
from dpem.statistics.frame_sizes import FrameSizes
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.gaussian_missing import IncompleteMoments
from dpem.statistics.mixture_tables import MixtureTables
from dpem.statistics.projection import ProjectedDomain
from dpem.statistics.simple import ColumnSquares, CountedRows, SquaredDistances, Sums

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(device_rows, "_block_cells", lambda _: 1 << 13)
    monkeypatch.setattr(kernels_torch_tables, "_ENTRIES", 1 << 14)


class Levels:
    """A grid that leaves rows as they are."""

    def to_grid(self, columns):
        return columns

    def to_grid_tensor(self, columns):
        return columns


def same_sums(statistic, X, grid, device):
    """Assert equal sums of a tensor, and of rows that are streamed, with NumPy alone and with kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_compiled, "ENABLED", False)
        expected = LocalEngine(1).sum(statistic, TableRows(X), grid)
    np.testing.assert_array_equal(LocalEngine(2).sum(statistic, TableRows(X), grid), expected)
    for source in (
        open_rows(torch.as_tensor(X, device=device)),
        device_rows.rows_on_device(open_rows(torch.as_tensor(X)), device),
        device_rows.rows_on_device(open_rows(X), device),
    ):
        engine = engine_for(source, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalEngine, "sum", None)  # the device sums
            for _ in range(2):  # computed, then kept
                np.testing.assert_array_equal(engine.sum(statistic, source, grid), expected)


def hostile_rows(rng, n, d):
    X = rng.normal(0, 0.4, (n, d))
    X[:: max(1, n // 7)] *= 50
    if n > 10:
        X[3, 0], X[5, -1], X[7, 0], X[9] = np.nan, np.inf, -np.inf, -0.0
    return X


@pytest.mark.parametrize(("n", "d"), [(0, 2), (1, 1), (4097, 3), (9001, 17)])
def test_sizes_of_rows(n, d, device):
    rng = np.random.default_rng(d)
    X, domain = hostile_rows(rng, n, d), Domain.from_arguments(d, data_norm=1.0)
    points = np.rint(rng.normal(0, 2.0**21, (3, d)))
    factor = np.tril(rng.normal(size=(d, d)), -1) * 0.1 + 0.3 * np.eye(d)
    frame = GaussianComponents.from_parameters(np.ones(1), points[:1] / 2**24, factor[None])
    for statistic in (
        FrameSizes(frame, 3.0 * d),
        FrameSizes(frame, 0.1),
        ColumnSquares(points[0], rng.uniform(2.0**18, 2.0**23, d), 1.7),
        SquaredDistances(points, counted=True),
        SquaredDistances(points, counted=False),
        CountedRows(),
    ):
        same_sums(statistic, X, domain, device)


@pytest.mark.parametrize(("d", "p"), [(5, 2), (5, 5), (30, 4)])
def test_rows_in_a_basis(d, p, device):
    rng = np.random.default_rng(p)
    basis = np.linalg.qr(rng.normal(size=(d, p)))[0]
    grid = ProjectedDomain(Domain.from_arguments(d, data_norm=1.0), basis)
    same_sums(Sums(grid.n_columns, counted=True), hostile_rows(rng, 5000, d), grid, device)


def levels(rng, n, sizes):
    """Return rows of levels, some of them beyond the sizes, and some no levels."""
    X = np.floor(rng.random((n, len(sizes))) * (np.array(sizes) + 1)) - 0.0
    if n > 10:
        X[1, 0], X[2, -1], X[3], X[4, 0], X[5, 0], X[6, -1] = np.nan, np.inf, -np.inf, -3.0, 1e9, -0.0
    return X


def bins_of(rng, sizes):
    return [np.sort(np.append(np.arange(max(1, size // 2)), rng.integers(0, max(1, size // 2), size))[:size])
            for size in sizes]  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 4096, 9001])
def test_tables(n, device):
    rng = np.random.default_rng(n)
    sizes = (3, 2, 70, 258, 5)
    X, bins = levels(rng, n, sizes), bins_of(rng, sizes)
    split = (1, np.array([1, 0]))
    for statistic in (
        Histograms.of_columns(sizes),
        Histograms([4, 0, 0, 2], [bins[4], bins[0], np.zeros(3, np.intp), bins[2]]),
        Histograms([0, 2, 3], [bins[0], bins[2], bins[3]], split),
        PairTables(bins, [range(5)]),
        PairTables(bins, [[0, 2], [3, 4, 1]], by=1),
        PairTables(bins, [[0], [1, 2]], by=4),
        PairTables(bins, []),
    ):
        same_sums(statistic, X, Levels(), device)


@pytest.mark.parametrize(("n", "k"), [(0, 2), (1, 1), (3000, 1), (9001, 5)])
def test_expected_tables_of_mixtures(n, k, device):
    rng = np.random.default_rng(k)
    sizes = (3, 2, 70, 5)
    tables = [rng.dirichlet(np.full(size, 0.3), k) + 1e-9 for size in sizes]
    tables = [table / table.sum(axis=1, keepdims=True) for table in tables]
    missing = [None, rng.uniform(0.01, 0.4, k), None, rng.uniform(0.01, 0.4, k)]
    bins = [np.arange(size + (lost is not None)) for size, lost in zip(sizes, missing, strict=True)]
    statistic = MixtureTables(bins, rng.dirichlet(np.ones(k)), tables, missing)
    same_sums(statistic, levels(rng, n, [len(own) for own in bins]), Levels(), device)


CELLS = Schema(
    {
        "a": {"kind": "categorical", "categories": [0, 1, 2]},
        "b": {"kind": "boolean", "missing": True},
        "c": {"kind": "integer", "bounds": [2, 6], "missing": True},
    }
)
COUNTS = Schema({name: {"kind": "integer", "bounds": [0, 9 + i], "missing": bool(i)} for i, name in
                 enumerate("abc")})  # fmt: skip


@pytest.mark.parametrize(("n", "k"), [(0, 2), (1, 1), (9001, 4)])
def test_latent_classes(n, k, device):
    rng = np.random.default_rng(k)
    X = rng.integers(-1, 9, (n, 3)) * 1.0
    X[::7, 1], X[::11, 2] = np.nan, np.nan
    probabilities = [rng.dirichlet(np.ones(size), k) for size in (3, 2, 5)]
    weights = rng.dirichlet(np.ones(k))
    models = [
        (CategoricalFamily(k, (3, 2, 5), (0.0, 0.0, 2.0)), CELLS,
         {"weights": weights, "probabilities": np.concatenate(probabilities, axis=1)}),
        (PoissonFamily(k, (9.0, 10.0, 11.0)), COUNTS,
         {"weights": weights, "means": rng.uniform(0.1, 8, (k, 3))}),
    ]  # fmt: skip
    for model, schema, parameters in models:
        grid = TableGrid(schema)
        size = sum(part.size for part in model.natural(parameters)[:1]) + k
        for norm in (2.0, 0.3):
            statistic = ClippedStatistic(model, read_only(parameters), grid, size, norm, nonnegative=True)
            with np.errstate(all="ignore"):
                parsed = np.stack([c.parse(own)[0] for c, own in zip(schema.columns, X.T, strict=True)])
            same_sums(statistic, parsed.T, grid, device)
        encode = EncodedRows(model, grid, (size - k) // k)
        cells = grid.to_grid(parsed)
        np.testing.assert_array_equal(
            encode.map_tensor(torch.as_tensor(cells, device=device)).cpu().numpy(), encode(cells)
        )


def test_the_processor_sums_what_has_no_form_for_devices():
    """Models of users see one row at a time; the moments of rows with missing cells are not on the device."""
    schema = Schema({"a": {"kind": "continuous", "bounds": [0, 1]}})
    own = ClippedStatistic(Mean(), read_only({}), TableGrid(schema), 2, 1.0, nonnegative=False)
    assert own.sum_tensor is None
    assert EncodedRows(Mean(), TableGrid(schema), 1).map_tensor is None
    assert IncompleteMoments.sum_tensor is None
