"""`dpem predict`: predictions for rows, which are as sensitive as the rows themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem._files import check_writable, replacing
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.cli.tables import TableWriter, table_format
from dpem.errors import InvalidArgumentError

__all__ = ["register"]

_BATCH_ROWS = 50_000


def predict(
    console: Console,
    model: Annotated[Path, typer.Argument(help="Model file written by dpem fit.")],
    data: options.DataArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help=".csv or .parquet file to write, one line per row; - writes CSV to standard output.",
        ),
    ],
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Write the probabilities of all clusters or values instead of the most probable one.",
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Column of the table to copy to the output, such as an id. Repeatable."),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Copy all columns of the table to the output.")
    ] = False,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    encoding: options.EncodingOption = "utf-8",
    overwrite: options.OverwriteOption = False,
) -> None:
    """Predict the cluster, value or factors of each row.

    The output has the order of the rows and is as sensitive as they are: do not publish it. Nothing is
    charged, because nothing is released. Rows are read and written in batches.
    """
    to_screen = str(output) == "-"
    if not to_screen:
        check_writable(output, overwrite=overwrite, inputs=[model, *(p for p in data if str(p) != "-")])
        table_format(output)
    fitted = dpem.load(model)
    files = options.table_files(data, delimiter, header, encoding)
    names = dpem.report.column_names(fitted)
    parts = _parts(files, names, getattr(fitted, "target", None), keep or [], keep_all=keep_all)
    found: list[str] = []
    if to_screen:
        for number, (table, kept) in enumerate(parts):
            frame, found = _frame(fitted, table, kept, probabilities=probabilities)
            frame.to_csv(sys.stdout, index=False, header=number == 0)
        return
    with replacing(output) as path, TableWriter(path) as writer:
        for table, kept in parts:
            frame, found = _frame(fitted, table, kept, probabilities=probabilities)
            writer.write(frame)
    # The number of rows is not printed: it may be private.
    console.line(f"Wrote {output}. It is as sensitive as the rows: do not publish it.")
    console.result({"path": str(output), "columns": found})


def _parts(
    files: Any, names: list[str], target: str | None, keep: list[str], *, keep_all: bool
) -> Iterator[tuple[Any, Any]]:
    """Yield batches of the table: the columns of the model and the columns to keep."""
    from dpem.data.sources.files import FileRows, file_head  # noqa: PLC0415  (help and version stay quick)
    from dpem.data.sources.formats import csv_remedy  # noqa: PLC0415
    from dpem.data.sources.memory import require_columns  # noqa: PLC0415

    head, typed = file_head(files)
    # The target is predicted, so the table may lack it.
    names = [name for name in names if name != target or name in head.column_names]
    wanted = [*names, *keep]
    require_columns(wanted, head.column_names, remedy=None if typed else csv_remedy)
    kept = list(head.column_names) if keep_all else list(dict.fromkeys(keep))
    wanted = list(dict.fromkeys([*names, *kept]))
    any_row = False
    for table in FileRows.text_or_typed_batches(files, wanted, _BATCH_ROWS):
        any_row = any_row or len(table) > 0
        yield table.select(names), table.select(kept)
    if not any_row:
        raise InvalidArgumentError("Expected at least one row to predict, got a table without rows.")


def _frame(model: Any, table: Any, kept: Any, *, probabilities: bool) -> tuple[Any, list[str]]:
    import pandas as pd  # noqa: PLC0415

    values, found = model._predictions(table, probabilities=probabilities)
    taken = [name for name in found if name in kept.column_names]
    if taken:
        raise InvalidArgumentError(
            f"Expected no column to keep with the name of a prediction, got {', '.join(map(repr, taken))}. "
            f"Rename it in the table, or leave it out of --keep."
        )
    frame = pd.DataFrame(values, columns=found)
    return pd.concat([kept.to_pandas(), frame], axis=1), [*kept.column_names, *found]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "predict", predict, "dpem predict clusters.dpem patients.csv -o clusters.csv --keep id")
