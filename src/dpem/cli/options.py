"""Options that several commands share, and how their text is read."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem.errors import InsufficientBudgetError, InvalidArgumentError
from dpem.registry import make, model_names, shipped

__all__ = ["estimator_of", "named_numbers", "pairs", "table_files"]

DEFAULT_DELTA = 1e-6


def _model_names(beginning: str) -> list[str]:
    """Return the models whose name begins so, for a shell that completes."""
    return [name for name in model_names() if name.startswith(beginning)]


class Covariance(StrEnum):
    """The form of a mixture's covariances."""

    FULL = "full"
    TIED = "tied"
    DIAG = "diag"
    SPHERICAL = "spherical"


class Scale(StrEnum):
    """The units of distances between rows."""

    BOUNDS = "bounds"
    NONE = "none"


class Relation(StrEnum):
    """Which tables are neighbours."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


DEFAULT_MODEL = "mixture"
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help=". ".join(f"{entry.name}: {entry.summary}" for entry in shipped().values())
        + ". Or a model that an installed package registers.",
        autocompletion=_model_names,
    ),
]
DataArgument = Annotated[
    list[Path],
    typer.Argument(help="CSV, Parquet or Arrow files of the table; - reads CSV from standard input."),
]
ScaleOption = Annotated[
    Scale | None,
    typer.Option(
        "--scale",
        help="Distances of k-means: in widths of the bounds (the default), or in the columns' own units.",
    ),
]
ComponentsOption = Annotated[
    int | None,
    typer.Option(
        "--components", "-k", help="Components, clusters, factors or classes; each model has a default."
    ),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget.")]
DeltaOption = Annotated[
    float, typer.Option("--delta", help="The other half of the budget: well below 1 / rows.")
]
RelationOption = Annotated[
    Relation,
    typer.Option("--adjacency", help="replace_one: the number of rows is public. add_remove: it is private."),
]
RowsPerPersonOption = Annotated[
    int, typer.Option("--rows-per-person", help="The most rows of one person; the guarantee is for persons.")
]
PersonOption = Annotated[
    str | None,
    typer.Option(
        "--person",
        help="The column that tells persons apart: what one has above --rows-per-person is left out.",
    ),
]
PurposeOption = Annotated[
    str | None, typer.Option("--purpose", help="What the ledger notes beside what is released.")
]
AnalystOption = Annotated[
    str | None, typer.Option("--analyst", help="Who asks: the user of the system unless given.")
]
CovarianceOption = Annotated[Covariance, typer.Option("--covariance", help="Of a mixture.")]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="Of a table: the column whose relation to the others is kept.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", help="Columns to use, such as age,bmi: all of the schema unless given."),
]
DelimiterOption = Annotated[str, typer.Option("--delimiter", help="Field separator of CSV files.")]
HeaderOption = Annotated[
    str | None,
    typer.Option("--header", help="Names of all columns of CSV files that have no line of names: a,b,c."),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an output file that exists.")]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Seeds free choices such as sampling. It never touches the noise."),
]


def table_files(
    paths: Sequence[Path], delimiter: str, header: str | None = None, columns: Sequence[str] | None = None
) -> "dpem.Files":
    """Return the files of a table."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    names = None if header is None else _names(header)
    found = [_standard_input() if str(path) == "-" else str(path) for path in paths]
    return dpem.Files(found, delimiter=delimiter, header=names, columns=columns)


@lru_cache(maxsize=1)
def _standard_input() -> str:
    """Return a file, for this process and its owner alone, with what standard input holds.

    A fit reads its rows several times, which a pipe does not allow.
    """
    handle, name = tempfile.mkstemp(prefix="dpem-", suffix=".csv")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return name


def checked_ledger(
    path: Path | None,
    schema: "dpem.Schema | None",
    adjacency: Relation,
    unit: Any,
    **noted: str | None,
) -> Any:
    """Return the ledger, where it is one for such releases from this table."""
    from dpem.gate.payment import opened_ledger  # noqa: PLC0415  (help and version stay quick)

    if path is None:
        if any(text is not None for text in noted.values()):
            raise InvalidArgumentError(
                "Expected --ledger with --purpose and --analyst, got none: there they are noted."
            )
        return None
    ledger = opened_ledger(dpem.Ledger(path, **noted), schema)
    if ledger is not None:
        ledger.check_terms(adjacency.value, unit)
    return ledger


def require_budget(ledger: Any, epsilon: float, delta: float) -> None:
    """Raise where a ledger cannot pay for all that a command will ask of it."""
    from dpem.privacy.budget import Budget  # noqa: PLC0415

    if ledger is None:
        return
    left, wanted = ledger.remaining(), Budget.from_epsilon(epsilon, delta)
    if wanted.mu > left.mu:
        raise InsufficientBudgetError(left, Budget.from_mu(wanted.mu, left.delta), ledger.name)


def chosen_schema(path: Path, columns: str | None) -> "dpem.Schema":
    """Return the schema of a file, or some of its columns."""
    schema = dpem.Schema.read(path)
    return schema if columns is None else schema.select(_names(columns))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return NAME=VALUE options by name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise InvalidArgumentError(f"Expected NAME=VALUE for {option}, got {text!r}.")
        if name in found:
            raise InvalidArgumentError(f"Expected each name once for {option}, got {name!r} twice.")
        found[name.strip()] = value.strip()
    return found


def named_numbers(texts: Sequence[str] | None, option: str) -> dict[str, float]:
    """Return NAME=NUMBER options by name."""
    return {name: as_number(value, f"{option} {name}") for name, value in pairs(texts, option).items()}


def as_number(text: str, option: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError as error:
        raise InvalidArgumentError(f"Expected a number for {option}, got {text!r}.") from error


def estimator_of(
    model: str,
    components: int | None,
    *,
    schema: "dpem.Schema | None",
    covariance: Covariance,
    target: str | None,
    scale: Scale | None = None,
    **common: Any,
) -> Any:
    """Return the estimator that options ask for; say what does not belong together."""
    given = {
        "covariance": None if covariance is Covariance.FULL else covariance.value,
        "target": target,
        "scale": None if scale is None else scale.value,
    }
    chosen = {option: value for option, value in given.items() if value is not None}
    return make(model, components, schema, chosen, **common)
