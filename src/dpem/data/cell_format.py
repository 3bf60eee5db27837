"""The format of a column's cells: separators of numbers, words of booleans, formats of dates.

The format is declared. A cell in another format cannot be read, and is replaced as the schema declares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpem import _validate
from dpem.data.cells import category_key
from dpem.data.times import RESOLUTIONS, TIMES, default_resolution, is_whole_format
from dpem.errors import InvalidArgumentError

__all__ = ["KEYS", "CellFormat", "declared_format"]

TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
KEYS = ("decimal", "thousands", "true", "false", "na_values", "format", "resolution")
# The kinds that accept each key; all kinds accept na_values.
_OF_KINDS = {
    "decimal": ("continuous", "integer"),
    "thousands": ("continuous", "integer"),
    "true": ("boolean",),
    "false": ("boolean",),
    "format": ("date", "datetime"),
    "resolution": TIMES,
}
_DIGITS = set("0123456789+-eE \"'")


@dataclass(frozen=True)
class CellFormat:
    """The declared format of a column's cells.

    Attributes
    ----------
    decimal : str
        The decimal separator of numbers in text.
    thousands : str, optional
        The thousands separator of numbers in text.
    true, false : tuple of str
        The words of a boolean column, in upper or lower case.
    na_values : tuple of str
        Cells that mean "missing", in addition to empty and null cells.
    format : str, optional
        The format of dates and times in text, as in Python's `strptime`; by default ISO 8601.
    resolution : str, optional
        The step to which dates, times and durations are rounded.
    """

    decimal: str = "."
    thousands: str | None = None
    true: tuple[str, ...] = TRUE
    false: tuple[str, ...] = FALSE
    na_values: tuple[str, ...] = ()
    format: str | None = None
    resolution: str | None = None

    @property
    def plain_numbers(self) -> bool:
        """Whether numbers in text have Python's format."""
        return self.decimal == "." and self.thousands is None

    @property
    def grouped(self) -> str:
        """The pattern of a number with thousands separators in the right places: 1,5 is not 15."""
        group, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        return rf"^\s*[+-]?[0-9]{{1,3}}({group}[0-9]{{3}})+({point}[0-9]*)?\s*$"

    def number_text(self, text: str) -> str:
        """Convert the text of a number to Python's format; return "" if it is not in the declared format."""
        if self.thousands is not None and self.thousands in text:
            if re.match(self.grouped, text) is None:
                return ""
            text = text.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in text:  # not a number in this format: 1.5 must not be read as 1,5
                return ""
            text = text.replace(self.decimal, ".")
        return text

    def codes(self) -> dict[str, int]:
        """Return the words of a boolean column in lower case, each with its code, 0 or 1."""
        return {
            category_key(word).lower(): code
            for code, words in enumerate((self.false, self.true))
            for word in words
        }

    def to_dict(self, kind: str) -> dict[str, Any]:
        """Return the declarations that differ from the defaults."""
        usual = CellFormat(resolution=default_resolution(kind) if kind in TIMES else None)
        found = {}
        for key in KEYS:
            value = getattr(self, key)
            if value != getattr(usual, key):
                found[key] = list(value) if isinstance(value, tuple) else value
        return found


def declared_format(name: str, kind: str, declared: Mapping[str, Any]) -> CellFormat:
    """Validate the keys of a declaration that describe the format of cells, and return the format."""
    given = {key: declared[key] for key in KEYS if declared.get(key) is not None}
    for key, value in given.items():
        if key in _OF_KINDS and kind not in _OF_KINDS[key]:
            raise InvalidArgumentError(
                f"Expected no {key} for column {name!r} of kind {kind!r}, got "
                f"{key}={_validate.shown(value)}. Leave it out: it is for columns of kind "
                f"{' or '.join(_OF_KINDS[key])}."
            )
    for key in ("decimal", "thousands"):
        if key in given and not (
            isinstance(given[key], str) and len(given[key]) == 1 and given[key] not in _DIGITS - {" ", "'"}
        ):
            raise _validate.fail(
                f"one character other than a digit, a sign, 'e' or a quote for column {name!r}",
                key,
                given[key],
            )
    if given.get("thousands") is not None and given["thousands"] == given.get("decimal", "."):
        raise InvalidArgumentError(
            f"Expected a thousands separator other than the decimal one for column {name!r}, got "
            f"{_validate.shown(given['thousands'])} for both. Declare decimal as well, such as decimal=','."
        )
    for key in ("true", "false", "na_values"):
        if key in given:
            given[key] = _words(name, key, given[key])
    words = CellFormat(**{key: given[key] for key in ("true", "false") if key in given})
    both = {word.lower() for word in words.true} & {word.lower() for word in words.false}
    if kind == "boolean" and both:
        raise InvalidArgumentError(
            f"Expected different words for true and false of column {name!r}, got "
            f"{_validate.shown_names(sorted(both))} for both. Declare both true=[...] and false=[...]."
        )
    _check_times(name, kind, given)
    return CellFormat(**given)


def _check_times(name: str, kind: str, given: dict[str, Any]) -> None:
    """Validate format and resolution of dates, times and durations; fill in the default resolution."""
    if "format" in given:
        if isinstance(given["format"], list | tuple):
            raise _validate.fail(
                f"one format for column {name!r}",
                "format",
                given["format"],
                "A column has one format: convert the column first.",
            )
        form = _validate.text(given["format"], f"format of column {name!r}")
        if not is_whole_format(form, kind):
            hours = ", and hours (or kind 'date')" if kind == "datetime" else ""
            raise _validate.fail(
                f"a format such as '%d.%m.%Y' for column {name!r}",
                "format",
                form,
                f"The format must contain the day, the month and a year of four digits{hours}.",
            )
    if kind in TIMES:
        resolution = given.setdefault("resolution", default_resolution(kind))
        allowed = ("day",) if kind == "date" else tuple(RESOLUTIONS)
        if not isinstance(resolution, str) or resolution not in allowed:
            remedy = "The resolution of dates is always a day: leave it out." if kind == "date" else ""
            what = f"one of {', '.join(allowed)} for column {name!r}"
            raise _validate.fail(what, "resolution", resolution, remedy)


def _words(name: str, key: str, declared: Any) -> tuple[str, ...]:
    one = isinstance(declared, str | int | float)
    items = [declared] if one else list(declared) if isinstance(declared, Sequence) else []
    if not items or not all(isinstance(item, str | int | float) for item in items):
        raise _validate.fail(f"a list of words for column {name!r}", key, declared)
    words = tuple(filter(None, map(category_key, items)))  # blank cells are always missing
    if not words:
        raise _validate.fail(f"words that are not blank for column {name!r}", key, declared)
    return words
