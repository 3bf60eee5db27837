"""Silence warnings in the running thread alone, and leave no trace behind.

`warnings.catch_warnings` swaps the filters of the whole process: it would hide warnings of other threads, and
two threads that leave it in another order than they entered it leave the wrong filters behind. Here one entry
is put in front of the filters for as long as any thread needs it. It matches only in threads that are inside
a quiet block.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["quiet", "without_warnings"]


class _HereAlone(threading.local):
    """A stand-in for a compiled pattern: it matches every message in threads inside a quiet block alone."""

    depth = 0
    pattern = "(?!)"  # what libraries read that copy filters to other processes: it matches nothing

    def match(self, _: str) -> bool:
        return self.depth > 0


class _Silence:
    """One entry of the warning filters, in place while at least one thread needs it."""

    def __init__(self, category: type[Warning]) -> None:
        self._here = _HereAlone()
        self._entry: Any = ("ignore", self._here, category, None, 0)
        self._lock = threading.Lock()
        self._users = 0
        self._lists: list[list[Any]] = []  # all lists that hold the entry because of this class

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            filters: Any = warnings.filters
            if not filters or filters[0] is not self._entry:
                self._remove_from(filters)
                filters.insert(0, self._entry)
                self._lists.append(filters)
                warnings._filters_mutated()  # type: ignore[attr-defined]
        self._here.depth += 1
        try:
            yield
        finally:
            self._here.depth -= 1
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    # Another thread may have swapped the list in between: clean both.
                    for held in [*self._lists, warnings.filters]:
                        self._remove_from(held)
                    self._lists.clear()
                    warnings._filters_mutated()  # type: ignore[attr-defined]

    def _remove_from(self, filters: Any) -> None:
        for place in reversed([i for i, entry in enumerate(filters) if entry is self._entry]):
            del filters[place]


_SILENCES: dict[type[Warning], _Silence] = {}
_NEW_SILENCE = threading.Lock()


def without_warnings(category: type[Warning] = Warning) -> Any:
    """Return a context in which this thread issues no warning of a category."""
    with _NEW_SILENCE:
        silence = _SILENCES.setdefault(category, _Silence(category))
    return silence()


@contextmanager
def quiet() -> Iterator[None]:
    """Let neither warnings nor floating-point errors of this thread out of the block."""
    with without_warnings(), np.errstate(all="ignore"):
        yield
