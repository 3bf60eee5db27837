"""Parse cells of a table to numbers, as the schema declares.

Each cell is parsed by itself; the other cells of its column have no influence. A cell that cannot be read
becomes NaN, and `Column.parse` replaces it as declared. No cell raises, because an exception would reveal a
row.
"""

from __future__ import annotations

import decimal
import math
import numbers
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dpem.data.cell_format import CellFormat

__all__ = [
    "Spellings",
    "as_bytes",
    "category_key",
    "codes",
    "is_arrow",
    "is_null",
    "numbers_of",
    "pa_array",
    "places_of",
    "read_distinct",
    "suppress_errors",
]


@contextmanager
def suppress_errors() -> Iterator[None]:
    """Suppress every exception in the block except the user's interrupt: it would reveal a row."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001, S110  (some libraries raise exceptions outside Exception)
        pass


def numbers_of(cells: Any, cell_format: CellFormat | None = None) -> NDArray[np.float64]:
    """Parse numbers; cells that are not numbers become NaN.

    Text is parsed in Python's format for numbers, or in `cell_format`.

    Examples
    --------
    >>> numbers_of(np.array([1, True, " 2.5", "1e3", "inf", None, "old", 10**400], dtype=object))
    array([   1. ,    1. ,    2.5, 1000. ,    inf,    nan,    nan,    inf])
    """
    if cell_format is not None and cell_format.plain_numbers:
        cell_format = None
    if is_arrow(cells):
        return _arrow_numbers(as_bytes(cells), cell_format)
    if cells.dtype.kind in "fiub":
        return np.asarray(cells.astype(np.float64))
    if cells.dtype.kind in "mM":  # times are not numbers, although NumPy would convert them
        return np.full(len(cells), np.nan)
    if _is_text(cells):
        try:  # all at once, with the same result as cell by cell
            return np.array(
                [math.nan if cell is None else _number(cell, cell_format) for cell in cells], dtype=np.float64
            )
        except ValueError:
            pass
    return _one_by_one(cells, lambda cell: _number(cell, cell_format))


def codes(
    cells: Any, known: Mapping[str, int], key: Callable[[Any], str] | None = None
) -> NDArray[np.float64]:
    """Return the code of each cell among the known categories, NaN for other cells.

    Cells and categories are compared by `category_key`.

    Examples
    --------
    >>> codes(np.array(["b", 1.0, None, "c", [3]], dtype=object), {"a": 0, "b": 1, "1": 2})
    array([ 1.,  2., nan, nan, nan])
    """
    key = key or category_key
    return read_distinct(cells, lambda cell: known.get(key(cell), math.nan))


def read_distinct(cells: Any, read: Callable[[Any], float]) -> NDArray[np.float64]:
    """Apply `read` to each cell, with NaN if it fails; equal cells are read once."""
    if is_arrow(cells):
        encoded = as_bytes(cells).dictionary_encode()
        found = _one_by_one(encoded.dictionary.to_pylist(), read)
        places: NDArray[np.intp] = encoded.indices.fill_null(len(found)).to_numpy()
        return np.append(found, math.nan)[places]
    if cells.dtype.kind in "fiub":  # usually few different values, so each is read once
        values, places = np.unique(cells, return_inverse=True)
        found = _one_by_one(values, read)
        return np.asarray(found[places.reshape(-1)])
    if _is_text(cells):
        texts = list(set(cells))
        found = _one_by_one(texts, read)
        code = dict(zip(texts, found, strict=True))
        return np.array([code[cell] for cell in cells], dtype=np.float64)
    return _one_by_one(cells, read)


class Spellings:
    """Texts that are searched for in Arrow text; the last one is a null."""

    def __init__(self, words: Sequence[str]) -> None:
        texts = [word.encode(errors="replace") for word in dict.fromkeys([*words, ""])]
        self.cells = np.array([*dict.fromkeys(texts), None], dtype=object)
        self._arrow: dict[Any, Any] = {}

    def of_type(self, kind: Any) -> Any:
        """Return the texts as an Arrow array."""
        if kind not in self._arrow:
            self._arrow[kind] = pa_array(self.cells, kind)
        return self._arrow[kind]


def places_of(cells: Any, spellings: Spellings) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Return the place of each cell of an Arrow array among texts, and the numbers of the other cells."""
    from pyarrow import compute  # noqa: PLC0415  (installed, because the cells come from it)

    places = compute.index_in(cells, value_set=spellings.of_type(cells.type))
    if not places.null_count:
        return places.to_numpy(), np.empty(0, dtype=np.intp)
    others = np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False))
    return places.fill_null(0).to_numpy(), others


