"""Saved models with changed metadata, in intact files."""

from hypothesis import strategies as st

from dpem.estimator import files as persistence
from fuzz.harness import Target, scratch
from fuzz.mutations import JUNK, changed_trees, each_place
from fuzz.saved_models import MODELS, loads, parts_of

__all__ = ["TARGET"]


def _changed(name):
    metadata = parts_of(name)[0]
    return st.tuples(st.just(name), changed_trees([metadata], JUNK.filter(_is_json)))


def _is_json(value):
    return value == value and value not in (float("inf"), float("-inf"))  # noqa: PLR0124


def _files(drawn):
    name, change = drawn
    return ((name, tree) for tree in each_place(change))


def check(value):
    """Load a file with this metadata."""
    name, metadata = value
    file = scratch() / "changed.model"
    if not isinstance(metadata, dict):
        metadata = {"format": 1, "model": metadata}
    persistence.write_model(file, metadata, parts_of(name)[1])
    return loads(file)


TARGET = Target(
    "model files, metadata",
    "saved models with one place of the metadata replaced, removed, nested or repeated",
    25_000,
    st.sampled_from(list(MODELS)).flatmap(_changed),
    _files,
    check,
)
