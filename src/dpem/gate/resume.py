"""Resumable fits: a fit that crashed continues from its releases on disk, without a second charge.

A release is on disk before the fit uses it. After a crash the same fit reads the earlier releases from the
file, which costs nothing, and continues with the next one. Nobody has seen a release that is not on disk. The
file contains released values and public facts only. It is locked while a fit uses it: two fits that continue
from the same place would release the next stage twice and be charged once.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sqlite3
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
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
    from pathlib import Path

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
    """Return the current resume file, if any."""
    return _active.get()


@contextmanager
def resumable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let the fit in the block survive a crash: run the same program again, and it continues.

    The releases of the fit, in this thread and process, are written to a file one by one. A later run with
    the same arguments reads them from there. They are neither computed nor charged again, and a warning says
    so. Use the same rows. Delete the file once the model is saved. Never use a copy of the file for a second
    fit.

    Parameters
    ----------
    path : path-like
        The resume file. It is created if it does not exist, and removed if an exception ends the fit before
        the charge.

    Raises
    ------
    ResumeFileError
        If the file belongs to another fit, is in use, or cannot be written. Nothing was charged.

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
    file = _validate.path(path).expanduser()
    with _opened(file) as connection:
        resume_file = ResumeFile(connection, str(path))
        token = _active.set(resume_file)
        try:
            yield
        except BaseException:
            with suppress(ResumeFileError):  # a forked process must not remove the file
                if not resume_file.is_paid:  # it is of no use, and locked, so nobody else uses it
                    file.unlink(missing_ok=True)
            raise
        finally:
            _active.reset(token)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open or create the file, and lock it until the block or the process ends.

    SQLite's own lock would be lost as soon as anything in this process closes the file.
    """
    try:
        # Readable by its owner only: its values are released, but the owner decides when to publish them.
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
                        f"Expected a resume file of this version of dpem, got another file: {str(path)!r}. "
                        f"Choose a new file."
                    )
            except SQLITE_ERRORS as error:
                raise _unusable(path, error) from error
            yield connection
    finally:
        os.close(held)


