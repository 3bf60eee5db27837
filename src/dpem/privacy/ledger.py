"""The ledger: the budget of one protected table, in one SQLite file.

The owner of the table sets a cap. Every release is charged before the data is read. Charges are counted in
mu^2, whose sum is a valid filter under fully adaptive composition (docs/proofs/ledger.md). A crash after the
charge can lose budget, never privacy. Records are hash-chained, so that changes are detected.
"""

from __future__ import annotations

import getpass
import json
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpem import _html, _validate
from dpem._warnings import warn
from dpem.errors import (
    DeltaWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    LedgerError,
    LedgerTamperedError,
)
from dpem.privacy._rounding import digits_down, digits_up, root_up
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.budget import Budget
from dpem.privacy.events import Event, LaplaceEvent, event_from_dict, flatten
from dpem.privacy.ledger_chain import FORMAT_VERSION, chained_hash, checked_terms, last_link, tampered
from dpem.privacy.ledger_sqlite import SqliteLedger
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.randomness import entropy

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dpem.privacy.ledger_chain import Record
    from dpem.privacy.ledger_store import LedgerRecords, LedgerStore
    from dpem.privacy.statement import PrivacyStatement

__all__ = ["Charge", "Head", "Ledger", "Spend"]

# Amounts are whole numbers of this unit of mu^2: caps rounded down, charges rounded up.
_UNITS = 2**100

_COMPARED = 100  # newest records with which a charge is compared
_LONGEST_FACTS = 1000  # characters of a hash of public facts

# Exceptions from parsing a record that somebody changed.
_UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Head:
    """Number and hash of the newest record. Keep it elsewhere to detect later that records were removed."""

    number: int
    hash: str


@dataclass(frozen=True)
class Charge:
    """A reference to the ledger record of a charge, which is kept in the released model.

    Attributes
    ----------
    ledger : str
        The declared name of the protected data set.
    number : int
        The number of the record.
    hash : str
        The hash of the record, which no other record of any ledger has.
    """

    ledger: str
    number: int
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Charge:
        """Rebuild a charge from the output of :meth:`to_dict`."""
        return cls(
            _validate.text(description["ledger"], "ledger"),
            _validate.integer(description["number"], "number"),
            _validate.text(description["hash"], "hash"),
        )


@dataclass(frozen=True)
class Spend:
    """A record of a charge.

    Attributes
    ----------
    number : int
        The number of the record; the first charge of a ledger has number 1.
    time : str
        The time of the charge, in UTC.
    purpose, analyst : str
        The purpose of the release, and who asked for it.
    event : Event
        The whole plan that was charged.
    facts : str
        A hash of public facts of the release (bounds, budget, accountant); "" if none was given.
    insecure_noise : bool
        Whether the noise was drawn from a seed.
    cost : Budget
        The cost of this charge by itself, at the ledger's delta.
    hash : str
        The hash of the record, which no other record of any ledger has.
    """

    number: int
    time: str
    purpose: str
    analyst: str
    event: Event
    facts: str
    insecure_noise: bool
    cost: Budget
    hash: str


