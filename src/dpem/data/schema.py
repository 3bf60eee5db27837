"""What is publicly known of a table's columns: names, kinds and bounds, declared and never read from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpem import _validate
from dpem.errors import InvalidArgumentError

__all__ = ["Column", "Schema"]

_KINDS = ("continuous", "integer")


@dataclass(frozen=True)
class Column:
    """A numeric column with its public bounds."""

    name: str
    kind: str
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration that makes this column."""
        return {"kind": self.kind, "bounds": [self.low, self.high]}


class Schema:
    """Declare the columns of a table.

    Parameters
    ----------
    columns : mapping of str to mapping
        For each column ``{"kind": "continuous" or "integer", "bounds": [low, high]}``. The order is that
        of the columns that are used. Bounds are public knowledge: what could be, not what is.

    Examples
    --------
    >>> schema = Schema({"age": {"kind": "integer", "bounds": [0, 120]},
    ...                  "dose": {"kind": "continuous", "bounds": [0, 5]}})
    >>> schema.names
    ('age', 'dose')
    >>> schema.bounds
    (array([0., 0.]), array([120.,   5.]))
    """

    def __init__(self, columns: Mapping[str, Mapping[str, Any]]) -> None:
        if not columns or not hasattr(columns, "items"):
            raise _validate.fail("a mapping with at least one column", "columns", columns)
        self.columns = tuple(_column(name, declared) for name, declared in columns.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper bounds, one per column."""
        low = np.array([column.low for column in self.columns])
        return low, np.array([column.high for column in self.columns])

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration, JSON-serialisable."""
        return {column.name: column.to_dict() for column in self.columns}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.columns == other.columns

    def __hash__(self) -> int:
        return hash(self.columns)

    def __repr__(self) -> str:
        return f"Schema({self.to_dict()!r})"


def _column(name: Any, declared: Any) -> Column:
    _validate.text(name, "column name")
    if not isinstance(declared, Mapping):
        raise _validate.fail(
            f"a mapping for column {name!r}",
            name,
            declared,
            'Such as {"kind": "continuous", "bounds": [0, 1]}.',
        )
    unknown = set(declared) - {"kind", "bounds"}
    if unknown:
        raise InvalidArgumentError(
            f"Expected kind and bounds for column {name!r}, got {', '.join(map(repr, sorted(unknown)))} too."
        )
    kind = _validate.one_of(declared.get("kind"), f"kind of column {name!r}", _KINDS)
    try:
        low, high = declared["bounds"]
    except (KeyError, TypeError, ValueError) as error:
        raise _validate.fail(
            f"bounds [low, high] for column {name!r}",
            "bounds",
            declared.get("bounds"),
            "Declare what values could be, from public knowledge.",
        ) from error
    low, high = _validate.real(low, f"bounds of {name!r}"), _validate.real(high, f"bounds of {name!r}")
    if not -np.inf < low < high < np.inf:
        raise _validate.fail(f"finite bounds low < high for column {name!r}", "bounds", [low, high])
    return Column(name, kind, low, high)
