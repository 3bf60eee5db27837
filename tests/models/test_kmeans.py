"""Private k-means: exact sums, replays, both neighbouring relations, files, and scikit-learn's checks."""

import dataclasses
import math
import signal
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.exceptions import NotFittedError

import dpem
from dpem import KMeans, Ledger, Schema
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine
from dpem.errors import (
    DeltaWarning,
    InsufficientBudgetError,
    InvalidArgumentError,
    ModelFileError,
    OutputError,
    WeakSignalWarning,
)
from dpem.statistics.simple import RelativeSums
from dpem.testing import Recording, insecure_noise, record, replay
from support.blocks import blocks_of, keep_nothing
from support.scikit_learn import checks

RELATIONS = ["replace_one", "add_remove"]


def blobs(n=3000, d=2, k=3, seed=0, spread=0.05):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1, 1, (k, d)) / math.sqrt(d)
    return centres[rng.integers(k, size=n)] + rng.normal(0, spread, (n, d)), centres


def seeded_fit(X, seed=5, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(seed):
            settings = {"n_clusters": 3, "epsilon": 1.0, "data_norm": 1.0, "random_state": 0} | arguments
            return KMeans(**settings).fit(X)


# -- clusters ------------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_separated_clusters_are_found(d, adjacency):
    """At a comfortable budget the cost is within a tenth of the plain fit, on secure noise."""
    X, _ = blobs(n=20_000, d=d)
    model = KMeans(3, epsilon=2.0, data_norm=1.5, adjacency=adjacency, random_state=0).fit(X)
    plain = PlainKMeans(3, n_init=5, random_state=0).fit(X)
    assert -model.score(X) < 1.1 * plain.inertia_
    assert model.cluster_centers_.shape == (3, d)
    assert (model.standard_errors_["cluster_centers"] > 0).all()
    assert (model.standard_errors_["cluster_centers"] < 0.1).all()


@pytest.mark.all_draws
def test_centres_are_in_the_units_of_the_columns():
    """Shifting and scaling data and bounds shifts and scales the centres."""
    X, _ = blobs()
    base = seeded_fit(X, data_norm=None, bounds=(-2, 2))
    moved = seeded_fit(X * 64 + 1024, data_norm=None, bounds=(-128 + 1024, 128 + 1024))
    np.testing.assert_allclose(moved.cluster_centers_, base.cluster_centers_ * 64 + 1024, rtol=1e-5)
    moved_errors, errors = (m.standard_errors_["cluster_centers"] for m in (moved, base))
    np.testing.assert_allclose(moved_errors, errors * 64, rtol=1e-2)


@pytest.mark.all_draws
def test_standard_errors_agree_with_fresh_noise_in_the_last_step():
    """With all but the last release replayed, centres vary by the stated standard errors."""
    X, _ = blobs(n=5000)
    with record() as transcript:
        model = KMeans(3, epsilon=0.5, data_norm=1.0, random_state=0).fit(X)
    last = transcript.releases[-1]
    stddev = last.sensitivity * last.event.noise_multiplier
    rng = np.random.default_rng(0)
    centres = []
    for _ in range(60):
        noisy = last.raw + rng.normal(0, stddev, last.raw.shape)
        redrawn = [*transcript.releases[:-1], dataclasses.replace(last, noisy=noisy)]
        with replay(Recording(redrawn)):
            centres.append(KMeans(3, epsilon=0.5, data_norm=1.0, random_state=0).fit(X).cluster_centers_)
    ratio = np.std(centres, axis=0).mean() / model.standard_errors_["cluster_centers"].mean()
    assert 0.7 < ratio < 1.4


@pytest.mark.parametrize(
    ("n", "adjacency"), [(0, "add_remove"), *((n, relation) for n in (1, 2, 5, 40) for relation in RELATIONS)]
)
def test_there_are_always_k_finite_centres(n, adjacency):
    """Few rows, or none if their number is private, never raise."""
    X = blobs(n=40)[0][:n]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(7, epsilon=0.1, data_norm=1.0, adjacency=adjacency).fit(X)
    assert model.cluster_centers_.shape == (7, 2)
    assert np.isfinite(model.cluster_centers_).all()
    assert (np.linalg.norm(model.cluster_centers_, axis=1) <= 1 + 1e-9).all()


def test_many_columns_degrade_gracefully():
    """With 500 columns the centres are finite."""
    X = np.random.default_rng(0).normal(0, 0.02, (300, 500))
    with pytest.warns(WeakSignalWarning, match=r"the centre of 'x0' .* and 495 more.*fewer clusters"):
        model = KMeans(4, epsilon=5.0, data_norm=1.0).fit(X)
    assert np.isfinite(model.cluster_centers_).all()


# -- bits ----------------------------------------------------------------------------------------------


@pytest.mark.all_draws
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("d", [2, 5])
def test_the_model_is_independent_of_order_block_size_and_threads(d, adjacency):
    """Sums are exact, so the order of summation does not show in a released model."""
    X, _ = blobs(n=2500, d=d)
    base = seeded_fit(X, adjacency=adjacency, n_jobs=1)
    shuffled = seeded_fit(X[np.random.default_rng(1).permutation(len(X))], adjacency=adjacency, n_jobs=2)
    np.testing.assert_array_equal(shuffled.cluster_centers_, base.cluster_centers_)
    for block_rows in (1, 17, 2499, 2500):
        with blocks_of(block_rows):
            blocked = seeded_fit(X[: 400 if block_rows == 1 else None], adjacency=adjacency)
        expected = seeded_fit(X[:400], adjacency=adjacency) if block_rows == 1 else base
        np.testing.assert_array_equal(blocked.cluster_centers_, expected.cluster_centers_)
        for name, value in blocked.standard_errors_.items():
            np.testing.assert_array_equal(value, expected.standard_errors_[name])


def test_every_kind_of_table_gives_the_same_model():
    """NumPy, pandas and polars give the same model, with the column names."""
    X, _ = blobs(n=1000)
    base = seeded_fit(X)
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        model = seeded_fit(frame)
        np.testing.assert_array_equal(model.cluster_centers_, base.cluster_centers_)
        assert list(model.feature_names_in_) == ["a", "b"]
        assert list(model.predict(frame)) == list(base.predict(X))
    float32 = seeded_fit(X.astype(np.float32))
    np.testing.assert_array_equal(
        float32.cluster_centers_, seeded_fit(X.astype(np.float32).astype(float)).cluster_centers_
    )


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_memory_beyond_the_data_does_not_grow_with_the_rows(kind, monkeypatch):
    """A pass streams blocks: beyond a limited cache of rows, its memory does not depend on their number."""
    keep_nothing(monkeypatch)

    def peak(n):
        rows = (
            np.random.default_rng(0).normal(0, 0.2, (n, 4)).astype(np.float32 if kind == "polars" else float)
        )
        table = {"numpy": np.asarray, "pandas": pd.DataFrame, "polars": pl.DataFrame}[kind](rows)
        domain, query = Domain.from_arguments(4, data_norm=1.0), RelativeSums(np.zeros((3, 4)), 2.0**20, 1.0)
        tracemalloc.start()
        try:
            LocalEngine(1).sum(query, TableRows(table), domain)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)  # imports and caches
    small, large = peak(100_000), peak(400_000)
    assert large < small + 2**18


