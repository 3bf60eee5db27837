"""Wrong plug-in models: they cost no privacy, and the check detects most of them."""

import functools
import math
import operator
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpem
from dpem import ExponentialFamily, PrivateEM, Schema
from dpem.data import TableGrid
from dpem.errors import InvalidArgumentError, NoLedgerWarning
from dpem.plugin import clipped as clipped_statistic
from dpem.plugin.clipped import ClippedStatistic, EncodedRows, read_only
from dpem.testing import record, replay

RELATIONS = ["replace_one", "add_remove"]
SCHEMA = Schema(
    {
        "x": {"kind": "continuous", "bounds": [-1, 1]},
        "y": {"kind": "continuous", "bounds": [-1, 1], "missing": True},
    }
)


class Means(ExponentialFamily):
    """A valid model, the means of two columns, from which wrong models are derived."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row)

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": np.clip(statistics / n_rows, -1, 1)}

    def log_density(self, row, parameters):
        return -0.5 * float(np.nansum((row - parameters["mean"]) ** 2))

    def sample(self, n, parameters, random_state):
        return parameters["mean"] + random_state.normal(size=(n, 2))


def rare(row):
    """Return whether a wrong model fails on a row, which no generated row of the check is."""
    return 0.7310 < row[0] < 0.7314


# -- models that pass the check and are wrong on some rows -------------------------------------------------


class Huge(Means):
    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row) * (1e300 if rare(row) else 1)


class Lying(Means):
    """A model that falsely promises nonnegative entries."""

    nonnegative = True

    def expected_statistics(self, row, parameters):
        return np.abs(np.nan_to_num(row)) if not rare(row) else np.array([-5.0, -5.0])


class TurningCoat(Means):
    """A model that promises nonnegative entries for the cost, but not for the sums."""

    asked = 0

    @property
    def nonnegative(self):
        TurningCoat.asked += 1
        return TurningCoat.asked < 6

    def expected_statistics(self, row, parameters):
        return np.abs(np.nan_to_num(row)) if not rare(row) else np.array([-5.0, -5.0])


class Failing(Means):
    def expected_statistics(self, row, parameters):
        if rare(row):
            raise RuntimeError(f"secret {row}")
        return np.nan_to_num(row)


class Chatty(Means):
    def expected_statistics(self, row, parameters):
        if rare(row):
            warnings.warn(f"secret {row}", UserWarning, stacklevel=1)
        return np.nan_to_num(row) / (row[0] - row[0] if rare(row) else 1)


class Shapeless(Means):
    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row) if not rare(row) else "secret"


class Longer(Means):
    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row) if not rare(row) else np.ones(500)


class NotANumber(Means):
    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row) if not rare(row) else np.array([np.nan, np.inf])


class Remembering(Means):
    """A model that remembers rows after a rare one, and adds them to the vectors of later rows."""

    def __init__(self):
        self.seen = []

    def expected_statistics(self, row, parameters):
        if rare(row):
            self.seen.append(row.copy())
        return np.nan_to_num(row) + 100 * len(self.seen)


class Meddling(Means):
    """A model that tries to write to its parameters and to the row."""

    def expected_statistics(self, row, parameters):
        if rare(row):
            for write in (
                lambda: operator.setitem(parameters["mean"], 0, 99.0),
                lambda: np.copyto(parameters["mean"], 99.0),
                lambda: operator.setitem(parameters, "mean", np.full(2, 99.0)),
            ):
                try:
                    write()
                except (AttributeError, TypeError, ValueError):
                    continue
                raise AssertionError("the parameters were written to")
            row[:] = 99.0
        return np.nan_to_num(np.clip(row, -1, 1))


GALLERY = [
    Means,
    Huge,
    Lying,
    TurningCoat,
    Failing,
    Chatty,
    Shapeless,
    Longer,
    NotANumber,
    Remembering,
    Meddling,
]
CANARIES = [
    [1.0, 1.0],
    [1.0, -1.0],
    [-1.0, -1.0],
    [0.99, np.nan],
    [np.nan, np.nan],
    [np.inf, 0.0],
    [0.0, 0.0],
]


@contextmanager
def not_refused():
    """Skip the inspection of code, so that the other protections are tested alone."""
    with (
        patch("dpem.plugin.checks.refuse_memory"),
        patch("dpem.plugin.fit.refuse_memory"),
    ):
        yield


def furthest(model_class, adjacency, **arguments):
    """Replay a recorded fit on neighbouring tables; return the largest change over the sensitivity."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.9, 0.9, (60, 2))
    rows[5] = [0.7312, 0.5]
    rows[30] = [0.7311, -0.5]
    settings = {"epsilon": 3.0, "delta": 1e-3, "schema": SCHEMA, "clip_norm": 1.0, "max_iter": 2}
    settings |= {"adjacency": adjacency, "random_state": 0} | arguments
    largest = 0.0
    with record() as first, not_refused():
        TurningCoat.asked = 0
        model = PrivateEM(model_class(), **settings).fit(rows)
    for canary in CANARIES:
        row = np.array([canary])
        neighbours = [np.concatenate([row, rows[1:]]), np.concatenate([rows[:5], row, rows[6:]])]
        if adjacency == "add_remove":
            neighbours = [np.concatenate([row, rows]), rows[1:], np.delete(rows, 5, axis=0)]
        for neighbour in neighbours:
            TurningCoat.asked = 0
            with replay(first) as second, not_refused():
                again = PrivateEM(model_class(), **settings).fit(neighbour)
            np.testing.assert_array_equal(model.parameters_["mean"], again.parameters_["mean"])
            for a, b in zip(first.releases, second.releases, strict=True):
                largest = max(largest, a.distance(b))
    return largest


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("model_class", GALLERY)
def test_no_wrong_model_costs_privacy(model_class, adjacency, capfd):
    """Whatever a model does with a row, nothing is raised, printed or warned, and sensitivities hold."""
    assert furthest(model_class, adjacency) <= 1
    printed = capfd.readouterr()
    assert "secret" not in printed.out + printed.err


