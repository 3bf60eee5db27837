"""The paper's factor analysis: one noisy second moment, then EM on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpem import _validate
from dpem._threads import one_thread
from dpem.estimator.base import PrivateEstimator
from dpem.gate.plan import Plan, Stage
from dpem.gate.progress import Progress
from dpem.models.factor_analysis.density import FactorDensityMixin
from dpem.models.factor_analysis.em import DenseMoment, fit_factors
from dpem.paper.exact_gate import finish, gate_for
from dpem.statistics.simple import SQUARED_BITS, SecondMoments

if TYPE_CHECKING:
    import os

    from dpem.data import Domain, Schema
    from dpem.estimator.base import Ledger
    from dpem.privacy.sensitivity import Norm

__all__ = ["FactorAnalysis"]


@dataclass(frozen=True, eq=False)
class _Moment(SecondMoments):
    """The upper triangle, the same noise on every entry, the paper's sensitivity 2 (sqrt 2 would do)."""

    @property
    def noise_shape(self) -> None:  # type: ignore[override]
        """Alike."""

    def sensitivity(self, adjacency: str, norm: Norm = "l2") -> float:
        """Return 2, for rows of norm 1."""
        return max(2 * 4.0**SQUARED_BITS, super().sensitivity(adjacency, norm))


class FactorAnalysis(FactorDensityMixin, PrivateEstimator):
    """The paper's DP-EM for factor analysis: (1/N) sum x x' with noise, once, and EM on it for free.

    Rows lie in the unit ball and are not centred, as in the text. It names Analyze Gauss and no sensitivity;
    here it is 2/N, as for the mixture's covariances, with the classical
    sigma = sqrt(2 ln(1.25 / delta)) Delta / epsilon, refused where the exact curve of the Gaussian mechanism
    shows that it misses (epsilon, delta). What the text needs to work is told in docs/olivetti.md.

    Parameters
    ----------
    n_components : int, default 2
        Factors.
    epsilon, delta : float
        The budget. ``epsilon=math.inf`` takes the same steps without noise, marked as not private.
    bounds, data_norm, schema
        Public limits of the rows, as in `dpem.KMeans`. With bounds, rows are taken about the box's centre.
    max_iter : int, default 1000
        EM steps at most; they are free.
    ledger, random_state, n_jobs, verbose
        As in `dpem.FactorAnalysis`.

    Attributes
    ----------
    components_, noise_variance_, mean_ : ndarray
        As in scikit-learn; the mean is the centre of the public domain.
    privacy_, plan_, n_iter_, n_features_in_, feature_names_in_
        As in `dpem.FactorAnalysis`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpem import paper
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) / 4
    >>> paper.FactorAnalysis(1, epsilon=0.9, data_norm=1.0).fit(X).components_.shape
    (1, 3)
    """

    _public_name: ClassVar[str] = "dpem.paper.FactorAnalysis"
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("mean_", "components_", "noise_variance_")
    adjacency = "replace_one"
    rows_per_person = 1
    person = None

    def __init__(
        self,
        n_components: int = 2,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        max_iter: int = 1000,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.schema = schema
        self.max_iter = max_iter
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the factors; see `dpem.FactorAnalysis.fit` for what happens to the rows."""
        k = _validate.integer(self.n_components, "n_components")
        max_iter = _validate.integer(self.max_iter, "max_iter")
        self._check_budget()
        random_state = self._random()
        source, domain = self._source(X)
        d = source.n_columns
        if k > d:
            raise _validate.fail(f"at most as many factors as columns ({d})", "n_components", k)
        n_rows = float(source.n_rows if self._plain else self._public_rows(source) or 1)
        if self._plain:
            self._plain_rows(source, domain)  # raises on NaN: here nothing is hidden
        query = _Moment(np.zeros(d), 2.0**24)

        def plan() -> Plan:
            return Plan.per_mechanism(
                [Stage("moment", 1.0, query.sensitivity("replace_one"))],
                composition="linear",
                epsilon=self.epsilon,
                delta=self.delta,
            )

        gate = gate_for(self, plan, source, domain)
        progress = Progress(self._public_name, self.verbose)
        progress.step("moment")
        with self._charged(), one_thread():
            released = gate.release("moment", query)
            upper = released.values / (query.unit * n_rows)
            noise = float(released.noise_stddev[0]) / (query.unit * n_rows)
            noise = max(noise, 1e-12)  # without noise: a column of zeros has a variance all the same
            moment = np.zeros((d, d))
            moment[np.triu(np.ones((d, d), dtype=bool))] = upper
            moment += np.triu(moment, 1).T
            progress.step("factors")
            # No variance is known better than the noise of one entry: the text is silent on smaller ones.
            repaired = DenseMoment.positive_part(moment, noise)
            least = np.maximum(noise / repaired.diagonal, 1e-3)
            factors, n_iter = fit_factors(repaired, k, random_state, least_noise=least, max_iter=max_iter)
        self.n_iter_ = n_iter
        self._keep(domain.centre.copy(), factors.scaled(domain.scale))
        finish(self, gate, source)
        return self

    def _public_domain(self, n_columns: int) -> Domain:
        return self._domain(n_columns)
