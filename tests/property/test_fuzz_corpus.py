"""Inputs that once failed, or almost: each runs through the check of its fuzz target."""

import json
from decimal import Decimal

import numpy as np
import pytest

from fuzz import ledger_files, resume_files
from fuzz.csv_records import Options
from fuzz.harness import checked
from fuzz.targets import TARGETS

_CATEGORIES = {"kind": "categorical", "categories": ["a", "b"]}
_NUMBER = {"kind": "integer", "bounds": [0, 1]}
_GAUSSIAN = {"event": "gaussian", "noise_multiplier": 4.0}
_HEAD = ("age", "dose", "sex")


def _nested(times, count=1):
    event = _GAUSSIAN
    for _ in range(times):
        event = {"event": "composed", "parts": [{**event, "count": count}]}
    return event


def _ledger(old, new):
    whole = ledger_files._whole()[0]
    assert old in whole
    return whole.replace(old, new)


def _resume_file(old, new):
    whole = resume_files._whole()[0]
    assert old in whole
    return whole.replace(old, new)


REFUSED = [
    ("schema declarations", np.array([0, 1])),
    ("schema declarations", {"x": _CATEGORIES | {"categories": [Decimal(1), "a"]}}),
    ("schema declarations", {"x": _CATEGORIES | {"categories": [Decimal("nan"), "a"]}}),
    ("schema declarations", {"x": _CATEGORIES | {"categories": [b"\xff", "a"]}}),
    ("schema declarations", {"x": _CATEGORIES | {"categories": [10**400, 1]}}),
    ("schema declarations", {"x": _CATEGORIES | {"categories": ["\ud800", "a"]}}),
    ("schema declarations", {"x": _CATEGORIES | {"outside": 10**400}}),
    ("schema declarations", {"x": _CATEGORIES | {"outside": b"\xff"}}),
    ("schema declarations", {"x": _NUMBER | {"outside": np.array([0, 1])}}),
    ("schema declarations", {"x": _NUMBER | {"missing": -(10**5000)}}),
    ("schema declarations", {"x": _NUMBER | {10**5000: 1}}),
    ("schema declarations", {10**5000: _NUMBER}),
    ("schema files", ("json", b"[" * 100_000)),
    ("schema files", ("toml", b"x = " + b"[" * 100_000)),
    ("schema files", ("json", b"9" * 5000)),
    ("schema files", ("json", json.dumps({"x": _CATEGORIES | {"categories": [10**400, 1]}}).encode())),
    ("schema files", ("json", b'{"x": {"kind": "ordered", "categories": ["\\ud800", "a"]}}')),
    ("events", {"event": "composed", "parts": 3}),
    ("events", {"event": "composed", "parts": [_GAUSSIAN]}),
    ("events", {"event": "composed", "parts": "composed"}),
    ("events", _nested(33)),
    ("events", _nested(400)),
    ("events", _nested(3, 10**9)),
    ("statements", "9" * 5000),
    ("statements", "[" * 100_000),
    ("statements", '{"format": 1, "event": ' + json.dumps(_nested(300)) + "}"),
]
ACCEPTED = [
    ("schema declarations", {"x": {"kind": "ordered", "categories": [1, True], "outside": True}}),
    (
        "schema declarations",
        {"x": {"kind": "ordered", "categories": ["a", "b", "other"], "outside": "other"}},
    ),
    ("schema declarations", {"x": _CATEGORIES | {"categories": [np.float32(2), np.str_("a")]}}),
    ("events", _nested(32)),
    ("events", _nested(2, 10**9)),
    # A line that is no row and no text either: Arrow decodes it before it asks what to do with it.
    ("CSV records", (_HEAD, (("1", "1", "F"), ("\udcff",)), 0, ("\udcff", "x"), Options())),
    ("CSV records", (_HEAD, (("1", "1", "F"), ("\udcff",)), 0, ("\udcff", "x"), Options(block=7))),
    (
        "CSV records",
        (_HEAD, (("é" * 9, "\udcc3", "F"), ("1", "1", "M")), 0, ("1", "2", "\r"), Options(block=7)),
    ),
    ("CSV records", (_HEAD, ((), ("1", "1", "F")), 0, ("\ufeff1", "1", "F"), Options(named=False))),
    ("CSV records", (("dose",), ((), ("",), ("1",)), 1, ("\n",), Options(dialect=1, packed=True))),
    # A block that ends within a letter, behind an empty line; a NUL behind a line longer than a block.
    (
        "CSV records",
        (("dose",), (("",), (), ("é0e-9",), ("",)), 0, ("",), Options(named=False, schema=False, block=7)),
    ),
    (
        "CSV records",
        (_HEAD, (("", "", "1" * 70), ("", "", "\0"), ("", "", "")), 1, ("\0", "", ""), Options(block=64)),
    ),
    ("CSV bytes", (b"age,dose,sex\n", [b"\xff"], 7)),
    ("CSV bytes", (b"age,dose,sex\r\n", [b"\n", b"\r", b"1,2,F", b"\r"], 7)),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_refused(name, value):
    assert not checked(TARGETS[name], value)


@pytest.mark.parametrize(("name", "value"), ACCEPTED, ids=lambda part: part if isinstance(part, str) else "")
def test_accepted(name, value):
    assert checked(TARGETS[name], value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE spend", b"CREATE \xe6ABLE spend"),  # SQLite quotes it, and Python cannot decode it
        (b"clinic", b"cl\xffnic"),
        (b"count", b"c\xffunt"),
    ],
)
def test_damaged_ledgers(old, new):
    assert not checked(TARGETS["ledger files"], _ledger(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE fact", b"CREATE \xe6ABLE fact"),
        (b'{"ledger"', b'[[["dger"'),
        (b'{"ledger"', b'{"le\xffger"'),
        (b'"number": 1', b'"numbex": 1'),
        (b'"number": 1', b'"number":{}'),
        (b'"secure_noise"', b'"secure_voice"'),
        (b"seed", b"seed-"),
        (b"step", b"stop"),
    ],
)
def test_damaged_resume_files(old, new):
    assert not checked(TARGETS["resume files"], _resume_file(old, new))
