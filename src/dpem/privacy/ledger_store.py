"""The interface of a ledger's storage, such as a database.

`Ledger` implements the hash chain, the filter and the verification, which are the same for every store.
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
        """Return all records of terms: exactly one, unless somebody changed the store."""
        ...

    def spends(self, newest: int | None = None) -> list[Record]:
        """Return all charges, or only the newest ones, oldest first."""
        ...

    def append(self, spend: Record) -> None:
        """Add a charge. It takes effect when the transaction ends without an exception."""
        ...


class LedgerStore(Protocol):
    """Storage for the records of one ledger: append-only, and safe against crashes and concurrent writers.

    A store that cannot read or write raises `LedgerError`, and then nothing was written.
    """

    where: str  # the place, for error messages: such as a quoted path

    def create(self, terms: Record) -> None:
        """Create the ledger with these terms; raise if there is one already."""
        ...

    def check(self) -> None:
        """Raise unless there is a ledger of this format."""
        ...

    def reading(self) -> AbstractContextManager[LedgerRecords]:
        """Open a transaction with a consistent view of the records."""
        ...

    def appending(self) -> AbstractContextManager[LedgerRecords]:
        """Open a transaction in which nobody else can append.

        It is committed durably when the block ends, and rolled back if the block raises.
        """
        ...