# -- the ledger and the statement ----------------------------------------------------------------------


def test_ledger_statement_and_plan(tmp_path):
    """A fit is charged once and in full; the statement agrees with the plan; a second fit is refused."""
    X, _ = blobs()
    path = tmp_path / "l"
    ledger = Ledger.create(path, name="x", cap_epsilon=1.0, cap_delta=1e-5)
    model = KMeans(3, epsilon=1.0, bounds=(-1, 1), ledger=path).fit(X)
    charge = ledger.history()[0]
    assert charge.event == model.plan_.event == model.privacy_.event
    assert charge.purpose == "dpem.KMeans.fit"
    assert model.privacy_.epsilon == 1.0
    assert model.privacy_.is_private
    assert "-1 to 1" in str(model.privacy_)
    with pytest.raises(InsufficientBudgetError):
        KMeans(3, epsilon=1.0, bounds=(-1, 1), ledger=ledger).fit(X)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": "1"},
        {"delta": 0},
        {"delta": 1},
        {"adjacency": "swap"},
        {"rows_per_person": 0},
        {"max_iter": 0},
        {"n_jobs": 0},
        {"random_state": "x"},
        {"data_norm": None},
        {"bounds": (0, 1)},
    ],
)
def test_invalid_arguments_spend_nothing(tmp_path, arguments):
    """The error names the argument, and the ledger is not charged."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=9.0, cap_delta=1e-5)
    good = {"n_clusters": 3, "epsilon": 1.0, "data_norm": 1.0, "ledger": ledger}
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        KMeans(**(good | arguments)).fit(blobs()[0])
    assert ledger.history() == []


def test_an_interrupted_fit_stays_charged(tmp_path):
    """After Ctrl-C in the middle of a fit the charge stays, and a note in the traceback says so."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-8)
    program = f"""
import signal
import numpy as np, dpem
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
X = np.random.default_rng(0).normal(size=(3_000_000, 4))
print("ready", flush=True)
budget = {{"epsilon": 1.0, "delta": 1e-8, "ledger": {str(ledger.path)!r}}}
dpem.KMeans(5, data_norm=9.0, max_iter=500, verbose=1, **budget).fit(X)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    assert "centre and scale" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors
    assert "stays charged" in errors
    assert len(ledger.history()) == 1


def test_warnings_from_public_numbers():
    """A weak signal gives a warning with remedies, and so does a delta too large for the number of rows."""
    X, _ = blobs(n=200)
    with pytest.warns(WeakSignalWarning, match=r"epsilon of at least .* or at most \d+ cluster"):
        KMeans(8, epsilon=0.5, data_norm=1.0).fit(X)
    with pytest.warns(WeakSignalWarning, match=r"epsilon of at least \d+, which protects nobody, or"):
        KMeans(100, epsilon=0.5, data_norm=1.0).fit(X)
    with pytest.warns(DeltaWarning, match="number of rows \\(200\\)"):
        KMeans(2, epsilon=5.0, delta=0.01, data_norm=1.0).fit(X)
    before = pytest.warns(DeltaWarning, match="delta=0.01 is large")
    with before, pytest.warns(DeltaWarning, match=r"number of rows \(about \d+\)"):  # of the noisy number
        KMeans(2, epsilon=5.0, delta=0.01, data_norm=1.0, adjacency="add_remove").fit(X)


def test_more_clusters_than_rows_are_refused_before_the_charge(tmp_path):
    """If the number of rows is public; a fit of so many clusters would take very long."""
    X, _ = blobs(n=200)
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=2.0, cap_delta=1e-6)
    for model in (
        KMeans(100_000, epsilon=1.0, data_norm=1.0, ledger=ledger),
        dpem.GaussianMixture(201, epsilon=1.0, data_norm=1.0, ledger=ledger),
    ):
        name = "n_clusters" if isinstance(model, KMeans) else "n_components"
        with pytest.raises(
            InvalidArgumentError, match=rf"{name}=\d+ for n_samples=200\. Choose a smaller {name}"
        ):
            model.fit(X)
    assert ledger.history() == []
    with pytest.raises(InvalidArgumentError, match="n_clusters=201 for n_samples=200"):
        dpem.plan(KMeans(201, epsilon=1.0, data_norm=1.0), 200, columns=2)
    for delta, kind in ((0.5, InvalidArgumentError), (0.005, DeltaWarning)):
        model = KMeans(2, epsilon=5.0, delta=delta, data_norm=1.0, adjacency="add_remove", ledger=ledger)
        with pytest.raises(kind, match="publish the row of a person"):
            model.fit(X)
    assert ledger.history() == []


def test_the_number_of_rows_stays_private(tmp_path):
    """With add_remove a replayed fit of fewer rows gives the same model, plan, statement and file."""
    X, _ = blobs(n=3000)
    arguments = {"epsilon": 1.0, "data_norm": 1.0, "adjacency": "add_remove", "random_state": 0}
    with record() as transcript:
        model = KMeans(3, **arguments).fit(X)
    with replay(transcript):
        fewer = KMeans(3, **arguments).fit(X[:1234])
    assert vars(model).keys() == vars(fewer).keys()
    model.save(tmp_path / "a")
    fewer.save(tmp_path / "b")
    with np.load(tmp_path / "a") as one, np.load(tmp_path / "b") as two:
        assert one.files == two.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_a_callers_floating_point_settings_do_not_reveal_rows(adjacency):
    """Denormal, huge and invalid rows never raise or warn, whatever NumPy's error settings."""
    X = blobs(n=200)[0]
    X[0], X[1], X[2], X[3] = [1e-200, 0], [1e308, -1e308], [np.nan, 0], [5e-324, 5e-324]
    model = KMeans(2, epsilon=5.0, delta=1e-6, data_norm=1.0, adjacency=adjacency)
    with np.errstate(all="raise", under="raise"):
        model.fit(X)
    if np.finfo(np.longdouble).max > np.finfo(float).max:
        wide = X.astype(np.longdouble)
        wide[4, 0] = np.longdouble("1e400")
        model.fit(wide)
    assert np.isfinite(model.cluster_centers_).all()


