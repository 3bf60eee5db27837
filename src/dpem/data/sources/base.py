"""The interface of row sources: a fit reads rows in pieces that fit in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpem.data.schema import Schema
    from dpem.data.sources.memory import TableRows

__all__ = ["RowSource"]


class RowSource(ABC):
    """Rows of a table with known columns; the number of rows may be private.

    Attributes
    ----------
    schema : Schema or None
        The declared columns.
    names : tuple of str or None
        Column names, if the data has names.
    n_columns : int
        Number of columns that are used.
    """

    schema: Schema | None
    names: tuple[str, ...] | None
    n_columns: int

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows. Never show it if it is private. Counting may take a pass."""

    @abstractmethod
    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the rows, always in the same pieces, starting with piece number `first`."""

    @abstractmethod
    def in_memory(self) -> TableRows:
        """Return all rows in memory, or raise with the reason."""

    @abstractmethod
    def only(self, columns: Sequence[int]) -> RowSource:
        """Return the same rows with some of the columns."""

    @abstractmethod
    def of_findings(self) -> RowSource:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""

    def require_rows(self) -> None:
        """Raise if the table has no rows. Call this only if the number of rows is public."""
        if self.n_rows == 0:
            raise InvalidArgumentError(
                f"Expected at least one row: Found array with 0 sample(s) (shape=(0, {self.n_columns})) "
                f"while a minimum of 1 is required."
            )
