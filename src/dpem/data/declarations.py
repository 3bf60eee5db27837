"""Validation of column declarations; every message contains the name of the column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dpem import _validate
from dpem.data.cell_format import KEYS as FORMAT_KEYS
from dpem.data.cell_format import CellFormat, declared_format
from dpem.data.cells import category_key
from dpem.data.column import _CHARGE, KINDS, LARGEST, NUMBERS, OTHER, Column, default_outside
from dpem.data.table_types import did_you_mean
from dpem.data.times import TIMES, time_steps
from dpem.errors import InvalidArgumentError

__all__ = ["declared_column"]

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
    *FORMAT_KEYS,
}


def declared_column(name: Any, declared: Any) -> Column:
    """Validate a declaration and return its column."""
    _validate.text(name, "column name")
    if not isinstance(declared, Mapping):
        raise _validate.fail(
            f"a mapping for column {_validate.shown(name)}",
            "declaration",
            declared,
            'Pass a mapping such as {"kind": "continuous", "bounds": [0, 1]}.',
        )
    unknown = [key for key in declared if key not in _KEYS]
    if unknown:
        raise InvalidArgumentError(
            f"Expected kind, bounds, categories, missing, unit, outside, from_rows, {', '.join(FORMAT_KEYS)} "
            f"for column {name!r}, got the unknown {', '.join(sorted(map(_validate.shown, unknown)))}. "
            f"{did_you_mean(unknown, sorted(_KEYS))}Correct or remove it."
        )
    kind = _validate.one_of(declared.get("kind"), f"kind of column {name!r}", KINDS)
    for key, allowed in (
        ("bounds", kind in NUMBERS),
        ("bounds_cost", kind in NUMBERS),
        ("bounds_charge", kind in NUMBERS),
        ("categories", kind in {"ordered", "categorical"}),
    ):
        if declared.get(key) is not None and not allowed:
            raise InvalidArgumentError(
                f"Expected no {key} for column {name!r} of kind {kind!r}, got {key}. Leave {key} out, or "
                f"change the kind."
            )
    missing, unit = _missing_and_unit(name, declared)
    cell_format = declared_format(name, kind, declared)
    bounds = None
    if declared.get("bounds") is not None:
        given = declared["bounds"]
        shown = list(map(str, given)) if kind in TIMES and isinstance(given, list | tuple) else None
        bounds = _bounds(name, given, _in_steps(name, kind, cell_format, given), shown)
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
    return Column(
        name,
        kind,
        bounds,
        categories,
        missing,
        unit,
        outside,
        **_origin(name, declared),
        cell_format=cell_format,
    )


def _missing_and_unit(name: str, declared: Mapping[str, Any]) -> tuple[bool, str | None]:
    missing, unit = declared.get("missing", False), declared.get("unit")
    if not isinstance(missing, bool):
        raise _validate.fail(f"true or false for column {name!r}", "missing", missing)
    return missing, None if unit is None else _validate.text(unit, f"unit of column {name!r}")


def _origin(name: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the origin of bounds: cost and charge of an estimate, and whether somebody looked at rows."""
    cost, charge = declared.get("bounds_cost"), declared.get("bounds_charge")
    marks = {mark: declared.get(mark, False) for mark in ("bounds_insecure", "from_rows")}
    for mark, value in marks.items():
        if not isinstance(value, bool):
            raise _validate.fail(f"true or false for column {name!r}", mark, value)
    if cost is None and (charge is not None or marks["bounds_insecure"]):
        raise InvalidArgumentError(
            f"Expected bounds_cost for column {name!r}, whose bounds were estimated, got no bounds_cost. "
            f"Copy bounds_cost from the schema that the estimate returned."
        )
    return marks | {
        "bounds_cost": None if cost is None else _cost(name, cost),
        "bounds_charge": None if charge is None else _charge(name, charge),
    }


def _in_steps(name: str, kind: str, cell_format: CellFormat, given: Any) -> Any:
    """Convert bounds of dates, times and durations to numbers of steps; leave other bounds unchanged."""
    declared = list(given) if isinstance(given, np.ndarray) else given
    if kind not in TIMES or not isinstance(declared, Sequence) or isinstance(declared, str):
        return declared
    steps = []
    for bound in declared:
        try:
            steps.append(time_steps(bound, kind, str(cell_format.resolution), None))
        except (TypeError, ValueError, OverflowError):
            form = "'1 day, 2:30:00', or numbers" if kind == "duration" else "'2024-01-31'"
            pair = type(given) in (list, tuple) and len(given) == 2 and isinstance(bound, str)
            raise _validate.fail(
                f"bounds of column {name!r} such as {form}", "bounds", bound if pair else given
            ) from None
    return steps


def _bounds(name: str, declared: Any, steps: Any, shown: Any = None) -> tuple[float, float]:
    try:
        low, high = tuple("" if isinstance(declared, str | Mapping) else steps)
    except (TypeError, ValueError):
        raise _validate.fail(
            f"bounds [low, high] for column {name!r}",
            "bounds",
            declared,
            "Declare the range of possible values, from public knowledge.",
        ) from None
    try:
        low, high = _validate.real(low, "bounds"), _validate.real(high, "bounds")
    except InvalidArgumentError:
        pair = ""
        with suppress(TypeError, ValueError):
            pair = f"[{float(low):.10g}, {float(high):.10g}]"
        if pair and isinstance(low, str) and isinstance(high, str):
            raise InvalidArgumentError(
                f"Expected numbers as bounds of {name!r}, got text. Write {pair}."
            ) from None
        raise _validate.fail(f"numbers as bounds of {name!r}", "bounds", declared) from None
    if not -np.inf < low < high < np.inf:
        expected = f"finite bounds low < high for column {name!r}"
        if shown is not None:  # dates and times, which were parsed
            raise InvalidArgumentError(f"Expected {expected}, got bounds={shown}.")
        raise _validate.fail(expected, "bounds", [low, high])
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
            f"text or numbers as categories of column {name!r}",
            "categories",
            list(categories),
            "Blank text means a missing cell: leave it out and declare missing = true.",
        )
    keys = [category_key(category) for category in categories]
    doubled = sorted(key for key, count in Counter(keys).items() if count > 1)
    if doubled:
        raise InvalidArgumentError(
            f"Expected different categories of column {name!r}, got {_validate.shown_names(doubled)} more "
            f"than once. List each once: a number and its text are the same category."
        )
    if len(categories) < 2:
        raise _validate.fail(f"at least two categories for column {name!r}", "categories", list(categories))
    return categories


def _plain(item: Any) -> Any:
    return item.item() if isinstance(item, np.generic) else item


def _is_category(item: Any) -> bool:
    """Whether a value can be a category: non-blank text in valid Unicode, or a finite number."""
    if not isinstance(item, str | int | float):
        return False
    try:
        return bool(item.strip().encode()) if isinstance(item, str) else math.isfinite(float(item))
    except (OverflowError, UnicodeEncodeError):
        return False


def _check_outside(
    name: str, kind: str, outside: Any, categories: Sequence[Any] | None, *, missing: bool
) -> None:
    if _is_category(outside) and outside == "missing" and missing:
        return
    if kind in NUMBERS:
        allowed = _is_category(outside) and outside == "clip"
        words = "'clip', or 'missing' if missing is true,"
    else:
        allowed = _is_category(outside) and (
            (kind == "categorical" and outside == OTHER)
            or (categories is not None and category_key(outside) in map(category_key, categories))
        )
        words = "one of the categories, 'other' if they have no order, or 'missing' if missing is true,"
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
