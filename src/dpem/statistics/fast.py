"""Whether compiled kernels, the extra `fast`, are there. They are imported when first asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["compiled_kernels"]

ENABLED = True  # for tests: NumPy gives the same bits
# Above, matrix products win.
_LARGEST_DIMENSION = 20


def compiled_kernels(n_columns: int) -> ModuleType | None:
    """Return `dpem.statistics.kernels_numba` where numba is installed and faster for so many columns."""
    return _kernels() if ENABLED and n_columns <= _LARGEST_DIMENSION else None


@lru_cache(maxsize=1)
def _kernels() -> ModuleType | None:
    return import_module("dpem.statistics.kernels_numba") if find_spec("numba") is not None else None
