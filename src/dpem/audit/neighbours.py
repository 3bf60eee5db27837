"""Neighbouring tables that an adversary would choose: rows at bounds, far outside, missing, on borders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data import Domain
from dpem.data.frames import frame_of
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.data.column import Column

__all__ = ["as_cells", "hostile_rows", "neighbours", "parsed", "with_rows"]

_HALF_STEP = 2.0**-25  # of the grid of rows, in units of the domain


def as_cells(subject: Subject, X: Any) -> Any:
    """Return rows in a form that any cell can be put into: an array of floats, or a table of objects."""
    if subject.schema is None:
        return np.array(X, dtype=np.float64)
    import pandas as pd  # noqa: PLC0415  (slow to import)

    frame = X if hasattr(X, "columns") else pd.DataFrame(np.asarray(X), columns=list(subject.schema.names))
    return pd.DataFrame({name: pd.Series(list(frame[name]), dtype=object) for name in subject.schema.names})


def with_rows(rows: Any, at: Sequence[int], new: Sequence[Sequence[Any]]) -> Any:
    """Return a copy with the rows `at` these places replaced; places beyond the last are added."""
    if isinstance(rows, np.ndarray):
        missing = max([0, *(place + 1 - len(rows) for place in at)])
        changed = np.concatenate([rows, np.zeros((missing, rows.shape[1]))])
        for place, row in zip(at, new, strict=True):
            changed[place] = row
        return changed
    columns = {name: list(rows[name]) for name in rows.columns}
    for place, row in zip(at, new, strict=True):
        for cells, cell in zip(columns.values(), row, strict=True):
            if place < len(cells):
                cells[place] = cell
            else:
                cells.append(cell)
    return type(rows)({name: np.array([*cells, None], dtype=object)[:-1] for name, cells in columns.items()})


def neighbours(subject: Subject, rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of neighbouring tables, most of them with a hostile row.

    As many rows change as one unit of privacy owns, all to the same hostile row, or to rows that differ.
    """
    hostile = hostile_rows(subject, rows)
    n, m = len(rows), subject.rows_per_person
    if subject.adjacency == "add_remove":
        for row in hostile:
            yield rows, with_rows(rows, range(n, n + m), [row] * m)
        if n >= m:
            yield rows, rows[m:].reset_index(drop=True) if hasattr(rows, "iloc") else rows[m:]
        return
    if n < m:
        return
    for number, row in enumerate(hostile):
        last = number % 2  # the first rows, or the last
        at = range(n - m, n) if last else range(m)
        yield rows, with_rows(rows, at, [row] * m)
        opposite = hostile[(number + len(hostile) // 2) % len(hostile)]
        yield with_rows(rows, at, [row] * m), with_rows(rows, at, [opposite] * m)


def hostile_rows(subject: Subject, rows: Any) -> list[list[Any]]:
    """Return rows that break bounds which are not kept: corners, outliers, NaN, duplicates, borders."""
    if subject.schema is not None:
        return _hostile_cells(subject.schema.columns, rows)
    d = rows.shape[1]
    domain = Domain.from_arguments(d, bounds=subject.bounds, data_norm=subject.data_norm)
    low, high = domain.box
    first = np.arange(d) == 0
    border = domain.centre + domain.scale * (3 * _HALF_STEP)
    made = [
        low,
        high,
        np.where(np.arange(d) % 2 == 0, low, high),
        np.where(first, low, domain.centre),
        np.where(first, high, domain.centre),
        np.where(first, domain.centre, high),
        domain.centre,
        np.where(first, high + (high - low), domain.centre),
        low - 1000 * (high - low),
        np.full(d, 1e308),
        np.where(first, np.inf, 0.0),
        np.full(d, -np.inf),
        np.where(first, np.nan, high),
        np.full(d, np.nan),
        np.full(d, 5e-324),
        border,
        np.nextafter(border, np.inf),
        np.nextafter(high, np.inf),
    ]
    if len(rows):
        made += [rows[0], rows[-1], 2 * domain.centre - rows[0]]
    return [list(row) for row in made]


def _hostile_cells(columns: Sequence[Column], rows: Any) -> list[list[Any]]:
    """Return rows of a table: columns take their hostile cells in turn, in step and out of step."""
    cells = [_cells_of(column) for column in columns]
    most = max(len(options) for options in cells)
    made = [[options[turn % len(options)] for options in cells] for turn in range(most)]
    made += [
        [options[(turn + shift) % len(options)] for shift, options in enumerate(cells)]
        for turn in range(most)
    ]
    if len(rows):
        made += [list(rows.iloc[0]), list(rows.iloc[-1])]
    return made


def _cells_of(column: Column) -> list[Any]:
    odd = [None, float("nan"), float("inf"), "", "?!", b"\xff", 1e308, -1e308]
    if column.categories is not None:
        return [column.categories[0], column.categories[-1], *odd, *column.categories[1:3]]
    if column.kind == "boolean":
        return [False, True, *odd]
    low, high = column.limits
    return [low, high, (low + high) / 2, *odd, low - 1, high + 1, np.nextafter(high, np.inf), str(high)]


def parsed(subject: Subject, rows: Any) -> NDArray[np.float64]:
    """Return rows as the gate's grid takes them: numbers, codes, NaN, of shape (columns, rows)."""
    from dpem.engines import open_rows  # noqa: PLC0415

    return open_rows(rows, subject.schema).in_memory().block()


def as_given(subject: Subject, columns: NDArray[np.float64]) -> list[list[Any]]:
    """Return parsed rows as the user would give them: the reverse of `parsed`."""
    if subject.schema is None:
        return [list(row) for row in columns.T]
    frame = frame_of(subject.schema, columns).astype(object)
    return [[None if cell != cell else cell for cell in row] for row in frame.itertuples(index=False)]  # noqa: PLR0124


def require_rows(subject: Subject, rows: Any) -> None:
    """Raise where a table has too few rows to change one unit of privacy."""
    if subject.adjacency == "replace_one" and len(rows) < subject.rows_per_person:
        raise InvalidArgumentError(f"Expected at least {subject.rows_per_person} rows to replace.")
