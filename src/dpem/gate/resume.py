"""A long fit that survives a crash: what it has released is kept beside it, and not paid for again.

A release is on disk before the fit goes on with it. After a crash the same fit takes from the file what was
released, which is free, and goes on where it ended; a release that was not on disk was seen by nobody. The
file holds released values and public facts alone. It is locked while a fit uses it: two fits that go on from
the same place would release the next stage twice and pay once.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sqlite3
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem._warnings import warn
from dpem.errors import InvalidArgumentError, LedgerTamperedError, ResumedFitWarning, ResumeFileError
from dpem.privacy.ledger import Charge, Head
from dpem.privacy.ledger_sqlite import SQLITE_ERRORS
from dpem.privacy.randomness import PublicRandom, entropy, fresh_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpem.gate.plan import Plan
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.ledger import Ledger

__all__ = ["ResumeFile", "active_resume_file", "described", "resumable"]

_MARKS = {"application_id": 0x6470656E, "user_version": 2}
_CREATE = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_MARKS["application_id"]};
PRAGMA user_version = {_MARKS["user_version"]};
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE release (
    number INTEGER PRIMARY KEY, stage TEXT NOT NULL, noisy BLOB NOT NULL, insecure_noise INTEGER NOT NULL,
    digest TEXT NOT NULL
);
COMMIT;
"""

_active: ContextVar[ResumeFile | None] = ContextVar("dpem_resume_file", default=None)


def active_resume_file() -> ResumeFile | None:
    """Return the resume file that fits are to use here, if any."""
    return _active.get()


@contextmanager
def resumable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let the one fit in the block survive a crash: run the same program again, and it goes on.

    What the fit releases, in this thread and process, is written to a file as it goes. A later run with the
    same arguments reads it there: it is neither computed nor paid again, and a warning says so. Use the same
    rows. Delete the file once the model is saved; a copy of it must never be used for a second fit.

    Parameters
    ----------
    path : path-like
        The file; made where there is none, and removed by an error before anything was paid for.

    Raises
    ------
    ResumeFileError
        Where the file belongs to another fit, is in use, or cannot be written; nothing was charged.

    Examples
    --------
    >>> import tempfile, warnings
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> file = Path(tempfile.mkdtemp()) / "fit.resume"
    >>> def fit():
    ...     with dpem.resumable(file):
    ...         return dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X)
    >>> first = fit()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", dpem.errors.ResumedFitWarning)
    ...     again = fit()
    >>> bool((first.cluster_centers_ == again.cluster_centers_).all())
    True
    """
    file = Path(path).expanduser()
    with _opened(file) as connection:
        resume_file = ResumeFile(connection, str(path))
        token = _active.set(resume_file)
        try:
            yield
        except BaseException:
            with suppress(ResumeFileError):  # in a forked process: the file is not its to remove
                if not resume_file.is_paid:  # nobody needs it, and while it is locked nobody else has it
                    file.unlink(missing_ok=True)
            raise
        finally:
            _active.reset(token)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file, or make it, and hold a lock on it until the block or the process ends.

    SQLite's own lock would be lost as soon as anything in this process closes the file.
    """
    try:
        # Readable by its owner alone: values are released, but when is for the owner to say.
        held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        _lock(held, path)
        try:
            connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        except SQLITE_ERRORS as error:
            raise _unusable(path, error) from error
        with closing(connection):
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _MARKS]
                if found == [0, 0] and not connection.execute("SELECT * FROM sqlite_master").fetchall():
                    connection.executescript(_CREATE)
                elif found != list(_MARKS.values()):
                    raise ResumeFileError(
                        f"Expected a resume file of a fit by this version, got another file: {str(path)!r}."
                    )
            except SQLITE_ERRORS as error:
                raise _unusable(path, error) from error
            yield connection
    finally:
        os.close(held)


