"""Rows from Parquet, CSV or Arrow files of any size, read in batches on every pass."""

from __future__ import annotations

import codecs
import glob
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem.data.sources.formats import FORMATS, Csv, format_of
from dpem.data.sources.streams import StreamedRows
from dpem.data.stored_types import require_types
from dpem.data.table_types import is_name, listed
from dpem.errors import ChangedDataError, DataError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpem.data.schema import Schema
    from dpem.data.sources.formats import FileFormat, Part
    from dpem.data.sources.memory import TableRows

__all__ = ["FileRows", "Files", "LineCounts", "file_head"]


_SHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")


@dataclass(frozen=True)
class Files:
    r"""The files of a table, with options for reading them. With default options, pass a path instead.

    Parameters
    ----------
    paths : path, pattern or folder, or a sequence of paths
        Such as ``"claims.parquet"``, ``"claims/2024-*.csv"`` or a folder with files of one format. All files
        have the same columns, in any order.
    columns : sequence of str, optional
        The numeric columns to use, instead of a schema. CSV files need a schema or columns, because their
        cells have no types.
    format : {"parquet", "csv", "arrow"}, optional
        The format of the files, by default from their extension.
    delimiter : str, default ","
        The field separator of CSV files.
    header : sequence of str, optional
        The names of all columns, for CSV files without a header line.
    encoding : str, default "utf-8"
        The encoding of CSV files: "utf-8", or one with one byte per character, such as "cp1252" or "latin-1".

    Notes
    -----
    Cells of CSV files are parsed one by one as the schema declares. An empty cell is missing. Bytes that the
    encoding does not have and NUL are read as U+FFFD. A line with too few or too many fields becomes a row
    whose cells are all missing; predictions keep the order of the lines. A quote that is opened and not
    closed swallows the lines after it (docs/background/known-vulnerabilities.md).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dpem
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
    >>> _ = path.write_text("\n".join(["age;stay", *["40;3", "71;9"] * 500]))
    >>> visits = Files(path, columns=["age", "stay"], delimiter=";")
    >>> model = dpem.KMeans(2, epsilon=2.0, bounds=([0, 0], [120, 90])).fit(visits)
    >>> list(model.feature_names_in_)
    ['age', 'stay']
    """

    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    columns: Sequence[str] | None = None
    format: str | None = None
    delimiter: str = ","
    header: Sequence[str] | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if self.format is not None:
            _validate.one_of(self.format, "format", FORMATS)
        delimiter: Any = self.delimiter
        one = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
        if not one or delimiter == '"' or not (delimiter.isprintable() or delimiter == "\t"):
            raise _validate.fail(
                "one printable ASCII character other than a quote, or a tab,", "delimiter", delimiter
            )
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        for name in ("columns", "header"):
            given: Any = getattr(self, name)
            if given is None:
                continue
            names = _validate.names(given, name)
            if not names or not all(map(is_name, names)):
                raise _validate.fail(f"a list of names for {name}", name, names)
            if len(set(names)) < len(names):
                raise _validate.fail("different names", name, names)
            object.__setattr__(self, name, tuple(names))
        given = self.paths
        remedy = (
            "Of a table as text, make a DataFrame first, such as with pandas.read_csv(io.StringIO(text))."
        )
        paths = (given,) if isinstance(given, str | os.PathLike) else tuple(_items(given))
        if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
            raise _validate.fail("a path, or a list of paths", "paths", given)
        for path in paths:
            _validate.path(path, "paths", remedy)
        object.__setattr__(self, "paths", paths)

    def listed(self) -> list[Path]:
        """Return the existing files, in order, each once."""
        paths: Any = self.paths
        files = [file for path in paths for file in _files_of(path)]
        _require_different(files)
        return files


def _encoding(given: Any) -> str:
    """Validate an encoding in which every line is decoded by itself, and return its usual name."""
    if isinstance(given, str):
        with suppress(LookupError, ValueError):  # ValueError: of a name with NUL
            name = codecs.lookup(given).name
            if name in ("utf-8", "utf-8-sig"):
                return "utf-8"
            every, plain = bytes(range(256)), bytes(range(128))
            if len(every.decode(name, "replace")) == len(every) and plain.decode(name) == plain.decode():
                return name
    raise _validate.fail(
        '"utf-8", or an encoding with one byte per character, such as "cp1252",',
        "encoding",
        given,
        "Convert files in other encodings to UTF-8 first.",
    )


