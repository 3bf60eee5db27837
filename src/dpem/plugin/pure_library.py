"""Library code that plug-in models may use on rows, identified by object identity: names can be faked.

Functions and classes of these modules keep nothing of their arguments. Exceptions (generators, files, error
settings, uninitialised memory) are excluded by name.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types

__all__ = ["SAFE_BUILTINS", "is_installed", "is_library", "is_pure_module"]

_MODULES = [
    "abc",
    "cmath",
    "collections",
    "collections.abc",
    "contextlib",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "itertools",
    "math",
    "numbers",
    "operator",
    "statistics",
    "types",
    "typing",
    "warnings",
    "numpy",
    "numpy.linalg",
    "numpy.typing",
    "scipy",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
]
# Names in these modules that keep or show their arguments, or return uninitialised memory.
_EXCLUDED = [
    "attrgetter",
    "methodcaller",
    "cache",
    "lru_cache",
    "cached_property",
    "singledispatch",
    "redirect_stdout",
    "redirect_stderr",
    "getcontext",
    "setcontext",
    "localcontext",
    "catch_warnings",
    "filterwarnings",
    "simplefilter",
    "resetwarnings",
    "showwarning",
    "empty",
    "empty_like",
    "frombuffer",
    "fromfile",
    "genfromtxt",
    "get_printoptions",
    "load",
    "loadtxt",
    "memmap",
    "nditer",
    "printoptions",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "set_printoptions",
    "setbufsize",
    "seterrcall",
    "show_config",
    "info",
    "test",
    "seterr",
]
_ALLOWED = {("numpy", "seterr")}  # lasts for one row only: settings are reset for every row

SAFE_BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "ascii",
        "bin",
        "bool",
        "bytearray",
        "bytes",
        "callable",
        "chr",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "filter",
        "float",
        "format",
        "frozenset",
        "hash",
        "hex",
        "int",
        "isinstance",
        "issubclass",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "object",
        "oct",
        "ord",
        "pow",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "staticmethod",
        "str",
        "sum",
        "super",
        "tuple",
        "type",
        "zip",
        "property",
        "NotImplemented",
        "Ellipsis",
        "classmethod",
        "hasattr",
    ]
) | frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
)


@cache
def _pure_modules() -> dict[int, types.ModuleType]:
    found: dict[int, types.ModuleType] = {}
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            module = sys.modules.get(name) or importlib.import_module(name)
            if is_installed_module(module):
                found[id(module)] = module
    return found


@cache
def _library() -> dict[int, Any]:
    """Return functions and classes of pure modules by id; references keep the ids valid."""
    found: dict[int, Any] = {}
    for module in _pure_modules().values():
        for name, value in vars(module).items():
            excluded = name in _EXCLUDED and (module.__name__, name) not in _ALLOWED
            if not excluded and not name.startswith("_") and callable(value):
                found[id(value)] = value
    return found


def is_pure_module(module: Any) -> bool:
    """Whether a module is one of the modules whose functions keep nothing."""
    return id(module) in _pure_modules()


def is_library(value: Any) -> bool:
    """Whether a function, class or object belongs to a pure module."""
    return id(value) in _library()


@cache
def _installed_folders() -> tuple[Path, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    own = Path(__file__).resolve().parents[1]  # this package, wherever it is
    return (own, *{Path(sysconfig.get_path(kind)).resolve() for kind in kinds})


def is_installed_module(module: Any) -> bool:
    """Whether a module comes with Python or from an installed package, not from the user's own files."""
    file = getattr(module, "__file__", None)
    if file is None:  # built in
        return getattr(module, "__name__", "") in sys.builtin_module_names
    return any(folder in Path(file).resolve().parents for folder in _installed_folders())


def is_installed(kind: type) -> bool:
    """Whether a class is defined, under its own name, in a module of Python or an installed package."""
    module = sys.modules.get(kind.__module__)
    found: Any = module
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind and (module is builtins or is_installed_module(module))
