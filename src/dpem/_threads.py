"""Number of threads of a fit, and a limit of one thread for BLAS.

The last bits of eigenvalues and inverses depend on the number of BLAS threads.
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

__all__ = ["limit_this_thread", "one_thread", "thread_count"]


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Finding the libraries takes milliseconds, so it is done once. Only those of NumPy and scikit-learn
    # matter, and the import loads them.
    import sklearn.cluster  # noqa: F401, PLC0415

    return ThreadpoolController()


class _SharedPools:
    """BLAS thread pools, which all threads of the process share: limited to one thread while in use.

    Users are counted. If each block set and restored the limit by itself, overlapping blocks would leave a
    limit behind.
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
        # Since version 3.8, threadpoolctl lets only the thread that set a number first change it again.
        release = getattr(library, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


_SHARED = _SharedPools()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread inside the block."""
    own = _with_own_limits()
    before = [(library, library.num_threads) for library in own]
    _SHARED.enter([library for library in _controller().lib_controllers if library not in own])
    try:
        limit_this_thread()
        yield
    finally:
        for library, number in before:
            library.set_num_threads(number)
        _SHARED.leave()


def limit_this_thread() -> None:
    """Limit OpenMP to one thread for calls from this thread, until it ends."""
    for library in _with_own_limits():
        library.set_num_threads(1)


@lru_cache(maxsize=1)
def _with_own_limits() -> list[Any]:
    """Return OpenMP, which has a limit for each thread; BLAS with its own threads has one for all."""
    return [
        library
        for library in _controller().lib_controllers
        if "openmp" in (library.user_api, getattr(library, "threading_layer", ""))
    ]


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`, as scikit-learn's threaded estimators do.

    None and -1 mean all cores that this process may use, -2 all but one, and so on.

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
    remedy = "Pass -1 for all cores, or -2 for all but one."
    n_jobs = _validate.integer(n_jobs, "n_jobs", -sys.maxsize, remedy)
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else _validate.integer(n_jobs, "n_jobs", remedy=remedy)