# -- epsilon = inf -------------------------------------------------------------------------------------


def test_infinite_epsilon_gives_a_non_private_fit(tmp_path):
    """The fit equals scikit-learn's, is marked as not private, and refuses a ledger."""
    X, _ = blobs()
    model = KMeans(3, epsilon=math.inf, data_norm=2.0, random_state=0).fit(X)
    plain = PlainKMeans(3, n_init=10, random_state=0).fit(X)
    assert -model.score(X) == pytest.approx(plain.inertia_, rel=1e-6)
    assert not model.privacy_.is_private
    assert str(model.privacy_).startswith("NOT PRIVATE")
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    with pytest.raises(InvalidArgumentError, match="finite epsilon with a ledger"):
        KMeans(3, epsilon=math.inf, data_norm=1.0, ledger=ledger).fit(X)
    model.save(tmp_path / "m")
    assert dpem.load(tmp_path / "m").privacy_ == model.privacy_


# -- files ---------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    """All released values are restored and predictions agree; the file has no rows and no pickle."""
    frame = pd.DataFrame(blobs()[0], columns=["x", "y"])
    schema = Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in frame})
    model = KMeans(3, epsilon=1.0, schema=schema).fit(frame)
    model.save(tmp_path / "model.dpem")
    again = dpem.load(tmp_path / "model.dpem")
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.privacy_ == model.privacy_
    assert again.plan_ == model.plan_
    assert again.schema == schema
    assert again.n_iter_ == model.n_iter_
    assert [file.name for file in tmp_path.iterdir()] == ["model.dpem"]


