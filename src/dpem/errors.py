"""The exceptions and warnings of dpem.

::

    DpemError
    ├── InvalidArgumentError (ValueError)    an argument is invalid; nothing was read or charged
    ├── UnsupportedEventError (TypeError)    an accountant does not support an event
    ├── BudgetError
    │   ├── InsufficientBudgetError          the cap of the ledger does not cover a plan
    │   └── UnreachableBudgetError           no amount of noise meets the budget with this accountant
    ├── DataError                            the rows could not be read to the end
    │   └── ChangedDataError                 the rows changed while a fit read them
    ├── EngineError                          a cluster or device failed
    ├── ExactArithmeticError (ArithmeticError)  integer products are not exact on this machine
    ├── PlanViolationError                   a model asked for a release outside its plan
    ├── OtherReleaseError                    a replayed fit asked for another release than the recorded one
    ├── ResumeFileError                      a fit cannot continue from its resume file
    ├── AuditFailedError                     an audit found a violation of the guarantee
    ├── ModelFileError                       a file is not a saved model, or is damaged
    ├── OutputError                          a file cannot be written, or a command would replace it
    ├── LedgerError                          a ledger file cannot be used
    │   └── LedgerTamperedError              the hash chain or the totals of a ledger are wrong
    └── MissingExtraError (ImportError)      an optional library is not installed

    DpemWarning (UserWarning)
    ├── InsecureNoiseWarning                 noise is seeded: releases carry no guarantee
    ├── DataQualityWarning                   released counts show that the schema does not fit the rows
    ├── DeltaWarning                         delta is not below one over the number of rows
    ├── FewerComponentsWarning               noise allows fewer components than requested
    ├── LargeEpsilonWarning                  epsilon is so large that the guarantee protects nobody
    ├── NoLedgerWarning                      several releases of this process were charged to no ledger
    ├── ModelWarning                         a plug-in model failed on released values
    ├── RepeatedChargeWarning                a charge equals an earlier one of the same ledger
    ├── ResumedFitWarning                    a fit continues from the releases of an earlier run
    ├── WeakFitWarning                       a fit is complete, and much of its result is noise
    └── WeakSignalWarning                    noise will probably hide the structure, by public numbers

Messages contain public facts or released values only, such as arguments, budgets and file names. They never
contain a value of a row.
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
    "LargeEpsilonWarning",
    "LedgerError",
    "LedgerTamperedError",
    "MissingExtraError",
    "ModelFileError",
    "ModelWarning",
    "NoLedgerWarning",
    "OtherReleaseError",
    "OutputError",
    "PlanViolationError",
    "RepeatedChargeWarning",
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
    """An argument is invalid. Nothing was read and nothing was charged."""


class UnsupportedEventError(DpemError, TypeError):
    """An accountant was given an event that its proof does not cover."""


class BudgetError(DpemError):
    """Base of the errors about privacy budgets."""


class InsufficientBudgetError(BudgetError):
    """The cap of the ledger does not cover a plan. Nothing was charged and nothing was read.

    Attributes
    ----------
    remaining : Budget
        Budget left on the ledger, at the ledger's delta.
    requested : Budget
        Cost of the plan, at the ledger's delta.
    ledger_name : str
        Name of the ledger.
    """

    def __init__(self, remaining: Budget, requested: Budget, ledger_name: str) -> None:
        self.remaining = remaining
        self.requested = requested
        self.ledger_name = ledger_name
        super().__init__(
            f"Expected a plan within the budget left on ledger {ledger_name!r}: it costs "
            f"{requested}, and {remaining} is left. Nothing was charged. Choose a smaller "
            f"epsilon. A cap cannot be raised: only the owner of the data can create a further ledger, and "
            f"then has to add up both."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.remaining, self.requested, self.ledger_name)


class UnreachableBudgetError(BudgetError):
    """The accountant cannot certify the requested budget at any noise level."""


class DataError(DpemError):
    """The rows could not be read to the end, for example because a file is damaged or missing.

    Nothing more was released.
    """


class ChangedDataError(DataError):
    """The rows changed after the fit began. Nothing more was released."""


class EngineError(DpemError):
    """A cluster or a device failed. Nothing more was released."""


class ExactArithmeticError(DpemError, ArithmeticError):
    """Matrix products of integers are not exact on this machine, so nothing is released."""


class PlanViolationError(DpemError):
    """A model asked for a release that is not in its plan. Nothing was released."""


class OtherReleaseError(DpemError):
    """A replayed fit asked for another release than the recorded one.

    Either it is another fit, or its control flow depends on rows.
    """


class ResumeFileError(DpemError):
    """A resume file cannot be used: it belongs to another fit, is in use, damaged or cannot be written."""


class ModelFileError(DpemError):
    """A file is not a saved model, is damaged, or was written by a newer dpem."""


class AuditFailedError(DpemError):
    """An audit found a violation of the guarantee; the message names it, without private values."""


class OutputError(DpemError):
    """A file cannot be written, or a command would replace one without ``--overwrite``.

    An existing file stays unchanged. In Python, `save` and `write_report` replace an existing file.
    """


class LedgerError(DpemError):
    """A ledger file is missing, is not a ledger, or cannot be written."""


class LedgerTamperedError(LedgerError):
    """The records of a ledger contradict each other: somebody changed them after they were written."""


class MissingExtraError(DpemError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        self._arguments = (feature, package, extra)
        super().__init__(
            f"{feature} needs the package {package!r}, which the extra {extra!r} of dpem installs. In a "
            f"checkout of dpem, run: pip install '.[{extra}]'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments


class DpemWarning(UserWarning):
    """Base of the warnings that dpem issues."""


class InsecureNoiseWarning(DpemWarning):
    """Noise is drawn from a seed: nothing released with it has a privacy guarantee."""


class DataQualityWarning(DpemWarning):
    """Released counts show that many cells of a column are not as the schema declares."""


class DeltaWarning(DpemWarning):
    """Delta is so large that even a mechanism that publishes a whole row would satisfy the guarantee.

    Delta is above one over the number of rows, or above 0.001 if that number is private.
    """


class FewerComponentsWarning(DpemWarning):
    """Noise allows fewer components than requested, so fewer are fitted."""


class LargeEpsilonWarning(DpemWarning):
    """Epsilon is above 20: whoever knows a released model may be certain about a person of the table."""


class NoLedgerWarning(DpemWarning):
    """Several private releases of this process were charged to no ledger; the message states their total."""


class ModelWarning(DpemWarning):
    """A plug-in model failed on released sums; the fit skips the step."""


class RepeatedChargeWarning(DpemWarning):
    """A ledger is about to be charged for a release that equals an earlier one, such as a cell run again.

    The warning comes before the charge, so that nothing is charged if warnings are turned into errors.
    """


class ResumedFitWarning(DpemWarning):
    """A fit continues from the releases of an earlier run. It is not charged again."""


class WeakFitWarning(DpemWarning):
    """A fit is complete and charged, and the noise in some results is as large as the results.

    The model is fitted before the warning is issued. It can be used even if warnings are turned into errors.
    """


class WeakSignalWarning(DpemWarning):
    """Public numbers (rows, clusters, budget) show that the signal is too weak for a useful fit."""
