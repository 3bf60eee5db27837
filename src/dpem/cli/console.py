"""Output of commands: text or JSON on standard output, warnings and errors on standard error."""

import errno
import functools
import json
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import rich.box
import rich.console
import rich.markup
import rich.progress
import rich.table
import typer

from dpem.errors import (
    BudgetError,
    DataError,
    DpemError,
    DpemWarning,
    EngineError,
    InsufficientBudgetError,
    LedgerError,
    ModelFileError,
    NoLedgerWarning,
    OutputError,
    ResumeFileError,
)
from dpem.gate.progress import listening

__all__ = ["Console", "ExitCode", "command", "number"]


class ExitCode(IntEnum):
    """Exit codes of the command."""

    DONE = 0
    DEFECT = 1
    ARGUMENTS = 2
    BUDGET = 3
    ROWS = 4
    FILES = 5
    INTERRUPTED = 130


_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (InsufficientBudgetError, ExitCode.BUDGET),
    (BudgetError, ExitCode.ARGUMENTS),
    (DataError, ExitCode.ROWS),
    (EngineError, ExitCode.ROWS),
    (LedgerError, ExitCode.FILES),
    (ModelFileError, ExitCode.FILES),
    (OutputError, ExitCode.FILES),
    (ResumeFileError, ExitCode.FILES),
    (DpemError, ExitCode.ARGUMENTS),
)


class _Screen(rich.console.Console):
    """A rich console that leaves a closed pipe to the command, instead of ending the process."""

    def on_broken_pipe(self) -> None:
        """Raise the exception again."""
        raise BrokenPipeError


