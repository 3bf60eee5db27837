"""Saved models of every estimator, and forged files in their format."""

import functools
import io
import json
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np

import dpem
from support.estimators import ESTIMATORS, Mean
from support.sources import mixed_table


@functools.cache
def saved(name):
    """Return the bytes of a saved model, and the model."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        model = ESTIMATORS[name]().fit(mixed_table())
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes(), model


def load(name, path):
    """Load a file with the class of the expected estimator."""
    return dpem.load(path, model=Mean() if name in {"PrivateEM", "paper.GeneralEM"} else None)


def content(name):
    """Return copies of the metadata and arrays of a saved model."""
    with np.load(io.BytesIO(saved(name)[0])) as file:
        arrays = dict(file)
    return json.loads(bytes(arrays.pop("metadata"))), arrays


def text(metadata):
    """Return metadata as the array of a model file; text stays unchanged."""
    written = metadata if isinstance(metadata, str) else json.dumps(metadata)
    return np.frombuffer(written.encode(), np.uint8)


def write(path, metadata, arrays):
    """Write a file of valid format with any content."""
    with path.open("wb") as file:
        np.savez_compressed(file, metadata=text(metadata), **arrays)


def with_metadata(path, other, change):
    """Write a copy of a model file with metadata changed by a function; return its path."""
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(bytes(arrays.pop("metadata")))
    change(metadata)
    write(other, metadata, arrays)
    return other


def npy(array):
    """Return an array as a member of a file."""
    member = io.BytesIO()
    np.save(member, array)
    return member.getvalue()


def header(shape, descr="<f8"):
    """Return the start of a member that claims a shape and a type."""
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": shape})
    return member.getvalue()


def write_members(path, members):
    """Write a zip file of named members; a name may occur several times."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, member in members:
            archive.writestr(name, member)


def same(model, other):
    """Return whether two models are equal to the last bit."""
    arrays, others = model._arrays(), other._arrays()
    return (
        model.get_params(deep=False).keys() == other.get_params(deep=False).keys()
        and json.dumps(model._saved_parameters()) == json.dumps(other._saved_parameters())
        and model.privacy_ == other.privacy_
        and model.plan_ == other.plan_
        and model.charge_ == other.charge_
        and model.n_rows_ == other.n_rows_
        and arrays.keys() == others.keys()
        and all(
            array.dtype == others[key].dtype
            and array.shape == others[key].shape
            and array.tobytes() == others[key].tobytes()
            for key, array in arrays.items()
        )
    )
