"""Neighbouring tables with hostile rows: at bounds, far outside, with missing cells, on borders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data import Domain
from dpem.data.to_dataframe import to_dataframe
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError
from dpem.privacy.neighbours import Adjacency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.data import TableRows
    from dpem.data.column import Column

__all__ = ["as_cells", "findings", "hostile_rows", "neighbours", "parsed", "with_strangers", "with_unit"]

_HALF_STEP = 2.0**-25  # of the grid of rows, in units of the domain
_NEW_PERSON = ("907", 907, 907.0, b"907")  # the name of one person in several types


def as_cells(subject: Subject, X: Any) -> Any:
    """Return rows in a form that can hold any cell: an array of floats, or a table of objects."""
    if subject.schema is None:
        return np.array(X, dtype=np.float64)
    import pandas as pd  # noqa: PLC0415  (slow to import)

    names = [*subject.schema.names, *([] if subject.person is None else [subject.person])]
    frame = X if hasattr(X, "columns") else pd.DataFrame(np.asarray(X), columns=names)
    return pd.DataFrame({name: pd.Series(list(frame[name]), dtype=object) for name in names})


def with_rows(rows: Any, at: Sequence[int], new: Sequence[Sequence[Any]]) -> Any:
    """Return a copy with the rows at the given positions replaced; positions beyond the end are added."""
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


def with_strangers(subject: Subject, rows: Any, new: Sequence[Sequence[Any]]) -> Any:
    """Return the table with additional rows at its end; with a person column, each has a new owner."""
    if subject.person is not None:
        new = [[*row, f"stranger {number}"] for number, row in enumerate(new)]
    return with_rows(rows, range(len(rows), len(rows) + len(new)), new)


def neighbours(subject: Subject, rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of neighbouring tables, most of them with a hostile row.

    All rows of one privacy unit change to the same hostile row. With a person column, the person owns more
    rows than the cap.
    """
    hostile = hostile_rows(subject, rows)
    if subject.adjacency == Adjacency.ADD_REMOVE:
        for row in hostile:
            yield rows, with_unit(subject, rows, row)
        if len(_places(subject, rows)):
            yield rows, without_unit(subject, rows)
        return
    if len(rows) < subject.rows_per_person:
        return
    for number, row in enumerate(hostile):
        last = bool(number % 2)  # change the first rows and the last ones in turn
        yield rows, with_unit(subject, rows, row, last=last)
        opposite = hostile[(number + len(hostile) // 2) % len(hostile)]
        yield with_unit(subject, rows, row, last=last), with_unit(subject, rows, opposite, last=last)


def with_unit(subject: Subject, rows: Any, row: Sequence[Any], *, last: bool = False) -> Any:
    """Return the table with an added unit, or with one unit replaced, all of whose rows are `row`."""
    m = subject.rows_per_person
    if subject.adjacency == Adjacency.ADD_REMOVE:
        if subject.person is None:
            return with_rows(rows, range(len(rows), len(rows) + m), [row] * m)
        n = 3 * m + 1
        new = [[*row, _NEW_PERSON[i % len(_NEW_PERSON)]] for i in range(n)]
        return with_rows(rows, range(len(rows), len(rows) + n), new)
    places = _places(subject, rows, last=last)
    if subject.person is None:
        return with_rows(rows, places, [row] * m)
    return with_rows(rows, places, [[*row, rows[subject.person].iloc[place]] for place in places])


def without_unit(subject: Subject, rows: Any) -> Any:
    """Return the table without its first privacy unit."""
    kept = np.ones(len(rows), dtype=bool)
    kept[list(_places(subject, rows))] = False
    return rows[kept].reset_index(drop=True) if hasattr(rows, "iloc") else rows[kept]


def _places(subject: Subject, rows: Any, *, last: bool = False) -> Sequence[int]:
    """Return the positions of the rows of the first or last unit, or nothing if there are too few rows."""
    m, n = subject.rows_per_person, len(rows)
    if subject.person is None:
        return range(0) if n < m else range(n - m, n) if last else range(m)
    if n == 0:
        return range(0)
    owners = [str(owner) for owner in rows[subject.person]]
    return [place for place, owner in enumerate(owners) if owner == owners[-1 if last else 0]]


def hostile_rows(subject: Subject, rows: Any) -> list[list[Any]]:
    """Return rows that reveal bounds that are not enforced: corners, outliers, NaN, duplicates, borders."""
    if subject.schema is not None:
        return _hostile_cells(subject.schema.columns, rows)
    d = rows.shape[1]
    domain = Domain.from_arguments(d, bounds=subject.bounds, data_norm=subject.data_norm)
    low, high = domain.box
    first = np.arange(d) == 0
    border = domain.centre + domain.scale * (3 * _HALF_STEP)
    hostile = [
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
        hostile += [rows[0], rows[-1], 2 * domain.centre - rows[0]]
    return [list(row) for row in hostile]


def _hostile_cells(columns: Sequence[Column], rows: Any) -> list[list[Any]]:
    """Return rows of a table: columns take their hostile cells in turn, aligned and shifted."""
    cells = [_cells_of(column) for column in columns]
    most = max(len(options) for options in cells)
    hostile = [[options[turn % len(options)] for options in cells] for turn in range(most)]
    hostile += [
        [options[(turn + shift) % len(options)] for shift, options in enumerate(cells)]
        for turn in range(most)
    ]
    if len(rows):
        hostile += [list(rows.iloc[0])[: len(columns)], list(rows.iloc[-1])[: len(columns)]]
    return hostile


def _cells_of(column: Column) -> list[Any]:
    odd = [None, float("nan"), float("inf"), "", "?!", b"\xff", 1e308, -1e308]
    if column.categories is not None:
        return [column.categories[0], column.categories[-1], *odd, *column.categories[1:3]]
    if column.kind == "boolean":
        return [False, True, *odd]
    low, high = column.limits
    return [low, high, (low + high) / 2, *odd, low - 1, high + 1, np.nextafter(high, np.inf), str(high)]


def parsed(subject: Subject, rows: Any) -> NDArray[np.float64]:
    """Return parsed rows, of shape (columns, rows): numbers, codes and NaN, as the gate's grid takes them."""
    return _opened(subject, rows).block()


def findings(subject: Subject, rows: Any) -> NDArray[np.float64]:
    """Return how the schema read each cell, of shape (columns, rows)."""
    return _opened(subject, rows).of_findings().block()


def _opened(subject: Subject, rows: Any) -> TableRows:
    return open_rows(rows, subject.schema).in_memory()


def as_given(subject: Subject, columns: NDArray[np.float64]) -> list[list[Any]]:
    """Return parsed rows as a user would pass them: the inverse of `parsed`."""
    if subject.schema is None:
        return [list(row) for row in columns.T]
    frame = to_dataframe(subject.schema, columns).astype(object)
    return [list(row) for row in frame.where(frame.notna(), None).itertuples(index=False)]


def require_rows(subject: Subject, rows: Any) -> None:
    """Raise if a table has too few rows to replace one privacy unit."""
    if subject.adjacency == Adjacency.REPLACE_ONE and len(rows) < subject.rows_per_person:
        raise InvalidArgumentError(
            f"Expected at least {subject.rows_per_person} rows to replace, got {len(rows)}. Pass more rows."
        )
