"""One column of a table: what its values could be, and where everything else goes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.data.cells import category_key, codes, is_null, numbers_of
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Column", "declared_column", "default_outside"]

NUMBERS = ("continuous", "integer")
KINDS = (*NUMBERS, "ordered", "categorical", "boolean")
OTHER = "other"
_CHARGE = ("ledger", "number", "hash")
LARGEST = 1e100  # of a bound: beyond, squares leave the floats
_KEYS = {
    "kind",
    "bounds",
    "categories",
    "missing",
    "unit",
    "outside",
    "bounds_cost",
    "bounds_charge",
    "bounds_insecure",
    "from_rows",
}
_BOOLEAN_KEYS = {"false": 0, "False": 0, "FALSE": 0, "0": 0, "true": 1, "True": 1, "TRUE": 1, "1": 1}


@dataclass(frozen=True)
class Column:
    """A column: its kind, what its values could be, and where everything else goes.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"continuous", "integer", "ordered", "categorical", "boolean"}
        What its values are. Ordered categories are listed from low to high.
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
        further category), or one of the categories.
    bounds_cost : (float, float), optional
        The epsilon and delta that the bounds cost, where they were estimated from rows.
    bounds_charge : (str, int, str), optional
        The ledger's name, the number and the hash of the record that paid for the estimate.
    bounds_insecure : bool
        Whether the noise of the estimate came from a seed: nothing fitted with these bounds is private.
    from_rows : bool
        Whether bounds or categories were chosen by someone who had looked at rows. Statements say so.
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

    def __post_init__(self) -> None:
        # What only rows would fill, if it were left until then, tells a pickle whether there were any.
        if not self.is_number:
            self._codes  # noqa: B018

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers rather than categories."""
        return self.kind in NUMBERS

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
            return _BOOLEAN_KEYS
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
            return float(np.rint(middle)) if self.kind == "integer" else middle
        return float(self._codes[category_key(self.outside)])

    def parse(self, cells: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return numbers or codes, NaN for what is missing, and which cells were sent elsewhere.

        No cell raises, and no cell changes what another one becomes.

        Examples
        --------
        >>> age = declared_column("age", {"kind": "integer", "bounds": [0, 120], "missing": True})
        >>> age.parse(np.array([31, "47", 180, None, "old"], dtype=object))
        (array([ 31.,  47., 120.,  nan,  nan]), array([False, False,  True, False,  True]))
        """
        null = is_null(cells)
        if self.is_number:
            values = numbers_of(cells)
            low, high = self.limits
            unreadable = np.isnan(values)
            inside = np.minimum(np.maximum(values, low), high)
            changed = inside != values
            if self.outside == "missing":
                inside[changed & ~unreadable] = np.nan
            if self.kind == "integer":
                inside = np.rint(inside)
        else:
            inside = codes(cells, self._codes)
            unreadable = np.isnan(inside)
            changed = unreadable.copy()
        inside[unreadable] = self._fallback
        if self.missing:
            inside[null] = np.nan
            changed &= ~null
        return inside, changed

    def describe(self) -> str:
        """Return in words what values could be."""
        if self.bounds is not None:
            low, high = self.bounds
            words = f"{low:.10g} to {high:.10g}" + (f" {self.unit}" if self.unit else "")
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
            declared["bounds"] = list(self.bounds)
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
        return declared


# -- declarations, checked -------------------------------------------------------------------------------


def declared_column(name: Any, declared: Any) -> Column:
    """Return the column that a declaration makes, checked."""
    _validate.text(name, "column name")
    if not isinstance(declared, Mapping):
        raise _validate.fail(
            f"a mapping for column {name!r}",
            name,
            declared,
            'Such as {"kind": "continuous", "bounds": [0, 1]}.',
        )
    unknown = [_validate.shown(key) for key in declared if key not in _KEYS]
    if unknown:
        raise InvalidArgumentError(
            f"Expected kind, bounds, categories, missing, unit and outside for column {name!r}, got "
            f"{', '.join(sorted(unknown))} too."
        )
    kind = _validate.one_of(declared.get("kind"), f"kind of column {name!r}", KINDS)
    for key, allowed in (
        ("bounds", kind in NUMBERS),
        ("bounds_cost", kind in NUMBERS),
        ("bounds_charge", kind in NUMBERS),
        ("categories", kind in {"ordered", "categorical"}),
    ):
        if declared.get(key) is not None and not allowed:
            raise InvalidArgumentError(f"Expected no {key} for column {name!r} of kind {kind!r}.")
    missing = declared.get("missing", False)
    if not isinstance(missing, bool):
        raise _validate.fail(f"true or false for column {name!r}", "missing", missing)
    unit = declared.get("unit")
    if unit is not None:
        _validate.text(unit, f"unit of column {name!r}")
    bounds = None if declared.get("bounds") is None else _bounds(name, declared["bounds"])
    if kind == "integer" and bounds is not None and any(bound != round(bound) for bound in bounds):
        raise _validate.fail(f"whole numbers as bounds of column {name!r}", "bounds", list(bounds))
    categories: tuple[Any, ...] | None = (False, True) if kind == "boolean" else None
    if declared.get("categories") is not None:
        categories = _categories(name, declared["categories"])
    outside = _plain(declared.get("outside"))
    if outside is None:
        outside = default_outside(kind, categories, missing=missing)
    else:
        _check_outside(name, kind, outside, categories, missing=missing)
    if outside == OTHER and categories is not None and OTHER not in categories:
        categories = (*categories, OTHER)
    cost, charge = declared.get("bounds_cost"), declared.get("bounds_charge")
    marks = {}
    for mark in ("bounds_insecure", "from_rows"):
        marks[mark] = declared.get(mark, False)
        if not isinstance(marks[mark], bool):
            raise _validate.fail(f"true or false for column {name!r}", mark, marks[mark])
    if cost is None and (charge is not None or marks["bounds_insecure"]):
        raise InvalidArgumentError(
            f"Expected bounds_cost for column {name!r}, whose bounds were estimated, got none."
        )
    return Column(
        name,
        kind,
        bounds,
        categories,
        missing,
        unit,
        outside,
        None if cost is None else _cost(name, cost),
        None if charge is None else _charge(name, charge),
        **marks,
    )


