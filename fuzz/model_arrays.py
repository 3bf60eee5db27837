"""Saved models with arrays of other shapes, types or values, in intact files."""

import numpy as np
from hypothesis import strategies as st

from dpem.estimator import files as persistence
from fuzz.harness import Target, scratch
from fuzz.saved_models import MODELS, loads, parts_of

__all__ = ["TARGET"]

_VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-320, 1e308, -1e308, 1e300, 2.0, 0.5]
_TYPES = ["f2", "f4", ">f8", "i1", "i8", "u1", "?", "c16", "U5", "S3", "M8[s]"]


def _put(array, value, place):
    changed = array.copy()
    if changed.size and array.dtype.kind == "f":
        changed.flat[place % changed.size] = value
    return changed


_CHANGES = {
    "value": _put,
    "all": lambda array, value, place: np.full(array.shape, value),
    "type": lambda array, value, place: array.astype(_TYPES[place % len(_TYPES)]),
    "flat": lambda array, value, place: array.reshape(-1),
    "deep": lambda array, value, place: array[None],
    "turned": lambda array, value, place: array.T,
    "longer": lambda array, value, place: np.concatenate([array, array]) if array.ndim else array[None],
    "shorter": lambda array, value, place: array[:-1] if array.ndim else np.empty(0),
    "empty": lambda array, value, place: array[:0] if array.ndim else np.empty((0, 3)),
    "scalar": lambda array, value, place: np.array(value),
    "gone": lambda array, value, place: None,
}


def _files(drawn):
    """Yield models with the same change in each array, and with one additional array."""
    name, change, value, place = drawn
    arrays = parts_of(name)[1]
    for key, array in arrays.items():
        with np.errstate(all="ignore"):
            changed = _CHANGES[change](array, value, place)
        others = {other: kept for other, kept in arrays.items() if other != key}
        yield name, others if changed is None else others | {key: changed}
    yield name, arrays | {f"{change}_": np.array(value)}


def check(value):
    """Load a file with these arrays."""
    name, arrays = value
    file = scratch() / "changed.model"
    persistence.write_model(file, parts_of(name)[0], arrays)
    return loads(file)


TARGET = Target(
    "model files, arrays",
    "saved models with arrays of other shapes, types and values, removed or added",
    20_000,
    st.tuples(
        st.sampled_from(list(MODELS)),
        st.sampled_from(list(_CHANGES)),
        st.sampled_from(_VALUES),
        st.integers(0, 99),
    ),
    _files,
    check,
)
