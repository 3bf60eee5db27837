"""Choose compiled kernels if the extra `fast` is installed. They are imported at the first use."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["compiled_kernels"]

ENABLED = True  # tests set it to False; NumPy gives the same bits
# With more columns, matrix products are faster.
_LARGEST_DIMENSION = 20


def compiled_kernels(n_columns: int) -> ModuleType | None:
    """Return `dpem.statistics.kernels_numba`, or None without numba or where NumPy is faster."""
    return _kernels() if ENABLED and n_columns <= _LARGEST_DIMENSION else None


@lru_cache(maxsize=1)
def _kernels() -> ModuleType | None:
    return import_module("dpem.statistics.kernels_numba") if find_spec("numba") is not None else None
