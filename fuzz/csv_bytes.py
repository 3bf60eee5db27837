"""Arbitrary bytes as CSV: they are rows or one error; without quotes, each line is a row."""

import re

from hypothesis import strategies as st

from dpem import Files
from dpem.errors import DpemError, InvalidArgumentError
from fuzz.csv_records import SCHEMA, parsed, rows_of
from fuzz.harness import Target, scratch

__all__ = ["TARGET"]

_PIECES = [
    b"age", b"dose", b"sex", b",", b",", b",", b"\n", b"\n", b"\r\n", b"\r", b"1", b"-2.5", b"F", b"M",
    b"nan", b" ", b'"', b'""', b'"\n', b'",', b"\0", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"\t", b";",
    b"\\", b"'", b"#", b"x" * 99,
]  # fmt: skip
_BLOCKS = [1 << 22, 7, 64]  # bytes per read
_HEAD = [b"", b"age,dose,sex\n", b"age,dose,sex\r\n", b"sex,x,dose,age\r", b"\xef\xbb\xbfage,dose,sex\n"]


def check(value):
    """Read bytes; if they contain no quote, compare each line with its row."""
    start, pieces, block = value
    content = start + b"".join(pieces)
    file = scratch() / "bytes.csv"
    file.write_bytes(content)
    try:
        rows = rows_of(Files(file), SCHEMA, block)
    except DpemError as error:
        assert str(error)
        assert b'"' in content or isinstance(error, InvalidArgumentError)  # about names, never about rows
        return False
    if b'"' not in content:
        text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        lines = re.split("\r\n|\n|\r", text)
        head, *records = [line.split(",") for line in (lines if lines[-1] else lines[:-1])]
        records = [[""] * len(head) if record == [""] else record for record in records]
        whole = [parsed(head, record, SCHEMA) for record in records if len(record) == len(head)]
        assert rows[: len(whole)] == whole
        assert len(rows) == len(records)
        assert set(rows[len(whole) :]) <= {parsed(head, [], SCHEMA)}
    return True


def _files(drawn):
    """Yield files that end ever earlier, in blocks of all sizes."""
    start, pieces = drawn
    for end in range(len(pieces), 0, -2):
        yield start, pieces[:end], _BLOCKS[end % len(_BLOCKS)]


TARGET = Target(
    "CSV bytes",
    "pieces of CSV in any order, with and without a header, also in small blocks",
    40_000,
    st.tuples(st.sampled_from(_HEAD), st.lists(st.sampled_from(_PIECES), min_size=1, max_size=16)),
    _files,
    check,
)
