"""Conformance of ledger stores: every store passes these tests, and a ledger works on every store."""

import contextlib
import copy
import threading

import pytest

from dpem import Ledger
from dpem.errors import InsufficientBudgetError, LedgerError
from dpem.privacy import GaussianEvent
from dpem.privacy import ledger as ledger_module
from dpem.privacy.ledger_sqlite import SqliteLedger

TERMS = {
    "id": "0123",
    "name": "Klinik Süd",
    "cap_epsilon": 0.1,
    "cap_delta": 1e-300,
    "cap_units": str(2**150),
    "adjacency": "replace_one",
    "unit": "{}",
    "created": "2026-01-01T00:00:00+00:00",
    "hash": "a",
}


_in_memory = {}  # by place: terms and spends
_lock = threading.RLock()


class MemoryLedger:
    """The smallest store: records in this process. It shows that the protocol is all that a ledger needs."""

    def __init__(self, place):
        self._place, self.where = place, repr(str(place))

    def create(self, terms):
        with _lock:
            if self._place in _in_memory:
                raise LedgerError(f"Expected a new place, got {self.where}.")
            _in_memory[self._place] = ([dict(terms)], [])

    def check(self):
        if self._place not in _in_memory:
            raise LedgerError(f"Expected an existing ledger, got {self.where}.")

    @contextlib.contextmanager
    def reading(self):
        self.check()
        with _lock:
            yield MemoryRecords(*copy.deepcopy(_in_memory[self._place]))

    @contextlib.contextmanager
    def appending(self):
        self.check()
        with _lock:
            records = MemoryRecords(*copy.deepcopy(_in_memory[self._place]))
            yield records
            _in_memory[self._place] = (records.all_terms, records.all_spends)


class MemoryRecords:
    def __init__(self, all_terms, all_spends):
        self.all_terms, self.all_spends = all_terms, all_spends

    def terms(self):
        return copy.deepcopy(self.all_terms)

    def spends(self, newest=None):
        return copy.deepcopy(self.all_spends if newest is None else self.all_spends[-newest:])

    def append(self, spend):
        self.all_spends.append(dict(spend))


STORES = {"SQLite": SqliteLedger, "memory": MemoryLedger}


@pytest.fixture(params=STORES)
def store_at(request):
    """Return the function that opens a store at a path."""
    return STORES[request.param]


@pytest.fixture
def store(store_at, tmp_path):
    """Create a store with terms and no charge."""
    store = store_at(tmp_path / "l")
    store.create(TERMS)
    return store


def spend(number):
    return {
        "number": number,
        "time": "2026-01-01T00:00:00+00:00",
        "purpose": f"Größe {number}",
        "analyst": "a",
        "event": "{}",
        "facts": "",
        "insecure_noise": number % 2,
        "units": str(2**200 + number),  # more digits than a machine's integer or float
        "total_units": str(2**200),
        "hash": f"h{number}",
    }


def spends(store, newest=None):
    with store.reading() as records:
        return records.spends(newest)


def test_terms_and_charges_come_back_as_they_were(store, store_at, tmp_path):
    """Same values and types, oldest first, also for another object at the same place."""
    for number in range(1, 4):
        with store.appending() as records:
            records.append(spend(number))
    for opened in (store, store_at(tmp_path / "l")):
        opened.check()
        with opened.reading() as records:
            assert records.terms() == [TERMS]
            assert records.spends() == [spend(1), spend(2), spend(3)]
            assert records.spends(newest=2) == [spend(2), spend(3)]
            assert records.spends(newest=9) == [spend(1), spend(2), spend(3)]
            assert {name: type(value) for name, value in records.spends()[0].items()} == {
                name: type(value) for name, value in spend(1).items()
            }


def test_a_new_ledger_has_no_charge(store):
    assert spends(store) == spends(store, newest=2) == []


def test_a_second_creation_fails_and_changes_nothing(store, store_at, tmp_path):
    with pytest.raises(LedgerError):
        store_at(tmp_path / "l").create(TERMS | {"name": "another"})
    with store.reading() as records:
        assert records.terms() == [TERMS]


def test_without_a_ledger_everything_fails(store_at, tmp_path):
    """A store never creates a ledger by opening it."""
    store = store_at(tmp_path / "none")
    for operation in (store.check, lambda: spends(store), lambda: store.appending().__enter__()):
        with pytest.raises(LedgerError):
            operation()
    assert not list(tmp_path.iterdir())


def test_a_place_is_named_in_messages(store):
    assert "l" in store.where


@pytest.mark.parametrize("error", [ValueError, InsufficientBudgetError, KeyboardInterrupt])
def test_an_exception_takes_back_what_was_appended(store, error):
    with store.appending() as records:
        records.append(spend(1))

    def append_and_raise():
        with store.appending() as records:
            records.append(spend(2))
            raise error.__new__(error)

    with pytest.raises(error):
        append_and_raise()
    assert spends(store) == [spend(1)]
    with store.appending() as records:  # no lock is left
        assert records.spends(newest=1) == [spend(1)]
        records.append(spend(2))
    assert spends(store) == [spend(1), spend(2)]


def test_writers_wait_for_each_other(store, store_at, tmp_path):
    """Each of 4 threads reads the newest number and appends the next: none is lost or used twice."""

    def write():
        own = store_at(tmp_path / "l")
        for _ in range(5):
            with own.appending() as records:
                records.append(spend(len(records.spends()) + 1))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [record["number"] for record in spends(store)] == list(range(1, 21))


def test_a_reader_has_one_view(store, store_at, tmp_path):
    """A charge that comes while somebody reads is not seen in that transaction, and is not lost."""

    def write():
        with store_at(tmp_path / "l").appending() as records:
            records.append(spend(1))

    writer = threading.Thread(target=write)
    with store.reading() as records:
        assert records.spends() == []
        writer.start()
        writer.join(0.2)
        assert records.spends() == []
    writer.join(60)
    assert spends(store) == [spend(1)]


def test_a_ledger_works_on_every_store(store_at, tmp_path, monkeypatch):
    """Created, charged to its cap, opened again and verified."""
    monkeypatch.setattr(ledger_module, "_store_at", store_at)
    ledger = Ledger.create(tmp_path / "l", name="clinic", cap_epsilon=1.0, cap_delta=1e-6)
    half = GaussianEvent(2 / ledger.cap.mu * (1 + 1e-12))
    found = [ledger.spend(half, purpose=f"quarter {i}", analyst="a") for i in range(4)]
    with pytest.raises(InsufficientBudgetError):
        ledger.spend(half, purpose="fifth", analyst="a")
    again = Ledger(tmp_path / "l")
    again.verify(ledger.head())
    assert again.history() == found
    assert (again.name, again.cap, again.remaining()) == ("clinic", ledger.cap, ledger.remaining())
    assert again.export()["format"] == 2
