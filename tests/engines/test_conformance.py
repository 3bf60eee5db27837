"""Every source and engine gives the same bits as rows in memory, in every sum and in the released model."""

from itertools import count

import polars as pl
import pyarrow as pa
import pytest

import dpem
import dpem.loading
from dpem import registry
from dpem.errors import AuditFailedError
from dpem.estimator.trials import NUMBERS, Trial, mixed_table
from support.blocks import keep_nothing
from support.estimators import BY_ADD_REMOVE, ESTIMATORS, same_bits, seeded
from support.sources import LOCAL, VISITS, visits

TABLE = mixed_table()


@pytest.fixture(scope="module")
def in_memory():
    """Return the cached results of each estimator for rows in memory."""
    made = {}

    def fitted(name, **arguments):
        key = name, *arguments.items()
        if key not in made:
            made[key] = seeded(lambda: ESTIMATORS[name](**arguments).fit(TABLE))
        return made[key]

    return fitted


@pytest.mark.parametrize("name", registry.model_names())
def test_every_registered_model_conforms(name):
    """Other packages call the same check for their models."""
    dpem.testing.check_conformance(name)


def test_a_model_that_does_not_conform_raises(monkeypatch):
    """The check detects a fit that varies between runs, and a file with another model."""
    seeds = count()

    def fit(random_state, **arguments):
        return dpem.KMeans(2, schema=NUMBERS, random_state=next(seeds), **arguments)

    monkeypatch.setattr(registry, "trials_of", lambda name: {"restless": Trial(fit, mixed_table)})
    with pytest.raises(
        AuditFailedError, match="trial restless, replace_one to give the same bits from a CSV file"
    ):
        dpem.testing.check_conformance("restless")
    monkeypatch.undo()
    other = dpem.KMeans(2, epsilon=100.0, data_norm=1.0).fit([[0.0]] * 500)
    monkeypatch.setattr(dpem.loading, "load", lambda path: other)
    with pytest.raises(
        AuditFailedError, match="model of trial KMeans, persons, replace_one to have the same arrays"
    ):
        dpem.testing.check_conformance("kmeans")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("source", ["parquet files", "csv files", "function of frames"])
def test_every_estimator_gives_the_same_bits_from_uneven_parts(source, name, tmp_path, in_memory):
    X = LOCAL[source](TABLE, tmp_path)
    same_bits(seeded(lambda: ESTIMATORS[name]().fit(X)), in_memory(name))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", ["KMeans", "MixedMixture"])
@pytest.mark.parametrize("source", LOCAL)
def test_every_source_gives_the_same_bits(source, name, kept, tmp_path, in_memory, monkeypatch):
    if not kept:
        keep_nothing(monkeypatch)
    X = LOCAL[source](TABLE, tmp_path)
    same_bits(seeded(lambda: ESTIMATORS[name](n_jobs=2).fit(X)), in_memory(name))


@pytest.mark.parametrize("name", BY_ADD_REMOVE)
def test_add_remove_gives_the_same_bits_from_files(name, tmp_path, in_memory):
    X = LOCAL["parquet files"](TABLE, tmp_path)
    fitted = seeded(lambda: ESTIMATORS[name](adjacency="add_remove").fit(X))
    same_bits(fitted, in_memory(name, adjacency="add_remove"))


@pytest.mark.parametrize("source", ["parquet", "csv", "batches", "polars", "arrow"])
def test_every_source_reads_cell_formats_alike(source, tmp_path):
    """Dates, durations, separators and words give the same bits from memory, files and batches."""
    table = visits()
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    X = {
        "parquet": tmp_path / "t.parquet",
        "csv": tmp_path / "t.csv",
        "batches": lambda: iter([table[:1], table[1:]]),
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table, preserve_index=False),
    }[source]

    def fit(X):
        return dpem.MixedMixture(schema=VISITS, epsilon=2.0, random_state=0).fit(X)

    same_bits(seeded(lambda: fit(X)), seeded(lambda: fit(table)))
