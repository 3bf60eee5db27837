"""Rows that are streamed to a device give the bits of rows in memory; it holds a few blocks at a time."""

import numpy as np
import pandas as pd
import pytest
import torch

import dpem
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine, device_rows, engine_for, open_rows
from dpem.engines.torch_device import TorchEngine
from dpem.errors import EngineError, InsufficientBudgetError, InvalidArgumentError
from dpem.statistics.simple import Sums
from support.estimators import BY_ADD_REMOVE, ESTIMATORS, same_bits, seeded
from support.sources import NUMBERS, TABLE, mixed_table

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# Estimators whose statistics, apart from those of missing cells and of plug-in models, the device sums.
ON_DEVICE = [
    name for name in ESTIMATORS if "missing" not in name and "EM" not in name and "paper" not in name
]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def numbers(estimator):
    """Return the mixed table with codes instead of words, for an estimator and its schema."""
    frame = mixed_table().replace({"ward": {"north": 0, "south": 1, "east": 2, "elsewhere": 7}})
    schema = estimator.schema
    if "ward" in schema.names:
        schema = schema.declare({"ward": {"categories": [0, 1, 2]}})
    return estimator.set_params(schema=schema), frame[list(schema.names)].astype(float)


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_the_same_bits(name, adjacency, device, tmp_path, monkeypatch):
    """From arrays, a tensor on the processor and files, in small blocks, none of which are kept."""
    if adjacency == "add_remove" and name not in BY_ADD_REMOVE:
        return
    relation = {} if adjacency == "replace_one" else {"adjacency": adjacency}
    make = lambda: numbers(ESTIMATORS[name](**relation))[0]  # noqa: E731
    _, frame = numbers(ESTIMATORS[name]())
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=37)
    expected = seeded(lambda: make().fit(frame))
    monkeypatch.setattr(device_rows, "_block_rows", lambda *_: 64)
    monkeypatch.setattr(TorchEngine, "_room", lambda _: 0)
    tensor = torch.as_tensor(frame.to_numpy(copy=True))
    same_bits(seeded(lambda: make().fit(dpem.OnDevice(frame, device))), expected)
    same_bits(seeded(lambda: make().fit(dpem.OnDevice(tmp_path / "rows.parquet", device))), expected)
    same_bits(seeded(lambda: make().fit(dpem.OnDevice(tensor, device))), expected)


@pytest.mark.parametrize("name", ON_DEVICE)
def test_the_device_computes_all_sums(name, device, monkeypatch):
    estimator, frame = numbers(ESTIMATORS[name]())
    monkeypatch.setattr(LocalEngine, "sum", None)
    seeded(lambda: estimator.fit(torch.as_tensor(frame.to_numpy(copy=True), device=device)))


@pytest.mark.parametrize("kept", ["none", "some", "all"])
@pytest.mark.parametrize("form", ["tensor", "frame", "function"])
def test_kept_rows_are_limited(kept, form, device, monkeypatch):
    """Every pass gives the same sums, however many rows are kept; no more are kept than there is room for."""
    monkeypatch.setattr(device_rows, "_block_cells", lambda _: 1)  # blocks of 4096 rows
    X = np.random.default_rng(0).normal(0, 0.4, (50_000, 3))
    room = {"none": 0, "some": 30_000 * 12, "all": 10**9}[kept]
    monkeypatch.setattr(TorchEngine, "_room", lambda _: room)
    data = {"tensor": torch.as_tensor(X), "frame": pd.DataFrame(X, columns=list("abc"))}.get(form)
    if form == "function":  # parts of uneven sizes, one larger than a block, one empty
        data = lambda: iter([X[:7], X[7:7], X[7:30_000], X[30_000:30_001], X[30_001:]])  # noqa: E731
    source = open_rows(dpem.OnDevice(data, device))
    domain, statistic = Domain.from_arguments(3, data_norm=1.0), Sums(3, counted=True)
    expected = LocalEngine(1).sum(statistic, open_rows(X), domain)
    engine = engine_for(source, 2)
    largest = 0
    for _ in range(3):
        np.testing.assert_array_equal(engine.sum(statistic, source, domain), expected)
        rows = [block.shape[1] for block in engine._kept.blocks]
        largest = max([largest, *rows])
        assert sum(rows) * 12 <= room
        assert (sum(rows) == len(X)) == (kept == "all")
        assert rows or kept == "none" or form == "function"
    assert largest <= 4096


