"""Dask: the same bits on a cluster, with workers that die, and on threads without a cluster."""

import logging
import os
import signal

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import threaded
from dask.base import get_scheduler

import dpem
from dpem import Ledger
from dpem.engines import engine_for, open_rows
from dpem.errors import EngineError, InvalidArgumentError
from dpem.gate.release import ReleaseGate
from support.clusters import dask_cluster
from support.estimators import ESTIMATORS, same_bits, seeded
from support.sources import NUMBERS, TABLE, VISITS, mixed_table, parts, visits

FRAME = mixed_table()


def frame_of(tables, meta=FRAME):
    return dd.from_delayed([dask.delayed(table) for table in tables], meta=meta.iloc[:0], verify_meta=False)


@pytest.fixture(scope="module")
def cluster():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask_cluster() as client:
        yield client


@pytest.fixture
def threads():
    """Use Dask's threads, even if a client of the cluster exists."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_the_same_bits_on_a_cluster(name, cluster):
    """Partitions have uneven sizes; one is empty, one has another column order, and two have other types."""
    fitted = seeded(lambda: ESTIMATORS[name]().fit(frame_of(parts(FRAME))))
    same_bits(fitted, seeded(lambda: ESTIMATORS[name]().fit(FRAME)))


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_arrays_on_threads_give_the_same_bits(adjacency, threads):
    """Without a cluster, Dask's threads give the same bits; arrays may be chunked along both axes."""
    assert get_scheduler() is threaded.get
    rows = FRAME[["a", "b", "c"]].to_numpy()
    X = da.from_array(rows, chunks=((1, 200, 402), (2, 1)))

    def fit(X):
        return dpem.KMeans(2, epsilon=1.0, bounds=(-3, 3), adjacency=adjacency, random_state=0).fit(X)

    same_bits(seeded(lambda: fit(X)), seeded(lambda: fit(rows)))
    unknown = X[X[:, 1] > -10]  # the number of rows is not known in advance
    same_bits(seeded(lambda: fit(unknown)), seeded(lambda: fit(rows)))


def test_measures_of_rows_run_on_the_cluster(cluster):
    X = frame_of(parts(FRAME))
    (found, sums), (expected, others) = (
        seeded(lambda data=data: dpem.clipped_fraction(data, epsilon=1.0, schema=TABLE))
        for data in (X, FRAME)
    )
    assert found.value == expected.value
    np.testing.assert_array_equal(sums[0].raw, others[0].raw)


def test_models_predict_partition_by_partition(cluster):
    model = dpem.KMeans(2, epsilon=1.0, schema=NUMBERS).fit(FRAME)
    X = frame_of([FRAME[:100].fillna(0), FRAME[100:].fillna(0)])
    with pytest.raises(InvalidArgumentError, match=r"map_partitions\(model.predict\)"):
        model.predict(X)
    labels = X.map_partitions(model.predict, meta=(None, "i8")).compute()
    np.testing.assert_array_equal(np.concatenate([labels]), model.predict(FRAME.fillna(0)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda table: table.drop(columns="b"), "without 'b'"),
        (lambda table: table.assign(b="text"), "numeric column.*'b'"),
    ],
)
def test_the_error_about_a_different_partition_names_its_column(spoil, message, cluster):
    tables = [FRAME[["a", "b"]][:300], spoil(FRAME[["a", "b"]][300:])]
    X = frame_of(tables, meta=FRAME[["a", "b"]])
    with pytest.raises(InvalidArgumentError, match=message):
        dpem.KMeans(2, epsilon=1.0, bounds=(-3, 3)).fit(X)


def test_a_table_without_partitions_is_an_empty_table(threads):
    X = dd.from_pandas(FRAME[["a", "b"]], npartitions=2).partitions[:0]
    model = dpem.KMeans(2, epsilon=1.0, bounds=(-3, 3), adjacency="add_remove").fit(X)
    assert model.n_features_in_ == 2


