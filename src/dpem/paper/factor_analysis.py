"""The paper's factor analysis: one noisy second moment, followed by EM on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem import _validate
from dpem._threads import one_thread
from dpem.estimator.arguments import stores_arguments, whole
from dpem.gate.plan import Plan, Stage
from dpem.models.factor_analysis.density import FactorDensityMixin, arrays_of
from dpem.models.factor_analysis.em import DenseMoment, fit_factors
from dpem.paper.base import PaperMethod
from dpem.statistics.simple import SQUARED_BITS, SecondMoments

if TYPE_CHECKING:
    import os

    from dpem.data import Domain, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicFacts, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["FactorAnalysis"]


@dataclass(frozen=True, eq=False)
class _Moment(SecondMoments):
    """The upper triangle with equal noise and the paper's sensitivity 2 (sqrt 2 would suffice)."""

    @property
    def noise_shape(self) -> None:  # type: ignore[override]
        """None: all entries have the same noise."""

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return 2, for rows of norm 1."""
        return max(2 * 4.0**SQUARED_BITS, super().sensitivity(adjacency, norm))


class FactorAnalysis(FactorDensityMixin, PaperMethod):
    """The paper's DP-EM for factor analysis: EM on (1/N) sum x x', which is released once with noise.

    Rows lie in the unit ball and are not centred, as in the text. The text names Analyze Gauss, but no
    sensitivity. Here the sensitivity is 2/N, as for the covariances of the mixture, with the classical
    sigma = sqrt(2 ln(1.25 / delta)) Delta / epsilon. The fit is rejected if the exact curve of the Gaussian
    mechanism shows that this sigma does not satisfy (epsilon, delta). docs/paper/olivetti.md lists what the
    method needs to work.

    Parameters
    ----------
    n_components : int, default 2
        Number of factors.
    epsilon, delta : float
        The privacy budget. ``epsilon=math.inf`` runs the same steps without noise and marks the result as not
        private.
    bounds, data_norm, schema
        Public bounds of the rows, as in `dpem.KMeans`. With bounds, rows are taken about the centre of the
        box.
    max_iter : int, default 1000
        Largest number of EM steps, which cost no budget.
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
    _constraints: ClassVar[Constraints] = {"n_components": whole(), "max_iter": whole()}

    n_components: int
    max_iter: int

    @stores_arguments
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
    ) -> None: ...

    def _request(self, domain: Domain) -> _Moment:
        """Return the only statistic of the fit."""
        d = domain.n_columns
        if self.n_components > d:
            expected = f"at most as many factors as columns ({d})"
            raise _validate.fail(expected, "n_components", self.n_components)
        return _Moment(np.zeros(d), 2.0**24)

    def _plan(self, public: PublicFacts) -> Plan:
        return Plan.per_mechanism(
            [Stage("moment", 1.0, public.request.sensitivity(self.adjacency))],
            composition="linear",
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain, statistic = public.numeric_domain, public.request
        d = domain.n_columns
        progress.step("moment")
        with one_thread():
            released = gate.release("moment", statistic)
            total = statistic.unit * float(public.n_rows or 1)
            upper = released.values / total
            noise = float(released.noise_stddev[0]) / total
            noise = max(noise, 1e-12)  # without noise: a column of zeros still needs a positive variance
            moment = np.zeros((d, d))
            moment[np.triu(np.ones((d, d), dtype=bool))] = upper
            moment += np.triu(moment, 1).T
            progress.step("factors")
            # Variances below the noise of one entry are raised to it; the text does not discuss them.
            repaired = DenseMoment.positive_part(moment, noise)
            least = np.maximum(noise / repaired.diagonal, 1e-3)
            factors, n_iter = fit_factors(
                repaired, self.n_components, random_state, least_noise=least, max_iter=self.max_iter
            )
        return arrays_of(domain.centre.copy(), factors.scaled(domain.scale)) | {"n_iter_": n_iter}
