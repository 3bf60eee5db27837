"""If the clock jumps, records keep their order and totals, with the times of the clock."""

import pytest

from dpem import Ledger
from dpem.privacy import GaussianEvent
from dpem.privacy import ledger as ledgers


@pytest.mark.parametrize(
    "clock",
    [
        ["2026-01-01", "2020-01-01", "2031-12-31", "2026-01-01", "1970-01-01"],
        ["9999-12-31", "0001-01-01", "9999-12-31", "0001-01-01", "0001-01-01"],
    ],
)
def test_order_and_totals_do_not_depend_on_the_clock(tmp_path, monkeypatch, clock):
    """A clock that jumps back or forward, or stands still, changes nothing except the times."""
    times = iter(clock)
    steady = Ledger.create(tmp_path / "steady", name="x", cap_epsilon=2.0, cap_delta=1e-6)
    for i in range(5):
        steady.spend(GaussianEvent(20.0 + i), purpose=f"release {i}")
    monkeypatch.setattr(ledgers, "_now", lambda: "2026-01-01")
    jumping = Ledger.create(tmp_path / "jumping", name="x", cap_epsilon=2.0, cap_delta=1e-6)
    monkeypatch.setattr(ledgers, "_now", lambda: next(times))
    for i in range(5):
        jumping.spend(GaussianEvent(20.0 + i), purpose=f"release {i}")
    jumping.verify(jumping.head())
    assert [spend.time for spend in jumping.history()] == clock
    assert jumping.remaining() == steady.remaining()
    for one, two in zip(jumping.history(), steady.history(), strict=True):
        assert (one.number, one.purpose, one.cost) == (two.number, two.purpose, two.cost)
