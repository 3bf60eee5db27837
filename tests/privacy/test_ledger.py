"""The ledger in one process: terms, charges, refusals, tampering, bad files."""

import contextlib
import json
import math
import os
import pickle
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpem import Ledger
from dpem.errors import (
    DeltaWarning,
    InsecureNoiseWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    LedgerError,
    LedgerTamperedError,
    UnsupportedEventError,
)
from dpem.privacy import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PrivacyUnit,
    calibrate,
    gaussian_dp,
    ledger_sqlite,
)
from dpem.privacy import ledger as ledger_module
from dpem.privacy.ledger import Charge, Head
from dpem.privacy.ledger_chain import chained_hash
from dpem.privacy.statement import PrivacyStatement
from dpem.testing import insecure_noise


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "clinic.ledger", name="clinic", cap_epsilon=1.0, cap_delta=1e-6)


def spend(ledger, epsilon=0.1):
    plan = calibrate(ComposedEvent(((GaussianEvent(1.0), 3),)), epsilon, 1e-6)
    return ledger.spend(plan, purpose="test", analyst="tester")


# -- charging ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-3])
def test_a_plan_for_the_whole_cap_fits_once(tmp_path, epsilon, delta):
    """A plan that is calibrated to the cap is accepted, and nothing remains: rounding does not reject it."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=epsilon, cap_delta=delta)
    plan = calibrate(ComposedEvent(((GaussianEvent(1.0), 7), (GaussianEvent(3.3), 2))), epsilon, delta)
    ledger.spend(plan, purpose="all", analyst="a")
    assert ledger.remaining().mu <= 1e-5 * gaussian_dp.mu_for(epsilon, delta)
    with pytest.raises(InsufficientBudgetError):
        ledger.spend(GaussianEvent(1e4 / epsilon), purpose="more", analyst="a")


def test_charges_add_up_as_mu_squared(ledger):
    """Four plans of half the cap's mu fill it; a fifth is refused with both amounts as fields."""
    half = GaussianEvent(2 / ledger.cap.mu * (1 + 1e-12))
    for _ in range(4):
        ledger.spend(half, purpose="quarter", analyst="a")
    with pytest.raises(InsufficientBudgetError, match=r"Nothing was charged") as refusal:
        ledger.spend(half, purpose="fifth", analyst="a")
    assert refusal.value.requested.mu == pytest.approx(ledger.cap.mu / 2)
    assert refusal.value.remaining.epsilon < 1e-3
    assert len(ledger.history()) == 4
    ledger.verify()


def test_laplace_is_charged_as_gaussian_dp(ledger):
    """Pure epsilon costs mu = 2 Phi^-1(e^eps / (1 + e^eps))."""
    charge = ledger.spend(LaplaceEvent(0.05), purpose="count", analyst="a")
    assert charge.cost.mu == pytest.approx(gaussian_dp.mu_of_pure_dp(0.05), rel=1e-12)


def test_history_and_export(ledger):
    """Records keep purpose, analyst and events; the export is plain JSON."""
    charge = spend(ledger)
    assert ledger.history() == [charge]
    assert charge.cost.epsilon == pytest.approx(0.1, rel=1e-8)
    export = json.loads(json.dumps(ledger.export()))
    assert export["name"] == "clinic"
    assert export["spends"][0]["purpose"] == "test"
    assert export["spends"][0]["event"]["parts"][0]["count"] == 3
    assert export["head"] == ledger.head().hash
    assert "clinic" in str(ledger)
    assert "(tester)" in str(ledger)


def test_a_reopened_ledger_has_the_same_records(ledger):
    """Another process sees the same terms and the same total."""
    spend(ledger)
    again = Ledger(ledger.path)
    assert (again.name, again.cap, again.adjacency, again.unit) == (
        ledger.name,
        ledger.cap,
        ledger.adjacency,
        ledger.unit,
    )
    assert again.remaining() == ledger.remaining()
    assert spend(again).number == 2


