"""If a ledger, transcript or folder is read-only, no row is read, and nothing is lost."""

import codecs
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import dpem
from dpem import Ledger
from dpem.data import TableRows
from dpem.errors import LedgerError, ModelFileError, OutputError, ResumeFileError
from support.processes import apart

X = np.random.default_rng(0).normal(0, 0.3, (500, 2))
NOBODY = 65534


def kmeans(**arguments):
    return dpem.KMeans(2, epsilon=1.0, delta=1e-6, data_norm=2.0, n_jobs=1, **arguments)


@pytest.fixture
def folder():
    """Create a folder that other users may read, unlike those of pytest; root ignores permissions."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        Ledger.create(path / "ledger", name="x", cap_epsilon=9.0, cap_delta=1e-6)
        kmeans(ledger=path / "ledger").fit(X).save(path / "model")
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


def _without_rights(use, folder):
    def refuse(self):
        raise AssertionError("A row was read.")

    TableRows.block = refuse
    codecs.lookup("cp437")  # used by zip files; the library may be unreadable below
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return use(folder)


def _charge(folder):
    kmeans(ledger=folder / "ledger").fit(X)


def _look(folder):
    ledger = Ledger(folder / "ledger")
    ledger.verify()
    return len(ledger.history())


def _resume(folder):
    with dpem.resumable(folder / "transcript"):
        kmeans(ledger=folder / "ledger").fit(X)


def _save(folder):
    dpem.load(folder / "model").save(folder / "model")


def _load(folder):
    dpem.load(folder / "model")


@pytest.mark.parametrize(("of_file", "of_folder"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
def test_a_read_only_ledger_cannot_be_charged(folder, of_file, of_folder):
    """The file or its folder (then SQLite has no journal) is read-only; the ledger can still be read."""
    (folder / "ledger").chmod(of_file)
    folder.chmod(of_folder)
    with pytest.raises(LedgerError, match="Nothing was released"):
        apart(_without_rights, _charge, folder)
    assert apart(_without_rights, _look, folder) == 1
    assert len(Ledger(folder / "ledger").history()) == 1


@pytest.mark.parametrize(
    ("use", "error"), [(_resume, ResumeFileError), (_save, OutputError), (_load, ModelFileError)]
)
def test_errors_about_other_read_only_files(folder, use, error):
    """Nothing is charged, and existing files stay."""
    if use is _load:
        (folder / "model").chmod(0o000)
    folder.chmod(0o555)
    before = (folder / "model").read_bytes() if os.geteuid() == 0 or use is not _load else None
    with pytest.raises(error):
        apart(_without_rights, use, folder)
    if before is not None:
        assert (folder / "model").read_bytes() == before
    assert len(Ledger(folder / "ledger").history()) == 1
