"""Compiled kernels (the extra `fast`): whether they are available, and how they are compiled.

A kernel over rows returns the same bits as the NumPy code that it replaces. It runs outside the interpreter's
lock, so that threads do not wait for each other. Modules of kernels import numba, and are imported when first
used.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = ["EXACT_SUMS", "are_used", "compiled", "for_any_size", "kernel_module"]

ENABLED = True  # tests disable them: NumPy gives the same bits
# Cells of a block from which on a kernel is used. Below, NumPy is as fast, and nothing needs compiling.
_FEWEST_CELLS = 1 << 15

# Compiler options for sums of integers below 2^53: exact in every order, and with fused multiply-adds.
EXACT_SUMS = {"fastmath": {"reassoc", "contract", "nsz"}}


def are_used(n_cells: int) -> bool:
    """Return whether kernels are used for a block of so many cells: numba is installed, and it is large."""
    return ENABLED and n_cells >= _FEWEST_CELLS and _has_numba()


def kernel_module(name: str, n_cells: int) -> ModuleType | None:
    """Return the module `name` of compiled kernels, or None if NumPy is used."""
    return import_module(name) if are_used(n_cells) else None


@contextmanager
def for_any_size() -> Iterator[None]:
    """Use kernels for small blocks too: audits and tests attack them with few rows."""
    global _FEWEST_CELLS  # noqa: PLW0603
    before, _FEWEST_CELLS = _FEWEST_CELLS, 0
    try:
        yield
    finally:
        _FEWEST_CELLS = before


@lru_cache(maxsize=1)
def _has_numba() -> bool:
    return find_spec("numba") is not None


@lru_cache(maxsize=1)
def _sources_of_kernels() -> str:
    """Return a hash of everything that compiled code is made from."""
    here = Path(__file__).parent
    files = [
        *sorted(here.glob("statistics/kernels/*.py")),
        *(here / name for name in ("_compiled.py", "data/cell_kernel.py", "data/grid_kernel.py")),
        *(here / name for name in ("data/domain.py", "models/table/descent_kernel.py")),
        *(here / "statistics" / name for name in ("softmax.py", "missing_cells.py")),
    ]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function at its first call, and keeps the result in a file."""
    import numba  # noqa: PLC0415  (the extra `fast`)

    def compile_lazily(function: Any) -> Any:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            found = numba.njit(cache=True, **settings)(function)
        except RuntimeError:  # no folder to keep compiled code in: compile in every process
            return numba.njit(**settings)(function)
        # numba compares only the file of the function itself, but a kernel contains what it calls.
        found._cache._cache_file._source_stamp = _sources_of_kernels()
        return found

    return compile_lazily
