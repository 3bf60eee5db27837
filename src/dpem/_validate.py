"""Validation of arguments, with one form of message: expected, got, remedy."""

from __future__ import annotations

import difflib
import math
import numbers
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

T = TypeVar("T")

_LONGEST_TEXT = 60  # characters of an argument that a message shows
_MOST_NAMES = 20
_MOST_NUMBERS = 3  # in a tuple that a message shows, such as bounds
_LONGEST_NAME, _LONGEST_PATH = 255, 4096  # characters of a file name and of a path: limits of systems


def is_not(value: object, kind: type) -> bool:
    """Whether a value does not have the type that its annotation promises."""
    return not isinstance(value, kind)


def fail(expected: str, name: str, value: object, remedy: str = "") -> InvalidArgumentError:
    """Return the error for an invalid argument: ``Expected epsilon > 0, got epsilon=-1.0. Choose ...``."""
    return InvalidArgumentError(f"Expected {expected}, got {name}={shown(value)}. {remedy}".rstrip())


def shown(value: object) -> str:
    r"""Return an argument for a message: plain scalars, short text and short tuples of numbers as they are.

    Everything else is described by its type, because a table or a column in the wrong place contains rows.

    Examples
    --------
    >>> shown((0, 2.5)), shown("zcdp")
    ('(0, 2.5)', "'zcdp'")
    >>> shown(["a", "b"]), shown("a text\nof two lines")
    ('a list of 2 values', 'a text of 19 characters')
    """
    try:
        plain = _plain(value)
        if plain is None and type(value) in (list, tuple) and len(value) <= _MOST_NUMBERS:  # type: ignore[arg-type]
            parts = [_number(part) for part in value]  # type: ignore[attr-defined]
            if parts and None not in parts:
                plain = ("({})" if type(value) is tuple else "[{}]").format(", ".join(map(str, parts)))
        return described(value) if plain is None else plain
    except Exception:  # noqa: BLE001  (the message must come out, whatever the value does)
        return f"a value of type {type(value).__name__}"


def described(value: object) -> str:
    """Return the type of a value for a message, and the length of texts, lists and mappings.

    Examples
    --------
    >>> described([1, 2, 3]), described(iter([])), described("x" * 3000)
    ('a list of 3 values', 'a list_iterator', 'a text of 3,000 characters')
    """
    if isinstance(value, str):
        return f"a text of {len(value):,} characters"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    kind = f"{'an' if name[:1].lower() in set('aeio') or name == 'ndarray' else 'a'} {name}"
    if type(value) in (list, tuple, dict, set, frozenset, range):
        size = len(value)  # type: ignore[arg-type]
        return f"{kind} of {size:,} value{'s' * (size != 1)}"
    return kind


def _plain(value: object) -> str | None:
    """Return a scalar or one short line of text as Python writes it; None for other values."""
    if value is None:
        return "None"
    if isinstance(value, str):
        short = len(value) <= _LONGEST_TEXT and value.isprintable()
        return str.__repr__(value) if short else None
    return _number(value)


def _number(value: object) -> str | None:
    """Return a number as Python writes it; None for other values, and for integers of many digits."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return repr(value)
    for kind in (int, float):
        if isinstance(value, kind):
            written = kind.__repr__(value)
            return written if len(written) <= _LONGEST_TEXT else None
    return None


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
        near = difflib.get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        remedy = f"Did you mean {near[0]!r}?" if near and len(value) <= _LONGEST_TEXT else ""
        raise fail(f"one of {', '.join(map(repr, allowed))} for {name}", name, value, remedy)
    return str(value)


def text(value: Any, name: str, remedy: str = "") -> str:
    """Validate one non-empty line of text and return it."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise fail(f"one line of text for {name}", name, value, remedy)
    return value


def path(value: Any, name: str = "path", remedy: str = "") -> Path:
    """Validate the path of a file: text without line breaks whose parts can be file names.

    A table as text must not reach the system, whose errors repeat the path.
    """
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    if (
        not isinstance(given, str)
        or not given
        or any(mark in given for mark in "\0\n\r")
        or any(len(part) > _LONGEST_NAME for part in Path(given).parts)
        or len(given) > _LONGEST_PATH
    ):
        raise fail(f"the path of a file for {name}", name, given, remedy)
    return Path(given)


