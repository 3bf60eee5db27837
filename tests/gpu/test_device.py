"""Tensors give the same bits on a device as rows in memory, on a GPU if there is one."""

import numpy as np
import pytest
import torch

import dpem
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine, device_rows, engine_for, open_rows, torch_device
from dpem.errors import EngineError, ExactArithmeticError, InvalidArgumentError
from dpem.statistics import kernels_torch as device_sums
from dpem.statistics import simple as queries
from dpem.statistics.gaussian import FrameMoments, GaussianComponents
from support.estimators import ESTIMATORS, same_bits, seeded
from support.sources import NUMBERS, TABLE, mixed_table

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FUSED = [False, *([True] if torch.cuda.is_available() else [])]
RNG = np.random.default_rng(0)


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def rows(n, d, scale=0.4):
    """Return rows inside and outside the unit ball, some with NaN or infinities."""
    found = RNG.normal(0, scale, (n, d))
    found[:: max(1, n // 7)] *= 50
    if n > 10:
        found[3, 0], found[5, -1], found[7, 0] = np.nan, np.inf, -np.inf
    return found


def components(m, d):
    factors = np.stack([np.linalg.cholesky(np.cov(RNG.normal(size=(d, 3 * d))) * 0.05 + 1e-3 * np.eye(d))
                        for _ in range(m)]) if d > 1 else np.full((m, 1, 1), 0.2)  # fmt: skip
    return GaussianComponents.from_parameters(np.full(m, 1 / m), RNG.normal(0, 0.3, (m, d)), factors)


def same_sum(statistic, X, domain, device):
    source = open_rows(torch.as_tensor(X, device=device))
    expected = LocalEngine().sum(statistic, TableRows(X), domain)
    engine = engine_for(source)
    for _ in range(2):  # computed, then cached
        np.testing.assert_array_equal(engine.sum(statistic, source, domain), expected)


@pytest.mark.parametrize(("n", "d"), [(0, 2), (1, 1), (777, 1), (3001, 2), (5000, 13), (40_000, 40)])
@pytest.mark.parametrize("bounded", [True, False])
def test_grid_rows_equal_those_of_numpy(n, d, bounded, device):
    arguments = {"bounds": (-1, 1)} if bounded else {"data_norm": 1.0}
    domain = Domain.from_arguments(d, **arguments)
    X = rows(n, d).T.copy()
    found = domain.to_grid_tensor(torch.as_tensor(X, device=device)).cpu().numpy()
    np.testing.assert_array_equal(found, domain.to_grid(X))


@pytest.mark.parametrize("fused", FUSED)
@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize(
    ("n", "d", "m"), [(1, 1, 1), (511, 2, 3), (1025, 9, 4), (9000, 30, 6), (3000, 100, 3)]
)
def test_moments_of_components_equal_those_in_memory(n, d, m, covariance, fused, device, monkeypatch):
    monkeypatch.setattr(device_sums, "FUSED", fused)
    monkeypatch.setattr(device_rows, "_block_cells", lambda _: 1 << 14)  # use several blocks
    statistic = FrameMoments(components(m, d), max(1, m - 1), covariance, np.sqrt(d + 2), 0.5)
    same_sum(statistic, rows(n, d), Domain.from_arguments(d, data_norm=1.0), device)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3000, 2), (9000, 12)])
