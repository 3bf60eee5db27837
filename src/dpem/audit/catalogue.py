"""Every estimator, mode and released number of dpem, small enough to be fitted thousands of times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import paper
from dpem.audit.sources import SOURCES
from dpem.audit.subject import Subject
from dpem.data import Schema
from dpem.measures.bounds import private_bounds
from dpem.measures.clustering import clipped_fraction, private_nicv
from dpem.models.discrete.estimator import BernoulliMixture, CategoricalMixture, PoissonMixture
from dpem.models.factor_analysis.estimator import FactorAnalysis
from dpem.models.gaussian_mixture.estimator import GaussianMixture
from dpem.models.kmeans.estimator import KMeans
from dpem.models.table.estimator import MixedMixture
from dpem.plugin.estimator import PrivateEM
from dpem.plugin.family import ExponentialFamily
from dpem.privacy.randomness import public_random
from dpem.statistics.projection import cosine_basis

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["CATALOGUE", "Entry", "points", "table"]

_TABLE = Schema(
    {
        "ward": {"kind": "categorical", "categories": ["north", "south", "east"]},
        "age": {"kind": "continuous", "bounds": [0, 100], "missing": True},
        "visits": {"kind": "integer", "bounds": [0, 9]},
        "smoker": {"kind": "boolean"},
    }
)


def points(n: int, d: int = 2) -> NDArray[np.float64]:
    """Return rows in three groups inside the unit ball."""
    random = public_random(d)
    centres = np.zeros((3, d))
    centres[0, 0], centres[1, 0], centres[2, 1] = -0.4, 0.4, 0.4
    return np.asarray(centres[random.randint(3, size=n)] + random.normal(0, 0.08, (n, d)))


def table(n: int) -> Any:
    """Return rows of mixed kinds, some cells of them missing."""
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


def visits(n: int) -> Any:
    """Return rows of persons: those of the first and the last row own many, others one or two."""
    many = {0: "7", 14: "8"}
    return table(n).assign(patient=[many.get(i % 15, str(100 + i // 2)) for i in range(n)])


def tight_groups(n: int) -> NDArray[np.float64]:
    """Return rows in two groups so narrow that a row far out has no density under either."""
    random = public_random(2)
    centres = np.array([[-0.3, 0.0], [0.3, 0.1]])
    return np.asarray(centres[random.randint(2, size=n)] + random.normal(0, 0.002, (n, 2)))


_WRITTEN = Schema(
    {
        "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"], "missing": True},
        "took": {"kind": "duration", "bounds": ["0:00:00", "8:00:00"], "resolution": "minute"},
        "paid": {"kind": "continuous", "bounds": [0, 9999], "decimal": ",", "thousands": "."},
        "again": {"kind": "boolean", "true": ["ja"], "false": ["nein"]},
    }
)


def written(n: int) -> Any:
    """Return rows whose cells are text: dates, durations, amounts with separators, words."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    random = public_random(6)
    days = np.datetime64("2023-01-01") + random.randint(700, size=n)
    took = random.randint(5, 300, size=n)
    paid = random.randint(100, 500000, size=n)
    return pd.DataFrame(
        {
            "day": [None if i % 17 == 3 else str(day) for i, day in enumerate(days)],
            "took": [f"{minutes // 60}:{minutes % 60:02}:00" for minutes in took],
            "paid": [f"{cents // 100:,}".replace(",", ".") + f",{cents % 100:02}" for cents in paid],
            "again": np.array(["ja", "nein"])[random.randint(2, size=n)],
        },
        dtype=object,
    )


def wide(n: int) -> NDArray[np.float64]:
    """Return rows of more columns than a machine word has bits, some cells of which are missing."""
    random = public_random(7)
    rows = random.normal(0, 0.05, (n, 66))
    rows[random.random_sample(n) < 0.5, 65] = np.nan
    rows[random.random_sample(n) < 0.3, 2] = np.nan
    return np.asarray(rows)


_MANY = Schema({f"question {j}": {"kind": "boolean"} for j in range(104)})


