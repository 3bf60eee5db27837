"""One column of a table: its possible values, and the replacement of all other cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.cell_format import CellFormat
from dpem.data.cells import (
    Spellings,
    as_bytes,
    category_key,
    codes,
    is_arrow,
    is_null,
    numbers_of,
    pa_array,
    places_of,
    read_distinct,
)
from dpem.data.times import TIMES, array_steps, text_of_steps, time_steps
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
# Findings about a cell. From ABSENT (missing in a column without missing cells) on, it is not as declared.
READ, MISSING, ABSENT, UNREADABLE, OUTSIDE, BELOW, ABOVE = range(7)
OTHER = "other"
_CHARGE = ("ledger", "number", "hash")
LARGEST = 1e100  # limit of bounds: squares of larger numbers overflow


@dataclass(frozen=True)
class Column:
    """A declared column: its kind, its possible values, and the replacement of all other cells.

    Attributes
    ----------
    name : str
        The name.
    kind : {"continuous", "integer", "date", "datetime", "duration", "ordered", "categorical", "boolean"}
        The kind of its values. Ordered categories are listed from low to high. Dates and times are numbers of
        steps since 1970, durations are numbers of steps.
    bounds : (float, float), optional
        Public limits of a number; None in a draft.
    categories : tuple, optional
        Public categories, text or numbers; None in a draft.
    missing : bool
        Whether a cell may be missing.
    unit : str, optional
        The unit, for display.
    outside : str, int, float or bool
        The replacement of undeclared values: "clip" (the nearest bound of a number), "missing", "other" (a
        further category, if declared), or one of the categories, by default the first.
    bounds_cost : (float, float), optional
        The epsilon and delta of bounds that were estimated from rows.
    bounds_charge : (str, int, str), optional
        The charge for the estimate: the ledger's name, and the number and hash of the record.
    bounds_insecure : bool
        Whether the estimate had seeded noise, so that no fit with these bounds is private.
    from_rows : bool
        Whether somebody chose bounds or categories after looking at rows. Statements say so.
    cell_format : CellFormat
        The format of the cells.
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
    cell_format: CellFormat = field(default_factory=CellFormat)

    def __post_init__(self) -> None:
        # If only rows filled these caches, a pickle would reveal whether the table has rows.
        if self.is_number:
            self.na_numbers  # noqa: B018
        else:
            self.codes_of_keys  # noqa: B018

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
        """Whether the column holds whole numbers: integers, or steps of time."""
        return self.kind == "integer" or self.is_time

    @property
    def resolution(self) -> str:
        """The step of dates, times and durations."""
        return self.cell_format.resolution or "second"

    @property
    def unit_shown(self) -> str | None:
        """The unit for display; for times without a unit, such as "days since 1970"."""
        if self.unit is not None or not self.is_time:
            return self.unit
        return f"{self.resolution}s" + (" since 1970" if self.kind != "duration" else "")

    @property
    def step_unit(self) -> str | None:
        """The unit of differences: days for dates, else the column's own unit."""
        return f"{self.resolution}s" if self.is_time else self.unit

    def value_text(self, value: float) -> str:
        """Format a number of the column as text, such as a date."""
        if self.is_time:
            return text_of_steps(value, self.kind, self.resolution)
        return f"{value:.10g}"

    @property
    def is_complete(self) -> bool:
        """Whether bounds or categories are declared, so that a fit can use the column."""
        return (self.bounds if self.is_number else self.categories) is not None

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds of a number, or the first and the last code of categories."""
        if self.bounds is not None:
            return self.bounds
        if self.categories is None:
            raise InvalidArgumentError(self.completeness_error)
        return 0.0, float(len(self.categories) - 1)

    @property
    def completeness_error(self) -> str:
        """The error message for a column without bounds or categories."""
        if self.is_number:
            what, remedy = "bounds", "such as bounds=[0, 100], or estimate them with dpem.private_bounds"
        else:
            what, remedy = "categories", 'such as categories=["a", "b"]'
        return f"Expected public {what} for column {self.name!r}, got none. Declare {what}, {remedy}."

    @cached_property
    def codes_of_keys(self) -> dict[str, int]:
        """The code of each category, by its `category_key`; of a boolean, by words in lower case."""
        if self.kind == "boolean":
            return self.cell_format.codes()
        found = {category_key(category): code for code, category in enumerate(self.categories or ())}
        for code, category in enumerate(self.categories or ()):
            if isinstance(category, bool):  # also match "True" and "TRUE"
                found = {str(category): code, str(category).upper(): code} | found
        return found

    @property
    def fallback(self) -> float:
        """The replacement of an unreadable or unknown cell; NaN means missing."""
        if self.missing and (self.is_number or self.outside == "missing"):
            return math.nan
        if self.is_number:
            low, high = self.limits
            middle = low / 2 + high / 2
            return float(np.rint(middle)) if self.is_whole else middle
        if self.kind == "boolean":
            return float(category_key(self.outside) == "true")
        return float(self.codes_of_keys[category_key(self.outside)])

    def parse(self, cells: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Parse cells to numbers or codes (NaN for missing cells), and return a finding for each cell.

        The finding is READ, MISSING (cells may be missing), ABSENT (missing, but cells may not be),
        UNREADABLE, OUTSIDE the categories, BELOW or ABOVE the bounds. No cell raises, and no cell influences
        another. `dpem.data.stored_cells` does the same for cells that are stored as numbers.

        Examples
        --------
        >>> from dpem.data.declarations import declared_column
        >>> age = declared_column("age", {"kind": "integer", "bounds": [0, 120], "missing": True})
        >>> age.parse(np.array([31, "47", 180, None, "old"], dtype=object))
        (array([ 31.,  47., 120.,  nan,  nan]), array([0, 0, 6, 1, 3], dtype=int8))
        """
        if not is_arrow(cells) or self.is_number:
            return self.parse_each(cells)
        values, found = np.empty((2, len(cells)))
        self.parse_into(values, cells, findings=False)
        self.parse_into(found, cells, findings=True)
        return values, found.astype(np.int8)

    def parse_into(self, row: NDArray[np.float64], cells: Any, *, findings: bool) -> None:
        """Write the values of cells, or the findings about them, to a row of a block."""
        if is_arrow(cells) and not self.is_number:
            spelled, *parsed = self._spellings
            places, others = places_of(as_bytes(cells), spelled)
            parsed[findings].take(places, out=row, mode="clip")
            if len(others):
                row[others] = self.parse_each(cells.take(pa_array(others)))[findings]
        else:
            row[:] = self.parse_each(cells)[findings]

    def parse_each(self, cells: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Parse cells as `parse` does, without its faster code: the reference for it."""
        values = self._numbers(cells) if self.is_number else self._codes_of(cells)
        if is_arrow(cells) and self.is_number:
            null = np.isnan(values)  # no null cell is a number
            null[null] = is_null(cells.filter(pa_array(null)))
        else:
            null = is_null(cells)
        found = np.zeros(len(null), dtype=np.int8)
        if self.cell_format.na_values:
            null |= codes(cells, dict.fromkeys(self.cell_format.na_values, 1)) == 1
            null |= np.isin(values, self.na_numbers)  # in whatever type such a number or date is stored
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
            if self.outside != OTHER:  # if "other" is declared, such a cell is as declared
                found[unreadable] = OUTSIDE if self.kind != "boolean" else UNREADABLE
        inside[unreadable] = self.fallback
        inside[null] = np.nan if self.missing else self.fallback
        found[null] = MISSING if self.missing else ABSENT
        return inside, found

    @cached_property
    def _spellings(self) -> tuple[Spellings, NDArray[np.float64], NDArray[np.float64]]:
        """The usual spellings of categories and missing cells, and how `parse_each` parses each of them.

        Arrow finds them in text by a search, outside the interpreter's lock.
        """
        words = [*self.codes_of_keys, *self.cell_format.na_values]
        if self.kind == "boolean":
            words += [form(word) for word in words for form in (str.upper, str.capitalize)]
        words += [f"{word}.0" for word in words if word.isdigit()]
        spelled = Spellings(words)
        values, found = self.parse_each(spelled.cells)
        return spelled, values, found.astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """Return the declaration alone: caches could reveal which cells were parsed."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def na_numbers(self) -> NDArray[np.float64]:
        """The na_values of a numeric column, as numbers."""
        if not self.is_number or not self.cell_format.na_values:
            return np.empty(0)
        cells = np.array(self.cell_format.na_values, dtype=object)
        words = self._numbers(cells)
        if self.is_time:  # also in ISO 8601
            iso = replace(self.cell_format, format=None, na_values=())
            words = np.append(words, replace(self, cell_format=iso)._numbers(cells))
        return words[~np.isnan(words)]

    def _numbers(self, cells: Any) -> NDArray[np.float64]:
        if not self.is_time:
            return numbers_of(cells, self.cell_format)
        if not is_arrow(cells) and cells.dtype.kind in "mM":
            return array_steps(cells, self.kind, self.resolution)
        form = self.cell_format.format
        return read_distinct(cells, lambda cell: time_steps(cell, self.kind, self.resolution, form))

    def _codes_of(self, cells: Any) -> NDArray[np.float64]:
        if self.kind == "boolean":
            if not is_arrow(cells) and cells.dtype.kind == "b":  # stored as booleans: no words to parse
                return np.asarray(cells, dtype=np.float64)
            known = {True: 1.0, False: 0.0}
            words = self.codes_of_keys
            return read_distinct(
                cells,
                lambda cell: (
                    known[bool(cell)]
                    if isinstance(cell, bool | np.bool_)
                    else words.get(_number_key(cell, words).lower(), math.nan)
                ),
            )
        return codes(cells, self.codes_of_keys, lambda cell: _number_key(cell, self.codes_of_keys))

    def describe(self) -> str:
        """Describe the possible values in words."""
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
        """Return the declaration of this column."""
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
        if (type(self.outside), self.outside) != (type(usual), usual):  # distinguishes true from 1
            declared["outside"] = self.outside
        if self.bounds_cost is not None:
            declared["bounds_cost"] = list(self.bounds_cost)
        if self.bounds_charge is not None:
            declared["bounds_charge"] = dict(zip(_CHARGE, self.bounds_charge, strict=True))
        declared |= {name: True for name in ("bounds_insecure", "from_rows") if getattr(self, name)}
        return declared | self.cell_format.to_dict(self.kind)


def default_outside(kind: str, categories: Sequence[Any] | None, *, missing: bool) -> Any:
    """Return the default replacement of undeclared values."""
    if kind in NUMBERS:
        return "clip"
    if missing:
        return "missing"
    return None if categories is None else categories[0]


def _number_key(cell: Any, known: Mapping[str, int]) -> str:
    """Return the key of a cell; text such as "1.0" counts as 1 if only "1" is known."""
    key = category_key(cell)
    if key not in known and key[-2:] == ".0" and key[:-2] in known:
        return key[:-2]
    return key
