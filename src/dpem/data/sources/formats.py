"""File formats: count the rows of a file, and read it in batches.

Only a few batches are in memory, whatever the size of a file or of a Parquet row group. `pyarrow.dataset`
would hold whole row groups in memory.
"""

from __future__ import annotations

import codecs
import csv as csv_module
import io
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import narwhals as nw
import numpy as np

from dpem.data.cells import numbers_of
from dpem.data.sources.memory import require_columns, require_number
from dpem.data.table_types import doubled
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dpem.data.sources.files import Files

__all__ = ["FORMATS", "FileFormat", "Part", "csv_remedy", "format_of"]

_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
}
_BUFFER = 1 << 18  # bytes of each column that a Parquet reader buffers
_CSV_BLOCK = 1 << 22  # bytes of a CSV file to parse at a time; for longer lines the block grows
_CSV_LARGEST = 1 << 30  # largest such block


def format_of(file: Path) -> str | None:
    """Return the format of a file by its extension, or None."""
    name = file.name.lower()
    return next((kind for kind, endings in _ENDINGS.items() if name.endswith(endings)), None)


def csv_remedy(missing: Sequence[Any]) -> str:
    """Return what may be wrong if a CSV file lacks columns; it depends on the names of the columns only."""
    words = (
        "If the fields of the CSV file have another separator, pass it with "
        'dpem.Files(path, delimiter=";"), or --delimiter. If the file has no header line, its first row was '
        "read as the header: pass the names with dpem.Files(path, header=[...]), or --header."
    )
    if not all(str(name).isascii() for name in missing):
        words += (
            " If the file is not in UTF-8, pass its encoding with "
            'dpem.Files(path, encoding="cp1252"), or --encoding.'
        )
    return words


@dataclass(frozen=True)
class Part:
    """A part of a file that can be read separately."""

    file: Path
    number: int = 0


