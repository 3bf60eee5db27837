"""Plan a fit, and compute the epsilon for a required accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from dpem import _validate
from dpem._warnings import collected_warnings
from dpem.errors import InvalidArgumentError
from dpem.estimator.base import PrivateEstimator
from dpem.gate.payment import warn_of_epsilon
from dpem.planner.outlook import Outlook

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpem.estimator.planned_columns import ExpectedNoise

__all__ = ["epsilon_needed", "plan", "plans"]

_LARGEST_EPSILON = 1e4  # of the search
_SMALLEST_EPSILON = 1e-4


def plan(
    estimator: PrivateEstimator,
    n_rows: int,
    *,
    columns: int | Sequence[str] | None = None,
    spread: Any = None,
) -> Outlook:
    """Return the plan of a fit and its expected noise. No row is read and nothing is charged.

    Parameters
    ----------
    estimator : an estimator of dpem
        With its budget, and a schema or bounds. It need not be fitted. The paper's methods have no forecast.
    n_rows : int
        Number of rows of the table, or a guess if it is private.
    columns : int or sequence of str, optional
        Number or names of the columns. Not needed with a schema, or with bounds of one number per column.
    spread : float or mapping of str to float, optional
        Standard deviation of the rows of one component: as a share of the width of the bounds (default 0.1),
        or in the units of named columns. Take it from public knowledge, never from the rows.

    Returns
    -------
    Outlook
        The plan, the expected noise of each parameter, the numbers of components and steps that the noise
        allows, and the warnings that a fit would give.

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
    _require_estimator(estimator)
    if estimator._plain:
        raise _validate.fail("a finite epsilon for a plan", "epsilon", estimator.epsilon)
    estimator._check_arguments()
    with collected_warnings() as said:
        estimator._warn_of_delta(n)
        forecast = estimator._forecast(n, columns, spread)
        warn_of_epsilon(forecast.plan)
    return Outlook(model=estimator._public_name, n_rows=n, warnings=tuple(said), **vars(forecast))


def _require_estimator(given: Any) -> PrivateEstimator:
    """Return an estimator of dpem as it is; raise for anything else."""
    if not isinstance(given, PrivateEstimator):
        raise _validate.fail("an estimator of dpem to plan", "estimator", given)
    return given


def plans(
    estimator: PrivateEstimator, n_rows: int, epsilons: Iterable[float], **arguments: Any
) -> list[Outlook]:
    """Return what each of several epsilons would give; arguments as in :func:`dpem.plan`."""
    candidate = clone(_require_estimator(estimator))
    return [plan(candidate.set_params(epsilon=float(e)), n_rows, **arguments) for e in epsilons]


def epsilon_needed(
    estimator: PrivateEstimator,
    n_rows: int,
    accuracy: Mapping[str, float],
    *,
    columns: int | Sequence[str] | None = None,
    spread: Any = None,
) -> float:
    """Return the smallest epsilon whose noise is within the required accuracy, with all components fitted.

    The epsilon of the estimator is ignored.

    Parameters
    ----------
    estimator, n_rows, columns, spread
        As in :func:`dpem.plan`.
    accuracy : mapping of str to float
        Largest acceptable noise, as a standard deviation. A column name stands for its mean (or centre), in
        the unit of the column; any other parameter has its own name, as in ``{"share of rows": 0.01}``.

    Returns
    -------
    float
        Epsilon, rounded up to three digits. Infinite if even epsilon 10,000 does not suffice.

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
    wanted = {
        name: _validate.positive(value, f"accuracy of {_validate.shown(name)}")
        for name, value in accuracy.items()
    }
    candidate = clone(_require_estimator(estimator))

    def suffices(epsilon: float) -> bool:
        outlook = plan(candidate.set_params(epsilon=epsilon), n_rows, columns=columns, spread=spread)
        granted = all(outlook.granted[what] >= number for what, number in outlook.asked.items())
        return granted and all(_largest(outlook.noise, name) <= size for name, size in wanted.items())

    most = plan(candidate.set_params(epsilon=_LARGEST_EPSILON), n_rows, columns=columns, spread=spread)
    if any(most.granted[what] < number for what, number in most.asked.items()):
        return math.inf
    for name in wanted:  # raises for unknown names
        _largest(most.noise, name)
    if not suffices(_LARGEST_EPSILON):
        return math.inf
    low, high = math.log(_SMALLEST_EPSILON), math.log(_LARGEST_EPSILON)
    if suffices(_SMALLEST_EPSILON):
        return _SMALLEST_EPSILON
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(math.exp(middle)) else (middle, high)
    scale = 10.0 ** (2 - math.floor(math.log10(math.exp(high))))
    return math.ceil(math.exp(high) * scale) / scale


def _largest(entries: tuple[ExpectedNoise, ...], name: str) -> float:
    """Return the noise of the mean of a column, or the largest noise of a named parameter."""
    of_column = [entry.size for entry in entries if entry.column == name]
    if of_column:
        return of_column[0]
    of_parameter = [entry.size for entry in entries if entry.parameter == name]
    if of_parameter:
        return max(of_parameter)
    known = dict.fromkeys(entry.column or entry.parameter for entry in entries)
    raise InvalidArgumentError(
        f"Expected a column or parameter of the plan in accuracy, got {_validate.shown(name)}. Choose from "
        f"{', '.join(map(repr, list(known)[:20]))}."
    )
