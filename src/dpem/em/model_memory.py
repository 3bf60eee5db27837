"""Where a plug-in model could keep something of a row beyond itself.

Every row is met by a copy of the model, so that its attributes forget. Not copied are its class, the default
arguments and closures of its functions, what its modules hold, and all that these reach. Before anything is
charged the compiled code of the model is read, and a model is refused

- if a function that sees rows stores to a global, to a variable around it or to an attribute, imports or uses
  a module that is not on a list of pure ones, or calls something that keeps or shows values (a random
  generator, a file, `print`);
- if any of its functions reaches something that can change: a container, a writable array, an object, a
  generator, a cache, through globals, closures, default arguments or its class.

This finds mistakes and plain tricks. It is no sandbox: Python has none, and code that is written to hide what
it keeps from this reading is beyond it (docs/known-vulnerabilities.md). Run only models that you trust.
"""

from __future__ import annotations

import copy
import dis
import functools
import types
from abc import ABC
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from dpem.em.exponential_family import BlockFamily, ExponentialFamily, ModelOfFunctions, is_shipped
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["refuse_memory"]

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, range, slice, np.generic, np.dtype, np.ufunc)
_DESCRIPTIONS = (
    types.GenericAlias,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.UnionType,
    types.WrapperDescriptorType,
)
_PURE_MODULES = {
    "__future__",
    "abc",
    "cmath",
    "collections.abc",
    "dataclasses",
    "dpem",
    "enum",
    "fractions",
    "functools",
    "itertools",
    "math",
    "numbers",
    "numpy",
    "numpy.linalg",
    "numpy.typing",
    "operator",
    "scipy",
    "scipy.linalg",
    "scipy.special",
    "scipy.stats",
    "statistics",
    "typing",
    "warnings",
}
# Names that lead out of a row's own values, whatever they are looked up on.
_LEADING_OUT = {
    "attrgetter",
    "breakpoint",
    "catch_warnings",
    "compile",
    "count",
    "cycle",
    "delattr",
    "dump",
    "eval",
    "exec",
    "exit",
    "filters",
    "filterwarnings",
    "fromfile",
    "genfromtxt",
    "getattr",
    "getbufsize",
    "globals",
    "input",
    "itemset",
    "load",
    "loadtxt",
    "locals",
    "lru_cache",
    "memmap",
    "methodcaller",
    "onceregistry",
    "open",
    "print",
    "putmask",
    "quit",
    "random",
    "resetwarnings",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "set_printoptions",
    "setattr",
    "setbufsize",
    "seterrcall",
    "setflags",
    "showwarning",
    "simplefilter",
    "tofile",
    "vars",
}
_HARMLESS_DUNDERS = {"__call__", "__doc__", "__init__", "__len__", "__name__", "__version__"}
# What Python itself puts into classes.
_OWN = {
    "__abstractmethods__",
    "__annotations__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__match_args__",
    "__module__",
    "__orig_bases__",
    "__parameters__",
    "__qualname__",
    "__slotnames__",
    "__slots__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}
_COPYING = {"__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
_BASES: set[type] = {object, ABC, ExponentialFamily, BlockFamily, ModelOfFunctions}
# What sees a row first; whatever these call by name sees it too.
_SEE_ROWS = ("expected_statistics", "encode", "statistics_of_rows", "encode_rows", "log_density")
_FUNCTIONS_THAT_SEE_ROWS = {"_expected_statistics", "_log_density"}  # of a model of functions


def refuse_memory(model: ExponentialFamily) -> None:
    """Raise where a model could remember rows outside its own attributes."""
    name = type(model).__name__
    for where in _Reading(model).findings():
        raise InvalidArgumentError(
            f"Expected a model that keeps nothing between rows, got {name} with {where}. Keep what is fixed "
            f"in an attribute of the model (self. ..., set in __init__), and what belongs to one row in "
            f"local variables: each row is met by a fresh copy."
        )


@dataclass
class _Reading:
    """One reading of a model: what was read already, and the model's own methods by name."""

    model: ExponentialFamily
    read: set[tuple[int, bool]] = field(default_factory=set)

    def findings(self) -> Iterator[str]:
        """Yield where something could be kept."""
        methods = self._methods()
        for name, (value, _) in methods.items():
            if name in _COPYING:
                yield f"a method {name!r} of its own, which copies would follow"
            elif name not in _OWN:
                yield from self._held(value, f"the class attribute {name!r}", sees_rows=False)
        for name in _SEE_ROWS:
            if name in methods:
                yield from self._held(methods[name][0], name, sees_rows=True)
        yield from self._attributes()

    def _methods(self) -> dict[str, tuple[Any, type]]:
        """Return what the model's own classes define, by name; the most derived definition counts."""
        found: dict[str, tuple[Any, type]] = {}
        for kind in type(self.model).__mro__:
            if kind in _BASES or kind is Generic or is_shipped(kind):
                continue
            for name, value in vars(kind).items():
                found.setdefault(name, (value, kind))
        return found

    # -- attributes of the model ---------------------------------------------------------------------------

    def _attributes(self) -> Iterator[str]:
        """Attributes are copied for every row: but not functions, and not what copies itself otherwise."""
        for name, value in vars(self.model).items():
            if isinstance(value, types.FunctionType):
                sees = name in _FUNCTIONS_THAT_SEE_ROWS
                yield from self._held(value, f"the function {name.lstrip('_')!r}", sees_rows=sees)
            elif isinstance(value, types.MethodType):  # of another object, which is copied with it
                sees = name in _FUNCTIONS_THAT_SEE_ROWS
                yield from self._held(value.__func__, f"the function {name.lstrip('_')!r}", sees_rows=sees)
                if _shares(value.__self__, copy.deepcopy(value.__self__), set()):
                    yield f"the object of {name!r}, which copies share"
            elif _shares(value, copy.deepcopy(value), set()):
                yield f"the attribute {name!r}, which copies share"

    # -- code ------------------------------------------------------------------------------------------------

    def _held(self, value: Any, where: str, *, sees_rows: bool) -> Iterator[str]:
        """Yield what can change in a value, or around a function."""
        if (id(value), sees_rows) in self.read:
            return
        self.read.add((id(value), sees_rows))
        if isinstance(value, functools._lru_cache_wrapper):
            yield f"a cache ({where}), which all rows would share"
            return
        functions = _functions(value)
        for function in functions:
            yield from self._function(function, where, sees_rows=sees_rows)
        if isinstance(value, type):
            yield from self._class(value, where, sees_rows=sees_rows)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                yield from self._held(part, where, sees_rows=sees_rows)
        elif isinstance(value, tuple | frozenset):
            for part in value:
                yield from self._held(part, where, sees_rows=sees_rows)
        elif not functions and not _is_fixed(value):
            yield f"{where}, which all rows would share"

    def _class(self, kind: type, where: str, *, sees_rows: bool) -> Iterator[str]:
        """Read a class that is used: one of a pure module, or one whose attributes are fixed too."""
        if (
            _is_pure_module(kind.__module__)
            or kind in _BASES
            or is_shipped(kind)
            or kind.__module__ == "builtins"
        ):
            return
        for name, value in vars(kind).items():
            if name not in _OWN:
                yield from self._held(value, f"{name!r} of {kind.__name__!r} ({where})", sees_rows=sees_rows)

    def _function(self, function: types.FunctionType, where: str, *, sees_rows: bool) -> Iterator[str]:
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for default in defaults:
            yield from self._held(default, f"a default argument of {where}", sees_rows=sees_rows)
        for value in vars(function).values():
            yield from self._held(value, f"an attribute of the function {where}", sees_rows=sees_rows)
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            if isinstance(content, type) and content in type(self.model).__mro__:  # for super()
                continue
            yield from self._held(content, f"a variable around {where}", sees_rows=sees_rows)
        yield from self._code(function.__code__, function, where, sees_rows=sees_rows, own=set())

    def _code(
        self,
        code: types.CodeType,
        function: types.FunctionType,
        where: str,
        *,
        sees_rows: bool,
        own: set[str],
    ) -> Iterator[str]:
        """Read compiled code, and that of functions inside it; `own` are variables of the code around it."""
        methods = self._methods()
        for step in dis.get_instructions(code):
            name = str(step.argval)
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                yield f"a store to the global variable {name!r} in {where}"
            elif step.opname == "STORE_DEREF" and name not in own and name in code.co_freevars:
                yield f"a store to {name!r}, a variable around {where}"
            elif sees_rows and step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                yield f"a store to the attribute {name!r} in {where}"
            elif sees_rows and step.opname == "IMPORT_NAME" and not _is_pure_module(name):
                yield f"an import of {name!r} in {where}"
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield from self._global(name, function, where, sees_rows=sees_rows)
            elif sees_rows and step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR"):
                if name in _LEADING_OUT or _is_private_dunder(name):
                    yield f"{name!r} in {where}"
                elif name in methods:  # of the model, as far as a name tells
                    yield from self._held(methods[name][0], name, sees_rows=True)
        inner = own | set(code.co_cellvars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._code(constant, function, where, sees_rows=sees_rows, own=inner)

    def _global(
        self, name: str, function: types.FunctionType, where: str, *, sees_rows: bool
    ) -> Iterator[str]:
        missing = object()
        value = function.__globals__.get(name, missing)
        if value is missing:
            if sees_rows and (name in _LEADING_OUT or _is_private_dunder(name)):
                yield f"{name!r} in {where}"
            return
        if isinstance(value, types.ModuleType):
            if sees_rows and not _is_pure_module(value.__name__):
                yield f"the module {value.__name__!r} in {where}, which is not known to keep nothing"
            return
        yield from self._held(value, f"the global variable {name!r} used by {where}", sees_rows=sees_rows)


def _is_private_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _HARMLESS_DUNDERS


def _is_pure_module(name: str | None) -> bool:
    return name in _PURE_MODULES


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
    """Whether nothing of a value can change, nor be reached through it."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    if isinstance(value, np.ndarray):
        return not value.flags.writeable and value.dtype.kind != "O" and _is_fixed(value.base)
    if isinstance(value, types.ModuleType):
        return True  # what is used of it is read where it is used
    if isinstance(
        value, types.BuiltinFunctionType | types.MethodWrapperType
    ):  # bound to a module, or to nothing
        owner = getattr(value, "__self__", None)
        return owner is None or isinstance(owner, types.ModuleType | type)
    if isinstance(value, _SIMPLE):
        return True
    descriptors = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
    return isinstance(
        value, (*descriptors, types.MemberDescriptorType, types.GenericAlias, types.UnionType)
    ) or (type(value).__module__ == "typing")


_COPIED_WELL = {"builtins", "datetime", "decimal", "dpem", "fractions", "numpy"}  # modules of such classes


def _shares(value: Any, copied: Any, seen: set[int]) -> bool:
    """Whether a deep copy holds something of the original that can change."""
    if id(value) in seen:
        return False
    seen.add(id(value))
    if value is copied:
        return not (_is_fixed(value) or isinstance(value, type | types.FunctionType))
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "O" or bool(np.shares_memory(value, copied))
    home = type(value).__module__.partition(".")[0]
    if set(vars(type(value))) & _COPYING and home not in _COPIED_WELL:
        return True  # it says itself what a copy is
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(value, dict):
        parts = ((value[key], copied[key]) for key in value if key in copied)
    elif isinstance(value, list | tuple):
        parts = zip(value, copied, strict=False)
    elif isinstance(getattr(value, "__dict__", None), dict):
        parts = iter([(value.__dict__, getattr(copied, "__dict__", {}))])
    return any(_shares(one, two, seen) for one, two in parts)