class Ledger:
    """Open the ledger of a protected data set; create one with :meth:`create`.

    Parameters
    ----------
    path : path-like
        The SQLite file.
    purpose : str, optional
        Text that is added to the purpose of every charge.
    analyst : str, optional
        The default analyst of charges; by default the user name of the operating system.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dpem.privacy.calibration import calibrate
    >>> from dpem.privacy.events import GaussianEvent
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "patients.ledger"
    >>> ledger = Ledger.create(path, name="patients 2026", cap_epsilon=1.0, cap_delta=1e-5)
    >>> plan = calibrate(GaussianEvent(1.0), epsilon=0.5, delta=1e-5)
    >>> ledger.spend(plan, purpose="mean age", analyst="registry team").number
    1
    >>> print(ledger.remaining())
    epsilon = 0.834232 at delta = 1e-05
    """

    def __init__(
        self, path: str | os.PathLike[str], *, purpose: str | None = None, analyst: str | None = None
    ) -> None:
        self.path = _validate.path(path, "ledger", "Pass the file of a ledger.").absolute()
        self._purpose = None if purpose is None else _validate.text(purpose, "purpose")
        self._analyst = None if analyst is None else _validate.text(analyst, "analyst")
        self._store = _store_at(self.path)
        self._store.check()
        self._read_terms()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str,
        cap_epsilon: float,
        cap_delta: float,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
    ) -> Ledger:
        """Create the ledger of a data set.

        Parameters
        ----------
        path : path-like
            A file that does not exist yet.
        name : str
            The declared name of the data set. Do not use a hash of its content, which would show whether a
            guess of the content is right.
        cap_epsilon : float
            Epsilon of the cap, which limits the cost of all releases together.
        cap_delta : float
            Delta of the cap, at most 0.01; a warning above 0.001.
        adjacency : {"replace_one", "add_remove"}
            The neighbouring relation of every release.
        rows_per_person : int, default 1
            The largest number of rows of one person, which defines the privacy unit of every release.
        person : str, optional
            The column that identifies persons.
        """
        name = _validate.text(name, "name", "Name the data set, such as 'patients 2026'.")
        epsilon = _validate.epsilon(cap_epsilon, "cap_epsilon")
        delta = _validate.delta_of_releases(cap_delta, "cap_delta")
        unit = PrivacyUnit(rows_per_person, person)
        terms = {
            "id": uuid.uuid4().hex,  # distinguishes ledgers with equal terms
            "name": name,
            "cap_epsilon": epsilon,
            "cap_delta": delta,
            "cap_units": str(_units_down(Budget.from_epsilon(epsilon, delta).mu)),
            "adjacency": Adjacency.parse(adjacency).value,
            "unit": json.dumps(unit.to_dict(), sort_keys=True),
            "created": _now(),
        }
        if delta > _validate.LARGE_DELTA:
            warn(
                f"cap_delta={delta:g} is large, and the cap of a ledger cannot be changed. "
                f"{_validate.DELTA_MEANS} Choose a delta well below one over the number of rows.",
                DeltaWarning,
            )
        _store_at(_validate.path(path)).create(terms | {"hash": chained_hash("", terms)})
        return cls(path)

    # -- reading -------------------------------------------------------------------------------------

    def remaining(self) -> Budget:
        """Return the remaining budget, at the ledger's delta."""
        return self._snapshot()[1]

    def history(self) -> list[Spend]:
        """Return every charge, oldest first."""
        return self._snapshot()[0]

    def head(self) -> Head:
        """Return number and hash of the newest record; keep them elsewhere to detect removed records."""
        return self._snapshot()[2]

    def _snapshot(self) -> tuple[list[Spend], Budget, Head]:
        """Return charges, remaining budget and head from one consistent view."""
        with self._store.reading() as records:
            number, digest, spent = self._last_link(records)
            spends = records.spends()
        left = self._left(self._cap_units - spent)
        return [self._spend_of(record) for record in spends], left, Head(number, digest)

    def export(self) -> dict[str, Any]:
        """Return terms, charges, remaining budget and head as JSON-serialisable data."""
        spends, left, head = self._snapshot()
        return {
            "format": FORMAT_VERSION,
            "id": self._terms["id"],
            "name": self.name,
            "cap": {"epsilon": self.cap.epsilon, "delta": self.cap.delta},
            "adjacency": self.adjacency.value,
            "unit": self.unit.to_dict(),
            "created": self.created,
            "spends": [
                {
                    "number": spend.number,
                    "time": spend.time,
                    "purpose": spend.purpose,
                    "analyst": spend.analyst,
                    "epsilon": spend.cost.epsilon,
                    "mu": spend.cost.mu,
                    "event": spend.event.to_dict(),
                    "facts": spend.facts,
                    "insecure_noise": spend.insecure_noise,
                    "hash": spend.hash,
                }
                for spend in spends
            ],
            "remaining_epsilon": left.epsilon,
            "head": head.hash,
        }

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, name={self.name!r}, cap_epsilon={self.cap.epsilon:g})"

    def _repr_html_(self) -> str:
        spends, left, _ = self._snapshot()
        rows = [(s.number, s.time, s.purpose, s.analyst, f"{s.cost.epsilon:.4g}") for s in spends]
        table = _html.table(["no.", "time (UTC)", "purpose", "analyst", "epsilon alone"], rows)
        title = f"Ledger of {self.name!r}: cap {self.cap}; left: {left}"
        return _html.paragraph(title) + table

    def __str__(self) -> str:
        spends, left, _ = self._snapshot()
        lines = [
            f"Ledger of {self.name!r}: cap {self.cap}",
            f"neighbours: {self.adjacency.value}; unit: {self.unit}",
            *(
                f"{spend.number:>4}  {spend.time}  {spend.cost}  {spend.purpose} ({spend.analyst})"
                + ("  [INSECURE NOISE]" if spend.insecure_noise else "")
                for spend in spends
            ),
            f"left: {left}",
        ]
        return "\n".join(lines)

    # -- charging and verifying ----------------------------------------------------------------------

    def spend(
        self,
        event: Event,
        *,
        purpose: str,
        analyst: str | None = None,
        adjacency: str | None = None,
        unit: PrivacyUnit | None = None,
        facts: str = "",
        insecure_noise: bool = False,
    ) -> Spend:
        """Charge a whole plan, or reject it. Call this before the data is read.

        When this returns, the charge is on disk. When it raises a `DpemError`, nothing was charged. After an
        interrupt, look at :meth:`history`: it may come before or after the commit.

        Parameters
        ----------
        event : Event
            All mechanisms of the plan.
        purpose : str
            The purpose of the release, for the record.
        analyst : str, optional
            Who asks for the release, for the record; by default the user name of the operating system.
        adjacency : {"replace_one", "add_remove"}, optional
            The neighbouring relation of the plan; it must be the ledger's.
        unit : PrivacyUnit, optional
            The privacy unit of the plan; it must be the ledger's.
        facts : str, default ""
            A hash of public facts of the release (:attr:`PrivacyStatement.facts`), for later comparison.
        insecure_noise : bool, default False
            Whether to mark the charge as insecure although the noise is not seeded, because sums before noise
            are recorded.

        Raises
        ------
        InsufficientBudgetError
            If the plan costs more than the remaining budget; see its attributes `remaining` and `requested`.
        """
        purpose = self._whole_purpose(purpose)
        if analyst is None:
            analyst = self._analyst or _user_name()
        analyst = _validate.text(analyst, "analyst", "Name the person who asks for the release.")
        if not isinstance(insecure_noise, bool):
            raise _validate.fail("True or False", "insecure_noise", insecure_noise)
        if _validate.is_not(facts, str) or len(facts) > _LONGEST_FACTS:
            raise _validate.fail("a hash of public facts", "facts", facts)
        self.check_terms(adjacency, unit)
        units = _units_of(event)
        record = {
            "time": _now(),
            "purpose": purpose,
            "analyst": analyst,
            "event": _event_text(event),
            "facts": facts,
            "insecure_noise": int(insecure_noise or not entropy().is_secure),
            "units": str(units),
        }
        with self._store.appending() as records:  # from here on no other process can charge
            self._check_same_ledger(records)
            number, previous, spent = self._last_link(records)
            if spent + units > self._cap_units:
                left, requested = self._left(self._cap_units - spent), self._cost(units)
                raise InsufficientBudgetError(left, requested, self.name)
            record |= {"number": number + 1, "total_units": str(spent + units)}
            record["hash"] = chained_hash(previous, record)
            records.append(record)
        return self._spend_of(record)

    def _whole_purpose(self, purpose: str) -> str:
        purpose = _validate.text(purpose, "purpose", "State the purpose of the release.")
        return purpose if self._purpose is None else f"{purpose}: {self._purpose}"

    def _equal_charge(self, event: Event, purpose: str, facts: str) -> tuple[int, Budget] | None:
        """Return the number of the last record that equals a charge, and what is left after the charge.

        Returns None if there is no such record among the newest ones, or too little is left.
        """
        wanted = (self._whole_purpose(purpose), _event_text(event), facts)
        with self._store.reading() as records:
            _, _, spent = self._last_link(records)
            newest = records.spends(newest=_COMPARED)
        same = [r["number"] for r in newest if (r["purpose"], r["event"], r["facts"]) == wanted]
        left = self._cap_units - spent - _units_of(event)
        return (same[-1], self._left(left)) if same and left >= 0 else None

    def verify(self, head: Head | None = None) -> None:
        """Verify the hash chain and every total; raise `LedgerTamperedError` if one is wrong.

        Parameters
        ----------
        head : Head, optional
            A head that was kept elsewhere. It detects that the newest records were removed, which the chain
            alone cannot detect.
        """
        with self._store.reading() as records:
            previous = checked_terms(records.terms(), self._store.where)["hash"]
            spends = records.spends()
        hashes = {0: previous}
        total = 0
        for expected_number, record in enumerate(spends, start=1):
            digest = record.pop("hash")
            if record["number"] != expected_number or chained_hash(previous, record) != digest:
                raise self._tampered(f"the number or hash of record {expected_number} is wrong")
            try:
                units, total_units = int(record["units"]), int(record["total_units"])
                event = event_from_dict(json.loads(record["event"]))
            except _UNREADABLE as error:
                raise self._tampered(f"record {expected_number} cannot be read") from error
            total += units
            if total_units != total or not _is_cost_of(units, event):
                raise self._tampered(f"the cost or total in record {expected_number} is wrong")
            previous = hashes[expected_number] = digest
        if total > self._cap_units:
            raise self._tampered("its charges exceed its cap")
        if head is not None and not isinstance(head, Head):
            raise _validate.fail("a head that ledger.head() returned", "head", head)
        if head is not None and hashes.get(head.number) != head.hash:
            raise self._tampered(f"record {head.number} does not have the hash that was kept")

    def verify_charge(self, charge: Charge | None, statement: PrivacyStatement, *, purpose: str) -> None:
        """Verify the ledger, and that one of its records is the charge for a release.

        The record proves purpose, events, relation, unit, budget, accountant, bounds, and whether the noise
        was secure. It cannot prove that the charge was used only once: several models may refer to it.

        Parameters
        ----------
        charge : Charge or None
            The reference to the record, such as a model's `charge_`.
        statement : PrivacyStatement
            The statement of the release, such as a model's `privacy_`.
        purpose : str
            The beginning of the record's purpose, such as "dpem.KMeans.fit".

        Raises
        ------
        LedgerTamperedError
            If the ledger was changed, or has no such record.
        LedgerError
            If the record is that of another release.
        """
        if charge is None:
            raise LedgerError(
                f"Expected a release that was charged to a ledger, got one without a charge ({purpose}). "
                f"Pass a model that was fitted with a ledger."
            )
        if not isinstance(charge, Charge):
            raise _validate.fail("a charge, such as a model's charge_", "charge", charge)
        if not hasattr(statement, "facts") or isinstance(statement, type):
            raise _validate.fail("a PrivacyStatement, such as a model's privacy_", "statement", statement)
        purpose = _validate.text(purpose, "purpose")
        if charge.ledger != self.name:
            raise LedgerError(
                f"Expected the ledger of {charge.ledger!r}, to which this release was charged, got the "
                f"ledger of {self.name!r}. Pass the file of that ledger."
            )
        self.verify(Head(charge.number, charge.hash))
        record = self.history()[charge.number - 1]
        same = {
            "purpose": record.purpose.partition(":")[0] == purpose,
            "mechanisms": record.event == statement.event,
            "neighbours": self.adjacency is Adjacency.parse(statement.adjacency),
            "privacy unit": self.unit == statement.unit,
            "bounds or budget": record.facts in ("", statement.facts),
            "source of noise": record.insecure_noise == statement.insecure_noise,
        }
        differ = [what for what, holds in same.items() if not holds]
        if differ:
            raise LedgerError(
                f"Expected record {charge.number} of the ledger of {self.name!r} to be the charge for this "
                f"release, but they differ in {', '.join(differ)}."
            )

    # -- internals -----------------------------------------------------------------------------------

    def check_terms(self, adjacency: str | None, unit: PrivacyUnit | None) -> None:
        """Raise if the neighbouring relation or privacy unit of a plan is not the ledger's."""
        if adjacency is not None and Adjacency.parse(adjacency) is not self.adjacency:
            raise _validate.fail(
                f"the ledger's relation {self.adjacency.value!r}",
                "adjacency",
                Adjacency.parse(adjacency).value,
                "Guarantees under different relations do not add up. Use a separate ledger.",
            )
        if unit is not None and not isinstance(unit, PrivacyUnit):
            raise _validate.fail("a PrivacyUnit", "unit", unit)
        if unit is not None and unit != self.unit:
            raise InvalidArgumentError(
                f"Expected the ledger's privacy unit ({self.unit}), got {unit}. Guarantees for different "
                f"units do not add up. Use a separate ledger."
            )

    def _check_same_ledger(self, records: LedgerRecords) -> None:
        """Raise if the file was replaced after it was opened: its cap may be another."""
        if checked_terms(records.terms(), self._store.where) != self._terms:
            raise LedgerError(
                f"Expected the ledger of {self.name!r} in {self._store.where}, but the file was replaced. "
                f"Nothing was charged. Open it again."
            )

    def _last_link(self, records: LedgerRecords) -> tuple[int, str, int]:
        """Verify the terms and the newest record; return number, hash and total of the record."""
        where = self._store.where
        return last_link(checked_terms(records.terms(), where), records.spends(newest=2), where)

    def _read_terms(self) -> None:
        with self._store.reading() as records:
            terms = self._terms = checked_terms(records.terms(), self._store.where)
        try:
            self.name: str = terms["name"]
            self.adjacency = Adjacency.parse(terms["adjacency"])
            self.unit = PrivacyUnit.from_dict(json.loads(terms["unit"]))
            self.created: str = terms["created"]
            self._cap_units = int(terms["cap_units"])
            self.cap = Budget(terms["cap_epsilon"], terms["cap_delta"], _mu_down(self._cap_units))
        except _UNREADABLE as error:
            raise self._tampered("its terms cannot be read") from error

    def _spend_of(self, record: Record) -> Spend:
        number = record["number"]
        try:
            event, cost = event_from_dict(json.loads(record["event"])), self._cost(int(record["units"]))
        except _UNREADABLE as error:
            raise self._tampered(f"record {number} cannot be read") from error
        return Spend(
            number,
            record["time"],
            record["purpose"],
            record["analyst"],
            event,
            record["facts"],
            bool(record["insecure_noise"]),
            cost,
            record["hash"],
        )

    def _tampered(self, what: str) -> LedgerTamperedError:
        return tampered(self._store.where, what)

    # Displayed amounts have six digits. The remaining budget is rounded down and charges are rounded up, so
    # that a plan for the displayed remainder fits.

    def _left(self, units: int) -> Budget:
        mu = _mu_down(units)
        return Budget(digits_down(Budget.from_mu(mu, self.cap.delta).epsilon), self.cap.delta, mu)

    def _cost(self, units: int) -> Budget:
        mu = root_up(Fraction(units, _UNITS))
        return Budget(digits_up(Budget.from_mu(mu, self.cap.delta).epsilon), self.cap.delta, mu)


