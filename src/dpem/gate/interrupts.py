"""Delay Ctrl-C during steps that must happen together or not at all."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted(note: str | None = None) -> Iterator[None]:
    """Delay a keyboard interrupt until the block ends, and then add `note` to its exception."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # interrupts reach the main thread only, or a program that embeds Python
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        try:
            signal.raise_signal(signal.SIGINT)  # to the handler that was installed before
        except BaseException as error:
            if note is not None:
                error.add_note(note)
            raise
