"""Tables written part by part, as CSV or Parquet."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpem.errors import InvalidArgumentError

__all__ = ["TableWriter", "table_format"]


def table_format(path: Path) -> str:
    """Return the format that a file's ending tells."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("csv", "parquet"):
        raise InvalidArgumentError(f"Expected a file that ends in .csv or .parquet, got {str(path)!r}.")
    return kind


class TableWriter:
    """Write DataFrames of one kind one after the other."""

    def __init__(self, path: Path) -> None:
        self._path, self._format = path, table_format(path)
        self._parquet: Any = None
        self._begun = False

    def __enter__(self) -> Self:
        return self

    def write(self, frame: Any) -> None:
        """Add rows."""
        if self._format == "csv":
            frame.to_csv(self._path, index=False, mode="a", header=not self._begun)
        else:
            import pyarrow as pa  # noqa: PLC0415
            import pyarrow.parquet as pq  # noqa: PLC0415

            table = pa.Table.from_pandas(frame, preserve_index=False)
            if self._parquet is None:
                self._parquet = pq.ParquetWriter(self._path, table.schema)
            self._parquet.write_table(table.cast(self._parquet.schema))
        self._begun = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parquet is not None:
            self._parquet.close()
