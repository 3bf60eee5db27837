"""Estimators of latent classes: mixtures of independent columns of categories, booleans or counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.estimator.arguments import stores_arguments, whole
from dpem.estimator.summary import ColumnLaw, column_names, label_of
from dpem.models.discrete.summary import figures_of, law_of_counts, profile_of_classes
from dpem.plugin.clipped import read_only
from dpem.plugin.estimator import ModelEstimator
from dpem.plugin.product_mixture import CategoricalFamily, PoissonFamily, ProductMixture

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger
    from dpem.estimator.summary import Profile
    from dpem.plugin.family import Parameters

__all__ = ["BernoulliMixture", "CategoricalMixture", "PoissonMixture"]

_MOST_VALUES = 1000  # of a column


class _DiscreteMixture(DensityMixin, ModelEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The common part of the three mixtures."""

    _part: ClassVar[str] = "class"
    _constraints: ClassVar[Constraints] = {"n_components": whole()}

    n_components: int
    weights_: NDArray[np.float64]
    _model: ProductMixture

    max_iter: int | None
    tol: float

    @stores_arguments
    def __init__(
        self,
        n_components: int = 1,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        schema: Schema | None = None,
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

    def _joint(self, X: Any) -> NDArray[np.float64]:
        return self._model.log_joint(self._table(X), read_only(self.parameters_)).T

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component for each row. As sensitive as X: do not publish it."""
        check_is_fitted(self)
        return np.asarray(self._joint(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each component for each row, (n, k). As sensitive as X."""
        check_is_fitted(self)
        return self._model.responsibilities(self._table(X), read_only(self.parameters_)).T

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-probability of each row's known cells. As sensitive as X."""
        check_is_fitted(self)
        return self._model.log_density_of_rows(self._table(X), read_only(self.parameters_))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-probability of the rows. As sensitive as X."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, *, random_state: Any = None, return_components: bool = False) -> Any:
        """Draw rows from the model, without any charge: its parameters are released.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        random_state : int or RandomState, optional
            Seed of this draw; the `random_state` of the estimator by default.
        return_components : bool, default False
            Whether to return the component of each row too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or DataFrame
            Rows. With a schema, a DataFrame with its names and types.
        y : ndarray of shape (n_samples,)
            With `return_components`, the component of each row in increasing order.
        """
        check_is_fitted(self)
        n = _validate.integer(n_samples, "n_samples")
        both = _validate.flag(return_components, "return_components")
        random_state, locked = self._random(random_state), read_only(self.parameters_)
        labels = self._model.labels(n, locked, random_state)
        drawn = self._as_declared(self._model.sample_labelled(labels, locked, random_state))
        return (drawn, labels) if both else drawn

    def _attributes(self, schema: Schema, parameters: Parameters) -> dict[str, Any]:
        weights = parameters["weights"]
        return super()._attributes(schema, parameters) | {"weights_": weights, "n_components_": len(weights)}

    def _declared(self, names: Sequence[Any] | None, n_columns: int) -> Schema:
        """Return the schema with continuous columns declared as integer columns."""
        schema = super()._declared(names, n_columns)
        continuous = [column.name for column in schema.columns if column.kind == "continuous"]
        return schema.declare({name: {"kind": "integer"} for name in continuous}) if continuous else schema

    def _check_parameters(self) -> None:
        self._model.check_parameters(self.parameters_)


class CategoricalMixture(_DiscreteMixture):
    """Latent classes under differential privacy: a mixture of independent categorical columns.

    Each EM step is one mechanism whose sensitivity does not depend on the number of classes or categories
    (Eq. S-14). Missing cells that the schema allows carry no information about their row.

    Parameters
    ----------
    n_components : int, default 1
        Number of components.
    bounds : (low, high)
        For columns of whole numbers, each number a category: public bounds, each a number or one per column.
    schema : Schema
        Columns of kind categorical, ordered, boolean or integer; an alternative to bounds.
    epsilon, delta, adjacency, rows_per_person, person, ledger, random_state, n_jobs, verbose
        As in :class:`dpem.GaussianMixture`.
    max_iter : int, optional
        Number of EM steps, 15 by default. A private fit never stops early. Plain EM takes at most this many,
        by default 200.
    tol : float, default 1e-8
        For plain EM only: it stops when no parameter changes by more.

    Attributes
    ----------
    weights_ : ndarray of shape (k,)
        Weights of the components.
    probabilities_ : list of ndarray of shape (k, categories)
        For every column, the probability of each of its categories in each component.
    categories_ : list of tuple
        The categories of every column.
    standard_errors_ : dict of str to ndarray
        Standard errors of "weights" and "probabilities" (columns side by side) due to the noise of the last
        steps alone.
    privacy_, plan_, n_iter_
        The guarantee, all releases with their noise, and the number of EM steps.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private or the fit is not private.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.
    parameters_, schema_ : dict and Schema
        The released parameters in the form of `dpem.PrivateEM`, and the declared columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> sick = np.where(rng.random((10_000, 1)) < 0.6, 0.1, 0.8)
    >>> answers = np.where(rng.random((10_000, 4)) < sick, "yes", "no")
    >>> survey = pd.DataFrame(answers, columns=["cough", "fever", "pain", "rash"])
    >>> answer = {"kind": "categorical", "categories": ["no", "yes"], "outside": "no"}
    >>> schema = dpem.Schema({name: answer for name in survey.columns})
    >>> model = dpem.CategoricalMixture(2, epsilon=1.0, schema=schema, random_state=0).fit(survey)
    >>> bool(abs(model.weights_.max() - 0.6) < 0.1)
    True
    """

    _public_name: ClassVar[str] = "dpem.CategoricalMixture"
    _model: CategoricalFamily
    probabilities_: list[NDArray[np.float64]]
    categories_: list[tuple[Any, ...]]

    def _attributes(self, schema: Schema, parameters: Parameters) -> dict[str, Any]:
        found = super()._attributes(schema, parameters)
        categories = [
            tuple(range(int(column.limits[0]), int(column.limits[1]) + 1))
            if column.categories is None
            else column.categories
            for column in schema.columns
        ]
        return found | {"probabilities_": found["_model"].tables(parameters), "categories_": categories}

    def _profile(self) -> Profile:
        header = [
            f"{name} = {label_of(value)}"
            for name, values in zip(column_names(self), self.categories_, strict=True)
            for value in values
        ]
        law, errors = self.parameters_["probabilities"], self.standard_errors_["probabilities"]
        return profile_of_classes(self, header, law, errors)

    _figures = figures_of

    def _law(self, column: int) -> ColumnLaw:
        values, law = self.categories_[column], self.weights_ @ self.probabilities_[column]
        return ColumnLaw(
            column_names(self)[column], None, values, law, self.schema_.columns[column].limits[0]
        )

    def _make_model(self, schema: Schema) -> CategoricalFamily:
        k = self.n_components
        sizes, first = [], []
        for column in schema.columns:
            low, high = column.limits
            whole = max(-low, high) <= 2.0**53 and high - low < _MOST_VALUES
            if column.kind == "continuous" or not whole:
                raise InvalidArgumentError(
                    f"Expected columns of categories, or of at most {_MOST_VALUES} whole numbers, got "
                    f"column {column.name!r} of kind {column.kind!r}: {column.describe()}. Leave it out with "
                    f"schema.select, or declare categories."
                )
            sizes.append(int(high - low) + 1)
            first.append(low)
        return CategoricalFamily(k, tuple(sizes), tuple(first))

    def _declared(self, names: Sequence[Any] | None, n_columns: int) -> Schema:
        return super()._declared(names, n_columns) if self.schema is None else self.schema


class BernoulliMixture(_DiscreteMixture):
    """A mixture of independent yes/no columns under differential privacy.

    Each EM step is one mechanism whose sensitivity does not depend on the number of components (Eq. S-14).

    Parameters
    ----------
    n_components : int, default 1
        Number of components.
    bounds : (0, 1)
        For columns of the numbers 0 and 1; numbers in between are rounded.
    schema : Schema
        Columns of kind boolean, or integer with bounds 0 and 1; an alternative to bounds.
    epsilon, delta, adjacency, rows_per_person, person, ledger, random_state, n_jobs, verbose
        As in :class:`dpem.GaussianMixture`.
    max_iter : int, optional
        Number of EM steps, 15 by default. A private fit never stops early. Plain EM takes at most this many,
        by default 200.
    tol : float, default 1e-8
        For plain EM only: it stops when no parameter changes by more.

    Attributes
    ----------
    weights_ : ndarray of shape (k,)
        Weights of the components.
    probabilities_ : ndarray of shape (k, d)
        The probability of yes.
    standard_errors_ : dict of str to ndarray
        Standard errors of "weights" and "probabilities" (for each column no, then yes) due to the noise of
        the last steps alone.
    privacy_, plan_, n_iter_
        The guarantee, all releases with their noise, and the number of EM steps.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private or the fit is not private.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.
    parameters_, schema_ : dict and Schema
        The released parameters in the form of `dpem.PrivateEM`, and the declared columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> p = np.array([[0.9, 0.9, 0.1], [0.1, 0.2, 0.8]])
    >>> X = rng.random((10_000, 3)) < p[rng.integers(2, size=10_000)]
    >>> model = dpem.BernoulliMixture(2, epsilon=1.0, bounds=(0, 1), random_state=0).fit(X)
    >>> bool(abs(model.probabilities_[:, 0].max() - 0.9) < 0.1)
    True
    """

    _public_name: ClassVar[str] = "dpem.BernoulliMixture"
    probabilities_: NDArray[np.float64]

    def _attributes(self, schema: Schema, parameters: Parameters) -> dict[str, Any]:
        found = super()._attributes(schema, parameters)
        return found | {"probabilities_": parameters["probabilities"][:, 1::2]}

    def _profile(self) -> Profile:
        errors = self.standard_errors_["probabilities"][:, 1::2]
        return profile_of_classes(self, column_names(self), self.probabilities_, errors)

    _figures = figures_of

    def _law(self, column: int) -> ColumnLaw:
        yes = float(self.weights_ @ self.probabilities_[:, column])
        return ColumnLaw(column_names(self)[column], None, ("no", "yes"), np.array([1 - yes, yes]))

    def _make_model(self, schema: Schema) -> CategoricalFamily:
        k = self.n_components
        for column in schema.columns:
            if column.limits != (0.0, 1.0) or column.kind in {"categorical", "ordered"}:
                raise InvalidArgumentError(
                    f"Expected yes/no columns (kind boolean, or numbers with bounds 0 and 1), got column "
                    f"{column.name!r}: {column.describe()}. Leave it out, or use dpem.CategoricalMixture."
                )
        d = len(schema.columns)
        return CategoricalFamily(k, (2,) * d, (0.0,) * d)


class PoissonMixture(_DiscreteMixture):
    """A mixture of independent columns of counts under differential privacy.

    The noise is proportional to the public bounds of the counts, so declare the smallest bounds that public
    knowledge allows. Each EM step is one mechanism (Eq. S-14).

    Parameters
    ----------
    n_components : int, default 1
        Number of components.
    bounds : (0, high)
        Public bounds of the counts, each a number or one number per column. Counts beyond are clipped.
    schema : Schema
        Columns of kind integer with bounds from 0; an alternative to bounds.
    epsilon, delta, adjacency, rows_per_person, person, ledger, random_state, n_jobs, verbose
        As in :class:`dpem.GaussianMixture`.
    max_iter : int, optional
        Number of EM steps, 15 by default. A private fit never stops early. Plain EM takes at most this many,
        by default 200.
    tol : float, default 1e-8
        For plain EM only: it stops when no parameter changes by more.

    Attributes
    ----------
    weights_ : ndarray of shape (k,)
        Weights of the components.
    means_ : ndarray of shape (k, d)
        Mean counts.
    standard_errors_ : dict of str to ndarray
        Standard errors of "weights" and "means" due to the noise of the last steps alone.
    privacy_, plan_, n_iter_
        The guarantee, all releases with their noise, and the number of EM steps.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private or the fit is not private.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.
    parameters_, schema_ : dict and Schema
        The released parameters in the form of `dpem.PrivateEM`, and the declared columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> visits = rng.poisson(np.where(rng.random((20_000, 1)) < 0.3, [9.0, 1.0], [2.0, 5.0]))
    >>> model = dpem.PoissonMixture(2, epsilon=1.0, bounds=(0, 20), random_state=0).fit(visits)
    >>> bool(np.abs(np.sort(model.means_[:, 0]) - [2, 9]).max() < 1)
    True
    """

    _public_name: ClassVar[str] = "dpem.PoissonMixture"
    means_: NDArray[np.float64]

    def _attributes(self, schema: Schema, parameters: Parameters) -> dict[str, Any]:
        return super()._attributes(schema, parameters) | {"means_": parameters["means"]}

    def _profile(self) -> Profile:
        return profile_of_classes(self, column_names(self), self.means_, self.standard_errors_["means"])

    def _law(self, column: int) -> ColumnLaw:
        bound = self.schema_.columns[column].limits[1]
        return law_of_counts(column_names(self)[column], self.weights_, self.means_[:, column], bound)

    def _make_model(self, schema: Schema) -> PoissonFamily:
        k = self.n_components
        for column in schema.columns:
            if not column.is_number or column.limits[0] != 0.0:
                raise InvalidArgumentError(
                    f"Expected columns of counts (kind integer, bounds from 0), got column {column.name!r}: "
                    f"{column.describe()}. Leave it out, or declare bounds from 0."
                )
        return PoissonFamily(k, tuple(column.limits[1] for column in schema.columns))
