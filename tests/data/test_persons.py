"""A limited number of rows of each person, chosen by that person's rows only, from every source."""

import datetime as dt
import uuid
from collections import Counter
from decimal import Decimal

import dask.dataframe as dd
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpem
from dpem.data.sources.owners import owners_of
from dpem.engines import rows_to_release
from dpem.errors import ChangedDataError, InvalidArgumentError
from dpem.privacy import Adjacency

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
    """Return the rows that are read, sorted."""
    source = rows_to_release(data, schema, Adjacency(adjacency), cap, "patient")
    rows = source.in_memory().block()
    assert source.n_rows == rows.shape[1]
    return rows[:, np.lexsort(rows)]


def test_no_person_has_more_rows_than_the_cap():
    table = visits()
    counts = Counter(table["patient"])
    assert max(counts.values()) > 6
    for cap in (1, 3, 100):
        rows = kept(table, cap=cap)
        assert rows.shape[1] == sum(min(count, cap) for count in counts.values())
    busiest = counts.most_common(1)[0][0]
    assert kept(table[table["patient"] == busiest], cap=2).shape[1] == 2


def test_kept_rows_depend_on_their_person_only_and_not_on_order():
    table = visits()
    whole = kept(table)
    parts = [kept(table[table["patient"] == name]) for name in sorted(set(table["patient"]))]
    joined = np.concatenate(parts, axis=1)
    assert np.array_equal(whole, joined[:, np.lexsort(joined)])
    assert np.array_equal(whole, kept(table.sample(frac=1, random_state=1)))


def test_kept_rows_do_not_depend_on_the_size_of_values():
    """Means of the kept rows are those of all rows: a rule that kept the smallest would bias every result."""
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


def test_selected_columns_have_the_same_rows(tmp_path):
    """Also if a file has more rows than are read at a time."""
    table = visits(300_000, 90_000)
    table.to_parquet(tmp_path / "visits.parquet", row_group_size=300_000)
    for data in (table, tmp_path / "visits.parquet"):
        source = rows_to_release(data, SCHEMA, Adjacency.REPLACE_ONE, 2, "patient")
        whole = source.in_memory().block()
        assert np.array_equal(source.only([1]).in_memory().block(), whole[1:])
        assert source.of_findings().in_memory().n_rows == whole.shape[1]
        later = np.concatenate([piece.block() for piece in source.pieces(1)], axis=1)
        assert np.array_equal(later, whole[:, whole.shape[1] - later.shape[1] :])
        assert later.shape[1] > 0


def places(column):
    """Return the owners of rows from one column."""
    found = owners_of(nw.from_native(column, series_only=True))
    names = [None if place == -1 else found.names[place] for place in found.places]
    assert len(set(found.names)) == len(found.names)
    return names


LARGE = [2**60 + i for i in range(5)]


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pd.Series(["a", "b", None, "a"]), ["a", "b", None, "a"]),
        (pd.Series([1.0, np.nan, 2.5, 1.0, np.inf]), ["1", None, "2.5", "1", None]),
        (
            pd.Series([7, "7", b"7", 7.0, True, None, [7], {}], dtype=object),
            [*["7"] * 4, "1", None, None, None],
        ),
        (pd.Series(LARGE), [str(name) for name in LARGE]),
        (pd.Series([*LARGE, None], dtype="Int64"), [*map(str, LARGE), None]),
        (pd.Series([*LARGE, None], dtype="category"), [*map(str, LARGE), None]),
        (pd.Series([*LARGE, None], dtype=object), [*map(str, LARGE), None]),
        (pl.Series([*LARGE, None]), [*map(str, LARGE), None]),
        (pl.Series(["a", None, "b"], dtype=pl.Categorical), ["a", None, "b"]),
        (pa.chunked_array([[*LARGE, None], []]), [*map(str, LARGE), None]),
        (pa.chunked_array([pa.array([*LARGE, None]).dictionary_encode()]), [*map(str, LARGE), None]),
        (pa.chunked_array([["a", None], ["b", "a"]]), ["a", None, "b", "a"]),
        (pa.chunked_array([pa.array([b"\xff", b"\xfe", None, b"\xff"]).view(pa.binary())]), None),
        (pa.chunked_array([pa.array([2**63 + 5, None], pa.uint64())]), [str(2**63 + 5), None]),
        (
            pd.Series([dt.date(2020, 1, 1), pd.NaT, uuid.UUID(int=1)]),
            ["2020-01-01", None, str(uuid.UUID(int=1))],
        ),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), ["2020-01-01 00:00:00", None]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_a_name_depends_on_its_own_cell_only(column, names):
    """In any library and type, with or without nulls in other cells: exact, and never an error."""
    found = places(column)
    if names is None:
        assert found[0] == found[3] != found[1]
        assert found[2] is None
    else:
        assert found == names


