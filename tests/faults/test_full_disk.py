"""If the disk is full, errors say so, no row is read without a charge, and no file is left partial."""

import resource
import sqlite3
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpem
from dpem import Ledger
from dpem.cli import main
from dpem.data import TableRows
from dpem.errors import DpemError, LedgerError, OutputError, ResumeFileError
from dpem.privacy import GaussianEvent
from support.processes import apart, limited

X = np.random.default_rng(0).normal(0, 0.3, (500, 2))


def kmeans(**arguments):
    return dpem.KMeans(2, epsilon=1.0, delta=1e-6, data_norm=2.0, n_jobs=1, **arguments)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=9.0, cap_delta=1e-6)


def _fit(folder, room, transcript):
    """Fit with a limit on the size of files; return the exception, and whether rows were read."""
    warnings.simplefilter("ignore")
    seen, read = [], TableRows.block

    def noted(self):
        seen.append(1)
        return read(self)

    TableRows.block = noted
    with limited(resource.RLIMIT_FSIZE, room):
        try:
            if transcript:
                with dpem.resumable(folder / "transcript"):
                    kmeans(ledger=folder / "ledger").fit(X)
            else:
                kmeans(ledger=folder / "ledger").fit(X)
        except DpemError as error:
            return error, bool(seen)
    return None, bool(seen)


@pytest.mark.parametrize("room", [0, 1000, 5000])
def test_a_charge_that_cannot_be_written_reads_nothing(ledger, tmp_path, room):
    """With space for no byte, half a page or some pages, the ledger is unchanged and no row is read."""
    error, read = apart(_fit, tmp_path, room, False)
    assert isinstance(error, LedgerError)
    assert "SQLite says" in str(error)
    assert not read
    assert not ledger.history()
    kmeans(ledger=ledger).fit(X)
    ledger.verify()


def test_a_full_database_keeps_every_charge(ledger, monkeypatch):
    """If SQLite cannot add a page, charges succeed until the pages are full; the next one is refused."""
    connect = sqlite3.connect

    def full(*arguments, **named):
        connection = connect(*arguments, **named)
        connection.execute("PRAGMA max_page_count = 1")  # at least the existing pages
        return connection

    monkeypatch.setattr(sqlite3, "connect", full)
    charged = []
    with pytest.raises(LedgerError, match="database or disk is full"):
        charged.extend(ledger.spend(GaussianEvent(1e4), purpose=f"{i:0300}") for i in range(100))
    ledger.verify()
    assert ledger.history()
    assert ledger.history()[: len(charged)] == charged


def test_a_transcript_on_a_full_disk_loses_no_charge(ledger, tmp_path):
    """At every size limit, rows are read only after a charge, and the fit continues when there is space."""
    ended = []
    for room in (100, 5000, 9000, 12288, 13000, 17000, 21000, 10**6):
        charges = len(ledger.history())
        error, read = apart(_fit, tmp_path, room, True)
        ended.append(type(error))
        assert error is None or isinstance(error, ResumeFileError | LedgerError)
        assert not read or len(ledger.history()) >= 1
        assert len(ledger.history()) - charges in (0, 1)
        ledger.verify()
    assert ended[0] is ResumeFileError
    assert ended[-1] is type(None)
    assert 1 <= len(ledger.history()) < len(ended)


def _save(path, room):
    model = kmeans().fit(X)
    with limited(resource.RLIMIT_FSIZE, room):
        model.save(path)


@pytest.mark.parametrize("room", [0, 700])
def test_a_failed_save_keeps_the_old_model(tmp_path, room):
    path = tmp_path / "model"
    kmeans().fit(X).save(path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="File too large"):
        apart(_save, path, room)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def _command(arguments, room):
    with limited(resource.RLIMIT_FSIZE, room):
        return main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("command", "output"),
    [(["sample", "-n", "5000", "-o"], "rows.csv"), (["sample", "-n", "5000", "-o"], "rows.parquet"),
     (["report", "-o"], "report.html")],
)  # fmt: skip
def test_commands_leave_no_partial_output(tmp_path, command, output):
    """The exit code is that of errors with files."""
    model = dpem.GaussianMixture(1, epsilon=1.0, delta=1e-6, data_norm=2.0, max_iter=1).fit(X)
    model.save(tmp_path / "model")
    given = [command[0], tmp_path / "model", *command[1:], tmp_path / output]
    assert apart(_command, given, 3000) == 5
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def _create(path, room):
    with limited(resource.RLIMIT_FSIZE, room):
        Ledger.create(path, name="x", cap_epsilon=1.0, cap_delta=1e-6)


@pytest.mark.parametrize("room", [0, 600, 5000])
def test_a_ledger_that_cannot_be_created_leaves_no_file(tmp_path, room):
    """The same ledger can be created later, when there is space."""
    with pytest.raises(LedgerError, match="SQLite says"):
        apart(_create, tmp_path / "ledger", room)
    assert not list(Path(tmp_path).iterdir())
    Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=1.0, cap_delta=1e-6).verify()
