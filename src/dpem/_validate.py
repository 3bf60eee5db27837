"""Validation of arguments, with one form of message: expected, got, remedy."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection


def fail(expected: str, name: str, value: object, remedy: str = "") -> InvalidArgumentError:
    """Return the error for an invalid argument: ``Expected epsilon > 0, got epsilon=-1.0. Choose ...``."""
    return InvalidArgumentError(f"Expected {expected}, got {name}={shown(value)}. {remedy}".rstrip())


def shown(value: object) -> str:
    """Return the `repr` of a value for a message, or its type if `repr` fails (integers of 5000 digits)."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  (the message must come out, whatever `repr` raises)
        return f"a value of type {type(value).__name__}"


def real(value: Any, name: str, remedy: str = "") -> float:
    """Validate a real number (not a bool, text or NaN) and return it as a float."""
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
    """Validate a finite number above zero and return it as a float."""
    result = real(value, name, remedy)
    if not 0 < result < math.inf:
        raise fail(f"a finite {name} > 0", name, value, remedy)
    return result


def within(value: Any, name: str, low: float, high: float, remedy: str = "") -> float:
    """Validate a number from `low` to `high` and return it as a float."""
    result = real(value, name, remedy)
    if not low <= result <= high:
        raise fail(f"{name} from {low:g} to {high:g}", name, value, remedy)
    return result


def non_negative(value: Any, name: str, remedy: str = "") -> float:
    """Validate a finite number of at least zero and return it as a float."""
    result = real(value, name, remedy)
    if not 0 <= result < math.inf:
        raise fail(f"a finite {name} >= 0", name, value, remedy)
    return result


def integer(value: Any, name: str, minimum: int = 1, remedy: str = "") -> int:
    """Validate an integer (not a bool or float) of at least `minimum` and return it as an int."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise fail(f"an integer {name} >= {minimum}", name, value, remedy)
    return int(value)


def one_of(value: Any, name: str, allowed: Collection[str]) -> str:
    """Validate a word from a list and return it."""
    if not isinstance(value, str) or value not in allowed:
        raise fail(f"one of {', '.join(map(repr, allowed))} for {name}", name, value)
    return str(value)


def text(value: Any, name: str, remedy: str = "") -> str:
    """Validate one non-empty line of text and return it."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise fail(f"one line of text for {name}", name, value, remedy)
    return value


def epsilon(value: Any, name: str = "epsilon") -> float:
    """Validate an epsilon above 0 and at most 100,000, which is far beyond any use."""
    if isinstance(value, numbers.Real) and value == math.inf:
        raise fail(f"a finite {name} > 0", name, value, "An infinite epsilon gives no privacy.")
    remedy = "Values from 0.1 to 1 protect well; values above 8 protect little."
    result = positive(value, name, remedy)
    if result > 1e5:
        raise fail(f"{name} of at most 100,000", name, value, remedy)
    return result


def delta(value: Any, name: str = "delta") -> float:
    """Validate a delta between 0 and 1, both excluded, and of at least 1e-300, where floats end."""
    remedy = "Choose a delta well below one over the number of rows, such as 1e-6."
    result = real(value, name, remedy)
    if not 1e-300 <= result < 1:
        raise fail(f"{name} between 0 and 1 (both excluded)", name, value, remedy)
    return result
