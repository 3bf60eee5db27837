"""Ctrl-C that waits: for steps of which both or neither must happen."""

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
    """Let an interrupt from the keyboard wait until the block has ended; `note` is then added to it."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # interrupts go to the main thread, or to a program that Python is part of
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        try:
            signal.raise_signal(signal.SIGINT)  # to whom it was meant for
        except BaseException as error:
            if note is not None:
                error.add_note(note)
            raise
