"""`dpem predict`: what a model says of rows. As sensitive as the rows themselves."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import dpem
from dpem._files import check_writable, replacing
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.cli.tables import TableWriter, table_format
from dpem.errors import InvalidArgumentError

__all__ = ["register"]


def predict(
    console: Console,
    model: Annotated[Path, typer.Argument(help="A model file that dpem fit wrote.")],
    data: Annotated[list[Path], typer.Argument(help="CSV, Parquet or Arrow files of rows.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .csv or .parquet file, one line per row.")
    ],
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Of every cluster or value instead of the most probable one."),
    ] = False,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    overwrite: options.OverwriteOption = False,
) -> None:
    """Say of every row which cluster, value or factors it has, in the rows' order. Rows must fit into memory.

    What is written is as sensitive as the rows: keep it with them. Nothing is charged, since nothing of it is
    released.
    """
    import pandas as pd  # noqa: PLC0415

    check_writable(output, overwrite=overwrite, inputs=[model, *data])
    table_format(output)
    fitted = dpem.load(model)
    schemaless = getattr(fitted, "schema", None) is None
    files = options.table_files(
        data, delimiter, header, dpem.report.column_names(fitted) if schemaless else None
    )
    values, found = _predictions(fitted, files, probabilities=probabilities)
    frame = pd.DataFrame(values, columns=found)
    with replacing(output) as path, TableWriter(path) as writer:
        writer.write(frame)
    # How many there are is not said: their number may be private.
    console.line(f"Wrote {output}: as sensitive as the rows it is of.")
    console.result({"path": str(output), "columns": found})


def _predictions(model: Any, files: dpem.Files, *, probabilities: bool) -> tuple[Any, list[str]]:
    if isinstance(model, dpem.FactorAnalysis):
        if probabilities:
            raise InvalidArgumentError(
                "Expected --probabilities with a model of clusters or values, not of factors."
            )
        scores = model.transform(files)
        return scores, [f"factor {j + 1}" for j in range(scores.shape[1])]
    if not hasattr(model, "predict"):
        raise InvalidArgumentError(f"Expected a model that predicts, got {type(model).__name__}.")
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise InvalidArgumentError(
                f"Expected a model with probabilities, got {type(model).__name__}. Leave --probabilities out."
            )
        chances = model.predict_proba(files)
        names = getattr(model, "classes_", range(1, chances.shape[1] + 1))
        return chances, [f"probability of {name}" for name in names]
    found = np.asarray(model.predict(files))
    target = getattr(model, "target", None)
    if target is not None:
        return found[:, None], [str(target)]
    return found[:, None] + 1, ["cluster" if isinstance(model, dpem.KMeans) else "component"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "predict", predict, "dpem predict clusters.dpem patients.csv -o clusters.csv")