def _items(given: Any) -> list[Any]:
    try:
        return [] if isinstance(given, bytes) else list(given)
    except TypeError:
        return []


def _require_different(files: Sequence[Path]) -> None:
    """Raise if a file occurs twice, also as a link or compressed: each of its rows would count twice."""
    seen: dict[tuple[int, int] | Path, Path] = {}
    for file in files:
        found = file.stat()
        unpacked = file.with_suffix("") if file.suffix.lower() == ".gz" else file
        for mark in ((found.st_dev, found.st_ino), unpacked.absolute()):
            if mark in seen and seen[mark] is not file:
                raise InvalidArgumentError(
                    f"Expected every file once, got {str(file)!r} and {str(seen[mark])!r}, which are the "
                    f"same or contain the same rows. Leave one of them out: each row must count once."
                )
            seen[mark] = file


def _files_of(path: str | os.PathLike[str]) -> list[Path]:
    file = Path(os.fspath(path)).expanduser()
    if file.is_dir():
        found = _files_in(file)
    elif file.exists():
        return [file]
    else:
        matches = [Path(name) for name in sorted(glob.glob(str(file), recursive=True))]  # noqa: PTH207
        matches = [match for match in matches if match.exists()]  # excludes broken links
        found = [each for match in matches for each in (_files_in(match) if match.is_dir() else [match])]
    if not found:
        raise InvalidArgumentError(
            f"Expected a file, a folder with files, or a pattern that matches files, got {str(path)!r}, and "
            f"found no file."
        )
    return found