class Console:
    """The output of a command: `say` and `table` for people, `result` for programs."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.warnings: list[str] = []
        self._out = _Screen(highlight=False, emoji=False)
        self._err = _Screen(stderr=True, highlight=False, emoji=False)

    # -- for people --------------------------------------------------------------------------------------

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a paragraph."""
        if not self.as_json:
            self._out.print(rich.markup.escape(text), style=style)

    def line(self, text: str, style: str | None = None) -> None:
        """Print a path or a command on one line, so that it can be copied."""
        if not self.as_json:
            self._out.print(rich.markup.escape(text), style=style, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print a heading."""
        if not self.as_json:
            self._out.print(f"\n[bold]{rich.markup.escape(text)}[/bold]")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, left: int = 1) -> None:
        """Print a table; the first `left` columns are text, and aligned to the left."""
        if self.as_json:
            return
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        texts = [[name, *(str(row[j]) for row in rows)] for j, name in enumerate(columns)]
        widths = _column_widths(texts, self._out.width - 3 * len(columns) + 1)
        for j, (name, width) in enumerate(zip(columns, widths, strict=True)):
            table.add_column(
                rich.markup.escape(name),
                justify="left" if j < left else "right",
                overflow="fold",
                width=width,
            )
        for row in rows:
            table.add_row(*(rich.markup.escape(str(cell)) for cell in row))
        self._out.print(table)

    def warn(self, text: str) -> None:
        """Print a warning on standard error, and keep it for the JSON result."""
        text = with_command_remedies(text)
        self.warnings.append(text)
        self._err.print(f"[yellow]Warning:[/yellow] {rich.markup.escape(text)}", soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line on standard error."""
        self._err.print(rich.markup.escape(text), soft_wrap=True)

    @contextmanager
    def releases(self, what: str) -> Iterator[None]:
        """Show a progress bar of the releases made in this context."""
        with self._progress() as bar:
            task = bar.add_task(what, total=None)

            def listen(stage: str, done: int, planned: int) -> None:
                bar.update(task, description=f"{what}: {stage}", completed=done, total=planned)

            with listening(listen):
                yield
            bar.update(task, description=what, completed=1, total=1)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar of rows; yield a function that advances it by a number of rows."""
        with self._progress() as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)

    @contextmanager
    def tasks(self) -> Iterator[Callable[[str, int, int], None]]:
        """Show one progress bar for each job; yield a function that updates the bar of a job."""
        with self._progress() as bar:
            bars: dict[str, rich.progress.TaskID] = {}

            def update(name: str, done: int, total: int) -> None:
                if name not in bars:
                    bars[name] = bar.add_task(name, total=total)
                bar.update(bars[name], completed=done)

            yield update

    def _progress(self) -> rich.progress.Progress:
        return rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
            console=self._err,
            disable=not self._err.is_terminal,
            transient=True,
        )

    # -- for programs ------------------------------------------------------------------------------------

    def result(self, content: dict[str, Any]) -> None:
        """Print the JSON object of the command if `--json` was given."""
        if self.as_json:
            whole = content | ({"warnings": self.warnings} if "warnings" not in content else {})
            sys.stdout.write(json.dumps(_finite(whole), indent=2, default=str) + "\n")

    def fail(self, kind: str, message: str, code: ExitCode, notes: Sequence[str] = ()) -> None:
        """Print an error, as text or as JSON."""
        message = with_command_remedies(message)
        notes = [with_command_remedies(note) for note in notes]
        if self.as_json:
            error = {"type": kind, "message": message, "exit_code": int(code), "notes": list(notes)}
            sys.stdout.write(json.dumps({"error": error}, indent=2) + "\n")
            return
        self._err.print(f"[bold red]Error:[/bold red] {rich.markup.escape(message)}", soft_wrap=True)
        for note in notes:
            self.note(note)


# Remedies for Python in the messages of the library, and the same remedies as options of the command.
_COMMAND_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"with dpem\.Files\(path, header=\[\.\.\.\]\), or --header", "with --header a,b,c"),
    (r"with dpem\.Files\(path, delimiter=\";\"\), or --delimiter", "with --delimiter"),
    (r"with dpem\.Files\(path, encoding=\"cp1252\"\), or --encoding", "with --encoding cp1252"),
    (r"Pass the format with dpem\.Files\(path, format=\)", "Rename the files"),
    (r"in dpem\.Files\(path, columns=\[\.\.\.\]\)", "with --columns"),
    (r"Use schema\.select\(\[\.\.\.\]\)", "Choose them with --columns"),
    (r"with schema\.select", "with --columns"),
    (r"Use schema\.filled\(\), which .*? with missing='em'\.", "Use --model mixture or --model table."),
    (r", or use a model for categories, such as dpem\.CategoricalMixture", ", or use --model table"),
    (r"or estimate them with dpem\.private_bounds", "or buy them with --estimate-bounds 0.1"),
    (r"Run dpem check, or dpem\.check_table, on the table", "Run dpem check on the table"),
    (r"with dpem\.Ledger\.create\(\.\.\.\), or dpem budget init", "with dpem budget init"),
    (
        r"Or estimate bounds for a charge with dpem\.private_bounds",
        "Or estimate bounds for a charge with dpem schema --bounds-epsilon",
    ),
    (r"Estimate them with ledger=\.\.\.,", "Estimate them with --ledger,"),
    (r"Give (it|a ledger) with (set_params\()?ledger=\.\.\.\)?", r"Give \1 with --ledger"),
    (r"such as bounds=\[0, 100\]", "such as bounds = [0, 100]"),
    (r'such as categories=\["a", "b"\]', 'such as categories = ["a", "b"]'),
    (r"Name the target before the fit: MixedMixture\(\.\.\., target='\.\.\.'\)", "Fit a model with --target"),
    (r", and keep models with save\(\) and dpem\.load", ""),
    (r"\bn_(?:components|clusters|factors)=", "-k "),
    (r"\bn_(?:components|clusters|factors)\b", "-k"),
    (r"\bcovariance_type='(\w+)'", r"--covariance \1"),
    (r"\bcovariance_type\b", "--covariance"),
    (r"KMeans with scale='none'", "--model kmeans --scale none"),
    (r"scale='bounds'", "--scale bounds"),
)  # fmt: skip


def with_command_remedies(text: str) -> str:
    """Return a message with remedies for the command line instead of remedies for Python.

    Examples
    --------
    >>> with_command_remedies("Declare them, or estimate them with dpem.private_bounds.")
    'Declare them, or buy them with --estimate-bounds 0.1.'
    """
    for pattern, remedy in _COMMAND_REMEDIES:
        text = re.sub(pattern, remedy, text)
    return text


def _column_widths(texts: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return widths of columns in which only the longest words are broken, and none if there is room.

    Examples
    --------
    >>> _column_widths([["no.", "1"], ["purpose", "a fit of patients"]], 14)
    [3, 11]
    >>> _column_widths([["2026-11-19 15:56"], ["marie.curie@example.org"]], 25)
    [10, 15]
    """
    whole = [max(map(len, column)) for column in texts]
    widths = [max(len(word) for text in column for word in text.split() or [""]) for column in texts]
    while sum(widths) > max(available, len(widths)):
        widths[widths.index(max(widths))] -= 1
    left = available - sum(widths)
    for j in sorted(range(len(texts)), key=lambda j: whole[j] - widths[j]):
        more = max(min(whole[j] - widths[j], left), 0)
        widths[j] += more
        left -= more
    return widths


def number(value: float, digits: int = 3) -> str:
    """Format a number with a few significant digits, and an exponent only if it is needed."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def _finite(value: Any) -> Any:
    """Return data with infinite numbers as text, because JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def command(app: typer.Typer, name: str, function: Callable[..., Any], *example: str) -> None:
    """Register a function, whose first argument is the console, as a command with examples in its help.

    The errors of dpem end the command with their message and their own exit code. Any other exception is a
    bug. Only its type and place are reported, because its message may show a value of the table.
    """

    @functools.wraps(function)
    def wrapped(**arguments: Any) -> None:
        console = Console(as_json=bool(arguments.pop("as_json")))
        with _showing_warnings(console), _reporting_errors(console):
            function(console, **arguments)
            sys.stdout.flush()

    parameters = dict(function.__annotations__)
    parameters.pop("console")
    parameters.pop("return", None)
    wrapped.__signature__ = _signature(function)  # type: ignore[attr-defined]
    wrapped.__annotations__ = parameters | {"as_json": bool}
    del wrapped.__wrapped__  # typer would read its signature instead
    lines = "\n\n".join(example)
    app.command(name, epilog=f"Example:\n\n{lines}")(wrapped)


def _signature(function: Callable[..., Any]) -> Any:
    import inspect  # noqa: PLC0415

    signature = inspect.signature(function)
    json_option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False, "--json", help="Print one JSON object instead of text."),
        annotation=bool,
    )
    own = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in signature.parameters.values()
        if p.name != "console"
    ]
    return signature.replace(parameters=[*own, json_option], return_annotation=None)


