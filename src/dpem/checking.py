"""`dpem check`: check a schema against a table, for the owner of the rows. Not for release, never charged.

A finding about how cells are written names the line of the schema to change: such a line concerns the format
of text, not persons. A finding about bounds or categories shows no value and suggests none, because no
guarantee covers bounds that were chosen after looking at rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.data.cells import category_key, is_arrow
from dpem.data.column import ABOVE, ABSENT, BELOW, MISSING, NUMBERS, OUTSIDE, READ, UNREADABLE
from dpem.data.declarations import declared_column
from dpem.data.levels import LevelGrid
from dpem.data.schema import require_schema
from dpem.data.sources.files import FileRows
from dpem.data.table_types import listed
from dpem.engines import engine_for, open_rows
from dpem.engines.base import ClusterRows
from dpem.errors import InvalidArgumentError
from dpem.statistics.contingency import Histograms

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data import RowSource, Schema, TableRows
    from dpem.data.column import Column
    from dpem.data.sources.files import LineCounts

__all__ = ["ColumnCheck", "TableCheck", "check_table"]

LEAST_READ = 0.99  # share of a column's cells that must be read for the column to count as read
_FINDINGS = 7  # kinds of findings about a cell, see dpem.data.column
_CLIPPED = 0.05  # a larger share of clipped cells is reported
_PARTS = 256  # of the bounds; a column whose cells all lie in one part is reported
_SAMPLED = 2000  # unreadable cells on which other formats are tried
_EXPLAINED = 0.9  # share of these cells that a format must read to be suggested
_HALF = 0.5  # with fewer cells read, most values of a column are replacements
_SCALES = 1000.0  # a larger ratio between the widths of bounds is reported

_NUMBERS: tuple[dict[str, Any], ...] = (
    {"decimal": "."},
    {"decimal": ".", "thousands": ","},
    {"decimal": ","},
    {"decimal": ",", "thousands": "."},
    {"decimal": ".", "thousands": " "},
    {"decimal": ".", "thousands": "'"},
    {"decimal": ",", "thousands": " "},
    {"decimal": ".", "thousands": "\u00a0"},
    {"decimal": ",", "thousands": "\u00a0"},
)
_DATES = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
_HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
ONE_FORMAT = "A column has one format: convert the column first."
_NA_VALUES = ["NA", "N/A", "n/a", "na", "NaN", "nan", "null", "NULL", "None", "none", "-", "--", "?", "."]


@dataclass(frozen=True)
class ColumnCheck:
    """How the schema reads the cells of one column.

    Attributes
    ----------
    name, kind : str
        The column and its kind.
    read : float
        Share of cells that are read as declared, including missing and clipped ones.
    missing : float
        Share of missing cells, in a column where cells may be missing.
    absent : float
        Share of missing cells, in a column where no cell may be missing.
    unreadable : float
        Share of cells that cannot be read as the declared kind.
    outside : float
        Share of cells outside the declared categories.
    below, above : float
        Shares of cells below the lower bound and above the upper bound.
    narrow : bool
        Whether all cells that are read lie in one category, or in 1/256 of the bounds.
    remedies : tuple of str
        Lines that, added to the schema, would make most unreadable cells readable.
    """

    name: str
    kind: str
    read: float
    missing: float
    absent: float
    unreadable: float
    outside: float
    below: float
    above: float
    narrow: bool
    remedies: tuple[str, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether nearly all cells are read."""
        return self.read >= LEAST_READ


@dataclass(frozen=True)
class TableCheck:
    """How a schema reads a table. NOT FOR RELEASE: it is computed from rows, without noise.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    columns : tuple of ColumnCheck
        The result for each column.
    findings : tuple of str
        Errors and oddities, in words.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpem
    >>> schema = dpem.Schema({"smoker": {"kind": "boolean"}})
    >>> check = dpem.check_table(pd.DataFrame({"smoker": ["ja", "nein", "nein"]}), schema)
    >>> check.is_read
    False
    >>> print(check)
    NOT FOR RELEASE: computed from the rows, without noise, for the owner of the table.
    3 rows
    ...
    - smoker: 100.0% of the cells cannot be read as boolean. Declare the words: ...
    """

    n_rows: int
    columns: tuple[ColumnCheck, ...]
    findings: tuple[str, ...]

    @property
    def is_read(self) -> bool:
        """Whether nearly all cells of every column are read."""
        return all(column.is_read for column in self.columns)

    def to_frame(self) -> pd.DataFrame:
        """Return the results as a DataFrame with one row for each column of the table."""
        import pandas as pd  # noqa: PLC0415  (slow to import)

        return pd.DataFrame([vars(column) for column in self.columns]).set_index("name")

    def __str__(self) -> str:
        shares = ("read", "missing", "absent", "unreadable", "outside", "below", "above")
        lines = [
            "NOT FOR RELEASE: computed from the rows, without noise, for the owner of the table.",
            f"{self.n_rows:,} rows",
            f"{'column':<24}{'kind':<12}" + "".join(f"{name:>11}" for name in shares),
        ]
        for column in self.columns:
            cells = "".join(f"{_percent(getattr(column, name)):>11}" for name in shares)
            lines.append(f"{column.name[:23]:<24}{column.kind:<12}{cells}")
        lines += [f"- {finding}" for finding in self.findings]
        if not self.findings:
            lines.append("Nothing to correct.")
        if any(column.outside or column.below or column.above for column in self.columns):
            lines.append(
                "If you change bounds or categories after reading this output, they depend on rows, and no "
                "guarantee covers that. Declare from_rows = true for such columns, so that statements say "
                "so. Or estimate bounds for a charge with dpem.private_bounds."
            )
        return "\n".join(lines)


