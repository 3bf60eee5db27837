"""The ledger on a real file, compared step by step with exact fractions; wrong ledgers are detected."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, settings

from dpem import Ledger
from dpem.privacy import ledger as ledgers
from dpem.privacy import ledger_chain
from dpem.privacy.accountants import GdpAccountant
from fuzz.harness import run
from fuzz.ledger_machine import TARGET, LedgerMachine

LedgerMachine.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLedger = LedgerMachine.TestCase


def _costs_less(patch):
    cost = GdpAccountant.mu_squared
    patch.setattr(
        GdpAccountant, "mu_squared", lambda self, event: cost(self, event) * (1 - Fraction(1, 2**70))
    )


def _cap_is_stretched(patch):
    patch.setattr(ledgers, "_units_down", lambda mu: int(Fraction(mu) ** 2 * 2**100) + 1)


def _total_is_of_the_last_charge(patch):
    read = ledgers.last_link

    def last(terms, last_two, where):
        number, digest, _ = read(terms, last_two, where)
        return number, digest, int(last_two[-1]["units"]) if last_two else 0

    patch.setattr(ledgers, "last_link", last)


def _a_link_forgets(patch):
    chained, lost = ledgers.chained_hash, dict.fromkeys(("time", "purpose", "analyst"), "")
    patch.setattr(ledgers, "chained_hash", lambda previous, row: chained(previous, row | lost))
    patch.setattr(ledger_chain, "chained_hash", ledgers.chained_hash)


def _marks_are_lost(patch):
    spend = Ledger.spend
    patch.setattr(
        Ledger, "spend", lambda self, event, **a: spend(self, event, **a | {"insecure_noise": False})
    )


@pytest.mark.parametrize(
    "break_it",
    [_costs_less, _cap_is_stretched, _total_is_of_the_last_charge, _a_link_forgets, _marks_are_lost],
)
def test_a_wrong_ledger_is_found(break_it, monkeypatch):
    break_it(monkeypatch)
    assert run(TARGET, 20, show=False).failures
