"""Plan a fit, and find the budget that a wanted accuracy needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from dpem import _validate
from dpem._warnings import collected_warnings
from dpem.em.planned_columns import PlannedColumns
from dpem.errors import InvalidArgumentError
from dpem.models import expected_noise as noise
from dpem.models.factor_analysis import FactorAnalysis
from dpem.models.gaussian_mixture import GaussianMixture
from dpem.models.kmeans import KMeans
from dpem.models.mixed_mixture import MixedMixture
from dpem.planner.outlook import Outlook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.em.estimator import PrivateEstimator
    from dpem.em.planned_columns import ExpectedNoise

__all__ = ["epsilon_needed", "plan"]

_OF_TABLE = "Noise is that of counts as they are released; the mixture that is fitted to them smooths it."
_LARGEST = 1e4  # epsilon that is looked at
_SMALLEST = 1e-4


def plan(
    estimator: PrivateEstimator,
    n_rows: int,
    *,
    columns: int | Sequence[str] | None = None,
    spread: Any = None,
) -> Outlook:
    """Say what a fit would cost and give. No row is read and nothing is charged.

    Parameters
    ----------
    estimator : GaussianMixture, KMeans, FactorAnalysis or MixedMixture
        Not fitted; with its budget, and a schema or bounds.
    n_rows : int
        Rows of the table: public, or a guess.
    columns : int or sequence of str, optional
        How many columns, or their names; told by a schema, or by bounds of one number per column.
    spread : float or mapping of str to float, optional
        How far rows of one component deviate: as a part of the width of the bounds (0.1 unless given), or the
        standard deviation of named columns in their own units. From public knowledge, never from the rows.

    Returns
    -------
    Outlook
        Plan, noise in each parameter, what noise leaves room for, and what a fit would warn of.

    Examples
    --------
    >>> import dpem
    >>> schema = dpem.Schema({"age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
    ...                       "bmi": {"kind": "continuous", "bounds": [10, 60]}})
    >>> outlook = dpem.plan(dpem.GaussianMixture(3, epsilon=1.0, schema=schema), 20_000)
    >>> outlook.granted["components"]
    3
    >>> age = next(entry for entry in outlook.noise if entry.column == "age")
    >>> age.parameter, age.unit, bool(0.05 < age.size < 0.5)
    ('mean', 'years', True)
    >>> dpem.plan(dpem.GaussianMixture(3, epsilon=0.01, schema=schema), 500).granted["components"]
    1
    """
    n = _validate.integer(n_rows, "n_rows")
    unknown: type = type(estimator)
    if not isinstance(estimator, GaussianMixture | KMeans | FactorAnalysis | MixedMixture):
        raise _validate.fail(
            "a GaussianMixture, KMeans, FactorAnalysis or MixedMixture to plan", "estimator", unknown.__name__
        )
    if estimator.epsilon == math.inf:
        raise _validate.fail("a finite epsilon to plan", "epsilon", estimator.epsilon)
    estimator._check_arguments()
    with collected_warnings() as said:
        estimator._warn_of_delta(n)
        asked, granted, entries, planned, assumption = _forecast(estimator, n, columns, spread)
    words = tuple(said)
    return Outlook(estimator._public_name, n, planned, asked, granted, tuple(entries), assumption, words)


def _forecast(estimator: Any, n: int, named: Any, spread: Any) -> Any:
    if isinstance(estimator, MixedMixture):
        table = estimator._request()
        planned = estimator._plan(table, n)
        granted, entries = noise.of_table(planned, n)
        return {}, granted, entries, planned, _OF_TABLE
    columns, domain = _columns(estimator, named, spread)
    if isinstance(estimator, KMeans):
        planned = estimator._plan(domain, n, columns.names)
        granted, entries = noise.of_clusters(planned, estimator.n_clusters, n, columns, domain)
        return {"clusters": estimator.n_clusters}, granted, entries, planned, columns.assumption
    if isinstance(estimator, FactorAnalysis):
        factors, _ = estimator._request(domain)
        planned = estimator._plan(factors, n, domain, columns.names)
        granted, entries = noise.of_factors(factors, planned, n, columns)
        asked = {"factors that stand out": estimator.n_components}
        return asked, granted, entries, planned, columns.assumption
    mixture = estimator._request(domain)
    planned = estimator._plan(mixture, n, domain, columns.names)
    granted, entries = noise.of_mixture(mixture, planned, n, columns)
    return {"components": estimator.n_components}, granted, entries, planned, columns.assumption


def _columns(estimator: Any, named: Any, spread: Any) -> tuple[PlannedColumns, Any]:
    """Return the columns of the plan, and the public domain that they make."""
    schema, names = estimator.schema, None
    if schema is not None:
        estimator._check_schema(schema)
        schema.require_complete()
        names = schema.names
    elif named is None:
        sizes = {len(bound) for bound in estimator.bounds or () if hasattr(bound, "__len__")}
        if len(sizes) != 1:
            raise _validate.fail("the number of columns of the table", "columns", named)
        named = sizes.pop()
    elif not isinstance(named, int):
        names = tuple(map(str, named))
    n_columns = _validate.integer(named if names is None else len(names), "columns")
    keep_distances = getattr(estimator, "_keeps_distances", True)
    domain = estimator._domain(n_columns, keep_distances=keep_distances)
    return PlannedColumns.of_domain(domain, names, spread), domain


def epsilon_needed(
    estimator: PrivateEstimator,
    n_rows: int,
    accuracy: Mapping[str, float],
    *,
    columns: int | Sequence[str] | None = None,
    spread: Any = None,
) -> float:
    """Return the epsilon at which noise is within a wanted accuracy, and all components are fitted.

    Parameters
    ----------
    estimator, n_rows, columns, spread
        As in :func:`dpem.plan`; the estimator's own epsilon does not matter.
    accuracy : mapping of str to float
        The standard deviation that noise may have at most: of the mean (or centre) of a column, in its unit,
        by the column's name; of any other parameter by its name, such as ``{"share of rows": 0.01}``.

    Returns
    -------
    float
        Epsilon, rounded up to three digits; infinite where no sensible one is enough.

    Examples
    --------
    >>> import dpem
    >>> schema = dpem.Schema({"age": {"kind": "integer", "bounds": [0, 120]}})
    >>> model = dpem.GaussianMixture(2, epsilon=1.0, schema=schema)
    >>> coarse = epsilon_needed(model, 10_000, {"age": 1.0})
    >>> fine = epsilon_needed(model, 10_000, {"age": 0.1})
    >>> bool(coarse < fine < 10)
    True
    """
    given: Any = accuracy
    if not isinstance(given, Mapping) or not given:
        raise _validate.fail('names to accuracies, such as {"age": 0.5}', "accuracy", given)
    wanted = {name: _validate.positive(value, f"accuracy of {name!r}") for name, value in accuracy.items()}
    candidate = clone(estimator)

    def suffices(epsilon: float) -> bool:
        outlook = plan(candidate.set_params(epsilon=epsilon), n_rows, columns=columns, spread=spread)
        granted = all(outlook.granted[what] >= number for what, number in outlook.asked.items())
        return granted and all(_largest(outlook.noise, name) <= size for name, size in wanted.items())

    most = plan(candidate.set_params(epsilon=_LARGEST), n_rows, columns=columns, spread=spread)
    if any(most.granted[what] < number for what, number in most.asked.items()):
        return math.inf
    for name in wanted:  # whether there are such, before anything is searched for
        _largest(most.noise, name)
    if not suffices(_LARGEST):
        return math.inf
    low, high = math.log(_SMALLEST), math.log(_LARGEST)
    if suffices(_SMALLEST):
        return _SMALLEST
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(math.exp(middle)) else (middle, high)
    scale = 10.0 ** (2 - math.floor(math.log10(math.exp(high))))
    return math.ceil(math.exp(high) * scale) / scale


def _largest(entries: tuple[ExpectedNoise, ...], name: str) -> float:
    """Return the noise of a column's first parameter, its mean, or the largest of a parameter."""
    of_column = [entry.size for entry in entries if entry.column == name]
    if of_column:
        return of_column[0]
    of_parameter = [entry.size for entry in entries if entry.parameter == name]
    if of_parameter:
        return max(of_parameter)
    known = dict.fromkeys(entry.column or entry.parameter for entry in entries)
    raise InvalidArgumentError(
        f"Expected a column or parameter of the plan in accuracy, got {name!r}. There are "
        f"{', '.join(map(repr, list(known)[:20]))}."
    )
