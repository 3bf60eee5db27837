"""What fitted centres say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.summary import (
    Profile,
    column_names,
    columns_of_numbers,
    numbered_rows,
    schema_of,
    short,
)

if TYPE_CHECKING:
    from dpem.models.kmeans.estimator import KMeans

__all__ = ["figures_of", "profile_of"]


def profile_of(model: KMeans) -> Profile:
    """Return the centres."""
    columns, units = schema_of(model)
    rows = numbered_rows(model.cluster_centers_, model.standard_errors_["cluster_centers"], columns)
    return Profile("cluster", column_names(model), units, rows, has_shares=False)


def figures_of(model: KMeans) -> dict[str, Any]:
    """Return what a page draws: centres, and what noise does to them."""
    centres = model.cluster_centers_
    columns = columns_of_numbers(model, centres, np.ptp(centres, axis=0) / 2 + 1e-9)
    d = len(columns)
    return {
        "kind": "centres",
        "columns": columns,
        "centres": short(centres[:, :d]),
        "errors": short(model.standard_errors_["cluster_centers"][:, :d]),
    }