def test_damaged_files_are_refused(tmp_path):
    """Missing, foreign, truncated and forged files raise; a forged statement is detected."""
    path = tmp_path / "m"
    KMeans(2, epsilon=1.0, data_norm=1.0).fit(blobs()[0]).save(path)
    content = path.read_bytes()
    np.save(tmp_path / "array.npy", np.zeros(3))
    flipped = bytearray(content)
    flipped[len(content) // 3] ^= 0xFF
    broken = {"array": (tmp_path / "array.npy").read_bytes(), "flipped": bytes(flipped)}
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelFileError):
            dpem.load(tmp_path / name)
    for name, data in {"text": b"hello", "cut": content[: len(content) // 2], "empty": b""}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelFileError, match="Expected a model saved by dpem"):
            dpem.load(tmp_path / name)
    with pytest.raises(ModelFileError, match="does not exist"):
        dpem.load(tmp_path / "missing")
    with np.load(path) as file:
        arrays = dict(file)
    metadata = bytes(arrays["metadata"])
    for before, after, message in (
        (b'"epsilon": 1.0', b'"epsilon": 0.1', "Expected an epsilon of at least"),
        (b'"model": "dpem.KMeans"', b'"model": "dpem.Other"', "this version of dpem knows"),
        (b'"format": 1,', b'"format": 9,', "model format 1"),
        (b'"n_features_in"', b'"n_features"', "Something is missing"),
    ):
        assert before in metadata
        arrays["metadata"] = np.frombuffer(metadata.replace(before, after), np.uint8)
        np.savez(tmp_path / "forged.npz", **arrays)
        with pytest.raises(ModelFileError, match=message):
            dpem.load(tmp_path / "forged.npz")


def test_saving_into_a_missing_folder_is_an_error(tmp_path):
    model = KMeans(2, epsilon=1.0, data_norm=1.0).fit(blobs()[0])
    with pytest.raises(OutputError, match="folder that can be written"):
        model.save(tmp_path / "no" / "m")


# -- predict -------------------------------------------------------------------------------------------


def test_predict_transform_score():
    """Results agree with scikit-learn for the same centres, and invalid rows raise."""
    X, _ = blobs()
    model = KMeans(3, epsilon=1.0, data_norm=1.0).fit(X)
    plain = PlainKMeans(3, n_init=1, init=model.cluster_centers_, max_iter=1).fit(X)
    plain.cluster_centers_ = model.cluster_centers_
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_allclose(model.transform(X), plain.transform(X))
    assert model.score(X) == pytest.approx(plain.score(X))
    with pytest.raises(InvalidArgumentError, match="NaN or infinity"):
        model.predict([[np.nan, 0.0]])
    with pytest.raises(InvalidArgumentError, match="3 features, but KMeans is expecting 2"):
        model.predict(np.zeros((2, 3)))
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")
    assert not hasattr(model, "fit_predict")


def test_there_are_no_sample_weights():
    """Weights would change the sensitivity, so fit has no such argument."""
    with pytest.raises(TypeError, match="sample_weight"):
        KMeans(2, epsilon=1.0, data_norm=1.0).fit(blobs()[0], sample_weight=np.ones(3000))


def test_html_shows_the_statement():
    """The view in notebooks ends with the guarantee."""
    model = KMeans(2, epsilon=1.0, data_norm=1.0)
    assert "Privacy." not in model._repr_html_()
    assert "differentially private" in model.fit(blobs()[0])._repr_html_()


def test_verbose_prints_public_facts(capfd):
    """Progress prints the names of steps on standard error."""
    KMeans(2, epsilon=1.0, data_norm=1.0, verbose=1).fit(blobs()[0])
    assert "[KMeans] lloyd 5 of 5" in capfd.readouterr().err


def test_set_output():
    """scikit-learn's option for DataFrame output works."""
    X, _ = blobs()
    frame = KMeans(3, epsilon=1.0, data_norm=1.0).set_output(transform="pandas").fit(X).transform(X)
    assert list(frame.columns) == ["kmeans0", "kmeans1", "kmeans2"]


def test_scores_are_precise_far_from_zero():
    """Values such as epoch seconds are near a billion, with distances near one."""
    X, centres = blobs(n=500)
    shifted = dpem.nicv(X + 2.0**30, centres + 2.0**30)
    assert shifted == pytest.approx(dpem.nicv(X, centres), rel=1e-4)


def test_a_schema_selects_columns_also_for_predict():
    """Additional columns and another order do not matter."""
    frame = pd.DataFrame(blobs()[0], columns=["x", "y"])
    schema = Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in frame})
    more = frame.assign(name="text")
    model = KMeans(3, epsilon=1.0, schema=schema).fit(more)
    np.testing.assert_array_equal(model.predict(more[["name", "y", "x"]]), model.predict(frame))
    with pytest.raises(InvalidArgumentError, match=r"dpem\.Schema"):
        KMeans(3, epsilon=1.0, schema=schema.to_dict()).fit(frame)


