"""The exceptions and warnings of dpem.

::

    DpemError
    ├── InvalidArgumentError (ValueError)    an argument is wrong; nothing was read or spent
    ├── UnsupportedEventError (TypeError)    an accountant met an event that it cannot treat
    ├── BudgetError
    │   ├── InsufficientBudgetError          the ledger refuses: carries `remaining` and `requested`
    │   └── UnreachableBudgetError           no amount of noise meets the budget with this accountant
    ├── DataError                            the rows could not be read to the end
    │   └── ChangedDataError                 they changed while they were read
    ├── EngineError                          a cluster or device could not go on
    ├── ExactArithmeticError (ArithmeticError)  integers do not multiply exactly on this machine
    ├── PlanViolationError                   a model asked for what its plan does not hold
    ├── OtherReleaseError                    a replayed fit asked for another release
    ├── ResumeFileError                      a resumable fit cannot go on from its file
    ├── AuditFailedError                     an audit found a broken promise
    ├── ModelFileError                       a file is no saved model, or is damaged
    ├── OutputError                          a file cannot be written, or is there already
    ├── LedgerError                          the ledger file cannot be used
    │   └── LedgerTamperedError              its hash chain or its totals do not hold
    └── MissingExtraError (ImportError)      an optional library is not installed

    DpemWarning (UserWarning)
    ├── InsecureNoiseWarning                 seeded noise is on: nothing released has a guarantee
    ├── DataQualityWarning                   paid counts say that the schema does not fit the rows
    ├── DeltaWarning                         delta is not below one over the number of rows
    ├── FewerComponentsWarning               noise leaves room for fewer components than were asked for
    ├── NoLedgerWarning                      several releases of this process were charged to no ledger
    ├── ModelWarning                         a plug-in model failed on released values
    ├── ResumedFitWarning                    a fit goes on from what an earlier run released
    ├── WeakFitWarning                       a fit is done, and much of what it found is noise
    └── WeakSignalWarning                    public numbers say that noise will hide the structure

Messages speak of public facts alone: arguments, budgets and file names, never of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpem.privacy.budget import Budget

__all__ = [
    "AuditFailedError",
    "BudgetError",
    "ChangedDataError",
    "DataError",
    "DataQualityWarning",
    "DeltaWarning",
    "DpemError",
    "DpemWarning",
    "EngineError",
    "ExactArithmeticError",
    "FewerComponentsWarning",
    "InsecureNoiseWarning",
    "InsufficientBudgetError",
    "InvalidArgumentError",
    "LedgerError",
    "LedgerTamperedError",
    "MissingExtraError",
    "ModelFileError",
    "ModelWarning",
    "NoLedgerWarning",
    "OtherReleaseError",
    "OutputError",
    "PlanViolationError",
    "ResumeFileError",
    "ResumedFitWarning",
    "UnreachableBudgetError",
    "UnsupportedEventError",
    "WeakFitWarning",
    "WeakSignalWarning",
]


class DpemError(Exception):
    """Base of every error that dpem raises on purpose."""


class InvalidArgumentError(DpemError, ValueError):
    """An argument is outside what was expected; nothing was read and nothing was spent."""


class UnsupportedEventError(DpemError, TypeError):
    """An accountant was given an event that it has no proof for."""


class BudgetError(DpemError):
    """Base of the errors about privacy budgets."""


class InsufficientBudgetError(BudgetError):
    """The ledger cannot pay for a plan. Nothing was charged and nothing was read.

    Attributes
    ----------
    remaining, requested : Budget
        What the ledger has left and what the plan would cost, at the ledger's delta.
    """

    def __init__(self, remaining: Budget, requested: Budget, ledger_name: str) -> None:
        self.remaining = remaining
        self.requested = requested
        self.ledger_name = ledger_name
        super().__init__(
            f"Expected a plan within the budget left on ledger {ledger_name!r}: it costs "
            f"{requested}, and {remaining} is left. Nothing was charged. Ask for a smaller "
            f"epsilon, or have the owner of the data decide on a new cap."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.remaining, self.requested, self.ledger_name)


class UnreachableBudgetError(BudgetError):
    """The accountant cannot certify the wanted budget at any noise level."""


class DataError(DpemError):
    """Rows could not be read to the end: a file is damaged, or gone. Nothing more was released."""


class ChangedDataError(DataError):
    """Rows are not what they were when the fit began. Nothing more was released."""


class EngineError(DpemError):
    """A cluster or a device could not go on. Nothing more was released."""


class ExactArithmeticError(DpemError, ArithmeticError):
    """The matrix product of this machine is not exact on integers: nothing may be released with it."""


class PlanViolationError(DpemError):
    """A model asked for a release that its plan does not hold. Nothing was released."""


class OtherReleaseError(DpemError):
    """A replayed fit asked for another release than the recorded one: its control flow depends on rows."""


class ResumeFileError(DpemError):
    """A resumable fit cannot use its file: it belongs to another fit, is in use, or cannot be written."""


class ModelFileError(DpemError):
    """The file is no saved model, is damaged, or was written by a newer dpem."""


class AuditFailedError(DpemError):
    """An audit found a broken promise; the message lists what, without a value."""


class OutputError(DpemError):
    """A file cannot be written, or is there already; what was there is as it was."""


class LedgerError(DpemError):
    """The ledger file is missing, is not a ledger, or cannot be written."""


class LedgerTamperedError(LedgerError):
    """The ledger's records contradict each other: they were changed after they were written."""


class MissingExtraError(DpemError, ImportError):
    """An optional dependency is needed for what was asked."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        self._arguments = (feature, package, extra)
        super().__init__(
            f"{feature} needs the package {package!r}. Install it with: pip install 'dpem[{extra}]'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments


class DpemWarning(UserWarning):
    """Base of the warnings that dpem issues."""


class InsecureNoiseWarning(DpemWarning):
    """Noise comes from a seed: whatever is released under it carries no privacy guarantee."""


class DataQualityWarning(DpemWarning):
    """Noisy, paid counts say that many cells of a column are not as the schema declares."""


class DeltaWarning(DpemWarning):
    """Delta is so large that a mechanism which publishes a row outright would meet it."""


class FewerComponentsWarning(DpemWarning):
    """Noise leaves room for fewer components than were asked for; fewer are fitted."""


class NoLedgerWarning(DpemWarning):
    """Several private releases of this process were charged to no ledger; the message has their total."""


class ModelWarning(DpemWarning):
    """A plug-in model could not go on from released sums; the step was left out."""


class ResumedFitWarning(DpemWarning):
    """A fit goes on from what an earlier run released, without paying again."""


class WeakFitWarning(DpemWarning):
    """A fit is done and charged, and its standard errors are as large as what they blur.

    The model is fitted when the warning is issued, so that it is there also if warnings are turned into
    errors.
    """


class WeakSignalWarning(DpemWarning):
    """Rows, clusters and budget, all public, leave too little signal for a useful result."""
