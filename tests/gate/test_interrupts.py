"""Ctrl-C is delayed until critical steps end, and then raised with its note."""

import signal
import threading

import numpy as np
import pytest

import dpem
from dpem.gate.interrupts import uninterrupted


@pytest.fixture(autouse=True)
def interruptible():
    """Handle interrupts, which background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_until_the_end():
    done = []

    def interrupted():
        with uninterrupted("It was charged."):
            signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert done == ["all"]
    assert caught.value.__notes__ == ["It was charged."]
    with pytest.raises(KeyboardInterrupt):  # the handler is back
        signal.raise_signal(signal.SIGINT)


def test_ignored_interrupts_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_not_affected():
    found = []

    def work():
        with uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_a_charge_is_recorded_even_if_interrupted_at_once(tmp_path, monkeypatch):
    """After Ctrl-C right after the commit, the resume file contains the charge, and the fit continues."""
    ledger = dpem.Ledger.create(tmp_path / "l", name="l", cap_epsilon=2.0, cap_delta=1e-5)
    rows = np.random.default_rng(0).normal(size=(500, 2))
    spend = dpem.Ledger.spend

    def interrupted(self, *arguments, **named):
        charged = spend(self, *arguments, **named)
        signal.raise_signal(signal.SIGINT)
        return charged

    def fit():
        with dpem.resumable(tmp_path / "t"):
            return dpem.KMeans(2, epsilon=1.0, bounds=(-5, 5), ledger=ledger).fit(rows)

    monkeypatch.setattr(dpem.Ledger, "spend", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit()
    assert "stays charged" in caught.value.__notes__[0]
    monkeypatch.setattr(dpem.Ledger, "spend", spend)
    with pytest.warns(dpem.errors.ResumedFitWarning):
        model = fit()
    assert len(ledger.history()) == 1
    model.verify_charge(ledger)
    model.verify_charge(ledger.path)
