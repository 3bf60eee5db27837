"""The ledger that pays for a release: opened, and that of the data set which a schema describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpem.data.table_types import listed
from dpem.errors import LedgerError
from dpem.privacy.ledger import Ledger

if TYPE_CHECKING:
    import os

    from dpem.data import Schema

__all__ = ["opened_ledger"]


def opened_ledger(ledger: Ledger | str | os.PathLike[str] | None, schema: Schema | None) -> Ledger | None:
    """Return the ledger; raise where a schema says that it is that of another data set.

    Bounds that were estimated from rows must have been paid for on the same ledger: else its total would be
    too small.
    """
    if ledger is None:
        return None
    if not isinstance(ledger, Ledger):
        ledger = Ledger(ledger)
    if schema is not None and schema.dataset is not None and schema.dataset != ledger.name:
        raise LedgerError(
            f"Expected the ledger of {schema.dataset!r}, which the schema describes, got that of "
            f"{ledger.name!r}. Nothing was charged and nothing was read."
        )
    if schema is not None and any(column.bounds_cost for column in schema.columns):
        paid = {(ledger.name, spend.number, spend.hash) for spend in ledger.history()}
        unpaid = [c.name for c in schema.columns if c.bounds_cost and c.bounds_charge not in paid]
        if unpaid:
            raise LedgerError(
                f"Expected bounds that the ledger of {ledger.name!r} has paid for, got estimated bounds of "
                f"{listed(unpaid)} that it has not. Estimate them with ledger=..., or declare bounds from "
                f"public knowledge. Nothing was charged and nothing was read."
            )
    return ledger
