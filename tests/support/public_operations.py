"""Every public operation, between two snapshots of the process: `python public_operations.py PART RESULT`.

It runs in a separate process, because pytest replaces warning filters around every test. Libraries are
imported and used once before the first snapshot, so that state from their import is not attributed to dpem.
The result lists every operation by group, with its differences; an unexpected exception is a difference too.
Parts are "estimators", "rest" (all other public names, and the commands), and "leaks", which leak on purpose.
"""

import contextlib
import importlib
import inspect
import io
import json
import math
import os
import pickle
import pkgutil
import queue
import re
import signal
import sys
import tempfile
import threading
import time
import types
import warnings
from collections import defaultdict
from pathlib import Path
from unittest import mock

import numpy as np

from support import process_state
from support.crossing import at_once, crossing

# A process that was started in the background may ignore Ctrl-C, which is one of the operations.
signal.signal(signal.SIGINT, signal.default_int_handler)

N_ROWS = 120
# Estimators without a fit at epsilon = inf.
ONLY_PRIVATE = ("MixedMixture",)
# Methods that need another mode, or a plug-in model with more methods: they raise, and leave nothing behind.
REFUSED = {
    "GaussianMixture": ("impute",),
    "GaussianMixture tied": ("impute",),
    "MixedMixture": ("predict", "predict_proba"),
    "MixedMixture em": ("predict", "predict_proba"),
    "PrivateEM": ("sample", "score", "score_samples"),
    "paper.GeneralEM": ("sample", "score", "score_samples"),
}


class ExpectedWarning(UserWarning):
    """A warning of the main thread."""


class RefusedWarning(UserWarning):
    """A warning that the main thread turns into an error."""


# -- running operations --------------------------------------------------------------------------------------


class Program:
    """The operations of one process and their results, by group."""

    patience = 1.0  # seconds that threads, processes and files may take to end

    def __init__(self, folder):
        self.folder = folder
        self.found = defaultdict(dict)
        self.renew()

    def renew(self):
        """Take the current state as the state to compare with."""
        self._before = process_state.read_state()

    def run(self, group, name, operation, raises=()):
        """Run an operation; record differences of the state, and restore it."""
        started, said = time.monotonic(), []
        try:
            operation()
            if raises:
                said.append(f"expected {raises}, but nothing was raised")
        except raises:
            pass
        except BaseException as error:  # noqa: BLE001  (reported; Ctrl-C is one of the operations)
            said.append(f"raised {error!r}"[:400])
        said += process_state.differences(self._before, self.patience)
        hidden = [file.name for file in self.folder.rglob(".*") if file.name != ".dpem-demo"]
        said += [f"files: {name} was left" for name in hidden]
        if said:
            process_state.restore(self._before)
            self.renew()
        self.found[group][name] = {"differences": said, "seconds": round(time.monotonic() - started, 3)}


def warm_up():
    """Import and use libraries, but not dpem, so that their permanent pools, caches and trackers exist.

    No call of dpem could end these: the thread pools of BLAS, OpenMP, Arrow, polars and numba, and the
    resource tracker of multiprocessing, which removes the shared objects of crashed processes. Native threads
    of such pools are not listed by `threading`, and not compared.
    """
    import multiprocessing.resource_tracker

    import dp_accounting.pld  # noqa: F401
    import jinja2
    import joblib
    import narwhals  # noqa: F401
    import numba
    import pandas as pd
    import polars as pl
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.feather
    import pyarrow.parquet
    import rich.console
    import rich.markdown
    import rich.progress
    import rich.table
    import sklearn.cluster
    import sklearn.decomposition
    import sklearn.ensemble
    import sklearn.metrics
    import sklearn.mixture
    import typer.rich_utils
    import typer.testing  # noqa: F401

    with contextlib.suppress(ImportError):
        importlib.import_module("coverage")  # numba imports it if it is installed
    multiprocessing.resource_tracker.ensure_running()
    tempfile.gettempdir()
    rows = np.random.default_rng(0).normal(size=(400, 3))
    (rows @ rows.T @ rows).sum()
    sklearn.cluster.KMeans(2, n_init=1).fit(rows)
    sklearn.ensemble.RandomForestClassifier(2, n_jobs=1).fit(rows, rows[:, 0] > 0)
    sklearn.ensemble.HistGradientBoostingClassifier(max_iter=2).fit(rows, rows[:, 0] > 0)
    frame = pd.DataFrame(rows, columns=list("abc"))
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(f"{folder}/rows.parquet")
        frame.to_csv(f"{folder}/rows.csv")
        pyarrow.csv.read_csv(f"{folder}/rows.csv").to_pandas()
        pyarrow.dataset.dataset(f"{folder}/rows.parquet").to_table()
    pl.from_pandas(frame).select(pl.col("a").sum())
    numba.njit(lambda x: x.sum())(rows)
    numba.get_num_threads()
    jinja2.Environment().from_string("{{ 1 }}").render()
    rich.console.Console(file=io.StringIO()).print(rich.table.Table("a"))
    joblib.cpu_count()