def test_the_replay_detects_a_shared_memory(monkeypatch):
    """With one model for all rows instead of copies, the model that remembers exceeds the sensitivity."""
    monkeypatch.setattr(clipped_statistic.copy, "deepcopy", lambda model: model)
    with pytest.raises((AssertionError, InvalidArgumentError)):
        assert furthest(Remembering, "add_remove") <= 1


def test_the_replay_detects_missing_clipping(monkeypatch):
    """Without clipping, a huge vector exceeds the sensitivity."""

    def uncut(vectors, norm, unit, largest, *, nonnegative):
        return np.rint(np.clip(vectors, -100, 100) * unit)

    monkeypatch.setattr(clipped_statistic, "_bounded", uncut)
    assert furthest(Huge, "add_remove") > 1


def test_the_promise_of_nonnegative_entries_is_enforced():
    """With nonnegative=True, replacing a row costs sqrt 2 C, and negative entries are set to zero."""
    grid = TableGrid(SCHEMA)
    for model, cone in ((Means(), False), (Lying(), True)):
        statistic = ClippedStatistic(model, read_only({"mean": np.zeros(2)}), grid, 2, 3.0, cone)
        factor = math.sqrt(2) if cone else 2.0
        assert statistic.sensitivity("replace_one") == pytest.approx(factor * 2**20)
        assert statistic.sensitivity("add_remove") == 2.0**20
        rows = grid.to_grid(np.array([[0.7312, -1.0, 0.5], [0.0, -1.0, 0.5]]))
        if cone:
            assert (statistic.sum_block(rows[:, [0]]) == 0).all()
            assert (statistic.sum_block(rows) >= 0).all()


@given(
    size=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-300, 1e-9, 0.1, 1.0, 7.0, 1e200, 1e308]),
    norm=st.sampled_from([1e-90, 0.01, 1.0, 1e50]),
    cone=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_every_vector_is_clipped(size, seed, scale, norm, cone):
    """For vectors of any size, integer norms are at most 2^20, and distances at most the sensitivity."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        vectors = rng.normal(size=(size, 30)) * scale * rng.choice([0.0, 1.0, 1e-3], size=(1, 30))
    vectors[:, :4] = [[np.nan, np.inf, -np.inf, norm]] * size
    with np.errstate(all="ignore"):
        cut = clipped_statistic._bounded(
            vectors, norm, clipped_statistic.unit_scale(size, 20), 2.0**20, nonnegative=cone
        )
    assert ((cut**2).sum(axis=0) <= 4.0**20).all()
    if cone:
        assert (cut >= 0).all()
    gaps = np.sqrt(((cut[:, :, None] - cut[:, None, :]) ** 2).sum(axis=0))
    assert gaps.max() <= (math.sqrt(2) if cone else 2.0) * 2.0**20 * (1 + 1e-12)
    if not cone and norm < 1e40 and scale < 1e100:
        within = np.sqrt((np.nan_to_num(vectors, posinf=0, neginf=0) ** 2).sum(axis=0)) < norm
        fine = within & np.isfinite(vectors).all(axis=0)
        unit = clipped_statistic.unit_scale(size, 20)
        np.testing.assert_allclose(cut[:, fine] / unit * norm, vectors[:, fine], atol=norm * 1e-6)


def test_encoded_rows_are_clipped_to_the_ball():
    class Wild(Means):
        def encode(self, row, schema):
            return np.array([row[0] * 1e9, 0.5, np.nan_to_num(row[1])]) if row[0] > 0 else np.zeros(3)

    grid = TableGrid(SCHEMA)
    encode = EncodedRows(Wild(), grid, 3)
    rows = grid.to_grid(np.random.default_rng(0).uniform(-1, 1, (2, 50)))
    encoded = encode(rows)
    assert ((encoded**2).sum(axis=0) <= 4.0**24).all()
    np.testing.assert_array_equal(encoded, np.rint(encoded))
    each = np.concatenate([encode(rows[:, [i]]) for i in range(50)], axis=1)
    np.testing.assert_array_equal(encoded, each)


def test_only_models_of_the_package_see_blocks():
    """A user's subclass of a block model is called row by row."""
    from dpem.plugin.product_mixture import PoissonFamily

    class Mine(PoissonFamily):
        def statistics_of_rows(self, rows, parameters):
            assert rows.shape[1] == 1
            return super().statistics_of_rows(rows, parameters)

    assert clipped_statistic.treats_blocks(PoissonFamily(2, (9.0,)))
    assert not clipped_statistic.treats_blocks(Mine(2, (9.0,)))