@pytest.mark.parametrize("enough", [True, False])
@pytest.mark.parametrize("form", ["tensor", "streamed tensor", "frame"])
def test_no_row_is_read_before_the_charge(form, enough, device, tmp_path, monkeypatch):
    """The charge comes first; if the ledger rejects it, no row is read."""
    frame, events = mixed_table()[list(NUMBERS.names)].astype(float), []
    tensor = torch.as_tensor(frame.to_numpy(copy=True))
    data = {"tensor": tensor.to(device), "streamed tensor": dpem.OnDevice(tensor, device)}.get(
        form, dpem.OnDevice(frame, device)
    )

    def note(kind, method):
        real = getattr(kind, method)

        def noted(*arguments, **named):
            events.append(kind)
            return real(*arguments, **named)

        monkeypatch.setattr(kind, method, noted)

    note(device_rows.TensorRows, "_part")
    note(TableRows, "block")
    note(dpem.Ledger, "spend")
    ledger = dpem.Ledger.create(tmp_path / "l", name="rows", cap_epsilon=1.0, cap_delta=1e-5)
    model = dpem.KMeans(2, epsilon=0.5 if enough else 2.0, schema=NUMBERS, ledger=ledger, max_iter=2)
    if enough:
        model.fit(data)
        assert len(events) > 1
    else:
        with pytest.raises(InsufficientBudgetError):
            model.fit(data)
        assert len(events) == 1
    assert events[0] is dpem.Ledger


def test_a_missing_device_is_refused_before_the_charge(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    ledger = dpem.Ledger.create(tmp_path / "l", name="rows", cap_epsilon=1.0, cap_delta=1e-5)
    with pytest.raises(EngineError, match="can use here, got cuda"):
        dpem.KMeans(2, epsilon=0.9, schema=NUMBERS, ledger=ledger).fit(dpem.OnDevice(mixed_table()))
    assert not ledger.history()


def test_invalid_devices_and_rows_are_refused():
    for device in ("gpu?", "gpux", 3.5, None, np.full((2, 2), 8128.5)):
        with pytest.raises(InvalidArgumentError, match="a device of torch"):
            open_rows(dpem.OnDevice(np.zeros((3, 2)), device))
    with pytest.raises(InvalidArgumentError, match="Name one device"):
        dpem.OnDevice(dpem.OnDevice(np.zeros((3, 2))))
    with pytest.raises(InvalidArgumentError, match="2D array"):
        open_rows(dpem.OnDevice(np.zeros(3), "cpu"))


def test_no_rows_are_shown():
    data = dpem.OnDevice(pd.DataFrame({"a": [8128.5] * 3}), "cpu")
    assert repr(data) == "OnDevice(DataFrame, 'cpu')"


def test_persons_are_limited_on_a_device_too(device):
    frame = mixed_table().assign(who=lambda table: table.index // 3)

    def fit(data):
        return dpem.KMeans(
            2, epsilon=2.0, schema=NUMBERS, person="who", rows_per_person=2, random_state=0
        ).fit(data)

    same_bits(seeded(lambda: fit(dpem.OnDevice(frame, device))), seeded(lambda: fit(frame)))


def test_fitted_models_and_measures_accept_such_rows(device):
    frame = mixed_table()
    model = dpem.KMeans(2, epsilon=2.0, schema=NUMBERS).fit(frame)
    data = dpem.OnDevice(frame, device)
    np.testing.assert_array_equal(model.predict(data), model.predict(frame))
    table = dpem.MixedMixture(2, epsilon=99.0, schema=TABLE, target="smoker").fit(frame)
    np.testing.assert_array_equal(table.score_samples(data), table.score_samples(frame))
    np.testing.assert_array_equal(table.predict(data), table.predict(frame))
    centres = model.cluster_centers_
    nicv = [dpem.private_nicv(rows, centres, epsilon=9.0, schema=NUMBERS).value for rows in (data, frame)]
    assert abs(nicv[0] - nicv[1]) < 1
    assert dpem.private_bounds(dpem.OnDevice(frame[["a"]], device), epsilon=1.0).schema.names == ("a",)


def test_a_failure_while_rows_are_read_keeps_nothing(device, monkeypatch):
    monkeypatch.setattr(device_rows, "_block_cells", lambda _: 1)
    X, fails = np.random.default_rng(0).normal(0, 0.4, (30_000, 2)), [True]

    def batches():
        yield X[:9000]
        if fails[0]:
            raise OSError
        yield X[9000:]

    fails[0] = False
    source = open_rows(dpem.OnDevice(batches, device))
    fails[0] = True
    domain, statistic = Domain.from_arguments(2, data_norm=1.0), Sums(2, counted=True)
    engine = engine_for(source, 2)
    with pytest.raises(Exception):  # noqa: B017, PT011  (of the source)
        engine.sum(statistic, source, domain)
    fails[0] = False
    expected = LocalEngine(1).sum(statistic, open_rows(X), domain)
    for _ in range(2):
        np.testing.assert_array_equal(engine.sum(statistic, source, domain), expected)
