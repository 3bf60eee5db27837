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

__all__ = ["Model", "estimator_of", "named_numbers", "pairs", "table_files"]

DEFAULT_DELTA = 1e-6


class Model(StrEnum):
    """What can be fitted."""

    MIXTURE = "mixture"
    KMEANS = "kmeans"
    FACTORS = "factors"
    TABLE = "table"


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


ModelOption = Annotated[
    Model,
    typer.Option(
        "--model",
        "-m",
        help="mixture: clusters with densities. kmeans: cluster centres. factors: factor analysis. table: "
        "synthetic rows of columns of every kind.",
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
    typer.Option("--components", "-k", help="Clusters, components or factors: 5, 8 or 2 unless given."),
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
    from dpem.gate.opened_ledger import opened_ledger  # noqa: PLC0415  (help and version stay quick)

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
    model: Model,
    components: int | None,
    *,
    schema: "dpem.Schema | None",
    covariance: Covariance,
    target: str | None,
    scale: Scale | None = None,
    **common: Any,
) -> Any:
    """Return the estimator that options ask for; say what does not belong together."""
    if target is not None and model is not Model.TABLE:
        raise InvalidArgumentError("Expected --target with --model table alone.")
    if covariance is not Covariance.FULL and model is not Model.MIXTURE:
        raise InvalidArgumentError("Expected --covariance with --model mixture alone.")
    if scale is not None and model is not Model.KMEANS:
        raise InvalidArgumentError("Expected --scale with --model kmeans alone.")
    if model is Model.TABLE:
        if schema is None:
            raise InvalidArgumentError("Expected --schema for --model table. Draft one with: dpem schema.")
        return dpem.MixedMixture(
            "auto" if components is None else components, schema=schema, target=target, **common
        )
    if schema is not None:
        schema = _of_numbers(schema, model)
    if model is Model.KMEANS:
        of_distances = None if scale is None else scale.value
        k = 8 if components is None else components
        return dpem.KMeans(k, schema=schema, scale=of_distances, **common)
    if model is Model.FACTORS:
        return dpem.FactorAnalysis(2 if components is None else components, schema=schema, **common)
    incomplete = schema is not None and any(column.missing for column in schema.columns)
    return dpem.GaussianMixture(
        5 if components is None else components,
        schema=schema,
        covariance_type=covariance.value,
        missing="em" if incomplete else None,
        **common,
    )


def _of_numbers(schema: "dpem.Schema", model: Model) -> "dpem.Schema":
    """Return the schema for a model of numbers, which has no use for categories."""
    categorical = [column.name for column in schema.columns if column.kind == "categorical"]
    if categorical:
        rest = [column.name for column in schema.columns if column.kind != "categorical"]
        remedy = f"Leave them out with --columns {','.join(rest)}, or take" if rest else "Take"
        raise InvalidArgumentError(
            f"Expected columns of numbers for --model {model.value}, got the categorical columns "
            f"{', '.join(map(repr, categorical))}. {remedy} --model table."
        )
    # Only the mixture knows what to do without a cell; elsewhere it goes to the middle of the bounds.
    return schema if model is Model.MIXTURE else schema.filled()
