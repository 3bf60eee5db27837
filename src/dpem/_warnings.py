"""Warnings of dpem: issued, or collected where someone asks what a fit would warn of."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpem.errors import DpemWarning

__all__ = ["collected_warnings", "warn"]

_collector: ContextVar[list[str] | None] = ContextVar("dpem_warnings", default=None)


def warn(message: str, category: type[DpemWarning], stacklevel: int = 1) -> None:
    """Issue a warning at the caller's caller and so on, or hand it to who collects them here."""
    collector = _collector.get()
    if collector is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    else:
        collector.append(message)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect messages in this block instead of issuing them; other threads are not concerned.

    `warnings.catch_warnings` would swap filters of the whole process, also those of other threads.
    """
    found: list[str] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)