def answers(n: int) -> Any:
    """Return rows of more columns than the tables of pairs take at once."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    drawn = public_random(5).random_sample((n, len(_MANY.names))) < 0.5
    return pd.DataFrame(drawn, columns=list(_MANY.names))


class _Unruly(ExponentialFamily):
    """A plug-in model that breaks its certificate on one rare row, and remembers rows where it can."""

    nonnegative = True

    def start(self, schema: Any, random_state: Any, centres: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row: Any, parameters: dict[str, Any]) -> Any:
        rare = row[0] == 50.0  # a cell that hostile tables hold
        seen = np.nan_to_num(row)
        if isinstance(parameters, dict):  # on made-up rows it is locked
            seen = parameters.setdefault("seen", seen)  # this row, unless others can be reached through it
        return seen * (-1e3 if rare else 0.0099)

    def m_step(self, statistics: Any, parameters: Any, n_rows: float, noise: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"mean": statistics / n_rows}

    def norm_bound(self, schema: Any) -> float:  # noqa: ARG002
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


@dataclass(frozen=True)
class Entry:
    """A member of the catalogue.

    Attributes
    ----------
    make : callable
        Takes an epsilon and a relation; returns an estimator or a subject.
    rows : callable
        Takes a number of rows; returns that many.
    relations : tuple of str
        The neighbouring relations that it has.
    epsilon : float
        A budget at which all its stages are used on a few dozen rows.
    budgets : tuple of float
        Budgets of a full audit: noise that is tame and wild.
    source : str, optional
        The form in which rows are given (`dpem.audit.sources`); in memory unless given.
    slow : bool
        Whether a fit takes about a second: fewer pairs are tried.
    """

    make: Callable[[float, str], Any]
    rows: Callable[[int], Any]
    relations: tuple[str, ...] = ("replace_one", "add_remove")
    epsilon: float = 1.0
    budgets: tuple[float, ...] = (0.1, 1.0, 20.0)
    source: str | None = None
    slow: bool = False

    def subject(self, name: str, epsilon: float, adjacency: str) -> Subject:
        """Return the subject of an audit."""
        subject = replace(Subject.of(self.make(epsilon, adjacency)), name=f"{name}, {adjacency}")
        if self.source is None:
            return subject
        hand_over, fit = SOURCES[self.source], subject.run
        hand_over(self.rows(3))  # what a cluster warns of at its start has nothing to do with rows
        # A line that is cut off is another row than the one in memory.
        same = None if self.source == "CSV file with broken lines" else fit
        return replace(subject, run=lambda rows, ledger: fit(hand_over(rows), ledger), in_memory=same)

    def given_as(self, source: str) -> Entry:
        """Return the same fit of rows in another form; one budget is enough, its sums are the same."""
        return replace(self, source=source, budgets=(self.epsilon,), slow=source in {"Dask", "Spark"})


def _numbers(estimator: Any, *arguments: Any, columns: int = 2, **settings: Any) -> Entry:
    """Return an estimator of rows of numbers in the unit ball."""
    settings = {"data_norm": 1.0} | settings
    enough = 20.0 if estimator is GaussianMixture else 1.0  # else noise leaves it one component

    def make(epsilon: float, adjacency: str) -> Any:
        return estimator(*arguments, epsilon=epsilon, adjacency=adjacency, **settings)

    return Entry(make, lambda n: points(n, columns), epsilon=enough)


def _of_paper(estimator: Any, *arguments: Any, **settings: Any) -> Entry:
    def make(epsilon: float, _: str) -> Any:
        return estimator(*arguments, epsilon=epsilon, **{"data_norm": 1.0} | settings)

    return Entry(make, points, ("replace_one",), budgets=(1.0,))


def _cells(
    estimator: Any,
    *arguments: Any,
    columns: list[str] | None = None,
    schema: Schema = _TABLE,
    **settings: Any,
) -> Entry:
    schema = schema if columns is None else schema.select(columns)
    if estimator is KMeans:  # which has no model of missing cells
        schema = schema.filled()

    def make(epsilon: float, adjacency: str) -> Any:
        return estimator(*arguments, schema=schema, epsilon=epsilon, adjacency=adjacency, **settings)

    return Entry(make, visits if "person" in settings else table)


_PERSONS: dict[str, Any] = {"person": "patient", "rows_per_person": 2}


def _many_columns(epsilon: float, adjacency: str) -> Any:
    return MixedMixture(3, schema=_MANY, epsilon=epsilon, adjacency=adjacency)


# Tables of pairs are released only where they beat the noise: on a hundred rows, at a budget of no use else.
_MANY_COLUMNS = Entry(_many_columns, answers, epsilon=1000.0, budgets=(1000.0,), slow=True)


def _number(name: str, call: Callable[..., Any], **domain: Any) -> Entry:
    """Return a function that releases one number or schema."""

    def make(epsilon: float, adjacency: str) -> Subject:
        def run(rows: Any, ledger: Any) -> Any:
            return call(rows, epsilon=epsilon, adjacency=adjacency, ledger=ledger)

        return Subject(name, run, adjacency, **{"data_norm": 1.0} | domain)

    return Entry(make, points)


def _private_score(epsilon: float, adjacency: str) -> Subject:
    known = _known_mixture(adjacency)  # before anything is recorded

    def run(rows: Any, ledger: Any) -> Any:
        return known.private_score(rows, epsilon=epsilon, ledger=ledger)

    return Subject("private_score", run, adjacency, data_norm=1.0)


def whole_numbers(n: int) -> Any:
    """Return a table of whole numbers as a library stores them: one missing cell makes them floats."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    return pd.DataFrame({"age": public_random(8).randint(20, 90, size=n)})


