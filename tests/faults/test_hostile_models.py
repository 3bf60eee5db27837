"""Forged model files are refused with a clear error, quickly and in little memory, and never executed."""

import copy
import pickle
import stat
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from dpem.errors import ModelFileError
from support.estimators import ESTIMATORS
from support.model_files import content, header, load, npy, same, saved, text, write, write_members


def refused(name, path, message="Expected"):
    """Load a file, which must raise `ModelFileError` in a short time and 40 MB."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(ModelFileError, match=message) as caught:
            load(name, path)
        assert time.process_time() - started < 20  # seconds of processor time, not minutes
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 1000


class Trap:
    """Write a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def members(name):
    metadata, arrays = content(name)
    return {"metadata.npy": npy(text(metadata))} | {f"{key}.npy": npy(value) for key, value in arrays.items()}


# -- the form of the file --------------------------------------------------------------------------------


@pytest.mark.parametrize("evil", ["../../evil", "/etc/evil", "a/b", "..\\evil", "C:\\evil", "evil", "evil\0"])
def test_unknown_members_are_refused_and_never_unpacked(evil, tmp_path):
    path = tmp_path / "folder" / "model"
    path.parent.mkdir()
    write_members(path, [*members("KMeans").items(), (f"{evil}.npy", npy(np.zeros(3)))])
    refused("KMeans", path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["model"]
    write_members(path, [*members("PrivateEM").items(), (f"parameter_{evil}.npy", npy(np.zeros(1)))])
    refused("PrivateEM", path)


def test_links_and_duplicate_members_are_refused(tmp_path):
    """Links are not followed, and a second member cannot replace the first one of the same name."""
    link = zipfile.ZipInfo("cluster_centers_.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    rest = {name: member for name, member in members("KMeans").items() if name != link.filename}
    write_members(tmp_path / "link", [*rest.items(), (link, "/etc/passwd")])
    refused("KMeans", tmp_path / "link")
    with pytest.warns(UserWarning, match="Duplicate name"):
        write_members(tmp_path / "double", [*members("KMeans").items(), *members("KMeans").items()])
    refused("KMeans", tmp_path / "double")


def test_pickles_are_never_read(tmp_path):
    """A pickle may be an array of objects, a member, the metadata or the whole file."""
    trap, evil = tmp_path / "executed", tmp_path / "evil"
    objects = np.array([Trap(trap)], dtype=object)
    whole = members("KMeans")
    for name in ("cluster_centers_.npy", "metadata.npy"):
        for member in (npy(objects), pickle.dumps(Trap(trap))):
            write_members(evil, [*(whole | {name: member}).items()])
            refused("KMeans", evil)
    evil.write_bytes(pickle.dumps(Trap(trap)))
    refused("KMeans", evil)
    evil.write_bytes(npy(objects))
    refused("KMeans", evil)
    assert not trap.exists()


@pytest.mark.parametrize(
    "claim",
    [
        header((10**6, 10**6)),
        header((10**12,)),
        header((2**63, 2**63)),
        header((-1, -1)),
        header((-(10**12),)),
        header((3, 3), descr="|O"),
        header((3,), descr="<U1000000000"),
        header((3,), descr=[("a", "<f8", (10**9,))]),
        header((3,), descr="<c16"),
        header((3, 3)),
        header((0,)).replace(b"(0,)", b"[0]*"),
        header((0,)).replace(b"0,", b"0" * 8 + b","),
        b"\x93NUMPY\x09\x00",
        b"",
    ],
)
def test_headers_are_compared_with_the_content(claim, tmp_path):
    """Headers that claim a trillion numbers, objects or text are refused before memory is allocated."""
    for name in ("cluster_centers_.npy", "metadata.npy"):
        write_members(tmp_path / "model", [*(members("KMeans") | {name: claim + bytes(24)}).items()])
        refused("KMeans", tmp_path / "model")


def test_zip_bombs_are_refused_by_their_claimed_size(tmp_path):
    """A small array would unpack to more than the limit, and metadata to half a gigabyte."""
    bomb = header((2**25,)) + bytes(2**28)
    write_members(tmp_path / "array", [*(members("KMeans") | {"cluster_centers_.npy": bomb}).items()])
    del bomb
    refused("KMeans", tmp_path / "array")
    _, arrays = content("KMeans")
    write(tmp_path / "text", "[" + "[]," * 2**23 + "[]]", arrays)
    refused("KMeans", tmp_path / "text")


# -- the metadata ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"format": 1, "model": ' + "9" * 10_000 + "}",
        '{"format": 1, "model": NaN}',
        "not json",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
        "[]",
        "1",
        {"format": 1},
        {"format": [1], "model": "dpem.KMeans"},
        {"format": 1, "model": ["dpem.KMeans"]},
        {"format": 1, "model": "os.system", "parameters": {}},
        {"format": 1, "model": "x" * 10**6, "parameters": {}},
        {"format": 1, "model": "dpem.KMeans", "parameters": []},
    ],
)
def test_invalid_metadata_is_refused(metadata, tmp_path):
    """Invalid metadata is nested too deeply, not finite, of another type, or of an unknown model."""
    write(tmp_path / "model", metadata, content("KMeans")[1])
    refused("KMeans", tmp_path / "model")


