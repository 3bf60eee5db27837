"""Reject plug-in models that could remember a row while they handle another.

Each row gets a copy of the model, so that its attributes remember nothing. Not copied are its classes, the
default arguments and closures of its functions, the contents of its modules, and everything reachable from
these. Before anything is charged, the compiled code that sees rows is inspected (`dpem.plugin.code`), and the
attributes of the model are compared with those of two copies. A model is rejected if such code stores to a
global, to an enclosing variable or to an attribute, or if it reaches a mutable object or library code that is
not known to keep nothing.

Code that never sees rows (`__init__`, `start`, `m_step`, `sample`, `norm_bound`, `trial_schema`) is not
restricted. It may set attributes, which are compared again.

This detects mistakes and simple tricks. It is not a sandbox: Python has none, and code written to evade the
inspection will succeed (docs/background/known-vulnerabilities.md). Run only models that you trust.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import types
from abc import ABC
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from dpem.errors import InvalidArgumentError
from dpem.plugin.code import _GENERATED, CodeReading, is_fixed, wrapped_functions
from dpem.plugin.family import BlockFamily, ExponentialFamily, ModelOfFunctions, is_shipped
from dpem.plugin.pure_library import is_installed, is_library

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["refuse_memory"]

_BASES = (object, ABC, Generic, ExponentialFamily, BlockFamily, ModelOfFunctions)
_WITHOUT_ROWS = {
    "__init__",
    "__post_init__",
    "start",
    "m_step",
    "sample",
    "norm_bound",
    "trial_schema",
    "__repr__",
    "__str__",
}
_FUNCTIONS_WITHOUT_ROWS = {"_start", "_m_step", "_sample"}  # of a model of functions
_REFUSED = {
    "__copy__", "__deepcopy__", "__del__", "__getattr__", "__getattribute__", "__getstate__", "__reduce__",
    "__reduce_ex__", "__setattr__", "__setstate__",
}  # fmt: skip


def refuse_memory(model: ExponentialFamily) -> None:
    """Raise if a model could remember rows outside its attributes."""
    name = type(model).__name__
    for where in _findings(model):
        raise InvalidArgumentError(
            f"Expected a model that keeps nothing between rows, got {name} with {where}. Keep constants in "
            f"an attribute of the model (self. ..., set in __init__) or in a read-only array "
            f"(.setflags(write=False)), and values of one row in local variables: each row gets a fresh copy "
            f"of the model."
        )


def _findings(model: ExponentialFamily) -> Iterator[str]:
    own = [k for k in type(model).__mro__ if not any(k is base for base in _BASES) and not is_shipped(k)]
    definitions: dict[str, list[Any]] = {}
    for kind in own:
        words: Any = (kind.__doc__ or "", kind.__module__)
        if not all(isinstance(word, str) for word in words):
            yield "a docstring or module name that is not text"
        for name, value in vars(kind).items():
            if name in _REFUSED and not (name == "__setattr__" and dataclasses.is_dataclass(kind)):
                yield f"a method {name!r} of its own"
            elif name == "_abc_impl" and type(value).__module__ != "_abc":
                yield f"the class attribute {name!r}"
            elif name not in _GENERATED:
                definitions.setdefault(name, []).append(value)
    reading = CodeReading(definitions, (*_BASES, *type(model).__mro__))
    if not is_installed(type(type(model))):
        yield "a metaclass"
    for name, values in definitions.items():
        if name not in _WITHOUT_ROWS:
            for value in values:
                yield from reading.value(value, f"the class attribute {name!r}")
    yield from _attributes(model, reading)


def _attributes(model: ExponentialFamily, reading: CodeReading) -> Iterator[str]:
    """Yield attributes that copies share, and findings about code in attributes."""
    copies = [copy.deepcopy(model) for _ in range(2)]
    seen: dict[int, str] = {}
    for one in (model, *copies):
        if type(one) is not type(model):
            yield "copies of another class"
        new: dict[int, str] = {}
        for place, value in _reached(one):
            if id(value) in seen and not _may_be_shared(value):
                yield f"the attribute {place!r}, which is shared by copies"
            new[id(value)] = place
            if place in _FUNCTIONS_WITHOUT_ROWS or one is not model:
                continue
            if isinstance(value, types.MethodType):  # a copy of the method has a copy of its object
                yield from reading.value(value.__func__, f"{place.lstrip('_')!r}")
            elif _is_code(value):
                yield from reading.value(value, f"{place.lstrip('_')!r}")
            elif not _is_plain(value) and not is_installed(type(value)) and not is_shipped(type(value)):
                yield from reading.value(type(value), f"the attribute {place!r}")
        seen |= new
    if any(one is model for one in copies) or copies[0] is copies[1]:
        yield "copies that are the model itself"


def _reached(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield all objects reachable from a model's attributes, with the name of the attribute."""
    known: set[int] = {id(model)}
    waiting = list(_held(model))
    while waiting:
        place, value = waiting.pop()
        if id(value) in known:
            continue
        known.add(id(value))
        yield place, value
        if isinstance(value, dict):
            waiting += [(place, part) for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += [(place, part) for part in value]
        elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
            waiting += [(place, part) for part in value.ravel().tolist()]
        elif _is_code(value):
            waiting += [(place, part) for part in wrapped_functions(value) if part is not value]
        elif isinstance(value, collections.deque):
            waiting += [(place, part) for part in value]
        elif not isinstance(value, type | types.ModuleType) and not is_installed(type(value)):
            waiting += [(place, part) for _, part in _held(value)]  # library objects are copied as a whole


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, from its dictionary and its slots."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


def _is_code(value: Any) -> bool:
    known = (types.FunctionType, types.BuiltinFunctionType, type, np.ufunc, functools._lru_cache_wrapper)
    if isinstance(value, known) or wrapped_functions(value):
        return True
    return callable(value) and not is_installed(type(value))


def _is_plain(value: Any) -> bool:
    """Whether a value is data of a built-in type or a NumPy array."""
    return type(value) in (dict, list, tuple, set, frozenset, np.ndarray) or is_fixed(value)


def _may_be_shared(value: Any) -> bool:
    """Whether copies may share an object: immutable objects, and code, which is inspected."""
    if (
        is_fixed(value)
        or is_library(value)
        or isinstance(value, types.FunctionType | type | types.ModuleType)
    ):
        return True
    if isinstance(value, tuple | frozenset):
        return True  # its items are compared separately
    return type(value).__module__ in {"decimal", "fractions", "re", "datetime"} and is_installed(type(value))