def test_analyst_defaults_to_the_user(ledger):
    """Without a name the operating system's user is recorded."""
    assert ledger.spend(GaussianEvent(100.0), purpose="p").analyst


@pytest.mark.parametrize("error", [ImportError, KeyError, OSError])
def test_a_user_without_a_name(ledger, monkeypatch, error):
    """As in a container without a list of users: the charge succeeds."""

    def raise_it():
        raise error

    monkeypatch.setattr("getpass.getuser", raise_it)
    assert ledger.spend(GaussianEvent(100.0), purpose="p").analyst == "unknown"


def test_insecure_noise_is_recorded(ledger):
    """A charge with seeded noise is marked, for the privacy officer who reads the ledger."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(1):
        spend(ledger)
    spend(ledger)
    assert [charge.insecure_noise for charge in ledger.history()] == [True, False]
    assert str(ledger).count("[INSECURE NOISE]") == 1


def test_the_stated_remaining_budget_can_be_spent(ledger):
    """The remaining budget is rounded down, so that a plan for it fits; charges are rounded up."""
    spend(ledger, 0.9)
    left = float(str(ledger.remaining()).split()[2])
    plan = calibrate(GaussianEvent(1.0), left, 1e-6)
    assert ledger.spend(plan, purpose="the rest").cost.epsilon >= left * (1 - 1e-5)


def test_refusals_survive_pickling(ledger):
    """Workers of a pool return exceptions by pickle."""
    spend(ledger, 0.9)
    with pytest.raises(InsufficientBudgetError) as caught:
        spend(ledger, 0.9)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.remaining, again.requested) == (caught.value.remaining, caught.value.requested)
    assert str(again) == str(caught.value)


def test_numpy_numbers_are_numbers(tmp_path):
    """Narrow numpy scalars are stored as plain numbers, so that none can wrap inside a sum."""
    ledger = Ledger.create(
        tmp_path / "n",
        name="x",
        cap_epsilon=np.float64(1),
        cap_delta=np.float64(1e-6),
        rows_per_person=np.int64(2),
    )
    plan = ComposedEvent(
        ((GaussianEvent(np.int8(100)), np.uint8(200)), (GaussianEvent(np.float32(100)), np.int16(56)))
    )
    ledger.spend(plan, purpose="numpy", unit=PrivacyUnit(np.int64(2)))
    assert ledger.history()[0].cost.mu == pytest.approx(math.sqrt(256) / 100, rel=1e-12)
    ledger.verify()


# -- refusals spend nothing ----------------------------------------------------------------------------


class MysteryEvent(Event):
    """An event that no accountant supports."""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"event": MysteryEvent()}, UnsupportedEventError, "MysteryEvent"),
        ({"event": "gaussian"}, InvalidArgumentError, "an Event"),
        ({"purpose": ""}, InvalidArgumentError, "purpose"),
        ({"purpose": None}, InvalidArgumentError, "purpose"),
        ({"analyst": "  "}, InvalidArgumentError, "analyst"),
        ({"analyst": "me\n   2  forged line"}, InvalidArgumentError, "one line of text"),
        ({"adjacency": "add_remove"}, InvalidArgumentError, "replace_one.*separate ledger"),
        ({"adjacency": "nonsense"}, InvalidArgumentError, "adjacency"),
        ({"unit": PrivacyUnit(3)}, InvalidArgumentError, "privacy unit.*one row"),
    ],
)
def test_bad_charges_are_refused(ledger, arguments, error, message):
    """Invalid arguments, another relation and another unit raise, and the ledger stays unchanged."""
    good = {"event": GaussianEvent(100.0), "purpose": "p", "analyst": "a"}
    call = {**good, **arguments}
    with pytest.raises(error, match=message):
        ledger.spend(call.pop("event"), **call)
    assert ledger.history() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cap_epsilon": math.inf}, "infinite epsilon gives no privacy"),
        ({"cap_epsilon": -1}, "cap_epsilon"),
        ({"cap_epsilon": math.nan}, "cap_epsilon"),
        ({"cap_epsilon": "1"}, "cap_epsilon"),
        ({"cap_epsilon": 10**400}, "cap_epsilon"),
        ({"cap_epsilon": -(10**5000)}, "of type int"),
        ({"cap_delta": 0}, "cap_delta"),
        ({"cap_delta": 1}, "cap_delta"),
        ({"cap_delta": 0.5}, "cap_delta of at most 0.01, got cap_delta=0.5. Delta is the probability"),
        ({"name": ""}, "name"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"rows_per_person": 0}, "rows_per_person"),
        ({"person": ""}, "person"),
    ],
)
def test_invalid_terms_create_no_file(tmp_path, arguments, message):
    """A ledger with invalid terms is not created."""
    path = tmp_path / "l"
    good = {"name": "x", "cap_epsilon": 1.0, "cap_delta": 1e-6}
    with pytest.raises(InvalidArgumentError, match=message):
        Ledger.create(path, **{**good, **arguments})
    assert not path.exists()


def test_a_large_delta_gives_a_warning(tmp_path):
    with pytest.warns(DeltaWarning, match="cap_delta=0.005 is large"):
        Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=0.005)


def test_a_failed_creation_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_sqlite, "CREATE", ledger_sqlite.CREATE + "no such statement;")
    with pytest.raises(LedgerError):
        Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-6)
    assert not list(tmp_path.iterdir())


def test_the_remaining_budget_is_never_overstated():
    """The largest float whose square is within the units, whichever way a root is rounded."""
    for units in np.random.default_rng(0).integers(1, 2**62, 200).tolist():
        mu = ledger_module._mu_down(units << 40)
        assert Fraction(mu) ** 2 * 2**100 <= units << 40 < Fraction(math.nextafter(mu, 9)) ** 2 * 2**100
        assert ledger_module._units_down(mu) <= Fraction(mu) ** 2 * 2**100 < ledger_module._units_down(mu) + 1


def test_terms_of_a_person_level_ledger(tmp_path):
    """Unit and relation are stored and enforced."""
    terms = {"adjacency": "add_remove", "rows_per_person": 4, "person": "patient"}
    Ledger.create(tmp_path / "l", name="x", cap_epsilon=1, cap_delta=1e-6, **terms)
    ledger = Ledger(tmp_path / "l")
    assert ledger.unit == PrivacyUnit(4, "patient")
    ledger.spend(GaussianEvent(50.0), purpose="p", adjacency="add_remove", unit=PrivacyUnit(4, "patient"))
    with pytest.raises(InvalidArgumentError, match="privacy unit"):
        ledger.spend(GaussianEvent(50.0), purpose="p", unit=PrivacyUnit())


# -- files ---------------------------------------------------------------------------------------------


def test_existing_files_are_never_overwritten(ledger, tmp_path):
    """Creating twice is an error that keeps the first ledger."""
    spend(ledger)
    with pytest.raises(LedgerError, match="which exists"):
        Ledger.create(ledger.path, name="y", cap_epsilon=9, cap_delta=1e-6)
    assert Ledger(ledger.path).name == "clinic"
    with pytest.raises(LedgerError, match="folder that can be written"):
        Ledger.create(tmp_path / "no" / "such" / "folder", name="y", cap_epsilon=9, cap_delta=1e-6)


def test_files_that_are_not_ledgers(tmp_path):
    """Missing, foreign and future files get an error each, and none is created or changed."""
    missing = tmp_path / "missing"
    with pytest.raises(LedgerError, match="existing ledger"):
        Ledger(missing)
    assert not missing.exists()
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(LedgerError, match="creation was interrupted"):
        Ledger(empty)
    text = tmp_path / "text"
    text.write_text("age,sex\n31,F\n" * 100)
    with pytest.raises(LedgerError, match="which is not a ledger"):
        Ledger(text)
    text.write_bytes(b"SQLite format 3\0" + b"nothing" * 100)
    with pytest.raises(LedgerError, match="not a database"):
        Ledger(text)
    with pytest.raises(InvalidArgumentError, match="got ledger=5"):
        Ledger(5)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(LedgerError, match="another file"):
        Ledger(other)


def test_future_formats_are_refused(ledger):
    """A ledger of a newer format is refused."""
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(LedgerError, match="format 2, got 3"):
        Ledger(ledger.path)


def test_odd_paths(tmp_path):
    """Characters with a meaning in a URI are allowed in names."""
    path = tmp_path / "a b?mode=memory#x%41.ledger"
    ledger = Ledger.create(path, name="x", cap_epsilon=1, cap_delta=1e-6)
    spend(ledger)
    assert path.exists()
    assert len(Ledger(path).history()) == 1


def test_relative_paths_survive_a_change_of_folder(tmp_path, monkeypatch):
    """A ledger opened by a relative path stays the same file."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create("l", name="x", cap_epsilon=1, cap_delta=1e-6)
    (tmp_path / "other").mkdir()
    os.chdir(tmp_path / "other")
    assert spend(ledger).number == 1


