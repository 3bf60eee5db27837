"""Check a plug-in model on generated rows before anything is charged.

The rows are generated from the schema alone. Error messages may therefore show everything: they describe the
model and no private data. Privacy does not depend on these checks, because a model that passes may still be
wrong on other rows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem._quiet import quiet
from dpem.data.schema import require_schema
from dpem.data.table_types import is_name
from dpem.errors import InvalidArgumentError
from dpem.plugin.clipped import read_only
from dpem.plugin.memory import refuse_memory
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from dpem.data import Schema
    from dpem.plugin.family import ExponentialFamily, Parameters

__all__ = ["ModelShape", "check_model", "checked_parameters"]

_ROWS = 24


@dataclass(frozen=True)
class ModelShape:
    """The lengths and the norm of a model's vectors, found on generated rows."""

    n_statistics: int
    n_encoded: int
    norm: float
    nonnegative: bool


def check_model(
    model: ExponentialFamily, schema: Schema, clip_norm: float | None = None, n_rows: float = 1000.0
) -> ModelShape:
    """Check a model on generated rows; raise with the name of the method if something is wrong.

    Parameters
    ----------
    model : ExponentialFamily
        The model.
    schema : Schema
        The columns.
    clip_norm : float, optional
        Norm to which vectors are clipped, if the model proves no bound.
    n_rows : float
        Number of rows passed to `m_step`.

    Returns
    -------
    ModelShape
        Lengths and norm of the vectors.

    Examples
    --------
    >>> import dpem
    >>> class Wrong(dpem.ExponentialFamily):
    ...     def start(self, schema, random_state, centres):
    ...         return {"mean": 0.0}
    ...     def expected_statistics(self, row, parameters):
    ...         return row * 3
    ...     def m_step(self, statistics, parameters, n_rows, noise):
    ...         return {"mean": statistics[0] / 0}
    ...     def norm_bound(self, schema):
    ...         return 1.0
    >>> schema = dpem.Schema({"x": {"kind": "continuous", "bounds": [0, 1]}})
    >>> dpem.check_model(Wrong(), schema)
    Traceback (most recent call last):
        ...
    dpem.errors.InvalidArgumentError: Expected vectors within norm_bound=1 from Wrong.expected_statistics, got
    one of norm 3 for a generated row. Correct the bound, or leave it out and declare clip_norm.
    """
    require_schema(schema).require_complete()
    n_rows = _validate.positive(n_rows, "n_rows")
    name = type(model).__name__
    try:
        copied = copy.deepcopy(model)
    except Exception as error:
        raise InvalidArgumentError(
            f"Expected a model that can be copied for every row, got {name}, for which copy.deepcopy raises "
            f"{type(error).__name__}. Keep only data that can be copied in attributes."
        ) from error
    refuse_memory(model)
    model = copied
    with quiet():  # contains settings of floating-point errors and warnings by the model
        return _checked_shape(model, schema, clip_norm, n_rows, name)


def _checked_shape(
    model: ExponentialFamily, schema: Schema, clip_norm: float | None, n_rows: float, name: str
) -> ModelShape:
    random_state = public_random(0)
    rows = _generated_rows(schema, random_state)
    norm, proved = _norm(model, schema, clip_norm, name)
    encoded = _vectors(lambda row: model.encode(row, schema), rows, f"{name}.encode")
    centres = None
    if model.start_centres:
        k = _validate.integer(model.start_centres, f"{name}.start_centres")
        centres = encoded[:, np.arange(k) % encoded.shape[1]].T
    parameters = checked_parameters(model.start(schema, random_state, centres), f"{name}.start")
    locked = read_only(parameters)
    vectors = _vectors(
        lambda row: model.expected_statistics(row, locked), rows, f"{name}.expected_statistics"
    )
    _check_rows_alone(model, locked, rows, vectors, name)
    if model.nonnegative not in (True, False):
        raise _validate.fail(f"True or False for {name}.nonnegative", "nonnegative", model.nonnegative)
    if model.nonnegative and vectors.min() < 0:
        raise InvalidArgumentError(
            f"Expected no negative entry from {name}.expected_statistics, because nonnegative is True, got "
            f"one for a generated row. Set nonnegative to False; replacing a row then costs 2 C instead of "
            f"sqrt 2 C."
        )
    length = float(np.sqrt((vectors**2).sum(axis=0)).max())
    if proved and length > norm * (1 + 1e-9):
        raise InvalidArgumentError(
            f"Expected vectors within norm_bound={norm:g} from {name}.expected_statistics, got one of norm "
            f"{length:g} for a generated row. Correct the bound, or leave it out and declare clip_norm."
        )
    size = vectors.shape[0]
    noises = [vectors.sum(axis=1) * n_rows / rows.shape[1], *norm * random_state.normal(size=(3, size)) * 30]
    for statistics in [*noises, np.zeros(size)]:
        copies = {key: value.copy() for key, value in parameters.items()}
        after = model.m_step(statistics, copies, n_rows, 30 * norm)
        checked_parameters(after, f"{name}.m_step", like=parameters)
    refuse_memory(model)  # start and m_step may have set attributes
    return ModelShape(size, encoded.shape[0], norm, bool(model.nonnegative))


