"""Ledgers with changed bytes: either the same content as before, or an error."""

import json
from functools import cache

from dpem import Ledger
from dpem.errors import DpemError
from dpem.privacy import ComposedEvent, GaussianEvent, LaplaceEvent
from fuzz.harness import Target, bounded_memory, scratch
from fuzz.mutations import changed_bytes, each_shift

__all__ = ["TARGET"]


@cache
def _whole():
    """Return the bytes of a ledger, its export, and its head."""
    file = scratch() / "whole"
    ledger = Ledger.create(file, name="clinic", cap_epsilon=1.0, cap_delta=1e-6, rows_per_person=2)
    for event in (GaussianEvent(50.0), LaplaceEvent(0.01), ComposedEvent(((GaussianEvent(70.0), 3),))):
        ledger.spend(event, purpose="count", analyst="tester")
    return file.read_bytes(), json.dumps(ledger.export()), ledger.head()


def _files(changes):
    """Yield changed files: at places all over the file, mostly empty, and where the records are."""
    content = _whole()[0]
    yield from each_shift((content, changes[1]), 8)
    end = content.rindex(b"clinic") + 400  # the end of the page with the terms
    yield from (
        content[: end - 1200] + part + content[end:]
        for part in each_shift((content[end - 1200 : end], changes[1]), 8)
    )
    yield from (content[:-1500] + part for part in each_shift((content[-1500:], changes[1]), 16))


def check(content):
    """Open a changed file: if it verifies against a head, its content is unchanged and it can be charged."""
    _, said, head = _whole()
    file = scratch() / "changed"
    file.write_bytes(content)
    with bounded_memory():
        try:
            ledger = Ledger(file)
            ledger.verify(head)
        except DpemError as error:
            assert str(error)
            return False
        assert json.dumps(ledger.export()) == said
        try:
            spend = ledger.spend(GaussianEvent(1000.0), purpose="more", analyst="tester")
            ledger.verify(head)
        except DpemError as error:  # in a page that only a charge reads
            assert str(error)
            return False
        assert ledger.history()[-1] == spend
        assert spend.number == head.number + 1
    return True


TARGET = Target(
    "ledger files",
    "a real ledger with bytes flipped, set, inserted and cut; then read, verified and charged",
    25_000,
    changed_bytes([b""]),
    _files,
    check,
)
