"""`dpem demo`: run all commands in order on a generated table of patients."""

import io
import shlex
import time
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from dpem.cli.console import Console, ExitCode, command
from dpem.errors import DpemError, InvalidArgumentError, OutputError

__all__ = ["register"]

_ROWS, _FEWEST_ROWS, _SEED = 20_000, 100, 2026
_MARKER = ".dpem-demo"
_FILES = (
    "patients.csv", "patients.toml", "patients.ledger", "clusters.dpem", "table.dpem", "synthetic.csv",
    "clusters.html", "table.html", _MARKER,
)  # fmt: skip
_NUMBERS = "age,bmi,systolic,hba1c,stay"


def demo(
    console: Console,
    folder: Annotated[Path, typer.Argument(help="New folder for the table, models and reports.")] = Path(
        "dpem-demo"
    ),
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of patients to generate.")] = _ROWS,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder of an earlier demo.")
    ] = False,
) -> None:
    """Run the whole workflow on a generated table of hospital patients: plan, fit, sample, report.

    The ledger is charged for two fits and rejects a third one, which would exceed its cap.
    """
    started = time.monotonic()
    if rows < _FEWEST_ROWS:
        raise InvalidArgumentError(f"Expected at least {_FEWEST_ROWS} rows, got --rows {rows}.")
    _create_folder(folder, overwrite=overwrite)
    table = folder / "patients.csv"
    from dpem.generated_tables import PATIENTS_SCHEMA, patients  # noqa: PLC0415  (help and version stay quick)

    patients(rows, _SEED).to_csv(table, index=False)
    schema = folder / "patients.toml"
    PATIENTS_SCHEMA.save(schema)
    console.say(f"Wrote {table} with {rows:,} generated patients, and {schema}, which declares the columns.")
    files = {name: str(folder / name) for name in ("patients.ledger", "clusters.dpem", "table.dpem")}
    ledger, clusters, synthetic = files.values()
    numbers = ["--schema", str(schema), "--columns", _NUMBERS]
    steps: list[tuple[str, list[str], ExitCode]] = [
        (
            "Plan a fit: its cost and expected noise. No row is read.",
            ["plan", "--rows", str(rows), *numbers, "-k", "5", "--epsilon", "1", "--accuracy", "age=0.5"],
            ExitCode.DONE,
        ),
        (
            "Create the ledger. The owner of the table caps the budget of all releases together.",
            ["budget", "init", ledger, "--name", "demo patients", "--epsilon", "1.6"],
            ExitCode.DONE,
        ),
        (
            "Fit clusters of patients. The ledger is charged before any value is read.",
            [
                "fit",
                str(table),
                *numbers,
                "-k",
                "5",
                "--epsilon",
                "1",
                "--ledger",
                ledger,
                "--purpose",
                "patient groups",
                "-o",
                clusters,
            ],
            ExitCode.DONE,
        ),
        (
            "Fit a model of the whole table, to draw synthetic patients from.",
            [
                "fit",
                str(table),
                "--schema",
                str(schema),
                "--model",
                "table",
                "--epsilon",
                "1",
                "--ledger",
                ledger,
                "--purpose",
                "synthetic patients",
                "-o",
                synthetic,
            ],
            ExitCode.DONE,
        ),
        (
            "Draw synthetic patients. They cost no budget, because the model is already released.",
            ["sample", synthetic, "-n", str(rows), "-o", str(folder / "synthetic.csv")],
            ExitCode.DONE,
        ),
        (
            "Try a third fit. It costs more than is left, so the ledger rejects it.",
            [
                "fit",
                str(table),
                *numbers,
                "--model",
                "kmeans",
                "--epsilon",
                "1",
                "--ledger",
                ledger,
                "-o",
                str(folder / "third.dpem"),
            ],
            ExitCode.BUDGET,
        ),
        ("Show all charges.", ["budget", "show", ledger], ExitCode.DONE),
        (
            "Verify the ledger and the charge for the clusters.",
            ["budget", "verify", ledger, "--model", clusters],
            ExitCode.DONE,
        ),
        (
            "Write a report of the clusters for the privacy officer.",
            ["report", clusters, "-o", str(folder / "clusters.html"), "--ledger", ledger],
            ExitCode.DONE,
        ),
        (
            "Write a report of the synthetic patients.",
            ["report", synthetic, "-o", str(folder / "table.html"), "--ledger", ledger],
            ExitCode.DONE,
        ),
    ]
    for title, arguments, expected in steps:
        _show(console, title, arguments, expected)
    seconds = time.monotonic() - started
    reports = [folder / "clusters.html", folder / "table.html"]
    console.heading(f"Done in {seconds:.0f} seconds.")
    console.line("Open the reports in a browser:\n  " + "\n  ".join(str(path.absolute()) for path in reports))
    console.result(
        {"folder": str(folder), "reports": [str(path) for path in reports], "seconds": round(seconds, 1)}
    )


def _create_folder(folder: Path, *, overwrite: bool) -> None:
    """Create the folder, or remove the files of an earlier demo from it; a marker file identifies it."""
    marker = folder / _MARKER
    if folder.exists():
        if not overwrite:
            raise OutputError(
                f"Expected a new folder, got {str(folder)!r}, which exists. Choose another, or pass "
                f"--overwrite."
            )
        if not marker.is_file():
            raise OutputError(
                f"Expected the folder of an earlier demo for --overwrite, got {str(folder)!r}, which is "
                f"another folder. Choose a new one."
            )
        _remove_files(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker.write_text(
            "Created by dpem demo. dpem demo --overwrite replaces the files of the demo here.\n"
        )
    except OSError as error:
        raise OutputError(
            f"Expected a folder that can be created, got {str(folder)!r}: {error.strerror}. Choose another."
        ) from error


def _remove_files(folder: Path) -> None:
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)


def _show(console: Console, title: str, arguments: Sequence[str], expected: ExitCode) -> None:
    """Run a command and show it; raise if its exit code is not the expected one."""
    from dpem.cli.app import main  # noqa: PLC0415  (app imports this module)

    console.heading(title)
    console.line(f"$ dpem {shlex.join(arguments)}\n", style="cyan")
    with redirect_stdout(io.StringIO()) if console.as_json else nullcontext():
        code = main(arguments)
    if code != expected:
        raise DpemError(
            f"Expected exit code {int(expected)} from dpem {shlex.join(arguments)}, got {code}. Its message "
            f"above says why."
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo", demo, "dpem demo dpem-demo")