def import_everything():
    """Import all modules of the package except those for clusters, GPUs and figures."""
    import dpem

    left_out = ("dask", "spark", "device", "torch", "triton", "reproduce")
    for module in pkgutil.walk_packages(dpem.__path__, "dpem."):
        if not any(word in module.name for word in left_out):
            importlib.import_module(module.name)


# -- estimators ----------------------------------------------------------------------------------------------


def interrupted_at(release):
    """Return a context that interrupts a fit before the release with the given number."""
    from dpem.gate.progress import listening

    def listen(_, done, planned):
        if done >= min(release, planned - 1):
            raise KeyboardInterrupt

    return listening(listen)


@contextlib.contextmanager
def interrupted_by_signals(times):
    """Interrupt a fit by signals while a block of rows is read, and again while the fit ends."""
    from dpem.data import TableRows

    read, left, lock = TableRows.block, [times], threading.Lock()

    def block(self):
        while left[0]:
            with lock:
                if left[0]:
                    left[0] -= 1
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.05)
        return read(self)

    with mock.patch.object(TableRows, "block", block):
        try:
            yield
        finally:
            while threading.active_count() > 1:  # the second signal may find the fit at its end
                with contextlib.suppress(KeyboardInterrupt):
                    time.sleep(0.01)


def arguments_of(world, model, method):
    """Return the arguments of a public method; a method that is not listed here is not covered."""
    rows, ledger = world["frame"], world["ledger"]
    known = {
        "diagnostics": (),
        "fit": (rows,),
        "fit_transform": (rows,),
        "get_covariance": (),
        "get_feature_names_out": (),
        "get_metadata_routing": (),
        "get_params": (),
        "get_precision": (),
        "impute": (rows.drop(columns="ward"),) if "ward" not in rows else (rows,),
        "marginals": ("ward", "smoker"),
        "precisions_": None,
        "precisions_cholesky_": None,
        "predict": (rows,),
        "predict_proba": (rows,),
        "private_score": (rows,),
        "sample": (7,),
        "save": (world["folder"] / "again.dpem",),
        "score": (rows,),
        "score_samples": (rows,),
        "set_output": (),
        "set_params": (),
        "to_sklearn": (),
        "transform": (rows,),
        "verify_charge": (ledger,),
    }
    return known[method], {"epsilon": 0.5} if method == "private_score" else {}


def public_members(estimator):
    """Yield the public methods and properties of a class, without arguments and class attributes."""
    for name in sorted(dir(estimator)):
        value = inspect.getattr_static(estimator, name)
        is_called = callable(getattr(estimator, name, None)) or isinstance(value, property)
        if not name.startswith("_") and is_called and not (name.startswith("set_") and "request" in name):
            yield name


