"""What all estimators share: arguments, the gate, the statement, saving and loading."""

from __future__ import annotations

import html
import math
import os
import reprlib
import textwrap
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem._warnings import warn
from dpem.data import Domain, RowGrid, RowSource, Schema, TableGrid, TableRows
from dpem.data.fitted_columns import check_columns, keep_columns
from dpem.data.schema import require_schema
from dpem.data.sources.files import Files, file_head
from dpem.data.to_dataframe import frame_of
from dpem.engines import engine_for, open_rows, rows_to_release
from dpem.errors import DeltaWarning, InvalidArgumentError, ModelFileError, WeakFitWarning
from dpem.estimator.data_quality import STAGE as QUALITY
from dpem.estimator.data_quality import DataQuality, release_quality, with_quality_stage
from dpem.estimator.files import read_model, write_model
from dpem.estimator.planned_columns import Forecast, PlannedColumns, warn_of_noise
from dpem.estimator.saved_arrays import require, require_numbers, require_positive
from dpem.gate.opened_ledger import opened_ledger
from dpem.gate.plan import Plan
from dpem.gate.release import CHARGED, ReleaseGate
from dpem.gate.resume import active_resume_file, described
from dpem.privacy.ledger import Charge, Ledger
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.randomness import PublicRandom, public_random
from dpem.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid
    from dpem.estimator.planned_columns import ExpectedNoise
    from dpem.estimator.summary import Profile

__all__ = [
    "Adjacency",
    "Ledger",
    "PrivacyStatement",
    "PrivateEstimator",
    "PublicRandom",
    "load",
    "public_random",
]

