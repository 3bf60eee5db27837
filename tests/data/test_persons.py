"""At most so many rows of each person, chosen by that person's rows alone, from every source."""

import datetime as dt
import uuid
from collections import Counter

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpem
from dpem.data.persons import _numbered
from dpem.engines import rows_to_release
from dpem.errors import InvalidArgumentError

SCHEMA = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "stay": {"kind": "continuous", "bounds": [0, 90]},
    }
)


def visits(n=3000, n_persons=700, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": [f"p{i}" for i in rng.integers(n_persons, size=n)],
            "age": rng.integers(0, 100, n),
            "stay": rng.exponential(5, n),
        }
    )


def kept(data, schema=SCHEMA, cap=3, adjacency="replace_one"):
    """Return the rows that are read, in an order of their own."""
    source = rows_to_release(data, schema, adjacency, cap, "patient")
    rows = source.in_memory().block()
    assert source.n_rows == rows.shape[1]
    return rows[:, np.lexsort(rows)]


def test_a_person_has_no_more_rows_than_the_cap():
    table = visits()
    counts = Counter(table["patient"])
    assert max(counts.values()) > 6
    for cap in (1, 3, 100):
        rows = kept(table, cap=cap)
        assert rows.shape[1] == sum(min(count, cap) for count in counts.values())
    busiest = counts.most_common(1)[0][0]
    assert kept(table[table["patient"] == busiest], cap=2).shape[1] == 2


def test_which_rows_are_kept_depends_on_that_person_alone_and_on_no_order():
    table = visits()
    whole = kept(table)
    parts = [kept(table[table["patient"] == name]) for name in sorted(set(table["patient"]))]
    joined = np.concatenate(parts, axis=1)
    assert np.array_equal(whole, joined[:, np.lexsort(joined)])
    assert np.array_equal(whole, kept(table.sample(frac=1, random_state=1)))


def test_rows_are_not_kept_by_how_large_they_are():
    """Means of what is kept are those of all: a rule that took the smallest would bend every result."""
    table = visits(60_000, 8000)
    rows = kept(table, cap=2)
    error = table["stay"].std() / np.sqrt(rows.shape[1])
    assert abs(rows[1].mean() - table["stay"].mean()) < 7 * error


def test_every_source_gives_the_same_rows(tmp_path):
    table = visits(9000)
    wanted = kept(table)
    table.to_csv(tmp_path / "visits.csv", index=False)
    for part in range(3):
        rows = table[part * 3000 : (part + 1) * 3000]
        rows.to_parquet(tmp_path / f"visits-{part}.parquet", row_group_size=500)
    sources = {
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table),
        "csv": tmp_path / "visits.csv",
        "parquet": str(tmp_path / "*.parquet"),
        "batches": lambda: (table[i : i + 1234] for i in range(0, len(table), 1234)),
    }
    for name, source in sources.items():
        assert np.array_equal(wanted, kept(source)), name
    numbers = dpem.Files(tmp_path / "visits.csv", columns=["age", "stay"])
    assert np.array_equal(wanted, kept(numbers, None))
    assert np.array_equal(wanted, kept(table, None))


def test_parts_of_the_columns_are_of_the_same_rows():
    source = rows_to_release(visits(), SCHEMA, "replace_one", 2, "patient")
    whole = source.in_memory().block()
    assert np.array_equal(source.only([1]).in_memory().block(), whole[1:])
    assert source.of_changes().in_memory().n_rows == whole.shape[1]
    later = [piece.block() for piece in source.pieces(0)][1:]
    again = [piece.block() for piece in source.pieces(1)]
    assert len(later) == len(again)


@pytest.mark.parametrize(
    "names",
    [
        np.array(["a", "b", None, "a", None, "c"], dtype=object),
        np.array([1.0, 2.0, np.nan, 1.0, np.nan, 3.0]),
        pa.array(["a", "b", None, "a", None, "c"]),
        pa.array([b"a", b"b", None, b"a", None, b"c"]),
        np.array(["2020-01-01", "2021-01-01", "NaT", "2020-01-01", "NaT", "2022-01-01"], dtype="M8[s]"),
        np.array([uuid.UUID(int=1), uuid.UUID(int=2), pd.NA, uuid.UUID(int=1), [3], {}], dtype=object),
        np.array([dt.date(2020, 1, 1), 2, None, dt.date(2020, 1, 1), np.nan, "c"], dtype=object),
    ],
    ids=["text", "numbers", "arrow", "bytes", "times", "objects", "mixed"],
)
def test_nobody_is_one_person_whatever_the_type(names):
    first, second, nobody, *others = _numbered(names).tolist()
    assert len({first, second, nobody}) == 3
    assert others[:2] == [first, nobody]
    assert nobody == -1


def test_lines_that_are_no_rows_are_nobodys(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("patient,age,stay\n" + "p1,30,2\n" * 3 + "broken\n" * 9 + ",40,1\n" * 9)
    assert kept(path, cap=2).shape[1] == 2 + 2


def test_no_rows_at_all():
    table = visits()[:0]
    assert kept(table, adjacency="add_remove").shape == (2, 0)
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        kept(table)


def test_what_cannot_be_done_is_said(tmp_path):
    table = visits()
    with pytest.raises(InvalidArgumentError, match=r"columns 'patient', got a table without 'patient'"):
        kept(table.drop(columns="patient"))
    with pytest.raises(InvalidArgumentError, match="whose columns have names"):
        kept(table[["age", "stay"]].to_numpy())
    with pytest.raises(InvalidArgumentError, match="Expected columns to fit other than person='patient'"):
        kept(table, dpem.Schema({"patient": {"kind": "boolean"}}))
    table.drop(columns="patient").to_csv(tmp_path / "nobody.csv", index=False)
    with pytest.raises(InvalidArgumentError, match="'patient'"):
        kept(tmp_path / "nobody.csv")
    with pytest.raises(InvalidArgumentError, match="at least one batch"):
        kept(lambda: iter(()))
    with pytest.raises(InvalidArgumentError, match=r"of dask.* window function"):
        kept(dd.from_pandas(table, npartitions=2))
