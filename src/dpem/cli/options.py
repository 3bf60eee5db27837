"""Options that several commands share, and the parsing of their values."""

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
    """Return the model names that begin with the typed text, for shell completion."""
    return [name for name in model_names() if name.startswith(beginning)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a valid number, such as 0.5.") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number, such as 3.") from None


class Covariance(StrEnum):
    """The covariance types of a mixture, as in `statistics/gaussian.py`, which is slow to import."""

    FULL = "full"
    TIED = "tied"
    DIAG = "diag"
    SPHERICAL = "spherical"


class Scale(StrEnum):
    """The units of distances between rows."""

    BOUNDS = "bounds"
    NONE = "none"


class Relation(StrEnum):
    """The neighbouring relations."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


DEFAULT_MODEL = "mixture"
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help=". ".join(f"{entry.name}: {entry.summary}" for entry in shipped().values())
        + ". Or the name of a model that an installed package registers.",
        autocompletion=_model_names,
    ),
]
DataArgument = Annotated[
    list[Path],
    typer.Argument(help="CSV, Parquet or Arrow files; - reads CSV from standard input."),
]
ScaleOption = Annotated[
    Scale | None,
    typer.Option(
        "--scale",
        help="Units of k-means distances: widths of the bounds (default), or units of the columns.",
    ),
]
ComponentsOption = Annotated[
    int | None,
    typer.Option(
        "--components",
        "-k",
        parser=_whole,
        metavar="<int>",
        help="Number of components, clusters, factors or classes; the default depends on the model.",
    ),
]
EpsilonOption = Annotated[
    float,
    typer.Option("--epsilon", "-e", parser=_number, metavar="<float>", help="Epsilon of the privacy budget."),
]
DeltaOption = Annotated[
    float, typer.Option("--delta", help="Delta of the privacy budget; choose it well below 1 / rows.")
]
RelationOption = Annotated[
    Relation,
    typer.Option(
        "--adjacency",
        help="Neighbouring relation. replace_one: the number of rows is public; add_remove: it is private.",
    ),
]
RowsPerPersonOption = Annotated[
    int,
    typer.Option(
        "--rows-per-person", help="Maximum number of rows of one person; the guarantee then covers persons."
    ),
]
PersonOption = Annotated[
    str | None,
    typer.Option(
        "--person",
        help="Column that identifies persons; rows above --rows-per-person are left out.",
    ),
]
PurposeOption = Annotated[str | None, typer.Option("--purpose", help="Purpose to record in the ledger.")]
AnalystOption = Annotated[
    str | None, typer.Option("--analyst", help="Analyst to record in the ledger; the system user by default.")
]
CovarianceOption = Annotated[Covariance, typer.Option("--covariance", help="Covariance type of a mixture.")]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", help="Column that --model table models together with every other column."),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", help="Columns to use, such as age,bmi; all columns of the schema by default."),
]
DelimiterOption = Annotated[str, typer.Option("--delimiter", help="Field separator of CSV files.")]
HeaderOption = Annotated[
    str | None,
    typer.Option("--header", help="Column names a,b,c for CSV files without a header line."),
]
EncodingOption = Annotated[
    str,
    typer.Option("--encoding", help="Encoding of CSV files, such as cp1252 for files from Windows."),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output file.")]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="Seed for post-processing such as sampling. The noise is never seeded."),
]


def table_files(
    paths: Sequence[Path], delimiter: str, header: str | None = None, encoding: str = "utf-8"
) -> "dpem.Files":
    """Return the files of a table; "-" stands for standard input."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    names = None if header is None else _names(header)
    found = [_standard_input() if str(path) == "-" else str(path) for path in paths]
    return dpem.Files(found, delimiter=delimiter, header=names, encoding=encoding)


@lru_cache(maxsize=1)
def _standard_input() -> str:
    """Copy standard input to a temporary file that only this user can read, and return its name.

    A fit reads the rows several times, and a pipe can be read only once.
    """
    handle, name = tempfile.mkstemp(prefix="dpem-", suffix=".csv")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return name


_FORMATS = (
    *(".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".xlsx", ".xls", ".json", ".toml"),
    *(".pdf", ".html", ".htm", ".docx", ".md", ".txt", ".png", ".svg", ".pkl", ".joblib", ".npz", ".dpem"),
)


def refuse_other_format(output: Path, what: str, endings: Sequence[str], remedy: str) -> None:
    """Raise if the name of an output file ends like a file of another known format."""
    if output.suffix.lower() in _FORMATS and output.suffix.lower() not in endings:
        raise InvalidArgumentError(
            f"Expected a file name for {what}, such as one that ends in {endings[0]}, got --output "
            f"{str(output)!r}. {remedy}"
        )


def checked_ledger(
    path: Path | None,
    schema: "dpem.Schema | None",
    adjacency: Relation,
    unit: Any,
    **noted: str | None,
) -> Any:
    """Open the ledger and check its table, neighbouring relation and privacy unit."""
    from dpem.gate.payment import open_ledger  # noqa: PLC0415  (help and version stay quick)

    if path is None:
        if any(text is not None for text in noted.values()):
            raise InvalidArgumentError(
                "Expected --ledger beside --purpose or --analyst, got none. The ledger records both: pass "
                "--ledger FILE, or leave them out."
            )
        return None
    ledger = open_ledger(dpem.Ledger(path, **noted), schema)
    if ledger is not None:
        ledger.check_terms(adjacency.value, unit)
    return ledger


def require_budget(ledger: Any, epsilon: float, delta: float) -> None:
    """Raise if the ledger does not cover all releases of the command."""
    from dpem.privacy.budget import Budget  # noqa: PLC0415

    if ledger is None:
        return
    left, wanted = ledger.remaining(), Budget.from_epsilon(epsilon, delta)
    if wanted.mu > left.mu:
        raise InsufficientBudgetError(left, Budget.from_mu(wanted.mu, left.delta), ledger.name)


def chosen_schema(path: Path, columns: str | None) -> "dpem.Schema":
    """Read the schema file and select the given columns, if any."""
    schema = dpem.Schema.read(path)
    return schema if columns is None else schema.select(_names(columns))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(
    texts: Sequence[str] | None, option: str, form: str = "NAME=VALUE", remedy: str = ""
) -> dict[str, str]:
    """Parse options of the form NAME=VALUE."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise InvalidArgumentError(f"Expected {form} for {option}, got {text!r}. {remedy}".rstrip())
        if name in found:
            raise InvalidArgumentError(f"Expected each name once for {option}, got {name!r} twice.")
        found[name.strip()] = value.strip()
    return found


def named_numbers(texts: Sequence[str] | None, option: str) -> dict[str, float]:
    """Parse options of the form NAME=NUMBER."""
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
    """Create the estimator; raise if the model does not support one of the options."""
    given = {
        "covariance": None if covariance is Covariance.FULL else covariance.value,
        "target": target,
        "scale": None if scale is None else scale.value,
    }
    chosen = {option: value for option, value in given.items() if value is not None}
    return make(model, components, schema, chosen, **common)
