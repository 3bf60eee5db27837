"""`dpem audit`: attack the installed dpem, and check that the attacks detect seeded bugs."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpem._files import replacing
from dpem.cli.console import Console, ExitCode, command
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dpem.audit.run import Size

__all__ = ["register"]


def audit(
    console: Console,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Markdown file to write with all findings.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", help="Name of a model (see dpem fit --model), or text that names of audits contain."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer attacks: minutes instead of half an hour.")
    ] = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Number of processes.")] = 2,
) -> None:
    """Attack the installed dpem on generated data: replays, distinguishing games and seeded bugs.

    Your data is not read and no budget is spent.
    """
    from dpem.audit.findings_page import audit_page, summary  # noqa: PLC0415
    from dpem.audit.run import run_audit, tasks  # noqa: PLC0415

    size: Size = "tiny" if tiny else "quick" if quick else "full"
    chosen = tasks(size, only)
    if not chosen:
        raise InvalidArgumentError(
            f"Expected a model, or text that names of audits contain, got --only {only!r}. No audit has such "
            f"a name."
        )
    started = time.monotonic()
    try:
        with console.tasks() as progress:
            findings = run_audit(chosen, jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        console.fail("Interrupted", "Interrupted. No output was written.", ExitCode.INTERRUPTED)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    seconds = time.monotonic() - started
    lines = summary(findings)
    console.table(
        ["audit", "reached", "run", "failed"],
        [[title, said, n, bad] for title, n, bad, said in lines],
        left=2,
    )
    if output is not None:
        with replacing(output) as target:
            target.write_text(audit_page(findings, size, seconds), encoding="utf-8")
        console.line(f"Wrote {output} in {seconds:.0f} seconds.")
    failed = [finding.text for finding in findings if not finding.passed]
    console.result(
        {
            "audits": len(findings),
            "failed": failed,
            "summary": [
                dict(zip(("audit", "run", "failed", "reached"), line, strict=True)) for line in lines
            ],
            "page": None if output is None else str(output),
            "seconds": round(seconds, 1),
        }
    )
    if failed:
        for said in failed:
            console.warn(said)
        raise typer.Exit(int(ExitCode.DEFECT))


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "audit", audit, "dpem audit --quick", "dpem audit --only kmeans -o audit.md")