def test_sums_of_rows_and_cells_equal_those_in_memory(n, d, device, monkeypatch):
    monkeypatch.setattr(device_rows, "_block_cells", lambda _: 1 << 14)
    X, domain = rows(n, d), Domain.from_arguments(d, data_norm=1.0)
    points = np.rint(RNG.normal(0, 2.0**21, (5, d)))
    axes = np.rint(np.linalg.qr(RNG.normal(size=(d, d)))[0][: min(d, 3)] * 2.0**20)
    halved = tuple(i % len(axes) for i in range(queries.BOX_BITS))
    for statistic in (
        queries.Sums(d, counted=True),
        queries.Sums(d, counted=False),
        queries.DistanceHistogram(points, np.linspace(1e5, 2e7, 9)),
        queries.SecondMoments(points[0], 2.0**22),
        queries.RelativeSums(points, 2.0**21, 0.7),
        queries.BoxHistogram(points[1], axes, np.full(len(axes), 2.0**23), halved, np.arange(0, 2**18, 64)),
    ):
        same_sum(statistic, X, domain, device)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_the_same_bits(name, device):
    """Estimators with categories or a schema read the tensor on the host, others on its device."""
    frame = mixed_table().replace({"ward": {"north": 0, "south": 1, "east": 2, "elsewhere": 7}})
    schema = ESTIMATORS[name]().schema
    if "ward" in schema.names:
        schema = schema.declare({"ward": {"categories": [0, 1, 2]}})
    X = frame[list(schema.names)].to_numpy(dtype=float, copy=True)

    def fit(data):
        return ESTIMATORS[name]().set_params(schema=schema).fit(data)

    fitted = [seeded(lambda data=data: fit(data)) for data in (torch.as_tensor(X, device=device), X)]
    same_bits(*fitted)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("model", [dpem.KMeans, dpem.GaussianMixture, dpem.FactorAnalysis])
def test_fits_without_a_schema_run_on_the_device(model, adjacency, device):
    X = np.concatenate([RNG.normal(c, 0.3, (1500, 3)) for c in (-1, 0, 1)]).astype(np.float32)

    def fit(data):
        return model(2, epsilon=2.0, data_norm=4.0, random_state=0, adjacency=adjacency).fit(data)

    same_bits(seeded(lambda: fit(torch.as_tensor(X, device=device))), seeded(lambda: fit(X)))


def test_models_predict_tensors(device):
    X = RNG.normal(size=(500, 2))
    model = dpem.KMeans(2, epsilon=1.0, data_norm=3.0).fit(X)
    np.testing.assert_array_equal(model.predict(torch.as_tensor(X, device=device)), model.predict(X))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.float32])
def test_supported_types_of_tensors(dtype, device):
    tensor = torch.arange(8, device=device).reshape(4, 2).to(dtype)
    source = open_rows(tensor)
    expected = tensor.to(torch.float64).cpu().numpy().T
    np.testing.assert_array_equal(source.in_memory().block(), expected)
    np.testing.assert_array_equal(next(source.blocks()).cpu().numpy(), expected)


def test_invalid_tensors_are_refused():
    for tensor, message in (
        (torch.zeros(3), "rows and columns"),
        (torch.zeros(3, 0), "rows and columns"),
        (torch.zeros(2, 2, dtype=torch.complex64), "real numbers"),
        (torch.eye(2).to_sparse(), "dense"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            open_rows(tensor)
    with pytest.raises(InvalidArgumentError, match="columns of the schema"):
        open_rows(torch.zeros(2, 2), NUMBERS)
    assert open_rows(torch.zeros(2, 4), TABLE).n_columns == 4


def test_a_device_without_exact_products_is_refused(monkeypatch):
    """The check of a device detects float32 products, products that are off by one, and missing float64."""
    real = torch.Tensor.__matmul__
    spoiled = [
        lambda a, b: real(a.float(), b.float()).double(),
        lambda a, b: real(a, b) + (torch.arange(b.shape[1]) == 3),
        lambda a, b: (_ for _ in ()).throw(RuntimeError("no float64")),
    ]
    for product in spoiled:
        torch_device.check_device.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "__matmul__", product)
            with pytest.raises(EngineError, match="exact float64 products"):
                engine_for(open_rows(torch.zeros(2, 2)))
    torch_device.check_device.cache_clear()
    engine_for(open_rows(torch.zeros(2, 2)))


def test_each_product_on_a_device_is_checked(monkeypatch):
    real = torch.Tensor.__matmul__
    a, b = torch.arange(12.0, dtype=torch.float64).reshape(3, 4), torch.ones(4, 2, dtype=torch.float64)
    assert torch.equal(device_sums.exact_product(a, b, 2.0**40), real(a, b))
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda x, y: real(x, y) + torch.tensor([[1.0, 0.0]]))
    with pytest.raises(ExactArithmeticError, match="device rounds them"):
        device_sums.exact_product(a, b, 2.0**40)
