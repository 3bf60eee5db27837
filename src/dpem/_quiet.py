"""Silence warnings in the running thread alone, and leave no trace behind.

`warnings.catch_warnings` swaps the filters of the whole process: it hides warnings of other threads, and two
threads that leave it in another order than they entered it leave the wrong filters behind. Here one filter is
in place for as long as any thread is inside a quiet block. Its category asks, for every warning, whether the
thread that issues it is.
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


class _Depth(threading.local):
    """How many quiet blocks this thread is in."""

    depth = 0


_HERE = _Depth()


class _InQuietBlocks(type):
    def __subclasscheck__(cls, _: type) -> bool:
        return _HERE.depth > 0


class QuietWarning(Warning, metaclass=_InQuietBlocks):
    """Any warning of a thread that is inside a quiet block, and no other."""


class _Silence:
    """The filter, and what shows warnings: replaced while at least one thread is inside a quiet block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filter: Any = ("ignore", None, QuietWarning, None, 0)
        self._threads = 0
        self._lists: list[Any] = []  # all lists of filters that hold ours
        self._show: Any = None

    def enter(self) -> None:
        with self._lock:
            module: Any = warnings
            if self._threads == 0:
                # Filters that third-party code puts in front of ours let warnings through: not past this.
                self._show, module._showwarnmsg = module._showwarnmsg, self._show_elsewhere
            self._threads += 1
            filters = module.filters
            if not filters or filters[0] is not self._filter:
                filters.insert(0, self._filter)
                self._lists.append(filters)

    def leave(self) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads:
                return
            module: Any = warnings
            module._showwarnmsg = self._show
            for filters in [*self._lists, module.filters]:  # another thread may have swapped the list
                filters[:] = [entry for entry in filters if entry is not self._filter]
            self._lists.clear()

    def _show_elsewhere(self, message: Any) -> None:
        if _HERE.depth == 0:
            self._show(message)


_SILENCE = _Silence()


@contextmanager
def quiet() -> Iterator[None]:
    """Let neither warnings nor floating-point errors of this thread out of the block."""
    outermost = _HERE.depth == 0
    if outermost:
        _SILENCE.enter()
    _HERE.depth += 1
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _HERE.depth -= 1
        if outermost:
            _SILENCE.leave()