def _store_at(place: Path) -> LedgerStore:
    """Return the store of the ledger at a place: today always one SQLite file."""
    return SqliteLedger(place)


def _is_cost_of(units: int, event: Event) -> bool:
    """Whether a charge is the cost of its event: exactly, or closely if it has Laplace noise.

    The cost of Laplace noise contains special functions, whose last digits may differ between libraries.
    """
    cost = _units_of(event)
    has_laplace = any(isinstance(leaf, LaplaceEvent) for leaf in flatten(event))
    return abs(units - cost) <= (cost // 10**11 if has_laplace else 0)


def _units_of(event: Event) -> int:
    """Return the cost of an event, rounded up."""
    return math.ceil(GdpAccountant().mu_squared(event) * _UNITS)


def _event_text(event: Event) -> str:
    return json.dumps(event.to_dict(), sort_keys=True)


def _units_down(mu: float) -> int:
    return math.floor(Fraction(mu) ** 2 * _UNITS)


def _mu_down(units: int) -> float:
    """Return the largest float whose square is at most `units`."""
    mu = math.sqrt(Fraction(max(units, 0), _UNITS))
    while Fraction(mu) ** 2 * _UNITS > max(units, 0):
        mu = math.nextafter(mu, 0)
    return mu


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # neither a password database nor an environment variable
        return "unknown"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
