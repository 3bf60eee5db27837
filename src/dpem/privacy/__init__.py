"""The privacy core: row bound -> sensitivity -> mechanism -> event -> accountant -> ledger.

Read the files in that order.

May import: errors and argument validation only. Never sees: data, models.
"""

from dpem.privacy.accountants import accountant_named, compare
from dpem.privacy.budget import Budget
from dpem.privacy.calibration import calibrate, split
from dpem.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent
from dpem.privacy.ledger import Ledger
from dpem.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, NoisyIntegers
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.statement import PrivacyStatement

__all__ = [
    "Adjacency",
    "Budget",
    "ComposedEvent",
    "Event",
    "GaussianEvent",
    "GaussianMechanism",
    "LaplaceEvent",
    "LaplaceMechanism",
    "Ledger",
    "NoisyIntegers",
    "PrivacyStatement",
    "PrivacyUnit",
    "accountant_named",
    "calibrate",
    "compare",
    "split",
]
