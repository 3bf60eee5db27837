"""Fits killed at random lines and times: every read is charged, and no partial file loads as a model."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import dpem
from dpem import Ledger
from dpem.errors import ModelFileError
from dpem.gate.release import ReleaseGate
from support import killed_fits
from support.estimators import ESTIMATORS, Mean

KILLED = {"KMeans": 6, "GaussianMixture": 3, "MixedMixture": 9, "PrivateEM": 9}  # slow estimators less often


def run(folder, *names):
    """Kill fits in a separate process, whose forked children share no thread with this one."""
    program = [sys.executable, killed_fits.__file__, str(folder), str(random.randrange(10**6)), *names]
    path = os.pathsep.join([str(Path(killed_fits.__file__).parents[1]), *sys.path])
    return subprocess.run(
        program, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    )


def noted(folder, word):
    return (folder / word).read_text().splitlines() if (folder / word).exists() else []


def charged(ledger):
    """Return the number of charges of each fit, by its purpose."""
    return Counter(spend.purpose.partition(": ")[2] for spend in ledger.history())


def forgotten(folder, ledger):
    """Return the fits that read rows or wrote a model without a charge."""
    written = {file.stem for file in models(folder)}
    return {*noted(folder, "read"), *noted(folder, "saved"), *written} - charged(ledger).keys()


def models(folder):
    return [file for file in folder.glob("*.model") if not file.name.startswith(".")]


def loaded(file):
    return dpem.load(file, model=Mean() if "PrivateEM" in file.name else None)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=100.0, cap_delta=1e-6)


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_a_killed_fit_loses_no_charge_and_leaves_no_partial_model(ledger, tmp_path):
    """About seventy kills of four estimators, resumable or not, lose budget at worst, never a charge."""
    ended = run(tmp_path, *(f"{name}={times}" for name, times in KILLED.items()))
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 54  # kills at a line; a timed kill may come too late
    ledger.verify()
    assert not forgotten(tmp_path, ledger)
    counts = charged(ledger)
    # A resumable fit is charged once, except if it is killed between the ledger and the transcript.
    assert all(count == 1 or (fit.endswith("resumed") and count <= 10) for fit, count in counts.items())
    assert all(f"{name} resumed" in noted(tmp_path, "saved") for name in KILLED)
    assert {file.stem for file in models(tmp_path)} >= set(noted(tmp_path, "saved"))
    for file in models(tmp_path):
        loaded(file).verify_charge(ledger)
    for file in tmp_path.glob(".*.model"):  # temporary files of killed processes
        with suppress(ModelFileError):
            loaded(file).verify_charge(ledger)
    head = ledger.head()
    ESTIMATORS["KMeans"](epsilon=0.01, ledger=ledger).fit(killed_fits.FRAME)
    ledger.verify(head)
    assert len(ledger.history()) == sum(counts.values()) + 1


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_a_fit_that_charges_late_is_detected(ledger, tmp_path, monkeypatch):
    """The check above detects a gate that charges on closing and is killed at its first read."""

    def killed():
        def die(self):
            killed_fits.note(tmp_path, "read", "late")
            os.kill(os.getpid(), signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(ReleaseGate, "_pay", lambda *_: None)
            patch.setattr("dpem.data.TableRows.block", die)
            dpem.KMeans(2, epsilon=0.01, data_norm=1.0, ledger=Ledger(ledger.path, purpose="late")).fit(
                np.zeros((9, 2))
            )

    assert killed_fits.end(killed_fits.child(killed)) == -signal.SIGKILL
    assert forgotten(tmp_path, ledger) == {"late"}
