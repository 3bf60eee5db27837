"""Silence warnings of the current thread only.

`warnings.catch_warnings` replaces the filters of the whole process. It hides warnings of other threads, and
if two threads leave it in another order than they entered, the wrong filters stay. This module installs one
filter while any thread is inside a quiet block. The category of the filter matches a warning only if the
thread that issues it is inside such a block.
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
    """The number of nested quiet blocks that this thread is in."""

    depth = 0


_HERE = _Depth()


class _InQuietBlocks(type):
    def __subclasscheck__(cls, _: type) -> bool:
        return _HERE.depth > 0


class QuietWarning(Warning, metaclass=_InQuietBlocks):
    """A category that matches the warnings of threads inside a quiet block only."""


class _Silence:
    """The filter and the display hook, installed while at least one thread is inside a quiet block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filter: Any = ("ignore", None, QuietWarning, None, 0)
        self._threads = 0
        self._lists: list[Any] = []  # all lists of filters that contain ours
        self._show: Any = None

    def enter(self) -> None:
        with self._lock:
            module: Any = warnings
            if self._threads == 0:
                # Third-party code may put its own filters before ours; the hook stops what they let through.
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
            for filters in [*self._lists, module.filters]:  # another thread may have replaced the list
                filters[:] = [entry for entry in filters if entry is not self._filter]
            self._lists.clear()

    def _show_elsewhere(self, message: Any) -> None:
        if _HERE.depth == 0:
            self._show(message)


_SILENCE = _Silence()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and floating-point errors of this thread inside the block."""
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
