"""A ledger compared with exact arithmetic: charges, rejections, several handles, heads, changed copies."""

import itertools
import json
import math
import shutil
import sqlite3
import warnings
from contextlib import nullcontext, suppress
from fractions import Fraction

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dpem import Ledger
from dpem.errors import (
    InsecureNoiseWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    LedgerTamperedError,
)
from dpem.privacy import ComposedEvent, GaussianEvent, LaplaceEvent, PrivacyUnit, calibrate, gaussian_dp
from dpem.privacy.ledger import Head
from dpem.privacy.ledger_chain import chained_hash
from dpem.privacy.ledger_sqlite import SPEND
from dpem.testing import insecure_noise
from fuzz.harness import Target, scratch

__all__ = ["TARGET", "LedgerMachine"]

UNIT = Fraction(1, 2**100)  # charges are rounded up to multiples of it, the cap is rounded down
_FILES = itertools.count()
_TRIGGERS = ("terms_are_fixed", "terms_stay", "spend_is_fixed", "spend_stays", "spend_grows")
_TAMPER = [
    "UPDATE spend SET units = units || '0' WHERE number = {}",
    "UPDATE spend SET units = x'00' WHERE number = {}",
    "UPDATE spend SET total_units = '0' WHERE number = {}",
    "UPDATE spend SET purpose = purpose || '.' WHERE number = {}",
    "UPDATE spend SET purpose = CAST(purpose AS BLOB) WHERE number = {}",
    "UPDATE spend SET analyst = 'another' WHERE number = {}",
    "UPDATE spend SET time = '1970-01-01' WHERE number = {}",
    "UPDATE spend SET insecure_noise = 1 - insecure_noise WHERE number = {}",
    """UPDATE spend SET event = '{{"event": "gaussian", "noise_multiplier": 1e9}}' WHERE number = {}""",
    "UPDATE spend SET event = '" + "[" * 3000 + "' WHERE number = {}",
    "UPDATE spend SET number = number + 1000 WHERE number = {}",
    "UPDATE spend SET hash = 'x' WHERE number = {}",
    "INSERT INTO spend SELECT number + 1000,time,purpose,analyst,event,facts,0,units,units,hash FROM spend",
    "UPDATE terms SET cap_units = cap_units || '0'",
    "UPDATE terms SET cap_epsilon = cap_epsilon * 2",
    "UPDATE terms SET name = name || '.'",
    "UPDATE terms SET unit = '[]'",
    "INSERT INTO terms SELECT * FROM terms",
    "DELETE FROM terms",
]


def exact_cost(event):
    """Return the sum of mu^2 as a fraction, by the definition."""
    if isinstance(event, ComposedEvent):
        return sum((count * exact_cost(part) for part, count in event.parts), Fraction(0))
    if isinstance(event, GaussianEvent):
        return 1 / Fraction(event.noise_multiplier) ** 2
    return Fraction(gaussian_dp.mu_of_pure_dp(event.epsilon)) ** 2


def least_noise(square):
    """Return the smallest noise multiplier whose cost is at most this much of mu^2."""
    noise = 1 / math.sqrt(square)
    while exact_cost(GaussianEvent(noise)) <= square:
        noise = math.nextafter(noise, 0)
    while exact_cost(GaussianEvent(noise)) > square:
        noise = math.nextafter(noise, math.inf)
    return noise


