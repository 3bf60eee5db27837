"""Cells that are stored as numbers or times: what compiled code needs to parse them as `Column.parse`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.cells import category_key, is_arrow
from dpem.data.column import ABSENT, MISSING, OTHER, OUTSIDE, READ, UNREADABLE
from dpem.data.times import array_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpem.data.column import Column

__all__ = ["StoredCells"]

_DIRECT = 4096  # range of whole numbers as categories that are found without a search


@dataclass(frozen=True)
class StoredCells:
    """The declarations of columns, as arrays for `dpem.data.cell_kernel.parse_stored`.

    Attributes
    ----------
    columns : tuple of Column
        The columns.
    limits : ndarray of shape (columns, 4)
        The bounds, the value of a missing cell, and that of an unknown category.
    kinds : ndarray of int of shape (columns, 5)
        Whether the column has categories, whether it has whole numbers, whether a number out of bounds is
        missing, and the findings about missing cells and unknown categories.
    numbers, codes : ndarray
        The numbers that have the text of a category or of one of `na_values`, in ascending order for each
        column, and the code of each, -1 for a missing cell.
    direct : ndarray of int
        If the categories of a column are a few small whole numbers: the place in `numbers` of each whole
        number from the first to the last, or -1.
    ends_of_numbers, ends_of_direct : ndarray of int
        Where the entries of each column begin, and those of the last one end.
    """

    columns: tuple[Column, ...]
    limits: NDArray[np.float64]
    kinds: NDArray[np.int64]
    numbers: NDArray[np.float64]
    ends_of_numbers: NDArray[np.int64]
    codes: NDArray[np.float64]
    direct: NDArray[np.int64]
    ends_of_direct: NDArray[np.int64]

    @cached_property
    def _has_times(self) -> bool:
        return any(column.is_time for column in self.columns)

    @classmethod
    def of(cls, columns: Sequence[Column]) -> StoredCells:
        """Collect the declarations of complete columns."""
        limits, kinds, numbers, codes, direct = [], [], [], [], []
        for column in columns:
            null, null_finding = (math.nan, MISSING) if column.missing else (column.fallback, ABSENT)
            unknown = UNREADABLE if column.kind == "boolean" else OUTSIDE
            limits.append([*column.limits, null, column.fallback])
            kinds.append(
                [
                    not column.is_number,
                    column.is_whole,
                    column.outside == "missing",
                    null_finding,
                    READ if column.outside == OTHER else unknown,
                ]
            )
            found = _numbers_with_keys(
                (column.codes_of_keys if not column.is_number else {})
                | dict.fromkeys(column.cell_format.na_values, -1)
            )
            if column.is_number:
                found |= dict.fromkeys(column.na_numbers.tolist(), -1)
            known = np.array(sorted(found), dtype=np.float64)
            numbers.append(known)
            codes.append(np.array([found[number] for number in known], dtype=np.float64))
            direct.append(_direct(known) if not column.is_number else np.empty(0, dtype=np.int64))
        return cls(
            tuple(columns),
            np.array(limits, dtype=np.float64),
            np.array(kinds, dtype=np.int64),
            *_joined(numbers),
            np.concatenate(codes),
            *_joined(direct),
        )

    def parse(
        self,
        cells: Sequence[Any],
        together: NDArray[Any] | None,
        block: NDArray[np.float64],
        *,
        findings: bool,
    ) -> list[int]:
        """Parse those columns of cells that are stored as numbers into a block; return the others.

        If `together` is not None, it holds the numbers of all columns, of shape (columns, rows).
        """
        from dpem.data.cell_kernel import parse_stored  # noqa: PLC0415  (imports numba)

        stored, others = [], []
        if together is not None and not self._has_times:
            block[:] = together
            stored = list(range(len(cells)))
        else:
            for j, (column, one) in enumerate(zip(self.columns, cells, strict=True)):
                numbers = _as_numbers(column, one)
                if numbers is None:
                    others.append(j)
                else:
                    block[j] = numbers
                    stored.append(j)
        if stored:
            parse_stored(
                *(block, np.array(stored), self.limits, self.kinds, self.numbers, self.ends_of_numbers),
                *(self.codes, self.direct, self.ends_of_direct, findings),
            )
        return others


def _as_numbers(column: Column, cells: Any) -> NDArray[Any] | None:
    """Return cells that are stored as numbers, or None if only `Column.parse` can read them."""
    if is_arrow(cells):
        return None
    kind: str = cells.dtype.kind
    if column.is_time:
        if column.cell_format.na_values:
            return None
        if kind == ("m" if column.kind == "duration" else "M"):
            return array_steps(cells, column.kind, column.resolution)
        # Dates that are written as numbers have a format.
        return np.rint(cells, dtype=np.float64) if column.kind == "duration" and kind in "fiu" else None
    if kind in "fiu":
        numbers: NDArray[Any] = cells
        return numbers
    # Booleans are compared with categories as words.
    is_plain = kind == "b" and column.is_number and not column.cell_format.na_values
    return np.asarray(cells) if is_plain else None


def _direct(known: NDArray[np.float64]) -> NDArray[np.int64]:
    if not len(known) or not (known == np.rint(known)).all() or not known[-1] - known[0] < _DIRECT:
        return np.empty(0, dtype=np.int64)
    places = np.full(int(known[-1] - known[0]) + 1, -1, dtype=np.int64)
    places[(known - known[0]).astype(np.intp)] = np.arange(len(known))
    return places


def _joined(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    ends[1:] = np.cumsum([len(part) for part in parts])
    return np.concatenate(parts), ends


def _numbers_with_keys(codes_of_keys: Mapping[str, int]) -> dict[float, int]:
    """Return the numbers whose `category_key` is one of the keys, each with the code of its key."""
    found = {}
    for key, code in codes_of_keys.items():
        try:
            number = float(key)
        except ValueError:
            continue
        if not math.isnan(number) and category_key(number) == key:
            found[number] = code
    return found
