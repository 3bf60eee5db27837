"""Schemas from JSON and TOML files: valid text, changed text, or no text at all."""

import json

import tomli_w
from hypothesis import strategies as st

from dpem import Schema
from dpem.errors import InvalidArgumentError
from fuzz.harness import Target, scratch
from fuzz.mutations import changed_bytes, changed_trees, each_place, each_shift
from fuzz.schema_declarations import WHOLE, holds

__all__ = ["TARGET"]

_TEXTS = {
    "json": [json.dumps(tree).encode() for tree in WHOLE],
    "toml": [tomli_w.dumps(t).encode() for t in WHOLE],
}
_SYNTAX = [
    "[", "]", "{", "}", "=", ":", ",", '"', "'", "\n", "\\", "\\u", "d800", "#", " ", "é", "\0", "\ufeff",
    "age", "kind", "bounds", "integer", "1", "-", ".5", "e9", "9" * 5000, "nan", "inf", "true", "null",
    "1979-05-27", "07:32:00", "[[", "]]", "[" * 99_000, '{"a":' * 50_000,
]  # fmt: skip
_PIECES = st.lists(st.sampled_from(_SYNTAX), max_size=12)


def _files(drawn):
    """Yield endings and contents."""
    ending, how, what = drawn
    if how == "bytes":
        yield from ((ending, content) for content in each_shift(what))
    elif how == "pieces":
        yield from ((ending, "".join(what[:end]).encode()) for end in range(1, len(what) + 1))
    else:
        for tree in each_place(what):
            try:
                yield ending, (json.dumps(tree) if ending == "json" else tomli_w.dumps(tree)).encode()
            except (TypeError, AttributeError, ValueError):  # TOML has no null and no invalid text
                yield "json", json.dumps(tree).encode()


def check(value):
    """Read a file, or refuse it; what was read survives being saved."""
    ending, content = value
    file = scratch() / f"schema.{ending}"
    file.write_bytes(content)
    try:
        schema = Schema.read(file)
    except InvalidArgumentError as error:
        assert str(error)
        return False
    holds(schema)
    schema.save(file)
    assert Schema.read(file) == schema
    return True


_ENDING = st.sampled_from(["json", "toml"])
TARGET = Target(
    "schema files",
    "JSON and TOML with changed trees and bytes, and pieces of syntax",
    150_000,
    st.tuples(_ENDING, st.just("tree"), changed_trees(WHOLE))
    | st.tuples(st.just("json"), st.just("bytes"), changed_bytes(_TEXTS["json"]))
    | st.tuples(st.just("toml"), st.just("bytes"), changed_bytes(_TEXTS["toml"]))
    | st.tuples(_ENDING, st.just("pieces"), _PIECES),
    _files,
    check,
)
