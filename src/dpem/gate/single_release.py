"""A single released number about the rows: one plan, one gate, one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data import Domain, Schema
from dpem.data.column import ABSENT
from dpem.data.domain import GRID
from dpem.data.schema import require_schema
from dpem.engines import rows_to_release
from dpem.gate.opening import open_gate
from dpem.gate.plan import Plan, PrivacyUnit, Stage
from dpem.gate.resume import described
from dpem.privacy.neighbours import Adjacency

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpem.data import RowGrid
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.ledger import Ledger
    from dpem.privacy.statement import PrivacyStatement
    from dpem.statistics.base import RowStatistic

__all__ = ["PrivateValue", "release_one"]


@dataclass(frozen=True)
class PrivateValue:
    """A released number.

    Attributes
    ----------
    value : float
        The number, with noise.
    standard_error : float
        The standard deviation of the number due to noise.
    privacy : PrivacyStatement
        The privacy statement.
    """

    value: float
    standard_error: float
    privacy: PrivacyStatement

    def __float__(self) -> float:
        return self.value


def release_one(
    X: Any,
    make_statistic: Callable[[Domain, bool], RowStatistic],
    value: Callable[[Domain, ReleasedStatistics, int | None], tuple[float, float]],
    *,
    purpose: str,
    grid_of: Callable[[Domain], RowGrid] | None = None,
    of_findings: bool = False,
    missing: bool = False,
    epsilon: float,
    delta: float,
    bounds: Any,
    data_norm: float | None,
    schema: Schema | None,
    adjacency: str,
    rows_per_person: int,
    person: str | None,
    ledger: Ledger | str | os.PathLike[str] | None,
    n_jobs: int | None,
    keep_distances: bool = True,
) -> PrivateValue:
    """Charge, read and release one statistic; `value` computes a number and its standard error from it.

    `grid_of` replaces the domain by another grid with the same bound. With `of_findings`, the grid maps the
    findings about cells instead of their values. With `missing`, the schema may allow missing cells.
    """
    relation = Adjacency.parse(adjacency)
    if schema is not None:
        require_schema(schema)
        if not of_findings:
            schema.require_numbers(missing=missing)
    unit = PrivacyUnit(rows_per_person, person)
    source = rows_to_release(X, schema, relation, unit.rows_per_person, unit.person)
    if of_findings:
        source = source.of_findings()
    domain = Domain.from_arguments(
        source.n_columns,
        bounds=bounds,
        data_norm=data_norm,
        schema=schema,
        names=source.names,
        keep_distances=keep_distances,
    )
    n_rows = source.n_rows if relation.n_rows_public else None
    statistic = make_statistic(domain, n_rows is None)
    plan = Plan.build(
        [Stage(purpose, 1.0, statistic.sensitivity(relation))],
        epsilon=epsilon,
        delta=delta,
        adjacency=relation,
        unit=unit,
    )
    gate = open_gate(
        plan,
        source,
        grid_of(domain) if grid_of is not None else domain,
        ledger=ledger,
        schema=schema,
        n_jobs=n_jobs,
        purpose=f"dpem.{purpose}",
        identity=[domain.describe(source.names), described(statistic), n_rows],
        bounds=domain.describe(source.names),
        bounds_source=domain.source,
    )
    released = gate.release(purpose, statistic)
    gate.close()
    number, error = value(domain, released, n_rows)
    return PrivateValue(float(number), float(error), gate.statement())


@dataclass(frozen=True)
class ClippedRows:
    """A grid that maps each row to one number: 2^24 if the domain changes the row, else 0."""

    domain: Domain

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 2^24 for each row that was clipped or zeroed, 0 for each that was not."""
        if self.domain.schema is None:
            return self.domain.changed(columns)
        return np.where((columns >= ABSENT).any(axis=0), GRID, 0.0)[None]
