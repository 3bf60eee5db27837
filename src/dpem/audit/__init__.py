"""Attacks on dpem's own promises: record and replay, distinguishing games, and bugs that they must catch.

May import: everything. Never sees: real data: it looks behind the noise, so use synthetic rows and publish
nothing fitted under an audit.
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