def coded(*chunks):
    """Return a column of dictionaries, one for each chunk, with indices of one byte."""
    arrays = []
    for names in chunks:
        places = pa.array(range(len(names)), pa.int8())
        arrays.append(pa.DictionaryArray.from_arrays(places, pa.array(names)))
    return pa.chunked_array(arrays)


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (coded([f"a{i}" for i in range(100)], [f"b{i}" for i in range(100)]), None),
        (coded(["a", None], ["b", "a"]), ["a", None, "b", "a"]),
        (pa.chunked_array([], pa.string()), []),
        (pa.chunked_array([pa.array([None, None])]), [None, None]),
        (
            pa.chunked_array([pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("3.00")])]),
            ["1.5", "2.25", "3"],
        ),
        (pa.chunked_array([pa.array([b"ab", None], pa.binary(2))]), ["ab", None]),
        (pl.Series([Decimal("1.5"), None]), ["1.5", None]),
        (pl.Series([2**60, 0, None]).cast(pl.Datetime("ms")), [str(2**60), "0", None]),
        (pl.Series([1, None], dtype=pl.Int128), ["1", None]),
        (pl.Series([True, None]), ["1", None]),
        (pl.Series([None, None]), [None, None]),
        (
            pd.Series([Decimal("NaN"), Decimal("1E+999999999"), Decimal("7.0")], dtype=object),
            [None, None, "7"],
        ),
        (pd.Series(np.array([0x7F800001, 0x40E00000], "u4").view("f4")), [None, "7"]),
    ],
)
def test_unusual_columns_of_names(column, names):
    with np.errstate(all="raise"):
        found = places(column)
    assert found == names if names is not None else len(set(found)) == 200


def test_other_rows_do_not_regroup_persons(tmp_path):
    """Another row, of nobody or of another type, in any part, does not regroup other persons."""
    large = pd.DataFrame(
        {"patient": [2**60 + i for i in range(1000)], "age": 1, "stay": np.arange(1000) / 20}
    )
    assert kept(large, cap=1).shape[1] == 1000
    nobody = pd.concat([large.astype({"patient": "Int64"}), large[:1].assign(patient=pd.NA)])
    assert kept(nobody, cap=1).shape[1] == 1000
    for name, ids in {
        "u": pa.array([2**63], pa.uint64()),
        "t": pa.array(["x"]),
        "d": pa.array([dt.date(1, 1, 1)]),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        large.to_parquet(folder / "a.parquet")
        pq.write_table(pa.table({"patient": ids, "age": [1], "stay": [0.0]}), folder / "b.parquet")
        assert kept(folder, cap=1).shape[1] == 1001


def test_a_person_written_in_several_ways_is_one_person():
    """A column of mixed numbers and text, and batches of numbers and of text."""
    mixed = pd.DataFrame(
        {"patient": pd.Series([7, "7", 7.0, b"7"], dtype=object), "age": 1, "stay": [1.0, 2, 3, 4]}
    )
    assert kept(mixed, cap=1).shape[1] == 1
    batches = [mixed.assign(patient=value) for value in (7, "7", 7.0)]
    assert kept(lambda: iter(batches), cap=2).shape[1] == 2


def test_names_of_invalid_bytes_never_raise(tmp_path):
    """Text that is not UTF-8, together with a file of numbers."""
    bad = pa.array([b"\xff\xfeSECRET"]).cast(pa.large_binary())
    pq.write_table(pa.table({"patient": [1, 2], "age": [1, 2], "stay": [0.0, 1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"patient": bad, "age": [1], "stay": [0.5]}), tmp_path / "b.parquet")
    assert kept(tmp_path, cap=1).shape[1] == 3


def test_rows_in_another_order_raise():
    """Kept rows are identified by position, so every pass must read the same table."""
    table, passes = visits(40, 5), []

    def shuffled():
        passes.append(1)
        return iter([table.sample(frac=1, random_state=len(passes))])

    with pytest.raises(ChangedDataError, match="the same order on every pass"):
        kept(shuffled, cap=1)


def test_reused_batches_and_sources_that_open_only_once():
    table, state = visits(3000), {"open": 0}
    frame = table[:1000].copy()

    def batches():
        state["open"] += 1
        assert state["open"] == 1
        for start in range(0, 3000, 1000):
            frame[:] = table[start : start + 1000].to_numpy()
            yield frame.copy(deep=True) if start == 0 else frame
        state["open"] -= 1

    source = rows_to_release(batches, SCHEMA, Adjacency.ADD_REMOVE, 2, "patient")
    state["open"] = 0  # the look at the head stopped half way
    found = np.concatenate([piece.block() for piece in source.pieces()], axis=1)
    assert found.shape[1] == kept(table, cap=2).shape[1]


def test_malformed_lines_belong_to_nobody(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("patient,age,stay\n" + "p1,30,2\n" * 3 + "broken\n" * 9 + ",40,1\n" * 9)
    assert kept(path, cap=2).shape[1] == 2  # rows without a person, and lines that are no rows, are left out


def test_a_table_without_rows():
    table = visits()[:0]
    assert kept(table, adjacency="add_remove").shape == (2, 0)
    assert kept(lambda: iter(()), adjacency="add_remove").shape == (2, 0)
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        kept(table)


def test_unsupported_uses_raise(tmp_path):
    table = visits()
    with pytest.raises(InvalidArgumentError, match=r"columns 'patient', got a table without 'patient'"):
        kept(table.drop(columns="patient"))
    with pytest.raises(InvalidArgumentError, match="a table with column names"):
        kept(table[["age", "stay"]].to_numpy())
    with pytest.raises(
        InvalidArgumentError, match="Expected person='patient' to be a column that is not fitted"
    ):
        kept(table, dpem.Schema({"patient": {"kind": "boolean"}}))
    table.drop(columns="patient").to_csv(tmp_path / "nobody.csv", index=False)
    with pytest.raises(InvalidArgumentError, match="'patient'"):
        kept(tmp_path / "nobody.csv")
    with pytest.raises(InvalidArgumentError, match="at least one batch"):
        kept(lambda: iter(()), None)
    with pytest.raises(InvalidArgumentError, match=r"of dask.* window function"):
        kept(dd.from_pandas(table, npartitions=2))
