"""The estimators of plug-in models."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.data import Schema, TableGrid
from dpem.data.schema import require_schema
from dpem.data.table_types import is_name
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError, ModelFileError
from dpem.estimator.arguments import number, optional, stores_arguments, whole
from dpem.estimator.base import PrivateEstimator, PublicFacts
from dpem.estimator.planned_columns import Forecast, warn_of_noise
from dpem.estimator.saved_arrays import require, require_numbers
from dpem.estimator.summary import Profile, ReleasedValue
from dpem.fitting.standard_errors import deviations_of_draws
from dpem.plugin.checks import check_model
from dpem.plugin.clipped import read_only, treats_blocks
from dpem.plugin.family import ExponentialFamily
from dpem.plugin.fit import (
    DEFAULT_ITERATIONS,
    ModelRequest,
    fit_model,
    fit_plain_model,
    noise_of_statistics,
)
from dpem.plugin.registered import plug_in_named

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import RowSource
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.gate.progress import Progress
    from dpem.plugin.family import Parameters

__all__ = ["ModelEstimator", "PrivateEM"]

_DRAWS = 100  # of the noise, for standard errors
_PLAIN_ITERATIONS = 200
_MOST_SHOWN = 50  # entries of a parameter in a profile
_MOST_COMPONENTS = 10_000  # of a registered model loaded from a file


def _has_predict_proba(estimator: PrivateEM) -> bool:
    """Whether the model has the optional method `predict_proba`."""
    return hasattr(estimator.model, "predict_proba")


class ModelEstimator(PrivateEstimator):
    """The common part of estimators of plug-in models: a schema, a model, and its parameters."""

    max_iter: int | None
    tol: float
    clip_norm: float | None = None
    data_norm = None
    _constraints: ClassVar[Constraints] = {"max_iter": optional(whole()), "tol": number()}

    parameters_: Parameters
    standard_errors_: dict[str, NDArray[np.float64]]
    schema_: Schema

    @abstractmethod
    def _make_model(self, schema: Schema) -> ExponentialFamily:
        """Return the model for the columns; raise if it does not support one of them."""

    # -- fit ---------------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if (self.schema is None) == (self.bounds is None):
            raise InvalidArgumentError(
                f"Expected exactly one of bounds and schema, got "
                f"{'neither' if self.schema is None else 'both'}. Pass public bounds, such as bounds=(low, "
                f"high), each a number or one number per column, or a schema. They are never read from the "
                f"data."
            )
        if self.schema is not None:
            require_schema(self.schema).require_complete()

    def _open(self, X: Any) -> RowSource:
        if self.schema is not None:
            return self._rows_to_fit(X, self._declared(None, 0))
        source = open_rows(X, person=self.person)
        schema = self._declared(source.names, source.n_columns)
        return self._rows_to_fit(X, schema, by_position=True)

    def _declared(self, names: Sequence[Any] | None, n_columns: int) -> Schema:
        """Return the schema, or a schema of numbers within the bounds."""
        return self._bounded(names, n_columns) if self.schema is None else self.schema

    def _public_facts(self, n_columns: int, names: Sequence[str] | None, n_rows: int | None) -> PublicFacts:
        """Return the public facts of the plan; the model is checked on generated rows."""
        schema = self._declared(names, n_columns)
        model = self._make_model(schema)
        clip_norm = (
            1.0 if self._plain and self.clip_norm is None else self.clip_norm
        )  # plain EM does not clip
        shape = check_model(model, schema, clip_norm, float(n_rows or 1000))
        iterations = self.max_iter or (_PLAIN_ITERATIONS if self._plain else DEFAULT_ITERATIONS)
        grid = TableGrid(schema, "declared" if self.schema is None else self.schema.source)
        return PublicFacts(grid, n_rows, names, ModelRequest(model, grid, shape, iterations))

    def _plan(self, public: PublicFacts) -> Plan:
        return self._with_quality(public.request.plan(**self._terms))

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        if public.n_rows is not None:
            noise = noise_of_statistics(public.request, plan, public.n_rows)
            warn_of_noise(noise, [1.0], plan, also=", fewer components or a smaller norm")

    def _threads(self, public: PublicFacts) -> int | None:
        # Third-party code runs on one thread: it may not be thread-safe, and more threads would not be
        # faster.
        return self.n_jobs if treats_blocks(public.request.model) else 1

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        request: ModelRequest = public.request
        fitted = fit_model(gate, request, public.n_rows, random_state, progress)

        def draw() -> tuple[NDArray[np.float64], ...]:
            return tuple(fitted.redraw(random_state).values())

        errors = deviations_of_draws(repeat(draw, _DRAWS))
        return self._attributes(request.grid.schema, fitted.parameters) | {
            "standard_errors_": dict(zip(fitted.parameters, errors, strict=True)),
            "n_iter_": request.iterations,
        }

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        request: ModelRequest = public.request
        parameters, n_iter = fit_plain_model(source, request, random_state, self.tol, progress)
        return self._attributes(request.grid.schema, parameters) | {
            "standard_errors_": {name: np.zeros_like(value) for name, value in parameters.items()},
            "n_iter_": n_iter,
        }

    def _attributes(self, schema: Schema, parameters: Parameters) -> dict[str, Any]:
        """Return the fitted attributes by name."""
        return {"schema_": schema, "parameters_": parameters, "_model": self._make_model(schema)}

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        del spread
        noise = noise_of_statistics(public.request, plan, n_rows)
        steps = {"steps": public.request.iterations}
        return Forecast(plan, {}, steps, tuple(noise), "Assumed: components of equal size.")

    def _bounded(self, names: Sequence[Any] | None, n_columns: int) -> Schema:
        """Return a schema of numbers within the bounds."""
        domain = self._domain(n_columns, names)
        low, high = np.asarray(domain.low), np.asarray(domain.high)
        named = names if names is not None and all(map(is_name, names)) else None
        return Schema(
            {
                name: {"kind": "continuous", "bounds": [float(low[j]), float(high[j])]}
                for j, name in enumerate(named or [f"x{j}" for j in range(n_columns)])
            }
        )

    # -- after the fit -----------------------------------------------------------------------------------

    def _table(self, X: Any) -> NDArray[np.float64]:
        """Return rows (d, n) in the units of the columns, parsed by the schema of the fit."""
        self._rows(X)  # validates columns and values; cells are then read as in the fit
        source = open_rows(X, self.schema_, by_position=self.schema is None, person=self._person_in(X))
        return source.in_memory().block()

    @property
    def _allows_missing(self) -> bool:
        return self.schema is not None  # a schema declares how missing cells are read

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-density of each row. As sensitive as X: do not publish it."""
        rows = self._table(X)
        locked = read_only(self.parameters_)
        return np.array([self._model.log_density(row.copy(), locked) for row in rows.T])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of the rows. As sensitive as X."""
        return float(self.score_samples(X).mean())

    # -- files -------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        return super()._arrays() | {f"parameter_{k}": v for k, v in self.parameters_.items()}

    def _saved_parameters(self) -> dict[str, Any]:
        return super()._saved_parameters() | {"fitted_schema": self.schema_.to_dict()}

    def _check_schema(self, schema: Schema) -> None:
        """Accept any columns: the model checks them."""

    def _described_bounds(self) -> dict[str, str]:
        return self.schema_.describe()

    @classmethod
    def _restore(
        cls, metadata: dict[str, Any], arrays: dict[str, np.ndarray], parameters: dict[str, Any]
    ) -> Self:
        parameters = dict(parameters)
        schema = Schema(parameters.pop("fitted_schema"))
        model = super()._restore(metadata, {}, parameters)
        released = {
            name.removeprefix("parameter_"): value
            for name, value in arrays.items()
            if name.startswith("parameter_")
        }
        require(released and len(schema.columns) == model.n_features_in_, "parameters, and columns of rows")
        expected = {f"parameter_{name}": value.shape for name, value in released.items()}
        expected |= {f"standard_error_{name}": value.shape for name, value in released.items()}
        require_numbers(arrays, expected)
        model.__dict__.update(model._attributes(schema, released))
        model._check_parameters()
        model._restore_standard_errors(arrays, released)
        return model

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Restore nothing here: `_restore` sets the arrays together with their schema."""

    def _check_parameters(self) -> None:
        """Accept any loaded parameters: nothing is known about the parameters of third-party models."""


