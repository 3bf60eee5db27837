"""`dpem report`: an HTML report of a model that a privacy officer can read and sign."""

from pathlib import Path
from typing import Annotated

import typer

import dpem
from dpem._files import check_writable
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.cli.sample import warn_of_no_privacy
from dpem.errors import InvalidArgumentError

__all__ = ["register"]


def report(
    console: Console,
    model: Annotated[Path, typer.Argument(help="Model file written by dpem fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", "-l", help="Ledger that was charged for the model, to verify and to show."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            "-n",
            help="Guess of the number of rows if it is private; the expected noise depends on it.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    seed: options.SeedOption = None,
    overwrite: options.OverwriteOption = False,
) -> None:
    """Write an HTML report of a model: guarantee, ledger, plan, profiles, densities, synthetic rows.

    The report is one file that needs no network. It is computed from the released model, never from rows, and
    may be published like the model. With --ledger it also lists the purposes and analysts of all charges.
    """
    options.refuse_other_format(
        output, "a report", [".html", ".htm"], "The report is HTML; a browser can print it as PDF."
    )
    check_writable(output, overwrite=overwrite, inputs=[model, *([] if ledger is None else [ledger])])
    if rows is not None and rows < 1:
        raise InvalidArgumentError(f"Expected at least one row, got --rows {rows}.")
    fitted = dpem.load(model)
    warn_of_no_privacy(console, fitted)
    fitted.random_state = seed
    account = None if ledger is None else dpem.Ledger(ledger)
    dpem.report.write_report(fitted, output, ledger=account, n_rows=rows, title=title)
    console.line(f"Wrote {output}. Open it in a browser.")
    console.result({"path": str(output), "model": str(model)})


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "report", report, "dpem report clusters.dpem -o report.html --ledger patients.ledger")