class FileFormat(ABC):
    """A file format: reads names and types first, then batches."""

    is_text: ClassVar[bool] = False

    def __init__(self, files: Files) -> None:
        self.files = files

    @cached_property
    def errors(self) -> tuple[type[BaseException], ...]:
        """The exceptions that reading a damaged file raises."""
        import pyarrow as pa  # noqa: PLC0415  (slow to import, and needed for files only)

        return pa.ArrowException, OSError, EOFError

    @abstractmethod
    def head(self, file: Path) -> Any:
        """Return a table with the file's columns and no rows."""

    @abstractmethod
    def count(self, file: Path) -> int:
        """Count the rows of a file."""

    @abstractmethod
    def tables(self, part: Part, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Yield tables of about `n_rows` rows with these columns."""

    def parts(self, file: Path) -> list[Part]:
        """Return the parts of a file."""
        return [Part(file)]

    def require_columns(self, head: Any, columns: Sequence[str]) -> None:
        """Raise if columns are missing."""
        require_columns(columns, head.column_names, remedy=csv_remedy if self.is_text else None)

    def check_head(self, head: Any, columns: Sequence[str], numbers: Sequence[str]) -> None:
        """Raise if columns are missing or occur twice, or if columns in `numbers` are not numeric."""
        twice = [name for name in columns if head.column_names.count(name) > 1]
        if twice:
            raise doubled(twice)
        self.require_columns(head, columns)
        import pyarrow as pa  # noqa: PLC0415

        for name, kind in nw.from_native(head.select(list(numbers))).schema.items():
            all_null = pa.types.is_null(head.schema.field(name).type)  # a single value would change this type
            is_number = kind.is_numeric() or kind == nw.Boolean or all_null
            require_number(name, is_number=is_number, is_text=kind == nw.String)


class Parquet(FileFormat):
    """The Parquet format; a part is a row group."""

    def _open(self, file: Path) -> Any:
        import pyarrow.parquet as pq  # noqa: PLC0415

        return pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)

    def head(self, file: Path) -> Any:
        """Return the columns in the footer."""
        with self._open(file) as opened:
            return opened.schema_arrow.empty_table()

    def count(self, file: Path) -> int:
        """Return the number of rows in the footer."""
        with self._open(file) as opened:
            return int(opened.metadata.num_rows)

    def parts(self, file: Path) -> list[Part]:
        """Return the row groups."""
        with self._open(file) as opened:
            return [Part(file, group) for group in range(opened.num_row_groups)]

    def tables(self, part: Part, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Read batches of a row group."""
        import pyarrow as pa  # noqa: PLC0415

        with self._open(part.file) as opened:
            for batch in opened.iter_batches(n_rows, row_groups=[part.number], columns=list(columns)):
                yield pa.Table.from_batches([batch])


class Arrow(FileFormat):
    """Arrow's file and stream formats, and Feather."""

    def _open(self, file: Path) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        with file.open("rb") as opened:
            is_file = opened.read(6) == b"ARROW1"
        source = pa.OSFile(str(file))  # not memory-mapped: if such a file shrinks, the process crashes
        return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)

    def _batches(self, file: Path) -> Iterator[Any]:
        reader = self._open(file)
        if hasattr(reader, "get_batch"):
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            yield from reader

    def head(self, file: Path) -> Any:
        """Return the columns in the file's schema."""
        return self._open(file).schema.empty_table()

    def count(self, file: Path) -> int:
        """Count the rows of the batches."""
        return sum(batch.num_rows for batch in self._batches(file))

    def tables(self, part: Part, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Split the file's batches into smaller ones."""
        import pyarrow as pa  # noqa: PLC0415

        for batch in self._batches(part.file):
            table = pa.Table.from_batches([batch]).select(list(columns))
            for start in range(0, len(table), n_rows):
                yield table.slice(start, n_rows)


class _ValidText(io.RawIOBase):
    """The bytes of a text file in UTF-8, with U+FFFD in place of invalid bytes and of NUL.

    Arrow decodes a malformed line before it calls the handler. If decoding fails, it raises an exception that
    shows the bytes. After a NUL at the end of a block, Arrow may lose cells and lines on some processors.
    """

    def __init__(self, file: Path, encoding: str) -> None:
        import pyarrow as pa  # noqa: PLC0415

        self._stream = pa.input_stream(str(file), compression="detect")
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""
        self._ended = False

    def end(self) -> None:
        """Let every further read find the end of the file."""
        self._ended = True

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end: Arrow loses lines after a short block."""
        while len(self._ready) < size and not self._ended:
            raw = self._stream.read(size)
            self._ready += self._decoder.decode(raw, final=not raw).replace("\0", "\ufffd").encode()
            if not raw:
                break
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


class Csv(FileFormat):
    """The CSV format: cells are text, each parsed by itself; types are never inferred from cells."""

    is_text = True

    @contextmanager
    def _open(self, file: Path, columns: Sequence[str], block: int, bad: list[int]) -> Iterator[Any]:
        """Open the file and yield its batches; at the end no thread of Arrow reads it any more.

        A thread that reads ahead through Python while the interpreter exits would abort the process.
        """
        import pyarrow as pa  # noqa: PLC0415

        text = _ValidText(file, self.files.encoding)
        try:
            batches = self._reader(text, self._delimiter(file), columns, block, bad)
        except pa.ArrowException:
            text.end()
            raise
        try:
            yield batches
        finally:
            text.end()
            with suppress(pa.ArrowException):
                for _ in batches:  # what was read ahead
                    pass

    def _reader(
        self, text: _ValidText, delimiter: str, columns: Sequence[str], block: int, bad: list[int]
    ) -> Any:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import csv  # noqa: PLC0415

        names = self.files.header

        def keep_place(line: Any) -> str:  # the argument also contains the text of the line, which is ignored
            bad.append(line.number - (2 if names is None else 1))
            return "skip"

        return csv.open_csv(
            text,
            read_options=csv.ReadOptions(
                use_threads=False, block_size=block, column_names=None if names is None else list(names)
            ),
            parse_options=csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,  # in a table with one column an empty line is a missing cell
                invalid_row_handler=keep_place,
            ),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.binary() for name in columns},
                include_columns=list(columns),
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=True,
            ),
        )

    def head(self, file: Path) -> Any:
        """Return the names in the header line, or those given."""
        import pyarrow as pa  # noqa: PLC0415

        names = self.files.header
        if names is None:
            with self._records(file) as records, suppress(csv_module.Error):
                names = next(records, None)
        if not names:
            raise InvalidArgumentError(
                f"Expected a header line with the names of the columns, in UTF-8, got none in {str(file)!r}. "
                f"Pass the names with dpem.Files(path, header=[...]), or --header."
            )
        if len(set(names)) < len(names):  # the message does not show them: the line may be a row
            raise InvalidArgumentError(
                f"Expected different names in the first line of {str(file)!r}, got some more than once. "
                f"Rename these columns. If the file has no header line, pass the names with "
                f"dpem.Files(path, header=[...]), or --header."
            )
        kind = pa.binary() if self.files.columns is None else pa.float64()
        return pa.table([pa.array([], kind)] * len(names), names=list(names))

    def count_lines(self, file: Path) -> int:
        """Count the lines of a file, without the header line; lines within quotes count too."""
        import pyarrow as pa  # noqa: PLC0415

        lines, last = 0, b"\n"
        with pa.input_stream(str(file), compression="detect") as stream:
            while block := stream.read(_BUFFER):
                lines, last = lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n") - (self.files.header is None)

    def count_malformed(self, file: Path) -> int:
        """Count the lines with a wrong number of fields."""
        return sum(count for _, count in self._batches(file, self.head(file).column_names[:1]))

    def count_invalid(self, file: Path) -> int:
        """Count the lines with bytes that the encoding does not have; lines within quotes count too."""
        import pyarrow as pa  # noqa: PLC0415

        with pa.input_stream(str(file), compression="detect") as stream:
            return sum(not self._is_valid(line) for line in io.BufferedReader(stream))

    def _is_valid(self, text: bytes) -> bool:
        try:
            text.decode(self.files.encoding)
        except UnicodeDecodeError:
            return False
        return True

    def _delimiter(self, file: Path) -> str:
        tabs = self.files.delimiter == "," and file.name.lower().endswith((".tsv", ".tsv.gz"))
        return "\t" if tabs else self.files.delimiter

    @contextmanager
    def _records(self, file: Path) -> Iterator[Iterator[list[str]]]:
        """Read records one by one, for the header line and the check for further lines."""
        import pyarrow as pa  # noqa: PLC0415

        with pa.input_stream(str(file), compression="detect") as stream:
            encoding = "utf-8-sig" if self.files.encoding == "utf-8" else self.files.encoding
            text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
            yield csv_module.reader(text, delimiter=self._delimiter(file))

    def _has_rows(self, file: Path) -> bool:
        with self._records(file) as records:
            try:
                if self.files.header is None:
                    next(records, None)
                return next(records, None) is not None
            except csv_module.Error:  # a cell above Python's limit; the caller must not notice it
                return True

    def count(self, file: Path) -> int:
        """Count the lines, which takes a pass."""
        first = self.head(file).column_names[:1]
        return sum(len(table) for table in self._text(file, first))

    def tables(self, part: Part, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Read batches of text; of numbers if there is no schema."""
        import pyarrow as pa  # noqa: PLC0415

        for table in self._text(part.file, columns):
            for start in range(0, len(table), n_rows):
                cells = table.slice(start, n_rows)
                for j, name in enumerate(columns):
                    if self.files.columns is not None and name in self.files.columns:
                        numbers = numbers_of(cells.column(j).combine_chunks())
                        cells = cells.set_column(j, name, pa.array(numbers))
                yield cells

    def _text(self, file: Path, columns: Sequence[str]) -> Iterator[Any]:
        """Read batches of text, with an empty row in place of each malformed line."""
        return (table for table, _ in self._batches(file, columns))

    def _batches(self, file: Path, columns: Sequence[str]) -> Iterator[tuple[Any, int]]:
        """Yield tables of text, each with the number of its rows that stand for malformed lines."""
        import pyarrow as pa  # noqa: PLC0415

        block, n_done, n_placed = _CSV_BLOCK, 0, 0
        while True:
            bad: list[int] = []  # the places of malformed lines among all rows, in order
            n_seen = 0
            try:
                with self._open(file, columns, block, bad) as batches:
                    for batch in batches:
                        n_seen += batch.num_rows
                        if n_seen > n_done:
                            table = pa.Table.from_batches([batch.slice(batch.num_rows - (n_seen - n_done))])
                            table, n_more = _with_empty_rows(table, bad[n_placed:], n_done + n_placed)
                            yield table, n_more
                            n_done, n_placed = n_seen, n_placed + n_more
                break
            except pa.ArrowInvalid:  # a line longer than a block; the caller must not notice it
                if not self._has_rows(file):
                    return
                if block >= _CSV_LARGEST:
                    raise
                block *= 16
        rest = len(bad) - n_placed
        if rest:
            yield pa.table([pa.nulls(rest, pa.binary())] * len(columns), names=list(columns)), rest


def _with_empty_rows(table: Any, places: Sequence[int], first: int) -> tuple[Any, int]:
    """Insert an empty row at each place up to the end of a table whose first row has place `first`.

    Returns the table and the number of inserted rows.
    """
    import pyarrow as pa  # noqa: PLC0415

    # Before the k-th malformed line are its place less k proper rows.
    before = [place - first - k for k, place in enumerate(places)]
    before = [n_rows for n_rows in before if n_rows < len(table)]
    if not before:
        return table, 0
    rows = np.insert(np.arange(len(table)), before, -1)
    return table.take(pa.array(rows, mask=rows < 0)), len(before)


FORMATS: dict[str, type[FileFormat]] = {"parquet": Parquet, "csv": Csv, "arrow": Arrow}
