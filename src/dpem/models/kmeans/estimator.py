"""Private k-means with scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpem._warnings import warn
from dpem.data.domain import GRID
from dpem.errors import InvalidArgumentError, WeakSignalWarning
from dpem.estimator.arguments import optional, stores_arguments, whole, word
from dpem.estimator.base import PrivateEstimator, PublicFacts, warn_of_column_noise
from dpem.estimator.planned_columns import Forecast
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
    from dpem.estimator.summary import Profile
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.gate.progress import Progress

__all__ = ["KMeans"]

# Below this n mu / K little can be expected: the one benchmark there (s1, replace-one) doubles the cost.
_USEFUL = 15.0


class KMeans(NearestCentreMixin, PrivateEstimator):
    r"""k-means clustering under differential privacy.

    A small share of the budget buys where the data lies, noisy counts of ever finer cells give the start, and
    a few Lloyd steps on sums relative to their centres refine it (docs/guide/kmeans.md). If columns have
    bounds of their own, distances are measured in widths of these bounds, so that a column in large units
    does not drown the others; centres are in the columns' own units.

    Parameters
    ----------
    n_clusters : int, default 8
        How many centres; there will always be exactly that many.
    epsilon : float
        The privacy budget. ``math.inf`` runs scikit-learn's own k-means, marked as not private.
    delta : float, default 1e-6
        The other half of the budget: choose it well below one over the number of rows.
    bounds : (low, high)
        Public limits of the columns, numbers or one per column. Values beyond are clipped.
    data_norm : float
        Instead of bounds: a public limit on the Euclidean norm of a row.
    schema : Schema
        Instead of bounds: columns with their public bounds.
    scale : {"bounds", "none"}, optional
        The units of distances. "bounds": the width of each column's bounds. "none": the columns' own units,
        as in scikit-learn. Unless given, "bounds" with a schema or with bounds for each column, else "none".
    adjacency : {"replace_one", "add_remove"}, default "replace_one"
        Whether the number of rows is public or private.
    rows_per_person : int, default 1
        The most rows that one person owns; the guarantee is then for persons.
    person : str, optional
        A column of the table that tells persons apart. Of a person with more rows than `rows_per_person`,
        the others are left out; without it, that nobody owns more is your word. docs/how-to/persons.md.
    data_quality : bool, default True
        With a schema, whether a hundredth of the budget buys noisy counts, per column, of cells that could
        not be read, were outside the categories, or were clipped (`data_quality_`); a warning names columns
        that are clearly bad.
    max_iter : int, optional
        Lloyd steps: 5 unless given, planned and never stopped early. Without privacy at most 300, as in
        scikit-learn.
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
        The released centres, in the columns' units, inside their bounds.
    standard_errors_ : dict of str to ndarray
        What the noise of the last step alone does to each coordinate of "cluster_centers".
    privacy_ : PrivacyStatement
        The guarantee.
    plan_ : Plan
        Every release with its noise.
    data_quality_ : DataQuality or None
        Noisy counts of cells that the schema could not take as they are, where they were bought.
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
        if public.n_rows is None or _warn_if_hopeless(public.n_rows, self.n_clusters, plan):
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
        spread = standard_errors(model, before, released, random_state)
        gate.n_rows = model.ball.n_rows
        return {
            "cluster_centers_": domain.clip(domain.from_grid(centres)),
            "standard_errors_": {"cluster_centers": spread * (domain.scale / GRID)},
            "n_iter_": gate.plan.stage("lloyd").repeats,
        }

    def _run_plain(
        self,
        source: RowSource,
        public: PublicFacts,
        random_state: PublicRandom,
        progress: Progress,  # noqa: ARG002
    ) -> dict[str, Any]:
        k, units = self.n_clusters, self._column_units(source.n_columns)
        rows = self._plain_rows(source, public.numeric_domain) / units
        if len(rows) < k:
            raise InvalidArgumentError(f"Expected at least n_clusters={k} rows, got {len(rows)}.")
        plain = PlainKMeans(k, n_init=10, max_iter=self.max_iter or 300, random_state=random_state).fit(rows)
        centres = plain.cluster_centers_ * units
        return {
            "cluster_centers_": centres,
            "standard_errors_": {"cluster_centers": np.zeros_like(centres)},
            "n_iter_": int(plain.n_iter_),
        }

    def _column_units(self, n_columns: int) -> NDArray[np.float64]:
        if self._keeps_distances:
            return np.ones(n_columns)
        low, high = self._domain(n_columns, keep_distances=False).box
        return high - low

    def _weakness(self) -> str:
        """Compare what noise does to a centre with half of the way to the nearest other one."""
        if self.n_clusters == 1:
            return ""
        units = self._column_units(self.n_features_in_)
        centres = self.cluster_centers_ / units
        apart = np.sqrt(((centres[:, None] - centres) ** 2).sum(axis=2))
        np.fill_diagonal(apart, np.inf)
        noise = np.sqrt(((self.standard_errors_["cluster_centers"] / units) ** 2).sum(axis=1))
        weak = int((noise > apart.min(axis=1) / 2).sum())
        if not weak:
            return ""
        return (
            f"Noise moves {weak} of {self.n_clusters} centres by more than half of the way to the nearest "
            f"other centre."
        )

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        super()._restore_arrays(arrays)
        self._restore_standard_errors(arrays)

    def _profile(self) -> Profile:
        return profile_of(self)

    def _figures(self) -> dict[str, Any]:
        return figures_of(self)

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        columns = self._planned_columns(public, spread)
        granted, noise = noise_of_centres(plan, self.n_clusters, n_rows, columns, public.numeric_domain)
        return Forecast(plan, {"clusters": self.n_clusters}, granted, noise, columns.assumption)


def _warn_if_hopeless(n_rows: int, k: int, plan: Plan) -> bool:
    """Say from public numbers alone when noise leaves no useful clusters, and what would."""
    per_cluster = n_rows / (k * plan.unit.rows_per_person)
    signal = per_cluster * plan.budget.mu
    if signal >= _USEFUL:
        return False
    remedies = [f"epsilon of at least {plan.epsilon_for_mu(_USEFUL / per_cluster):.2g}"]
    most = int(k * signal / _USEFUL)
    if most >= 1:
        remedies.append(f"at most {most} cluster{'s' if most > 1 else ''}")
    warn(
        f"{n_rows} rows, {k} clusters and epsilon={plan.epsilon:g} leave n mu / K = {signal:.2g}; below "
        f"{_USEFUL:g} noise hides the clusters. Use {' or '.join(remedies)}, or more rows.",
        WeakSignalWarning,
    )
    return True
