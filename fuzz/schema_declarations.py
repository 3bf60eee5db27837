"""Schemas from mappings: rejected with the documented error, or equal to their own declaration."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from dpem import Schema
from dpem.errors import InvalidArgumentError
from fuzz.harness import Target
from fuzz.mutations import JUNK, changed_trees, each_place, trees

__all__ = ["TARGET", "WHOLE", "holds"]

WHOLE = [
    {"age": {"kind": "integer", "bounds": [0, 120], "unit": "years"}},
    {
        "dose": {"kind": "continuous", "bounds": [-0.5, 5.0], "missing": True, "outside": "missing"},
        "sex": {"kind": "categorical", "categories": ["F", "M"]},
    },
    {
        "dataset": "patients",
        "stage": {"kind": "ordered", "categories": ["I", "II", "III"], "outside": "II"},
        "ward": {"kind": "categorical", "categories": [1, 2.5, True], "outside": True},
        "smoker": {"kind": "boolean", "missing": True},
    },
    {"x": {"kind": "continuous", "bounds": [0, 1], "bounds_cost": [0.25, 1e-6]}, "y": {"kind": "ordered"}},
]

_ODD = st.sampled_from([
    Decimal(1), Decimal("nan"), Fraction(1, 3), 1j, b"a", b"\xff", np.float32(2), np.str_("a"),
    np.array([0, 1]), np.datetime64("NaT"), np.True_, (0, 1), range(2), {1, 2}, object(), "x" * 300,
])  # fmt: skip

# Cells of all kinds: in an accepted schema, no cell of any column may raise an error or exceed its limits.
CELLS = np.array(
    [None, math.nan, -1e300, 1e300, 0, 1.5, True, "", "I", "F", "1", "true", b"\xff", 10**400, [], object()],
    dtype=object,
)


def holds(schema):
    """Check the properties of every schema."""
    declared = schema.to_dict()
    again = Schema(json.loads(json.dumps(declared)))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.names == schema.names
    assert json.dumps(again.to_dict()) == json.dumps(declared)
    filled = schema.filled()
    assert not any(column.missing for column in filled.columns)
    for column, same in zip(schema.columns, again.columns, strict=True):
        if not column.is_complete:
            continue
        low, high = column.limits
        values, _ = column.parse(CELLS)
        np.testing.assert_array_equal(same.parse(CELLS)[0], values)
        assert ((low <= values) & (values <= high) | np.isnan(values)).all()
        assert column.missing or not np.isnan(values).any()


def check(declared):
    """Accept or reject a declaration."""
    try:
        schema = Schema(declared)
    except InvalidArgumentError as error:
        assert str(error)
        return False
    holds(schema)
    return True


TARGET = Target(
    "schema declarations",
    "mappings with values of any type in each place, and random mappings",
    400_000,
    changed_trees([*WHOLE, *WHOLE], JUNK | _ODD)
    | changed_trees(WHOLE)
    | st.tuples(trees(JUNK | _ODD), st.just("nest"), JUNK),
    each_place,
    check,
)