def _bounds(name: str, declared: Any) -> tuple[float, float]:
    try:
        low, high = declared
    except (TypeError, ValueError) as error:
        raise _validate.fail(
            f"bounds [low, high] for column {name!r}",
            "bounds",
            declared,
            "Declare what values could be, from public knowledge.",
        ) from error
    low, high = _validate.real(low, f"bounds of {name!r}"), _validate.real(high, f"bounds of {name!r}")
    if not -np.inf < low < high < np.inf:
        raise _validate.fail(f"finite bounds low < high for column {name!r}", "bounds", [low, high])
    if max(-low, high) > LARGEST or high - low < 1 / LARGEST:
        raise _validate.fail(
            f"bounds within {LARGEST:g} and at least {1 / LARGEST:g} apart for column {name!r}",
            "bounds",
            [low, high],
            "Change the unit of the column.",
        )
    return low, high


def _categories(name: str, declared: Any) -> tuple[Any, ...]:
    if isinstance(declared, str) or not isinstance(declared, Sequence) or not declared:
        raise _validate.fail(f"a list of categories for column {name!r}", "categories", declared)
    categories = tuple(_plain(item) for item in declared)
    if not all(map(_is_category, categories)):
        raise _validate.fail(
            f"text or numbers as categories of column {name!r}", "categories", list(categories)
        )
    keys = [category_key(category) for category in categories]
    doubled = sorted(key for key, count in Counter(keys).items() if count > 1)
    if doubled:
        raise InvalidArgumentError(
            f"Expected categories of column {name!r} that differ, got {', '.join(map(repr, doubled))} more "
            f"than once (numbers and their text are the same category)."
        )
    if len(categories) < 2:
        raise _validate.fail(f"two categories or more for column {name!r}", "categories", list(categories))
    return categories


def _plain(item: Any) -> Any:
    return item.item() if isinstance(item, np.generic) else item


def _is_category(item: Any) -> bool:
    """Whether a value can be a category: text that a file can hold, or a number that is a float."""
    if not isinstance(item, str | int | float):
        return False
    try:
        return bool(item.encode()) if isinstance(item, str) else math.isfinite(float(item))
    except (OverflowError, UnicodeEncodeError):
        return False


def default_outside(kind: str, categories: Sequence[Any] | None, *, missing: bool) -> Any:
    """Return where undeclared values go unless something else is declared."""
    if kind in NUMBERS:
        return "clip"
    if missing:
        return "missing"
    if kind == "categorical":
        return OTHER
    return None if categories is None else categories[0]


def _check_outside(
    name: str, kind: str, outside: Any, categories: Sequence[Any] | None, *, missing: bool
) -> None:
    if _is_category(outside) and outside == "missing" and missing:
        return
    if kind in NUMBERS:
        allowed = _is_category(outside) and outside == "clip"
        words = "'clip', or 'missing' where missing is true,"
    else:
        allowed = _is_category(outside) and (
            (kind == "categorical" and outside == OTHER)
            or (categories is not None and category_key(outside) in map(category_key, categories))
        )
        words = "one of the categories, 'other' where they have no order, or 'missing' where missing is true,"
    if not allowed:
        raise _validate.fail(f"{words} for column {name!r}", "outside", outside)


def _cost(name: str, declared: Any) -> tuple[float, float]:
    try:
        epsilon, delta = declared
    except (TypeError, ValueError) as error:
        raise _validate.fail(
            f"bounds_cost [epsilon, delta] for column {name!r}", "bounds_cost", declared
        ) from error
    return _validate.epsilon(epsilon), _validate.delta(delta)


def _charge(name: str, declared: Any) -> tuple[str, int, str]:
    if not isinstance(declared, Mapping) or set(declared) != set(_CHARGE):
        raise _validate.fail(
            f"bounds_charge with ledger, number and hash for column {name!r}", "bounds_charge", declared
        )
    where = f"bounds_charge of {name!r}"
    ledger, digest = (_validate.text(declared[key], where) for key in ("ledger", "hash"))
    return ledger, _validate.integer(declared["number"], where), digest
