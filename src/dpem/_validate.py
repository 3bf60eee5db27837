"""Checks of public arguments, in one form of message: expected, got, remedy."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection


def fail(expected: str, name: str, value: object, remedy: str = "") -> InvalidArgumentError:
    """Build the house error: ``Expected epsilon > 0, got epsilon=-1.0. Choose ...``."""
    return InvalidArgumentError(f"Expected {expected}, got {name}={shown(value)}. {remedy}".rstrip())


def shown(value: object) -> str:
    """Return how a value is written in a message; some cannot say it, such as integers of 5000 digits."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (the message is of what was expected, not of what a value does)
        return f"one of type {type(value).__name__}"


def real(value: Any, name: str, remedy: str = "") -> float:
    """Return `value` as a float if it is a real number (no bool, no text, no NaN)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise fail(f"a number for {name}", name, value, remedy)
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if math.isnan(result):
        raise fail(f"a number for {name}", name, value, remedy)
    return result


def positive(value: Any, name: str, remedy: str = "") -> float:
    """Return `value` as a finite float above zero."""
    result = real(value, name, remedy)
    if not 0 < result < math.inf:
        raise fail(f"a finite {name} > 0", name, value, remedy)
    return result


def within(value: Any, name: str, low: float, high: float, remedy: str = "") -> float:
    """Return `value` as a float from `low` to `high`."""
    result = real(value, name, remedy)
    if not low <= result <= high:
        raise fail(f"{name} from {low:g} to {high:g}", name, value, remedy)
    return result


def non_negative(value: Any, name: str, remedy: str = "") -> float:
    """Return `value` as a finite float of at least zero."""
    result = real(value, name, remedy)
    if not 0 <= result < math.inf:
        raise fail(f"a finite {name} >= 0", name, value, remedy)
    return result


def integer(value: Any, name: str, minimum: int = 1, remedy: str = "") -> int:
    """Return `value` as an int of at least `minimum` (no bool, no float)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise fail(f"an integer {name} >= {minimum}", name, value, remedy)
    return int(value)


def one_of(value: Any, name: str, allowed: Collection[str]) -> str:
    """Return `value` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise fail(f"one of {', '.join(map(repr, allowed))} for {name}", name, value)
    return str(value)


def text(value: Any, name: str, remedy: str = "") -> str:
    """Return `value` if it is one line of text with something in it."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise fail(f"one line of text for {name}", name, value, remedy)
    return value


def epsilon(value: Any, name: str = "epsilon") -> float:
    """Return a finite epsilon > 0 (up to 100,000, far beyond any use). Infinity is no budget."""
    if isinstance(value, numbers.Real) and value == math.inf:
        raise fail(f"a finite {name} > 0", name, value, "An infinite epsilon is no privacy and no budget.")
    remedy = "Values from 0.1 to 1 protect well; above 10 protects little."
    result = positive(value, name, remedy)
    if result > 1e5:
        raise fail(f"{name} of at most 100,000", name, value, remedy)
    return result


def delta(value: Any, name: str = "delta") -> float:
    """Return a delta between 0 and 1, both excluded (and not below 1e-300, where floats end)."""
    remedy = "Choose well below one over the number of rows, such as 1e-6."
    result = real(value, name, remedy)
    if not 1e-300 <= result < 1:
        raise fail(f"{name} between 0 and 1 (both excluded)", name, value, remedy)
    return result