@contextmanager
def _showing_warnings(console: Console) -> Iterator[None]:
    """Print the warnings of dpem; silence those of libraries, which may show private values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DpemWarning)
        warnings.simplefilter("ignore", NoLedgerWarning)  # a command is one fit, and notes that it has none
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        yield


def _close_output() -> None:
    """Discard standard output for the rest of the process, including the final flush."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


@contextmanager
def _reporting_errors(console: Console) -> Iterator[None]:
    """Report exceptions and end the command with the exit code for them."""
    try:
        yield
    except DpemError as error:
        code = next(code for kind, code in _CODES if isinstance(error, kind))
        console.fail(type(error).__name__, str(error), code, getattr(error, "__notes__", ()))
    except KeyboardInterrupt as error:
        code = ExitCode.INTERRUPTED
        console.fail(
            "Interrupted", "Interrupted. No output was written.", code, getattr(error, "__notes__", ())
        )
    except typer.Abort:  # Ctrl-C at a question
        code = ExitCode.INTERRUPTED
        console.fail("Interrupted", "Interrupted. No output was written.", code)
    except typer.Exit:
        raise
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        _close_output()
        code = ExitCode.DONE
    except MemoryError:
        code = ExitCode.ROWS
        console.fail(
            "MemoryError",
            "Expected enough memory for the rows, got too little. Pass fewer rows at once.",
            code,
        )
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            _close_output()
            Console(as_json=False).fail(
                "OutputError",
                "Expected room for the output, got a full disk. Free some space and run the command again.",
                ExitCode.FILES,
            )
            raise typer.Exit(int(ExitCode.FILES)) from error
        if os.environ.get("DPEM_DEBUG") == "1" or type(error).__module__.partition(".")[0] in (
            "typer",
            "click",
        ):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        code = ExitCode.DEFECT
        console.fail(
            type(error).__name__,
            f"A bug in dpem: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}. "
            f"Please report it. DPEM_DEBUG=1 shows the traceback, which may contain values of your table.",
            code,
            getattr(error, "__notes__", ()),
        )
    else:
        return
    raise typer.Exit(int(code))
