"""Private k-means with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpem import _validate
from dpem.data.domain import GRID
from dpem.em.estimator import PrivateEstimator
from dpem.em.progress import Progress
from dpem.em.standard_errors import standard_errors
from dpem.errors import InvalidArgumentError, WeakSignalWarning
from dpem.models.kmeans_fit import DEFAULT_ITERATIONS, fit_centres, plan_kmeans
from dpem.models.nearest_centre import NearestCentreMixin

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.em.estimator import Ledger
    from dpem.em.plan import Plan

__all__ = ["KMeans"]

# Below this n mu / K little can be expected: the one benchmark there (s1, replace-one) doubles the cost.
_USEFUL = 15.0


class KMeans(NearestCentreMixin, PrivateEstimator):
    r"""k-means clustering under differential privacy.

    A small share of the budget buys where the data lies, noisy counts of ever finer cells give the start, and
    a few Lloyd steps on sums relative to their centres refine it (docs/kmeans.md). Distances are Euclidean in
    the columns' own units, as in scikit-learn: scale columns by public numbers first if their units differ.

    Parameters
    ----------
    n_clusters : int, default 8
        How many centres; there will always be exactly that many.
    epsilon : float
        The privacy budget. ``math.inf`` runs scikit-learn's own k-means, marked as not private.
    delta : float, default 1e-5
        The other half of the budget: choose it well below one over the number of rows.
    bounds : (low, high)
        Public limits of the columns, numbers or one per column. Values beyond are clipped.
    data_norm : float
        Instead of bounds: a public limit on the Euclidean norm of a row.
    schema : Schema
        Instead of bounds: columns with their public bounds.
    adjacency : {"replace_one", "add_remove"}, default "replace_one"
        Whether the number of rows is public or private.
    rows_per_person : int, default 1
        The most rows that one person owns; the guarantee is then for persons.
    person : str, optional
        A column of the table that tells persons apart. Of a person with more rows than `rows_per_person`,
        the others are left out; without it, that nobody owns more is your word. docs/persons.md.
    max_iter : int, optional
        Lloyd steps: 5 unless given. Planned, never stopped early.
    ledger : Ledger or path, optional
        Where the budget is charged before a row is read.
    random_state : int or RandomState, optional
        Seeds the free post-processing. It never touches the noise.
    n_jobs : int, optional
        Threads: all cores unless given; -2 is all but one. The result does not depend on it.
    verbose : int, default 0
        Whether to tell which step runs.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The released centres, in the columns' units.
    standard_errors_ : dict of str to ndarray
        What the noise of the last step alone does to each coordinate of "cluster_centers".
    privacy_ : PrivacyStatement
        The guarantee.
    plan_ : Plan
        Every release with its noise.
    n_iter_ : int
        Lloyd steps.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    There is no ``labels_`` and no ``inertia_``: they are not private. What `predict`, `transform` and `score`
    return is as sensitive as the rows that they are given. A grid search on private rows spends budget with
    every fit.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.3, (2000, 2)) for m in (-2, 2)])
    >>> model = dpem.KMeans(2, epsilon=1.0, bounds=(-4, 4)).fit(X)
    >>> np.abs(np.sort(model.cluster_centers_[:, 0]) - [-2, 2]).max() < 0.3
    np.True_
    """

    _public_name: ClassVar[str] = "dpem.KMeans"
    _saved_names: ClassVar[tuple[str, ...]] = ("cluster_centers_", "standard_error_cluster_centers")

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 1e-5,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        max_iter: int | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.schema = schema
        self.adjacency = adjacency
        self.rows_per_person = rows_per_person
        self.person = person
        self.max_iter = max_iter
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Fit the centres.

        The plan is made and charged before a row is read; rows with NaN or infinite values count as the
        centre of the domain, values beyond the bounds are clipped, and neither raises.

        Parameters
        ----------
        X : array, DataFrame, path, function, Dask or Spark table, or tensor
            Numeric rows, wherever they are (docs/scale.md).
        y : ignored
            For scikit-learn's pipelines.
        sample_weight : None
            Refused: weights that depend on rows would change how much a row can move the result.

        Returns
        -------
        self
        """
        if sample_weight is not None:
            raise InvalidArgumentError(
                "Expected sample_weight=None. Weights would change how far one row can move the result, and "
                "the guarantee with it. Repeat rows, with rows_per_person, if that is what they mean."
            )
        self._check_arguments()
        k = self.n_clusters
        random_state = self._random()
        source, domain = self._source(X)
        if self._plain:
            plain = PlainKMeans(k, n_init=10, random_state=random_state).fit(source.in_memory().block().T)
            self.cluster_centers_ = plain.cluster_centers_
            self.standard_errors_ = {"cluster_centers": np.zeros_like(self.cluster_centers_)}
            self.n_iter_ = int(plain.n_iter_)
            self._state_not_private(source)
            return self
        n_rows = self._public_rows(source)
        plan = self._plan(source.n_columns, n_rows)
        gate = self._gate(plan, source, domain)
        progress = Progress("KMeans", self.verbose)
        with self._charged():
            centres, model, before, released = fit_centres(
                gate, source.n_columns, n_rows, k, random_state, progress
            )
            spread = standard_errors(model, before, released, random_state)
        # All at once, so that no interrupt leaves parameters beside another fit's statement.
        self.cluster_centers_ = domain.from_grid(centres)
        self.standard_errors_ = {"cluster_centers": spread * (domain.radius / GRID)}
        self.n_iter_ = plan.stage("lloyd").repeats
        self._state(gate, source, domain)
        return self

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        super()._restore_arrays(arrays)
        self._restore_standard_errors(arrays)

    def _check_arguments(self) -> None:
        _validate.integer(self.n_clusters, "n_clusters")
        if self.max_iter is not None:
            _validate.integer(self.max_iter, "max_iter")
        self._check_budget()

    def _plan(self, n_columns: int, n_rows: int | None) -> Plan:
        """Return the plan, with a warning where a known number of rows makes it poor."""
        plan = plan_kmeans(
            n_columns,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            unit=self._unit,
            iterations=self.max_iter or DEFAULT_ITERATIONS,
        )
        if n_rows is not None:
            _warn_if_hopeless(n_rows, self.n_clusters, plan)
        return plan


def _warn_if_hopeless(n_rows: int, k: int, plan: Plan) -> None:
    """Say from public numbers alone when noise leaves no useful clusters, and what would."""
    per_cluster = n_rows / (k * plan.unit.rows_per_person)
    signal = per_cluster * plan.budget.mu
    if signal >= _USEFUL:
        return
    remedies = [f"epsilon of at least {plan.epsilon_for_mu(_USEFUL / per_cluster):.2g}"]
    most = int(k * signal / _USEFUL)
    if most >= 1:
        remedies.append(f"at most {most} cluster{'s' if most > 1 else ''}")
    warnings.warn(
        f"{n_rows} rows, {k} clusters and epsilon={plan.epsilon:g} leave n mu / K = {signal:.2g}; below "
        f"{_USEFUL:g} noise hides the clusters. Use {' or '.join(remedies)}, or more rows.",
        WeakSignalWarning,
        stacklevel=4,
    )
