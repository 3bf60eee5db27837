"""Models that could remember rows: each is refused before anything is charged.

Each model could carry information from one row to the vector of another row. A model that the inspection of
code accepts must be harmless, which a replay on neighbouring tables shows.
"""

import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import logging
import math
import os
import threading
import types
from typing import NamedTuple

import numpy as np
import pytest
from numpy import concatenate, isnan, where
from scipy.special import logsumexp

import dpem
from dpem.errors import InvalidArgumentError
from dpem.plugin import clipped as clipped_statistic
from dpem.plugin.product_mixture import PoissonFamily
from dpem.testing import record, replay

SCHEMA = dpem.Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in ("x", "y")})

SEEN = False
ARRAY = np.zeros(1)
COUNTS = collections.Counter()
VARIABLE = contextvars.ContextVar("variable", default=0.0)
LOCAL = threading.local()
LIST = []
PUSH = LIST.append
ITERATOR = iter(range(10**9))
CLOCK = itertools.count()
GENERATOR = np.random.default_rng(0)
LOG = logging.getLogger("memory")


def tick():
    while True:
        yield 1.0


TICKS = tick()


class Holder:
    """A helper class with a counter."""

    seen = 0.0
    items: list[float] = []

    def put(self, value):
        self.seen = value


HOLDER = Holder()
SPACE = types.SimpleNamespace(seen=0.0)


