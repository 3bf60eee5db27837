"""A ledger store in one SQLite file."""

from __future__ import annotations

import sqlite3
import urllib.parse
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from dpem.errors import LedgerError
from dpem.privacy.ledger_chain import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dpem.privacy.ledger_chain import Record

__all__ = ["SQLITE_ERRORS", "SqliteLedger"]

# SQLite's message about a damaged file may quote bytes that Python cannot decode.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
APPLICATION_ID = 0x6470656D
_BUSY_SECONDS = 60.0
_SQLITE_START = b"SQLite format 3\0"  # of every database

TERMS = ("id", "name", "cap_epsilon", "cap_delta", "cap_units", "adjacency", "unit", "created", "hash")
SPEND = (
    "number",
    "time",
    "purpose",
    "analyst",
    "event",
    "facts",
    "insecure_noise",
    "units",
    "total_units",
    "hash",
)

# The file header contains "dpem" and the version of the format.
CREATE = """
BEGIN IMMEDIATE;
PRAGMA application_id = 0x6470656D;
PRAGMA user_version = 2;
CREATE TABLE terms (
    id TEXT NOT NULL, name TEXT NOT NULL, cap_epsilon REAL NOT NULL, cap_delta REAL NOT NULL,
    cap_units TEXT NOT NULL, adjacency TEXT NOT NULL, unit TEXT NOT NULL, created TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE TABLE spend (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, purpose TEXT NOT NULL, analyst TEXT NOT NULL,
    event TEXT NOT NULL, facts TEXT NOT NULL, insecure_noise INTEGER NOT NULL, units TEXT NOT NULL,
    total_units TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE TRIGGER terms_are_fixed BEFORE UPDATE ON terms
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER terms_stay BEFORE DELETE ON terms
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER spend_is_fixed BEFORE UPDATE ON spend
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER spend_stays BEFORE DELETE ON spend
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER spend_grows BEFORE INSERT ON spend
    WHEN NEW.number <= (SELECT COALESCE(MAX(number), 0) FROM spend)
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
"""
_APPEND_TERMS = f"INSERT INTO terms VALUES ({', '.join('?' * len(TERMS))})"  # noqa: S608
_APPEND_SPEND = f"INSERT INTO spend VALUES ({', '.join('?' * len(SPEND))})"  # noqa: S608
_SELECT_TERMS = f"SELECT {', '.join(TERMS)} FROM terms"  # noqa: S608  (our own names)
_SELECT_SPENDS = f"SELECT {', '.join(SPEND)} FROM spend ORDER BY number"  # noqa: S608
_SELECT_NEWEST = f"SELECT {', '.join(SPEND)} FROM spend ORDER BY number DESC LIMIT ?"  # noqa: S608


@contextmanager
def connection_to(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for one operation; SQLite rolls back an open transaction if anything fails.

    Every operation has its own connection, so that threads and forked processes share nothing.
    """
    # mode=rw never creates a file. isolation_level=None: the code below begins transactions itself.
    uri = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
        ) as connection:
            # A rollback journal keeps the ledger in one file; EXTRA makes a charge survive power loss.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection
    except SQLITE_ERRORS as error:  # full disk, read-only file, not a database, locked for a minute
        raise LedgerError(
            f"Expected a ledger that can be read and written at {str(path)!r}, but SQLite says: "
            f"{error}. Nothing was released."
        ) from error


class _Records:
    """The records of a ledger within one SQLite transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def terms(self) -> list[Record]:
        """Return all records of terms."""
        return _named(TERMS, self._connection.execute(_SELECT_TERMS).fetchall())

    def spends(self, newest: int | None = None) -> list[Record]:
        """Return all charges, or only the newest ones, oldest first."""
        if newest is None:
            return _named(SPEND, self._connection.execute(_SELECT_SPENDS).fetchall())
        return _named(SPEND, self._connection.execute(_SELECT_NEWEST, (newest,)).fetchall()[::-1])

    def append(self, spend: Record) -> None:
        """Add a charge."""
        self._connection.execute(_APPEND_SPEND, [spend[name] for name in SPEND])


class SqliteLedger:
    """A `LedgerStore` in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = repr(str(path))

    def create(self, terms: Record) -> None:
        """Create the file; raise if it exists."""
        try:
            self._path.open("x").close()  # fails if the file exists, so that two owners cannot both create it
        except FileExistsError as error:
            raise LedgerError(
                f"Expected a new file for the ledger, got path={self.where}, which exists. "
                f"Use the existing ledger, or choose another name."
            ) from error
        except OSError as error:
            raise LedgerError(
                f"Expected a folder that can be written, got path={self.where}: {error.strerror}. Create the "
                f"folder, or choose another."
            ) from error
        try:
            with connection_to(self._path) as connection:
                connection.executescript(CREATE)  # begins the transaction
                connection.execute(_APPEND_TERMS, [terms[name] for name in TERMS])
                connection.execute("COMMIT")
        except LedgerError:
            self._path.unlink(missing_ok=True)  # nothing was charged on it yet
            raise

    def check(self) -> None:
        """Raise unless the file is a ledger of this format."""
        self._require_database()
        with self._connected() as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        if self._path.stat().st_size == 0:
            raise LedgerError(
                f"Expected a dpem ledger, got path={self.where}, which is empty: its creation was "
                f"interrupted and nothing was charged on it. Delete it and create it again."
            )
        if application != APPLICATION_ID:
            raise LedgerError(
                f"Expected a dpem ledger, got path={self.where}, which is another file. "
                f"Create a ledger with dpem.Ledger.create(...), or dpem budget init."
            )
        if version != FORMAT_VERSION:
            raise LedgerError(
                f"Expected ledger format {FORMAT_VERSION}, got {version} in {self.where}. Use the release of "
                f"dpem that wrote it."
            )

    def _require_database(self) -> None:
        """Raise for a file of another format, such as a model, before SQLite opens it."""
        try:
            with self._path.open("rb") as file:
                start = file.read(len(_SQLITE_START))
        except OSError:
            return  # the connection explains what is wrong
        if start and start != _SQLITE_START:
            raise LedgerError(
                f"Expected a dpem ledger, got path={self.where}, which is not a ledger. Pass the file of a "
                f"ledger."
            )

    @contextmanager
    def reading(self) -> Iterator[_Records]:
        """Open a transaction with a consistent view of the records."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            yield _Records(connection)

    @contextmanager
    def appending(self) -> Iterator[_Records]:
        """Open a transaction in which no other process can append."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield _Records(connection)
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not self._path.is_file():
            raise LedgerError(
                f"Expected an existing ledger, got path={self.where}. "
                f"Create it with dpem.Ledger.create(...), or dpem budget init."
            )
        with connection_to(self._path) as connection:
            yield connection


def _named(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Record]:
    return [dict(zip(names, row, strict=True)) for row in rows]
