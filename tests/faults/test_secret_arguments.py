"""No message repeats rows that somebody passes in the place of another argument.

Every parameter of every public class, method and function is given tables, columns and long texts with a
secret cell. Whatever is raised or warned, the secret must not be in it.
"""

import inspect
import traceback
import warnings
from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpem
from dpem.data.declarations import _KEYS
from dpem.errors import DpemError
from dpem.estimator.base import PrivateEstimator
from support.estimators import ESTIMATORS, Mean
from support.sources import NUMBERS, mixed_table

mpl.use("Agg")

SECRETS = ("7041776", "7,041,776", "7.04178e+06", "7041776.0")
_CELLS = [["M7041776", 7041776.0, 1.5], ["M7041777", 7041776.0, 2.5], ["x", 3.0, np.nan]]
_FRAME = pd.DataFrame(_CELLS, columns=["id", "amount", "share"])
PAYLOADS = {
    "frame": _FRAME,
    "numeric frame": _FRAME[["amount", "share"]],
    "text column": _FRAME["id"],
    "numeric column": _FRAME["amount"],
    "rows": _CELLS,
    "dict of columns": {"id": ["M7041776", "x"], "amount": [7041776.0, 2.0]},
    "values with NaN": ["M7041776", "x", np.nan],
    "object array": np.array(_CELLS, dtype=object),
    "array of one object": np.array(["M7041776"], dtype=object),
    "numbers": np.array([7041776.0, 7041776.5, 3.0]),
    "csv text": _FRAME.to_csv(index=False) * 40,
    "long line": "M7041776," * 400,
    "long bytes": b"M7041776," * 400,
}
N = 120
ROWS = mixed_table(N)
# Exceptions that may come instead of a DpemError, by the start of the name of the call.
HONEST = {
    "dpem.plot": TypeError,  # "Expected a fitted model, got DataFrame", the class of a wrong type
    "dpem.report": (AttributeError, TypeError, ValueError),  # of an object that is not a model
    "dpem.PrivacyStatement": AttributeError,  # parts that are no events
    "dpem.privacy.Adjacency": ValueError,  # of Python's enumerations
    "dpem.privacy": (AttributeError, TypeError),  # the core takes events and numbers of integers as they are
}