_MODELS: dict[str, type[PrivateEstimator]] = {}
_STATED = ("epsilon", "delta", "adjacency", "unit", "accountant", "releases")  # by plan and statement alike


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators: a subclass states its public arguments, its plan and its fit."""

    # The name under which users import the estimator; it is saved, and recorded in ledgers.
    _public_name: ClassVar[str]
    # Fitted arrays in the user's units, by name; they are what is saved.
    _fitted_arrays: ClassVar[tuple[str, ...]] = ()

    # Arguments that every estimator has (each subclass names them in its own signature).
    epsilon: float
    delta: float
    bounds: Any
    data_norm: float | None
    schema: Schema | None
    adjacency: str
    rows_per_person: int
    person: str | None
    data_quality: bool = False  # of the paper's methods
    ledger: Ledger | str | os.PathLike[str] | None
    random_state: Any
    n_jobs: int | None
    verbose: int

    privacy_: PrivacyStatement
    plan_: Plan | None
    charge_: Charge | None
    n_rows_: int | None
    data_quality_: DataQuality | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_public_name" in cls.__dict__:
            _MODELS[cls._public_name] = cls

    # -- before the data ---------------------------------------------------------------------------------

    @property
    def _plain(self) -> bool:
        """Whether the fit is to be without privacy: epsilon = inf."""
        return bool(self.epsilon == math.inf)

    def _check_budget(self) -> None:
        if self._plain:
            if self.ledger is not None:
                raise _validate.fail(
                    "a finite epsilon with a ledger",
                    "epsilon",
                    self.epsilon,
                    "Without noise nothing can be charged.",
                )
        else:
            _validate.epsilon(self.epsilon)
            _validate.delta(self.delta)
        Adjacency.parse(self.adjacency)
        if self.data_quality not in (True, False):
            raise _validate.fail("True or False", "data_quality", self.data_quality)
        _ = self._unit  # raises where it is none

    def _source(self, X: Any, *, keep_distances: bool = True) -> tuple[RowSource, Domain]:
        """Check what is public of the data, and fix the domain."""
        if self.schema is not None:
            self._check_schema(require_schema(self.schema))
        source = self._rows_to_fit(X, self.schema)
        return source, self._domain(source.n_columns, source.names, keep_distances=keep_distances)

    def _rows_to_fit(self, X: Any, schema: Schema | None, *, by_position: bool = False) -> RowSource:
        """Return the rows, where there must be some, and no more of a person than was declared."""
        unit = self._unit
        return rows_to_release(
            X, schema, self.adjacency, unit.rows_per_person, unit.person, by_position=by_position
        )

    def _check_schema(self, schema: Schema) -> None:
        """Raise where a schema has columns that the model has no use for."""
        schema.require_numbers(missing=self._allows_missing)

    def _domain(
        self, n_columns: int, names: Sequence[str] | None = None, *, keep_distances: bool = True
    ) -> Domain:
        """Return the public domain that the arguments declare."""
        return Domain.from_arguments(
            n_columns,
            bounds=self.bounds,
            data_norm=self.data_norm,
            schema=self.schema,
            names=names,
            keep_distances=keep_distances,
        )

    @property
    def _unit(self) -> PrivacyUnit:
        return PrivacyUnit(self.rows_per_person, self.person)

    def _random(self, random_state: Any = None) -> PublicRandom:
        """Return the generator of the free post-processing; it never touches the noise.

        A `random_state` given to the call replaces the estimator's own.
        """
        if random_state is not None:
            return public_random(random_state)
        resume_file = active_resume_file()
        return public_random(
            self.random_state if resume_file is None else resume_file.public_seed(self.random_state)
        )

    def _public_rows(self, source: RowSource) -> int | None:
        """Return the number of rows where it is public."""
        if self.adjacency == "add_remove":
            return None
        self._warn_of_delta(source.n_rows)
        return source.n_rows

    def _warn_of_delta(self, n_rows: float, *, stacklevel: int = 4) -> None:
        if self.delta >= 1 / n_rows:
            about = "" if isinstance(n_rows, int) else "about "
            warn(
                f"delta={self.delta:g} is not below one over the number of rows ({about}{n_rows:.0f}): a "
                f"mechanism that publishes one row outright would meet it. Choose a smaller delta.",
                DeltaWarning,
                stacklevel=stacklevel,
            )

    def _with_quality(self, plan: Plan) -> Plan:
        """Return the plan, with a hundredth of it for counts of cells that the schema cannot take."""
        if self.schema is None or not self.data_quality:
            return plan
        return with_quality_stage(plan, len(self.schema.columns))

    def _release_quality(self, gate: ReleaseGate) -> tuple[NDArray[np.float64], float] | None:
        """Buy those counts, where they are planned."""
        if self.schema is not None and any(stage.name == QUALITY for stage in gate.plan.stages):
            return release_quality(gate, self.schema.names)
        return None

    # -- what commands and reports show: each model says it of itself ------------------------------------

    _part: ClassVar[str] = "component"  # what `predict` numbers

    def _profile(self) -> Profile | None:
        """Return released values by part and column, with what noise does to them; None for no such table."""
        return None

    def _figures(self) -> dict[str, Any]:
        """Return the released parameters from which a page draws, as JSON."""
        return {"kind": "none", "columns": []}

    def _spread(self) -> dict[str, float] | None:
        """Return the deviation of each column within a part, where the model has one."""
        return None

    def _predictions(self, rows: Any, *, probabilities: bool) -> tuple[NDArray[Any], list[str]]:
        """Return what `dpem predict` writes of rows, (n, columns), and the names of these columns."""
        predicting: Any = self
        if not hasattr(predicting, "predict"):
            raise InvalidArgumentError(f"Expected a model that predicts, got {type(self).__name__}.")
        if not probabilities:
            return np.asarray(predicting.predict(rows))[:, None] + 1, [self._part]
        if not hasattr(predicting, "predict_proba"):
            raise InvalidArgumentError(
                f"Expected a model with probabilities, got {type(self).__name__}. Leave --probabilities out."
            )
        chances = predicting.predict_proba(rows)
        return chances, [f"probability of {part + 1}" for part in range(chances.shape[1])]

    # -- planning ----------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        """Raise for arguments that no table could go with."""

    def _forecast(
        self,
        n_rows: int,  # noqa: ARG002
        columns: Any,  # noqa: ARG002
        spread: Any,  # noqa: ARG002
    ) -> Forecast:
        """Return what a fit would give, from public numbers: for `dpem.plan`."""
        raise _validate.fail("an estimator that has a forecast", "estimator", self._public_name)

    def _columns_to_plan(self, named: Any, spread: Any) -> tuple[PlannedColumns, Domain]:
        """Return the columns that a plan is about, and the public domain that they make."""
        names, n_columns = self._names_to_plan(named)
        domain = self._domain(n_columns, keep_distances=self._keeps_distances)
        return PlannedColumns.of_domain(domain, names, spread), domain

    def _names_to_plan(self, named: Any) -> tuple[tuple[str, ...] | None, int]:
        """Return the names of the columns that a plan is about, where they are known, and their number."""
        names = None
        if self.schema is not None:
            self._check_schema(self.schema)
            self.schema.require_complete()
            names = self.schema.names
        elif named is None:
            sizes = {len(bound) for bound in self.bounds or () if hasattr(bound, "__len__")}
            if len(sizes) != 1:
                raise _validate.fail("the number of columns of the table", "columns", named)
            named = sizes.pop()
        elif not isinstance(named, int):
            names = tuple(map(str, named))
        return names, _validate.integer(named if names is None else len(names), "columns")

    @property
    def _keeps_distances(self) -> bool:
        """Whether the model measures distances in the user's units, so that columns share one scale."""
        return True

    def _planned_columns(self, domain: Domain, names: Sequence[str] | None = None) -> PlannedColumns:
        """Return the columns with a public guess of their spread."""
        return PlannedColumns.of_domain(domain, self._column_names() if names is None else names, None)

    def _warn_of_noise(
        self, entries: Sequence[ExpectedNoise], domain: Domain, plan: Plan, also: str, *, stacklevel: int
    ) -> None:
        """Warn of columns that noise will blur, from public numbers alone."""
        low, high = domain.box
        warn_of_noise(entries, (high - low).tolist(), plan, also=also, stacklevel=stacklevel + 1)

    def _gate(
        self,
        plan: Plan,
        source: RowSource,
        domain: Domain | TableGrid | LevelGrid,
        grid: RowGrid | None = None,
        n_jobs: int | None = None,
    ) -> ReleaseGate:
        """Charge the whole plan and return the gate that may read the rows.

        `domain` bounds the rows; `grid` turns them into integers, where that is not the domain itself.
        """
        charge = getattr(self, "charge_", None)
        if self.ledger is None and charge is not None:
            raise InvalidArgumentError(
                f"Expected a ledger: this model was charged to that of {charge.ledger!r}, and another fit "
                f"costs again. Give it with set_params(ledger=...), or fit a new estimator."
            )
        ledger = opened_ledger(self.ledger, self.schema)
        purpose = f"{self._public_name}.fit"
        engine = engine_for(source, n_jobs or self.n_jobs)
        n_rows = source.n_rows if plan.adjacency == "replace_one" else None
        facts = [self._public_facts(), source.names, source.n_columns, n_rows]
        names = self.schema.names if self.schema is not None else source.names
        return ReleaseGate(
            plan,
            source,
            domain if grid is None else grid,
            engine,
            ledger=ledger,
            purpose=purpose,
            facts=facts,
            bounds=domain.describe(names),
            bounds_source=domain.source,
        )

    def _public_facts(self) -> dict[str, Any]:
        """Return the arguments that make a fit what it is, for one that is continued after a crash."""
        without = {"ledger", "n_jobs", "verbose"}
        arguments = {k: v for k, v in self.get_params(deep=False).items() if k not in without}
        return {name: described(value) for name, value in arguments.items()}

    @contextmanager
    def _charged(self) -> Iterator[None]:
        """Say, on an interrupt or an error after the charge, that the budget stays spent."""
        try:
            yield
        except BaseException as error:
            if self.ledger is not None:
                error.add_note(CHARGED)
            raise

    def _state(
        self, gate: ReleaseGate, source: RowSource, quality: tuple[NDArray[np.float64], float] | None = None
    ) -> None:
        """Write columns, plan and privacy statement of a finished fit, then warn of what is weak in it."""
        gate.close()
        keep_columns(self, source)
        plan = gate.plan
        self.plan_, self.charge_ = plan, gate.charge
        self.n_rows_ = source.n_rows if plan.adjacency == "replace_one" else None
        self.privacy_ = gate.statement()
        self.data_quality_ = None
        if quality is not None and self.schema is not None:
            n_rows = float(self.n_rows_ if self.n_rows_ is not None else gate.n_rows or 1.0)
            self.data_quality_ = DataQuality(self.schema.names, *quality, n_rows)
            self.data_quality_.warn(stacklevel=3)
        if self.n_rows_ is None and gate.n_rows is not None:
            self._warn_of_delta(float(gate.n_rows))
        weak = self._weakness()
        if weak:
            warn(
                f"{weak} Use a larger epsilon, more rows, or ask for less.",
                WeakFitWarning,
                stacklevel=3,
            )

    def _weakness(self) -> str:
        """Say which released parameters are mostly noise, by their standard errors; "" for none."""
        return ""

    def _column_names(self) -> Sequence[str] | None:
        if self.schema is not None:
            return self.schema.names
        return getattr(self, "feature_names_in_", None)

    def _plain_rows(self, source: RowSource, domain: Domain) -> NDArray[np.float64]:
        """Return the rows (n, d) of a fit without privacy: clipped as a private fit does, NaN an error."""
        rows = source.in_memory().block().T
        bad = (np.isinf(rows) if self._allows_missing else ~np.isfinite(rows)).any(axis=0)
        if bad.any():
            names = source.names or [f"x{j}" for j in range(rows.shape[1])]
            which = ", ".join(repr(names[j]) for j in np.flatnonzero(bad))
            what = "infinity" if self._allows_missing else "NaN or infinity"
            raise InvalidArgumentError(
                f"Expected finite numbers with epsilon=inf: Input X contains {what} in column {which}. Drop "
                f"or fill those rows. (A private fit never raises because of a value.)"
            )
        return domain.clip(rows)

    def _state_not_private(self, source: RowSource) -> None:
        keep_columns(self, source)
        self.plan_, self.charge_, self.n_rows_, self.data_quality_ = None, None, None, None
        self.privacy_ = PrivacyStatement.not_private()

    # -- after the fit -----------------------------------------------------------------------------------

    def _rows(self, X: Any) -> NDArray[np.float64]:
        """Return rows to predict, as a checked (n, d) array: here a bad value raises."""
        source = self._fitted_source(X)
        source.require_rows()
        rows = source.block().T
        if self._allows_missing:
            if np.isinf(rows).any():
                raise InvalidArgumentError("Expected finite or missing numbers: Input X contains infinity.")
        elif not np.isfinite(rows).all():
            raise InvalidArgumentError("Expected finite numbers: Input X contains NaN or infinity.")
        return rows

    def _as_declared(self, rows: NDArray[np.float64]) -> Any:
        """Return sampled rows (n, d) as the schema declares them: a DataFrame; without one as they are."""
        if self.schema is None:
            return rows
        low, high = self.schema.bounds
        return frame_of(self.schema, np.minimum(np.maximum(rows, low), high).T)

    @property
    def _allows_missing(self) -> bool:
        """Whether cells may be missing."""
        return False

    def _fitted_source(self, X: Any) -> TableRows:
        """Return rows whose columns are those of the fit; only what is public of them is checked."""
        source = open_rows(X, self.schema, person=self._person_in(X)).in_memory()
        check_columns(self, source)
        return source

    def _person_in(self, X: Any) -> str | None:
        """Return the column of persons where rows still have it: none to compute with."""
        if self.person is None or self.schema is not None:  # a schema has no such column
            return None
        paths = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | os.PathLike)
        if paths or isinstance(X, str | os.PathLike | Files):
            names = file_head(X if isinstance(X, Files) else Files(X))[0].column_names
        else:  # Arrow's columns are arrays
            names = getattr(X, "column_names", getattr(X, "columns", None))
        return self.person if names is not None and self.person in list(names) else None

    def verify_charge(self, ledger: Ledger | str | os.PathLike[str]) -> None:
        """Raise unless this ledger holds, and has the record that paid for this model.

        Parameters
        ----------
        ledger : Ledger or path
            The ledger that was charged for the fit.
        """
        check_is_fitted(self)
        if self.privacy_.event is None:
            raise InvalidArgumentError("Expected a private model, got one that was fitted without noise.")
        account = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        account.verify_charge(self.charge_, self.privacy_, purpose=f"{self._public_name}.fit")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model: released values, public arguments, plan and statement. No pickle, no rows."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        metadata = {
            "model": self._public_name,
            "parameters": self._saved_parameters(),
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else [str(name) for name in names],
            "privacy": self.privacy_.to_dict(),
            "plan": None if self.plan_ is None else self.plan_.to_dict(),
            "n_iter": getattr(self, "n_iter_", None),
            "charge": None if self.charge_ is None else self.charge_.to_dict(),
            "n_rows": self.n_rows_,
        }
        quality = getattr(self, "data_quality_", None)
        write_model(path, metadata, self._arrays() | ({} if quality is None else quality.arrays()))

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what is saved of a fit: released arrays by name."""
        errors = getattr(self, "standard_errors_", {})
        arrays = {name: getattr(self, name) for name in self._fitted_arrays}
        return arrays | {f"standard_error_{name}": value for name, value in errors.items()}

    def _restore_standard_errors(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Take back standard errors, whose names and shapes are checked."""
        of = "standard_error_"
        self.standard_errors_ = {k.removeprefix(of): v for k, v in arrays.items() if k.startswith(of)}
        for name, value in self.standard_errors_.items():
            require_positive(name, value, or_zero=True)

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Take back what `_arrays` gave, checked (`estimator.saved_arrays`): a file may come from anyone."""
        raise NotImplementedError

    def _saved_parameters(self) -> dict[str, Any]:
        saved = {}
        for name, value in self.get_params(deep=False).items():
            if name in ("ledger", "random_state", "epsilon"):
                continue  # a file elsewhere, a seed, and what the statement says better
            saved[name] = value.to_dict() if isinstance(value, Schema) else _plain_data(value)
        return saved

    @classmethod
    def _with_plug_in(cls, parameters: dict[str, Any], model: Any) -> dict[str, Any]:
        """Return a file's arguments with the plug-in model that `load` was given, where one is needed."""
        if model is not None:
            raise _validate.fail("no model for a file that needs none", "model", type(model).__name__)
        return parameters

    @classmethod
    def _restore(
        cls, metadata: dict[str, Any], arrays: dict[str, np.ndarray], parameters: dict[str, Any]
    ) -> Self:
        """Build the estimator from its arguments, and give it back what it had found."""
        parameters = dict(parameters)
        if parameters.get("schema") is not None:
            parameters["schema"] = Schema(parameters["schema"])
        plan, privacy = _guarantee(metadata)
        model = cls(**parameters, epsilon=privacy.epsilon)
        model._check_budget()
        if plan is not None:
            asked = model.delta, model.adjacency, model._unit
            require(asked == (plan.delta, plan.adjacency, plan.unit), "arguments that the plan has too")
        model.plan_, model.privacy_ = plan, privacy
        model.n_features_in_ = _validate.integer(metadata["n_features_in"], "n_features_in")
        described = model.schema is None or len(model.schema.columns) == model.n_features_in_
        require(described, "as many columns as the schema has")
        if plan is not None:
            model._domain(model.n_features_in_)  # raises where no fit could have had these bounds
        names = metadata["feature_names_in"]
        if names is not None:
            named = isinstance(names, list) and all(isinstance(name, str) for name in names)
            require(named and len(names) == model.n_features_in_, "one name for each column")
            model.feature_names_in_ = np.array(names, dtype=object)
        if metadata["n_iter"] is not None:
            model.n_iter_ = _validate.integer(metadata["n_iter"], "n_iter", 0)
        charge, n_rows = metadata.get("charge"), metadata.get("n_rows")
        model.charge_ = None if charge is None else Charge.from_dict(charge)
        model.n_rows_ = None if n_rows is None else _validate.integer(n_rows, "n_rows")
        model._restore_arrays(arrays)
        return model

    @classmethod
    def _restore_checked(
        cls, metadata: dict[str, Any], arrays: dict[str, np.ndarray], parameters: dict[str, Any]
    ) -> Self:
        """Build the estimator, and compare its bounds with those that its statement names."""
        quality: dict[str, np.ndarray] = {
            name: arrays.pop(name) for name in ("quality_counts", "quality_noise") if name in arrays
        }
        restored = cls._restore(metadata, arrays, parameters)
        restored.data_quality_ = None
        if quality:
            columns = () if restored.schema is None else restored.schema.names
            require_numbers(quality, {"quality_counts": (len(columns), 4), "quality_noise": (2,)})
            require_positive("quality_noise", quality["quality_noise"])
            restored.data_quality_ = DataQuality.from_arrays(columns, quality)
        if restored.plan_ is not None:
            same = restored._described_bounds() == restored.privacy_.bounds
            require(same, "a statement of the same bounds")
        return restored

    def _described_bounds(self) -> dict[str, str]:
        """Return the bounds of the arguments in words, as the statement of a fit has them."""
        return self._domain(self.n_features_in_).describe(self._column_names())

    def __str__(self) -> str:
        """Return scikit-learn's text, and what is weak in a fit."""
        found = [repr(self)]
        if hasattr(self, "privacy_") and self.privacy_.event is not None:
            found += [f"Weak fit: {words}" for words in [self._weakness()] if words]
            if self.data_quality_ is not None and self.data_quality_.bad:
                names = ", ".join(map(repr, self.data_quality_.bad))
                found.append(f"The schema does not fit the rows of {names}: see data_quality_.")
        return "\n".join(found)

    def __sklearn_tags__(self) -> Any:
        """Say whether rows may have missing cells."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, with the privacy statement below it once fitted."""
        diagram = super()._repr_html_inner()
        if hasattr(self, "privacy_"):
            diagram += f"<p><strong>Privacy.</strong> {html.escape(str(self.privacy_))}</p>"
        return str(diagram)


