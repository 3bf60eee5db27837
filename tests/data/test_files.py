"""Files: options, rows, memory, and files that changed."""

import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import dpem
from dpem import Ledger, Schema
from dpem.data.sources import formats
from dpem.engines import LocalEngine, open_rows
from dpem.errors import ChangedDataError, DataError, InvalidArgumentError
from dpem.gate.release import ReleaseGate
from support.blocks import keep_nothing
from support.sources import LOCAL, NUMBERS, TABLE, mixed_table

FRAME = mixed_table()
AGES = Schema({"age": {"kind": "integer", "bounds": [0, 120], "missing": True}})


def csv(folder, text, name="rows.csv"):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def cells(X, schema=None):
    return open_rows(X, schema).in_memory().block()


# -- which files, which columns --------------------------------------------------------------------------


def test_patterns_folders_and_lists(tmp_path):
    """Files are read in the order of their names; hidden files and other formats in a folder are skipped."""
    for name, age in (("b.csv", 2), ("a.csv", 1), ("c/d.csv", 3), ("_log.csv", 9), ("read.me", 9)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        csv(tmp_path, f"age\n{age}\n", name)
    for given, ages in (
        (tmp_path, [1, 2, 3]),
        (str(tmp_path / "[ab].csv"), [1, 2]),
        (str(tmp_path / "**" / "d.csv"), [3]),
        ([tmp_path / "b.csv", str(tmp_path / "a.csv")], [2, 1]),
    ):
        assert list(cells(given, AGES)[0]) == ages


def test_numbers_of_csv_without_a_schema(tmp_path):
    """Columns must be named, since cells have no types; cells that are not numbers become NaN."""
    file = csv(tmp_path, "x,y,note\n1,2.5,a\n ,1e3,b\nold,-inf,c\n")
    found = cells(dpem.Files(file, columns=["y", "x"]))
    np.testing.assert_array_equal(found, [[2.5, 1000, -np.inf], [1, np.nan, np.nan]])
    with pytest.raises(InvalidArgumentError, match=r"dpem.Files\(path, columns="):
        open_rows(file)
    with pytest.raises(InvalidArgumentError, match="got both"):
        open_rows(dpem.Files(file, columns=["x"]), AGES)


def test_numbers_in_text_are_read_as_by_python(tmp_path):
    """Fast and slow parsing give the same result, whatever else is in the column."""
    texts = ["1", "0.1", "1e-3", "123456789.123456789", "1e400", "-7", " 8 ", "1_000", "nan", "", "x", "0x1"]
    expected = [float(t) if t not in {"", "x", "0x1"} else np.nan for t in texts]
    schema = Schema({"x": {"kind": "continuous", "bounds": [-1e9, 1e9], "missing": True}})
    for kept in (texts, texts[:8]):
        file = csv(tmp_path, "x\n" + "\n".join(kept) + "\n")
        np.testing.assert_array_equal(
            cells(dpem.Files(file, columns=["x"]))[0], np.array(expected[: len(kept)])
        )
        clipped = np.clip(expected[: len(kept)], -1e9, 1e9)
        np.testing.assert_array_equal(cells(file, schema)[0], clipped)


def test_malformed_lines_become_rows_of_missing_cells(tmp_path):
    """No line is dropped, because the number of lines is public; none raises; lines keep their place."""
    text = b'age,note\n1,a\n2\n3,b,c\n\n\xff\xfe,d\n5,"x\ny"\n6,"%s"\n' % (b"z" * (5 << 20))
    source = open_rows(csv(tmp_path, text), AGES)
    found = np.concatenate([piece.block()[0] for piece in source.pieces()])
    assert source.n_rows == found.size == 7
    np.testing.assert_array_equal(found, [1, np.nan, np.nan, np.nan, np.nan, 5, 6])
    np.testing.assert_array_equal(source.in_memory().block()[0], found)
    one = Schema({"age": AGES.to_dict()["age"]})
    np.testing.assert_array_equal(cells(csv(tmp_path, "age\n1\n\n3\n"), one), [[1, np.nan, 3]])
    assert open_rows(csv(tmp_path, "age\n"), AGES).n_rows == 0


def test_malformed_lines_keep_their_place_in_any_block(tmp_path, monkeypatch):
    """With and without a header line, whatever the blocks are, and if a block must grow."""
    rng = np.random.default_rng(0)
    good = rng.random(3000) < 0.7
    good[:3], good[-3:] = False, False
    good[1000:1200] = False  # blocks without a proper line
    lines = [f"{j % 100},a" if ok else f"{j % 100}" + ",a,b" * (j % 2) for j, ok in enumerate(good)]
    lines[1500], good[1500] = f"7,{'z' * 5000}", True
    expected = np.where(good, np.arange(3000) % 100, np.nan)
    expected[1500] = 7
    for block in (200, 4000, 1 << 22):
        monkeypatch.setattr("dpem.data.sources.formats._CSV_BLOCK", block)
        for text, header in (("age,x\n", None), ("", ["age", "x"])):
            file = csv(tmp_path, text + "\n".join(lines))
            source = open_rows(dpem.Files(file, header=header), AGES)
            np.testing.assert_array_equal(source.in_memory().block()[0], expected)
            assert source.counts_of_lines().malformed == np.count_nonzero(~good)


def test_a_file_that_is_not_read_to_its_end_is_not_read_any_more(tmp_path, monkeypatch):
    """A thread of Arrow that still reads through Python would abort a process that exits."""
    reads = []

    class SlowText(formats._ValidText):
        def read(self, size=-1):
            time.sleep(0.02)
            found = super().read(size)
            reads.append(found)
            return found

    monkeypatch.setattr(formats, "_ValidText", SlowText)
    monkeypatch.setattr(formats, "_CSV_BLOCK", 1000)
    source = open_rows(csv(tmp_path, "age,x\n" + "1,2\n" * 50_000), AGES)
    pieces = source.pieces()
    assert next(pieces).n_rows > 0
    pieces.close()
    n_reads = len(reads)
    time.sleep(0.3)
    assert len(reads) == n_reads
    assert source.in_memory().n_rows == 50_000


def test_other_encodings(tmp_path):
    """An encoding is accepted if each line is decoded by itself."""
    towns = {"kind": "categorical", "categories": ["Ulm", "Köln/Bonn"], "missing": True}
    text = "städt,n\nKöln/Bonn,1\nUlm,2\n"
    schema = Schema({"städt": towns})
    for encoding in ("utf-8", "cp1252", "latin-1", "ISO-8859-15"):
        source = open_rows(dpem.Files(csv(tmp_path, text.encode(encoding)), encoding=encoding), schema)
        assert list(source.in_memory().block()[0]) == [1, 0]
        assert source.counts_of_lines().invalid == 0
    for wrong in ("utf-16", "cp932", "utf-7", "gb18030", "rot13", "hex", "none such", "\0", 3, None):
        with pytest.raises(InvalidArgumentError, match="one byte per character"):
            dpem.Files("x.csv", encoding=wrong)


def test_a_cell_longer_than_every_limit_is_read(tmp_path):
    """In the first row and in the last: longer than a block, and longer than Python's reader accepts."""
    long = "z" * (2 << 20)
    for text in (f"age,note\n1,{long}\n2,a\n", f"age,note\n1,a\n2,{long}\n"):
        source = open_rows(csv(tmp_path, text), AGES)
        assert source.n_rows == 2
        assert list(source.in_memory().block()[0]) == [1, 2]
    with pytest.raises(InvalidArgumentError, match="header line with the names"):
        open_rows(csv(tmp_path, f"{long},age\n1,2\n"), AGES)


def test_tabs_and_headers(tmp_path):
    assert list(cells(csv(tmp_path, "age\tx\n7\t1\n", "r.tsv"), AGES)[0]) == [7]
    bare = dpem.Files(csv(tmp_path, "7,1\n8,2\n"), header=["age", "x"])
    assert list(cells(bare, AGES)[0]) == [7, 8]
    marked = csv(tmp_path, "\ufeffage,x\r\n7,1\r\n")
    assert list(cells(marked, AGES)[0]) == [7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "excel"}, "format"),
        ({"delimiter": ";;"}, "one printable ASCII character"),
        ({"delimiter": '"'}, "other than a quote"),
        ({"delimiter": "\n"}, "one printable ASCII character"),
        ({"columns": "age"}, "a list of names"),
        ({"columns": ["a", "a"]}, "different names"),
        ({"header": [1, 2]}, "a list of names"),
        ({"header": []}, "a list of names"),
    ],
)
def test_wrong_options(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dpem.Files("x.csv", **arguments)


@pytest.mark.parametrize("paths", [3, b"x", [None], [], iter(())])
def test_invalid_paths(paths):
    with pytest.raises(InvalidArgumentError, match="a list of paths"):
        dpem.Files(paths)


def test_no_file_is_read_twice(tmp_path):
    """A row that counts twice would move sums by twice the sensitivity."""
    (tmp_path / "one").mkdir()
    file = csv(tmp_path / "one", "age\n1\n")
    (tmp_path / "one" / "_temporary" / "0").mkdir(parents=True)
    csv(tmp_path / "one" / "_temporary" / "0", "age\n9\n")
    assert list(cells(tmp_path / "one", AGES)[0]) == [1]
    assert list(cells(str(tmp_path / "o*"), AGES)[0]) == [1]  # a pattern that a folder matches
    (tmp_path / "one" / "latest.csv").symlink_to(file)
    for given in ([file, file], [str(tmp_path / "one" / "r*.csv"), file], tmp_path / "one"):
        with pytest.raises(InvalidArgumentError, match="every file once"):
            open_rows(given, AGES)
    (tmp_path / "one" / "latest.csv").unlink()
    pd.DataFrame({"age": [1]}).to_csv(tmp_path / "one" / "rows.csv.gz", index=False)
    with pytest.raises(InvalidArgumentError, match="every file once"):
        open_rows(tmp_path / "one", AGES)


def test_files_without_rows_are_accepted(tmp_path):
    """Whether a file has rows must not show: a header line is enough, or no line if the header is given."""
    for text, options in (("age", {}), ("age\n", {}), ("", {"header": ["age"]})):
        file = csv(tmp_path, text)
        model = dpem.KMeans(2, epsilon=1.0, schema=AGES.filled(), adjacency="add_remove")
        assert model.fit(dpem.Files(file, **options)).n_features_in_ == 1
    with pytest.raises(InvalidArgumentError, match="header line with the names"):
        open_rows(csv(tmp_path, ""), AGES)
    with pytest.raises(InvalidArgumentError, match="without 'age'"):  # in another encoding
        open_rows(csv(tmp_path, "\xe4ge,x\n1,2\n".encode("latin-1")), AGES)


def test_types_are_checked_with_and_without_rows(tmp_path):
    """Columns of dates and text are refused before the charge, from a file, a dataset or a DataFrame."""
    for kind in (pa.string(), pa.date32(), pa.timestamp("s"), pa.list_(pa.float64())):
        for n in (0, 2):
            table = pa.table({"a": pa.nulls(n, pa.float64()), "b": pa.nulls(n, kind)})
            pq.write_table(table, tmp_path / "t.parquet")
            for data in (
                table,
                tmp_path / "t.parquet",
                pa.dataset.dataset(tmp_path / "t.parquet"),
                lambda t=table: [t],
            ):
                with pytest.raises(InvalidArgumentError, match=r"numeric column.*'b'"):
                    open_rows(data)
    nothing = pa.table({"a": pa.nulls(2, pa.float64()), "b": pa.nulls(2)})  # one value would give it a type
    pq.write_table(nothing, tmp_path / "n.parquet")
    for data in (nothing, tmp_path / "n.parquet", pl.from_arrow(nothing)):
        assert np.isnan(open_rows(data).in_memory().block()).all()
    with pytest.raises(InvalidArgumentError, match=r"numeric column.*'b'"):
        open_rows(pd.DataFrame({"b": pd.to_datetime([])}))
    assert open_rows(pd.DataFrame([], columns=["a"])).n_rows == 0


def test_a_dataset_of_csv_is_refused():
    """Arrow would infer types from cells."""
    with pytest.raises(InvalidArgumentError, match="one of CSV"):
        open_rows(pa.dataset.FileSystemDataset.from_paths(
            [], schema=pa.schema([("a", pa.int64())]), format=pa.dataset.CsvFileFormat(),
            filesystem=pa.fs.LocalFileSystem(),
        ))  # fmt: skip


def test_a_file_that_shrinks_raises(tmp_path):
    file = LOCAL["arrow stream"](FRAME, tmp_path)
    pieces = open_rows(file, TABLE).pieces()
    next(pieces)
    os.truncate(file, 2000)
    with pytest.raises(ChangedDataError, match="changed"):
        list(pieces)


def test_wrong_files(tmp_path):
    """Errors name requested files and columns, and no content of a file."""
    (tmp_path / "empty").mkdir()
    for given, message in (
        (tmp_path / "none.csv", "found no file"),
        (tmp_path / "empty", "found no file"),
        (str(tmp_path / "*.pq"), "found no file"),
        ([], "2D array"),
        (csv(tmp_path, "x", "rows.xlsx"), "one format|spreadsheet"),
        ([csv(tmp_path, "age\n1\n", "a.csv"), csv(tmp_path, "x", "b.parquet")], "one format"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            open_rows(given)
    # A file without its line of names: its first row must not be shown.
    with pytest.raises(InvalidArgumentError, match="without 'age'") as raised:
        open_rows(csv(tmp_path, "secret,1\n2,3\n"), AGES)
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidArgumentError, match=r"In file 'b.csv': .*without 'age'"):
        open_rows([csv(tmp_path, "age\n1\n", "a.csv"), csv(tmp_path, "old\n1\n", "b.csv")], AGES)
    with pytest.raises(InvalidArgumentError, match=r"different names in the first line"):
        open_rows(csv(tmp_path, "age,age\n1,2\n"), AGES)
    for bad in (b"", b"PAR1 nothing like it PAR1"):
        for name in ("bad.parquet", "bad.arrow"):
            with pytest.raises(DataError, match="damaged"):
                open_rows(csv(tmp_path, bad, name), AGES)


def test_types_of_files_are_checked_without_a_schema(tmp_path):
    """A text column in any of the files is refused by its type, before anything is read."""
    pd.DataFrame({"a": [1.0], "b": [2]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"b": ["x"], "a": [3]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(InvalidArgumentError, match=r"In file '2.parquet': .*numeric column.*'b'"):
        open_rows(tmp_path)
    found = cells(dpem.Files(tmp_path, columns=["a"]))
    np.testing.assert_array_equal(found, [[1, 3]])


# -- other streams ---------------------------------------------------------------------------------------


def test_functions_must_return_a_new_iterator():
    """An exhausted iterator would leave all later steps without rows."""
    batches = iter([np.zeros((3, 2))])
    with pytest.raises(InvalidArgumentError, match="read many times"):
        open_rows(batches)
    source = open_rows(lambda: batches)
    with pytest.raises(InvalidArgumentError, match="same one twice"):
        list(source.pieces())
    for returned in (3, None, FRAME, np.zeros((2, 2))):
        with pytest.raises(InvalidArgumentError, match="returns"):
            open_rows(lambda r=returned: r)
    with pytest.raises(InvalidArgumentError, match="arrays or tables, got NoneType"):
        open_rows(lambda: [None])
    lengths = iter([2, 2, 2, 1])
    source = open_rows(lambda: [np.zeros((next(lengths), 2))])
    assert source.n_rows == 2
    assert len(list(source.pieces())) == 1
    with pytest.raises(ChangedDataError, match="another number of rows"):
        list(source.pieces())


def test_batches_without_rows_or_with_other_columns():
    """With a schema no batch is needed; without a schema the first batch defines the columns."""
    assert open_rows(list, AGES).n_rows == 0
    with pytest.raises(InvalidArgumentError, match="at least one batch"):
        open_rows(list)
    source = open_rows(lambda: [np.zeros((2, 2)), np.zeros((2, 3))])
    with pytest.raises(InvalidArgumentError, match="2 columns in all parts"):
        list(source.pieces())
    frames = [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [3], "a": [4]})]
    np.testing.assert_array_equal(cells(lambda: frames), [[1, 4], [2, 3]])


def test_a_function_may_reuse_its_array():
    """Threads read copies: the next batch does not change what they see."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3, 3, (40_000, 3))

    def batches():
        buffer = np.empty((1000, 3))
        for start in range(0, len(rows), 1000):
            buffer[:] = rows[start : start + 1000]
            yield buffer

    query, grid = _sums()
    expected = LocalEngine(1).sum(query, open_rows(rows), grid)
    np.testing.assert_array_equal(LocalEngine(4).sum(query, open_rows(batches), grid), expected)


@pytest.mark.parametrize("wrong", [[FRAME, FRAME], [dpem.Files("x")], (np.zeros((2, 2)), np.zeros(2))])
def test_a_list_of_tables_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match="list of tables"):
        open_rows(wrong, TABLE)


def test_lazy_tables_are_refused_with_a_remedy():
    import polars as pl

    with pytest.raises(InvalidArgumentError, match=r"LazyFrame. Collect it, or pass a function"):
        open_rows(pl.LazyFrame({"a": [1]}))


# -- fits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["parquet files", "csv files"])
def test_models_predict_rows_of_files(source, tmp_path):
    model = dpem.KMeans(2, epsilon=1.0, schema=NUMBERS).fit(FRAME.fillna(0))
    X = LOCAL[source](FRAME.fillna(0), tmp_path)
    np.testing.assert_array_equal(np.sort(model.predict(X)), np.sort(model.predict(FRAME.fillna(0))))


def test_functions_of_rows_take_files(tmp_path):
    X = LOCAL["parquet"](FRAME, tmp_path)
    rows = np.array([[0.0, 0.0, 0.0]])
    numbers = dpem.Files(X, columns=["b", "c"])
    assert dpem.nicv(numbers, rows[:, :2]) == pytest.approx(dpem.nicv(FRAME[["b", "c"]], rows[:, :2]))
    assert dpem.clipped_fraction(X, epsilon=5.0, schema=TABLE).value > 0
    assert dpem.private_bounds(X, epsilon=5.0, schema=Schema({"b": {"kind": "continuous"}})).schema


@pytest.mark.parametrize("how", ["change", "remove"])
@pytest.mark.parametrize("kind", ["parquet", "csv.gz"])
def test_a_file_that_changes_during_a_fit_raises(kind, how, tmp_path, monkeypatch):
    """The error names the file; the ledger keeps the charge, and the model stays unfitted."""
    keep_nothing(monkeypatch)
    file = LOCAL[kind](FRAME, tmp_path)
    release, seen = ReleaseGate.release, []

    def spoil(gate, *arguments, **more):
        seen.append(1)
        if len(seen) == 3:
            if how == "remove":
                file.unlink()
            else:
                os.utime(file, ns=(1, 1))
        return release(gate, *arguments, **more)

    monkeypatch.setattr(ReleaseGate, "release", spoil)
    ledger = Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=2.0, cap_delta=1e-5)
    model = dpem.KMeans(2, epsilon=1.0, schema=NUMBERS, ledger=ledger)
    with pytest.raises(ChangedDataError, match="removed" if how == "remove" else "changed") as raised:
        model.fit(file)
    assert any("stays charged" in note for note in raised.value.__notes__)
    assert len(ledger.history()) == 1
    assert not hasattr(model, "cluster_centers_")


def test_the_message_about_a_damaged_page_shows_no_cells(tmp_path):
    """The message of the reader about a damaged page is not shown."""
    file = LOCAL["parquet"](FRAME, tmp_path)
    data = bytearray(file.read_bytes())
    data[200:4000] = b"\xff" * 3800
    file.write_bytes(bytes(data))
    with pytest.raises(DataError, match="damaged") as raised:
        cells(file, TABLE)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


_BEYOND = """
import sys
import pyarrow as pa
import pyarrow.dataset
import dpem
from dpem.data import Domain
from dpem.statistics.simple import Sums
from dpem.engines import LocalEngine, open_rows

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def total(path):
    engine, source = LocalEngine(1), open_rows(path)
    grid = Domain.from_arguments(source.n_columns, bounds=(-3, 3))
    return [engine.sum(Sums(source.n_columns, counted=True), source, grid).tolist() for _ in range(2)]

LocalEngine.sum.__globals__["bytes_to_keep"] = lambda: 8 << 20
total(sys.argv[1])  # libraries and threads are there
before = peak()
one, two = total(sys.argv[2])
assert one == two
streamed = peak() - before
table = pa.table(pa.dataset.dataset(sys.argv[2], format=sys.argv[2].rpartition(".")[2]).to_table())
print(one[-1] >> 24, streamed, peak() - before)
"""


@pytest.mark.parametrize(("kind", "times"), [("parquet", 10), ("arrow", 4)])
def test_a_file_much_larger_than_memory(kind, times, tmp_path):
    """Passes need little memory for any file size; reading the whole file needs all of it."""
    allowed, d = 44 << 20, 10
    n = times * allowed // (8 * d) // 8 * 8
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(d)])
    with {
        "parquet": lambda: pq.ParquetWriter(
            tmp_path / "large.parquet", schema, compression="none", use_dictionary=False
        ),
        "arrow": lambda: pa.ipc.new_file(tmp_path / "large.arrow", schema),
    }[kind]() as out:
        part = pa.table({f"x{j}": rng.random(n // 8) for j in range(d)})
        for _ in range(8):
            out.write_table(part, 50_000)
    pq.write_table(pa.table({f"x{j}": rng.random(200_000) for j in range(d)}), tmp_path / "small.parquet")
    files = [str(tmp_path / name) for name in ("small.parquet", f"large.{kind}")]
    command = [sys.executable, "-c", _BEYOND, *files]
    run = subprocess.run(command, capture_output=True, text=True)
    assert not run.returncode, run.stderr[-2000:]
    counted, streamed, whole = map(int, run.stdout.split())
    assert counted == n
    assert streamed < allowed
    assert whole > 0.8 * times * allowed


def _sums():
    from dpem.data import Domain
    from dpem.statistics.simple import Sums

    return Sums(3, counted=False), Domain.from_arguments(3, schema=NUMBERS)