def said_by(call):
    """Run a call; return what it warned and raised, as a traceback prints it, and the exception."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        raised = None
        try:
            call()
        except Exception as error:  # noqa: BLE001  (judged by the tests)
            raised = error
    said = [str(one.message) for one in seen]
    found = None if raised is None else traceback.TracebackException.from_exception(raised)
    while found is not None:
        said += found.format_exception_only()
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return "\n".join(said), raised


def problems(name, call):
    """Return what is wrong with the message of a call with a secret."""
    said, raised = said_by(call)
    found = [f"{name}: {said[:300]}" for secret in SECRETS if secret in said][:1]
    if len(said) > 3000:
        found.append(f"{name}: {len(said)} characters")
    honest = tuple(kind for start, kind in HONEST.items() if name.startswith(start))
    if raised is not None and not isinstance(raised, (DpemError, honest)):
        found.append(f"{name}: {said[:300]}")
    return found


def parameters_of(function):
    """Return the names of the parameters that a caller can give, and which of them take any number."""
    kinds = inspect.Parameter
    found = inspect.signature(function).parameters.values()
    return [one.name for one in found if one.kind is not kinds.VAR_KEYWORD and one.name != "self"], {
        one.name for one in found if one.kind is kinds.VAR_POSITIONAL
    }


def attack(name, function, arguments, **more):
    """Give every payload to every parameter of a function; return what is wrong."""
    found = []
    names, several = parameters_of(function)
    for parameter in names:
        for payload_name, payload in PAYLOADS.items():
            given = {k: v for k, v in arguments.items() if k in names} | {parameter: payload}
            given |= more.get(parameter, {})
            places = [given.pop(one) for one in several & set(given)]
            call = lambda g=given, p=places: function(*p, **g)  # noqa: E731
            found += problems(f"{name}({parameter}={payload_name})", call)
    return found


def public_methods(cls):
    """Yield the public methods of a class that dpem defines."""
    for name in dir(cls):
        method = getattr(cls, name)
        if not name.startswith("_") and callable(method) and method.__module__.startswith("dpem."):
            yield name


def checked(found):
    assert not found, f"{len(found)}:\n" + "\n".join(found)


# -- estimators ----------------------------------------------------------------------------------------------

ONE_OF_EACH = {type(make()): name for name, make in reversed(ESTIMATORS.items())}


@cache
def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ESTIMATORS[name]().fit(ROWS)


def rest_of(cls, parameter):
    """Return the arguments to leave out, so that the given one is looked at."""
    limits = {"bounds", "data_norm", "schema"} & set(inspect.signature(cls).parameters)
    if parameter in limits and len(limits) > 1:
        return dict.fromkeys(limits - {parameter})
    return {"rows_per_person": 2} if parameter == "person" else {}


@pytest.mark.parametrize("name", list(ONE_OF_EACH.values()))
def test_no_argument_of_an_estimator_is_repeated(name):
    make, found = ESTIMATORS[name], []
    cls = type(make())
    for parameter in inspect.signature(cls).parameters:
        for payload_name, payload in PAYLOADS.items():
            given = rest_of(cls, parameter) | {parameter: payload}
            where = f"{name}({parameter}={payload_name})"
            found += problems(where, lambda g=given: make().set_params(**g).fit(ROWS))
            if not name.startswith("paper."):
                found += problems(f"plan of {where}", lambda g=given: dpem.plan(make().set_params(**g), N))
    checked(found)


@pytest.mark.parametrize("name", list(ONE_OF_EACH.values()))
def test_no_argument_of_a_method_is_repeated(name, tmp_path):
    model, found = fitted(name), []
    arguments = {"X": ROWS, "epsilon": 1.0, "path": tmp_path / "m", "columns": "ward", "ledger": None}
    for method in public_methods(type(model)):
        if hasattr(model, method):
            used = clone(model) if method == "fit" else model
            found += attack(f"{name}.{method}", getattr(used, method), arguments)
    checked(found)


# -- functions and other classes -----------------------------------------------------------------------------


@pytest.fixture
def arguments(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return valid_arguments(tmp_path)


def valid_arguments(tmp_path):
    """Return valid arguments by name."""
    ledger = dpem.Ledger.create(tmp_path / "ledger", name="x", cap_epsilon=10.0, cap_delta=1e-5)
    model = ESTIMATORS["GaussianMixture"]()
    charged = ESTIMATORS["KMeans"](ledger=ledger).fit(ROWS)
    gaussian = dpem.privacy.GaussianEvent(30.0)
    statement = charged.privacy_
    charged.save(tmp_path / "model.dpem")
    return {
        "bound": 1.0,
        "insecure_noise": False,
        "largest_norm": 1.0,
        "real": ROWS,
        "synthetic": ROWS,
        "unit": dpem.privacy.PrivacyUnit(),
        "X": ROWS[list(NUMBERS.names)].to_numpy(),
        "accountant": "gdp",
        "accountants": ("gdp",),
        "accuracy": {"a": 0.5},
        "adjacency": "replace_one",
        "cap_delta": 1e-5,
        "cap_epsilon": 1.0,
        "centers": charged.cluster_centers_,
        "charge": charged.charge_,
        "data": ROWS,
        "delta": 1e-6,
        "description": {"rows_per_person": 1, "person": None},
        "epsilon": 1.0,
        "epsilons": (0.1, 1.0),
        "estimator": model,
        "event": gaussian,
        "events": [gaussian],
        "factor": 2.0,
        "ledger": ledger,
        "model": fitted("GaussianMixture"),
        "model_or_plan": model,
        "model_or_table": fitted("MixedMixture"),
        "mu": 0.1,
        "n_columns": 3,
        "n_rows": 1000,
        "n_samples": 5,
        "n_vectors": 2,
        "name": "x",
        "names": ["a"],
        "noise_multiplier": 3.0,
        "noise_scale": 3.0,
        "noise_stddev": 3.0,
        "parts": (gaussian,),
        "path": tmp_path / "model.dpem",
        "paths": tmp_path / "model.dpem",
        "plan": gaussian,
        "purpose": "x",
        "schema": NUMBERS,
        "sensitivity": 1.0,
        "shape": (4, 4),
        "shares": [1, 2],
        "size": 2,
        "statement": statement,
        "statement_or_model": statement,
        "table": ROWS,
        "text": statement.to_json(),
    }


# Records that dpem creates, and a function and a class without arguments.
RESULTS = {"NoisyIntegers", "Outlook", "TableCheck", "show_versions", "ExponentialFamily", "Event"}


def entries():
    """Yield every public function and class of the package except estimators and exceptions."""
    for module in (dpem, dpem.paper, dpem.plot, dpem.privacy, dpem.report):
        for name in module.__all__:
            entry = getattr(module, name)
            is_estimator = isinstance(entry, type) and issubclass(entry, PrivateEstimator)
            if callable(entry) and not is_estimator and name not in RESULTS:
                yield pytest.param(entry, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("entry", list(entries()))
def test_no_argument_of_a_function_or_class_is_repeated(entry, arguments, request):
    name = request.node.callspec.id
    if entry is dpem.check_model:
        arguments |= {"model": Mean(), "schema": NUMBERS}
    call = entry
    if entry is dpem.resumable:

        def call(path):
            with dpem.resumable(path):
                ESTIMATORS["KMeans"]().fit(ROWS)

    if entry is dpem.privacy.Adjacency:

        def call(value):
            dpem.privacy.Adjacency(value)

    if name.startswith("dpem.plot.loadings"):
        arguments |= {"model": fitted("FactorAnalysis")}
    if entry is dpem.plot.plan:
        arguments |= {"model_or_plan": fitted("KMeans")}
    checked(attack(name, call, arguments))
    plt.close("all")


INSTANCES = {
    "Schema": lambda a: NUMBERS,
    "Ledger": lambda a: a["ledger"],
    "BoundsScaler": lambda a: dpem.BoundsScaler(schema=NUMBERS).fit(ROWS),
    "Files": lambda a: dpem.Files(a["path"]),
    "TableCheck": lambda a: dpem.check_table(ROWS, NUMBERS),
    "Outlook": lambda a: dpem.plan(a["estimator"], 1000),
    "PrivacyStatement": lambda a: a["statement"],
}


@pytest.mark.parametrize("name", INSTANCES)
def test_no_argument_of_a_method_of_another_class_is_repeated(name, arguments, tmp_path):
    instance, found = INSTANCES[name](arguments), []
    arguments["columns"] = {"a": {"missing": True}}
    if name == "Schema":
        arguments |= {"path": tmp_path / "schema.toml", "names": ["a"]}
    for method in public_methods(type(instance)):
        if method == "create":
            arguments = arguments | {"path": tmp_path / "another.ledger"}
        found += attack(f"{name}.{method}", getattr(instance, method), arguments)
    checked(found)


@pytest.mark.parametrize("key", sorted(_KEYS))
def test_no_declaration_of_a_column_is_repeated(key):
    found = []
    for kind in ("continuous", "integer", "date", "duration", "ordered", "categorical", "boolean"):
        base = {"kind": kind, "missing": True}
        for payload_name, payload in PAYLOADS.items():
            declared = {"x": base | {key: payload}}
            found += problems(f"Schema({kind}, {key}={payload_name})", lambda d=declared: dpem.Schema(d))
    checked(found)
