"""Attacks on dpem's own promises: record and replay, distinguishing games, and bugs that they must catch.

Everything here looks behind the noise: use made data, and publish nothing that was fitted under an audit.
"""

from dpem.audit.bits import distinguish_by_bits
from dpem.audit.games import Game, distinguish
from dpem.audit.replaying import ReplayAudit, replay
from dpem.audit.subject import Subject
from dpem.audit.violations import Violation

__all__ = [
    "Game",
    "ReplayAudit",
    "Subject",
    "Violation",
    "distinguish",
    "distinguish_by_bits",
    "replay",
]
