"""Observe a run: its releases, and everything else that can be seen from outside."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import logging
import pickle
import struct
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from dpem.fitting.standard_errors import few_draws
from dpem.gate.progress import listening
from dpem.gate.recording import RecordedRelease, Recording, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.privacy.ledger import Ledger
    from dpem.privacy.statement import PrivacyStatement

__all__ = ["Observation", "flattened", "observe", "one_at_a_time", "record_releases"]

_PACKAGE = str(Path(__file__).parents[1])
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_LOCK = threading.RLock()
_PLAIN = {bool, bytes, complex, int, str, type(None)}


def one_at_a_time(audit: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let an audit wait for audits in other threads, because each observes the whole process.

    It still observes what other threads print.
    """

    @functools.wraps(audit)
    def waiting(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with _LOCK:
            return audit(*arguments, **named)

    return waiting


@dataclass(frozen=True, eq=False)
class Observation:
    """One run, observed from inside and from outside.

    Attributes
    ----------
    transcript : Recording
        All releases, including raw values.
    seen : dict of str to bytes
        Everything that can be seen from outside, by name: attributes, warnings, printed lines, progress,
        exceptions.
    result : object
        The release, or None if the run raised.
    error : str
        Text of the exception, if any.
    """

    transcript: Recording
    seen: dict[str, bytes]
    result: Any
    error: str = ""

    @property
    def releases(self) -> list[RecordedRelease]:
        """The releases, in order."""
        return self.transcript.releases

    @property
    def statement(self) -> PrivacyStatement | None:
        """The privacy statement of the result."""
        for name in ("privacy_", "privacy"):
            if hasattr(self.result, name):
                return getattr(self.result, name)  # type: ignore[no-any-return]
        return None


def observe(
    subject: Subject, rows: Any, replayed: Recording | None = None, ledger: Ledger | None = None
) -> Observation:
    """Run and record a subject on rows; with `replayed`, the noisy values of that recording are reused."""
    transcript, printed = Recording(replay=replayed), io.StringIO()
    steps: list[tuple[str, int, int]] = []
    result, error = None, ""
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        few_draws(2),
        _log_records() as logged,
        listening(lambda *step: steps.append(step)),
        recording(transcript),
    ):
        warnings.simplefilter("always")
        try:
            result = subject.run(rows, ledger)
        except Exception as raised:  # noqa: BLE001  (an exception is part of what can be seen)
            error = _all_words(raised)
    seen = flattened(
        {
            "error": error,
            "warnings": [f"{warning.category.__name__}: {warning.message}" for warning in warned],
            "printed lines": printed.getvalue().splitlines(),
            "log records": logged,
            "progress": steps,
            "result": result,
        }
    )
    return Observation(transcript, seen, result, error)


def _all_words(raised: BaseException | None) -> str:
    """Return the text of an exception, with its notes and the exceptions that led to it."""
    words: list[str] = []
    while raised is not None and len(words) < 20:
        words.append(f"{type(raised).__name__}: {raised}")
        words += [f"note: {note}" for note in getattr(raised, "__notes__", ())]
        raised = raised.__cause__ or raised.__context__
    return "\n".join(words)


@contextlib.contextmanager
def _log_records() -> Iterator[list[str]]:
    """Collect all log records of the package, of every level and logger, even without handlers."""
    found: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # Ignore records of cluster libraries, for example about tasks and connections.
            if record.name.partition(".")[0] != "dpem" and not record.pathname.startswith(_PACKAGE):
                return
            found.append(f"{record.name} {record.levelname} {record.getMessage()}")

    handler = Collecting(level=0)
    root, before = logging.getLogger(), logging.root.manager.disable
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "dpem"]
    loggers = [root, *map(logging.getLogger, names)]
    levels = [logger.level for logger in loggers]
    root.addHandler(handler)
    logging.disable(logging.NOTSET)
    for logger in loggers:
        logger.setLevel(1)
    try:
        yield found
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        logging.disable(before)
        root.removeHandler(handler)


class _EnoughError(BaseException):
    """Raised after the last release, to skip post-processing, which may take long."""


@dataclass
class _Releases(Recording):
    """A recording that ends a run at its last release."""

    is_last: bool = False

    def listen(self, _: str, done: int, planned: int) -> None:
        self.is_last = done + 1 >= planned

    def pass_through(self, release: RecordedRelease) -> NDArray[np.float64]:
        noisy = super().pass_through(release)
        if self.is_last:
            raise _EnoughError
        return noisy


def record_releases(subject: Subject, rows: Any) -> Recording:
    """Run a subject on rows until its last release; return the recording."""
    transcript = _Releases()
    with (
        warnings.catch_warnings(action="ignore"),
        contextlib.redirect_stderr(io.StringIO()),
        listening(transcript.listen),
        recording(transcript),
        contextlib.suppress(_EnoughError),
    ):
        subject.run(rows, None)
    return transcript


def flattened(value: Any, *, declared: bool = False) -> dict[str, bytes]:
    """Return the whole content of an object, bit by bit, under dotted names.

    With `declared`, only the fields of dataclasses count, because a statistic may cache work on rows.
    """
    found: dict[str, bytes] = {}
    _flatten(value, "", found, set(), declared)
    return found


def _flatten(value: Any, name: str, found: dict[str, bytes], above: set[int], declared: bool) -> None:
    if type(value) in _PLAIN:  # most parts: the tests of classes below would take longer
        found[name] = repr(value).encode()
        return
    if isinstance(value, float):  # by bits: -0.0 differs from 0.0, and NaN equals NaN
        found[name] = struct.pack("<d", value)
        return
    if value is None or isinstance(value, str | bytes | int | complex):
        found[name] = repr(value).encode()
        return
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        array = np.asarray(value)
        found[name] = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
        return
    if id(value) in above:  # a cycle
        found[name] = b"above"
        return
    above = above | {id(value)}
    parts = _parts(value, declared)
    if parts is None:
        found[name] = _pickled(value)
        return
    found[name] = type(value).__qualname__.encode()
    for key, part in parts:
        _flatten(part, f"{name}.{key}" if name else str(key), found, above, declared)


def _parts(value: Any, declared: bool) -> list[tuple[Any, Any]] | None:
    """Return the parts of an object by name, or None if it has no parts."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, np.ndarray):
        return [*enumerate(value.ravel().tolist()), ("shape", value.shape)]
    if isinstance(value, Sequence):
        return list(enumerate(value))
    if isinstance(value, type) or callable(value) or not hasattr(value, "__dict__"):
        return None
    if declared and dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return list(vars(value).items())


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001  (locks and local functions, which contain no rows)
        return type(value).__qualname__.encode()
