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
import sqlite3
import warnings
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.errors import InvalidArgumentError, ResumedFitWarning, TranscriptError
from dpem.privacy.randomness import PublicRandom, fresh_seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpem.em.plan import Plan
    from dpem.em.statistics import ReleasedStatistics
    from dpem.privacy.ledger import Ledger

__all__ = ["Transcript", "active_transcript", "resumable"]

_APPLICATION_ID = 0x6470656E
_CREATE = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = 1;
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE release (
    number INTEGER PRIMARY KEY, stage TEXT NOT NULL, noisy BLOB NOT NULL, insecure_noise INTEGER NOT NULL
);
COMMIT;
"""

_active: ContextVar[Transcript | None] = ContextVar("dpem_transcript", default=None)


def active_transcript() -> Transcript | None:
    """Return the transcript that fits are to use here, if any."""
    return _active.get()


@contextmanager
def resumable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let the one fit in the block survive a crash: run the same program again, and it goes on.

    What the fit releases is written to a file as it goes. A later run with the same arguments reads it there:
    it is neither computed nor paid again, and a warning says so. Use the same rows. Delete the file once the
    model is saved; a copy of it must never be used for a second fit.

    Parameters
    ----------
    path : path-like
        The file; made where there is none.

    Raises
    ------
    TranscriptError
        Where the file belongs to another fit, is in use, or cannot be written; nothing was charged.

    Examples
    --------
    >>> import tempfile, warnings
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> file = Path(tempfile.mkdtemp()) / "fit.transcript"
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
    with _opened(Path(path)) as connection:
        token = _active.set(Transcript(connection, str(path)))
        try:
            yield
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        finally:
            _active.reset(token)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        # Made readable by its owner alone; values are released, but when is for the owner to say.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    with closing(connection):
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA synchronous = EXTRA")
            found = connection.execute("PRAGMA application_id").fetchone()[0]
            if found == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                connection.executescript(_CREATE)
            elif found != _APPLICATION_ID:
                raise TranscriptError(f"Expected a transcript of a fit, got {str(path)!r}, which is none.")
            # Takes the lock, and keeps it until the connection closes or the process dies.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        yield connection


class Transcript:
    """The released statistics of one fit, and the public facts that say which fit it is."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._begun = False
        self._position = 0

    def public_seed(self, random_state: Any) -> Any:
        """Return what seeds free choices: they must be those of the run that is continued."""
        if self._begun:
            return random_state
        if random_state is None:
            return int(self._fact("seed", fresh_seed()))
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
            raise TranscriptError(
                f"Expected one fit in dpem.resumable({self._path!r}), got another. Give each a file of its "
                f"own."
            )
        self._begun = True
        text = json.dumps([purpose, plan.to_dict(), facts], sort_keys=True)
        which = hashlib.sha256(text.encode()).hexdigest()
        charged = self._value("charge")
        if self._fact("fit", which) != which:
            raise TranscriptError(
                f"Expected the fit that {self._path!r} was made by, got one with other arguments. Nothing "
                f"was charged. Repeat it as it was, or give this one a file of its own."
            )
        if charged is None:
            return False
        self._check_charge(json.loads(charged), plan, ledger)
        n = self._connection.execute("SELECT count(*) FROM release").fetchone()[0]
        warnings.warn(
            f"This fit continues the one in {self._path!r}: {n} releases are read there. The plan was paid "
            f"for then and is not charged again.",
            ResumedFitWarning,
            stacklevel=6,
        )
        return True

    def _check_charge(self, charge: dict[str, Any], plan: Plan, ledger: Ledger | None) -> None:
        """Raise unless the ledger, or the lack of one, is that of the run that is continued."""
        if ledger is None and not charge:
            return
        if ledger is not None and charge.get("ledger") == ledger.name:
            for spend in ledger.history():
                if (spend.number, spend.time) == (
                    charge["number"],
                    charge["time"],
                ) and spend.event == plan.event:
                    return
        raise TranscriptError(
            f"Expected the ledger that paid for the fit in {self._path!r}"
            + (f", that of {charge['ledger']!r}" if charge else ": none did")
            + ". Nothing was charged and nothing was read."
        )

    def paid(self, charge: dict[str, Any]) -> None:
        """Note the charge, empty where there is no ledger: from here on the fit can be continued."""
        self._fact("charge", json.dumps(charge))

    def next_release(self, stage: str, size: int) -> tuple[np.ndarray[Any, Any], bool] | None:
        """Return the next release of an earlier run, or None where it has ended."""
        row = self._connection.execute(
            "SELECT stage, noisy, insecure_noise FROM release WHERE number = ?", (self._position,)
        ).fetchone()
        if row is None:
            return None
        values = np.frombuffer(row[1], dtype="<f8").copy()
        if row[0] != stage or values.size != size:
            raise TranscriptError(
                f"Expected the releases of the same fit in {self._path!r}, but they differ at {row[0]!r}. "
                f"Nothing more was released. It was made by another version or with other libraries."
            )
        self._position += 1
        return values, bool(row[2])

    def add(self, released: ReleasedStatistics) -> None:
        """Write a release to disk, before anyone sees it."""
        row = self._position, released.stage, released.values.astype("<f8").tobytes(), released.insecure_noise
        self._connection.execute("INSERT INTO release VALUES (?, ?, ?, ?)", row)
        self._position += 1

    def _fact(self, name: str, value: Any) -> str:
        """Return what is noted under a name, after noting it where nothing is."""
        self._connection.execute("INSERT OR IGNORE INTO fact VALUES (?, ?)", (name, str(value)))
        return str(self._value(name))

    def _value(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])


def _unusable(path: str | os.PathLike[str], error: Exception) -> TranscriptError:
    if "locked" in str(error):
        return TranscriptError(
            f"Expected a transcript that no other fit uses, got {str(path)!r}, which one does."
        )
    return TranscriptError(
        f"Expected a transcript that can be read and written at {str(path)!r}, but the system says: {error}."
    )


def require_no_recording(*, recording: bool) -> None:
    """Raise where raw values are recorded too: a continued fit has none."""
    if recording and active_transcript() is not None:
        raise InvalidArgumentError("Expected dpem.testing.record or dpem.resumable, got both.")
