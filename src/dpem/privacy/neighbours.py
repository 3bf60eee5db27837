"""The neighbouring relation and the privacy unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpem import _validate

__all__ = ["Adjacency", "PrivacyUnit"]


class Adjacency(StrEnum):
    """The neighbouring relation of two tables. It changes sensitivities, never accountants.

    ``"replace_one"``
        The values of one unit are replaced by any other values. The number of rows is public.
    ``"add_remove"``
        One unit is added or removed. The number of rows is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @classmethod
    def _missing_(cls, value: object) -> Adjacency:
        return cls.parse(value)  # raises; Python's own exception would repeat the value

    @property
    def n_rows_public(self) -> bool:
        """Whether the number of rows is public. If it is private, a fit that needs it must release it."""
        return self is Adjacency.REPLACE_ONE

    @classmethod
    def parse(cls, value: Any) -> Adjacency:
        """Return the relation with this name; raise if there is none."""
        return cls(_validate.one_of(value, "adjacency", [member.value for member in cls]))


@dataclass(frozen=True)
class PrivacyUnit:
    """The unit that the guarantee protects: one row, or all rows of one person.

    Parameters
    ----------
    rows_per_person : int, default 1
        The largest number of rows of one person. With 1 and no `person`, the unit is a row.
    person : str, optional
        The column that identifies persons. The rows of a person above the limit are left out. The relation
        "replace_one" then replaces the values of one person, and the number of rows of every person stays
        fixed.

    Examples
    --------
    >>> print(PrivacyUnit())
    one row
    >>> print(PrivacyUnit(rows_per_person=3, person="patient"))
    one person, up to 3 rows by column 'patient'
    """

    rows_per_person: int = 1
    person: str | None = None

    def __post_init__(self) -> None:
        rows = _validate.integer(self.rows_per_person, "rows_per_person")
        object.__setattr__(self, "rows_per_person", rows)
        if self.person is not None:
            _validate.text(self.person, "person", "Name the column that identifies persons.")

    def __str__(self) -> str:
        if self.person is not None:
            rows = "1 row" if self.rows_per_person == 1 else f"{self.rows_per_person} rows"
            return f"one person, up to {rows} by column {self.person!r}"
        if self.rows_per_person > 1:
            return f"one person with at most {self.rows_per_person} rows"
        return "one row"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {"rows_per_person": self.rows_per_person, "person": self.person}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PrivacyUnit:
        """Rebuild a unit from the output of :meth:`to_dict`."""
        return cls(description["rows_per_person"], description["person"])
