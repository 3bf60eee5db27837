"""The command-line application with all its commands."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import dpem
from dpem.cli import audit, budget, check, demo, fit, plan, predict, report, reproduce, sample, schema
from dpem.cli.console import Console, ExitCode

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="dpem",
    help="Fit latent-variable models to sensitive tables under differential privacy.",
    epilog=(
        "Exit codes: 0 success, 1 a bug in dpem (dpem check: the schema does not read a column; dpem audit: "
        "a violation), 2 invalid arguments, 3 insufficient budget, 4 rows could not be read, 5 a ledger, "
        "model or output file cannot be used, 130 interrupted. Start with: dpem demo"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"dpem {dpem.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for module in (plan, schema, check, fit, sample, predict, report, audit, reproduce, demo):
    module.register(app)
app.add_typer(budget.app, name="budget")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments (default: `sys.argv`) and return its exit code."""
    before = sys.stdout
    try:
        return _main(arguments)
    finally:
        if sys.stdout is not before:  # a command replaced it, because the reader of the pipe had gone
            sys.stdout.close()
            sys.stdout = before


def _main(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--json" not in given:
        return _exit_code(given, standalone=True)
    try:
        return _exit_code(given, standalone=False)
    except Exception as error:
        message: Any = getattr(error, "format_message", None)  # click's errors for invalid arguments have it
        if message is None:
            raise
        Console(as_json=True).fail("UsageError", message(), ExitCode.ARGUMENTS)
        return int(ExitCode.ARGUMENTS)


def _exit_code(arguments: Sequence[str], *, standalone: bool) -> int:
    try:
        # app(...) would replace sys.excepthook for the whole process.
        code = typer.main.get_command(app)(list(arguments), prog_name="dpem", standalone_mode=standalone)
    except SystemExit as end:
        code = end.code
    return int(code) if isinstance(code, int) else 0


def run() -> None:
    """Run the command and end the process: the entry point of the script `dpem`."""
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe: keep Python from reporting it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