def load(path: str | os.PathLike[str], *, model: Any = None) -> Any:
    """Load a model that `save` wrote. Its claim of privacy is checked against its events again.

    Parameters
    ----------
    path : path-like
        The file.
    model : ExponentialFamily, optional
        The plug-in model of a :class:`dpem.PrivateEM`: files hold no code.

    Returns
    -------
    PrivateEstimator
        The fitted model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.dpem"
    >>> dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X).save(path)
    >>> dpem.load(path).privacy_.epsilon
    1.0
    """
    metadata, arrays = read_model(path)
    name, parameters = metadata.get("model"), metadata.get("parameters")
    if not isinstance(name, str) or name not in _MODELS:
        raise ModelFileError(f"Expected a model that this dpem knows, got {reprlib.repr(name)}.")
    if not isinstance(parameters, dict):
        raise ModelFileError(f"Expected a whole model in {str(path)!r}, got one without arguments.")
    estimator = _MODELS[name]
    parameters = estimator._with_plug_in(parameters, model)  # errors of the caller, not of the file
    try:
        return estimator._restore_checked(metadata, arrays, parameters)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, InvalidArgumentError) else "Something is missing."
        raise _not_whole(path, reason) from error
    except ModelFileError as error:
        raise _not_whole(path, str(error)) from error


def _not_whole(path: str | os.PathLike[str], reason: str) -> ModelFileError:
    return ModelFileError(
        f"Expected a whole model in {str(path)!r}, got one that is damaged or forged, or of another version. "
        f"{textwrap.shorten(reason, 300)}"
    )


def _guarantee(metadata: dict[str, Any]) -> tuple[Plan | None, PrivacyStatement]:
    """Return plan and statement of a file. The plan comes first: it limits what an accountant is given."""
    plan = None if metadata["plan"] is None else Plan.from_dict(metadata["plan"])
    planned = None if plan is None else plan.event.to_dict()
    require(metadata["privacy"]["event"] == planned, "a statement of what was planned")
    privacy = PrivacyStatement.from_dict(metadata["privacy"])
    if plan is not None:
        stated = {name: getattr(privacy, name) for name in _STATED}
        require(stated == {name: getattr(plan, name) for name in _STATED}, "a statement of what was planned")
    return plan, privacy


def _plain_data(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain_data(item) for item in value]
    if hasattr(value, "to_numpy"):  # bounds as a Series
        return value.to_numpy().tolist()
    return value