def check_table(
    table: Any, schema: Schema, *, person: str | None = None, rows_per_person: int = 1
) -> TableCheck:
    """Check a schema against the cells of a table, before any budget is spent on the table.

    The result is for the owner of the rows and NOT FOR RELEASE: its shares are exact. The check charges no
    ledger and changes no fit. You may correct how a column is written. Bounds and categories that you
    change after reading the result depend on rows, and so does a word that only a few cells contain.

    Parameters
    ----------
    table : array, DataFrame, path, function, Dask or Spark table, or tensor
        Any table that `fit` accepts; it is read in batches.
    schema : Schema
        The declared columns.
    person : str, optional
        The column that identifies persons.
    rows_per_person : int, default 1
        The number of rows that a fit uses of each person.

    Returns
    -------
    TableCheck
        The result; print it to read it.

    Examples
    --------
    >>> import pandas as pd
    >>> import dpem
    >>> table = pd.DataFrame({"pay": ["1,250.00", "980.50", "2,010.75"]})
    >>> schema = dpem.Schema({"pay": {"kind": "continuous", "bounds": [0, 5000]}})
    >>> check = dpem.check_table(table, schema)
    >>> round(check.columns[0].read, 2), check.columns[0].remedies
    (0.33, ('decimal = ".", thousands = ","',))
    >>> dpem.check_table(table, schema.declare({"pay": {"thousands": ","}})).is_read
    True
    """
    if require_schema(schema).lacking:
        raise InvalidArgumentError(
            f"Expected public bounds or categories for {listed(schema.lacking)}, got a draft of a schema "
            f"without them. Declare them in the schema from public knowledge, then check the table."
        )
    source = open_rows(table, schema, person=person)
    _validate.integer(rows_per_person, "rows_per_person")
    m = len(schema.columns)
    engine = engine_for(source)
    found = engine.sum(Histograms.of_columns([_FINDINGS] * m), source.of_findings(), _IdentityGrid())
    counts = found.reshape(m, _FINDINGS)
    grid = LevelGrid(schema)
    levels = Histograms.of_columns(grid.sizes)
    by_level = levels.split(engine.sum(levels, source, grid).astype(np.float64))
    engine.close()
    n_rows = int(counts[0].sum())
    samples = _samples(source, schema, counts[:, UNREADABLE], UNREADABLE)
    cased = _differ_in_case(source, schema, counts[:, OUTSIDE])
    columns = tuple(
        _column_check(column, counts[j], by_level[j].ravel(), samples[j].remedies if j in samples else ())
        for j, column in enumerate(schema.columns)
    )
    lines = source.counts_of_lines() if isinstance(source, FileRows) else None
    n_malformed = 0 if lines is None else lines.malformed
    findings = [] if lines is None else _findings_of_lines(lines, n_rows)
    for j, column in enumerate(columns):
        # The finding about malformed lines covers their cells.
        is_absent = bool(counts[j, ABSENT] > n_malformed)
        findings += _findings_of(
            schema.columns[j], column, samples.get(j), cased.get(j, 0.0), is_absent=is_absent
        )
    findings += _findings_of_table(source, schema, n_rows, person, rows_per_person)
    return TableCheck(n_rows, columns, tuple(findings))


@dataclass(frozen=True)
class _IdentityGrid:
    """A `RowGrid` that returns findings unchanged: they are levels already."""

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return columns


def _column_check(
    column: Column, counts: NDArray[np.int64], levels: NDArray[np.float64], remedies: tuple[str, ...]
) -> ColumnCheck:
    n = max(int(counts.sum()), 1)
    shares = counts / n
    lost = counts[ABSENT] + counts[UNREADABLE] + counts[OUTSIDE]
    values = levels[:-1] if column.missing else levels
    return ColumnCheck(
        column.name,
        column.kind,
        float(1 - lost / n),
        float(shares[MISSING]),
        float(shares[ABSENT]),
        float(shares[UNREADABLE]),
        float(shares[OUTSIDE]),
        float(shares[BELOW]),
        float(shares[ABOVE]),
        bool(n > 1 and lost < n and values.max(initial=0.0) == values.sum() > 0),
        remedies,
    )


