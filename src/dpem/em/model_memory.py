"""Where a plug-in model could keep something of a row beyond itself.

Every row is met by a copy of the model, so that its attributes forget. Not copied are its class, the default
arguments and closures of its functions, and what its modules hold. Before anything is charged these are
looked at, and a model with something there that can change is refused: a cache that seems harmless would
carry one row into another's vector. Code that hides what it keeps can be neither found nor stopped.
"""

from __future__ import annotations

import copy
import functools
import types
from abc import ABC
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpem.em.exponential_family import ExponentialFamily

__all__ = ["refuse_memory"]

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, range, np.generic, np.dtype, np.ufunc)
_CODE = (
    types.ModuleType,
    types.BuiltinFunctionType,
    type,
    types.GenericAlias,
    property,
    staticmethod,
    classmethod,
)
_CONTAINERS = (list, dict, set, bytearray)
# What Python itself puts into classes.
_OWN = {"__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "_abc_impl", "__parameters__"}


def refuse_memory(model: ExponentialFamily) -> None:
    """Raise where a model could remember rows outside its own attributes."""
    name = type(model).__name__
    for where in _memories(model):
        raise InvalidArgumentError(
            f"Expected a model that keeps nothing between rows, got {name} with {where}, which all rows "
            f"would share. Keep it in an attribute of the model (self. ...): each row is met by a fresh copy."
        )


def _memories(model: ExponentialFamily) -> Iterator[str]:
    seen: set[int] = set()
    for kind in type(model).__mro__:
        if kind in (object, ABC, Generic) or kind.__module__.startswith("dpem."):
            continue
        for name, value in vars(kind).items():
            if name in {"__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__"}:
                yield f"a method {name!r} of its own"
            elif name not in _OWN and not (name.startswith("__") and not callable(value)):
                yield from _held(value, f"the class attribute {name!r}", seen)
    copied = vars(copy.deepcopy(model))
    for name, value in vars(model).items():
        if isinstance(value, types.FunctionType):
            yield from _held(value, f"the function {name!r}", seen)
        elif copied.get(name) is value and not _is_fixed(value):
            yield f"the attribute {name!r}, which copies share"


def _held(value: Any, where: str, seen: set[int]) -> Iterator[str]:
    """Yield what can change in a class attribute or around a function."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools._lru_cache_wrapper):
        yield f"a cache ({where})"
        return
    for function in _functions(value):
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for default in defaults:
            yield from _held(default, f"a default argument of {where}", seen)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            yield from _held(content, f"a variable around {where}", seen)
        for name in function.__code__.co_names:
            outside = function.__globals__.get(name)
            if isinstance(outside, (*_CONTAINERS, functools._lru_cache_wrapper)):
                yield f"the global variable {name!r} used by {where}"
            elif isinstance(outside, types.FunctionType) and outside.__globals__ is function.__globals__:
                yield from _held(outside, f"the function {name!r} used by {where}", seen)
        return
    if not _is_fixed(value):
        yield where


def _functions(value: Any) -> list[types.FunctionType]:
    """Return the functions of a method, property or the like; none where a value is no code."""
    if isinstance(value, types.FunctionType):
        return [value]
    if isinstance(value, staticmethod | classmethod):
        return _functions(value.__func__)
    if isinstance(value, property):
        return [found for part in (value.fget, value.fset, value.fdel) for found in _functions(part)]
    if isinstance(value, functools.cached_property):
        return _functions(value.func)
    return []


def _is_fixed(value: Any) -> bool:
    """Whether nothing of a value can change."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    if isinstance(value, np.ndarray):
        return not value.flags.writeable
    return isinstance(value, (*_SIMPLE, *_CODE))
