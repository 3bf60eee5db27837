"""Fork, spawn and threads: noise is never repeated, ledgers can be shared, and no mode leaks."""

import multiprocessing
import os
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dpem
from dpem import Ledger
from dpem.engines import LocalEngine
from dpem.errors import InsufficientBudgetError, PlanViolationError
from dpem.privacy import GaussianEvent
from dpem.privacy.noise import rounded_gaussian
from dpem.testing import insecure_noise, record
from support.killed_fits import child, end
from support.processes import apart

X = np.random.default_rng(0).normal(0, 0.3, (500, 2))
pytestmark = pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")


def kmeans(**arguments):
    return dpem.KMeans(2, **{"epsilon": 1.0} | arguments, delta=1e-6, data_norm=2.0, n_jobs=1, random_state=0)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=2.0, cap_delta=1e-6)


def _forked(folder):
    """Draw noise and fit before a fork, and then in three children and in the parent."""
    warnings.simplefilter("ignore")

    def draw(name):
        drawn = np.concatenate([rounded_gaussian(1e6, 4), kmeans().fit(X).cluster_centers_.ravel()])
        (folder / name).write_bytes(drawn.tobytes())

    draw("before")
    children = [child(lambda i=i: draw(f"child {i}")) for i in range(3)]
    draw("parent")
    return [end(number) for number in children]


def test_forked_processes_draw_different_noise(tmp_path):
    """No two processes draw the same number, whatever was drawn before the fork."""
    assert apart(_forked, tmp_path) == [0, 0, 0]
    drawn = np.stack([np.frombuffer(file.read_bytes()) for file in tmp_path.iterdir()])
    assert drawn.shape == (5, 8)
    assert all(len(set(column)) == 5 for column in drawn.T)


def _forked_within(path):
    """Fork while sums are computed, and continue the fit in both processes."""
    warnings.simplefilter("ignore")
    make, ours, seen = LocalEngine.sum, os.getpid(), []

    def sum_and_fork(self, *arguments):
        seen.append(1)
        if len(seen) == 3:
            seen.append(os.fork())
        return make(self, *arguments)

    LocalEngine.sum = sum_and_fork
    try:
        kmeans(ledger=path).fit(X)
    except PlanViolationError:
        os._exit(3 if os.getpid() != ours else 4)
    return os.waitstatus_to_exitcode(os.waitpid(seen[3], 0)[1])


def test_a_forked_fit_continues_in_one_process_only(ledger):
    """Otherwise both processes would release the rest of the plan for one charge."""
    assert apart(_forked_within, ledger.path) == 3
    assert len(ledger.history()) == 1


def test_a_ledger_can_be_used_after_a_fork(ledger):
    """The ledger is opened before the fork; charges of all processes have consecutive numbers."""
    ledger.spend(GaussianEvent(100.0), purpose="before")
    children = [child(lambda: ledger.spend(GaussianEvent(100.0), purpose="child")) for _ in range(4)]
    ledger.spend(GaussianEvent(100.0), purpose="parent")
    assert [end(number) for number in children] == [0] * 4
    assert sorted(spend.purpose for spend in ledger.history()) == ["before", *["child"] * 4, "parent"]
    ledger.verify()


def _spend(ledger):
    ledger.spend(GaussianEvent(100.0), purpose="spawned")


def test_a_ledger_can_be_sent_to_a_spawned_process(ledger):
    assert pickle.loads(pickle.dumps(ledger)).head() == ledger.head()
    process = multiprocessing.get_context("spawn").Process(target=_spend, args=(ledger,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [spend.purpose for spend in ledger.history()] == ["spawned"]


def test_threads_with_one_ledger_never_overspend(ledger):
    """Of more concurrent fits than the cap covers, exactly as many succeed as in sequence."""

    def fit(number):
        try:
            return kmeans(epsilon=0.7, ledger=ledger).fit(X)
        except InsufficientBudgetError:
            return None

    with ThreadPoolExecutor(8) as pool:
        models = [model for model in pool.map(fit, range(12)) if model is not None]
    ledger.verify()
    assert len(models) == len(ledger.history())
    assert len({model.charge_.number for model in models}) == len(models) >= 2
    assert fit(0) is None
    for model in models:
        model.verify_charge(ledger)


def test_seeded_noise_and_recordings_stay_in_their_thread(ledger):
    """While one thread has seeded noise and a recording, fits in other threads are private and charged."""
    inside, fitted = threading.Barrier(4), threading.Barrier(4)

    def secure():
        inside.wait(60)
        model = kmeans(epsilon=0.1, ledger=ledger).fit(X)
        fitted.wait(60)
        return model

    def insecure():
        with insecure_noise(1), record() as transcript:
            inside.wait(60)
            model = kmeans(epsilon=0.1, ledger=ledger).fit(X)
            fitted.wait(60)
        return model, len(transcript.releases)

    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(secure) for _ in range(3)]
        model, recorded = pool.submit(insecure).result()
    models = [other.result() for other in others]
    assert not model.privacy_.is_private
    assert recorded == sum(stage.repeats for stage in model.plan_.stages)
    assert all(other.privacy_.is_private for other in models)
    marks = {spend.number: spend.insecure_noise for spend in ledger.history()}
    assert marks[model.charge_.number]
    assert [marks[other.charge_.number] for other in models] == [False] * 3
    assert len({other.cluster_centers_.tobytes() for other in models}) == 3
