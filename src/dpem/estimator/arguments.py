"""Arguments of estimators: `__init__` stores them unchanged; `_constraints` declares their valid values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from dpem import _validate

__all__ = [
    "Constraint",
    "Constraints",
    "boolean",
    "check_constraints",
    "either",
    "number",
    "optional",
    "positive",
    "stores_arguments",
    "verbosity",
    "whole",
    "word",
]

Init = TypeVar("Init", bound=Callable[..., None])

# Called with a value and the name of its argument; raises unless the value is valid.
Constraint = Callable[[Any, str], object]
Constraints = Mapping[str, Constraint]


def stores_arguments(init: Init) -> Init:
    """Make an `__init__` store every argument under its own name and do nothing else, as in scikit-learn."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def storing(self: Any, *given: Any, **named: Any) -> None:
        init(self, *given, **named)  # raises Python's own exception for unknown arguments
        arguments = signature.bind(self, *given, **named)
        arguments.apply_defaults()
        for name in list(arguments.arguments)[1:]:
            setattr(self, name, arguments.arguments[name])

    return cast("Init", storing)


def whole(minimum: int = 1) -> Constraint:
    """Accept an integer of at least `minimum`."""
    return lambda value, name: _validate.integer(value, name, minimum)


def number(low: float = 0.0, high: float | None = None) -> Constraint:
    """Accept a number from `low` to `high`; without `high`, any finite number that is not negative."""
    if high is None:
        return _validate.non_negative
    return lambda value, name: _validate.within(value, name, low, high)


def positive(value: Any, name: str) -> object:
    """Accept a finite number above zero."""
    return _validate.positive(value, name)


def word(allowed: Collection[str]) -> Constraint:
    """Accept one of these words."""
    return lambda value, name: _validate.one_of(value, name, allowed)


def boolean(value: Any, name: str) -> object:
    """Accept True or False."""
    return _validate.flag(value, name)


def verbosity(value: Any, name: str) -> object:
    """Accept True, False or a number of at least zero."""
    return value if isinstance(value, bool | np.bool_) else _validate.integer(value, name, 0)


def optional(constraint: Constraint) -> Constraint:
    """Accept None as well."""
    return lambda value, name: None if value is None else constraint(value, name)


def either(special: str, constraint: Constraint) -> Constraint:
    """Accept one special word as well."""

    def check(value: Any, name: str) -> object:
        if isinstance(value, str) and value == special:
            return value
        return constraint(value, name)

    return check


def check_constraints(estimator: object) -> None:
    """Validate every argument that a class of the estimator declares; subclasses override their bases."""
    declared: dict[str, Constraint] = {}
    for cls in reversed(type(estimator).__mro__):
        declared |= vars(cls).get("_constraints", {})
    for name, constraint in declared.items():
        constraint(getattr(estimator, name), name)
