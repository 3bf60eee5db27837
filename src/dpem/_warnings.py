"""Issue warnings at the caller's line, or collect them for the planner to list."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["collected_warnings", "warn"]

_PACKAGE = str(Path(__file__).parent)
_collector: ContextVar[list[str] | None] = ContextVar("dpem_warnings", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at the first line outside dpem, or hand it to `collected_warnings`."""
    collector = _collector.get()
    if collector is None:
        warnings.warn(message, category, stacklevel=_level_of_caller())
    else:
        collector.append(message)


def _level_of_caller() -> int:
    """Return the stack level, as `warn` counts it, of the first frame outside this package."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect messages in this block instead of issuing them; other threads are not affected.

    `warnings.catch_warnings` would replace the filters of all threads.
    """
    found: list[str] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)
