"""Write docs/reference/options.md: every command of `dpem` with its arguments and options.

The page is generated from the parser of the command when the documentation is built.
`tests/docs/test_options.py` compares it with the output of `--help`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpem.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "reference" / "options.md"


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Yield the full name of each command, the command and its context; groups come before their commands."""
    yield from _below(typer.main.get_command(app), "dpem", None)


def _below(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield context.command_path, command, context
    for entry in getattr(command, "commands", ()):
        yield from _below(command.get_command(context, entry), entry, context)


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from ("# Options of the command", "")
    yield (
        "Every command with its arguments and options, as `--help` lists them. "
        "[](command.md) shows the commands at work."
    )
    for path, command, context in commands():
        yield from ("", f"## `{path}`", "")
        yield from ((command.help or "").strip(), "", "```text")
        yield " ".join([path, *command.collect_usage_pieces(context)])
        yield from ("```", "")
        yield from ("| argument or option | meaning | default |", "|---|---|---|")
        for parameter in command.get_params(context):
            if record := parameter.get_help_record(context):  # None if hidden
                yield _row(parameter, *record)
        if examples := list(_examples(command.epilog or "")):
            yield from ("", "Example:", "", "```text", *examples, "```")


def _examples(epilog: str) -> Iterator[str]:
    """Yield the commands at the end of a help text."""
    for paragraph in re.split(r"\n\s*\n", epilog):
        if paragraph.strip().startswith("dpem "):
            yield " ".join(paragraph.split())


def _row(parameter: Any, written: str, meaning: str) -> str:
    default = re.search(r"\s*\[default: (.*?)\]$", meaning)
    meaning = re.sub(r"\s*\[(default: .*?|required)\]$", "", meaning)
    repeated = "list[" in written and parameter.param_type_name == "option"
    if repeated and "Repeatable" not in meaning:
        meaning = f"{meaning.removesuffix('.')}. Repeatable."
    written = re.sub(r"list\[(\w+)\]", r"\1", written)
    last = "required" if parameter.required else f"`{default[1]}`" if default else ""
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in (f"`{written}`", meaning, last)) + " |"


def write_page(*_: Any) -> None:
    """Write the page; called when Sphinx begins."""
    PAGE.write_text("\n".join([*lines(), ""]), encoding="utf-8")


def setup(sphinx: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    sphinx.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
