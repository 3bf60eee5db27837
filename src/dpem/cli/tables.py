"""Write tables in batches, as CSV or Parquet."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpem.errors import InvalidArgumentError

__all__ = ["TableWriter", "as_text", "delimiter_of", "table_format"]


def table_format(path: Path) -> str:
    """Return the format for a file name extension."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("csv", "parquet"):
        raise InvalidArgumentError(f"Expected a file name that ends in .csv or .parquet, got {str(path)!r}.")
    return kind


def as_text(frame: Any, schema: Any) -> Any:
    """Format the cells for CSV, as the schema declares."""
    from dpem.data.to_dataframe import formatted_dataframe  # noqa: PLC0415

    return frame if schema is None else formatted_dataframe(schema, frame)


def delimiter_of(schema: Any) -> str:
    """Return the field separator for CSV: a semicolon if the schema declares decimal commas."""
    columns = () if schema is None else schema.columns
    return ";" if any(column.cell_format.decimal == "," for column in columns) else ","


class TableWriter:
    """Write DataFrames to one file; cells of a CSV file get the formats of the schema."""

    def __init__(self, path: Path, schema: Any = None) -> None:
        self._path, self._format, self._schema = path, table_format(path), schema
        self._parquet: Any = None
        self._begun = False

    def __enter__(self) -> Self:
        return self

    def write(self, frame: Any) -> None:
        """Append rows."""
        if self._format == "csv":
            frame = as_text(frame, self._schema)
            separator = delimiter_of(self._schema)
            frame.to_csv(self._path, index=False, mode="a", header=not self._begun, sep=separator)
        else:
            import pyarrow as pa  # noqa: PLC0415
            import pyarrow.parquet as pq  # noqa: PLC0415

            for name in frame.columns:
                categories = getattr(frame[name].dtype, "categories", None)
                if categories is not None and len({isinstance(one, str) for one in categories}) > 1:
                    frame = frame.assign(**{name: frame[name].astype(str).where(frame[name].notna(), None)})
            table = pa.Table.from_pandas(frame, preserve_index=False)
            for j, column in enumerate(self._schema.columns if self._schema is not None else ()):
                if column.kind == "date":
                    table = table.set_column(j, column.name, table.column(j).cast(pa.date32()))
            if self._parquet is None:
                self._parquet = pq.ParquetWriter(self._path, table.schema)
            self._parquet.write_table(table.cast(self._parquet.schema))
        self._begun = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parquet is not None:
            self._parquet.close()