def test_a_replaced_file_raises(ledger, tmp_path):
    """An open ledger does not charge a file with another cap that replaced its own."""
    other = Ledger.create(tmp_path / "o", name="other", cap_epsilon=9, cap_delta=1e-6)
    shutil.copy(other.path, ledger.path)
    with pytest.raises(LedgerError, match="replaced"):
        spend(ledger)
    assert other.history() == []
    twin = Ledger.create(tmp_path / "t", name="clinic", cap_epsilon=1.0, cap_delta=1e-6)
    shutil.copy(twin.path, ledger.path)  # equal terms, but another ledger
    with pytest.raises(LedgerError, match="replaced"):
        spend(ledger)


@pytest.mark.parametrize("room", [0, 2000])
def test_full_disk_charges_nothing(ledger, room):
    """If the file cannot grow, the charge fails, the ledger stays intact, and later it works again."""
    spend(ledger)
    program = f"""
import resource, sys
from dpem import Ledger
from dpem.errors import LedgerError
from dpem.privacy import GaussianEvent
ledger = Ledger({str(ledger.path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.RLIM_INFINITY))
for i in range(200):
    try:
        ledger.spend(GaussianEvent(1e4), purpose="x" * 500, analyst="a")
    except LedgerError as error:
        assert "SQLite says" in str(error), error
        sys.exit(42)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 42, run.stderr
    before = len(ledger.history())
    ledger.verify()
    spend(ledger)
    assert len(ledger.history()) == before + 1
    ledger.verify()


# -- tampering -----------------------------------------------------------------------------------------


def tamper(ledger, *statements):
    """Change the file directly, after removing its triggers."""
    connection = sqlite3.connect(ledger.path)
    for trigger in ("terms_are_fixed", "terms_stay", "spend_is_fixed", "spend_stays", "spend_grows"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE spend SET units = '1' WHERE number = 2",
        "UPDATE spend SET total_units = '1' WHERE number = 3",
        "UPDATE spend SET purpose = 'another' WHERE number = 1",
        "UPDATE spend SET analyst = 'another' WHERE number = 3",
        'UPDATE spend SET event = \'{"event": "gaussian", "noise_multiplier": 1e9}\' WHERE number = 1',
        "UPDATE spend SET time = '2020-01-01' WHERE number = 2",
        "UPDATE spend SET insecure_noise = 1 WHERE number = 2",
        "DELETE FROM spend WHERE number = 2",
        "DELETE FROM spend WHERE number = 1",
        "UPDATE spend SET number = 9 WHERE number = 3",
        "UPDATE terms SET cap_epsilon = 50",
        "UPDATE terms SET cap_units = '999999999999999999999999999999999999999'",
        "UPDATE terms SET adjacency = 'add_remove'",
        "INSERT INTO terms SELECT * FROM terms",
        "INSERT INTO spend SELECT 4,time,purpose,analyst,event,facts,0,units,units,hash FROM spend LIMIT 1",
    ],
)
def test_tampering_is_found(ledger, statement):
    """Any change to a record, its order or the terms breaks the chain."""
    for _ in range(3):
        spend(ledger)
    ledger.verify()
    tamper(ledger, statement)
    with pytest.raises(LedgerTamperedError, match="Expected an unbroken chain"):
        ledger.verify()


def forge(ledger, **changes):
    """Change the newest record and its hash, as anyone with write access can."""
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        names = ledger_sqlite.SPEND
        rows = connection.execute(f"SELECT {', '.join(names)} FROM spend ORDER BY number").fetchall()
        before, last = rows[-2:]
        record = dict(zip(names[:-1], last[:-1], strict=True)) | changes
        digest = chained_hash(before[-1], record)
    columns = [f"{name} = {value!r}" for name, value in {**record, "hash": digest}.items()]
    tamper(ledger, f"UPDATE spend SET {', '.join(columns)} WHERE number = {last[0]}")


COST = 2**100 // 10**4 + 1  # of a Gaussian mechanism of multiplier 100, in the ledger's units


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"units": str(COST + 1), "total_units": str(2 * COST + 1)},
            "the cost or total in record 2 is wrong",
        ),
        (
            {"units": str(COST - 1), "total_units": str(2 * COST - 1)},
            "the cost or total in record 2 is wrong",
        ),
        ({"total_units": str(2 * COST - 1)}, "the cost or total in record 2 is wrong"),
        ({"total_units": str(COST)}, "the cost or total in record 2 is wrong"),
        ({"units": "x"}, "record 2 cannot be read"),
        ({"event": "[]"}, "record 2 cannot be read"),
        ({"event": "{"}, "record 2 cannot be read"),
        ({"number": 3}, "the number or hash of record 2 is wrong"),
        (
            {
                "event": json.dumps(GaussianEvent(1.0).to_dict()),
                "units": str(2**100),
                "total_units": str(2**100 + COST),
            },
            "charges exceed its cap",
        ),
    ],
)
def test_a_forged_record_with_a_fitting_hash_is_found(ledger, changes, message):
    """The chain alone is intact: amounts must also be those of the events, add up, and stay under the cap."""
    for _ in range(2):
        ledger.spend(GaussianEvent(100.0), purpose="p", analyst="a")
    ledger.verify()
    forge(ledger, purpose="q")
    ledger.verify()
    forge(ledger, **changes)
    with pytest.raises(LedgerTamperedError, match=message):
        ledger.verify()


def test_forged_totals_and_events_raise(ledger):
    for _ in range(2):
        ledger.spend(GaussianEvent(100.0), purpose="p", analyst="a")
    forge(ledger, total_units="x")
    with pytest.raises(LedgerTamperedError, match="record 2 cannot be read"):
        ledger.spend(GaussianEvent(100.0), purpose="p", analyst="a")
    forge(ledger, event="{", total_units=str(2 * COST))
    with pytest.raises(LedgerTamperedError, match="record 2 cannot be read"):
        ledger.history()


def test_forged_terms_with_a_fitting_hash_are_refused(ledger):
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        names = [name for name in ledger_sqlite.TERMS if name != "hash"]
        found = connection.execute(f"SELECT {', '.join(names)} FROM terms").fetchone()
    terms = dict(zip(names, found, strict=True)) | {"unit": "{"}
    digest = chained_hash("", terms)
    tamper(ledger, f"UPDATE terms SET unit = '{{', hash = '{digest}'")
    with pytest.raises(LedgerTamperedError, match="its terms cannot be read"):
        Ledger(ledger.path)


def test_charges_are_on_disk_before_they_take_effect(ledger):
    """Whatever the mode of the file: one file, and a sync that survives power loss."""
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    with ledger_sqlite.connection_to(ledger.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)


def test_amounts_are_exact_to_the_last_unit(ledger):
    """Units of 2^-100 of mu^2, rounded up: one below the cost of two charges lets only one pass."""
    ledger._cap_units = 2 * COST
    assert [ledger.spend(GaussianEvent(100.0), purpose="p").number for _ in range(2)] == [1, 2]
    ledger.verify()
    assert ledger.remaining().mu == 0
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
        amounts = connection.execute("SELECT units, total_units FROM spend").fetchall()
    assert amounts == [(str(COST), str(COST)), (str(COST), str(2 * COST))]
    ledger._cap_units = 3 * COST - 1
    with pytest.raises(InsufficientBudgetError):
        ledger.spend(GaussianEvent(100.0), purpose="p")
    ledger._cap_units = 2 * COST - 1
    with pytest.raises(LedgerTamperedError, match="exceed its cap"):
        ledger.verify()


def stated(event, **changes):
    """Return the statement of a release with this event."""
    words = {"bounds": {"age": "0 to 120"}, "insecure_noise": False} | changes
    return PrivacyStatement(1.0, 1e-5, event, **words)


def test_verify_charge_compares_record_and_release(ledger):
    """All facts in a record: events, relation, unit, purpose, bounds, budget, source of the noise."""
    event = GaussianEvent(100.0)
    statement = stated(event)
    for purpose in ("dpem.KMeans.fit", "dpem.KMeans.fit: for the board"):
        paid = ledger.spend(event, purpose=purpose, facts=statement.facts)
        charge = Charge(ledger.name, paid.number, paid.hash)
        assert Charge.from_dict(charge.to_dict()) == charge
        ledger.verify_charge(charge, statement, purpose="dpem.KMeans.fit")
        for other, word in (
            (replace(statement, adjacency="add_remove"), "neighbours"),
            (replace(statement, unit=PrivacyUnit(2)), "unit"),
            (replace(statement, event=GaussianEvent(99.0)), "mechanisms"),
            (replace(statement, bounds={"age": "0 to 1200"}), "bounds"),
            (replace(statement, bounds_source="schema"), "bounds"),
            (replace(statement, epsilon=0.9), "budget"),
            (replace(statement, insecure_noise=True), "source of noise"),
        ):
            with pytest.raises(LedgerError, match=word):
                ledger.verify_charge(charge, other, purpose="dpem.KMeans.fit")
        with pytest.raises(LedgerError, match="purpose"):
            ledger.verify_charge(charge, statement, purpose="dpem.KMeans")
        with pytest.raises(LedgerError, match="without a charge"):
            ledger.verify_charge(None, statement, purpose="dpem.KMeans.fit")
        forged = Charge(ledger.name, paid.number, "0" * 64)
        with pytest.raises(LedgerTamperedError, match="does not have the hash that was kept"):
            ledger.verify_charge(forged, statement, purpose="dpem.KMeans.fit")


def test_charges_are_found_by_number(ledger):
    """The record of a release is found among several; an empty ledger has a head too."""
    ledger.verify(ledger.head())
    events = [GaussianEvent(100.0), GaussianEvent(200.0), GaussianEvent(300.0)]
    paid = [ledger.spend(event, purpose="p") for event in events]
    for event, spent in zip(events, paid, strict=True):
        ledger.verify_charge(Charge(ledger.name, spent.number, spent.hash), stated(event), purpose="p")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE spend SET total_units = '-5' WHERE number = 3",
        "UPDATE spend SET total_units = 'zz' WHERE number = 3",
        "UPDATE spend SET units = 'abc' WHERE number = 3",
        "UPDATE spend SET event = 'not json' WHERE number = 3",
        "UPDATE spend SET purpose = CAST(purpose AS BLOB) WHERE number = 3",
    ],
)
def test_nothing_is_charged_on_top_of_a_changed_record(ledger, statement):
    """The newest link is verified at every charge; damage raises no other exception."""
    for _ in range(3):
        spend(ledger)
    tamper(ledger, statement)
    for use in (lambda: spend(ledger), ledger.remaining, ledger.head, ledger.verify, lambda: str(ledger)):
        with pytest.raises(LedgerTamperedError, match="record 3"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        "cap_units = '9999999999999999999999999999999999999'",
        "cap_units = 'abc'",
        "cap_epsilon = 50",
        "unit = 'not json'",
        "unit = '[]'",
        "adjacency = 'zzz'",
        "name = 'other'",
    ],
)
def test_nothing_is_charged_under_changed_terms(ledger, change):
    """A raised cap is found when the ledger is opened and at every charge, not only when it is verified."""
    spend(ledger)
    tamper(ledger, f"UPDATE terms SET {change}")
    uses = (lambda: spend(ledger), ledger.remaining, ledger.head, ledger.verify, ledger.export)
    for use in (*uses, lambda: Ledger(ledger.path)):
        with pytest.raises(LedgerTamperedError, match="terms were changed"):
            use()


def test_an_export_is_consistent(ledger):
    """While others charge, the head is the hash of the last charge that is listed."""
    stop = threading.Event()

    def charge():
        while not stop.is_set():
            ledger.spend(GaussianEvent(1e6), purpose="count")

    other = threading.Thread(target=charge)
    other.start()
    try:
        for _ in range(6):
            exported = ledger.export()
            if exported["spends"]:
                assert exported["head"] == exported["spends"][-1]["hash"]
    finally:
        stop.set()
        other.join()


@pytest.mark.parametrize("path", [None, 5, "a\0b"])
def test_invalid_paths_of_ledgers(path):
    with pytest.raises(InvalidArgumentError, match="path"):
        Ledger(path)


def test_insecure_noise_must_be_true_or_false(ledger):
    with pytest.raises(InvalidArgumentError, match="insecure_noise"):
        ledger.spend(GaussianEvent(100.0), purpose="count", insecure_noise="yes")
    assert ledger.history() == []


def test_lost_terms_raise(ledger):
    tamper(ledger, "DELETE FROM terms")
    with pytest.raises(LedgerTamperedError, match="terms are not one record"):
        Ledger(ledger.path)


def test_laplace_charges_survive_another_math_library(ledger, monkeypatch):
    """The last digit of a special function may differ elsewhere; larger differences are detected."""
    from dpem.privacy import gaussian_dp

    ledger.spend(LaplaceEvent(0.05), purpose="count")
    original = gaussian_dp.mu_of_pure_dp
    monkeypatch.setattr(gaussian_dp, "mu_of_pure_dp", lambda epsilon: original(epsilon) * (1 - 1e-15))
    ledger.verify()
    monkeypatch.setattr(gaussian_dp, "mu_of_pure_dp", lambda epsilon: original(epsilon) * (1 - 1e-9))
    with pytest.raises(LedgerTamperedError, match="the cost or total in record 1 is wrong"):
        ledger.verify()


def test_truncation_needs_a_kept_head(ledger):
    """Removed newest records are not detected by the chain, but by a head that was kept elsewhere."""
    for _ in range(3):
        spend(ledger)
    head = ledger.head()
    assert head.number == 3
    ledger.verify(head)
    tamper(ledger, "DELETE FROM spend WHERE number = 3")
    ledger.verify()
    with pytest.raises(LedgerTamperedError, match="record 3"):
        ledger.verify(head)
    with pytest.raises(LedgerTamperedError, match="record 0"):
        ledger.verify(Head(0, "0" * 64))


def test_accidental_changes_are_stopped(ledger):
    """Triggers keep a stray UPDATE or DELETE from changing the record."""
    spend(ledger)
    connection = sqlite3.connect(ledger.path)
    replacement = "INSERT OR REPLACE INTO spend SELECT * FROM spend"
    for statement in ("UPDATE spend SET units = '0'", "DELETE FROM spend", "DELETE FROM terms", replacement):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
