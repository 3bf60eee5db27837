"""The ledger's SQLite file: its tables, how it is opened, and the hash that chains its records."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import urllib.parse
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from dpem.errors import LedgerError, LedgerTamperedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT_VERSION = 2
APPLICATION_ID = 0x6470656D
_BUSY_SECONDS = 60.0

# What SQLite raises; of a damaged file it may quote bytes that are no text, which Python cannot decode.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)

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

# The header: "dpem" and the format's version.
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
INSERT_TERMS = "INSERT INTO terms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_SPEND = "INSERT INTO spend VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_TERMS = f"SELECT {', '.join(TERMS)} FROM terms"  # noqa: S608  (our own names)
SELECT_SPENDS = f"SELECT {', '.join(SPEND)} FROM spend ORDER BY number"  # noqa: S608
_SELECT_LAST_TWO = f"SELECT {', '.join(SPEND)} FROM spend ORDER BY number DESC LIMIT 2"  # noqa: S608


@contextmanager
def connection_to(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for one operation; SQLite undoes an open transaction if anything fails.

    One connection per operation: nothing is shared between threads or with forked processes.
    """
    # mode=rw never creates a file. isolation_level=None: transactions are begun where they are needed.
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


def read_terms(connection: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return the terms; whoever changed the cap would have to change their hash, and all after it, too."""
    found = connection.execute(_SELECT_TERMS).fetchall()
    if len(found) != 1:
        raise tampered(path, "its terms are not one record")
    terms = dict(zip(TERMS, found[0], strict=True))
    if chained_hash("", {name: value for name, value in terms.items() if name != "hash"}) != terms["hash"]:
        raise tampered(path, "its terms were changed")
    return terms


def last_spend(connection: sqlite3.Connection, path: Path) -> tuple[int, str, int]:
    """Return number, hash and total units of the newest record (the terms' hash where there is none).

    Its own link of the chain is checked, and that of the terms, so that nothing is charged on top of a
    changed total or under a changed cap.
    """
    terms = read_terms(connection, path)
    rows = [dict(zip(SPEND, row, strict=True)) for row in connection.execute(_SELECT_LAST_TWO)]
    if not rows:
        return 0, terms["hash"], 0
    newest = rows[0]
    digest = newest.pop("hash")
    previous = rows[1]["hash"] if len(rows) == 2 else terms["hash"]
    if chained_hash(previous, newest) != digest:
        raise tampered(path, f"record {newest['number']} does not hold")
    try:
        return int(newest["number"]), digest, int(newest["total_units"])
    except ValueError as error:
        raise tampered(path, f"record {newest['number']} cannot be read") from error


def tampered(path: Path, what: str) -> LedgerTamperedError:
    """Build the error of a ledger whose records contradict each other."""
    return LedgerTamperedError(
        f"Expected an unbroken chain of records in {str(path)!r}, but {what}. Stop releasing from this data "
        f"set and compare the file with its backups and kept heads."
    )


def chained_hash(previous: str, record: dict[str, Any]) -> str:
    """Return the hash of a record and of all that came before it."""
    # Bytes in the place of text are no text with the same hash: no record holds a list.
    content = json.dumps([previous, record], sort_keys=True, default=lambda blob: [repr(blob)])
    return hashlib.sha256(content.encode()).hexdigest()
