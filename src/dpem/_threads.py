"""Threads: how many a caller wants, and one for BLAS.

Eigenvalues and inverses change their last bits with the number of BLAS threads.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from dpem import _validate

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["one_thread", "thread_count"]


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Looking for libraries takes milliseconds, so it is done once. NumPy's and scikit-learn's, which are all
    # that is used here, are loaded by then.
    import sklearn.cluster  # noqa: F401, PLC0415

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS and OpenMP use one thread."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1)
    return limited


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
