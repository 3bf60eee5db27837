"""`dpem sample`: synthetic rows from a fitted model, without any charge."""

import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem._files import check_writable, replacing
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.cli.tables import TableWriter, as_text, delimiter_of, table_format
from dpem.errors import InvalidArgumentError

__all__ = ["register", "sampled", "warn_of_no_privacy"]

_BATCH_ROWS = 100_000


def sample(
    console: Console,
    model: Annotated[Path, typer.Argument(help="Model file written by dpem fit.")],
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows to draw.")] = 1000,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=".csv or .parquet file to write; standard output by default."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", help="Value to condition on, such as ward=surgery. Repeatable."),
    ] = None,
    seed: options.SeedOption = None,
    overwrite: options.OverwriteOption = False,
) -> None:
    """Draw synthetic rows with the columns of the schema. Sampling costs no budget.

    Synthetic rows belong to nobody. They may be published, as the model may. CSV files have commas between
    fields, or semicolons if the schema declares decimal commas.
    """
    if rows < 1:
        raise InvalidArgumentError(f"Expected at least one row, got --rows {rows}.")
    from dpem.privacy.randomness import public_random  # noqa: PLC0415  (help and version stay quick)

    if output is not None and str(output) == "-":
        output = None
    if output is not None:
        check_writable(output, overwrite=overwrite, inputs=[model])
        table_format(output)
    fitted = dpem.load(model)
    warn_of_no_privacy(console, fitted)
    fitted.random_state = public_random(seed)  # one stream for all batches: none repeats another
    values = _given(fitted, given)
    if output is None:
        parts = (
            sampled(fitted, min(_BATCH_ROWS, rows - start), values) for start in range(0, rows, _BATCH_ROWS)
        )
        if console.as_json:
            schema = getattr(fitted, "schema", None)
            console.result({"rows": [row for part in parts for row in _records(as_text(part, schema))]})
            return
        schema = getattr(fitted, "schema", None)
        for j, part in enumerate(parts):
            frame = as_text(part, schema)
            frame.to_csv(sys.stdout, index=False, header=j == 0, sep=delimiter_of(schema))
        return
    schema = getattr(fitted, "schema", None)
    with (
        replacing(output) as path,
        TableWriter(path, schema) as writer,
        console.counting("Sampling", rows) as advance,
    ):
        for start in range(0, rows, _BATCH_ROWS):
            part = sampled(fitted, min(_BATCH_ROWS, rows - start), values)
            writer.write(part)
            advance(len(part))
    console.line(f"Wrote {rows:,} rows to {output}.")
    console.result({"path": str(output), "rows": rows, "columns": dpem.report.column_names(fitted)})


def warn_of_no_privacy(console: Console, model: Any) -> None:
    """Warn if the model is not private."""
    if not model.privacy_.is_private:
        console.warn("This model is NOT PRIVATE: do not publish it, nor anything computed from it.")


def sampled(model: Any, n: int, given: dict[str, Any] | None = None) -> Any:
    """Return sampled rows as a DataFrame with the model's column names."""
    import pandas as pd  # noqa: PLC0415

    if not hasattr(model, "sample"):
        raise InvalidArgumentError(
            f"Expected a model that can be sampled, got {type(model).__name__}, which has no density. Fit a "
            f"model with --model mixture or --model table."
        )
    drawn = model.sample(n, given) if given else model.sample(n)
    if not isinstance(drawn, pd.DataFrame):
        return pd.DataFrame(drawn, columns=dpem.report.column_names(model))
    from dpem.privacy.randomness import public_random  # noqa: PLC0415

    # Rows are drawn component by component: shuffle them.
    return drawn.iloc[public_random(model.random_state).permutation(len(drawn))].reset_index(drop=True)


def _given(model: Any, texts: list[str] | None) -> dict[str, Any] | None:
    """Parse the values of --given according to the kinds of their columns."""
    if not texts:
        return None
    if "given" not in inspect.signature(model.sample).parameters:
        raise InvalidArgumentError(
            f"Expected a model fitted with --model table for --given, got {type(model).__name__}."
        )
    values: dict[str, Any] = {}
    for name, text in options.pairs(texts, "--given").items():
        column = next((column for column in model.schema.columns if column.name == name), None)
        if column is not None and text == "" and column.missing:
            values[name] = None
        elif (
            column is not None
            and column.kind in ("continuous", "integer")
            and column.cell_format.plain_numbers
        ):
            values[name] = options.as_number(text, f"--given {name}")
        else:
            values[name] = text
    return values


def _records(frame: Any) -> list[dict[str, Any]]:
    import json  # noqa: PLC0415

    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "sample", sample, "dpem sample patients.dpem -n 10000 -o synthetic.csv --given ward=surgery")
