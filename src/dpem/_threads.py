"""Threads: how many a caller wants, and one for BLAS.

Eigenvalues and inverses change their last bits with the number of BLAS threads.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from dpem import _validate

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_thread", "thread_count"]


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Looking for libraries takes milliseconds, so it is done once. NumPy's and scikit-learn's, which are all
    # that is used here, are loaded by then.
    import sklearn.cluster  # noqa: F401, PLC0415

    return ThreadpoolController()


class _SharedPools:
    """Thread pools of BLAS, which all threads of the process share: one thread while anyone needs that.

    If every block set its own limit and restored what it found, two that overlap would restore a limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self, libraries: list[Any]) -> None:
        with self._lock:
            if self._users == 0:
                self._before = [(library, library.num_threads) for library in libraries]
                _set_threads([(library, 1) for library in libraries])
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _set_threads(self._before)


def _set_threads(numbers: list[tuple[Any, int]]) -> None:
    for library, number in numbers:
        # From 3.8 on, threadpoolctl lets only the thread that set a number first change it again.
        release = getattr(library, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


_SHARED = _SharedPools()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and OpenMP use one thread inside the block."""
    libraries = _controller().lib_controllers
    # OpenMP keeps a number for each thread of the process, BLAS on its own threads one for all.
    own = [lib for lib in libraries if "openmp" in (lib.user_api, getattr(lib, "threading_layer", ""))]
    before = [(library, library.num_threads) for library in own]
    _SHARED.enter([library for library in libraries if library not in own])
    try:
        for library in own:
            library.set_num_threads(1)
        yield
    finally:
        for library, number in before:
            library.set_num_threads(number)
        _SHARED.leave()


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads `n_jobs` asks for, as in scikit-learn's own threaded estimators.

    None and -1 are all cores that this process may use, -2 all but one, and so on.

    Examples
    --------
    >>> thread_count(3)
    3
    >>> thread_count(None) == thread_count(-1) >= thread_count(-2) >= 1
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    remedy = "Or -1 for all cores, -2 for all but one."
    n_jobs = _validate.integer(n_jobs, "n_jobs", -sys.maxsize, remedy)
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else _validate.integer(n_jobs, "n_jobs", remedy=remedy)
