"""Text cells: each is parsed by itself, in every type of array."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem.data.cells import codes, is_null, numbers_of

_NUMBER_LIKE = st.text("0123456789+-.eE_ xnaif\u0661", max_size=24)
_CELLS = st.lists(
    st.none() | _NUMBER_LIKE | st.text(max_size=4) | st.floats().map(repr) | st.integers().map(str)
)


@given(_CELLS)
@settings(max_examples=300, deadline=None)
def test_arrow_text_is_read_like_objects(texts):
    """Numbers, categories and nulls in each Arrow text type are parsed like Python objects."""
    objects = np.empty(len(texts), dtype=object)
    objects[:] = texts
    known = {"1": 0, "a": 1, "nan": 2}
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        cells = pa.array(texts, pa.string()).cast(kind)
        np.testing.assert_array_equal(numbers_of(cells), numbers_of(objects))
        np.testing.assert_array_equal(codes(cells, known), codes(objects, known))
        np.testing.assert_array_equal(is_null(cells), is_null(objects))


@given(_CELLS.filter(len), st.data())
@settings(max_examples=100, deadline=None)
def test_a_cell_does_not_change_how_another_is_read(texts, data):
    """Fast code for whole columns gives the same result as cell by cell."""
    i = data.draw(st.integers(0, len(texts) - 1))
    for make in (lambda cells: np.array(cells, dtype=object), lambda cells: pa.array(cells, pa.string())):
        np.testing.assert_array_equal(numbers_of(make(texts))[i], numbers_of(make(texts[i : i + 1]))[0])
