"""One column of a table: what its values could be, and where everything else goes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.cells import category_key, codes, is_arrow, is_null, numbers_of, read_distinct
from dpem.data.times import TIMES, array_steps, text_of_steps, time_steps
from dpem.data.writing import Writing
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "ABOVE",
    "ABSENT",
    "BELOW",
    "KINDS",
    "LARGEST",
    "MISSING",
    "NUMBERS",
    "OTHER",
    "OUTSIDE",
    "READ",
    "UNREADABLE",
    "Column",
    "default_outside",
]

NUMBERS = ("continuous", "integer", *TIMES)
KINDS = (*NUMBERS, "ordered", "categorical", "boolean")
# What became of a cell: ABSENT is missing where none may be. From there on it is not as declared.
READ, MISSING, ABSENT, UNREADABLE, OUTSIDE, BELOW, ABOVE = range(7)
OTHER = "other"
_CHARGE = ("ledger", "number", "hash")
LARGEST = 1e100  # of a bound: beyond, squares leave the floats


@dataclass(frozen=True)
class Column:
    """A column: its kind, what its values could be, and where everything else goes.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"continuous", "integer", "date", "datetime", "duration", "ordered", "categorical", "boolean"}
        What its values are. Ordered categories are listed from low to high. Dates and times are numbers of
        steps since 1970, durations numbers of steps.
    bounds : (float, float), optional
        Public limits of a number; None in a draft.
    categories : tuple, optional
        Public categories, text or numbers; None in a draft.
    missing : bool
        Whether a cell may be missing.
    unit : str, optional
        The unit, for people.
    outside : str, int, float or bool
        Where values go that are not declared: "clip" (a number, to the nearest bound), "missing", "other" (a
        further category, if that is declared), or one of the categories, the first unless declared.
    bounds_cost : (float, float), optional
        The epsilon and delta that the bounds cost, where they were estimated from rows.
    bounds_charge : (str, int, str), optional
        The ledger's name, the number and the hash of the record that paid for the estimate.
    bounds_insecure : bool
        Whether the noise of the estimate came from a seed: nothing fitted with these bounds is private.
    from_rows : bool
        Whether bounds or categories were chosen by someone who had looked at rows. Statements say so.
    writing : Writing
        How cells are written.
    """

    name: str
    kind: str
    bounds: tuple[float, float] | None = None
    categories: tuple[str | float | bool, ...] | None = None
    missing: bool = False
    unit: str | None = None
    outside: str | float | bool = "clip"
    bounds_cost: tuple[float, float] | None = None
    bounds_charge: tuple[str, int, str] | None = None
    bounds_insecure: bool = False
    from_rows: bool = False
    writing: Writing = field(default_factory=Writing)

    def __post_init__(self) -> None:
        # What only rows would fill, if it were left until then, tells a pickle whether there were any.
        if self.is_number:
            self._not_there  # noqa: B018
        else:
            self._codes  # noqa: B018

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers rather than categories."""
        return self.kind in NUMBERS

    @property
    def is_time(self) -> bool:
        """Whether the column holds dates, times or durations."""
        return self.kind in TIMES

    @property
    def is_whole(self) -> bool:
        """Whether the column's numbers are whole: integers, and steps of time."""
        return self.kind == "integer" or self.is_time

    @property
    def resolution(self) -> str:
        """The step of dates, times and durations."""
        return self.writing.resolution or "second"

    @property
    def unit_shown(self) -> str | None:
        """The unit to show: days since 1970 for dates, and so on for other times."""
        if self.unit is not None or not self.is_time:
            return self.unit
        return f"{self.resolution}s" + (" since 1970" if self.kind != "duration" else "")

    @property
    def step_unit(self) -> str | None:
        """The unit of differences: days between dates, and the column's own unit elsewhere."""
        return f"{self.resolution}s" if self.is_time else self.unit

    def value_text(self, value: float) -> str:
        """Return a number of the column in words: a date for dates."""
        if self.is_time:
            return text_of_steps(value, self.kind, self.resolution)
        return f"{value:.10g}"

    @property
    def is_complete(self) -> bool:
        """Whether bounds or categories are declared, so that a fit can use the column."""
        return (self.bounds if self.is_number else self.categories) is not None

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds of a number, the first and the last code of categories."""
        if self.bounds is not None:
            return self.bounds
        if self.categories is None:
            raise InvalidArgumentError(self.what_lacks)
        return 0.0, float(len(self.categories) - 1)

    @property
    def what_lacks(self) -> str:
        """What a draft still needs, in the words of an error."""
        if self.is_number:
            what, remedy = "bounds", "such as bounds=[0, 100], or estimate them with dpem.private_bounds"
        else:
            what, remedy = "categories", 'such as categories=["a", "b"]'
        return f"Expected public {what} for column {self.name!r}, got none. Declare them, {remedy}."

    @cached_property
    def _codes(self) -> dict[str, int]:
        if self.kind == "boolean":
            return self.writing.codes()
        found = {category_key(category): code for code, category in enumerate(self.categories or ())}
        for code, category in enumerate(self.categories or ()):
            if isinstance(category, bool):  # also as others write them
                found = {str(category): code, str(category).upper(): code} | found
        return found

    @property
    def _fallback(self) -> float:
        """Where an unreadable or unknown cell goes: NaN is missing."""
        if self.missing and (self.is_number or self.outside == "missing"):
            return math.nan
        if self.is_number:
            low, high = self.limits
            middle = low / 2 + high / 2
            return float(np.rint(middle)) if self.is_whole else middle
        if self.kind == "boolean":
            return float(category_key(self.outside) == "true")
        return float(self._codes[category_key(self.outside)])

    def parse(self, cells: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Return numbers or codes, NaN for what is missing, and what became of each cell.

        That is READ, MISSING where cells may be missing and ABSENT where not, UNREADABLE for what is no such
        value, OUTSIDE the categories, BELOW or ABOVE the bounds. No cell raises, and no cell changes what
        another one becomes.

        Examples
        --------
        >>> from dpem.data.declarations import declared_column
        >>> age = declared_column("age", {"kind": "integer", "bounds": [0, 120], "missing": True})
        >>> age.parse(np.array([31, "47", 180, None, "old"], dtype=object))
        (array([ 31.,  47., 120.,  nan,  nan]), array([0, 0, 6, 1, 3], dtype=int8))
        """
        null = is_null(cells)
        found = np.zeros(len(null), dtype=np.int8)
        values = self._numbers(cells) if self.is_number else self._codes_of(cells)
        if self.writing.na_values:
            null |= codes(cells, dict.fromkeys(self.writing.na_values, 1)) == 1
            null |= np.isin(values, self._not_there)  # however such a number or date is stored
        unreadable = np.isnan(values)
        if self.is_number:
            low, high = self.limits
            inside = np.minimum(np.maximum(values, low), high)
            found[values < low], found[values > high] = BELOW, ABOVE
            if self.outside == "missing":
                inside[found > 0] = np.nan
            if self.is_whole:
                inside = np.rint(inside)
            found[unreadable] = UNREADABLE
        else:
            inside = values
            if self.outside != OTHER:  # where "other" is declared, such a cell is one of it
                found[unreadable] = OUTSIDE if self.kind != "boolean" else UNREADABLE
        inside[unreadable] = self._fallback
        inside[null] = np.nan if self.missing else self._fallback
        found[null] = MISSING if self.missing else ABSENT
        return inside, found

    @cached_property
    def _not_there(self) -> NDArray[np.float64]:
        """The na_values of a column of numbers, as numbers."""
        if not self.is_number or not self.writing.na_values:
            return np.empty(0)
        cells = np.array(self.writing.na_values, dtype=object)
        words = self._numbers(cells)
        if self.is_time:  # also as ISO 8601
            iso = replace(self.writing, format=None, na_values=())
            words = np.append(words, replace(self, writing=iso)._numbers(cells))
        return words[~np.isnan(words)]

    def _numbers(self, cells: Any) -> NDArray[np.float64]:
        if not self.is_time:
            return numbers_of(cells, self.writing)
        if not is_arrow(cells) and cells.dtype.kind in "mM":
            return array_steps(cells, self.kind, self.resolution)
        form = self.writing.format
        return read_distinct(cells, lambda cell: time_steps(cell, self.kind, self.resolution, form))

    def _codes_of(self, cells: Any) -> NDArray[np.float64]:
        if self.kind == "boolean":
            if not is_arrow(cells) and cells.dtype.kind == "b":  # of that type: no words are needed
                return np.asarray(cells, dtype=np.float64)
            known = {True: 1.0, False: 0.0}
            words = self._codes
            return read_distinct(
                cells,
                lambda cell: (
                    known[bool(cell)]
                    if isinstance(cell, bool | np.bool_)
                    else words.get(_number_key(cell, words).lower(), math.nan)
                ),
            )
        return codes(cells, self._codes, lambda cell: _number_key(cell, self._codes))

    def describe(self) -> str:
        """Return in words what values could be."""
        if self.bounds is not None:
            low, high = map(self.value_text, self.bounds)
            words = f"{low} to {high}" + (f" {self.unit}" if self.unit else "")
            if self.bounds_cost is not None:
                epsilon, delta = self.bounds_cost
                words += (
                    f", estimated from rows at epsilon = {epsilon:g}, delta = {delta:g}, which comes on top"
                )
                words += " and had seeded noise" if self.bounds_insecure else ""
        elif self.kind == "boolean":
            words = "false or true"
        else:
            words = f"{len(self.categories or ())} categories"
        words += ", or missing" if self.missing else ""
        return words + (", chosen after looking at rows" if self.from_rows else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration that makes this column."""
        declared: dict[str, Any] = {"kind": self.kind}
        if self.bounds is not None:
            declared["bounds"] = list(map(self.value_text, self.bounds) if self.is_time else self.bounds)
        if self.categories is not None and self.kind != "boolean":
            may_be_added = self.kind == "categorical" and self.outside == OTHER
            added = may_be_added and self.categories[-1] == OTHER and len(self.categories) > 2
            declared["categories"] = list(self.categories[:-1] if added else self.categories)
        if self.missing:
            declared["missing"] = True
        if self.unit is not None:
            declared["unit"] = self.unit
        usual = default_outside(self.kind, self.categories, missing=self.missing)
        if (type(self.outside), self.outside) != (type(usual), usual):  # true is not 1
            declared["outside"] = self.outside
        if self.bounds_cost is not None:
            declared["bounds_cost"] = list(self.bounds_cost)
        if self.bounds_charge is not None:
            declared["bounds_charge"] = dict(zip(_CHARGE, self.bounds_charge, strict=True))
        declared |= {name: True for name in ("bounds_insecure", "from_rows") if getattr(self, name)}
        return declared | self.writing.to_dict(self.kind)


def default_outside(kind: str, categories: Sequence[Any] | None, *, missing: bool) -> Any:
    """Return where undeclared values go unless something else is declared."""
    if kind in NUMBERS:
        return "clip"
    if missing:
        return "missing"
    return None if categories is None else categories[0]


def _number_key(cell: Any, known: Mapping[str, int]) -> str:
    """Return the key of a cell; text such as "1.0" is the number 1, where only that is known."""
    key = category_key(cell)
    if key not in known and key[-2:] == ".0" and key[:-2] in known:
        return key[:-2]
    return key