def other_libraries():
    """Use warnings like other libraries: in scikit-learn's threads, a filter block and another process."""
    from sklearn.ensemble import RandomForestClassifier

    rows = np.arange(40.0).reshape(20, 2)
    # On one thread: scikit-learn's own threads swap filters and may leave some.
    RandomForestClassifier(3, n_jobs=1, random_state=0).fit(rows, rows[:, 0] > 20).predict(rows)
    pickle.dumps(warnings.filters)
    for one in warnings.filters:
        assert all(isinstance(part, str | re.Pattern | None) for part in (one[1], one[3]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.filterwarnings("always", message="expected", category=ExpectedWarning)
        warnings.warn("expected", ExpectedWarning, stacklevel=1)
    assert [str(one.message) for one in seen] == ["expected"]


def while_main_warns(fit):
    """Fit in a thread; whenever it is inside a switch or a model, check warnings of the main thread."""
    turns, missed, name = queue.Queue(), [], "fit beside"

    def turn():
        done = threading.Event()
        turns.put(done)
        done.wait(5)

    def work():
        try:
            fit()
        except BaseException as error:  # noqa: BLE001  (reported by the main thread)
            missed.append(f"the fit raised {error!r}")
        finally:
            turns.put(None)

    def warn(number, seen):
        from sklearn.exceptions import ConvergenceWarning

        for category in (ExpectedWarning, RuntimeWarning, ConvergenceWarning, DeprecationWarning):
            text = f"{category.__name__} of turn {number}"
            warnings.warn(text, category, stacklevel=1)
            if text not in [str(one.message) for one in seen]:
                missed.append(f"missed warning: {text}")
        try:
            warnings.warn("refused", RefusedWarning, stacklevel=1)
        except RefusedWarning:
            pass
        else:
            missed.append(f"not raised: RefusedWarning of turn {number}")
        if set(np.geterr().values()) != {"raise"}:
            missed.append(f"the error state of NumPy is {np.geterr()}")

    with warnings.catch_warnings(record=True) as seen, np.errstate(all="raise"):
        warnings.simplefilter("always")
        warnings.simplefilter("error", RefusedWarning)
        with crossing(name, turn=turn):
            thread = threading.Thread(target=work, name=name)
            thread.start()
            number = 0
            while (done := turns.get(timeout=60)) is not None:
                if number < 12:  # a model has a turn in every row
                    warn(number, seen)
                number += 1
                done.set()
            thread.join()
        warn("after the fit", seen)
        missed += [f"leaked warning: {one.message}" for one in seen if "about a row" in str(one.message)]
    assert not missed, missed[:6]


def thread_keeps_its_errors(fit):
    """Fit in a thread with its own error state, which must stay in that thread only."""
    found = {}

    def work():
        np.seterr(all="raise", under="warn")
        before = np.geterr()
        fit()
        found["same"] = np.geterr() == before

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found["same"]


def at_once_without_errors(*works):
    """Run functions in concurrent threads; none may fail."""
    errors = at_once(*works)
    assert not errors, errors


def run_estimator(program, world, name, make):
    """Run every operation of one estimator."""
    from sklearn.base import clone

    import dpem
    from dpem import errors, report, testing

    frame, folder = world["frame"], world["folder"]
    plug_in = make().model if name.startswith(("PrivateEM", "paper.GeneralEM")) else None
    run = lambda what, operation, **kwargs: program.run(name, what, operation, **kwargs)  # noqa: E731
    fitted = {}

    def fit(**arguments):
        return make(**arguments).fit(frame)

    def fit_and_keep():
        fitted["model"] = fit(ledger=world["ledger"])

    def resumable():
        with dpem.resumable(folder / f"{name}.transcript"):
            fit()

    def recorded():
        with testing.record() as transcript:
            fit()
        with testing.replay(transcript):
            fit()

    def seeded():
        with testing.insecure_noise(3):
            fit()

    def cut_short(where):
        with where:
            fit(ledger=world["ledger"])

    run("fit", fit)
    run("fit with a ledger", fit_and_keep)
    run("fit on one thread", lambda: fit(n_jobs=1))
    run("fit on three threads", lambda: fit(n_jobs=3))
    run("fit with progress", lambda: fit(verbose=1))
    plain = errors.InvalidArgumentError if name.startswith(ONLY_PRIVATE) else ()
    run("fit at infinite epsilon", lambda: fit(epsilon=math.inf), raises=plain)
    run("fit with seeded noise", seeded)
    run("fit recorded and replayed", recorded)
    run("resumable fit", resumable)
    run("resumed fit", resumable)
    run("fit, then other libraries", lambda: (fit(), other_libraries()))
    model = fitted["model"]
    for member in public_members(type(model)):
        if not hasattr(model, member):
            continue  # not in this mode
        arguments, named = arguments_of(world, model, member)
        if arguments is None:
            run(member, lambda member=member: getattr(model, member))
            continue
        used = clone(model) if member in ("fit", "fit_transform", "set_output") else model
        refused = errors.InvalidArgumentError if member in REFUSED.get(name, ()) else ()
        run(member, lambda u=used, m=member, a=arguments, n=named: getattr(u, m)(*a, **n), raises=refused)
    refused = errors.InvalidArgumentError if "sample" in REFUSED.get(name, ()) else ()
    run("load", lambda: dpem.load(folder / "again.dpem", model=plug_in))
    run("repr", lambda: (repr(model), str(model), model._repr_html_(), repr(clone(model))))
    run("pickle", lambda: pickle.loads(pickle.dumps(model)))
    run(
        "privacy statement", lambda: (str(model.privacy_), model.privacy_.to_json(), model.privacy_.compare())
    )
    run("plan of a fit", lambda: (str(model.plan_), repr(model.plan_), model.plan_.to_dict()))
    run("render report", lambda: report.render_report(model), raises=refused)
    page = folder / "page.html"
    run("write report", lambda: report.write_report(model, page, ledger=world["ledger"]), raises=refused)
    run("profile", lambda: (report.profile_of(model), report.column_names(model)))
    if name in world["planned"]:
        run("plan", lambda: (str(dpem.plan(make(), 500)), dpem.plan(make(), 500).compare()))
        run("two plans at once", lambda: at_once_without_errors(*[lambda: dpem.plan(make(), 500)] * 2))
    # Failures.
    wrong = errors.DpemError
    run("epsilon below zero", lambda: fit(epsilon=-1.0), raises=wrong)
    run(
        "columns that are not there",
        lambda: make().fit(frame[["c"]].rename(columns={"c": "z"})),
        raises=wrong,
    )
    run("no rows", lambda: make().fit(frame[:0]), raises=wrong)
    run("an exhausted ledger", lambda: fit(ledger=world["exhausted"]), raises=errors.InsufficientBudgetError)
    run("no such ledger", lambda: fit(ledger=folder / "none"), raises=wrong)
    run("rows that raise", lambda: make().fit(world["failing rows"]), raises=Exception)
    run("interrupted first release", lambda: cut_short(interrupted_at(0)), raises=KeyboardInterrupt)
    run("interrupted second release", lambda: cut_short(interrupted_at(1)), raises=KeyboardInterrupt)
    for times in (1, 2):
        cut = lambda times=times: cut_short(interrupted_by_signals(times))  # noqa: E731
        run(f"interrupted by {times} signals", cut, raises=KeyboardInterrupt)
    run("save into no folder", lambda: model.save(folder / "none" / "m.dpem"), raises=errors.OutputError)
    run("save over a folder", lambda: model.save(folder), raises=errors.OutputError)
    # Threads.
    run("two fits at once", lambda: at_once_without_errors(fit, fit))
    run(
        "two saves at once",
        lambda: at_once_without_errors(
            *(lambda n=n: model.save(folder / f"{name} {n}.dpem") for n in range(2))
        ),
    )
    run("a fit while the main thread warns", lambda: while_main_warns(lambda: world["beside"](name)))
    run("a fit in a thread with an error state", lambda: thread_keeps_its_errors(fit))


# -- other public names --------------------------------------------------------------------------------------


def run_sources(program, world):
    """Fit every form of a table: files, streams, other frames, rows of persons."""
    import decimal

    import dpem
    from support.sources import LOCAL, NUMBERS

    for name, make in LOCAL.items():
        folder = world["folder"] / f"source {name}"
        folder.mkdir()
        rows = make(world["frame"], folder)

        def fit(rows=rows):
            dpem.KMeans(2, schema=NUMBERS, epsilon=1.0, random_state=0).fit(rows)

        program.run("sources", name, fit)
    people = world["frame"][["c", "a", "b"]].assign(who=[decimal.Decimal(f"{i}.5") for i in range(N_ROWS)])
    program.run(
        "sources",
        "persons",
        lambda: dpem.KMeans(2, schema=NUMBERS, epsilon=1.0, person="who", rows_per_person=2).fit(people),
    )
    broken = world["folder"] / "broken.parquet"
    broken.write_bytes(b"PAR1 no table")
    for name, path in (("broken file", broken), ("no file", world["folder"] / "none.csv")):
        program.run(
            "sources",
            name,
            lambda path=path: dpem.KMeans(2, schema=NUMBERS, epsilon=1.0).fit(path),
            raises=dpem.errors.DpemError,
        )


def ledger_operations(world):
    """Return every operation of a ledger."""
    import dpem
    from dpem.privacy import GaussianEvent, PrivacyUnit

    folder, ledger, charged = world["folder"], world["ledger"], world["charged"]
    event = GaussianEvent(50.0)
    return {
        "": lambda: repr(dpem.Ledger(ledger.path, purpose="p", analyst="a")),
        "create": lambda: dpem.Ledger.create(
            folder / "new.ledger", name="n", cap_epsilon=1.0, cap_delta=1e-6
        ),
        "check_terms": lambda: ledger.check_terms("replace_one", PrivacyUnit()),
        "export": ledger.export,
        "head": ledger.head,
        "history": ledger.history,
        "remaining": ledger.remaining,
        "spend": lambda: ledger.spend(event, purpose="by hand"),
        "verify": lambda: (ledger.verify(), ledger.verify(ledger.head())),
        "verify_charge": lambda: charged.verify_charge(ledger),
    }


def schema_operations(world):
    """Return every operation of a schema."""
    import dpem
    from support.sources import NUMBERS, TABLE

    path = world["folder"] / "schema.toml"
    return {
        "": lambda: repr(dpem.Schema(TABLE.to_dict())),
        "bounds": lambda: NUMBERS.bounds,
        "declare": lambda: TABLE.declare({"b": {"missing": True}}),
        "describe": TABLE.describe,
        "filled": TABLE.filled,
        "from_columns": lambda: dpem.Schema.from_columns(TABLE.columns),
        "from_types": lambda: dpem.Schema.from_types(world["frame"]),
        "insecure_bounds": lambda: TABLE.insecure_bounds,
        "lacking": lambda: TABLE.lacking,
        "names": lambda: TABLE.names,
        "require_complete": TABLE.require_complete,
        "require_numbers": NUMBERS.require_numbers,
        "save": lambda: TABLE.save(path),
        "read": lambda: dpem.Schema.read(path),
        "select": lambda: TABLE.select(["ward"]),
        "source": lambda: TABLE.source,
        "to_dict": TABLE.to_dict,
    }


def public_functions(world):
    """Return the operations of each public name of the package that is not an estimator."""
    import dpem
    from dpem import audit, paper, privacy, report, testing
    from support.estimators import ESTIMATORS, Mean
    from support.sources import NUMBERS, TABLE

    numbers = world["frame"][["c", "a", "b"]].fillna(0).to_numpy()
    box = {"epsilon": 1.0, "bounds": (-3, 3)}
    centres = np.repeat([[-1.0], [1.0]], 3, axis=1)
    statement, outlook = world["charged"].privacy_, dpem.plan(ESTIMATORS["KMeans"](), 500)
    kmeans = ESTIMATORS["KMeans"]()
    event = privacy.GaussianEvent(2.0)
    integers = np.arange(5)

    def drawn(seed):
        with testing.insecure_noise(seed), testing.record() as transcript:
            kmeans.fit(world["frame"])
        return transcript

    def replayed():
        with testing.replay(drawn(1)):
            kmeans.fit(world["frame"])

    def scaled():
        scaler = dpem.BoundsScaler(bounds=(-3, 3)).fit(numbers)
        scaler.inverse_transform(scaler.transform(numbers))

    def subject():
        return audit.Subject(
            "clipped", lambda rows, ledger: dpem.clipped_fraction(rows, ledger=ledger, **box), bounds=(-3, 3)
        )

    def game(runs=12):
        return audit.distinguish(kmeans, numbers[:20], numbers[1:21], runs=runs, pilot=6)

    def exhausted():
        with contextlib.suppress(dpem.errors.InsufficientBudgetError):
            dpem.private_bounds(numbers, epsilon=1.0, ledger=world["exhausted"])

    family = {
        "start": lambda schema, random_state, centres: {"mean": np.zeros(3)},
        "expected_statistics": lambda row, parameters: row / 6,
        "m_step": lambda statistics, parameters, n_rows, noise: {"mean": statistics * 6 / n_rows},
        "norm_bound": lambda schema: 1.0,
    }
    return {
        "dpem.BoundsScaler": scaled,
        "dpem.ExponentialFamily": lambda: dpem.ExponentialFamily.from_functions(**family),
        "dpem.Files": lambda: dpem.Files(__file__, format="csv").listed(),
        "dpem.Ledger": ledger_operations(world)["spend"],
        "dpem.Outlook": lambda: (str(outlook), outlook.to_dict(), outlook.compare(), outlook.worst),
        "dpem.PrivacyStatement": lambda: dpem.PrivacyStatement.from_json(statement.to_json()).compare(),
        "dpem.Schema": schema_operations(world)["describe"],
        "dpem.check_model": lambda: dpem.check_model(Mean(), NUMBERS),
        "dpem.clipped_fraction": lambda: dpem.clipped_fraction(numbers, **box),
        "dpem.compare_tables": lambda: str(
            dpem.compare_tables(world["frame"], world["frame"], TABLE, target="smoker")
        ),
        "dpem.cosine_basis": lambda: dpem.cosine_basis((4, 4), 3),
        "dpem.epsilon_needed": lambda: dpem.epsilon_needed(
            dpem.GaussianMixture(2, epsilon=1.0, schema=NUMBERS), 5000, {"a": 0.5}
        ),
        "dpem.factors_allowed": lambda: dpem.factors_allowed(1000, 5, epsilon=1.0),
        "dpem.load": lambda: (
            world["charged"].save(world["folder"] / "c.dpem") or dpem.load(world["folder"] / "c.dpem")
        ),
        "dpem.nicv": lambda: dpem.nicv(numbers, centres),
        "dpem.testing.trial_table": lambda: dpem.testing.trial_table("visits", 20),
        "dpem.check_table": lambda: str(dpem.check_table(world["frame"], TABLE)),
        "dpem.TableCheck": lambda: dpem.check_table(world["frame"], TABLE).to_frame(),
        "dpem.plan": lambda: str(dpem.plan(dpem.KMeans(2, epsilon=1.0, schema=NUMBERS), 10)),
        "dpem.private_bounds": lambda: (dpem.private_bounds(numbers, epsilon=1.0), exhausted()),
        "dpem.private_nicv": lambda: str(dpem.private_nicv(numbers, centres, **box)),
        "dpem.resumable": lambda: dpem.resumable(world["folder"] / "unused"),
        "dpem.show_versions": dpem.show_versions,
        "dpem.privacy.Adjacency": lambda: privacy.Adjacency("replace_one"),
        "dpem.privacy.Budget": lambda: privacy.Budget.from_epsilon(1.0, 1e-6),
        "dpem.privacy.ComposedEvent": lambda: privacy.ComposedEvent.of([event, event]).to_dict(),
        "dpem.privacy.Event": lambda: event.with_noise_times(2.0).to_dict(),
        "dpem.privacy.GaussianEvent": lambda: privacy.GaussianEvent(3.0).to_dict(),
        "dpem.privacy.GaussianMechanism": lambda: privacy.GaussianMechanism(1.0, 5.0).release(integers),
        "dpem.privacy.LaplaceEvent": lambda: privacy.LaplaceEvent(1.0).to_dict(),
        "dpem.privacy.LaplaceMechanism": lambda: privacy.LaplaceMechanism(1.0, 5.0).release(integers),
        "dpem.privacy.Ledger": ledger_operations(world)["verify"],
        "dpem.privacy.NoisyIntegers": lambda: repr(privacy.GaussianMechanism(1.0, 5.0).release(integers)),
        "dpem.privacy.PrivacyStatement": lambda: privacy.PrivacyStatement.not_private().to_json(),
        "dpem.privacy.PrivacyUnit": lambda: privacy.PrivacyUnit(2, None).to_dict(),
        "dpem.privacy.accountant_named": lambda: privacy.accountant_named("pld"),
        "dpem.privacy.calibrate": lambda: privacy.calibrate(event, 1.0, 1e-5),
        "dpem.privacy.compare": lambda: privacy.compare([event], 1e-5),
        "dpem.privacy.split": lambda: privacy.split(1.0, 1e-5, [1, 2]),
        "dpem.paper.generic_sensitivity": lambda: paper.generic_sensitivity(1.0, 10),
        "dpem.paper.Moment": lambda: paper.Moment("counts", 2, 1.0),
        "dpem.audit.Game": lambda: str(game()),
        "dpem.audit.ReplayAudit": lambda: str(audit.replay(kmeans, numbers[:20], hostile=2, search=2)),
        "dpem.audit.Subject": lambda: audit.replay(subject(), numbers[:20], hostile=2, search=2),
        "dpem.audit.Violation": lambda: str(audit.Violation("noise", "here", "none")),
        "dpem.audit.distinguish": lambda: game().passed,
        "dpem.audit.distinguish_by_bits": lambda: audit.distinguish_by_bits(
            kmeans, numbers[:20], numbers[1:21], runs=12, pilot=6
        ),
        "dpem.audit.replay": lambda: (
            audit.replay(ESTIMATORS["PrivateEM"](), world["frame"][:20], hostile=2, search=2).passed
        ),
        "dpem.report.column_names": lambda: report.column_names(world["charged"]),
        "dpem.report.profile_of": lambda: report.profile_of(world["charged"]),
        "dpem.report.render_report": lambda: report.render_report(world["charged"], n_rows=N_ROWS, title="t"),
        "dpem.report.write_report": lambda: report.write_report(world["charged"], world["folder"] / "w.html"),
        "dpem.testing.Recording": lambda: testing.Recording().releases,
        "dpem.testing.check_conformance": lambda: testing.check_conformance("bernoulli"),
        "dpem.testing.insecure_noise": lambda: drawn(2),
        "dpem.testing.record": lambda: drawn(3),
        "dpem.testing.replay": replayed,
    }


def public_names():
    """Return public names except estimators, modules and exceptions; each has an operation above."""
    import dpem
    from dpem.estimator.base import PrivateEstimator

    found = []
    for module in (dpem, dpem.privacy, dpem.paper, dpem.audit, dpem.report, dpem.testing):
        for name in module.__all__:
            entry = getattr(module, name)
            left_out = isinstance(entry, type) and issubclass(entry, BaseException | PrivateEstimator)
            if callable(entry) and not left_out:
                found.append(f"{module.__name__}.{name}")
    return found


def run_functions(program, world):
    """Run every public function and class that is not an estimator."""
    import dpem
    from dpem import audit
    from support.estimators import ESTIMATORS

    functions = public_functions(world)
    uncovered = sorted(set(public_names()) - set(functions))
    program.run("functions", "every public name is run", lambda: require(not uncovered, uncovered))
    for name, operation in functions.items():
        program.run("functions", name, operation)
    for owner, operations in ((dpem.Ledger, ledger_operations), (dpem.Schema, schema_operations)):
        made = operations(world)
        public = {name for name in vars(owner) if not name.startswith("_")} - {"columns", "dataset"}
        uncovered = sorted(name for name in public if name not in made and name not in owner.__annotations__)
        program.run(
            "functions", f"every method of {owner.__name__} is run", lambda u=uncovered: require(not u, u)
        )
        for name, operation in made.items():
            program.run("functions", f"{owner.__name__}.{name}", operation)
    numbers = world["frame"][["c", "a", "b"]].fillna(0).to_numpy()[:20]

    def replay():
        with contextlib.suppress(dpem.errors.AuditFailedError):
            audit.replay(ESTIMATORS["KMeans"](), numbers, hostile=1, search=1)

    program.run("functions", "two audits at once", lambda: at_once(replay, replay))
    release = lambda: dpem.private_bounds(numbers, epsilon=1.0)  # noqa: E731
    program.run("functions", "two private_bounds at once", lambda: at_once_without_errors(release, release))


def require(condition, said):
    """Raise unless a condition holds."""
    assert condition, said


class ClosedPipe(io.StringIO):
    """Standard output with a closed reader."""

    def write(self, _):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def run_commands(program, world):
    """Run every command in this process, like a program that imports `dpem.cli`."""
    from dpem.cli.app import app, main
    from support.commands import hospital

    ward = world["folder"] / "ward"
    ward.mkdir()
    table, schema, ledger = hospital(ward, 300)
    numbers = ["--schema", schema, "--columns", "age,bmi,systolic,hba1c,stay"]
    paid = ["--ledger", ledger, "--epsilon", "2"]
    clusters, rows = ward / "clusters.dpem", ward / "table.dpem"
    commands = {
        "version": (["--version"], 0),
        "help": (["--help"], 0),
        "no command": ([], 2),
        "unknown command": (["unknown"], 2),
        "plan": (["plan", "--rows", 5000, *numbers, "-k", 3, "--epsilon", 1], 0),
        "plan of few rows": (["plan", "--rows", 50, *numbers, "-k", 9, "--epsilon", 0.1, "--json"], 0),
        "schema": (["schema", table, "-o", ward / "draft.toml", "--no-ask"], 0),
        "check": (["check", table, "--schema", schema], 0),
        "check of a table that is not read": (["check", table, "--schema", schema, "--delimiter", ";"], 2),
        "budget init": (["budget", "init", ledger, "--name", "demo patients", "--epsilon", 3], 0),
        "fit": (["fit", table, *numbers, *paid, "-k", 3, "-o", clusters], 0),
        "fit of a table": (["fit", table, "--schema", schema, *paid, "-m", "table", "-o", rows, "--json"], 0),
        "fit that costs too much": (
            ["fit", table, *numbers, *paid, "-m", "kmeans", "-o", ward / "3.dpem"],
            3,
        ),
        "fit of no file": (["fit", ward / "none.csv", *numbers, *paid, "-o", ward / "4.dpem", "--json"], 2),
        "fit without arguments": (["fit"], 2),
        "fit with wrong arguments, as JSON": (["fit", "--json", "--nonsense"], 2),
        "sample": (["sample", rows, "-n", 20, "-o", ward / "made.csv"], 0),
        "sample to standard output": (["sample", rows, "-n", 5], 0),
        "predict": (["predict", clusters, table, "-o", ward / "predicted.csv"], 0),
        "report": (["report", clusters, "-o", ward / "page.html", "--ledger", ledger], 0),
        "report of no model": (["report", table, "-o", ward / "none.html"], 5),
        "budget show": (["budget", "show", ledger], 0),
        "budget verify": (["budget", "verify", ledger, "--model", clusters, "--json"], 0),
        "audit": (["audit", "--tiny", "--only", "nothing at all"], 2),
        "reproduce": (["reproduce", "nothing"], 2),
        "demo": (["demo", world["folder"] / "demo", "--rows", 300], 0),
    }
    named = [command.name for command in app.registered_commands]
    named += [
        f"{group.name} {c.name}"
        for group in app.registered_groups
        for c in group.typer_instance.registered_commands
    ]
    uncovered = sorted(set(named) - set(commands))
    program.run("commands", "every command is run", lambda: require(not uncovered, uncovered))
    for name, (arguments, code) in commands.items():

        def command(arguments=arguments, code=code):
            ended = main([str(argument) for argument in arguments])
            assert ended == code, f"exit code {ended}"

        program.run("commands", name, command)

    def closed_pipe():
        """Write to a closed reader; standard output of this process must stay the same."""
        before, sys.stdout = sys.stdout, ClosedPipe()
        given = sys.stdout
        try:
            main(["sample", str(rows), "-n", "5"])
            assert sys.stdout is given, "standard output was replaced"
        finally:
            sys.stdout = before

    def interrupted():
        with interrupted_by_signals(1):
            assert (
                main([str(a) for a in ("fit", table, *numbers, "-e", 1, "-k", 2, "-o", ward / "5.dpem")])
                == 130
            )

    program.run("commands", "closed standard output", closed_pipe)
    program.run("commands", "interrupted fit", interrupted)


def run_audit(program):
    """Run the command that starts processes; neither processes nor their files may remain."""
    from dpem.cli import main

    def command():
        assert main(["audit", "--tiny", "--only", "paper.DPLloyd, bounds", "--jobs", "1"]) == 0

    program.run("processes", "audit", command)


# -- the program ---------------------------------------------------------------------------------------------


def create_world(folder):
    """Create rows, ledgers and a model for the operations."""
    import dpem
    from support.estimators import ESTIMATORS
    from support.plug_ins import Talkative
    from support.sources import NUMBERS, mixed_table

    estimators, frame = ESTIMATORS | variants(), mixed_table(N_ROWS)
    ledger = dpem.Ledger.create(folder / "ledger", name="x", cap_epsilon=1e5, cap_delta=1e-5)
    exhausted = dpem.Ledger.create(folder / "exhausted", name="x", cap_epsilon=1e-3, cap_delta=1e-5)
    charged = ESTIMATORS["KMeans"](ledger=ledger).fit(frame)

    def failing_rows():
        yield frame[:50]
        raise RuntimeError("no more rows can be read")

    def beside(name):
        """Fit while another thread warns; a plug-in model gives that thread turns, and warns too."""
        if name == "PrivateEM":
            dpem.PrivateEM(Talkative(), max_iter=2, epsilon=1.0, schema=NUMBERS, n_jobs=1).fit(frame[:3])
        else:
            estimators[name](n_jobs=1).fit(frame)

    return {
        "estimators": estimators,
        "frame": frame,
        "folder": folder,
        "ledger": ledger,
        "exhausted": exhausted,
        "charged": charged,
        "planned": [name for name in estimators if not name.startswith("paper.")],
        "failing rows": failing_rows,
        "beside": beside,
    }


def variants():
    """Return more estimators: a table with a target, and a plug-in model with every method."""
    import dpem
    from support.plug_ins import Whole
    from support.sources import NUMBERS, TABLE

    given = {"epsilon": 1.0, "random_state": 0}
    return {
        "MixedMixture target": lambda **a: dpem.MixedMixture(2, target="smoker", schema=TABLE, **given | a),
        "PrivateEM whole": lambda **a: dpem.PrivateEM(Whole(), max_iter=2, schema=NUMBERS, **given | a),
    }


# -- operations that leak on purpose -------------------------------------------------------------------------

LEAKY = """
import contextlib, io, os, unittest.mock, warnings
import threadpoolctl

def warning_filters():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

def warning_functions():
    with warnings.catch_warnings(record=True):
        pass

def thread_pools():
    with threadpoolctl.threadpool_limits(limits=1):
        pass

def umask():
    before = os.umask(0o077)
    os.umask(before)

def interpreter():
    with contextlib.redirect_stdout(io.StringIO()):
        pass

def functions():
    with unittest.mock.patch.object(os, "getlogin", lambda: "nobody"):
        pass
"""


def run_leaks(program):
    """Run operations that leak, one for each kind of state, and switches that leak only between threads."""
    program.patience = 0.1
    for kind, state in process_state.STATE.items():
        program.run("leaks", kind, state.leak)
    for process in process_state.LEAKED:
        process.kill()
        process.wait()
    leaky = types.ModuleType("dpem.leaky")  # threads interleave only in switches entered by dpem
    exec(LEAKY, vars(leaky))
    program.renew()
    for kind in ("warning filters", "warning functions", "thread pools", "umask", "interpreter", "functions"):
        work = vars(leaky)[kind.replace(" ", "_")]
        program.run("alone", kind, work)
        program.run("at once", kind, lambda work=work: at_once_without_errors(work, work))

    def speaking():
        warnings.warn("the model warns about a row: 1", UserWarning, stacklevel=1)

    program.run("warnings", "hidden", lambda: while_main_warns(leaky.warning_filters))
    program.run("warnings", "taken", lambda: while_main_warns(leaky.warning_functions))
    program.run("warnings", "of a row", lambda: while_main_warns(speaking))
    program.run("warnings", "none", lambda: while_main_warns(int))
    program.run("failures", "an exception", lambda: 1 / 0)
    program.run("failures", "no exception", int, raises=ValueError)


def run_estimators(program, world):
    """Run every operation of every estimator."""
    for name, make in world["estimators"].items():
        run_estimator(program, world, name, make)


def run_rest(program, world):
    """Run all operations other than methods of estimators."""
    from dpem.estimator.saving import _MODELS

    covered = {type(make())._public_name for make in world["estimators"].values()}
    missing = sorted(set(_MODELS) - covered)
    program.run("functions", "every estimator is run", lambda: require(not missing, missing))
    run_sources(program, world)
    run_functions(program, world)
    run_commands(program, world)
    run_audit(program)


def main(part, result):
    """Run one part and write its results."""
    os.umask(0o027)  # an unusual value, which no code sets
    if part != "leaks":
        warm_up()
    # Outside the working folder, which must stay empty.
    with tempfile.TemporaryDirectory(dir=Path.cwd().parent) as name:
        program = Program(Path(name))
        if part == "leaks":
            run_leaks(program)
        else:
            program.run("import", "every module", import_everything)
            from dpem.fitting.standard_errors import few_draws
            from dpem.models.table.pairs import short_searches

            with few_draws(5), short_searches(10):
                world = create_world(program.folder)
                program.renew()
                {"estimators": run_estimators, "rest": run_rest}[part](program, world)
    Path(result).write_text(json.dumps(program.found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
