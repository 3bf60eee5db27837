"""Trials: small fits that a model declares. Audits replay them, and conformance tests compare their sums."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data import Schema
from dpem.data.to_dataframe import formatted_dataframe, to_dataframe
from dpem.privacy.neighbours import Adjacency
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = [
    "HOLES",
    "NUMBERS",
    "PERSONS",
    "STAYS",
    "TABLE",
    "Trial",
    "mixed_table",
    "points",
    "rows_of",
    "stays",
    "visits",
]


@dataclass(frozen=True)
class Trial:
    """A fit that is small enough to be repeated thousands of times.

    Attributes
    ----------
    fit : callable
        Called with `arguments`, an epsilon and an adjacency by name. It returns an estimator, or a function
        of rows and a ledger that releases something.
    rows : callable
        Called with a number of rows; returns the rows. All engines, file formats and faults are tested with
        the trials on `mixed_table`.
    arguments : mapping
        Arguments of the fit except the budget, including bounds of the rows (`data_norm`, `bounds` or
        `schema`).
    relations : tuple of str
        The neighbouring relations that the fit supports.
    epsilon : float
        A budget at which a few dozen rows reach all stages.
    budgets : tuple of float
        Budgets of a full audit, for small and large noise.
    source : str, optional
        The form in which the audit passes the rows (`dpem.audit.sources`); by default in memory.
    slow : bool
        Whether a fit takes about a second, so that audits try fewer pairs.
    """

    fit: Callable[..., Any]
    rows: Callable[[int], Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    relations: tuple[Adjacency, ...] = tuple(Adjacency)
    epsilon: float = 1.0
    budgets: tuple[float, ...] = (0.1, 1.0, 20.0)
    source: str | None = None
    slow: bool = False

    def make(self, adjacency: str = Adjacency.REPLACE_ONE, **changes: Any) -> Any:
        """Return the estimator, or the function, with changed arguments."""
        # The default is not passed, because the paper's methods lack this argument.
        relation = {} if adjacency == Adjacency.REPLACE_ONE else {"adjacency": adjacency}
        return self.fit(**{"epsilon": self.epsilon, **self.arguments, **relation, **changes})

    def given_as(self, source: str) -> Trial:
        """Return the same trial with rows in another form; its sums are the same, so one budget is enough."""
        return replace(self, source=source, budgets=(self.epsilon,), slow=source in {"Dask", "Spark"})


# -- rows ------------------------------------------------------------------------------------------------


def points(n: int, d: int = 2) -> NDArray[np.float64]:
    """Generate rows in three groups inside the unit ball."""
    random = public_random(d)
    centres = np.zeros((3, d))
    centres[0, 0], centres[1, 0], centres[2, 1] = -0.4, 0.4, 0.4
    return np.asarray(centres[random.randint(3, size=n)] + random.normal(0, 0.08, (n, d)))


STAYS = Schema(
    {
        "ward": {"kind": "categorical", "categories": ["north", "south", "east"]},
        "age": {"kind": "continuous", "bounds": [0, 100], "missing": True},
        "visits": {"kind": "integer", "bounds": [0, 9]},
        "smoker": {"kind": "boolean"},
    }
)


def stays(n: int) -> Any:
    """Generate stays in a hospital: columns of mixed kinds, some cells missing."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    random = public_random(3)
    group = random.randint(3, size=n)
    ages = np.round(20 + 25 * group + random.normal(0, 6, n), 1)
    return pd.DataFrame(
        {
            "ward": np.array(["north", "south", "east"])[(group + random.randint(2, size=n)) % 3],
            "age": np.where(random.random_sample(n) < 0.1, np.nan, ages),
            "visits": np.minimum(random.poisson(1 + group), 9),
            "smoker": random.random_sample(n) < 0.3,
        }
    )


PERSONS: dict[str, Any] = {"person": "patient", "rows_per_person": 2}


def visits(n: int) -> Any:
    """Generate rows of persons: two persons own many rows, all others one or two."""
    many = {0: "7", 14: "8"}
    return stays(n).assign(patient=[many.get(i % 15, str(100 + i // 2)) for i in range(n)])


NUMBERS = Schema({name: {"kind": "continuous", "bounds": [-3, 3]} for name in "cab"})
HOLES = NUMBERS.declare({"a": {"missing": True}})
TABLE = Schema(
    {
        "ward": {"kind": "categorical", "categories": ["north", "south", "east"]},
        "b": {"kind": "continuous", "bounds": [-3, 3]},
        "visits": {"kind": "integer", "bounds": [0, 9]},
        "smoker": {"kind": "boolean"},
    }
)


def mixed_table(n: int = 603) -> Any:
    """Generate rows for the three schemas above, including cells that these do not allow.

    Numbers are short enough for single precision, so that tests can vary the types.
    """
    import pandas as pd  # noqa: PLC0415  (slow to import)

    random = np.random.default_rng(5)  # noqa: TID251  (for public numbers)
    group = random.integers(0, 3, n)
    numbers = np.round(random.normal(0, 0.4, (n, 3)) + np.array([-1.0, 0.0, 1.2])[group][:, None], 3)
    frame = pd.DataFrame(numbers.astype(np.float32).astype(float), columns=["a", "b", "c"])
    frame["visits"] = np.minimum(random.poisson(1 + group), 9)
    frame["ward"] = np.array(["north", "south", "east"])[(group + random.integers(0, 2, n)) % 3]
    frame["smoker"] = random.random(n) < 0.3
    frame.loc[frame.index % 41 == 3, "ward"] = "elsewhere"
    frame.loc[7, "a"] = 1e9
    frame.loc[frame.index % 31 == 5, "a"] = np.nan
    return frame


def rows_of(schema: Schema, n: int) -> Any:
    """Generate rows within the bounds of a schema, in its formats, some cells missing."""
    random = public_random(9)
    low, high = (limits[:, None] for limits in schema.bounds)
    whole = np.array([column.kind != "continuous" for column in schema.columns])[:, None]
    cells = low + random.random_sample((len(whole), n)) * (high - low)
    missing = np.array([column.missing for column in schema.columns])[:, None]
    holes = (random.random_sample(cells.shape) < 0.1) & missing
    columns = np.where(holes, np.nan, np.where(whole, np.rint(cells), cells))
    return formatted_dataframe(schema, to_dataframe(schema, columns))