def test_a_refused_fit_leaves_no_half_fitted_model(tmp_path):
    """An estimator that was not fitted stays so, and an earlier fit stays unchanged."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    model = KMeans(3, epsilon=5.0, data_norm=1.0, ledger=ledger)
    with pytest.raises(InsufficientBudgetError):
        model.fit(blobs()[0])
    with pytest.raises(NotFittedError):
        model.predict(blobs()[0])
    model.set_params(epsilon=1.0).fit(blobs()[0])
    with pytest.raises(InsufficientBudgetError):
        model.fit(blobs(d=3)[0])
    assert model.n_features_in_ == 2
    assert len(model.predict(blobs()[0])) == 3000


def test_clone_keeps_arguments():
    model = KMeans(2, epsilon=1.0, data_norm=1.0, adjacency="add_remove")
    assert clone(model).get_params() == model.get_params()


# -- scikit-learn's own checks ---------------------------------------------------------------------------


class SeededKMeans(KMeans):
    """Repeat the noise, because scikit-learn's checks compare two fits of the same rows."""

    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


EXPECTED_FAILURES = {
    "check_dtype_object": "types are never inferred from cells: object arrays are refused by type",
    "check_estimators_nan_inf": "fit never raises because of private values: such rows count as the centre",
}


@pytest.mark.parametrize(
    ("estimator", "check"), list(checks(SeededKMeans(2, epsilon=10.0, data_norm=100.0), EXPECTED_FAILURES))
)
@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_scikit_learn_checks(estimator, check):
    """Every check passes, or fails for a documented privacy reason."""
    check(estimator)
