"""CSV as a writer writes it: each record is a row, and its text changes no other row."""

import csv
import gzip
import io
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from dpem import Files, Schema
from dpem.data.sources import formats as file_formats
from dpem.engines import open_rows
from fuzz.harness import Target, scratch
from fuzz.text_cells import PIECES, as_bytes, float_of

__all__ = ["SCHEMA", "TARGET", "Options", "blocks_of", "parsed", "rows_of"]

SCHEMA = Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "missing": True},
        "dose": {"kind": "continuous", "bounds": [-1, 5]},
        "sex": {"kind": "categorical", "categories": ["F", "M", '"', "a\nb"], "missing": True},
    }
)
_HEADS = [("age", "dose", "sex"), ("sex", "note", "age", "dose"), ("dose", 'a "b", c\nd', "sex", "", "age")]
_DIALECTS = [  # as in the RFC, and others whose writers quote all cells
    {"lineterminator": "\r\n"},
    {"lineterminator": "\n", "quoting": csv.QUOTE_ALL},
    {"lineterminator": "\r", "quoting": csv.QUOTE_ALL},
]
_CELL = st.lists(
    st.sampled_from([*PIECES, '"', '""', ",", ";", "\n", "\r", "\r\n", "F", "1"]), max_size=3
).map("".join)
_BLOCKS = [1 << 22, 7, 64]  # bytes per read: lines are longer than a block, or cross its end


class Options(NamedTuple):
    """How a file is written and read."""

    dialect: int = 0
    delimiter: str = ","
    named: bool = True
    packed: bool = False
    schema: bool = True
    block: int = 1 << 22


_OPTIONS = st.builds(
    Options,
    st.integers(0, len(_DIALECTS) - 1),
    st.sampled_from(",;\t|"),
    st.booleans(),
    st.sampled_from([False] * 9 + [True]),
    st.booleans(),
    st.sampled_from(_BLOCKS),
)


@st.composite
def _files(draw):
    """Draw column names, records, a replacement record, and the options of the file."""
    head = draw(st.sampled_from([*_HEADS, ("dose",)]))
    whole = st.lists(_CELL, min_size=len(head), max_size=len(head)).map(tuple)
    record = whole | whole | whole | st.lists(_CELL, max_size=len(head) + 2).map(tuple)
    records = draw(st.lists(record, min_size=1, max_size=6).map(tuple))
    return head, records, draw(record), draw(_OPTIONS)


def _replaced(drawn):
    """Yield the records, with each of them in turn to be replaced."""
    head, records, other, options = drawn
    for place in range(len(records)):
        yield head, records, place, other, options


def _written(head, records, options):
    """Write the records and return the files to read."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, **_DIALECTS[options.dialect], delimiter=options.delimiter)
    if options.named:
        writer.writerow(head)
    writer.writerows(records)
    content = text.getvalue().encode("utf-8", "surrogateescape")
    file = scratch() / ("rows.csv.gz" if options.packed else "rows.csv")
    file.write_bytes(gzip.compress(content, 1) if options.packed else content)
    return Files(
        file,
        columns=None if options.schema else [name for name in head if name in SCHEMA.names],
        delimiter=options.delimiter,
        header=None if options.named else [n if n.isalpha() else f"x{j}" for j, n in enumerate(head)],
    )


@contextmanager
def blocks_of(size):
    """Set the number of bytes of CSV per read."""
    usual, file_formats._CSV_BLOCK = file_formats._CSV_BLOCK, size
    try:
        yield
    finally:
        file_formats._CSV_BLOCK = usual


def rows_of(files, schema, block):
    """Return the rows that a fit would read, in order, each as bytes."""
    with blocks_of(block):
        source = open_rows(files, schema)
        rows = np.concatenate(
            [np.empty((source.n_columns, 0)), *(p.block() for p in source.pieces())], axis=1
        )
        assert source.n_rows == rows.shape[1]
    return [row.tobytes() for row in rows.T]


def parsed(head, record, schema):
    """Return the expected row of a record, from Python's float or the schema's parser for each cell."""
    cells = dict(zip(head, record, strict=True)) if len(record) == len(head) else {}
    names = [name for name in head if name in SCHEMA.names] if schema is None else schema.names
    if schema is None:
        return np.array([float_of(cells.get(name)) for name in names]).tobytes()
    values = []
    for column in schema.columns:
        cell = np.array([None], dtype=object)
        cell[0] = as_bytes(cells.get(column.name) or None)
        values.append(column.parse(cell)[0][0])
    return np.array(values).tobytes()


@lru_cache(maxsize=1)
def _rows(head, records, options):
    """Read records, compare each row with its record, and return the rows."""
    schema = SCHEMA.select([name for name in SCHEMA.names if name in head]) if options.schema else None
    files = _written(head, records, options)
    rows = rows_of(files, schema, options.block)
    records = [record or ("",) * len(head) for record in records]  # an empty line has only missing cells
    if not options.named:
        records = [_unmarked(records[0]), *records[1:]]
    expected = [parsed(head, record, schema) for record in records]
    assert rows == expected
    with blocks_of(options.block):
        in_memory = open_rows(files, schema).in_memory().block()
    assert [row.tobytes() for row in in_memory.T] == expected
    return rows


def _unmarked(record):
    """Remove a byte order mark at the start of a file: it is not part of the first cell."""
    if record and record[0].startswith("\ufeff") and not set(record[0]) & set('",;\t|\r\n'):
        return (record[0][1:], *record[1:])
    return record


def check(value):
    """Read a file, and the file with one record replaced: at most one row changes."""
    head, records, place, other, options = value
    before = Counter(_rows(head, records, options))
    after = Counter(_rows.__wrapped__(head, (*records[:place], other, *records[place + 1 :]), options))
    assert (before - after).total() <= 1
    assert (after - before).total() <= 1
    return True


TARGET = Target(
    "CSV records",
    "files by Python's csv writer: rows compared with the records, one record replaced, small blocks",
    25_000,
    _files(),
    _replaced,
    check,
)