def test_invalid_tables_are_refused():
    with pytest.raises(InvalidArgumentError, match="delayed object"):
        open_rows(dask.delayed(FRAME))
    with pytest.raises(InvalidArgumentError, match="rows and columns"):
        open_rows(da.zeros(5))
    with pytest.raises(InvalidArgumentError, match=r"numeric column.*'ward'"):
        open_rows(frame_of([FRAME]))
    with pytest.raises(TypeError, match="Dask table"):
        engine_for(open_rows(da.zeros((2, 2)))).sum(None, open_rows(pd.DataFrame({"a": [1.0]})), None)


def test_rows_that_do_not_fit_into_memory_are_read_again(monkeypatch, cluster):
    """If memory is short, nothing is cached; sums stay the same."""
    monkeypatch.setattr("dpem.engines.dask_cluster._room", lambda: 0)
    fitted = seeded(lambda: ESTIMATORS["KMeans"]().fit(frame_of(parts(FRAME))))
    same_bits(fitted, seeded(lambda: ESTIMATORS["KMeans"]().fit(FRAME)))


def test_a_cluster_reads_cell_formats_alike(cluster):
    """Dates, durations, separators and words are read alike; a type that does not fit its kind is refused."""
    table = visits()

    def fit(X):
        return dpem.MixedMixture(schema=VISITS, epsilon=2.0, random_state=0).fit(X)

    expected = seeded(lambda: fit(table))
    same_bits(seeded(lambda: fit(dd.from_pandas(table, npartitions=3))), expected)
    whole = dpem.Schema({"day": {"kind": "integer", "bounds": [0, 9]}})
    with pytest.raises(InvalidArgumentError, match="dates or times in column 'day'"):
        dpem.MixedMixture(schema=whole, epsilon=1.0).fit(dd.from_pandas(table, npartitions=2))


# -- workers that die: last, because all tests share them ------------------------------------------------


def test_a_worker_that_dies_during_a_fit_changes_no_bits(monkeypatch, cluster):
    """Another worker computes its partitions again; sums and model are the same, with a single charge."""
    expected = seeded(lambda: ESTIMATORS["GaussianMixture"]().fit(FRAME))
    release, seen = ReleaseGate.release, []

    def kill(gate, *arguments, **more):
        seen.append(1)
        if len(seen) in {3, 6}:
            pids = cluster.run(os.getpid)
            os.kill(pids[min(pids)], signal.SIGKILL)
        return release(gate, *arguments, **more)

    before = set(cluster.run(os.getpid).values())
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseGate, "release", kill)
        found = seeded(lambda: ESTIMATORS["GaussianMixture"]().fit(frame_of(parts(FRAME))))
    cluster.wait_for_workers(2, timeout=120)
    assert set(cluster.run(os.getpid).values()) != before
    same_bits(found, expected)


def _dies(table):
    os._exit(1)


def test_a_partition_that_kills_every_worker_ends_the_fit(tmp_path, monkeypatch, cluster):
    """The error states the cause without rows, and the charge stays on the ledger."""
    budget = {"cap_epsilon": 2.0, "cap_delta": 1e-5, "adjacency": "add_remove"}
    ledger = Ledger.create(tmp_path / "ledger", name="x", **budget)
    tables = [dask.delayed(FRAME[:300]), dask.delayed(_dies)(FRAME[300:])]
    X = dd.from_delayed(tables, meta=FRAME.iloc[:0], verify_meta=False)
    model = dpem.KMeans(2, epsilon=1.0, schema=NUMBERS, ledger=ledger, adjacency="add_remove")
    monkeypatch.setattr(cluster.cluster.scheduler, "allowed_failures", 1)
    with pytest.raises(EngineError, match="Dask failed: KilledWorker") as raised:
        model.fit(X)
    assert any("stays charged" in note for note in raised.value.__notes__)
    assert len(ledger.history()) == 1