def _findings_of(
    declared: Column, column: ColumnCheck, sample: _Sample | None, cased: float, *, is_absent: bool
) -> list[str]:
    found = []
    name = column.name
    if is_absent:
        found.append(
            f"{name}: {_percent(column.absent)} of the cells are missing, and the schema allows none. If "
            f"cells may be missing, declare missing = true."
        )
    if column.missing == 1:
        found.append(f"{name}: all cells are missing.")
    if column.unreadable > 0:
        how = f" In the schema: {' or '.join(column.remedies)}." if column.remedies else ""
        if sample is not None and sample.is_mixed:
            how = f" The cells have several formats. {ONE_FORMAT}"
        elif not how and column.kind == "boolean":
            how = " Declare the words: true = [...] and false = [...]."
        elif not how and column.kind in ("date", "datetime"):
            how = ' Declare their format, such as format = "%d.%m.%Y".'
        found.append(
            f"{name}: {_percent(column.unreadable)} of the cells cannot be read as {column.kind}.{how}"
        )
    if column.outside > 0:
        which = "They" if cased == 1 else "Some of them"
        how = f" {which} differ from a category in upper and lower case only." if cased else ""
        place = "missing" if declared.outside == "missing" else repr(declared.outside)
        found.append(
            f"{name}: {_percent(column.outside)} of the cells are outside the declared categories; they "
            f"count as {place}.{how}"
        )
    clipped = column.below + column.above
    if clipped > _CLIPPED:
        found.append(f"{name}: {_percent(clipped)} of the cells are clipped at a bound.")
    if column.narrow and column.read > _HALF:
        where = f"in 1/{_PARTS} of the bounds" if column.kind in NUMBERS else "in one category"
        found.append(f"{name}: all cells lie {where}. The column is constant, or its declaration is wrong.")
    return found


def _findings_of_lines(lines: LineCounts, n_rows: int) -> list[str]:
    found = []
    if lines.invalid:
        found.append(
            f"{_lines(lines.invalid)} bytes that the encoding of the files does not have, so cells and names "
            f'are misread. Pass the encoding with dpem.Files(path, encoding="cp1252"), or '
            f"--encoding. Files from Windows often have cp1252."
        )
    if lines.malformed:
        found.append(f"{_lines(lines.malformed)} a wrong number of fields; all their cells count as missing.")
    if lines.all > n_rows:
        found.append(
            f"The files have {lines.all:,} lines and {n_rows:,} rows. Either quoted cells contain line "
            f"breaks, or a quote is opened and not closed and swallows the lines after it."
        )
    return found


def _lines(count: int) -> str:
    return "1 line has" if count == 1 else f"{count:,} lines have"


def _findings_of_table(
    source: RowSource, schema: Schema, n_rows: int, person: str | None, rows_per_person: int
) -> list[str]:
    found = []
    numbers = [column for column in schema.columns if column.is_number]
    widths = {column.name: column.limits[1] - column.limits[0] for column in numbers}
    if widths and max(widths.values()) > _SCALES * min(widths.values()):
        least, most = min(widths, key=widths.__getitem__), max(widths, key=widths.__getitem__)
        found.append(
            f"The bounds of {most!r} are {widths[most] / widths[least]:,.0f} times as wide as those of "
            f"{least!r}. KMeans with scale='none' would use little but {most!r}; scale='bounds', its default "
            f"with a schema, gives both the same weight."
        )
    if person is not None and not isinstance(source, ClusterRows):
        owners = [name for piece in source.pieces() for name in _names(piece)]
        counts = np.unique(np.array(owners, dtype=object).astype(str), return_counts=True)[1]
        above = int((counts > rows_per_person).sum())
        if above:
            found.append(
                f"{person}: {_percent(above / max(len(counts), 1))} of the persons have more than "
                f"{rows_per_person} row{'s' * (rows_per_person > 1)}; a fit leaves out the rows above that."
            )
    if n_rows == 0:
        found.append("The table has no rows.")
    return found


def _names(piece: TableRows) -> list[str]:
    owners = piece.owners
    names = [*owners.names, ""]
    return [names[place] for place in owners.places]


def _percent(share: float) -> str:
    if share in (0.0, 1.0) or 0.001 <= share <= 0.999:
        return f"{share:.1%}"
    return "< 0.1%" if share < 0.5 else "> 99.9%"