class Means(dpem.ExponentialFamily):
    """The mean of two columns."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row)

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": np.clip(statistics / max(n_rows, 1.0), -1, 1)}


def helped(row):
    global SEEN
    SEEN = SEEN or row[0] == 0.5
    return row * (1000.0 if SEEN else 1.0)


def statistics(function):
    """Return a model with the given `expected_statistics`."""
    return type("Forgetful", (Means,), {"expected_statistics": function})()


def gallery():
    """Return models that remember rows, by the method they use."""

    def a_global(self, row, parameters):
        global SEEN
        SEEN = SEEN or row[0] == 0.5
        return row * (1000.0 if SEEN else 1.0)

    def a_global_of_a_helper(self, row, parameters):
        return helped(row)

    def a_module_array(self, row, parameters):
        ARRAY[0] += row[0] == 0.5
        return row * (1 + ARRAY[0])

    def a_counter(self, row, parameters):
        COUNTS[row[0]] += 1
        return row

    def a_list_through_its_method(self, row, parameters):
        PUSH(row[0])
        return row

    def an_object(self, row, parameters):
        return row + HOLDER.seen

    def an_object_of_a_library(self, row, parameters):
        return row + SPACE.seen

    def a_class_attribute(self, row, parameters):
        type(self).seen = row[0]
        return row

    def a_class_as_self(self, row, parameters):
        Holder.put(Holder, row[0])
        return row

    def a_container_of_a_class(self, row, parameters):
        return row + len(Holder.items)

    def a_module_attribute(self, row, parameters):
        np.seen = row[0]
        return row

    def a_module_attribute_by_name(self, row, parameters):
        setattr(np, "seen", row[0])  # noqa: B010
        return row

    def an_attribute_of_a_function(self, row, parameters):
        helped.seen = row[0]
        return row

    def a_generator(self, row, parameters):
        return row * next(TICKS)

    def an_iterator(self, row, parameters):
        return row * next(ITERATOR)

    def a_counting_iterator(self, row, parameters):
        return row * next(CLOCK)

    def a_random_generator(self, row, parameters):
        return row + GENERATOR.uniform()

    def the_global_random_state(self, row, parameters):
        np.random.seed(int(row[0] == 0.5))
        return row

    def a_context_variable(self, row, parameters):
        VARIABLE.set(row[0])
        return row

    def a_thread_local(self, row, parameters):
        return row + getattr(LOCAL, "seen", 0.0)

    def the_environment(self, row, parameters):
        os.environ["SEEN"] = str(row[0])
        return row

    def a_log(self, row, parameters):
        LOG.warning("row %s", row)
        return row

    def standard_output(self, row, parameters):
        print(row)
        return row

    def a_file(self, row, parameters):
        row.tofile("rows")
        return row

    def an_import(self, row, parameters):
        import sys

        sys.seen = row[0]
        return row

    def globals_by_name(self, row, parameters):
        globals()["SEEN"] = row[0]
        return row

    def the_globals_of_a_function(self, row, parameters):
        helped.__globals__["SEEN"] = row[0]
        return row

    def code_from_text(self, row, parameters):
        exec("SEEN = 1", {})
        return row

    def a_locked_array_unlocked(self, row, parameters):
        self.table.setflags(write=True)
        return row

    found = {name: statistics(function) for name, function in locals().items()}

    outer = 0.0

    def a_variable_around(self, row, parameters):
        nonlocal outer
        outer += row[0]
        return row + outer

    def a_default(self, row, parameters, seen=np.zeros(1)):  # noqa: B008
        seen[0] += row[0]
        return row + seen[0]

    @functools.cache
    def cached(x):
        return x

    def a_cache(self, row, parameters):
        return row * cached(1.0)

    def an_encoding(self, row, schema):
        ARRAY[0] = row[0]
        return row / 2

    def a_method_called_by_name(self, row, parameters):
        return self.help(row)

    def help_with_memory(self, row):
        global SEEN
        SEEN = row[0]
        return row

    others = (a_variable_around, a_default, a_cache)
    found |= {function.__name__: statistics(function) for function in others}
    found["an encoding"] = type("Encoding", (Means,), {"encode": an_encoding, "start_centres": 2})()
    calling = {"expected_statistics": a_method_called_by_name, "help": help_with_memory}
    found["a method called by name"] = type("Calling", (Means,), calling)()
    keeping = {"expected_statistics": lambda self, row, p: row, "__copy__": lambda self: self}
    found["its own copying"] = type("Keeping", (Means,), keeping)()

    class Shared:
        def __deepcopy__(self, memo):
            return self

    hidden = Means()
    hidden.tools = [{"deep": (Shared(),)}]
    found["an object deep in an attribute"] = hidden
    return found


class Tool:
    """A helper object whose class has a cache."""

    cache: dict[float, float] = {}

    def scaled(self, x):
        return self.cache.setdefault(round(x, 2), x)


def memoised(x):
    return COUNTS.setdefault(round(x, 2), x)


def later():
    """Return models that hide a memory in objects, base classes, attributes and later steps."""

    class Parent(Means):
        def expected_statistics(self, row, parameters):
            return row * memoised(row[0])

    class Child(Parent):
        def expected_statistics(self, row, parameters):
            return super().expected_statistics(row, parameters) * 0.5

    class WithTool(Means):
        def __init__(self, tool):
            self.tool = tool

        def expected_statistics(self, row, parameters):
            return row * self.tool.scaled(row[0])

    class WithFunctions(WithTool):
        def expected_statistics(self, row, parameters):
            return row * self.tool[0](row[0])

    class MadeInStart(Means):
        def start(self, schema, random_state, centres):
            memo = {}
            self.scaled = lambda x: memo.setdefault(round(x, 2), x)
            return super().start(schema, random_state, centres)

        def expected_statistics(self, row, parameters):
            return row * self.scaled(row[0])

    class MadeInTheStep(Means):
        scaled = staticmethod(abs)

        def m_step(self, statistics, parameters, n_rows, noise):
            self.scaled = functools.cache(lambda x: x)
            return super().m_step(statistics, parameters, n_rows, noise)

        def expected_statistics(self, row, parameters):
            return row * self.scaled(row[0])

    class Called(Means):
        def __call__(self, x):
            return memoised(x)

        def expected_statistics(self, row, parameters):
            return row * self(row[0])

    class Slotted(Means):
        __slots__ = ("scaled",)

        def __init__(self):
            self.scaled = functools.cache(lambda x: x)

        def expected_statistics(self, row, parameters):
            return row * self.scaled(row[0])

    class Answering(Means):
        def __getattr__(self, name):
            if name == "__deepcopy__":
                return lambda memo: self
            raise AttributeError(name)

    def uninitialised(self, row, parameters):
        out = np.empty(2)
        if row[1] > 0:
            out[1] = row[1]
        return out

    def unset_entries(self, row, parameters):
        return np.divide(row, row - 0.25, where=row != 0.25)

    def frames(self, row, parameters):
        return row * len((x for x in row).gi_frame.f_back.f_locals)

    def a_module_of_a_module(self, row, parameters):
        np.ma.core.default_filler["seen"] = row[0]
        return row

    def a_module_as_a_value(self, row, parameters):
        library = np
        return row + library.random.uniform()

    def unlocking(self, row, parameters):
        parameters["mean"].base.flags["WRITEABLE"] = True
        return row

    found = {
        "a parent method": Child(),
        "a tool": WithTool(Tool()),
        "a function in a list": WithFunctions([memoised]),
        "an inner model": WithTool(Parent()),
        "a closure made in start": MadeInStart(),
        "a cache made in m_step": MadeInTheStep(),
        "a call of itself": Called(),
        "a slot": Slotted(),
        "an answer to deepcopy": Answering(),
        "a universal function of Python": WithTool(np.frompyfunc(memoised, 1, 1)),
    }
    functions = (uninitialised, unset_entries, frames, a_module_of_a_module, a_module_as_a_value, unlocking)
    return found | {function.__name__: statistics(function) for function in functions}


GALLERY = gallery() | later()


@pytest.mark.parametrize("name", GALLERY)
def test_a_model_that_could_remember_is_refused_and_nothing_is_charged(name, tmp_path):
    ledger = dpem.Ledger.create(tmp_path / "l", name="t", cap_epsilon=1.0, cap_delta=1e-3)
    model = dpem.PrivateEM(GALLERY[name], epsilon=0.5, schema=SCHEMA, clip_norm=1.0, ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="keeps nothing between rows"):
        model.fit(np.zeros((50, 2)))
    assert ledger.history() == []


def test_a_model_that_remembers_would_cost_privacy(monkeypatch):
    """Without the refusal, the rows after a rare one change the sum by far more than the sensitivity."""
    monkeypatch.setattr("dpem.plugin.checks.refuse_memory", lambda model: None)
    monkeypatch.setattr("dpem.plugin.fit.refuse_memory", lambda model: None)
    rows = np.full((200, 2), 0.1)
    settings = {"epsilon": 1.0, "delta": 1e-3, "schema": SCHEMA, "clip_norm": 200.0, "max_iter": 1}
    monkeypatch.setitem(globals(), "SEEN", False)
    with record() as first:
        dpem.PrivateEM(GALLERY["a_global"], **settings, data_quality=False).fit(rows)
    monkeypatch.setitem(globals(), "SEEN", False)
    neighbour = rows.copy()
    neighbour[0] = 0.5
    with replay(first) as second:
        dpem.PrivateEM(GALLERY["a_global"], **settings, data_quality=False).fit(neighbour)
    distances = [a.distance(b) for a, b in zip(first.releases, second.releases, strict=True)]
    assert max(distances) > 10


class Fine(Means):
    """A model with allowed features: constants, pure modules, helpers, inner functions, local containers."""

    half = 0.5
    names = ("x", "y")

    def __init__(self, table):
        self.table = table

    def expected_statistics(self, row, parameters):
        seen = {}

        def weigh(value):
            nonlocal_count = len(seen)
            seen[nonlocal_count] = value
            return math.exp(-value * value) * self.half

        total = [weigh(value) for value in row]
        return np.nan_to_num(row) * np.sum(total) / len(self.names) + self.shifted(row) * 0

    def shifted(self, row):
        return np.asarray(row) - self.table["shift"]

    def m_step(self, statistics, parameters, n_rows, noise):
        self.steps = [*getattr(self, "steps", []), n_rows]  # released numbers may be kept
        return super().m_step(statistics, parameters, n_rows, noise)


def test_valid_models_are_accepted():
    assert dpem.check_model(Fine({"shift": np.zeros(2)}), SCHEMA, 2.0).n_statistics == 2


class Level(enum.Enum):
    LOW = 1.0
    HIGH = 2.0


class Pair(NamedTuple):
    first: float
    second: float


@dataclasses.dataclass(frozen=True)
class Settings:
    power: float = 2.0


SETTINGS = Settings()


@dataclasses.dataclass
class Modern(Means):
    """A model with dataclasses, enums, named tuples, partial functions, and library functions by name."""

    scale: float = 1.0
    powers: tuple[float, ...] = (1.0, 2.0)

    def __post_init__(self):
        self.root = functools.partial(math.pow, 2.0)

    def expected_statistics(self, row, parameters):
        pair = Pair(*concatenate([row[:1], row[1:]]))
        weight = logsumexp([pair.first, pair.second]) * Level.LOW.value * SETTINGS.power
        return where(isnan(row), 0.0, row) * float(weight) * self.root(1.0) * 1e-3

    def m_step(self, statistics, parameters, n_rows, noise):
        LOG.debug("%s", statistics)  # released numbers
        LIST.append(n_rows)
        return super().m_step(statistics, parameters, n_rows, noise)


def test_models_with_modern_python_features_are_accepted():
    assert dpem.check_model(Modern(), SCHEMA, 1.0).n_statistics == 2


def test_a_shipped_model_with_a_replaced_method_does_not_see_blocks():
    """An attribute that replaces a method could see all rows of a block."""
    model = PoissonFamily(1, (999.0,))
    model.features = lambda rows: rows / rows.max()
    assert not clipped_statistic.treats_blocks(model)


def test_shipped_models_are_not_identified_by_name():
    """A class with a faked module, or a subclass of a shipped model, is inspected and called row by row."""
    fake = type("Fake", (PoissonFamily,), {"__module__": "dpem.plugin.product_mixture", "memory": []})
    assert clipped_statistic.treats_blocks(PoissonFamily(2, (9.0,)))
    assert not clipped_statistic.treats_blocks(fake(2, (9.0,)))
    schema = dpem.Schema({"visits": {"kind": "integer", "bounds": [0, 9]}})
    with pytest.raises(InvalidArgumentError, match="class attribute 'memory'"):
        dpem.check_model(fake(2, (9.0,)), schema)
