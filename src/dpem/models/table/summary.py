"""What a fitted table model says of itself."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from dpem.estimator.summary import MOST_COLUMNS, label_of, short

if TYPE_CHECKING:
    from dpem.models.table.estimator import MixedMixture

__all__ = ["figures_of"]

_MOST_ENTRIES = 200_000  # of all tables of pairs


def figures_of(model: MixedMixture) -> dict[str, Any]:
    """Return the distribution of every column, and tables of pairs as far as they are few enough."""
    shown = list(model.schema.columns[:MOST_COLUMNS])
    columns = []
    for column in shown:
        series = model.marginals(column.name)
        labels = [label_of(value) for value in series.index]
        edges = [float(value.left) for value in series.index if hasattr(value, "left")]
        columns.append(
            {
                "name": column.name,
                "unit": column.unit_shown,
                "labels": labels,
                "edges": edges or None,
                "shares": short(series.to_numpy()),
            }
        )
    pairs, entries = {}, 0
    for (i, a), (j, b) in itertools.combinations(enumerate(shown), 2):
        size = len(columns[i]["labels"]) * len(columns[j]["labels"])
        if entries + size > _MOST_ENTRIES:
            continue
        entries += size
        table = model.marginals(a.name, b.name).to_numpy().reshape(len(columns[i]["labels"]), -1)
        pairs[f"{i},{j}"] = short(table)
    return {"kind": "tables", "columns": columns, "pairs": pairs}
