"""At most so many rows of each person: which ones is decided by that person's rows alone.

A column tells persons apart. Of a person with more rows than the cap, those with the smallest hash of their
cells are kept, wherever they stand in the table; the others are left out. docs/proofs/persons.md shows what
one person can then change.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.cells import as_bytes, is_arrow, nothing_raised
from dpem.data.sources import RowSource
from dpem.data.table_rows import TableRows, joined_cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["LimitedRows"]

_NOBODY = -1  # cells that are null, or cannot be compared: one person
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
        self.schema, self.names, self.n_columns = source.schema, source.names, source.n_columns
        self._source, self._kept = source, _KeptRows(source, rows_per_person)

    @property
    def n_rows(self) -> int:
        """How many rows are kept: it follows from how many each person has."""
        return self._kept.n_rows

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the source's pieces without the rows that are left out."""
        for number, piece in enumerate(self._source.pieces(first), start=first):
            yield piece.where(self._kept.by_piece[number])

    def in_memory(self) -> TableRows:
        """Return all rows that are kept."""
        pieces = list(self.pieces())
        return TableRows.joined(pieces) if pieces else self._source.in_memory()  # no row at all

    def only(self, columns: Sequence[int]) -> LimitedRows:
        """Return the same rows with some of the columns."""
        return self._of(self._source.only(columns))

    def of_changes(self) -> LimitedRows:
        """Return one column instead: 1 for each row that has a cell which the schema sent elsewhere."""
        return self._of(self._source.of_changes())

    def _of(self, source: RowSource) -> LimitedRows:
        other = copy.copy(self)
        other.schema, other.names, other.n_columns = source.schema, source.names, source.n_columns
        other._source = source  # and the same rows are kept
        return other


class _KeptRows:
    """Which rows of a source are kept."""

    def __init__(self, source: RowSource, rows_per_person: int) -> None:
        self._source, self._cap = source, rows_per_person

    @cached_property
    def _owners(self) -> NDArray[np.int64]:
        """Return a number for the person of every row."""
        cells = [piece.owners for piece in self._source.pieces()]
        return _numbered(joined_cells(cells)) if cells else np.empty(0, np.int64)

    @cached_property
    def n_rows(self) -> int:
        """Return how many rows are kept; no cell is looked at."""
        _, counts = np.unique(self._owners, return_counts=True)
        return int(np.minimum(counts, self._cap).sum())

    @cached_property
    def by_piece(self) -> list[NDArray[np.bool_]]:
        """Return which rows of each piece are kept."""
        hashes = [
            np.concatenate([np.empty(0, np.uint64), *map(_hashes, piece.blocks())])
            for piece in self._source.pieces()
        ]
        if not hashes:
            return []
        order = np.lexsort((np.concatenate(hashes), self._owners))
        owners = self._owners[order]
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])) if owners.size else owners
        rank = np.arange(len(owners)) - np.repeat(starts, np.diff(np.append(starts, len(owners))))
        kept = np.empty(len(owners), dtype=bool)
        kept[order] = rank < self._cap
        return np.split(kept, np.cumsum([len(piece) for piece in hashes])[:-1])


def _hashes(block: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a number for each row of a block (columns, rows) that depends on all of its cells."""
    mixed = np.zeros(block.shape[1], dtype=np.uint64)
    for column in np.ascontiguousarray(block).view(np.uint64):
        mixed = (mixed ^ column) * _ODD
        mixed ^= mixed >> np.uint64(32)
    return mixed * _ODD


def _numbered(cells: Any) -> NDArray[np.int64]:
    """Return a number for each different cell; no cell raises.

    Examples
    --------
    >>> _numbered(np.array(["ann", None, "bob", "ann", [1], float("nan")], dtype=object)).tolist()
    [0, -1, 1, 0, -1, -1]
    """
    if is_arrow(cells):
        places = as_bytes(cells).dictionary_encode().indices
        return np.asarray(places.fill_null(_NOBODY).to_numpy(), dtype=np.int64)
    if cells.dtype.kind != "O":
        found = np.unique(cells, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return np.where(cells == cells, found, _NOBODY)  # noqa: PLR0124  (NaN, NaT)
    known: dict[Any, int] = {}
    return np.fromiter((_number(cell, known) for cell in cells), np.int64, len(cells))


def _number(cell: Any, known: dict[Any, int]) -> int:
    with nothing_raised():
        if cell is not None and bool(cell == cell):  # noqa: PLR0124  (no NaN)
            return known.setdefault(cell, len(known))
    return _NOBODY