def _files_in(folder: Path) -> list[Path]:
    """Return the files of known formats below a folder, except hidden and temporary ones."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        and format_of(file) is not None
        and file.is_file()
    ]


def file_head(files: Files | str | os.PathLike[str]) -> tuple[Any, bool]:
    """Return an empty table with the names and types of the first file, and whether it has types."""
    files = files if isinstance(files, Files) else Files(files)
    first = files.listed()[0]
    read = FORMATS[_one_format([first], files.format)](files)
    try:
        head = read.head(first)
    except read.errors:
        raise _damaged(first) from None
    return head, not read.is_text


def _one_format(paths: Sequence[Path], declared: str | None) -> str:
    sheets = [path.name for path in paths if path.suffix.lower() in _SHEETS]
    if sheets and declared is None:
        raise InvalidArgumentError(
            f"Expected CSV, Parquet or Arrow files, got the spreadsheet {sheets[0]!r}. Save the sheet as CSV "
            f"(UTF-8) first."
        )
    formats = {declared or format_of(path) for path in paths}
    if len(formats) != 1 or None in formats:
        raise InvalidArgumentError(
            f"Expected files of one format with a known extension ({', '.join(FORMATS)}), got "
            f"{listed([path.name for path in paths], 3)}. Pass the format with dpem.Files(path, format=)."
        )
    return str(formats.pop())


@dataclass(frozen=True)
class LineCounts:
    """Exact numbers of lines of CSV files, for the owner of the rows.

    Attributes
    ----------
    all : int
        Lines without header lines; lines within quotes count too.
    malformed : int
        Lines with a wrong number of fields.
    invalid : int
        Lines with bytes that the encoding does not have, including header lines.
    """

    all: int
    malformed: int
    invalid: int


class FileRows(StreamedRows):
    """Rows of files, in the order of their names. Rows are counted only if their number is public."""

    def __init__(
        self, files: Files, schema: Schema | None, *, by_position: bool = False, person: str | None = None
    ) -> None:
        self._files = files.listed()
        self._format: FileFormat = FORMATS[_one_format(self._files, files.format)](files)
        self._marks = {file: _mark(file) for file in self._files}
        columns = files.columns
        if columns is None and schema is None and self._format.is_text:
            raise InvalidArgumentError(
                "Expected a schema, or the numeric columns in dpem.Files(path, columns=[...]), got neither. "
                "The cells of CSV files have no types."
            )
        if schema is not None and columns is not None and not by_position:
            raise InvalidArgumentError(
                "Expected columns in the schema or in dpem.Files, got both. Use schema.select([...])."
            )
        heads = [self._read(file, self._format.head) for file in self._files]
        if schema is not None:
            schema.require_complete()
        wanted = columns or (schema.names if schema is not None and not by_position else ())
        self._format.require_columns(heads[0], (*wanted, *(() if person is None else (person,))))
        super().__init__(heads[0], schema, by_position=by_position, columns=columns, person=person)
        for file, head in zip(self._files, heads, strict=True):
            self._check_columns(file, head)
        self._pieces_of: dict[Part, int] = {}

    def _check_columns(self, file: Path, head: Any) -> None:
        """Raise if a file lacks a column or has one of an unsuitable type; names and types are public."""
        try:
            numbers = () if self.schema is not None else self._reader.columns or ()
            self._format.check_head(head, self._reader.names, numbers)
            if self.schema is not None and not self._format.is_text:
                require_types(head, self.schema, self._reader.columns)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"In file {file.name!r}: {error}") from None

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield batches of rows; parts of files before the requested first piece are not read."""
        number = 0
        for file in self._files:
            for part in self._read(file, self._format.parts):
                known = self._pieces_of.get(part)
                if known is not None and number + known <= first:
                    number += known
                    continue
                start = number
                for table in self._tables(part):
                    if number >= first:
                        yield self._reader(table)
                    number += 1
                self._pieces_of[part] = number - start

    def _tables(self, part: Part) -> Iterator[Any]:
        """Read a part, and check that its file has not changed."""
        try:
            yield from self._format.tables(part, self._reader.names, self.rows_read)
        except self._format.errors:
            self._check_unchanged(part.file)
            raise _damaged(part.file) from None  # the library's message may show cells
        self._check_unchanged(part.file)

    @staticmethod
    def text_or_typed_batches(files: Files, columns: Sequence[str], n_rows: int) -> Iterator[Any]:
        """Yield Arrow tables of the columns, with CSV cells as text; a malformed CSV line has no cells."""
        import pyarrow as pa  # noqa: PLC0415  (installed, because it reads the files)

        paths = files.listed()
        read = FORMATS[_one_format(paths, files.format)](replace(files, columns=None))
        for file in paths:
            try:
                for part in read.parts(file):
                    for table in read.tables(part, columns, n_rows):
                        text = pa.schema([(name, pa.string()) for name in columns])
                        yield table.cast(text) if read.is_text else table
            except read.errors:
                raise _damaged(file) from None

    def counts_of_lines(self) -> LineCounts | None:
        """Count the lines of CSV files, for their owner; None for other formats."""
        if not isinstance(self._format, Csv):
            return None
        counts = (self._format.count_lines, self._format.count_malformed, self._format.count_invalid)
        return LineCounts(*(sum(int(self._read(file, count)) for file in self._files) for count in counts))

    def _count(self) -> int:
        return sum(self._read(file, self._format.count) for file in self._files)

    def _read(self, file: Path, read: Any) -> Any:
        try:
            found = read(file)
        except self._format.errors:
            self._check_unchanged(file)
            raise _damaged(file) from None
        self._check_unchanged(file)
        return found

    def _check_unchanged(self, file: Path) -> None:
        mark = _mark(file)
        if mark != self._marks[file]:
            how = "was removed" if mark is None else "changed"
            raise ChangedDataError(
                f"Expected file {str(file)!r} to stay unchanged while it is read, but it {how}. Nothing more "
                f"was released. Restore the file, or fit again."
            )


def _mark(file: Path) -> tuple[int, int, int] | None:
    """Return size, time and inode of a file, which change when it is written again."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _damaged(file: Path) -> DataError:
    return DataError(
        f"Expected a complete, readable file, got {str(file)!r}, which is damaged, unreadable or in another "
        f"format. Nothing more was released. Repair the file, or leave it out."
    )
