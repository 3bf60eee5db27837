"""Rows that arrive as a stream of tables: common code of files, batches and clusters."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from dpem.data.sources.base import RowSource
from dpem.data.sources.memory import BLOCK_CELLS, TableRows
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.data.schema import Schema

__all__ = ["StreamedRows", "TableReader"]

# Number of blocks to read at a time: large enough that the overhead of reading is small.
_BLOCKS_READ = 8


@dataclass(frozen=True)
class TableReader:
    """Read each table of a stream; workers of a cluster receive a copy of the reader.

    Attributes
    ----------
    schema : Schema or None
        The declared columns.
    columns : tuple or None
        The names of the columns to read, in any order; None if tables have no names.
    n_columns : int
        Number of columns of every table.
    kept : tuple of int or None
        Which of these columns are used; None means all.
    of_findings : bool
        Whether each cell is replaced by the finding about it.
    person : str or None
        The column that identifies persons.
    """

    schema: Schema | None
    columns: tuple[Any, ...] | None
    n_columns: int
    kept: tuple[int, ...] | None = None
    of_findings: bool = False
    person: str | None = None

    @property
    def names(self) -> tuple[Any, ...]:
        """The columns to read from each table, including the column of persons."""
        return (*(self.columns or ()), *(() if self.person is None else (self.person,)))

    def __call__(self, table: Any) -> TableRows:
        """Return the rows of one table; raise if its columns differ from those of the others."""
        rows = TableRows(table, self.schema, columns=self.columns, person=self.person)
        if rows.n_columns != self.n_columns:
            raise InvalidArgumentError(
                f"Expected {self.n_columns} columns in all parts of the table, got a part with "
                f"{rows.n_columns} columns."
            )
        if self.kept is not None:
            rows = rows.only(self.kept)
        return rows.of_findings() if self.of_findings else rows


class StreamedRows(RowSource):
    """Rows of a stream. Column names and types are read first, before any value."""

    def __init__(
        self,
        head: Any,
        schema: Schema | None,
        *,
        by_position: bool = False,
        columns: Sequence[str] | None = None,
        person: str | None = None,
    ) -> None:
        rows = TableRows(head, schema, by_position=by_position, columns=columns, person=person)
        self.schema, self.names, self.n_columns = rows.schema, rows.names, rows.n_columns
        self._reader = TableReader(schema, rows.labels, rows.n_columns, person=person)
        self._empty = rows.first_rows(0)

    @property
    def rows_read(self) -> int:
        """The number of rows to read at a time."""
        return max(64, _BLOCKS_READ * BLOCK_CELLS // self.n_columns)

    @cached_property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._count()

    @abstractmethod
    def _count(self) -> int:
        """Count the rows."""

    def in_memory(self) -> TableRows:
        """Return all rows in one table."""
        return TableRows.joined([self._empty, *self.pieces()])

    def only(self, columns: Sequence[int]) -> Self:
        """Return the same rows with some of the columns."""
        other = self._read_by(replace(self._reader, kept=tuple(columns)))
        other._empty = rows = self._empty.only(columns)
        other.schema, other.names, other.n_columns = rows.schema, rows.names, rows.n_columns
        return other

    def of_findings(self) -> Self:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        other = self._read_by(replace(self._reader, of_findings=True))
        other._empty = self._empty.of_findings()
        return other

    def _read_by(self, reader: TableReader) -> Self:
        other = copy.copy(self)
        other._reader = reader
        return other
