"""Fits that continue after a crash: nothing is charged twice, nothing is released twice."""

import multiprocessing
import os
import signal
import sqlite3
import sys
import warnings

import numpy as np
import pytest

import dpem
from dpem import Ledger, resumable
from dpem.data import TableRows
from dpem.engines import LocalEngine
from dpem.errors import (
    DpemWarning,
    InsecureNoiseWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    ResumedFitWarning,
    ResumeFileError,
)
from dpem.gate import resume
from dpem.testing import insecure_noise, record
from support.estimators import ESTIMATORS
from support.sources import mixed_table

FRAME = mixed_table()
X = np.random.default_rng(0).normal(0, 0.3, (3000, 2))
pytestmark = pytest.mark.filterwarnings("ignore::dpem.errors.FewerComponentsWarning")


class CrashError(Exception):
    """Simulates the end of the process."""


def crash_at(patch, number):
    """Let the engine fail at the sum with this number."""
    seen, make = [], LocalEngine.sum

    def sum_or_crash(self, *arguments):
        seen.append(1)
        if len(seen) == number:
            raise CrashError
        return make(self, *arguments)

    patch.setattr(LocalEngine, "sum", sum_or_crash)
    return seen


def never_read(patch):
    """Fail if a row is read."""

    def block(self):
        raise AssertionError("A row was read.")

    patch.setattr(TableRows, "block", block)


def kmeans(**arguments):
    return dpem.KMeans(2, epsilon=1.0, delta=1e-6, data_norm=2.0, **arguments)