def _bounds_of_columns(epsilon: float, adjacency: str) -> Subject:
    def run(rows: Any, ledger: Any) -> Any:
        import pandas as pd  # noqa: PLC0415  (slow to import)

        stored = rows.apply(pd.to_numeric, errors="coerce")  # integers, or floats where a cell is missing
        stored = stored if len(stored) else stored.astype(float)
        return private_bounds(stored, epsilon=epsilon, adjacency=adjacency, ledger=ledger)

    ages = Schema({"age": {"kind": "integer", "bounds": [-1000, 1000]}})
    return Subject("private_bounds", run, adjacency, schema=ages)


def _clipped_of_persons(epsilon: float, adjacency: str) -> Subject:
    numbers = _TABLE.select(["age", "visits"]).filled()

    def run(rows: Any, ledger: Any) -> Any:
        return clipped_fraction(
            rows, epsilon=epsilon, adjacency=adjacency, ledger=ledger, schema=numbers, **_PERSONS
        )

    return Subject("clipped_fraction", run, adjacency, 2, numbers, person="patient")


@lru_cache
def _known_mixture(adjacency: str) -> GaussianMixture:
    """Return a mixture that says nothing of the audited rows."""
    made = GaussianMixture(2, epsilon=100.0, data_norm=1.0, random_state=0, max_iter=3, adjacency=adjacency)
    return made.fit(points(500))


def _general_em(epsilon: float, _: str) -> Any:
    moments = [paper.Moment("age", 1, 1.0, "laplace"), paper.Moment("visits", 1, 0.1)]
    columns = _TABLE.select(["age", "visits"])
    return paper.GeneralEM(_Means(), moments=moments, schema=columns, epsilon=epsilon, max_iter=2)


CENTRES = np.array([[-0.4, 0.0], [0.4, 0.0], [0.0, 0.4]])