class PrivateEM(ModelEstimator):
    """Fit your own model by EM under differential privacy.

    Each step releases the sum of the model's expected statistics with one Gaussian mechanism. Each row's
    vector is clipped to a norm C: the bound of the model, or `clip_norm`. The code of the model is checked
    before anything is charged (:class:`dpem.ExponentialFamily`); docs/guide/plug-in.md is a tutorial.

    Parameters
    ----------
    model : ExponentialFamily
        The model to fit.
    epsilon : float
        Epsilon of the privacy budget. ``math.inf`` runs plain EM and marks the result as not private.
    delta : float, default 1e-6
        Delta of the privacy budget. Choose it well below one over the number of rows.
    bounds : (low, high), or mapping of str to (low, high)
        Public bounds of the columns: two numbers, or lower and upper bounds with one number per column. For
        columns with names also a mapping such as ``{"age": (0, 120)}``. Values beyond are clipped.
    schema : Schema
        Declared columns of any kind; an alternative to bounds.
    clip_norm : float, optional
        Norm C to which each row's vector is clipped. Required if the model proves no bound.
    adjacency : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation: the number of rows is public with "replace_one" and private with "add_remove".
        The sensitivity is C for adding or removing a row, and 2 C for replacing one, or sqrt 2 C if the model
        promises that no entry is negative.
    rows_per_person : int, default 1
        Largest number of rows of one person; the guarantee then covers persons.
    person : str, optional
        Column that identifies persons; rows of a person beyond `rows_per_person` are left out. Without this
        column, dpem does not check that nobody has more rows (docs/how-to/persons.md).
    data_quality : bool, default True
        With a schema, whether to spend one hundredth of the budget on noisy counts, per column, of cells that
        could not be read, were outside the categories, or were clipped (`data_quality_`). A warning names
        columns with clearly too many of them.
    max_iter : int, optional
        Number of EM steps, 15 by default. A private fit never stops early. Plain EM takes at most this many,
        by default 200.
    tol : float, default 1e-8
        For plain EM only: it stops when no parameter changes by more.
    ledger : Ledger or path, optional
        Ledger to charge before any value is read.
    random_state : int or RandomState, optional
        Seed of the choices that need no privacy: starts, post-processing and `sample`. It never seeds the
        noise.
    n_jobs : int, optional
        Ignored: third-party code runs on one thread.
    verbose : int, default 0
        Whether to print the current step.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        Result of the last `m_step` of the model.
    standard_errors_ : dict of str to ndarray
        Standard errors of each parameter due to the noise of the last steps alone.
    privacy_ : PrivacyStatement
        The guarantee.
    plan_ : Plan
        All releases with their noise.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private or the fit is not private.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.
    n_iter_ : int
        Number of EM steps.
    schema_ : Schema
        The declared columns: `schema`, or one that follows from `bounds`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    A mixture of two exponential distributions with unknown rates; each row is a waiting time:

    >>> import numpy as np
    >>> import dpem
    >>> class Waiting(dpem.ExponentialFamily):
    ...     nonnegative = True
    ...     def start(self, schema, random_state, centres):
    ...         return {"weight": 0.5, "means": [0.5, 5.0]}
    ...     def expected_statistics(self, row, parameters):
    ...         w, m = parameters["weight"], parameters["means"]
    ...         joint = np.array([w, 1 - w]) * np.exp(-row[0] / m) / m
    ...         g = joint / joint.sum()
    ...         return np.concatenate([g, g * row[0] / 20])
    ...     def m_step(self, statistics, parameters, n_rows, noise):
    ...         counts = np.maximum(statistics[:2], 2 * noise)
    ...         means = np.clip(20 * statistics[2:] / counts, 0.05, 20)
    ...         return {"weight": counts[0] / counts.sum(), "means": means}
    ...     def norm_bound(self, schema):
    ...         return np.sqrt(2)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(np.where(rng.random(8000) < 0.3, 0.2, 3.0))[:, None]
    >>> model = dpem.PrivateEM(Waiting(), epsilon=2.5, bounds=(0, 20)).fit(X)
    >>> bool(np.abs(model.parameters_["means"] - [0.2, 3.0]).max() < 0.5)
    True
    """

    _public_name: ClassVar[str] = "dpem.PrivateEM"

    model: ExponentialFamily
    clip_norm: float | None
    max_iter: int | None
    tol: float

    @stores_arguments
    def __init__(
        self,
        model: ExponentialFamily,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        schema: Schema | None = None,
        clip_norm: float | None = None,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        data_quality: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-8,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    def _make_model(self, schema: Schema) -> ExponentialFamily:  # noqa: ARG002
        if not isinstance(self.model, ExponentialFamily):
            raise _validate.fail("a dpem.ExponentialFamily", "model", type(self.model).__name__)
        return self.model

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows from the model, without any charge: its parameters are released.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        random_state : int or RandomState, optional
            Seed of this draw; the `random_state` of the estimator by default.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or DataFrame
            Rows. With a schema, a DataFrame with its names and types.
        """
        check_is_fitted(self)
        n = _validate.integer(n_samples, "n_samples")
        drawn = self._model.sample(n, read_only(self.parameters_), self._random(random_state))
        rows = np.asarray(drawn, dtype=np.float64)
        if rows.shape != (n, self.n_features_in_):
            raise InvalidArgumentError(
                f"Expected rows of shape {(n, self.n_features_in_)} from "
                f"{type(self._model).__name__}.sample, got {rows.shape}. Return one row for each of the n "
                f"rows."
            )
        return self._as_declared(rows)

    @available_if(_has_predict_proba)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each component for each row, (n, k), if the model has `predict_proba`.

        As sensitive as X: do not publish it.
        """
        check_is_fitted(self)
        rows, locked, model = self._table(X), read_only(self.parameters_), cast("Any", self._model)
        found = [np.asarray(model.predict_proba(row.copy(), locked), dtype=np.float64) for row in rows.T]
        if len({one.shape for one in found}) > 1 or any(one.ndim != 1 for one in found):
            raise InvalidArgumentError(
                f"Expected vectors of one length from {type(model).__name__}.predict_proba, got other "
                f"results. Return a vector of the same length for every row."
            )
        return np.array(found)

    @available_if(_has_predict_proba)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component for each row. As sensitive as X."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def _predictions(self, rows: Any, *, probabilities: bool) -> tuple[NDArray[Any], list[str]]:
        if not _has_predict_proba(self):
            raise InvalidArgumentError(
                f"Expected a model with a method predict_proba, got {type(self.model).__name__} without it. "
                f"Implement predict_proba to predict."
            )
        return super()._predictions(rows, probabilities=probabilities)

    def _profile(self) -> Profile:
        rows = []
        for name, values in self.parameters_.items():
            entries = zip(
                np.ndindex(values.shape), values.flat, self.standard_errors_[name].flat, strict=True
            )
            for place, value, error in list(entries)[:_MOST_SHOWN]:
                title = f"{name}{list(place)}" if place else name
                rows.append((title, [ReleasedValue(float(value), float(error))]))
        return Profile("parameter", ["value"], [None], rows, has_shares=False)

    def _saved_parameters(self) -> dict[str, Any]:
        saved = super()._saved_parameters()
        saved["model"] = type(self.model).__name__  # code is not saved: `load` needs the model again
        parts = getattr(self.model, "n_components", None)
        if isinstance(parts, int | np.integer):  # a registered model is created again with this number
            saved["n_components"] = int(parts)
        return saved

    @classmethod
    def _with_plug_in(cls, parameters: dict[str, Any], model: Any) -> dict[str, Any]:
        parameters = dict(parameters)
        parts = parameters.pop("n_components", None)
        if parts is not None and not (type(parts) is int and 1 <= parts <= _MOST_COMPONENTS):
            raise ModelFileError(
                f"Expected a number of components from 1 to {_MOST_COMPONENTS} in the file, got another "
                f"value. The file is damaged: use another copy."
            )
        if model is None:
            model = plug_in_named(str(parameters.get("model")), parts)
        if not isinstance(model, ExponentialFamily):
            raise InvalidArgumentError(
                "Expected the plug-in model of this file, got none: model files contain no code. Pass it "
                "with dpem.load(path, model=...), or install the package that registers it as an entry "
                "point of dpem.models."
            )
        expected, given = parameters.get("model"), type(model).__name__
        if given != expected:
            raise _validate.fail(
                f"a model {textwrap.shorten(str(expected), 80)}, as in the file", "model", given
            )
        return parameters | {"model": model}