def _paths(tree, at=()):
    """Yield the path of every value in a JSON tree."""
    if at:
        yield at
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield from _paths(tree[key], (*at, key))


INFORM = {
    "parameters",
    "n_rows",
    "n_iter",
    "charge",
    "feature_names_in",
    "bounds",
    "bounds_source",
    "name",
    "share",
}
CLAIMS = ("epsilon", "delta", "event", "adjacency", "unit", "accountant", "releases")
HOSTILE = [None, True, -1, 0, 10**40, 1e308, "", "x", [], [[1]], {}, {"event": "composed", "parts": []}]


@pytest.mark.parametrize(
    "name", ["KMeans", "GaussianMixture", "MixedMixture", "PoissonMixture", "paper.KMeans"]
)
def test_every_value_of_the_metadata_is_validated(name, tmp_path):
    """With any value replaced or missing, the file is refused or its claims are unchanged."""
    metadata, arrays = content(name)
    model, path = saved(name)[1], tmp_path / "model"
    for i, at in enumerate(_paths(metadata)):
        changed = copy.deepcopy(metadata)
        inner = changed
        for key in at[:-1]:
            inner = inner[key]
        inner[at[-1]] = HOSTILE[i % len(HOSTILE)]
        write(path, changed, arrays)
        try:
            found = load(name, path)
        except ModelFileError:
            continue
        if found.privacy_.insecure_noise:
            continue  # a statement without privacy claims nothing
        assert all(getattr(found.privacy_, claim) == getattr(model.privacy_, claim) for claim in CLAIMS), at
        assert INFORM & set(at) or same(found, model), at


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("privacy", "epsilon"), 1e-3),
        (("privacy", "delta"), 1e-9),
        (("privacy", "adjacency"), "add_remove"),
        (("privacy", "insecure_noise"), "no"),
        (("privacy", "event"), {"event": "gaussian", "noise_multiplier": 1e9}),
        (("privacy", "unit"), {"rows_per_person": 9, "person": None}),
        (("plan",), None),
        (("plan", "stages"), []),
        (("parameters", "delta"), 1e-9),
        (("parameters", "adjacency"), "add_remove"),
        (("parameters", "rows_per_person"), 7),
        (("parameters", "unknown"), 1),
        (("parameters", "schema"), {"a": {"kind": "continuous", "bounds": [0, 1]}}),
        (("parameters", "n_clusters"), 9),
        (("n_features_in",), 9),
        (("n_features_in",), "3"),
        (("feature_names_in",), ["a"]),
        (("feature_names_in",), "abc"),
        (("n_iter",), -1),
        (("n_rows",), "all"),
        (("charge",), {"ledger": "x", "number": 0, "hash": ""}),
    ],
)
def test_contradictory_claims_are_refused(place, value, tmp_path):
    """The statement is below the plan's cost, or columns, relation or arguments differ."""
    metadata, arrays = content("KMeans")
    inner = metadata
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    write(tmp_path / "model", metadata, arrays)
    refused("KMeans", tmp_path / "model", "intact model")


def test_files_with_too_many_events_are_refused(tmp_path):
    """Accounting for a hundred thousand stages would take minutes; too many categories are refused too."""
    metadata, arrays = content("KMeans")
    stage = metadata["plan"]["stages"][0]
    stages = [
        stage | {"event": {"event": "gaussian", "noise_multiplier": 1000.5 + i / 7}} for i in range(8_000)
    ]
    events = [stage["event"] | {"count": 1} for stage in stages]
    metadata["plan"]["stages"], metadata["privacy"]["event"]["parts"] = stages, events
    write(tmp_path / "model", metadata, arrays)
    refused("KMeans", tmp_path / "model", "at most 1000 stages")
    metadata, arrays = content("MixedMixture")
    ward = metadata["parameters"]["schema"]["ward"]
    ward["categories"] = [str(i) for i in range(50_000)]
    write(tmp_path / "model", metadata, arrays)
    refused("MixedMixture", tmp_path / "model", "intact model")