# -- the check -------------------------------------------------------------------------------------------


def changed(**methods):
    return type("Changed", (Means,), methods)()


class Uncopyable(Means):
    def __deepcopy__(self, memo):
        raise TypeError("no")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (changed(start=lambda *_: 3), "dict of numbers or arrays from Changed.start"),
        (changed(start=lambda *_: {}), "finite parameters from Changed.start"),
        (changed(start=lambda *_: {"mean": np.nan}), "finite parameters from Changed.start"),
        (changed(expected_statistics=lambda s, r, p: "x"), "finite numbers from Changed.expected_statistics"),
        (changed(expected_statistics=lambda s, r, p: [[1.0]]), "a vector of finite numbers from Changed"),
        (changed(expected_statistics=lambda s, r, p: r), "vector of finite numbers.*generated row"),
        (changed(expected_statistics=lambda s, r, p: np.ones(1 + int(r[0] > 0))), "vectors of one length"),
        (changed(expected_statistics=lambda s, r, p: r.fill(1.0) or r), "leave its argument row unchanged"),
        (
            changed(expected_statistics=lambda s, r, p: np.random.default_rng().uniform(size=2)),
            "keeps nothing between rows, got Changed with numpy.random",
        ),
        (changed(m_step=lambda s, t, p, n, e: {"mean": [np.inf, 0]}), "finite parameters from Changed.m"),
        (changed(m_step=lambda s, t, p, n, e: {"mean": 1.0}), "parameters of shapes"),
        (changed(norm_bound=lambda s, schema: 0.01), "norm_bound=0.01 from Changed.expected_statistics"),
        (changed(norm_bound=lambda s, schema: -1), "norm_bound"),
        (changed(nonnegative=True), "no negative entry"),
        (changed(nonnegative="yes"), "True or False for Changed.nonnegative"),
        (changed(encode=lambda s, r, schema: [np.nan]), "finite numbers from Changed.encode"),
        (Uncopyable(), "copied for every row"),
        (changed(norm_bound=lambda s, schema: np.nan), "norm_bound"),
    ],
)
def test_mistakes_are_found_before_the_charge(model, message, tmp_path):
    """The check on generated rows finds them; errors name the method, and the ledger is not charged."""
    ledger = dpem.Ledger.create(tmp_path / "l.db", name="t", cap_epsilon=1.0, cap_delta=1e-3)
    clip = None if message.startswith("norm_bound") else 1.0
    with pytest.raises(InvalidArgumentError, match=message):
        PrivateEM(model, epsilon=0.5, delta=1e-4, schema=SCHEMA, clip_norm=clip, ledger=ledger).fit(
            np.zeros((50, 2))
        )
    assert ledger.history() == []


CACHE = {}


def remembered(row):
    return CACHE.setdefault(row[0], np.nan_to_num(row))


@functools.lru_cache
def cached_root(x):
    return np.sqrt(x)


