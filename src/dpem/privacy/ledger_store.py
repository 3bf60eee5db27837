"""Where a ledger keeps its records: the seam between the budget's rules and a database.

The chain, the filter and the verification stand above it, in `Ledger`, and are the same for every store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpem.privacy.ledger_chain import Record

__all__ = ["LedgerRecords", "LedgerStore"]


class LedgerRecords(Protocol):
    """The records of a ledger within one transaction."""

    def terms(self) -> list[Record]:
        """Return all records of terms: one, unless somebody changed the store."""
        ...

    def spends(self, newest: int | None = None) -> list[Record]:
        """Return all charges, or only so many of the newest, oldest first."""
        ...

    def append(self, spend: Record) -> None:
        """Add a charge. It counts once the transaction has ended without an error."""
        ...


class LedgerStore(Protocol):
    """A place for the records of one ledger: append-only, and safe against crashes and concurrent writers.

    A store raises `LedgerError` if it cannot read or write, and then nothing was written.
    """

    where: str  # for error messages, such as a quoted path

    def create(self, terms: Record) -> None:
        """Make the ledger with these terms; raise if the place is taken."""
        ...

    def check(self) -> None:
        """Raise unless there is a ledger of this format."""
        ...

    def reading(self) -> AbstractContextManager[LedgerRecords]:
        """Open a transaction that sees the records of one moment."""
        ...

    def appending(self) -> AbstractContextManager[LedgerRecords]:
        """Open a transaction in which nobody else can append.

        It is committed durably when the block ends, and undone if the block raises.
        """
        ...