def checked_parameters(
    found: Mapping[str, ArrayLike], where: str, like: Parameters | None = None
) -> Parameters:
    """Return parameters as a dict of finite arrays with the names and shapes of those before."""
    try:
        parameters = {str(name): np.array(value, dtype=np.float64) for name, value in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"Expected a dict of numbers or arrays from {where}, got another object. Return such a dict."
        ) from error
    if not parameters or not all(np.isfinite(value).all() for value in parameters.values()):
        raise InvalidArgumentError(
            f"Expected finite parameters from {where}, got an empty dict, NaN or infinity. The method must "
            f"return finite numbers for any noisy sums."
        )
    if not all(is_name(name) and not set(name) & set("/\\") for name in parameters):
        raise InvalidArgumentError(
            f"Expected names of parameters from {where} without line breaks and slashes, got others. Rename "
            f"the parameters: files store them by name."
        )
    if like is not None:
        shapes = {name: value.shape for name, value in parameters.items()}
        before = {name: value.shape for name, value in like.items()}
        if shapes != before:
            raise InvalidArgumentError(
                f"Expected parameters of shapes {before} from {where}, as from start, got {shapes}. Return "
                f"the same shapes."
            )
        parameters = {name: parameters[name] for name in like}  # in one order
    return parameters


def _norm(model: ExponentialFamily, schema: Schema, clip_norm: float | None, name: str) -> tuple[float, bool]:
    proved = model.norm_bound(schema)
    if proved is not None:
        proved = _validate.within(proved, f"{name}.norm_bound", 1e-100, 1e100)
    if clip_norm is not None:
        norm = _validate.within(clip_norm, "clip_norm", 1e-100, 1e100)
        return (norm, False) if proved is None or norm < proved else (proved, True)
    if proved is None:
        raise InvalidArgumentError(
            f"Expected a norm for the vectors of {name}, got none. Declare clip_norm=C, to which each row's "
            f"vector is clipped, or return a proven bound from {name}.norm_bound."
        )
    return proved, True


def _generated_rows(schema: Schema, random_state: Any) -> NDArray[np.float64]:
    """Return rows (d, n) within the bounds and at their ends, with missing cells if allowed."""
    low, high = schema.bounds
    d = len(low)
    part = random_state.uniform(size=(d, _ROWS))
    part[:, 0], part[:, 1] = 0.0, 1.0
    rows = low[:, None] + part * (high - low)[:, None]
    whole = np.array([column.kind != "continuous" for column in schema.columns])
    rows[whole] = np.rint(rows[whole])
    missing = np.array([column.missing for column in schema.columns])
    holes = (random_state.uniform(size=rows.shape) < 0.3) & missing[:, None]
    rows[:, 2:][holes[:, 2:]] = np.nan
    return np.asarray(rows)


def _vectors(
    call: Callable[[NDArray[np.float64]], ArrayLike], rows: NDArray[np.float64], where: str
) -> NDArray[np.float64]:
    found = []
    for row in rows.T:
        given = row.copy()
        vector = np.asarray(call(given))
        if not np.array_equal(given, row, equal_nan=True):
            raise InvalidArgumentError(
                f"Expected {where} to leave its argument row unchanged, got a changed row. Copy the row "
                f"before changing it."
            )
        if vector.dtype.kind not in "fiub" or vector.ndim != 1 or not np.isfinite(vector).all():
            raise InvalidArgumentError(
                f"Expected a vector of finite numbers from {where}, got another result for a generated row. "
                f"Return a one-dimensional array."
            )
        found.append(vector.astype(np.float64))
    if len({len(vector) for vector in found}) != 1 or not len(found[0]):
        raise InvalidArgumentError(
            f"Expected non-empty vectors of one length from {where}, got empty ones or several lengths. "
            f"Return the same length for every row."
        )
    return np.stack(found, axis=1)


def _check_rows_alone(
    model: ExponentialFamily,
    parameters: Parameters,
    rows: NDArray[np.float64],
    vectors: NDArray[np.float64],
    name: str,
) -> None:
    """Repeat calls in another order, on this copy and on fresh ones; raise if a row's vector changes."""
    order = np.arange(rows.shape[1])[::-1]
    for fresh in (False, True):
        for i in order[::2]:
            asked = copy.deepcopy(model) if fresh else model
            again = np.asarray(asked.expected_statistics(rows[:, i].copy(), parameters), dtype=np.float64)
            if not np.array_equal(again, vectors[:, i]):
                raise InvalidArgumentError(
                    f"Expected {name}.expected_statistics to depend on one row alone, got another vector for "
                    f"the same row after other rows. Do not keep earlier rows, nor draw random numbers."
                )