# -- the arrays ------------------------------------------------------------------------------------------


def changes(array):
    """Yield copies of an array with invalid values, shapes and types."""
    numbers = array.astype(float)
    for value in (np.nan, np.inf, -np.inf):
        changed = numbers.copy()
        changed.flat[-1:] = value
        yield changed
    yield numbers[None]
    yield np.concatenate([numbers.ravel(), [0.5]])
    yield array.astype(np.complex128)
    yield array.astype(np.float32)
    yield array.astype(str)
    yield np.zeros((0,) * max(array.ndim, 1))


OPTIONAL = {"supported"}  # files of earlier versions lack it
HOLES = ("dependence", "misfit", "smoothing")  # may contain NaN; nothing is computed with them


@pytest.mark.parametrize("name", ESTIMATORS)
def test_arrays_of_invalid_shapes_types_and_values(name, tmp_path):
    """Each array in turn is left out, or gets an invalid shape, type or value."""
    metadata, arrays = content(name)
    path = tmp_path / "model"
    for key, array in arrays.items():
        if key not in OPTIONAL:
            write(path, metadata, {other: value for other, value in arrays.items() if other != key})
            with pytest.raises(ModelFileError):
                load(name, path)
        for changed in list(changes(array))[3 if key in HOLES else 0 :]:
            if array.size or changed.shape != array.shape:
                write(path, metadata, arrays | {key: changed})
                with pytest.raises(ModelFileError):
                    load(name, path)


@pytest.mark.parametrize(
    ("name", "key", "change"),
    [
        ("GaussianMixture", "weights_", lambda w: w * 2),
        ("GaussianMixture", "weights_", lambda w: w + np.array([-1.5, 1.5])),
        ("GaussianMixture", "covariances_", lambda c: -c),
        ("GaussianMixture", "covariances_", lambda c: c + 9 * (1 - np.eye(3))),
        ("GaussianMixture", "covariances_", lambda c: np.triu(c) + 2 * np.tril(c, -1)),
        ("GaussianMixture", "covariances_", np.zeros_like),
        ("GaussianMixture", "background_weights", lambda w: w + 1),
        ("GaussianMixture", "standard_error_means", lambda s: -s - 1),
        ("GaussianMixture tied", "covariances_", lambda c: c - 9 * np.eye(3)),
        ("paper.GaussianMixture", "weights_", lambda w: w + np.array([-1.5, 1.5])),
        ("paper.GaussianMixture", "covariances_", lambda c: c + 9 * (1 - np.eye(3))),
        ("FactorAnalysis", "noise_variance_", lambda v: -v),
        ("paper.FactorAnalysis", "noise_variance_", np.zeros_like),
        ("CategoricalMixture", "parameter_probabilities", lambda p: p * 2),
        ("CategoricalMixture", "parameter_weights", lambda w: w + np.array([-1.5, 1.5])),
        ("BernoulliMixture", "parameter_probabilities", lambda p: 1.5 - p),
        ("PoissonMixture", "parameter_means", lambda m: -m),
        ("PoissonMixture", "parameter_means", lambda m: m + 1e9),
        ("MixedMixture", "block_0_weights", lambda w: w * 2),
        ("MixedMixture", "of_level", lambda n: n + 1),
        ("MixedMixture", "level_probabilities", lambda p: -p),
        ("MixedMixture", "smoothing", lambda s: np.array(-1.0)),
    ],
)
def test_invalid_parameters_are_refused(name, key, change, tmp_path):
    """Invalid weights, covariances that are not positive definite and probabilities above 1 are refused."""
    metadata, arrays = content(name)
    write(tmp_path / "model", metadata, arrays | {key: change(arrays[key])})
    refused(name, tmp_path / "model", "intact model")


def test_a_forged_name_does_not_hide_an_array(tmp_path):
    """An array under an unexpected name is refused, not ignored."""
    metadata, arrays = content("MixedMixture")
    write(tmp_path / "model", metadata, arrays | {"block_7_weights": np.ones(1)})
    refused("MixedMixture", tmp_path / "model")
