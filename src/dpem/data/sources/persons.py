"""Limit the rows of each person to a cap; the rows to keep depend on that person's rows only.

A column identifies persons. Of a person with more rows than the cap, the rows with the smallest hashes of
their cells are kept, in any place of the table. The other rows, and rows that belong to nobody, are left out.
docs/proofs/persons.md proves how much one person can then change.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.sources.base import RowSource
from dpem.data.sources.memory import TableRows
from dpem.data.sources.owners import NOBODY
from dpem.errors import ChangedDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.data.sources.owners import Owners

__all__ = ["LimitedRows"]

_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class LimitedRows(RowSource):
    """The rows of a source that are kept. Owners are held in memory; cells are read in each pass.

    Parameters
    ----------
    source : RowSource
        Rows with owners.
    rows_per_person : int
        The largest number of rows to keep of a person.
    """

    def __init__(self, source: RowSource, rows_per_person: int) -> None:
        self._source, self._kept = source, _KeptRows(source, rows_per_person)
        self._view: Callable[[Any], Any] = _unchanged
        self.schema, self.names, self.n_columns = source.schema, source.names, source.n_columns

    @property
    def n_rows(self) -> int:
        """The number of rows that are kept, computed from the number of rows of each person."""
        return self._kept.n_rows

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the source's pieces without the rows that are left out."""
        kept = self._kept.by_piece  # computed before the source is opened here: it cannot be open twice
        for number, piece in enumerate(self._source.pieces(first), start=first):
            self._kept.require_same(number, piece)
            yield self._view(piece.where(kept[number]))

    def in_memory(self) -> TableRows:
        """Return all rows that are kept."""
        pieces = list(self.pieces())
        return TableRows.joined(pieces) if pieces else self._view(self._source.in_memory())

    def only(self, columns: Sequence[int]) -> LimitedRows:
        """Return the same rows with some of the columns."""
        return self._mapped(lambda rows: rows.only(columns))

    def of_findings(self) -> LimitedRows:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        return self._mapped(lambda rows: rows.of_findings())

    def _mapped(self, view: Callable[[Any], Any]) -> LimitedRows:
        """Return these rows in the same pieces, with `view` applied to each piece."""
        other, before = copy.copy(self), self._view
        other._view = lambda rows: view(before(rows))
        like = other._view(self._source)
        other.schema, other.names, other.n_columns = like.schema, like.names, like.n_columns
        return other


def _unchanged(rows: Any) -> Any:
    return rows


class _KeptRows:
    """Decide which rows of a source are kept; every pass over the source must give the same owners."""

    def __init__(self, source: RowSource, rows_per_person: int) -> None:
        self._source, self._cap = source, rows_per_person
        self._known: dict[str, int] = {}
        self._last: tuple[tuple[str, ...], NDArray[np.int64]] | None = None

    @cached_property
    def _owners(self) -> list[NDArray[np.int64]]:
        """The number of the person of every row, for each piece."""
        return [self._numbered(piece.owners) for piece in self._source.pieces()]

    def _numbered(self, owners: Owners) -> NDArray[np.int64]:
        """Return the number of the person of each row, the same for the same name in all pieces."""
        if self._last is None or self._last[0] is not owners.names:  # pieces of one table share the tuple
            numbers = [self._known.setdefault(name, len(self._known)) for name in owners.names]
            self._last = owners.names, np.array([*numbers, NOBODY], dtype=np.int64)
        return self._last[1][owners.places]

    def require_same(self, number: int, piece: TableRows) -> None:
        """Raise if a piece has other owners than before: its rows would count as those of somebody else."""
        if number < len(self._owners) and np.array_equal(self._numbered(piece.owners), self._owners[number]):
            return
        raise ChangedDataError(
            "Expected the same rows in the same order on every pass, got other rows than before. Nothing "
            "more was released. Pass a table, or a function, that always has its rows in the same order."
        )

    @cached_property
    def n_rows(self) -> int:
        """The number of rows that are kept; no cell is read."""
        everybody = _joined(self._owners)
        _, counts = np.unique(everybody[everybody != NOBODY], return_counts=True)
        return int(np.minimum(counts, self._cap).sum())

    @cached_property
    def by_piece(self) -> list[NDArray[np.bool_]]:
        """Which rows of each piece are kept."""
        everybody = _joined(self._owners)
        hashes = []
        for number, piece in enumerate(self._source.pieces()):
            self.require_same(number, piece)
            hashes += [np.empty(0, np.uint64), *map(_hashes, piece.blocks())]
        order = np.lexsort((_joined(hashes), everybody))
        owners = everybody[order]
        begins = np.append(True, owners[1:] != owners[:-1])[: len(owners)]
        starts = np.maximum.accumulate(np.where(begins, np.arange(len(owners)), 0))
        kept = np.empty(len(owners), dtype=bool)
        kept[order] = (np.arange(len(owners)) - starts < self._cap) & (owners != NOBODY)
        return np.split(kept, np.cumsum([len(piece) for piece in self._owners]))[:-1]


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _hashes(block: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of all cells of each row, for a block of shape (columns, rows)."""
    mixed = np.zeros(block.shape[1], dtype=np.uint64)
    for column in np.ascontiguousarray(block).view(np.uint64):
        mixed = (mixed ^ column) * _HASH_FACTOR
        mixed ^= mixed >> np.uint64(32)
    return mixed * _HASH_FACTOR
