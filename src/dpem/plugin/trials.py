"""Small fits of plug-in models for the audit: valid ones, and one that breaks all its promises."""

from typing import Any

import numpy as np

from dpem.estimator.trials import NUMBERS, STAYS, Trial, mixed_table, stays
from dpem.plugin.estimator import PrivateEM
from dpem.plugin.family import ExponentialFamily

__all__ = ["TRIALS", "Mean"]


class Mean(ExponentialFamily):
    """A plug-in model: the mean of three columns."""

    def start(self, schema: Any, random_state: Any, centres: Any) -> dict[str, Any]:  # noqa: ARG002
        """Start at zero."""
        return {"mean": np.zeros(3)}

    def expected_statistics(self, row: Any, parameters: dict[str, Any]) -> Any:  # noqa: ARG002
        """Return the row, scaled into a ball of radius 1."""
        return row / 6

    def m_step(self, statistics: Any, parameters: Any, n_rows: float, noise: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the mean."""
        return {"mean": statistics * 6 / n_rows}

    def norm_bound(self, schema: Any) -> float:  # noqa: ARG002
        """Return 1: three numbers from -3 to 3 have a norm below 6."""
        return 1.0


class _Means(ExponentialFamily):
    """A plug-in model: the means of an age and a number of visits."""

    CENTRE = (50.0, 4.5)

    def start(self, schema: Any, random_state: Any, centres: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row: Any, parameters: dict[str, Any]) -> Any:  # noqa: ARG002
        return np.where(np.isnan(row), 0.0, (row - np.array(self.CENTRE)) / 50.3)

    def m_step(self, statistics: Any, parameters: Any, n_rows: float, noise: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": np.array(self.CENTRE) + 50.3 * statistics / n_rows}

    def norm_bound(self, schema: Any) -> float:  # noqa: ARG002
        return 1.0


class _Unruly(ExponentialFamily):
    """A plug-in model that breaks its promises on one rare row, and tries to remember rows."""

    nonnegative = True

    def start(self, schema: Any, random_state: Any, centres: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row: Any, parameters: dict[str, Any]) -> Any:
        rare = row[0] == 50.0  # a cell of hostile tables
        seen = np.nan_to_num(row)
        if isinstance(parameters, dict):  # on generated rows it is read-only
            seen = parameters.setdefault("seen", seen)  # this row, unless the dict is shared with other rows
        return seen * (-1e3 if rare else 0.0099)

    def m_step(self, statistics: Any, parameters: Any, n_rows: float, noise: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": statistics / n_rows}

    def norm_bound(self, schema: Any) -> float:  # noqa: ARG002
        return 1.0


_TWO = {"schema": STAYS.select(["age", "visits"]), "max_iter": 2}

TRIALS = {
    "PrivateEM": Trial(PrivateEM, stays, {"model": _Means()} | _TWO),
    "PrivateEM, unruly model": Trial(PrivateEM, stays, {"model": _Unruly()} | _TWO),
    "PrivateEM, table": Trial(PrivateEM, mixed_table, {"model": Mean(), "max_iter": 2, "schema": NUMBERS}),
}
