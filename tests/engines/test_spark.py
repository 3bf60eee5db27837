"""Spark: executors give the same bits, also if tasks fail and are retried."""

import os
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpem
from dpem import Ledger
from dpem.data import Domain
from dpem.data.sources.streams import TableReader
from dpem.engines import engine_for, open_rows
from dpem.engines.remote import total_of
from dpem.errors import EngineError, InvalidArgumentError
from dpem.statistics.simple import Sums
from support.clusters import require_java, spark_session
from support.estimators import ESTIMATORS, same_bits, seeded
from support.sources import NUMBERS, VISITS, mixed_table, visits

FRAME = mixed_table()
# PySpark warns about libraries that are newer than PySpark.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def spark():
    require_java()
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def table(spark):
    """Return a table with partitions of one row, no rows and the rest, in other column orders and types."""
    shuffled = FRAME[list(FRAME.columns[::-1])].astype({"visits": np.int16})
    return joined(spark, [shuffled[:1], shuffled[1:1], shuffled[1:]]).cache()


def joined(spark, parts):
    """Return a DataFrame with the given partitions."""
    like = spark.createDataFrame(pa.Table.from_pandas(parts[0], preserve_index=False))
    rows = [[tuple(row) for row in part.astype(object).to_numpy().tolist()] for part in parts]
    cut = spark.sparkContext.parallelize(rows, len(rows)).flatMap(lambda part: part)
    return spark.createDataFrame(cut, like.schema)


def kmeans(**arguments):
    return dpem.KMeans(2, epsilon=1.0, random_state=0, **{"schema": NUMBERS} | arguments)


def test_the_table_has_uneven_partitions(table):
    sizes = table.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert sizes == [1, 0, len(FRAME) - 1]


