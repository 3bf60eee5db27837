"""At most so many rows of each person: which ones is decided by that person's rows alone.

A column tells persons apart. Of a person with more rows than the cap, those with the smallest hash of their
cells are kept, wherever they stand in the table; the others, and rows that are nobody's, are left out.
docs/proofs/persons.md shows what one person can then change.
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

_ODD = np.uint64(0x9E3779B97F4A7C15)


class LimitedRows(RowSource):
    """The rows of a source that are kept. Who owns a row is read at once, its cells only for a pass.

    Parameters
    ----------
    source : RowSource
        Rows that say whose they are.
    rows_per_person : int
        The most rows that are kept of a person.
    """

    def __init__(self, source: RowSource, rows_per_person: int) -> None:
        self._source, self._kept = source, _KeptRows(source, rows_per_person)
        self._view: Callable[[Any], Any] = _as_it_is
        self.schema, self.names, self.n_columns = source.schema, source.names, source.n_columns

    @property
    def n_rows(self) -> int:
        """How many rows are kept: it follows from how many each person has."""
        return self._kept.n_rows

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the source's pieces without the rows that are left out."""
        kept = self._kept.by_piece  # before the source is opened here: it may be open but once
        for number, piece in enumerate(self._source.pieces(first), start=first):
            self._kept.require_same(number, piece)
            yield self._view(piece.where(kept[number]))

    def in_memory(self) -> TableRows:
        """Return all rows that are kept."""
        pieces = list(self.pieces())
        return TableRows.joined(pieces) if pieces else self._view(self._source.in_memory())

    def only(self, columns: Sequence[int]) -> LimitedRows:
        """Return the same rows with some of the columns."""
        return self._seen_as(lambda rows: rows.only(columns))

    def of_findings(self) -> LimitedRows:
        """Return what became of each cell instead of its value (`dpem.data.column`)."""
        return self._seen_as(lambda rows: rows.of_findings())

    def _seen_as(self, view: Callable[[Any], Any]) -> LimitedRows:
        """Return these rows, in the same pieces, each seen in another way."""
        other, before = copy.copy(self), self._view
        other._view = lambda rows: view(before(rows))
        like = other._view(self._source)
        other.schema, other.names, other.n_columns = like.schema, like.names, like.n_columns
        return other


def _as_it_is(rows: Any) -> Any:
    return rows


class _KeptRows:
    """Which rows of a source are kept; the source must give the same owners in the same places every time."""

    def __init__(self, source: RowSource, rows_per_person: int) -> None:
        self._source, self._cap = source, rows_per_person
        self._known: dict[str, int] = {}
        self._last: tuple[tuple[str, ...], NDArray[np.int64]] | None = None

    @cached_property
    def _owners(self) -> list[NDArray[np.int64]]:
        """Return a number for the person of every row, by piece."""
        return [self._numbered(piece.owners) for piece in self._source.pieces()]

    def _numbered(self, owners: Owners) -> NDArray[np.int64]:
        """Return the same number for the same name, in whatever piece."""
        if self._last is None or self._last[0] is not owners.names:  # pieces of one table share their names
            numbers = [self._known.setdefault(name, len(self._known)) for name in owners.names]
            self._last = owners.names, np.array([*numbers, NOBODY], dtype=np.int64)
        return self._last[1][owners.places]

    def require_same(self, number: int, piece: TableRows) -> None:
        """Raise where a piece has other owners than before: its rows would be counted as somebody else's."""
        if number < len(self._owners) and np.array_equal(self._numbered(piece.owners), self._owners[number]):
            return
        raise ChangedDataError(
            "Expected the same rows in the same order on every pass, got others than before. Give a table, "
            "or a function, that always has them in one order. Nothing more was released."
        )

    @cached_property
    def n_rows(self) -> int:
        """Return how many rows are kept; no cell is looked at."""
        everybody = _joined(self._owners)
        _, counts = np.unique(everybody[everybody != NOBODY], return_counts=True)
        return int(np.minimum(counts, self._cap).sum())

    @cached_property
    def by_piece(self) -> list[NDArray[np.bool_]]:
        """Return which rows of each piece are kept."""
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
    """Return a number for each row of a block (columns, rows) that depends on all of its cells."""
    mixed = np.zeros(block.shape[1], dtype=np.uint64)
    for column in np.ascontiguousarray(block).view(np.uint64):
        mixed = (mixed ^ column) * _ODD
        mixed ^= mixed >> np.uint64(32)
    return mixed * _ODD
