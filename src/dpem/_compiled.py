"""Compiled kernels (the extra `fast`): whether they are available, and how they are compiled.

A kernel returns the same bits as the NumPy code that it replaces. It runs outside the interpreter's lock, so
that threads do not wait for each other. Modules of kernels import numba, and are imported when first used.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["EXACT_SUMS", "are_available", "compiled", "kernel_module"]

ENABLED = True  # tests disable them: NumPy gives the same bits

# Compiler options for sums of integers below 2^53: exact in every order, and with fused multiply-adds.
EXACT_SUMS = {"fastmath": {"reassoc", "contract", "nsz"}}


def are_available() -> bool:
    """Return whether kernels can be compiled: numba is installed."""
    return ENABLED and _has_numba()


def kernel_module(name: str) -> ModuleType | None:
    """Return the module `name` of compiled kernels, or None if numba is not installed."""
    return import_module(name) if are_available() else None


@lru_cache(maxsize=1)
def _has_numba() -> bool:
    return find_spec("numba") is not None


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function at its first call, and keeps the result in a file."""
    import numba  # noqa: PLC0415  (the extra `fast`)

    def compile_lazily(function: Any) -> Any:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            return numba.njit(cache=True, **settings)(function)
        except RuntimeError:  # no folder to keep compiled code in: compile in every process
            return numba.njit(**settings)(function)

    return compile_lazily