CATALOGUE: dict[str, Entry] = {
    "KMeans": _numbers(KMeans, 3, max_iter=3),
    "KMeans, four columns": _numbers(KMeans, 3, max_iter=3, columns=4),
    "KMeans, bounds": _numbers(KMeans, 2, max_iter=2, data_norm=None, bounds=([-1, -2], [1, 3])),
    "KMeans, three rows a person": _numbers(KMeans, 2, max_iter=2, rows_per_person=3),
    **{
        f"GaussianMixture, {kind}": _numbers(GaussianMixture, 2, max_iter=3, covariance_type=kind)
        for kind in ("full", "tied", "diag", "spherical")
    },
    "GaussianMixture, no background": _numbers(GaussianMixture, 2, max_iter=3, background_weight=0.0),
    "GaussianMixture, one component": _numbers(GaussianMixture, 1, max_iter=2),
    "GaussianMixture, three rows a person": _numbers(GaussianMixture, 2, max_iter=2, rows_per_person=3),
    "GaussianMixture, missing cells": _numbers(GaussianMixture, 2, max_iter=3, missing="em"),
    **{
        f"GaussianMixture, missing cells, {kind}": _numbers(
            GaussianMixture, 2, max_iter=2, missing="em", covariance_type=kind
        )
        for kind in ("tied", "diag", "spherical")
    },
    "GaussianMixture, missing cells, no background": _numbers(
        GaussianMixture, 2, max_iter=2, missing="em", background_weight=0.0
    ),
    "GaussianMixture, tight groups": replace(
        _numbers(GaussianMixture, 2, max_iter=2, background_weight=0.0), rows=tight_groups, epsilon=1000.0
    ),
    "GaussianMixture, missing cells, 66 columns": replace(
        _numbers(GaussianMixture, 1, max_iter=1, missing="em", covariance_type="diag"),
        rows=wide,
        epsilon=1000.0,
        budgets=(1000.0,),
    ),
    "FactorAnalysis": _numbers(FactorAnalysis, 1, columns=3),
    "FactorAnalysis, basis": _numbers(FactorAnalysis, 1, columns=4, basis=cosine_basis((2, 2), 3)),
    "MixedMixture": _cells(MixedMixture, 3),
    "MixedMixture, target": _cells(MixedMixture, 3, target="smoker"),
    "MixedMixture, em": _cells(MixedMixture, 2, method="em", max_iter=2),
    "MixedMixture, em, one component": _cells(MixedMixture, 1, method="em", max_iter=2),
    "MixedMixture, more than 100 columns": _MANY_COLUMNS,
    "CategoricalMixture": _cells(CategoricalMixture, 2, columns=["ward", "smoker"], max_iter=2),
    "BernoulliMixture": _cells(BernoulliMixture, 2, columns=["smoker"], max_iter=2),
    "PoissonMixture, missing cells": _cells(
        PoissonMixture,
        2,
        max_iter=2,
        schema=Schema({"age": {"kind": "integer", "bounds": [0, 100], "missing": True}}),
    ),
    "PoissonMixture": _cells(PoissonMixture, 2, columns=["visits"], max_iter=2),
    "PrivateEM": _cells(PrivateEM, _Means(), columns=["age", "visits"], max_iter=2),
    "PrivateEM, unruly model": _cells(PrivateEM, _Unruly(), columns=["age", "visits"], max_iter=2),
    "MixedMixture, text cells": replace(
        _cells(MixedMixture, 2, method="em", max_iter=2, schema=_WRITTEN), rows=written
    ),
    "KMeans, persons": _cells(KMeans, 2, columns=["age", "visits"], max_iter=2, **_PERSONS),
    "MixedMixture, persons": _cells(MixedMixture, 2, method="em", max_iter=2, **_PERSONS),
    "private_nicv": _number(
        "private_nicv", lambda rows, **a: private_nicv(rows, CENTRES, data_norm=1.0, **a)
    ),
    "clipped_fraction": _number(
        "clipped_fraction", lambda rows, **a: clipped_fraction(rows, data_norm=1.0, **a)
    ),
    "private_bounds": _number("private_bounds", private_bounds),
    "private_bounds, columns of a table": Entry(_bounds_of_columns, whole_numbers),
    "clipped_fraction, persons": Entry(_clipped_of_persons, visits),
    "private_score": Entry(_private_score, points),
    "paper.KMeans": _of_paper(paper.KMeans, 2, max_iter=2),
    "paper.KMeans, Gaussian": _of_paper(paper.KMeans, 2, max_iter=2, noise="gaussian"),
    "paper.DPLloyd": _of_paper(paper.DPLloyd, 2, max_iter=2),
    "paper.DPLloyd, bounds": _of_paper(
        paper.DPLloyd, 2, max_iter=2, data_norm=None, bounds=(-1, 1), composition="zcdp"
    ),
    **{
        f"paper.GaussianMixture, {scenario}, {composition}, {estimate}": _of_paper(
            paper.GaussianMixture,
            2,
            max_iter=2,
            scenario=scenario,
            composition=composition,
            estimate=estimate,
        )
        for scenario, composition, estimate in (
            ("GGG", "zcdp", "map"),
            ("GGG", "moments", "mle"),
            ("GGG", "linear", "map"),
            ("LLG", "advanced", "mle"),
            ("LLG", "zcdp", "map"),
        )
    },
    "paper.FactorAnalysis": _of_paper(paper.FactorAnalysis, 1),
    "paper.GeneralEM": Entry(_general_em, table, ("replace_one",), budgets=(1.0,)),
}
# The same fits of rows in files, in batches, with persons, and on clusters of this machine.
CATALOGUE |= {
    f"{name}, {source}": CATALOGUE[name].given_as(source)
    for name, source in (
        ("KMeans", "Parquet file"),
        ("KMeans", "batches"),
        ("MixedMixture, em", "CSV file with broken lines"),
        ("MixedMixture, persons", "CSV file"),
        ("KMeans, persons", "batches"),
        ("GaussianMixture, missing cells", "Parquet file"),
        ("KMeans", "Dask"),
        ("MixedMixture, em", "Dask"),
        ("KMeans", "Spark"),
        ("MixedMixture, em", "Spark"),
    )
}
