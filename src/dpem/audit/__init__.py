"""Attacks of dpem on its own guarantee: replays, distinguishing games, and seeded bugs that they must detect.

May import: everything. Never sees: real data. An audit looks behind the noise, so use generated rows, and
publish nothing that was fitted in an audit.
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
