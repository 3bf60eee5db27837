"""Truncated ledgers and transcripts, or ones with a flipped bit, are refused or read unchanged."""

import random
import warnings

import numpy as np
import pytest

import dpem
from dpem import Ledger
from dpem.errors import DpemError, ResumeFileError
from dpem.privacy import GaussianEvent

X = np.random.default_rng(0).normal(0, 0.3, (300, 2))


def damaged(content, n, seed):
    """Yield truncated files, and files with one flipped bit."""
    chance = random.Random(seed)
    for length in chance.sample(range(len(content)), n // 3):
        yield content[:length]
    for bit in chance.sample(range(8 * len(content)), n):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def test_a_damaged_ledger_never_loses_a_charge(tmp_path):
    """Opening, verifying, reading and charging raise an error of dpem, or every record is unchanged."""
    ledger = Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=5.0, cap_delta=1e-6)
    for i in range(12):
        ledger.spend(GaussianEvent(50.0 + i), purpose=f"release {i}")
    before, path = ledger.export(), tmp_path / "damaged"
    refused = 0
    for content in damaged(ledger.path.read_bytes(), 150, seed=1):
        path.write_bytes(content)
        try:
            found = Ledger(path)
            found.verify()
            assert found.export() == before
            assert found.spend(GaussianEvent(100.0), purpose="more").number == 13
        except DpemError:
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("bit", [7, 0])
def test_damaged_text_in_a_ledger_is_detected(tmp_path, bit):
    """A flipped bit may turn text into bytes, or SQLite's own text into invalid UTF-8."""
    ledger = Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=5.0, cap_delta=1e-6)
    ledger.spend(GaussianEvent(50.0), purpose="release")
    content, path = ledger.path.read_bytes(), tmp_path / "damaged"
    before = ledger.export()
    used = [place for place, byte in enumerate(content) if byte]
    for place in used[bit::9]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        path.write_bytes(flipped)
        try:
            assert Ledger(path).export() == before
        except DpemError:
            continue


def test_a_damaged_transcript_never_gives_a_different_fit(tmp_path):
    """A fit from it is identical to the last bit, is refused, or starts again and is charged."""
    ledger = Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=50.0, cap_delta=1e-6)
    path = tmp_path / "transcript"

    def fit():
        with warnings.catch_warnings(), dpem.resumable(path):
            warnings.simplefilter("ignore")
            return dpem.KMeans(2, epsilon=0.1, delta=1e-6, data_norm=2.0, n_jobs=1, ledger=ledger).fit(X)

    model = fit()
    content = path.read_bytes()
    refused = 0
    for damage in damaged(content, 36, seed=2):
        path.write_bytes(damage)
        charges = len(ledger.history())
        try:
            found = fit()
        except ResumeFileError:
            refused += 1
            assert len(ledger.history()) == charges
            continue
        if len(ledger.history()) == charges:
            np.testing.assert_array_equal(found.cluster_centers_, model.cluster_centers_)
            assert found.charge_ == model.charge_
        else:
            assert not damage  # an empty file is a new transcript
    assert refused > 12
