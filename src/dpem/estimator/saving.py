"""Save and load fitted models, and verify their charges."""

from __future__ import annotations

import reprlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.data import Schema
from dpem.errors import InvalidArgumentError, ModelFileError
from dpem.estimator.arguments import check_constraints
from dpem.estimator.data_quality import DataQuality
from dpem.estimator.files import read_model, write_model
from dpem.estimator.saved_arrays import require, require_numbers, require_positive
from dpem.gate.plan import Plan
from dpem.privacy.ledger import Charge, Ledger
from dpem.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Domain
    from dpem.privacy.neighbours import PrivacyUnit

__all__ = ["SavedModel", "load"]

_MODELS: dict[str, type[SavedModel]] = {}
_STATED = ("epsilon", "delta", "adjacency", "unit", "accountant", "releases")  # equal in plan and statement


class SavedModel:
    """The part of every estimator that saves a fit and rebuilds it from a file."""

    # The name under which users import the estimator, which is saved and recorded in ledgers.
    _public_name: ClassVar[str]
    # Names of fitted arrays in the user's units, which are saved.
    _fitted_arrays: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:  # attributes of the estimator
        epsilon: float
        delta: float
        adjacency: str
        schema: Schema | None
        feature_names_in_: NDArray[Any]
        n_iter_: int

        def __init__(self, **arguments: Any) -> None: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def _check_budget(self) -> None: ...
        def _column_names(self) -> Sequence[str] | None: ...
        def _domain(self, n_columns: int) -> Domain: ...
        @property
        def _unit(self) -> PrivacyUnit: ...

    n_features_in_: int
    privacy_: PrivacyStatement
    plan_: Plan | None
    charge_: Charge | None
    n_rows_: int | None
    data_quality_: DataQuality | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_public_name" in cls.__dict__:
            _MODELS[cls._public_name] = cls

    def verify_charge(self, ledger: Ledger | str | os.PathLike[str]) -> None:
        """Raise unless this ledger is intact and contains the charge for this model.

        Parameters
        ----------
        ledger : Ledger or path
            The ledger that was charged for the fit.
        """
        check_is_fitted(self)
        if self.privacy_.event is None:
            raise InvalidArgumentError(
                "Expected a private model, got one that was fitted without noise, which has no charge."
            )
        account = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        account.verify_charge(self.charge_, self.privacy_, purpose=f"{self._public_name}.fit")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model: released values, public arguments, plan and statement, without pickle or rows.

        Parameters
        ----------
        path : path
            The file to write. An existing file is replaced; the command `dpem fit` replaces one only with
            ``--overwrite``. If the file cannot be written, an existing one stays unchanged.
        """
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
        """Return the released arrays to save, by name."""
        errors = getattr(self, "standard_errors_", {})
        arrays = {name: getattr(self, name) for name in self._fitted_arrays}
        return arrays | {f"standard_error_{name}": value for name, value in errors.items()}

    def _restore_standard_errors(
        self, arrays: dict[str, NDArray[np.float64]], parameters: Iterable[str]
    ) -> None:
        """Restore the standard errors of parameters from validated arrays; some models have none."""
        errors = {name: arrays.get(f"standard_error_{name}") for name in parameters}
        found = {name: error for name, error in errors.items() if error is not None}
        for name, error in found.items():
            require_positive(name, error, or_zero=True)
        if found:
            self.standard_errors_ = found

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        """Validate the output of `_arrays` (`estimator.saved_arrays`) and restore it: files may be forged."""
        raise NotImplementedError

    def _saved_parameters(self) -> dict[str, Any]:
        saved = {}
        for name, value in self.get_params(deep=False).items():
            if name in ("ledger", "random_state", "epsilon"):
                continue  # a file elsewhere, a seed, and a number in the statement
            saved[name] = value.to_dict() if isinstance(value, Schema) else _plain_data(value)
        return saved

    @classmethod
    def _with_plug_in(cls, parameters: dict[str, Any], model: Any) -> dict[str, Any]:
        """Return the arguments from a file with the plug-in model given to `load`, if it needs one."""
        if model is not None:
            raise _validate.fail(
                "no model for this file, which does not contain a plug-in model,",
                "model",
                type(model).__name__,
            )
        return parameters

    @classmethod
    def _restore(
        cls, metadata: dict[str, Any], arrays: dict[str, np.ndarray], parameters: dict[str, Any]
    ) -> Self:
        """Build the estimator from its arguments, and restore its fitted attributes."""
        parameters = dict(parameters)
        if isinstance(parameters.get("bounds"), list):  # arrays were saved as lists
            parameters["bounds"] = tuple(map(_array_or_number, parameters["bounds"]))
        if parameters.get("schema") is not None:
            parameters["schema"] = Schema(parameters["schema"])
        plan, privacy = _guarantee(metadata)
        model = cls(**parameters, epsilon=privacy.epsilon)
        check_constraints(model)
        model._check_budget()
        if plan is not None:
            asked = model.delta, model.adjacency, model._unit
            require(asked == (plan.delta, plan.adjacency, plan.unit), "the same arguments as in the plan")
        model.plan_, model.privacy_ = plan, privacy
        model.n_features_in_ = _validate.integer(metadata["n_features_in"], "n_features_in")
        described = model.schema is None or len(model.schema.columns) == model.n_features_in_
        require(described, "as many columns as the schema has")
        names = metadata["feature_names_in"]
        if names is not None:
            named = isinstance(names, list) and all(isinstance(name, str) for name in names)
            require(named and len(names) == model.n_features_in_, "one name for each column")
            model.feature_names_in_ = np.array(names, dtype=object)
        if plan is not None:
            model._domain(model.n_features_in_)  # raises if no fit could have had these bounds
        if metadata["n_iter"] is not None:
            model.n_iter_ = _validate.integer(metadata["n_iter"], "n_iter", 0)
        charge, n_rows = metadata.get("charge"), metadata.get("n_rows")
        model.charge_ = None if charge is None else Charge.from_dict(charge)
        model.n_rows_ = None if n_rows is None else _validate.integer(n_rows, "n_rows")
        model._restore_arrays(arrays)
        model._restore_standard_errors(arrays, (name.removesuffix("_") for name in cls._fitted_arrays))
        return model

    @classmethod
    def _restore_checked(
        cls, metadata: dict[str, Any], arrays: dict[str, np.ndarray], parameters: dict[str, Any]
    ) -> Self:
        """Build the estimator, and compare its bounds with those in its statement."""
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
            require(same, "a statement with the same bounds")
        return restored

    def _described_bounds(self) -> dict[str, str]:
        """Return the bounds of the arguments in words, as in the statement of a fit."""
        return self._domain(self.n_features_in_).describe(self._column_names())


def load(path: str | os.PathLike[str], *, model: Any = None) -> Any:
    """Load a model that `save` wrote, and check its privacy statement against its events.

    Parameters
    ----------
    path : path-like
        The file.
    model : ExponentialFamily, optional
        The plug-in model of a :class:`dpem.PrivateEM`: files contain no code.

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
        raise ModelFileError(
            f"Expected a model that this version of dpem knows, got {reprlib.repr(name)}. Install the "
            f"version of dpem that wrote the file."
        )
    if not isinstance(parameters, dict):
        raise ModelFileError(
            f"Expected a complete model in {str(path)!r}, got one without arguments. Save the model again."
        )
    estimator = _MODELS[name]
    parameters = estimator._with_plug_in(parameters, model)  # outside `try`: this is the caller's error
    try:
        return estimator._restore_checked(metadata, arrays, parameters)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, InvalidArgumentError) else "Something is missing."
        raise _damaged(path, reason) from error
    except ModelFileError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: str | os.PathLike[str], reason: str) -> ModelFileError:
    return ModelFileError(
        f"Expected an intact model in {str(path)!r}, got one that is damaged, forged, or from another "
        f"version of dpem. {textwrap.shorten(reason, 300)}"
    )


def _guarantee(metadata: dict[str, Any]) -> tuple[Plan | None, PrivacyStatement]:
    """Return plan and statement of a file. The plan is parsed first: it limits the number of events."""
    plan = None if metadata["plan"] is None else Plan.from_dict(metadata["plan"])
    planned = None if plan is None else plan.event.to_dict()
    require(metadata["privacy"]["event"] == planned, "a statement about the plan")
    privacy = PrivacyStatement.from_dict(metadata["privacy"])
    if plan is not None:
        stated = {name: getattr(privacy, name) for name in _STATED}
        require(stated == {name: getattr(plan, name) for name in _STATED}, "a statement about the plan")
    return plan, privacy


def _array_or_number(bound: Any) -> Any:
    return np.array(bound, dtype=np.float64) if isinstance(bound, list) else bound


def _plain_data(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _plain_data(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain_data(item) for item in value]
    if hasattr(value, "to_numpy"):  # bounds given as a Series
        return value.to_numpy().tolist()
    return value