def released(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT stage, noisy FROM release ORDER BY number").fetchall()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=1.5, cap_delta=1e-6)


@pytest.mark.parametrize("number", [1, 2, 5, 9])
def test_a_crash_costs_nothing(number, ledger, tmp_path, monkeypatch):
    """Earlier releases are used again, the rest is released once, and there is one charge."""
    file, total = tmp_path / "fit", sum(stage.repeats for stage in kmeans().fit(X).plan_.stages)
    with monkeypatch.context() as patch, resumable(file):
        crash_at(patch, number)
        with pytest.raises(CrashError):
            kmeans(ledger=ledger).fit(X)
    before = released(file)
    assert len(before) == number - 1
    with monkeypatch.context() as patch, resumable(file):
        sums = crash_at(patch, -1)
        with pytest.warns(ResumedFitWarning, match=str(number - 1)):
            model = kmeans(ledger=ledger).fit(X)
    assert len(sums) == total - (number - 1)
    assert released(file)[: number - 1] == before
    assert len(released(file)) == total
    assert len(ledger.history()) == 1
    assert model.privacy_.is_private
    assert np.abs(model.cluster_centers_).max() < 2


@pytest.mark.parametrize("written", [1, 2])
def test_a_crash_between_the_parts_of_a_joint_release_costs_nothing(written, ledger, tmp_path, monkeypatch):
    """Counts, sums and moments of a step share a pass: those on disk are used, others are drawn once."""
    file = tmp_path / "fit"

    def fit():
        paper_mixture = dpem.paper.GaussianMixture(2, epsilon=1.0, data_norm=2.0, max_iter=2, ledger=ledger)
        return paper_mixture.fit(X)

    add, seen = resume.ResumeFile.add, []

    def add_or_crash(self, one):
        if len(seen) == written:
            raise CrashError
        seen.append(one.stage)
        add(self, one)

    with monkeypatch.context() as patch, resumable(file):
        patch.setattr(resume.ResumeFile, "add", add_or_crash)
        with pytest.raises(CrashError):
            fit()
    before = released(file)
    assert [stage for stage, _ in before] == ["weights", "means"][:written]
    with resumable(file), pytest.warns(ResumedFitWarning):
        fit()
    after = released(file)
    assert after[:written] == before
    assert [stage for stage, _ in after] == ["weights", "means", "covariances"] * 2
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_finished_fit_is_read_again(name, tmp_path, monkeypatch):
    """For every estimator, with the same random choices although unseeded, and without reading rows."""
    file = tmp_path / "fit"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with resumable(file):
            first = ESTIMATORS[name](random_state=None).fit(FRAME)
        never_read(monkeypatch)
        with resumable(file):
            again = ESTIMATORS[name](random_state=None).fit(FRAME)
    for key, array in first._arrays().items():
        np.testing.assert_array_equal(again._arrays()[key], array, err_msg=key)
    assert again.privacy_.to_dict() == first.privacy_.to_dict()


def test_a_fit_that_is_read_again_has_the_same_charge(ledger, tmp_path):
    """The second model refers to the ledger record of the first."""
    models = []
    for _ in range(2):
        with resumable(tmp_path / "fit"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append(kmeans(ledger=ledger).fit(X))
    assert models[0].charge_ == models[1].charge_
    assert models[0].charge_.hash == ledger.history()[0].hash


def _killed(path, ledger):
    seen, make = [], LocalEngine.sum

    def sum_or_die(self, *arguments):
        seen.append(1)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(self, *arguments)

    LocalEngine.sum = sum_or_die
    with resumable(path):
        kmeans(ledger=ledger).fit(X)


def test_a_fit_continues_after_its_process_was_killed(ledger, tmp_path):
    file = tmp_path / "fit"
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(file, str(ledger.path)))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(released(file)) == 3
    with resumable(file), pytest.warns(ResumedFitWarning, match="3 releases"):
        kmeans(ledger=ledger).fit(X)
    assert len(ledger.history()) == 1


def _holds(path, ready, done):
    with resumable(path):
        ready.set()
        done.wait(60)


def test_two_processes_cannot_use_one_resume_file(tmp_path):
    """Both would release the next stage for a single charge."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    process = context.Process(target=_holds, args=(tmp_path / "fit", ready, done))
    process.start()
    try:
        assert ready.wait(60)
        with pytest.raises(ResumeFileError, match="no other fit uses"), resumable(tmp_path / "fit"):
            pass
    finally:
        done.set()
        process.join()
    with resumable(tmp_path / "fit"):
        kmeans().fit(X)


def test_the_lock_holds_whatever_else_opens_the_file(tmp_path):
    """SQLite's own lock would be lost when anything in the process closes the file."""
    file = tmp_path / "fit"
    attempt = multiprocessing.get_context("spawn").Process(target=_holds_at_once, args=(file,))
    with resumable(file):
        file.read_bytes()
        with pytest.raises(ResumeFileError, match="no other fit uses"), resumable(file):
            pass
        attempt.start()
        attempt.join()
    assert attempt.exitcode == 3


def _holds_at_once(path):
    try:
        with resumable(path):
            pass
    except ResumeFileError:
        sys.exit(3)


def test_a_forked_process_cannot_continue(tmp_path):
    """Parent and child would both release the rest of the plan."""
    with resumable(tmp_path / "fit"):
        child = os.fork()
        if child == 0:
            try:
                kmeans().fit(X)
            except ResumeFileError:
                os._exit(3)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_other_statistics_and_rows_are_other_fits(tmp_path):
    """A release with other centres, bounds, columns, or another number of rows belongs to another fit."""
    centres, arguments = np.zeros((1, 2)), {"epsilon": 1.0, "delta": 1e-6}
    frame = FRAME[["a", "b"]]

    asked = [
        (lambda: dpem.private_nicv(X, centres, data_norm=2.0, **arguments),
         lambda: dpem.private_nicv(X, centres + 0.1, data_norm=2.0, **arguments)),
        (lambda: dpem.clipped_fraction(X, data_norm=0.1, **arguments),
         lambda: dpem.clipped_fraction(X, data_norm=2.0, **arguments)),
        (lambda: dpem.private_bounds(frame[["a"]], **arguments),
         lambda: dpem.private_bounds(frame[["b"]], **arguments)),
        (lambda: kmeans().fit(X), lambda: kmeans().fit(X[:-10])),
        (lambda: kmeans(adjacency="add_remove").fit(X), lambda: kmeans(adjacency="replace_one").fit(X)),
    ]  # fmt: skip
    for i, (first, second) in enumerate(asked):
        with resumable(tmp_path / str(i)):
            first()
        with pytest.raises(ResumeFileError, match="other arguments"), resumable(tmp_path / str(i)):
            second()


def test_a_refused_plan_leaves_the_file_free(ledger, tmp_path):
    """A smaller plan can be tried with the same file."""
    with resumable(tmp_path / "fit"), pytest.raises(InsufficientBudgetError):
        kmeans(ledger=ledger).set_params(epsilon=9.0).fit(X)
    with resumable(tmp_path / "fit"):
        kmeans(ledger=ledger).fit(X)
    assert len(ledger.history()) == 1


def test_another_fit_is_refused_before_anything_is_charged(ledger, tmp_path, monkeypatch):
    file = tmp_path / "fit"
    with monkeypatch.context() as patch, resumable(file):
        crash_at(patch, 3)
        with pytest.raises(CrashError):
            kmeans(ledger=ledger).fit(X)
    never_read(monkeypatch)
    other = Ledger.create(tmp_path / "other", name="y", cap_epsilon=1.5, cap_delta=1e-6)
    same_name = Ledger.create(tmp_path / "third", name="x", cap_epsilon=1.5, cap_delta=1e-6)
    for arguments, message in (
        ({"ledger": ledger, "epsilon": 0.3}, "other arguments"),
        ({"ledger": ledger, "n_clusters": 3}, "other arguments"),
        ({"ledger": ledger, "random_state": 3}, "other arguments"),
        ({}, "Expected the ledger of 'x'"),
        ({"ledger": other}, "Expected the ledger of 'x'"),
        ({"ledger": same_name}, "Expected the ledger of 'x'"),
    ):
        with pytest.raises(ResumeFileError, match=message), resumable(file):
            kmeans().set_params(**arguments).fit(X)
    with pytest.raises(ResumeFileError, match="other arguments"), resumable(file):
        dpem.GaussianMixture(2, epsilon=1.0, data_norm=2.0, ledger=ledger).fit(X)
    assert [len(one.history()) for one in (ledger, other, same_name)] == [1, 0, 0]


def test_an_uncharged_fit_cannot_be_charged_later(ledger, tmp_path):
    with resumable(tmp_path / "fit"):
        kmeans().fit(X)
    with pytest.raises(ResumeFileError, match="Expected no ledger"), resumable(tmp_path / "fit"):
        kmeans(ledger=ledger).fit(X)
    assert not ledger.history()


def test_one_fit_per_file(tmp_path):
    with resumable(tmp_path / "fit"):
        kmeans().fit(X)
        with pytest.raises(ResumeFileError, match="one fit"):
            kmeans().fit(X)


def test_releases_that_do_not_match_are_refused(tmp_path):
    """As after a change of version: the fit stops instead of confusing stages."""
    with resumable(tmp_path / "fit"):
        kmeans().fit(X)
    with sqlite3.connect(tmp_path / "fit") as connection:
        row = connection.execute("SELECT * FROM release WHERE number = 2").fetchone()
        other = 2, "other", *row[2:4]
        connection.execute(
            "UPDATE release SET stage = ?, digest = ? WHERE number = 2", ("other", resume._digest(other))
        )
    connection.close()
    with (
        pytest.raises(ResumeFileError, match="differ at 'other'"),
        pytest.warns(ResumedFitWarning),
        resumable(tmp_path / "fit"),
    ):
        kmeans().fit(X)


def test_files_that_are_not_resume_files(ledger, tmp_path):
    (tmp_path / "text").write_text("something else entirely, and longer than a header " * 20)
    for path, message in (
        (tmp_path / "text", "read and written"),
        (ledger.path, "got another file"),
        (tmp_path / "no" / "folder", "read and written"),
    ):
        with pytest.raises(ResumeFileError, match=message), resumable(path):
            pass
    assert (tmp_path / "text").read_text().startswith("something")


def test_seeded_noise_stays_marked(tmp_path):
    """A fit that was charged with secure noise cannot continue with seeded noise."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(1), resumable(tmp_path / "fit"):
        kmeans().fit(X)
    seeded, resumed = pytest.warns(InsecureNoiseWarning), pytest.warns(ResumedFitWarning)
    with seeded, insecure_noise(1), resumable(tmp_path / "fit"), resumed:
        again = kmeans().fit(X)
    assert not again.privacy_.is_private
    with pytest.raises(ResumeFileError, match="noise from the same source"), resumable(tmp_path / "fit"):
        kmeans().fit(X)


def test_unsupported_uses_of_resumable_raise(tmp_path):
    with resumable(tmp_path / "a"), pytest.raises(InvalidArgumentError, match="random_state"):
        kmeans(random_state=np.random.RandomState(0)).fit(X)
    with resumable(tmp_path / "b"), record(), pytest.raises(InvalidArgumentError, match="got both"):
        kmeans().fit(X)


def test_the_file_contains_no_raw_sum_and_is_private_to_its_owner(tmp_path):
    """The file contains only noisy integers with the noise of the plan: without rows, sums are the noise."""
    file = tmp_path / "fit"
    with resumable(file), warnings.catch_warnings():
        warnings.simplefilter("ignore", DpemWarning)
        model = kmeans(adjacency="add_remove").fit(np.empty((0, 2)))
    noise = model.plan_.stages[0].noise_stddev
    stage, noisy = released(file)[0]
    values = np.frombuffer(noisy)
    assert stage == model.plan_.stages[0].name
    assert 0 < np.abs(values).max() < 12 * noise
    assert file.stat().st_mode & 0o077 == 0
