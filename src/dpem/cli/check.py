"""`dpem check`: how well a schema reads a table, for the owner of the rows."""

from pathlib import Path
from typing import Annotated

import typer

import dpem
from dpem.cli import options
from dpem.cli.console import Console, command, with_command_remedies

__all__ = ["register"]


def check(
    console: Console,
    data: options.DataArgument,
    schema: Annotated[Path, typer.Option("--schema", "-s", help="Schema file (see dpem schema).")],
    columns: options.ColumnsOption = None,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    encoding: options.EncodingOption = "utf-8",
) -> None:
    """Check how well a schema reads a table, before any budget is spent. NOT FOR RELEASE.

    The output is computed from the rows without noise, for their owner only. If cells have another format
    than declared, it names the line of the schema to change. Exit code 1: the schema reads less than 99 % of
    the cells of some column.
    """
    declared = options.chosen_schema(schema, columns)
    files = options.table_files(data, delimiter, header, encoding)
    found = dpem.check_table(files, declared, person=person, rows_per_person=rows_per_person)
    console.line(with_command_remedies(str(found)))
    console.result(
        {
            "notice": "NOT FOR RELEASE",
            "rows": found.n_rows,
            "columns": [vars(column) for column in found.columns],
            "findings": list(found.findings),
            "is_read": found.is_read,
        }
    )
    if not found.is_read:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "check", check, "dpem check patients.csv --schema patients.toml")