def _lock(held: int, path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  (Unix; elsewhere SQLite's lock has to do)
    except ImportError:
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ResumeFileError(
            f"Expected a resume file that no other fit uses, got {str(path)!r}, which one does."
        ) from error


class ResumeFile:
    """The released statistics of one fit, and the public facts that say which fit it is."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._process = os.getpid()
        self._which = ""
        self._begun = False
        self._position = 0

    def public_seed(self, random_state: Any) -> Any:
        """Return what seeds free choices: they must be those of the run that is continued."""
        if self._begun:
            return random_state
        if random_state is None:
            seed = self._fact("seed", fresh_seed())
            if not (seed.isascii() and seed.isdecimal() and int(seed[:11]) < 2**31):
                raise self._damaged()
            return int(seed)
        if isinstance(random_state, PublicRandom):
            raise _validate.fail(
                "an integer or None in a resumable fit",
                "random_state",
                "RandomState",
                "Its state is not kept.",
            )
        return random_state

    def begin(self, purpose: str, plan: Plan, ledger: Ledger | None, facts: Any) -> bool:
        """Say whether the plan was paid by an earlier run; raise where that was another fit."""
        if self._begun:
            raise ResumeFileError(
                f"Expected one fit in dpem.resumable({self._path!r}), got another. Give each a file of its "
                f"own."
            )
        self._begun = True
        text = json.dumps([purpose, plan.to_dict(), facts], sort_keys=True)
        self._which = hashlib.sha256(text.encode()).hexdigest()
        if not self.is_paid:
            return False  # nothing was paid or released: whatever was tried before does not bind
        if self._value("fit") != self._which:
            raise ResumeFileError(
                f"Expected the fit that {self._path!r} was made by, got one with other arguments or another "
                f"number of rows. Nothing was charged. Repeat it as it was, or give this one a file of its "
                f"own."
            )
        self._check_charge(ledger)
        n = self._run("SELECT count(*) FROM release")[0][0]
        warn(
            f"This fit continues the one in {self._path!r}: {n} releases are read there. The plan was paid "
            f"for then and is not charged again.",
            ResumedFitWarning,
        )
        return True

    def _check_charge(self, ledger: Ledger | None) -> None:
        """Raise unless ledger (or the lack of one) and noise are those of the run that is continued."""
        charge, secure_noise = self._payment()
        if secure_noise != entropy().is_secure:
            raise ResumeFileError(
                f"Expected noise from the same source as in {self._path!r}: seeded or not. Nothing was "
                f"charged."
            )
        if ledger is None and charge is None:
            return
        if ledger is not None and charge is not None:
            with suppress(LedgerTamperedError):
                ledger.verify(Head(charge.number, charge.hash))
                return
        paid = "none did" if charge is None else f"that of {charge.ledger!r}"
        raise ResumeFileError(
            f"Expected the ledger that paid for the fit in {self._path!r}: {paid}. Nothing was charged and "
            f"nothing was read."
        )

    def paid(self, charge: Charge | None) -> None:
        """Note which fit was paid, and where: from here on it can be continued, and no other."""
        where = {"ledger": None, "number": None, "hash": None} if charge is None else charge.to_dict()
        self._run("BEGIN IMMEDIATE")
        self._fact("fit", self._which)
        self._fact("charge", json.dumps(where | {"secure_noise": entropy().is_secure}))
        self._run("COMMIT")

    @property
    def is_paid(self) -> bool:
        """Whether this fit, or the one that it continues, was paid for."""
        return self._value("charge") is not None

    @property
    def charge(self) -> Charge | None:
        """What an earlier run paid for this fit, where it paid a ledger."""
        return self._payment()[0] if self.is_paid else None

    def _payment(self) -> tuple[Charge | None, bool]:
        """Return what a ledger was charged, where there was one, and whether noise was secure."""
        try:
            found = json.loads(self._value("charge") or "")
            charge = None if found["number"] is None else Charge.from_dict(found)
            return charge, found["secure_noise"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged() from error

    def next_release(self, stage: str, size: int) -> tuple[np.ndarray[Any, Any], bool] | None:
        """Return the next release of an earlier run, or None where it has ended."""
        row = self._row("SELECT * FROM release WHERE number = ?", self._position)
        if row is None:
            return None
        _, found, noisy, insecure_noise = row
        values = np.frombuffer(noisy, dtype="<f8").copy()
        if found != stage or values.size != size:
            raise ResumeFileError(
                f"Expected the releases of the same fit in {self._path!r}, but they differ at {found!r}. "
                f"Nothing more was released. It was made by another version or with other libraries."
            )
        self._position += 1
        return values, bool(insecure_noise)

    def add(self, released: ReleasedStatistics) -> None:
        """Write a release to disk, before anyone sees it."""
        noisy, insecure_noise = released.values.astype("<f8").tobytes(), int(released.insecure_noise)
        row = self._position, released.stage, noisy, insecure_noise
        self._run("INSERT INTO release VALUES (?, ?, ?, ?, ?)", *row, _digest(row))
        self._position += 1

    def _damaged(self) -> ResumeFileError:
        return ResumeFileError(
            f"Expected a whole resume file in {self._path!r}, got a damaged one. Nothing more was released."
        )

    def _fact(self, name: str, value: Any) -> str:
        """Return what is noted under a name, after noting it where nothing is."""
        row = name, str(value)
        self._run("INSERT OR IGNORE INTO fact VALUES (?, ?, ?)", *row, _digest(row))
        return str(self._value(name))

    def _value(self, name: str) -> str | None:
        row = self._row("SELECT * FROM fact WHERE name = ?", name)
        return None if row is None else str(row[1])

    def _row(self, query: str, key: Any) -> tuple[Any, ...] | None:
        """Return a row without its digest, which is checked: SQLite does not notice a changed value."""
        rows = self._run(query, key)
        if not rows:
            return None
        row = rows[0]
        if _digest(row[:-1]) != row[-1]:
            raise self._damaged()
        return tuple(row[:-1])

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        if os.getpid() != self._process:
            raise ResumeFileError(
                f"Expected the process that opened {self._path!r}, got one that was forked from it: both "
                f"would release the rest of the plan."
            )
        try:
            return self._connection.execute(statement, values).fetchall()
        except SQLITE_ERRORS as error:
            raise _unusable(self._path, error) from error


def _digest(row: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(row).encode()).hexdigest()


def _unusable(path: str | os.PathLike[str], error: Exception) -> ResumeFileError:
    if "locked" in str(error):
        return ResumeFileError(
            f"Expected a resume file that no other fit uses, got {str(path)!r}, which one does."
        )
    return ResumeFileError(
        f"Expected a resume file that can be read and written at {str(path)!r}, but the system says: {error}."
    )


def described(value: Any) -> Any:
    """Return an argument, a statistic or a model as JSON that tells it from others, in any process."""
    value = value.to_dict() if hasattr(value, "to_dict") and not hasattr(value, "iloc") else value
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        pass
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:  # noqa: BLE001  (functions that were made in a function, and the like)
        return type(value).__qualname__


def require_no_recording(*, recording: bool) -> None:
    """Raise where raw values are recorded too: a continued fit has none."""
    if recording and active_resume_file() is not None:
        raise InvalidArgumentError("Expected dpem.testing.record or dpem.resumable, got both.")