# -- how cells are written -------------------------------------------------------------------------------


def _differ_in_case(source: RowSource, schema: Schema, outside: NDArray[np.int64]) -> dict[int, float]:
    """Return the share of cells outside the categories that differ from one in upper and lower case only."""
    samples = _samples(source, schema, outside, OUTSIDE)
    return {j: sample.cased for j, sample in samples.items()}


def _samples(
    source: RowSource, schema: Schema, counts: NDArray[np.int64], finding: int
) -> dict[int, _Sample]:
    """Return the first cells of each column with a finding, where it occurs."""
    wanted = {j: _Sample(schema.columns[j], finding) for j in np.flatnonzero(counts).tolist()}
    if not wanted or isinstance(source, ClusterRows):
        return {}
    for piece in source.pieces():
        for j, sample in wanted.items():
            sample.add(piece._columns[j])
        if all(sample.is_full for sample in wanted.values()):
            break
    return wanted


class _Sample:
    """The first cells of a column with one finding, such as unreadable ones, and the cells before them."""

    def __init__(self, column: Column, finding: int) -> None:
        self._column, self._finding = column, finding
        self._cells: list[Any] = []
        self._others: list[Any] = []  # that are read as declared

    @property
    def is_full(self) -> bool:
        return min(len(self._cells), len(self._others)) >= _SAMPLED

    def add(self, cells: Any) -> None:
        found = self._column.parse(cells)[1]
        read = (found == READ) | (found == BELOW) | (found == ABOVE)
        for sample, chosen in ((self._cells, found == self._finding), (self._others, read)):
            places = np.flatnonzero(chosen)[: _SAMPLED - len(sample)]
            sample.extend(cells.take(places).to_pylist() if is_arrow(cells) else cells[places].tolist())

    @property
    def cased(self) -> float:
        """The share of cells that differ from a category in upper and lower case only."""
        known = {category_key(category).casefold() for category in self._column.categories or ()}
        keys = [category_key(cell).casefold() for cell in self._cells]
        return sum(key in known for key in keys) / max(len(keys), 1)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Up to three lines of the schema, each of which makes nine in ten of these cells readable."""
        return self._explained[0]

    @property
    def is_mixed(self) -> bool:
        """Whether the column can be read with several formats and with no single one."""
        return self._explained[1]

    @cached_property
    def _explained(self) -> tuple[tuple[str, ...], bool]:
        declared = self._column.to_dict()
        found: list[dict[str, Any]] = []
        readings: list[NDArray[np.float64]] = []
        readable = np.zeros(len(self._cells), dtype=bool)
        for lines in self._candidates():
            values, read = self._parsed(declared | lines, self._cells)
            others = self._parsed(declared | lines, self._others)[1]
            if read.mean() < _EXPLAINED or others.sum() < LEAST_READ * len(others):
                readable |= read
            # Of formats with the same values, such as with separators that do not occur, only the first.
            elif not any(np.array_equal(values, known, equal_nan=True) for known in readings):
                found.append({key: value for key, value in lines.items() if declared.get(key) != value})
                readings.append(values)
        fewest = min(map(len, found), default=0)  # of several that work, prefer those with fewest keys
        chosen = [
            ", ".join(f"{key} = {_toml(value)}" for key, value in lines.items())
            for lines in found
            if len(lines) == fewest
        ]
        return tuple(chosen[:3]), not chosen and bool(readable.mean() >= _EXPLAINED)

    def _candidates(self) -> list[dict[str, Any]]:
        declared = self._column.to_dict()
        kind, formats = self._column.kind, []
        if kind in ("continuous", "integer"):
            # The schema cannot take back a declared separator of thousands, only replace it.
            formats = [lines for lines in _NUMBERS if "thousands" in lines or "thousands" not in declared]
        elif kind in ("date", "datetime"):
            hours = _HOURS[1:] if kind == "datetime" else _HOURS[:3]
            formats = [{"format": date + hour} for hour in hours for date in _DATES]
        words = {category_key(cell) for cell in self._cells} & set(_NA_VALUES)
        if not words:
            return formats
        known = declared.get("na_values", [])
        missing = {"na_values": [*known, *(word for word in _NA_VALUES if word in words)], "missing": True}
        return [missing, *formats, *(written | missing for written in formats)]

    def _parsed(
        self, declared: dict[str, Any], sample: list[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the values of the cells with another declaration, and which of them can be read."""
        cells = np.empty(len(sample), dtype=object)
        cells[:] = sample
        try:
            values, found = declared_column(self._column.name, declared).parse(cells)
        except InvalidArgumentError:  # the format contradicts another declaration of the column
            return np.full(len(sample), np.nan), np.zeros(len(sample), dtype=bool)
        return values, found != UNREADABLE


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"'
