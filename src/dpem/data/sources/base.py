"""What a fit reads: rows of a table, wherever they are, in pieces that fit in memory."""

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
    """Rows of a table whose columns are known; how many there are may be private.

    Attributes
    ----------
    schema : Schema or None
        What its cells are.
    names : tuple of str or None
        Column names, where the data has them.
    n_columns : int
        How many columns are used.
    """

    schema: Schema | None
    names: tuple[str, ...] | None
    n_columns: int

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows there are: never to be shown where that is private. It may take a pass."""

    @abstractmethod
    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield all rows, always in the same pieces, from the piece number `first` on."""

    @abstractmethod
    def in_memory(self) -> TableRows:
        """Return all rows in memory, or say why not."""

    @abstractmethod
    def only(self, columns: Sequence[int]) -> RowSource:
        """Return the same rows with some of the columns."""

    @abstractmethod
    def of_findings(self) -> RowSource:
        """Return what became of each cell instead of its value (`dpem.data.column`)."""

    def require_rows(self) -> None:
        """Raise where there is no row; only where their number is public."""
        if self.n_rows == 0:
            raise InvalidArgumentError(
                f"Expected at least one row: Found array with 0 sample(s) (shape=(0, {self.n_columns})) "
                f"while a minimum of 1 is required."
            )
