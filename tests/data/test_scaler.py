"""The scaler by public bounds learns nothing from rows and never raises because of a value."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import dpem
from dpem import BoundsScaler, Schema
from dpem.errors import InvalidArgumentError
from support.scikit_learn import checks

SCHEMA = Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 100], "missing": True},
        "stage": {"kind": "ordered", "categories": ["I", "II", "III"]},
    }
)


def test_transform_and_inverse():
    scaler = BoundsScaler(bounds=([0, -1], [10, 1])).fit(np.zeros((1, 2)))
    rows = np.array([[5.0, 0.0], [20.0, -7.0], [np.nan, np.inf]])
    expected = [[0.5, 0.5], [1.0, 0.0], [np.nan, 1.0]]
    np.testing.assert_array_equal(scaler.transform(rows), expected)
    np.testing.assert_allclose(scaler.inverse_transform(expected), [[5, 0], [10, -1], [np.nan, 1]])


def test_fit_learns_nothing_from_the_rows():
    """Two tables of the same shape give the same scaler."""
    one, other = (BoundsScaler(bounds=(0, 1)).fit(np.full((9, 2), value)) for value in (0.1, 1e9))
    assert {k: str(v) for k, v in vars(one).items()} == {k: str(v) for k, v in vars(other).items()}


def test_a_schema_scales_text_and_ordered_categories():
    table = pd.DataFrame({"stage": ["II", "IV"], "age": ["50", "none"]})
    scaler = BoundsScaler(schema=SCHEMA).set_output(transform="pandas").fit(table)
    scaled = scaler.transform(table)
    assert list(scaled.columns) == ["age", "stage"]
    np.testing.assert_array_equal(scaled, [[0.5, 0.5], [np.nan, 0.0]])
    with pytest.raises(InvalidArgumentError, match="categorical column 'sex'"):
        BoundsScaler(schema=Schema({"sex": {"kind": "categorical", "categories": ["F", "M"]}})).fit(table)


def test_in_a_pipeline():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(m, 0.3, (3000, 2)) for m in (2, 8)]) * [1, 1000]
    pipeline = make_pipeline(
        BoundsScaler(bounds=([0, 0], [10, 10_000])),
        dpem.KMeans(2, epsilon=1.0, bounds=(0, 1), random_state=0),
    ).fit(rows)
    centres = pipeline[0].inverse_transform(pipeline[-1].cluster_centers_)
    np.testing.assert_allclose(np.sort(centres[:, 1]), [2000, 8000], rtol=0.1)


def test_bounds_must_be_given():
    with pytest.raises(InvalidArgumentError, match="exactly one of bounds, data_norm and schema"):
        BoundsScaler().fit(np.zeros((2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"a dpem\.Schema"):
        BoundsScaler(schema={}).fit(np.zeros((2, 2)))


EXPECTED_FAILURES = {
    "check_estimators_empty_data_messages": "no rows are as good as some: their number may be private",
    "check_dtype_object": "types are never inferred from cells: object arrays need a schema",
}


@pytest.mark.parametrize(
    ("estimator", "check"), list(checks(BoundsScaler(bounds=(-100, 100)), EXPECTED_FAILURES))
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
