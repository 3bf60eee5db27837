"""Saved models with changed bytes: either a model is loaded, or an error is raised."""

from hypothesis import strategies as st

from fuzz.harness import Target, scratch
from fuzz.mutations import changed_bytes, each_shift
from fuzz.saved_models import MODELS, content_of, loads

__all__ = ["TARGET"]


def _files(drawn):
    name, changes = drawn
    return each_shift((content_of(name), changes[1]))


def check(content):
    """Load a changed file."""
    file = scratch() / "changed.model"
    file.write_bytes(content)
    return loads(file)


TARGET = Target(
    "model files, bytes",
    "saved models of seven estimators with bytes flipped, set, inserted and cut",
    20_000,
    st.tuples(st.sampled_from(list(MODELS)), changed_bytes([b""])),
    _files,
    check,
)
