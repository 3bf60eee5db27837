"""`dpem demo`: the whole way on a made table of patients, command by command."""

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

_ROWS, _FEWEST, _SEED = 20_000, 100, 2026
_MARK = ".dpem-demo"
_FILES = (
    "patients.csv", "patients.toml", "patients.ledger", "clusters.dpem", "table.dpem", "synthetic.csv",
    "clusters.html", "table.html", _MARK,
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

    Three fits are tried; the ledger pays for two and refuses the third.
    """
    started = time.monotonic()
    if rows < _FEWEST:
        raise InvalidArgumentError(f"Expected at least {_FEWEST} rows, got --rows {rows}.")
    _make_folder(folder, overwrite=overwrite)
    table = folder / "patients.csv"
    from dpem.cli.patients import PATIENTS_SCHEMA, patients  # noqa: PLC0415  (help and version stay quick)

    patients(rows, _SEED).to_csv(table, index=False)
    schema = folder / "patients.toml"
    PATIENTS_SCHEMA.save(schema)
    console.say(
        f"Made {table}: {rows:,} patients who do not exist, and {schema}: what could be in each column."
    )
    files = {name: str(folder / name) for name in ("patients.ledger", "clusters.dpem", "table.dpem")}
    ledger, clusters, synthetic = files.values()
    numbers = ["--schema", str(schema), "--columns", _NUMBERS]
    steps: list[tuple[str, list[str], ExitCode]] = [
        (
            "What would it cost, and what would it give? No row is read.",
            ["plan", "--rows", str(rows), *numbers, "-k", "5", "--epsilon", "1", "--accuracy", "age=0.5"],
            ExitCode.DONE,
        ),
        (
            "The owner of the table decides how much may ever be spent on it.",
            ["budget", "init", ledger, "--name", "demo patients", "--epsilon", "1.6"],
            ExitCode.DONE,
        ),
        (
            "Clusters of patients. The ledger is charged before a row is read.",
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
            "A model of the whole table, to draw synthetic patients from.",
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
            "Synthetic patients are free: the model is released.",
            ["sample", synthetic, "-n", str(rows), "-o", str(folder / "synthetic.csv")],
            ExitCode.DONE,
        ),
        (
            "A third fit costs more than is left, and is refused.",
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
        ("The ledger remembers.", ["budget", "show", ledger], ExitCode.DONE),
        ("And it holds.", ["budget", "verify", ledger, "--model", clusters], ExitCode.DONE),
        (
            "One page for the person who has to sign.",
            ["report", clusters, "-o", str(folder / "clusters.html"), "--ledger", ledger],
            ExitCode.DONE,
        ),
        (
            "And one for the synthetic patients.",
            ["report", synthetic, "-o", str(folder / "table.html"), "--ledger", ledger],
            ExitCode.DONE,
        ),
    ]
    for title, arguments, expected in steps:
        _show(console, title, arguments, expected)
    seconds = time.monotonic() - started
    reports = [folder / "clusters.html", folder / "table.html"]
    console.heading(f"Done in {seconds:.0f} seconds.")
    console.line("Reports, to open in a browser:\n  " + "\n  ".join(str(path.absolute()) for path in reports))
    console.result(
        {"folder": str(folder), "reports": [str(path) for path in reports], "seconds": round(seconds, 1)}
    )


def _make_folder(folder: Path, *, overwrite: bool) -> None:
    """Create the folder; remove only files of an earlier demo, which a marker file identifies."""
    mark = folder / _MARK
    if folder.exists():
        if not overwrite:
            raise OutputError(
                f"Expected a new folder, got {str(folder)!r}, which exists. Choose another, or pass "
                f"--overwrite."
            )
        if not mark.is_file():
            raise OutputError(f"Expected the folder of an earlier demo, got {str(folder)!r}, which is none.")
        _remove_files(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("Made by dpem demo: dpem demo --overwrite replaces the files that it made here.\n")
    except OSError as error:
        raise OutputError(
            f"Expected a folder that can be made, got {str(folder)!r}: {error.strerror}."
        ) from error


def _remove_files(folder: Path) -> None:
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)


def _show(console: Console, title: str, arguments: Sequence[str], expected: ExitCode) -> None:
    """Run a command as a person would; stop if its exit code is not the expected one."""
    from dpem.cli.app import main  # noqa: PLC0415  (which knows this command)

    console.heading(title)
    console.line(f"$ dpem {shlex.join(arguments)}\n", style="cyan")
    with redirect_stdout(io.StringIO()) if console.as_json else nullcontext():
        code = main(arguments)
    if code != expected:
        raise DpemError(f"Expected exit code {int(expected)} of dpem {shlex.join(arguments)}, got {code}.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo", demo, "dpem demo dpem-demo")