def _lock(held: int, path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  (Unix only; other systems rely on SQLite's lock)
    except ImportError:
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ResumeFileError(
            f"Expected a resume file that no other fit uses, got {str(path)!r}, which is in use. Wait for "
            f"the other fit, or choose another file."
        ) from error


class ResumeFile:
    """The released statistics of one fit, and public facts that identify the fit."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._process = os.getpid()
        self._which = ""
        self._begun = False
        self._position = 0

    def public_seed(self, random_state: Any) -> Any:
        """Return the seed of choices without privacy, which must be that of the run to continue."""
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
                "The resume file does not keep its state.",
            )
        return random_state

    def begin(self, purpose: str, plan: Plan, ledger: Ledger | None, identity: Any) -> bool:
        """Return whether an earlier run of this fit was charged; raise if the file is that of another fit."""
        if self._begun:
            raise ResumeFileError(
                f"Expected one fit in dpem.resumable({self._path!r}), got a second one. Use a separate file "
                f"for each fit."
            )
        self._begun = True
        text = json.dumps([purpose, plan.to_dict(), identity], sort_keys=True)
        self._which = hashlib.sha256(text.encode()).hexdigest()
        if not self.is_paid:
            return False  # nothing was charged or released, so an earlier attempt does not matter
        if self._value("fit") != self._which:
            raise ResumeFileError(
                f"Expected the fit that wrote {self._path!r}, got one with other arguments or another "
                f"number of rows. Nothing was charged. Repeat the fit with the same arguments, or use a "
                f"separate file for this one."
            )
        self._check_charge(ledger)
        n = self._run("SELECT count(*) FROM release")[0][0]
        warn(
            f"This fit continues the one in {self._path!r}: {n} releases are read from the file. The plan "
            f"was charged by the earlier run and is not charged again.",
            ResumedFitWarning,
        )
        return True

    def _check_charge(self, ledger: Ledger | None) -> None:
        """Raise unless the ledger (or its absence) and the source of noise are those of the earlier run."""
        charge, secure_noise = self._payment()
        if secure_noise != entropy().is_secure:
            wanted, got = ("secure", "seeded") if secure_noise else ("seeded", "secure")
            raise ResumeFileError(
                f"Expected noise from the same source as in {self._path!r}, which is {wanted}, got {got} "
                f"noise. Nothing was charged. Use a separate file for this fit."
            )
        if ledger is None and charge is None:
            return
        if ledger is not None and charge is not None:
            with suppress(LedgerTamperedError):
                ledger.verify(Head(charge.number, charge.hash))
                return
        paid = "no ledger" if charge is None else f"the ledger of {charge.ledger!r}"
        given = "no ledger" if ledger is None else f"another ledger of {ledger.name!r}"
        raise ResumeFileError(
            f"Expected {paid}, as in the earlier run of the fit in {self._path!r}, got {given}. Nothing was "
            f"charged and nothing was read."
        )

    def paid(self, charge: Charge | None) -> None:
        """Record that this fit was charged, and where: from now on only this fit can continue."""
        where = {"ledger": None, "number": None, "hash": None} if charge is None else charge.to_dict()
        self._run("BEGIN IMMEDIATE")
        self._fact("fit", self._which)
        self._fact("charge", json.dumps(where | {"secure_noise": entropy().is_secure}))
        self._run("COMMIT")

    @property
    def is_paid(self) -> bool:
        """Whether this fit, or the earlier run of it, was charged."""
        return self._value("charge") is not None

    @property
    def charge(self) -> Charge | None:
        """The charge of an earlier run to a ledger, if any."""
        return self._payment()[0] if self.is_paid else None

    def _payment(self) -> tuple[Charge | None, bool]:
        """Return the charge to a ledger, if any, and whether the noise was secure."""
        try:
            found = json.loads(self._value("charge") or "")
            charge = None if found["number"] is None else Charge.from_dict(found)
            return charge, found["secure_noise"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged() from error

    def next_release(self, stage: str, size: int) -> tuple[np.ndarray[Any, Any], bool] | None:
        """Return the next release of the earlier run, or None after its last release."""
        row = self._row("SELECT * FROM release WHERE number = ?", self._position)
        if row is None:
            return None
        _, found, noisy, insecure_noise = row
        values = np.frombuffer(noisy, dtype="<f8").copy()
        if found != stage or values.size != size:
            raise ResumeFileError(
                f"Expected the releases of the same fit in {self._path!r}, but they differ at {found!r}. "
                f"Nothing more was released. The file was written by another version of dpem or with other "
                f"libraries: continue with those."
            )
        self._position += 1
        return values, bool(insecure_noise)

    def add(self, released: ReleasedStatistics) -> None:
        """Write a release to disk, before anybody sees it."""
        noisy, insecure_noise = released.values.astype("<f8").tobytes(), int(released.insecure_noise)
        row = self._position, released.stage, noisy, insecure_noise
        self._run("INSERT INTO release VALUES (?, ?, ?, ?, ?)", *row, _digest(row))
        self._position += 1

    def _damaged(self) -> ResumeFileError:
        return ResumeFileError(
            f"Expected an intact resume file in {self._path!r}, got a damaged one. Nothing more was "
            f"released. Restore the file, or start the fit again with a new one, for a new charge."
        )

    def _fact(self, name: str, value: Any) -> str:
        """Store a value under a name unless there is one, and return the stored value."""
        row = name, str(value)
        self._run("INSERT OR IGNORE INTO fact VALUES (?, ?, ?)", *row, _digest(row))
        return str(self._value(name))

    def _value(self, name: str) -> str | None:
        row = self._row("SELECT * FROM fact WHERE name = ?", name)
        return None if row is None else str(row[1])

    def _row(self, query: str, key: Any) -> tuple[Any, ...] | None:
        """Verify the digest of a row and return the other fields: SQLite does not detect changed values."""
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
                f"would release the rest of the plan. Open a separate file in the forked process."
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
            f"Expected a resume file that no other fit uses, got {str(path)!r}, which is in use. Wait for "
            f"the other fit, or choose another file."
        )
    return ResumeFileError(
        f"Expected a resume file that can be read and written at {str(path)!r}, but the system says: "
        f"{getattr(error, 'strerror', None) or error}."
    )


def described(value: Any) -> Any:
    """Describe an argument, a statistic or a model by JSON that identifies it in any process."""
    value = value.to_dict() if hasattr(value, "to_dict") and not hasattr(value, "iloc") else value
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        pass
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:  # noqa: BLE001  (such as functions defined inside functions)
        return type(value).__qualname__


def require_no_recording(*, recording: bool) -> None:
    """Raise if raw values are recorded: a continued fit has no raw values."""
    if recording and active_resume_file() is not None:
        raise InvalidArgumentError(
            "Expected dpem.testing.record or dpem.resumable, got both. Leave one of them out."
        )
