"""`dpem budget`: create, show and verify the ledger of a table."""

from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem.cli import options
from dpem.cli.console import Console, command, number
from dpem.errors import InvalidArgumentError

__all__ = ["app"]

app = typer.Typer(help="Create, show and verify the ledger of a table.", no_args_is_help=True)

_Path = Annotated[Path, typer.Argument(help="Ledger file.")]


def init(
    console: Console,
    path: _Path,
    name: Annotated[str, typer.Option("--name", help="Name of the table, such as 'patients 2026'.")],
    epsilon: Annotated[
        float, typer.Option("--epsilon", "-e", help="Cap on the epsilon of all releases together.")
    ],
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
) -> None:
    """Create the ledger of a table, with a cap on its total budget. The cap cannot be changed later."""
    ledger = dpem.Ledger.create(
        path,
        name=name,
        cap_epsilon=epsilon,
        cap_delta=delta,
        adjacency=adjacency.value,
        rows_per_person=rows_per_person,
        person=person,
    )
    console.say(f"Created {path}: ledger of {name!r} with {ledger.cap}.")
    console.result(ledger.export() | {"path": str(path)})


def show(console: Console, path: _Path) -> None:
    """Show all charges, with date, purpose, analyst and cost, and the remaining budget."""
    ledger = dpem.Ledger(path)
    left, spends = ledger.remaining(), ledger.history()
    console.say(f"Ledger of {ledger.name!r}, created {ledger.created}", style="bold")
    console.say(
        f"cap: {ledger.cap}; neighbouring relation: {ledger.adjacency.value}; privacy unit: {ledger.unit}"
    )
    rows = [
        (
            s.number,
            s.time.removesuffix("+00:00").replace("T", " "),
            s.purpose + (" [INSECURE NOISE]" if s.insecure_noise else ""),
            s.analyst,
            number(s.cost.epsilon, 4),
        )
        for s in spends
    ]
    console.table(["no.", "time (UTC)", "purpose", "analyst", "epsilon alone"], rows, left=4)
    part = 1 - left.mu**2 / ledger.cap.mu**2
    console.say(f"spent: {part:.1%} of the budget (as a share of mu²: mu² adds up, epsilon does not)")
    console.say(f"left: {left}")
    console.result(ledger.export() | {"path": str(path), "spent_part": part})


def verify(
    console: Console,
    path: _Path,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", help="NUMBER:HASH of a record, kept elsewhere, that the ledger must still contain."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="Model file whose charge the ledger must contain.")
    ] = None,
) -> None:
    """Verify that no record was changed or removed."""
    ledger = dpem.Ledger(path)
    ledger.verify(None if head is None else _head(head))
    if model is not None:
        fitted = dpem.load(model)
        fitted.verify_charge(ledger)
        console.say(f"{model}: record {fitted.charge_.number} is the charge for exactly its releases.")
    newest = ledger.head()
    console.say(
        f"The ledger of {ledger.name!r} is intact: the hash chain and the sum of its {newest.number} records "
        f"are correct."
    )
    console.line(
        f"Keep the head elsewhere, to detect later if records were cut off: "
        f"--head {newest.number}:{newest.hash}"
    )
    console.result({"path": str(path), "holds": True, "head": {"number": newest.number, "hash": newest.hash}})


def _head(text: str) -> Any:
    name, _, digest = text.partition(":")
    if not name.isdecimal() or not digest:
        raise InvalidArgumentError(
            f"Expected --head NUMBER:HASH, got {text!r}. An earlier dpem budget verify printed it."
        )
    from dpem.privacy.ledger import Head  # noqa: PLC0415  (help and version stay quick)

    return Head(int(name), digest)


command(app, "init", init, 'dpem budget init patients.ledger --name "patients 2026" --epsilon 2 --delta 1e-6')
command(app, "show", show, "dpem budget show patients.ledger")
command(app, "verify", verify, "dpem budget verify patients.ledger --model clusters.dpem")
