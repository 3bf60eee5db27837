"""`dpem reproduce`: regenerate the figures of the DP-EM paper."""

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpem.cli.console import Console, ExitCode, command
from dpem.errors import DataError

if TYPE_CHECKING:
    from dpem.reproduce.datasets import Size

__all__ = ["register"]


class _Name(StrEnum):
    motivation = "motivation"
    lifesci = "lifesci"
    stroke = "stroke"
    gowalla = "gowalla"
    olivetti = "olivetti"
    all = "all"


def reproduce(
    console: Console,
    experiments: Annotated[list[_Name], typer.Argument(help="Figures to regenerate.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the page, tables and figures.")
    ] = Path("dpem-reproduction"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of the real data sets (or DPEM_DATA); generated stand-ins replace missing ones.",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download missing data sets and check their checksums.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer folds and rows: minutes instead of hours.")
    ] = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Number of processes; results do not depend on it.")
    ] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the results of earlier runs.")] = False,
) -> None:
    """Regenerate the figures of the DP-EM paper, with dpem's results beside them.

    An interrupted run continues when the command is run again.
    """
    from dpem.reproduce import EXPERIMENTS, Datasets  # noqa: PLC0415
    from dpem.reproduce import reproduce as run  # noqa: PLC0415
    from dpem.reproduce.downloads import fetch  # noqa: PLC0415

    folder = data or (Path(os.environ["DPEM_DATA"]) if os.environ.get("DPEM_DATA") else None)
    if folder is not None and not folder.is_dir() and not download:
        raise DataError(
            f"Expected a folder of data sets for --data, got {str(folder)!r}, which is not a folder. Pass "
            f"--download to create it."
        )
    chosen = list(EXPERIMENTS) if _Name.all in experiments else list(dict.fromkeys(map(str, experiments)))
    size: Size = "tiny" if tiny else "quick" if quick else "full"
    if download:
        folder = folder or Path("dpem-data")
        asked = Datasets(str(folder), size)
        used = {task.data for name in chosen for task in EXPERIMENTS[name].tasks(asked)}
        for name in fetch(folder, sorted(used), progress=console.note):
            console.say(f"Fetched {name}.")
    source = Datasets(None if folder is None else str(folder), size)
    if folder is None:
        console.warn(
            "The figures are of generated stand-ins, because no folder of data sets was given. Pass --data "
            "or --download, or set DPEM_DATA."
        )
    started = time.monotonic()
    try:
        with console.tasks() as progress:
            done = run(chosen, source, output, jobs=jobs, fresh=fresh, progress=progress)
    except KeyboardInterrupt:
        kept = "Interrupted. The results so far are kept: run the same command again to continue."
        console.fail("Interrupted", kept, ExitCode.INTERRUPTED)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    seconds = time.monotonic() - started
    console.line(f"Wrote {done.page} in {seconds:.0f} seconds.")
    stems = [output / "reproduction" / source.file_name(name) for name in chosen]
    console.result(
        {
            "page": str(done.page),
            "results": [f"{stem}.csv" for stem in stems],
            "figures": [f"{stem}.png" for stem in stems],
            "seconds": round(seconds, 1),
        }
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "reproduce",
        reproduce,
        "dpem reproduce lifesci --quick",
        "dpem reproduce all --data data -o docs",
    )
