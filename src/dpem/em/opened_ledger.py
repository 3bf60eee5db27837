"""The ledger that pays for a release: opened, and that of the data set which a schema describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpem.errors import LedgerError
from dpem.privacy.ledger import Ledger

if TYPE_CHECKING:
    import os

    from dpem.data import Schema

__all__ = ["opened_ledger"]


def opened_ledger(ledger: Ledger | str | os.PathLike[str] | None, schema: Schema | None) -> Ledger | None:
    """Return the ledger; raise where a schema says that it is that of another data set."""
    if ledger is None:
        return None
    if not isinstance(ledger, Ledger):
        ledger = Ledger(ledger)
    if schema is not None and schema.dataset is not None and schema.dataset != ledger.name:
        raise LedgerError(
            f"Expected the ledger of {schema.dataset!r}, which the schema describes, got that of "
            f"{ledger.name!r}. Nothing was charged and nothing was read."
        )
    return ledger
