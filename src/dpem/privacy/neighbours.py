"""What the guarantee compares: the neighbouring relation and the unit of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpem import _validate

__all__ = ["Adjacency", "PrivacyUnit"]


class Adjacency(StrEnum):
    """When two data sets are neighbours. It changes sensitivities, never accountants.

    ``"replace_one"``
        One unit's values are replaced by any other values. The number of rows is public.
    ``"add_remove"``
        One unit is added or removed. The number of rows is private.
    """

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @property
    def n_rows_public(self) -> bool:
        """Whether the number of rows is public; where it is not, a fit that needs it must buy it."""
        return self is Adjacency.REPLACE_ONE

    @classmethod
    def parse(cls, value: Any) -> Adjacency:
        """Return the relation with this name, or raise the house error."""
        return cls(_validate.one_of(value, "adjacency", [member.value for member in cls]))


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose data the guarantee hides: a row, or all rows of a person.

    Parameters
    ----------
    rows_per_person : int, default 1
        The most rows that one person owns. With 1 and no `person`, the unit is a row.
    person : str, optional
        The column that tells persons apart, where there is one: a person's rows above the cap are then left
        out. Replacing is then of one person's values, whoever has how many rows staying as it is.

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
            _validate.text(self.person, "person", "Name the column that tells persons apart.")

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
        """Rebuild what :meth:`to_dict` described."""
        return cls(description["rows_per_person"], description["person"])