def test_the_documented_window_limits_the_rows_of_each_person(spark):
    """The Spark snippet of docs/how-to/persons.md runs as printed."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "persons.md").read_text()
    code = re.search(r"```python\n(from pyspark.*?)```", page, flags=re.DOTALL).group(1)
    rows = [(i % 3, float(i), float(i % 7)) for i in range(20)]
    names = {"visits": spark.createDataFrame(rows, ["patient", "age", "stay"])}
    exec(code, names)
    assert names["capped"].columns == ["age", "stay"]
    assert names["capped"].count() == 6


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_the_same_bits(name, table):
    fitted = seeded(lambda: ESTIMATORS[name]().fit(table))
    same_bits(fitted, seeded(lambda: ESTIMATORS[name]().fit(FRAME)))


def test_many_partitions_are_merged_by_executors(table, monkeypatch):
    """Also with a private number of rows, and without a schema."""
    monkeypatch.setattr("dpem.engines.spark_cluster._COLLECTED", 1)
    arguments = {"schema": None, "bounds": (-3, 3), "adjacency": "add_remove"}
    fitted = seeded(lambda: kmeans(**arguments).fit(table.select("a", "b")))
    same_bits(fitted, seeded(lambda: kmeans(**arguments).fit(FRAME[["a", "b"]])))


def test_the_functions_of_executors_give_the_sum_of_rows_in_memory(monkeypatch):
    """Both steps and the merge run in this process: with parts, one part sent twice, and one that fails."""
    from dpem.engines import spark_cluster

    frame, statistic = FRAME[["a", "b"]], Sums(2, counted=False)
    domain = Domain.from_arguments(2, bounds=(-3, 3))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    make = spark_cluster._grid_maker(TableReader(None, ("a", "b"), 2), domain)
    number = iter(range(9))
    task = SimpleNamespace(partitionId=lambda: next(number))
    monkeypatch.setattr(spark_cluster.TaskContext, "get", lambda: task)

    def totals(*tables):
        return [
            batch
            for part in tables
            for batch in spark_cluster._summer(statistic)(make(part.to_batches(max_chunksize=50)))
        ]

    def total(batches):
        (merged,) = spark_cluster._merge(batches)
        return total_of(pickle.loads(merged.column(1)[0].as_py())).value(statistic.coarse_bits)

    found = totals(table[:1], table[1:1], table[1:])
    rows = open_rows(frame, None)
    assert (total([*found, found[2]]) == engine_for(rows).sum(statistic, rows, domain)).all()
    assert list(spark_cluster._merge([])) == []
    with pytest.raises(InvalidArgumentError, match="a table without 'b'"):
        total([*found, *totals(table.select(["a"]))])
    monkeypatch.setattr(spark_cluster.TaskContext, "get", lambda: None)
    with pytest.raises(EngineError, match="knows its partition"):
        totals(table)


def test_failed_tasks_change_no_bits(spark, table, tmp_path):
    """Each partition is retried after its process dies, first during rows and then during sums."""

    def die_once(batches):
        from pyspark import TaskContext

        for batch in batches:
            mark = tmp_path / str(TaskContext.get().partitionId())
            if not mark.exists():
                mark.touch()
                os._exit(1)
            yield batch

    fragile = table.mapInArrow(die_once, table.schema)
    fitted = seeded(lambda: kmeans().fit(fragile))
    same_bits(fitted, seeded(lambda: kmeans().fit(FRAME)))
    assert len(list(tmp_path.iterdir())) == 2  # all but the empty partition


def test_a_task_that_always_fails_ends_the_fit(table, tmp_path):
    """The error shows no rows, and the charge stays."""

    def die(batches):
        for batch in batches:
            raise ValueError(f"secret {batch.to_pylist()[:1]}")

    budget = {"cap_epsilon": 2.0, "cap_delta": 1e-5, "adjacency": "add_remove"}
    ledger = Ledger.create(tmp_path / "ledger", name="x", **budget)
    with pytest.raises(EngineError, match="Spark failed") as raised:
        kmeans(ledger=ledger, adjacency="add_remove").fit(table.mapInArrow(die, table.schema))
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__
    assert any("stays charged" in note for note in raised.value.__notes__)
    assert len(ledger.history()) == 1


def test_grid_rows_are_cached_between_sums_and_then_released(table):
    source = open_rows(table, NUMBERS)
    engine, grid = engine_for(source), Domain.from_arguments(3, schema=NUMBERS)
    first, second = (engine.sum(Sums(3, counted=False), source, grid) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    kept = engine._kept
    assert kept.storageLevel.useMemory
    assert "InMemoryRelation [width" in kept._jdf.queryExecution().toString()
    engine.close()
    assert not kept.storageLevel.useMemory


def test_models_predict_on_executors(table):
    model = kmeans().fit(table)
    with pytest.raises(InvalidArgumentError, match="where they stay"):
        model.predict(table)

    def predict(batches):
        for batch in batches:
            labels = model.predict(pa.Table.from_batches([batch]))
            yield pa.RecordBatch.from_arrays([pa.array(labels, pa.int32())], names=["label"])

    labels = table.dropna().mapInArrow(predict, "label int").collect()
    expected = model.predict(FRAME.dropna())
    assert sorted(row["label"] for row in labels) == sorted(expected)


def test_the_example_of_the_docs_runs(spark, tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "scale.md").read_text()
    example = text.partition("<!-- example: spark -->")[2].split("```")[1].removeprefix("python\n")
    schema = dpem.Schema({"cost": {"kind": "continuous", "bounds": [0, 10_000]}})
    pd.DataFrame({"cost": np.random.default_rng(0).gamma(2.0, 300.0, 500)}).to_parquet(
        tmp_path / "claims-0.parquet"
    )
    names = {"spark": spark, "folder": tmp_path, "schema": schema, "dpem": dpem}
    exec(example, names)
    assert names["model"].cluster_centers_.shape == (3, 1)


def test_a_table_without_partitions_is_an_empty_table(spark):
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), "a double, b double")
    assert kmeans(schema=None, bounds=(-3, 3), adjacency="add_remove").fit(empty).n_features_in_ == 2


def test_unsupported_tables_are_refused_before_any_row_is_read(spark, table):
    from pyspark.sql import functions

    for frame, message in (
        (table.withColumn("r", functions.rand()), "same whenever Spark computes them"),
        (table.select("a", "a"), "different names"),
        (table.withColumnRenamed("visits", "A"), "different names"),
        (table.select("a"), "without 'c', 'b'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            kmeans().fit(frame)
    with pytest.raises(InvalidArgumentError, match=r"numeric column.*'ward'"):
        kmeans(schema=None, bounds=(-3, 3)).fit(table.select("a", "ward"))
    with pytest.raises(InvalidArgumentError, match="Expected a Spark DataFrame"):
        kmeans().fit(table.rdd)
    odd = joined(spark, [pd.DataFrame({"a.b": [1.0, 2.0], "`c`": [0.5, 0.1]})])
    assert kmeans(schema=None, bounds=(-3, 3)).fit(odd).n_features_in_ == 2


def test_executors_read_cell_formats_alike(spark):
    """Dates, durations, separators and words are read alike; a type that does not fit its kind is refused."""
    table = visits()
    rows = spark.createDataFrame(pa.Table.from_pandas(table, preserve_index=False))

    def fit(X):
        return dpem.MixedMixture(schema=VISITS, epsilon=2.0, random_state=0).fit(X)

    same_bits(seeded(lambda: fit(rows)), seeded(lambda: fit(table)))
    whole = dpem.Schema({"day": {"kind": "integer", "bounds": [0, 9]}})
    with pytest.raises(InvalidArgumentError, match="dates or times in column 'day'"):
        dpem.MixedMixture(schema=whole, epsilon=1.0).fit(rows)
