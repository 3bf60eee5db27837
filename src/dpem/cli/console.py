"""What a person or a program sees: text or JSON on standard output, the rest on standard error."""

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
    OutputError,
    ResumeFileError,
)
from dpem.gate.progress import listening

__all__ = ["Console", "ExitCode", "command", "number"]


class ExitCode(IntEnum):
    """Exit codes of the process."""

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
    """A terminal whose reader may close the pipe; the command handles that, rich does not exit."""

    def on_broken_pipe(self) -> None:
        """Raise again."""
        raise BrokenPipeError


class Console:
    """Output of a command: `say` and `table` for people, `result` for programs."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.warnings: list[str] = []
        self._out = _Screen(highlight=False, emoji=False)
        self._err = _Screen(stderr=True, highlight=False, emoji=False)

    # -- for people --------------------------------------------------------------------------------------

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a paragraph, as it is."""
        if not self.as_json:
            self._out.print(rich.markup.escape(text), style=style)

    def line(self, text: str, style: str | None = None) -> None:
        """Print what may be copied, such as a path or a command: it is never broken into lines."""
        if not self.as_json:
            self._out.print(rich.markup.escape(text), style=style, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Print the title of a part."""
        if not self.as_json:
            self._out.print(f"\n[bold]{rich.markup.escape(text)}[/bold]")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, left: int = 1) -> None:
        """Print a table; the first `left` columns are text."""
        if self.as_json:
            return
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for j, name in enumerate(columns):
            table.add_column(
                rich.markup.escape(name), justify="left" if j < left else "right", overflow="fold"
            )
        for row in rows:
            table.add_row(*(rich.markup.escape(str(cell)) for cell in row))
        self._out.print(table)

    def warn(self, text: str) -> None:
        """Print a warning on standard error; JSON holds it too."""
        text = for_the_command(text)
        self.warnings.append(text)
        self._err.print(f"[yellow]Warning:[/yellow] {rich.markup.escape(text)}", soft_wrap=True)

    def note(self, text: str) -> None:
        """Print something on standard error."""
        self._err.print(rich.markup.escape(text), soft_wrap=True)

    @contextmanager
    def releases(self, what: str) -> Iterator[None]:
        """Show a bar of the releases that fits inside the block make."""
        with self._progress() as bar:
            task = bar.add_task(what, total=None)

            def listen(stage: str, done: int, planned: int) -> None:
                bar.update(task, description=f"{what}: {stage}", completed=done, total=planned)

            with listening(listen):
                yield
            bar.update(task, description=what, completed=1, total=1)

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar of rows; yield a function that tells how many more are done."""
        with self._progress() as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)

    @contextmanager
    def tasks(self) -> Iterator[Callable[[str, int, int], None]]:
        """Show a bar for each of several jobs; yield a function that tells how far one is."""
        with self._progress() as bar:
            bars: dict[str, rich.progress.TaskID] = {}

            def tell(name: str, done: int, total: int) -> None:
                if name not in bars:
                    bars[name] = bar.add_task(name, total=total)
                bar.update(bars[name], completed=done)

            yield tell

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
        """Print the one JSON object of a command that was asked for it."""
        if self.as_json:
            whole = content | ({"warnings": self.warnings} if "warnings" not in content else {})
            sys.stdout.write(json.dumps(_finite(whole), indent=2, default=str) + "\n")

    def fail(self, kind: str, message: str, code: ExitCode, notes: Sequence[str] = ()) -> None:
        """Say what went wrong."""
        message = for_the_command(message)
        notes = [for_the_command(note) for note in notes]
        if self.as_json:
            error = {"type": kind, "message": message, "exit_code": int(code), "notes": list(notes)}
            sys.stdout.write(json.dumps({"error": error}, indent=2) + "\n")
            return
        self._err.print(f"[bold red]Error:[/bold red] {rich.markup.escape(message)}", soft_wrap=True)
        for note in notes:
            self.note(note)


# What the library advises to do in Python, and what does the same here.
_HERE: tuple[tuple[str, str], ...] = (
    (r"with dpem\.Files\(path, header=\[\.\.\.\]\), or --header", "with --header a,b,c"),
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
    (r"KMeans with scale='none'", "--model kmeans --scale none"),
    (r"scale='bounds'", "--scale bounds"),
)  # fmt: skip


def for_the_command(text: str) -> str:
    """Return a message with remedies for the command line instead of remedies for Python.

    Examples
    --------
    >>> for_the_command("Declare them, or estimate them with dpem.private_bounds.")
    'Declare them, or buy them with --estimate-bounds 0.1.'
    """
    for pattern, here in _HERE:
        text = re.sub(pattern, here, text)
    return text


def number(value: float, digits: int = 3) -> str:
    """Format a number for people: a few digits, and an exponent only if it is needed."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def _finite(value: Any) -> Any:
    """Return data with infinite numbers as text, which JSON cannot hold as numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def command(app: typer.Typer, name: str, function: Callable[..., Any], *example: str) -> None:
    """Register a command: a function whose first argument is the console, with examples for its help.

    Errors that a person can mend end it with their message and an exit code of their own; anything else is
    a defect, told by its place alone, since what a library says of it may show a value of the table.
    """

    @functools.wraps(function)
    def wrapped(**arguments: Any) -> None:
        console = Console(as_json=bool(arguments.pop("as_json")))
        with _showing_warnings(console), _telling_errors(console):
            function(console, **arguments)
            sys.stdout.flush()

    parameters = dict(function.__annotations__)
    parameters.pop("console")
    parameters.pop("return", None)
    wrapped.__signature__ = _signature(function)  # type: ignore[attr-defined]
    wrapped.__annotations__ = parameters | {"as_json": bool}
    del wrapped.__wrapped__  # typer would look at it
    lines = "\n\n".join(example)
    app.command(name, epilog=f"Example:\n\n{lines}")(wrapped)


def _signature(function: Callable[..., Any]) -> Any:
    import inspect  # noqa: PLC0415

    signature = inspect.signature(function)
    json_option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False, "--json", help="Print one JSON object, for programs."),
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
    """Print the package's own warnings; silence those of libraries, which may show values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DpemWarning)
        warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
        yield


def _close_output() -> None:
    """Close standard output for the rest of the process, the final flush included."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


@contextmanager
def _telling_errors(console: Console) -> Iterator[None]:
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
    except typer.Abort:  # at a question
        code = ExitCode.INTERRUPTED
        console.fail("Interrupted", "Interrupted. No output was written.", code)
    except typer.Exit:
        raise
    except BrokenPipeError:  # whoever read standard output has seen enough
        _close_output()
        code = ExitCode.DONE
    except MemoryError:
        code = ExitCode.ROWS
        console.fail("MemoryError", "Expected rows that fit into memory, got more. Give fewer at once.", code)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            _close_output()
            Console(as_json=False).fail(
                "OutputError", "Expected room for the output, got a full disk.", ExitCode.FILES
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
            f"A defect of dpem: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}. "
            f"Please report it. DPEM_DEBUG=1 shows more, possibly values of your table.",
            code,
            getattr(error, "__notes__", ()),
        )
    else:
        return
    raise typer.Exit(int(code))