class LedgerMachine(RuleBasedStateMachine):
    """Every step is applied to a file and to a list of charges."""

    @initialize(
        epsilon=st.sampled_from([0.01, 0.5, 1.0, 8.0]),
        delta=st.sampled_from([1e-9, 1e-5, 1e-3]),
        adjacency=st.sampled_from(["replace_one", "add_remove"]),
        unit=st.sampled_from([PrivacyUnit(), PrivacyUnit(3), PrivacyUnit(2, "patient")]),
    )
    def create(self, epsilon, delta, adjacency, unit):
        """Create the file."""
        self.path = scratch() / f"{next(_FILES)}.ledger"
        terms = {"adjacency": adjacency, "rows_per_person": unit.rows_per_person, "person": unit.person}
        ledger = Ledger.create(self.path, name="generated", cap_epsilon=epsilon, cap_delta=delta, **terms)
        self.ledgers = [ledger]
        self.terms = {"adjacency": adjacency, "unit": unit}
        self.cap = math.floor(Fraction(gaussian_dp.mu_for(epsilon, delta)) ** 2 / UNIT) * UNIT
        self.spends = []  # returned by `spend`
        self.total = Fraction(0)  # exact costs
        self.charged = Fraction(0)  # costs, each rounded up to the unit
        self.heads = [ledger.head()]

    def handle(self, which):
        """Return one of the open handles."""
        return self.ledgers[which % len(self.ledgers)]

    def charge(self, event, which, marked=False, seeded=False):
        """Spend, and check that it is rejected exactly if it does not fit; return whether it was charged."""
        cost = math.ceil(exact_cost(event) / UNIT) * UNIT
        fits = self.charged + cost <= self.cap
        ledger = self.handle(which)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureNoiseWarning)
            with insecure_noise(1) if seeded else nullcontext():
                if not fits:
                    with pytest.raises(InsufficientBudgetError) as refusal:
                        ledger.spend(event, purpose="refused")
                    assert Fraction(refusal.value.remaining.mu) ** 2 <= self.cap - self.charged
                    assert Fraction(refusal.value.requested.mu) ** 2 >= cost
                    return False
                spend = ledger.spend(
                    event, purpose=f"charge {which}", analyst="tester", insecure_noise=marked
                )
        assert spend.number == len(self.spends) + 1
        assert (spend.event, spend.insecure_noise) == (event, marked or seeded)
        assert Fraction(spend.cost.mu) ** 2 >= cost
        self.spends.append(spend)
        self.total += exact_cost(event)
        self.charged += cost
        return True

    @rule(which=st.integers(0, 9))
    def open_again(self, which):
        """Open another handle, or replace one."""
        self.ledgers = [*self.ledgers[-2:], Ledger(self.path)]

    @rule(
        parts=st.lists(
            st.tuples(
                st.sampled_from(["gaussian", "laplace"]),
                st.sampled_from([0.5, 0.05, 0.7, 1e-4]),
                st.integers(1, 9),
            ),
            min_size=1,
            max_size=3,
        ),
        which=st.integers(0, 9),
        marked=st.booleans(),
        seeded=st.booleans(),
    )
    def spend(self, parts, which, marked, seeded):
        """Charge a fraction of the cap, or more than is left."""
        events = []
        for kind, share, count in parts:
            mu = share * math.sqrt(self.cap)
            events.append((GaussianEvent(1 / mu) if kind == "gaussian" else LaplaceEvent(mu), count))
        event = events[0][0] if events[0][1] == 1 else ComposedEvent(tuple(events))
        self.charge(event, which, marked, seeded)

    @rule(which=st.integers(0, 9))
    def spend_one_step_too_much_then_the_rest(self, which):
        """The smallest noise that fits is accepted; one float less noise is rejected."""
        left = self.cap - self.charged
        if left >= Fraction(1, 10**20):
            noise = least_noise(left)
            assert not self.charge(GaussianEvent(math.nextafter(noise, 0)), which)
            assert self.charge(GaussianEvent(noise), which)

    @rule(which=st.integers(0, 9), part=st.sampled_from([1.0, 0.5]))
    def spend_what_is_stated_as_left(self, which, part):
        """A plan for the stated remaining epsilon fits."""
        ledger = self.handle(which)
        left = ledger.remaining()
        assert Fraction(left.mu) ** 2 <= self.cap - self.charged
        assert Fraction(math.nextafter(left.mu, math.inf)) ** 2 > self.cap - self.charged
        if left.epsilon * part > 1e-4:
            assert self.charge(calibrate(GaussianEvent(1.0), left.epsilon * part, ledger.cap.delta), which)

    @rule(which=st.integers(0, 9), wrong=st.integers(0, 4))
    def spend_wrongly(self, which, wrong):
        """A charge with wrong terms or text is rejected and leaves no trace."""
        other = "add_remove" if self.terms["adjacency"] == "replace_one" else "replace_one"
        arguments = [
            {"adjacency": other},
            {"unit": PrivacyUnit(7)},
            {"purpose": "two\nlines"},
            {"analyst": ""},
            {"insecure_noise": 1},
        ][wrong]
        with pytest.raises(InvalidArgumentError):
            self.handle(which).spend(GaussianEvent(1e9), **{"purpose": "wrong", **arguments})

    @rule(which=st.integers(0, 9))
    def keep_head(self, which):
        """Store the head elsewhere."""
        head = self.handle(which).head()
        assert head.number == len(self.spends)
        assert not self.spends or head.hash == self.spends[-1].hash
        self.heads.append(head)

    @rule(which=st.integers(0, 9), head=st.integers(0, 99))
    def verify(self, which, head):
        """Every stored head is still in the chain; any other head is not."""
        ledger = self.handle(which)
        ledger.verify(self.heads[head % len(self.heads)])
        with pytest.raises(LedgerTamperedError):
            ledger.verify(Head(len(self.spends) + 1, self.heads[-1].hash))

    @rule(which=st.integers(0, 9))
    def read(self, which):
        """All handles read the same records, and none is lost."""
        ledger = self.handle(which)
        assert ledger.history() == self.spends
        said = json.loads(json.dumps(ledger.export()))
        assert [entry["hash"] for entry in said["spends"]] == [spend.hash for spend in self.spends]
        assert [entry["mu"] for entry in said["spends"]] == [spend.cost.mu for spend in self.spends]
        assert said["head"] == (self.spends[-1].hash if self.spends else self.heads[0].hash)
        assert said["remaining_epsilon"] <= ledger.cap.epsilon
        assert str(ledger).count("INSECURE") == sum(spend.insecure_noise for spend in self.spends)

    @rule(
        which=st.integers(0, 9),
        statement=st.sampled_from(["UPDATE spend SET units = 0", "DELETE FROM terms"]),
    )
    def change_by_accident(self, which, statement):
        """A stray SQL statement is rejected, or has no effect."""
        connection = sqlite3.connect(self.path)
        if self.spends or "terms" in statement:
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
        connection.close()

    def _changed_copy(self, statement, *values):
        copy = self.path.with_suffix(".copy")
        shutil.copy(self.path, copy)
        connection = sqlite3.connect(copy)
        for trigger in _TRIGGERS:
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement, values)
        connection.commit()
        connection.close()
        return copy

    def _is_found(self, copy, head=None):
        """Check that every operation detects a change with its own error."""
        with pytest.raises(LedgerTamperedError):
            Ledger(copy).verify(head)
        with suppress(LedgerTamperedError):
            Ledger(copy).export()

    @precondition(lambda self: self.spends)
    @rule(statement=st.sampled_from(_TAMPER), number=st.integers(0, 99))
    def tamper(self, statement, number):
        """A change to any record, its position or the terms is detected."""
        self._is_found(self._changed_copy(statement.format(1 + number % len(self.spends))))

    @precondition(lambda self: len(self.spends) > 1)
    @rule(number=st.integers(0, 99))
    def take_out(self, number):
        """A record removed from the middle is detected."""
        number = 1 + number % (len(self.spends) - 1)
        self._is_found(self._changed_copy("DELETE FROM spend WHERE number = ?", number))

    @precondition(lambda self: self.spends)
    @rule(number=st.integers(0, 99))
    def cut_off(self, number):
        """A removed end is detected if its head was stored, and otherwise not."""
        number = 1 + number % len(self.spends)
        copy = self._changed_copy("DELETE FROM spend WHERE number >= ?", number)
        Ledger(copy).verify()
        Ledger(copy).verify(self.heads[0])
        self._is_found(copy, Head(len(self.spends), self.spends[-1].hash))

    @precondition(lambda self: self.spends)
    @rule(number=st.integers(0, 99), name=st.sampled_from(["analyst", "units", "total_units"]))
    def forge(self, number, name):
        """A forged record with a matching hash is detected by the next record, its sums or a stored head."""
        number = 1 + number % len(self.spends)
        query = f"SELECT {', '.join(SPEND)} FROM spend WHERE number = ?"
        with sqlite3.connect(self.path) as connection:
            record = dict(zip(SPEND, connection.execute(query, [number]).fetchone(), strict=True))
        connection.close()
        kept = Head(number, record.pop("hash"))
        record[name] = "0"
        previous = self.spends[number - 2].hash if number > 1 else self.heads[0].hash
        statement = f"UPDATE spend SET {name} = ?, hash = ? WHERE number = {number}"
        copy = self._changed_copy(statement, "0", chained_hash(previous, record))
        self._is_found(copy, kept)
        if number < len(self.spends) or name != "analyst":
            self._is_found(copy)

    def teardown(self):
        """Check the whole at the end of a run."""
        if hasattr(self, "path"):
            ledger = Ledger(self.path)
            assert ledger.history() == self.spends
            for head in self.heads:
                ledger.verify(head)
            assert 0 <= self.charged - self.total < max(1, len(self.spends)) * UNIT
            assert self.charged <= self.cap
            assert ledger._cap_units * UNIT == self.cap
            self.path.with_suffix(".copy").unlink(missing_ok=True)
            self.path.unlink()


TARGET = Target(
    "ledger, step by step",
    "runs of 25 steps on a real file, compared with exact fractions",
    2_500,
    machine=LedgerMachine,
)