def pa_array(cells: Any, kind: Any = None) -> Any:
    """Return an Arrow array."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import)

    return pa.array(cells, kind)


def category_key(cell: Any) -> str:
    """Return the text by which a cell is compared with categories; "" if the cell cannot be a category.

    Spaces around text are ignored.

    Examples
    --------
    >>> category_key(" F"), category_key(3), category_key(np.float32(3.0)), category_key(True)
    ('F', '3', '3', 'true')
    """
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, str):
        return str(cell).strip()
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, numbers.Real | decimal.Decimal):
        # All numbers as floats: whether a library returns integers can depend on a null in another row.
        number = float(cell)
        return str(int(number)) if number.is_integer() else repr(number)
    return ""


def _number(cell: Any, cell_format: CellFormat | None = None) -> float:
    if isinstance(cell, numbers.Integral):  # may exceed the range of floats
        return float(cell) if abs(int(cell)) < 2**1000 else math.copysign(math.inf, int(cell) >> 900)
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, str) and cell_format is not None:
        cell = cell_format.number_text(cell.strip())
    if isinstance(cell, str | numbers.Real | decimal.Decimal):
        return float(cell)
    return math.nan


def is_arrow(cells: Any) -> bool:
    """Whether cells are text in an Arrow array, which is read many times faster than Python objects."""
    return not isinstance(cells, np.ndarray)


def as_bytes(cells: Any) -> Any:
    """View Arrow text as bytes, so that no cell is decoded before it is parsed by itself."""
    import pyarrow as pa  # noqa: PLC0415  (installed, because the cells come from it)

    large = pa.types.is_large_string(cells.type) or pa.types.is_large_binary(cells.type)
    return cells.view(pa.large_binary() if large else pa.binary())


# Numbers that Arrow parses exactly as Python does: both round correctly. Python parses all others one by one.
_PLAIN_NUMBER = r"^[+-]?[0-9]{1,18}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?$"


def _arrow_numbers(cells: Any, cell_format: CellFormat | None) -> NDArray[np.float64]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    if cell_format is not None:
        if cell_format.thousands is not None:
            grouped = compute.match_substring_regex(cells, cell_format.grouped)
            separated = compute.match_substring(cells, cell_format.thousands)
            misplaced = compute.and_(separated, compute.invert(grouped))
            cells = compute.if_else(misplaced, pa.scalar(b"?", cells.type), cells)
            cells = compute.replace_substring(cells, cell_format.thousands, "")
        if cell_format.decimal != ".":
            wrong = compute.match_substring(cells, ".")  # 1.5 must not be read as 1,5
            cells = compute.if_else(wrong, pa.scalar(b"?", cells.type), cells)
            cells = compute.replace_substring(cells, cell_format.decimal, ".")
    is_plain = compute.match_substring_regex(cells, _PLAIN_NUMBER)
    plain = compute.if_else(is_plain, cells, None)
    text = plain.view(pa.large_string() if pa.types.is_large_binary(cells.type) else pa.string())
    found = np.array(text.cast(pa.float64()).to_numpy(zero_copy_only=False))
    others = np.flatnonzero(~is_plain.fill_null(True).to_numpy(zero_copy_only=False))
    found[others] = _one_by_one(cells.take(pa.array(others)).to_pylist(), _number)
    return found


def _is_text(cells: NDArray[Any]) -> bool:
    """Whether all cells are text or missing, so that faster code with the same results applies."""
    return set(map(type, cells)) <= {str, bytes, type(None)}


def _one_by_one(cells: Sequence[Any] | NDArray[Any], parse: Callable[[Any], float]) -> NDArray[np.float64]:
    numbers_read = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        try:
            numbers_read[i] = parse(cell)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S112  (no cell may raise)
            continue
    return numbers_read


def is_null(cells: Any) -> NDArray[np.bool_]:
    """Return which cells are missing: None, NaN, NaT, a null of their library, or blank text."""
    if is_arrow(cells):
        from pyarrow import compute  # noqa: PLC0415  (installed, because the cells come from it)

        raw = as_bytes(cells)
        null = np.asarray(raw.is_null().to_numpy(zero_copy_only=False)).copy()
        printed = compute.match_substring_regex(raw, "[!-~]").fill_null(True)
        others = np.flatnonzero(~printed.to_numpy(zero_copy_only=False))  # usually few cells
        null[others] = [_is_blank(cell) for cell in raw.take(others).to_pylist()]
        return null
    if cells.dtype.kind == "f":
        return np.asarray(np.isnan(cells))
    if cells.dtype.kind in "iub":
        return np.zeros(len(cells), dtype=bool)
    if cells.dtype.kind in "mM":
        return np.asarray(np.isnat(cells))
    if _is_text(cells):
        return np.array([cell is None or _is_blank(cell) for cell in cells], dtype=bool)
    return np.fromiter((_is_null_cell(cell) for cell in cells), dtype=bool, count=len(cells))


def _is_blank(cell: Any) -> bool:
    # Call the methods of the base types: a subclass may override them and raise.
    if issubclass(type(cell), bytes):
        return not bytes.decode(cell, errors="replace").strip()
    return not str.strip(cell)


def _is_null_cell(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in {"NAType", "NaTType"}:
        return True
    if issubclass(type(cell), str | bytes):
        return _is_blank(cell)
    return issubclass(type(cell), float | np.floating) and math.isnan(cell)
