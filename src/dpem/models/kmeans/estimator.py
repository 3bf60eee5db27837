"""Private k-means with scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpem import _validate
from dpem._warnings import warn
from dpem.data.domain import GRID
from dpem.errors import InvalidArgumentError, WeakSignalWarning
from dpem.estimator.arguments import optional, stores_arguments, whole, word
from dpem.estimator.base import PrivateEstimator, PublicFacts, warn_of_column_noise
from dpem.estimator.planned_columns import Forecast
from dpem.estimator.saved_arrays import pop_flags
from dpem.estimator.summary import Weakness, is_supported, unsupported
from dpem.fitting.centres import DEFAULT_ITERATIONS, fit_centres, plan_kmeans
from dpem.fitting.standard_errors import standard_errors
from dpem.models.kmeans.nearest_centre import SCALES, NearestCentreMixin, keeps_distances
from dpem.models.kmeans.summary import figures_of, noise_of_centres, profile_of

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import RowSource, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.gate.progress import Progress

__all__ = ["KMeans"]

# Below this n mu / K clusters are of little use: in the one benchmark below it (s1, replace-one) the cost
# doubles.
_LEAST_SIGNAL = 15.0


class KMeans(NearestCentreMixin, PrivateEstimator):
    r"""k-means clustering under differential privacy.

    A small share of the budget locates the data. Noisy counts in ever finer boxes then give starting centres,
    and a few Lloyd steps refine them; each step releases sums relative to the current centres
    (docs/guide/kmeans.md). If columns have bounds of their own, distances are measured in widths of these
    bounds, so that no column dominates because of its units. Centres are in the units of the columns.

    Parameters
    ----------
    n_clusters : int, default 8
        Number of centres. The fit always returns exactly this many.
    epsilon : float
        Epsilon of the privacy budget. ``math.inf`` runs scikit-learn's k-means and marks the result as not
        private.
    delta : float, default 1e-6
        Delta of the privacy budget. Choose it well below one over the number of rows.
    bounds : (low, high), or mapping of str to (low, high)
        Public bounds of the columns: two numbers, or lower and upper bounds with one number per column. For
        columns with names also a mapping such as ``{"age": (0, 120)}``. Values beyond are clipped.
    data_norm : float
        Public bound on the Euclidean norm of a row; an alternative to bounds.
    schema : Schema
        Declared columns with their public bounds; an alternative to bounds.
    scale : {"bounds", "none"}, optional
        Units of distances. "bounds": the width of each column's bounds. "none": the units of the columns, as
        in scikit-learn. The default is "bounds" with a schema or with bounds for each column, else "none".
    adjacency : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation: the number of rows is public with "replace_one" and private with "add_remove".
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
        Number of Lloyd steps, 5 by default. A private fit never stops early. Without privacy at most this
        many, by default 300 as in scikit-learn.
    ledger : Ledger or path, optional
        Ledger to charge before any value is read.
    random_state : int or RandomState, optional
        Seed of the choices that need no privacy: starts and post-processing. It never seeds the noise.
    n_jobs : int, optional
        Number of threads; None uses all cores, and -2 all but one. The result does not depend on it.
    verbose : int, default 0
        Whether to print the current step.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Released centres, in the units of the columns and within their bounds.
    standard_errors_ : dict of str to ndarray
        Standard errors of "cluster_centers" due to the noise of the last step alone.
    supported_ : ndarray of bool, shape (n_clusters,)
        Whether the last step released more rows for a cluster than noise alone would show. The centre of
        another cluster can lie anywhere, whatever its standard error.
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
        Number of Lloyd steps.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    There is no ``labels_`` and no ``inertia_``, because they would not be private. The results of `predict`,
    `transform` and `score` are as sensitive as their argument. A grid search on private rows spends budget
    with every fit.

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
    _part: ClassVar[str] = "cluster"
    _saved_names: ClassVar[tuple[str, ...]] = ("cluster_centers_", "standard_error_cluster_centers")
    _constraints: ClassVar[Constraints] = {
        "n_clusters": whole(),
        "max_iter": optional(whole()),
        "scale": optional(word(SCALES)),
    }

    n_clusters: int
    scale: str | None
    max_iter: int | None

    @stores_arguments
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        scale: str | None = None,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        data_quality: bool = True,
        max_iter: int | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    # -- fit ---------------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        _ = self._keeps_distances  # raises for scale="bounds" without bounds

    @property
    def _keeps_distances(self) -> bool:
        return keeps_distances(self.scale, self.bounds, self.schema)

    def _plan(self, public: PublicFacts) -> Plan:
        steps = self.max_iter or DEFAULT_ITERATIONS
        return self._with_quality(plan_kmeans(public.numeric_domain.n_columns, steps, **self._terms))

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        if public.n_rows is None or _warn_of_weak_signal(public.n_rows, self.n_clusters, plan):
            return
        domain = public.numeric_domain
        _, entries = noise_of_centres(
            plan, self.n_clusters, public.n_rows, self._planned_columns(public), domain
        )
        warn_of_column_noise(entries, domain, plan, ", narrower public bounds, fewer clusters")

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain = public.numeric_domain
        centres, model, before, released = fit_centres(
            gate,
            domain.n_columns,
            public.n_rows,
            self.n_clusters,
            random_state,
            progress,
            box=domain.grid_box,
        )
        errors = standard_errors(model, before, released, random_state)
        gate.n_rows = model.ball.n_rows
        return {
            "cluster_centers_": domain.clip(domain.from_grid(centres)),
            "standard_errors_": {"cluster_centers": errors * (domain.scale / GRID)},
            "supported_": is_supported(*model.counts(before, released)),
            "n_iter_": gate.plan.stage("lloyd").repeats,
        }

    def _run_plain(
        self,
        source: RowSource,
        public: PublicFacts,
        random_state: PublicRandom,
        progress: Progress,  # noqa: ARG002
    ) -> dict[str, Any]:
        k, (low, high) = self.n_clusters, public.numeric_domain.box
        units = np.ones(source.n_columns) if self._keeps_distances else high - low
        rows = self._plain_rows(source, public.numeric_domain) / units
        if len(rows) < k:
            raise InvalidArgumentError(f"Expected at least n_clusters={k} rows, got {len(rows)}.")
        plain = PlainKMeans(k, n_init=10, max_iter=self.max_iter or 300, random_state=random_state).fit(rows)
        centres = plain.cluster_centers_ * units
        return {
            "cluster_centers_": centres,
            "standard_errors_": {"cluster_centers": np.zeros_like(centres)},
            "supported_": np.ones(k, dtype=bool),
            "n_iter_": int(plain.n_iter_),
        }

    def _column_units(self, n_columns: int) -> NDArray[np.float64]:
        if self._keeps_distances:
            return np.ones(n_columns)
        low, high = self._domain(n_columns, keep_distances=False).box
        return high - low

    def _weaknesses(self) -> list[Weakness]:
        """Name clusters without rows, and compare the noise of centres with their distances."""
        found = unsupported("clusters", self.supported_)
        if self.n_clusters == 1:
            return found
        units = self._column_units(self.n_features_in_)
        centres = self.cluster_centers_ / units
        apart = np.sqrt(((centres[:, None] - centres) ** 2).sum(axis=2))
        np.fill_diagonal(apart, np.inf)
        noise = np.sqrt(((self.standard_errors_["cluster_centers"] / units) ** 2).sum(axis=1))
        weak = int((noise > apart.min(axis=1) / 2).sum())
        finding = (
            f"The noise of {weak} of {self.n_clusters} centres is larger than half of the distance to the "
            f"nearest other centre."
        )
        return [*found, Weakness(finding)] if weak else found

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        return super()._arrays() | {"supported": self.supported_.astype(np.float64)}

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        self.supported_ = pop_flags(arrays, "supported", self.n_clusters)
        super()._restore_arrays(arrays)

    _profile = profile_of
    _figures = figures_of

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        columns = self._planned_columns(public, spread)
        granted, noise = noise_of_centres(plan, self.n_clusters, n_rows, columns, public.numeric_domain)
        return Forecast(plan, {"clusters": self.n_clusters}, granted, tuple(noise), columns.assumption)


def _warn_of_weak_signal(n_rows: int, k: int, plan: Plan) -> bool:
    """Warn, from public numbers alone, if noise will hide the clusters, and name remedies."""
    per_cluster = n_rows / (k * plan.unit.rows_per_person)
    signal = per_cluster * plan.budget.mu
    if signal >= _LEAST_SIGNAL:
        return False
    needed = plan.epsilon_for_mu(_LEAST_SIGNAL / per_cluster)
    protects = ", which protects nobody," if needed > _validate.LARGE_EPSILON else ""
    remedies = [f"epsilon of at least {float(f'{needed:.2g}'):,.10g}{protects}"]
    most = int(k * signal / _LEAST_SIGNAL)
    if most >= 1:
        remedies.append(f"at most {most} cluster{'s' if most > 1 else ''}")
    warn(
        f"Expected n mu / K of at least {_LEAST_SIGNAL:g}, got {signal:.2g} from {n_rows} rows, {k} clusters "
        f"and epsilon={plan.epsilon:g}. Below that, noise hides the clusters. Use {' or '.join(remedies)}, "
        f"or more rows.",
        WeakSignalWarning,
    )
    return True