def flag(value: Any, name: str, remedy: str = "") -> bool:
    """Validate True or False (or 1 or 0) and return it as a bool."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, numbers.Real) and value in (0, 1)):
        raise fail("True or False", name, value, remedy)
    return bool(value)


def array(value: Any, name: str, remedy: str = "") -> NDArray[np.float64]:
    """Convert public numbers to an array; NumPy's own error would repeat a cell."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise fail(f"an array of numbers for {name}", name, value, remedy) from None


def each(values: Any, name: str, check: Callable[[Any], T], expected: str, remedy: str = "") -> list[T]:
    """Validate every item of a sequence; the error describes the sequence, because an item may be a cell."""
    try:
        if isinstance(values, str | bytes):
            raise fail(expected, name, values, remedy)
        return [check(value) for value in values]
    except (TypeError, InvalidArgumentError):
        raise fail(expected, name, values, remedy) from None


def names(value: Any, name: str, remedy: str = "") -> list[str]:
    """Validate a list of names; a column of a table is none, because its cells would be taken for names."""
    listed = (
        isinstance(value, list | tuple)
        or hasattr(value, "get_indexer")
        or (  # an index of pandas
            isinstance(value, np.ndarray) and value.ndim == 1
        )
    )
    if not listed or not all(isinstance(one, str) for one in value):
        raise fail(f"a list of names for {name}", name, value, remedy)
    return [str(one) for one in value]


def shown_names(names: Any) -> str:
    """Return names that were given for columns or parameters; anything but short text is described.

    Examples
    --------
    >>> shown_names(["age", "bmi"]), shown_names([["age"], 3])
    ("'age', 'bmi'", 'a list of 2 values')
    """
    found = list(names)
    if all(isinstance(name, str) and _plain(name) is not None for name in found):
        more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
        return ", ".join(str.__repr__(name) for name in found[:_MOST_NAMES]) + more
    return shown(found[0]) if len(found) == 1 and isinstance(found[0], str) else described(found)


LARGE_EPSILON = 20.0  # above it, a guarantee protects nobody
EPSILONS = "a list of numbers above 0 and at most 100,000 for epsilons"


def is_infinite(value: object) -> bool:
    """Whether a value is the number infinity."""
    return isinstance(value, numbers.Real) and bool(value == math.inf)


def epsilon(value: Any, name: str = "epsilon") -> float:
    """Validate an epsilon above 0 and at most 100,000, which is far beyond any use."""
    if is_infinite(value):
        raise fail(f"a finite {name} > 0", name, value, "An infinite epsilon gives no privacy.")
    remedy = "Values from 0.1 to 1 protect well; values above 8 protect little."
    result = positive(value, name, remedy)
    if result > 1e5:
        raise fail(f"{name} of at most 100,000", name, value, remedy)
    return result


LARGEST_DELTA, LARGE_DELTA = 1e-2, 1e-3  # of a release: refused above the first, warned of above the second
DELTA_MEANS = "Delta is the probability with which a release may publish the row of a person in the clear."


def delta_of_releases(value: Any, name: str = "delta") -> float:
    """Validate the delta of releases: between 0 and 0.01."""
    result = delta(value, name)
    if result > LARGEST_DELTA:
        remedy = f"{DELTA_MEANS} Choose a delta well below one over the number of rows, such as 1e-6."
        raise fail(f"{name} of at most {LARGEST_DELTA:g}", name, value, remedy)
    return result


def delta(value: Any, name: str = "delta") -> float:
    """Validate a delta between 0 and 1, both excluded, and of at least 1e-300, where floats end."""
    remedy = "Choose a delta well below one over the number of rows, such as 1e-6."
    result = real(value, name, remedy)
    if not 1e-300 <= result < 1:
        raise fail(f"{name} between 0 and 1 (both excluded)", name, value, remedy)
    return result
