"""Inspect the compiled code of a plug-in model that sees rows: its stores, and the objects that it reaches.

Nothing is run. A finding is a phrase that names a place where a row could be kept or shown.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import dis
import enum
import functools
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.plugin.pure_library import SAFE_BUILTINS, is_installed, is_library, is_pure_module

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CodeReading", "is_fixed"]

# Attributes that lead from the values of a row to frames, memory, files or registries.
_ESCAPES = frozenset(
    [
        "ag_frame",
        "base",
        "cr_frame",
        "ctypes",
        "dump",
        "dumps",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "flags",
        "gi_code",
        "gi_frame",
        "random_state",
        "register",
        "rvs",
        "seed",
        "setflags",
        "tb_frame",
        "tb_next",
        "tofile",
    ]
)
_HARMLESS_DUNDERS = {"__call__", "__class__", "__doc__", "__len__", "__name__"}
_SIMPLE = {
    type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis), type(NotImplemented),
}  # fmt: skip
_LOADS_OF_NAMES = {"LOAD_GLOBAL", "LOAD_NAME"}
_LOADS_OF_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD"}
_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
# Class attributes set by Python itself, dataclasses, enums and named tuples.
_GENERATED = frozenset(
    [
        "__abstractmethods__",
        "__annotations__",
        "__class_getitem__",
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
        "__repr__",
        "__slotnames__",
        "__slots__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
        "_field_defaults",
        "_fields",
        "_generate_next_value_",
        "_member_map_",
        "_member_names_",
        "_member_type_",
        "_new_member_",
        "_unhashable_values_",
        "_use_args_",
        "_value2member_map_",
        "_value_repr_",
        "_hashable_values_",
        "_unhashable_values_map_",
        "__new__",
        "__str__",
        "__format__",
        "__dir__",
        "__reduce_ex__",
        "_is_protocol",
        "__subclasshook__",
        "__eq__",
        "__hash__",
        "__replace__",
        "__getnewargs__",
        "_make",
        "_replace",
        "_asdict",
    ]
)


def is_fixed(value: Any) -> bool:
    """Whether a value is immutable, together with everything reachable through it."""
    kind = type(value)
    if kind in _SIMPLE or isinstance(value, enum.Enum):
        return True
    if kind in (tuple, frozenset):
        return all(map(is_fixed, value))
    if kind is slice:
        return all(map(is_fixed, (value.start, value.stop, value.step)))
    if isinstance(value, np.ndarray | np.generic | np.dtype):
        return _is_fixed_of_numpy(value)
    return _is_description(value)


def _is_fixed_of_numpy(value: Any) -> bool:
    if isinstance(value, np.dtype):
        return value.metadata is None
    if type(value) is np.ndarray:
        return not value.flags.writeable and value.dtype.kind not in "OV"
    return (
        type(value).__module__ == "numpy" and isinstance(value, np.generic) and value.dtype.kind not in "OV"
    )


_DESCRIPTIONS = (
    types.ClassMethodDescriptorType,
    types.GenericAlias,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.UnionType,
    types.WrapperDescriptorType,
    type(vars(collections.namedtuple("_Pair", "first"))["first"]),
)
_NO_CODE = (lambda: None).__code__


def _is_description(value: Any) -> bool:
    """Whether a value is a descriptor or a type annotation."""
    return isinstance(value, _DESCRIPTIONS) or (
        type(value).__module__ == "typing" and is_installed(type(value))
    )


def wrapped_functions(value: Any) -> list[Any]:
    """Return the functions inside a method, property, partial or vectorised function, or an empty list."""
    if isinstance(value, types.FunctionType):
        return [value]
    if isinstance(value, functools.partial | functools.partialmethod):
        return [value.func, *value.args, *value.keywords.values()]
    for kind, names in (
        ((staticmethod, classmethod), ("__func__",)),
        (property, ("fget", "fset", "fdel")),
        (functools.cached_property, ("func",)),
        (types.MethodType, ("__func__", "__self__")),
        (np.vectorize, ("pyfunc",)),
    ):
        if isinstance(value, kind):
            return [getattr(value, name) for name in names]
    python = getattr(value, "py_func", None)  # the Python function behind a numba function
    return [python] if isinstance(python, types.FunctionType) and is_installed(type(value)) else []


@dataclass
class CodeReading:
    """An inspection of code that sees rows. `methods` has all definitions of each name in the model."""

    methods: dict[str, list[Any]]
    bases: tuple[type, ...]  # known classes, and those of the model
    read: set[int] = field(default_factory=set)
    kept: list[Any] = field(default_factory=list)  # references keep the ids in `read` valid

    def value(self, value: Any, where: str) -> Iterator[str]:
        """Yield findings about a value: it is mutable, or functions inside it keep or show rows."""
        if id(value) in self.read:
            return
        self.read.add(id(value))
        self.kept.append(value)
        if is_library(value) or is_fixed(value) or any(value is base for base in self.bases):
            return
        if isinstance(value, types.FunctionType):
            yield from self._function(value, where)
            return
        if isinstance(value, type):
            yield from self._class(value, where)
            return
        parts = self._parts(value)
        if parts is None:
            yield f"{where}, which is shared by all rows"
            return
        for part in parts:
            yield from self.value(part, where)

    def _parts(self, value: Any) -> list[Any] | None:
        """Return the parts of an immutable value, or None for a mutable one."""
        inside = wrapped_functions(value)
        if inside:
            return inside
        if isinstance(value, tuple | frozenset):
            return [type(value), *value]
        return [type(value), *vars(value).values()] if _is_frozen(value) else None

    def _class(self, kind: type, where: str) -> Iterator[str]:
        """Inspect a class: all attributes that it and its base classes define."""
        if type(kind) not in _METACLASSES and not is_installed(type(kind)):
            yield f"a metaclass ({where})"
        for one in kind.__mro__:
            if one is object or is_library(one) or is_installed(one) or any(one is b for b in self.bases):
                continue
            generated = {"__init__", "__setattr__", "__delattr__"} if dataclasses.is_dataclass(one) else set()
            for name, value in vars(one).items():
                if name in generated and getattr(value, "__code__", _NO_CODE).co_filename == "<string>":
                    continue
                if name not in _GENERATED and not (isinstance(value, enum.Enum) and is_fixed(value.value)):
                    yield from self.value(value, f"{name!r} of {one.__name__!r} ({where})")

    def _function(self, function: types.FunctionType, where: str) -> Iterator[str]:
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for default in defaults:
            if type(default).__module__ != "dataclasses":  # markers of dataclasses are immutable
                yield from self.value(default, f"a default argument of {where}")
        for value in vars(function).values():
            yield from self.value(value, f"an attribute of the function {where}")
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            yield from self.value(content, f"an enclosing variable of {where}")
        yield from self._code(function.__code__, function, where, own=set())

    def _code(
        self, code: types.CodeType, function: types.FunctionType, where: str, *, own: set[str]
    ) -> Iterator[str]:
        """Inspect compiled code, and inner functions; `own` are variables of the inspected outer code."""
        module: Any = None  # the module loaded by the previous instruction, if any
        for step in dis.get_instructions(code):
            name = str(step.argval)
            if module is not None and step.opname not in _LOADS_OF_ATTRIBUTES | {"IMPORT_FROM", "PUSH_NULL"}:
                yield f"the module {module.__name__!r} as a value in {where}"
                module = None
            if step.opname in _LOADS_OF_NAMES:
                module, found = self._named(name, function, where)
                yield from found
            elif step.opname in _LOADS_OF_ATTRIBUTES or step.opname == "IMPORT_FROM":
                module, found = self._attribute(name, module, where, function)
                yield from found
            elif step.opname == "IMPORT_NAME":
                yield f"an import in {where} (import at the top of the file instead)"
            else:
                yield from self._store(step, code, own, where)
        for names in code.co_consts:
            if isinstance(names, tuple) and "where" in names and "out" not in names:
                yield f"where= without out= in {where}, which leaves entries unset"
        inner = own | set(code.co_cellvars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._code(constant, function, where, own=inner)

    def _store(self, step: dis.Instruction, code: types.CodeType, own: set[str], where: str) -> Iterator[str]:
        name = str(step.argval)
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield f"a store to the global variable {name!r} in {where}"
        elif step.opname == "STORE_DEREF" and name not in own and name in code.co_freevars:
            yield f"a store to {name!r}, an enclosing variable of {where}"
        elif step.opname in ("STORE_ATTR", "DELETE_ATTR") and code.co_name != "__init__":
            yield f"a store to the attribute {name!r} in {where}"
        elif step.opname == "MATCH_CLASS":
            yield f"a class pattern of match in {where}"

    def _named(self, name: str, function: types.FunctionType, where: str) -> tuple[Any, Iterator[str]]:
        """Return the module behind a global name, if it is one, and findings about its value."""
        missing = object()
        value = function.__globals__.get(name, missing)
        if value is missing:
            known = name in SAFE_BUILTINS
            return None, iter([] if known else [f"the name {name!r} in {where}"])
        if isinstance(value, types.ModuleType):
            if is_pure_module(value):
                return value, iter(())
            return None, iter(
                [f"the module {value.__name__!r} in {where}, which is not known to keep nothing"]
            )
        return None, self.value(value, f"the global variable {name!r} used by {where}")

    def _attribute(
        self, name: str, module: Any, where: str, function: types.FunctionType
    ) -> tuple[Any, Iterator[str]]:
        """Return the submodule behind an attribute, if it is one, and findings about the attribute."""
        if module is not None:
            value = getattr(module, name, None)
            if isinstance(value, types.ModuleType) and is_pure_module(value):
                return value, iter(())
            fine = is_library(value) or (is_fixed(value) and not name.startswith("_"))
            return None, iter([] if fine else [f"{module.__name__}.{name} in {where}"])
        dunder = name.startswith("__") and name.endswith("__") and name not in _HARMLESS_DUNDERS
        constructing = name == "__init__" and function.__name__ == "__init__"
        if name in _ESCAPES or (dunder and not constructing):
            return None, iter([f"{name!r} in {where}"])
        definitions = self.methods.get(name, [])
        return None, (words for one in definitions for words in self.value(one, name))


def _is_frozen(value: Any) -> bool:
    """Whether a value is an instance of a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)