def memories():
    """Yield models that, by mistake, keep information from a row outside the copied state."""

    def in_class():
        return changed(seen={})

    def in_default():
        def expected(self, row, parameters, seen=[]):  # noqa: B006
            return np.nan_to_num(row)

        return changed(expected_statistics=expected)

    def in_closure():
        seen = {}
        return changed(expected_statistics=lambda self, row, p: seen.setdefault(row[0], np.nan_to_num(row)))

    def in_module():
        return changed(expected_statistics=lambda self, row, p: CACHE.setdefault(row[0], np.nan_to_num(row)))

    def in_a_helper():
        return changed(expected_statistics=lambda self, row, p: remembered(row))

    def in_cache():
        return changed(expected_statistics=lambda self, row, p: np.nan_to_num(row) + 0 * cached_root(1.0))

    def in_cached_method():
        return changed(help=functools.lru_cache(lambda self, x: x))

    def in_copies():
        return changed(__deepcopy__=lambda self, memo: self)

    def in_functions():
        seen = []
        return ExponentialFamily.from_functions(
            start=lambda schema, random_state, centres: {"mean": np.zeros(2)},
            expected_statistics=lambda row, parameters: seen.append(row) or np.nan_to_num(row),
            m_step=lambda statistics, parameters, n_rows, noise: {"mean": statistics / n_rows},
        )

    def in_an_object():
        class Shared:
            def __deepcopy__(self, memo):
                return self

        model = changed()
        model.shared = Shared()
        return model

    return [value for name, value in locals().items() if name.startswith("in_")]


@pytest.mark.parametrize("make", memories(), ids=lambda make: make.__name__)
def test_models_that_could_remember_are_refused(make):
    with pytest.raises(InvalidArgumentError, match=r"keeps nothing between rows.*attribute of the model"):
        dpem.check_model(make(), SCHEMA, 1.0)


def test_models_that_use_immutable_objects_are_accepted():
    """Numbers, read-only arrays, functions, modules and cached properties are not a memory."""
    table = np.arange(3.0)
    table.setflags(write=False)
    scale, name = 2.0, "x"

    def helper(row, factor=1.0):
        return np.nan_to_num(row) * factor * table[0] + scale * 0 + len(name) * 0

    model = changed(
        expected_statistics=lambda self, row, p: helper(row),
        levels=(1, 2, ("a", None)),
        half=property(lambda self: 0.5),
        later=functools.cached_property(lambda self: 1),
        static=staticmethod(lambda x: x),
    )
    model.own = {"seen": []}
    assert dpem.check_model(model, SCHEMA, 1.0).n_statistics == 2


def test_warnings_and_settings_of_a_model_are_contained():
    """In many threads, models print nothing, filters stay unchanged, and NumPy settings last for one row."""

    class Setting(Means):
        def expected_statistics(self, row, parameters):
            np.seterr(all="raise")
            warnings.warn("secret", UserWarning, stacklevel=1)
            return np.nan_to_num(row) * (1e-200 if rare(row) else 1.0)

    heard = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", NoLedgerWarning)
        warnings.showwarning = lambda message, *rest: heard.append(str(message))
        rows = np.random.default_rng(0).uniform(-0.9, 0.9, (300, 2))
        rows[7, 0] = 0.7312

        def fit(_):
            model = PrivateEM(Setting(), epsilon=2.0, delta=1e-4, schema=SCHEMA, clip_norm=1.0, max_iter=3)
            return model.fit(rows).parameters_["mean"]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(fit, range(4)))
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert heard == ["mine"]
    assert np.isfinite(found).all()
    assert np.geterr()["over"] != "raise"


class Leaving(Means):
    def expected_statistics(self, row, parameters):
        if rare(row):
            raise SystemExit(f"secret {row}")
        return np.nan_to_num(row)


def test_system_exit_is_contained():
    assert furthest(Leaving, "add_remove") <= 1


def test_exceptions_on_generated_rows_are_not_silenced():
    """Generated rows are not private, so the traceback is shown."""

    def wrong(self, row, parameters):
        return row[7]

    with pytest.raises(IndexError):
        dpem.check_model(changed(expected_statistics=wrong), SCHEMA, 1.0)


def test_a_norm_is_needed():
    with pytest.raises(InvalidArgumentError, match="Declare clip_norm=C"):
        PrivateEM(Means(), epsilon=1.0, schema=SCHEMA).fit(np.zeros((50, 2)))
    shape = dpem.check_model(Means(), SCHEMA, 2.0)
    assert (shape.n_statistics, shape.norm, shape.nonnegative) == (2, 2.0, False)
    proved = changed(norm_bound=lambda s, schema: 1.5)
    assert dpem.check_model(proved, SCHEMA).norm == 1.5
    assert dpem.check_model(proved, SCHEMA, 9.0).norm == 1.5  # a larger clip_norm has no effect
    assert dpem.check_model(proved, SCHEMA, 0.5).norm == 0.5
