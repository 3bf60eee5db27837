"""The hash chain of a ledger: each hash covers all earlier records, so that changes are detected."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from dpem.errors import LedgerTamperedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FORMAT_VERSION", "Record", "chained_hash", "checked_terms", "last_link", "tampered"]

FORMAT_VERSION = 2  # of the records and their hashes, in every store

Record = dict[str, Any]


def chained_hash(previous: str, record: Record) -> str:
    """Return the hash of a record and of all earlier records."""
    # Bytes must not hash like text. They are written as a list, which no record contains.
    content = json.dumps([previous, record], sort_keys=True, default=lambda blob: [repr(blob)])
    return hashlib.sha256(content.encode()).hexdigest()


def checked_terms(found: Sequence[Record], where: str) -> Record:
    """Verify the terms and return them: a changed cap would change their hash, and all hashes after it."""
    if len(found) != 1:
        raise tampered(where, "its terms are not one record")
    terms = found[0]
    if chained_hash("", {name: value for name, value in terms.items() if name != "hash"}) != terms["hash"]:
        raise tampered(where, "its terms were changed")
    return terms


def last_link(terms: Record, last_two: Sequence[Record], where: str) -> tuple[int, str, int]:
    """Return number, hash and total units of the newest record (the hash of the terms if there is none).

    The link of this record is verified, so that nothing is charged on top of a changed total. The caller has
    verified `terms`.
    """
    if not last_two:
        return 0, terms["hash"], 0
    newest = dict(last_two[-1])
    digest = newest.pop("hash")
    previous = last_two[0]["hash"] if len(last_two) == 2 else terms["hash"]
    if chained_hash(previous, newest) != digest:
        raise tampered(where, f"the hash of record {newest['number']} is wrong")
    try:
        return int(newest["number"]), digest, int(newest["total_units"])
    except ValueError as error:
        raise tampered(where, f"record {newest['number']} cannot be read") from error


def tampered(where: str, what: str) -> LedgerTamperedError:
    """Return the error for a ledger whose records contradict each other."""
    return LedgerTamperedError(
        f"Expected an unbroken chain of records in {where}, but {what}. Stop releases from this data set, "
        f"and compare the file with its backups and with heads that were kept elsewhere."
    )
