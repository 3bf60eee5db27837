"""Rows from a function that returns an iterator over the batches of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.sources.memory import require_columns
from dpem.data.sources.streams import StreamedRows
from dpem.data.stored_types import require_types
from dpem.errors import ChangedDataError, DataError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dpem.data.schema import Schema
    from dpem.data.sources.memory import TableRows

__all__ = ["BatchRows", "dataset_batches"]

_REOPEN = "Pass a function that opens the table again on every call, such as a generator function."


class BatchRows(StreamedRows):
    """A function that returns an iterator of batches: arrays, DataFrames or Arrow record batches.

    Parameters
    ----------
    batches : callable without arguments
        The function. It is called once to read the columns, once if the number of rows is public, and then
        once for each pass of the fit. It must return the same rows in the same batches every time.
    schema : Schema, optional
        The declared columns.
    by_position : bool, default False
        Whether columns match those of the schema by position.
    person : str, optional
        The column that identifies persons.
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Any]],
        schema: Schema | None,
        *,
        by_position: bool = False,
        person: str | None = None,
    ) -> None:
        self._batches = batches
        self._last: Any = None
        self._lengths: list[int] | None = None
        head = next(self._open(), None)
        if head is None:
            if schema is None:
                raise InvalidArgumentError(
                    "Expected at least one batch (it may have no rows), which shows the number of columns, "
                    "got no batch. Yield an empty table, or pass a schema."
                )
            head = _empty_table(schema, person)
        super().__init__(head, schema, by_position=by_position, person=person)
        if schema is not None:
            require_types(head, schema, self._reader.columns)

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the batches in order."""
        lengths = []
        for number, batch in enumerate(self._open()):
            lengths.append(_length(batch))
            if number >= first:
                # The function may reuse the array while threads still read it.
                yield self._reader(batch.copy() if isinstance(batch, np.ndarray) else batch)
        self._compare(lengths)

    def _count(self) -> int:
        lengths = [_length(batch) for batch in self._open()]
        self._compare(lengths)
        return sum(lengths)

    def _compare(self, lengths: list[int]) -> None:
        if self._lengths not in (None, lengths):
            raise ChangedDataError(
                f"Expected the same batches on every pass, got another number of rows than before. {_REOPEN}"
            )
        self._lengths = lengths

    def _open(self) -> Iterator[Any]:
        found = self._batches()
        if found is self._last and found is not None and iter(found) is found:
            raise InvalidArgumentError(
                f"Expected a new iterator on every call, got the same one twice. {_REOPEN}"
            )
        self._last = found
        is_table = hasattr(found, "columns") or hasattr(found, "ndim")
        if is_table or not hasattr(found, "__iter__"):
            raise InvalidArgumentError(
                f"Expected a function that returns an iterator of batches, got one that returns "
                f"{type(found).__name__}. {_REOPEN}"
            )
        return map(_as_table, found)


def dataset_batches(dataset: Any, columns: Sequence[str] | None) -> Callable[[], Iterator[Any]]:
    """Return a function that reads a `pyarrow.dataset`; it hides Arrow's messages, which may show cells."""
    import pyarrow as pa  # noqa: PLC0415  (installed, because the dataset comes from it)

    kind = getattr(getattr(dataset, "format", None), "default_extname", "")
    if kind in {"csv", "json"}:  # Arrow would infer types from cells
        raise InvalidArgumentError(
            f"Expected a dataset of files with types, such as Parquet, got one of {kind.upper()}. Read CSV "
            f"with dpem.Files."
        )
    if columns is not None:
        require_columns(columns, dataset.schema.names)

    def batches() -> Iterator[Any]:
        yield pa.Table.from_batches([], schema=dataset.schema)
        try:
            yield from dataset.to_batches(columns=None if columns is None else list(columns))
        except (pa.ArrowException, OSError):
            raise DataError(
                "Expected a dataset that can be read, got one with damaged or missing files. Nothing more "
                "was released. Repair the dataset."
            ) from None

    return batches


def _as_table(batch: Any) -> Any:
    """Convert an Arrow record batch to a table; return other batches unchanged."""
    if batch is None or callable(batch) or type(batch).__name__ == "LazyFrame":
        raise InvalidArgumentError(
            f"Expected batches that are arrays or tables, got {type(batch).__name__}. {_REOPEN}"
        )
    if type(batch).__module__.startswith("pyarrow") and hasattr(batch, "schema"):
        import pyarrow as pa  # noqa: PLC0415  (installed, because the batch comes from it)

        return pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
    return batch


def _empty_table(schema: Schema, person: str | None) -> Any:
    """Return a table without rows and with the expected columns."""
    if person is None:
        return np.empty((0, len(schema.columns)))
    import pyarrow as pa  # noqa: PLC0415

    return pa.table({name: pa.array([], pa.float64()) for name in (*schema.names, person)})


def _length(batch: Any) -> int:
    n_rows = getattr(batch, "num_rows", None)
    return int(n_rows) if n_rows is not None else len(batch)
