"""One BLAS thread: eigenvalues and inverses change their last bits with the number of threads."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["one_thread"]


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
