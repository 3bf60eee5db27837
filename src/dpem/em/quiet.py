"""Code of others, run on a row: nothing that it says may be heard.

Warnings are silenced for the running thread alone, through one filter whose pattern asks where it is: filters
are shared by all threads of a process, and swapping them in and out would let warnings of others through.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["quiet"]


class _Here(threading.local):
    """A pattern that matches every message in threads that are in a quiet block, and none elsewhere."""

    depth = 0

    def match(self, _: str) -> bool:
        return self.depth > 0


_HERE = _Here()
_FILTER: Any = ("ignore", _HERE, Warning, None, 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Let neither warnings nor floating-point errors of this thread out of the block."""
    filters: Any = warnings.filters
    if not filters or filters[0] is not _FILTER:
        filters.insert(0, _FILTER)
        warnings._filters_mutated()  # type: ignore[attr-defined]
    _HERE.depth += 1
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _HERE.depth -= 1
