"""Models and a ledger from an earlier version of the package still load with the same content."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import dpem
from support.estimators import ESTIMATORS
from support.model_files import load
from support.sources import mixed_table

KEPT = Path(__file__).parents[1] / "kept"
EXPECTED = json.loads((KEPT / "expected.json").read_text())


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """Copy the ledger: opening one may write beside it."""
    path = tmp_path_factory.mktemp("kept") / "patients.ledger"
    shutil.copy(KEPT / "patients.kept", path)
    return dpem.Ledger(path)


def test_every_estimator_has_a_kept_file():
    assert EXPECTED.keys() == ESTIMATORS.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_kept_model_is_unchanged(name, ledger):
    kept = EXPECTED[name]
    model = load(name, KEPT / kept["file"])
    assert str(model.privacy_) == kept["statement"]
    arrays = model._arrays()
    assert arrays.pop("supported", np.ones(1)).all()  # the files are older than this attribute
    assert arrays.keys() == kept["arrays"].keys()
    for key, (total, shape) in kept["arrays"].items():
        assert list(arrays[key].shape) == shape
        np.testing.assert_allclose(arrays[key].sum(), total, rtol=1e-12)
    model.verify_charge(ledger)
    assert model.charge_.number == kept["record"]
    if hasattr(model, "predict") and getattr(model, "target", 0) is not None:
        assert len(model.predict(mixed_table(20))) == 20


def test_a_kept_ledger_verifies_and_can_be_charged(ledger):
    assert len(ledger.history()) == len(EXPECTED)
    ledger.verify()
    left = ledger.remaining().mu
    dpem.KMeans(2, epsilon=0.5, data_norm=2.0, ledger=ledger).fit(np.zeros((3000, 2)))
    assert ledger.remaining().mu < left
