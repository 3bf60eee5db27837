"""The paper's mixture of Gaussians, with corrections if its text is not private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dpem._threads import one_thread
from dpem.data.domain import GRID
from dpem.estimator.arguments import number, optional, positive, stores_arguments, whole, word
from dpem.estimator.saved_arrays import require_covariances, require_laws, require_numbers
from dpem.fitting.projection import cholesky
from dpem.gate.plan import NoiseKind, Plan, Stage
from dpem.models.gaussian_mixture.density import BackgroundComponents, GaussianDensityMixin, public_means
from dpem.paper.base import ExactGate, PaperMethod
from dpem.paper.kmeans import latin_hypercube
from dpem.paper.mixture_sums import Counts, Moments, Sums
from dpem.privacy.per_mechanism import COMPOSITIONS
from dpem.statistics.gaussian import GaussianComponents

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Domain, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicFacts, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress

__all__ = ["GaussianMixture"]

SMALLEST_EIGENVALUE = 1e-3  # from the authors' code: the text says "near zero"


@dataclass(frozen=True)
class _Prior:
    """Dirichlet(alpha) on weights, normal-inverse-Wishart(0, kappa, nu, scale I) on means and covariances."""

    alpha: float
    kappa: float
    nu: float
    scale: float


@dataclass(frozen=True, eq=False)
class _Parameters:
    """A mixture in units of the ball."""

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @classmethod
    def start(cls, points: NDArray[np.float64]) -> _Parameters:
        """Return equal weights, the given points on the grid as means, and unit covariances."""
        k, d = points.shape
        return cls(np.full(k, 1 / k), points / GRID, np.repeat(np.eye(d)[None], k, axis=0))

    @property
    def components(self) -> GaussianComponents:
        """The components, rounded to grids."""
        weights = np.maximum(self.weights, 1e-300)
        return GaussianComponents.from_parameters(weights, self.means, cholesky(self.covariances))


class _Request(NamedTuple):
    """The public arguments of a fit, in units of the ball."""

    prior: _Prior | None
    start: NDArray[np.float64] | None  # public starting means, if given


class GaussianMixture(GaussianDensityMixin, PaperMethod):
    """The paper's DP-EM for a mixture of Gaussians: 2K + 1 mechanisms in each of J steps.

    Sums get noise for the sensitivities of the text and are divided by noisy counts, as its sensitivity
    equations assume. Its perturbation equations, read with exact counts, are not private
    (docs/paper/methods.md).

    Parameters
    ----------
    n_components : int, default 1
        Number of components.
    epsilon, delta : float
        The privacy budget. ``epsilon=math.inf`` runs the same steps without noise and marks the result as not
        private.
    bounds, data_norm, schema
        Public bounds of the rows, as in `dpem.KMeans`.
    scenario : {"GGG", "LLG"}, default "GGG"
        Gaussian noise on everything, or Laplace noise on weights and means.
    composition : {"zcdp", "moments", "advanced", "linear"}, default "zcdp"
        Composition from which epsilon_i is computed.
    estimate : {"map", "mle"}, default "map"
        Whether the priors are used.
    delta_i : float, optional
        Delta of each Gaussian mechanism; a share of delta by default. With zCDP and moments it only
        determines the ratio of noise to sensitivity.
    max_iter : int, default 10
        Number J of steps.
    alpha, kappa0, nu0, scale0 : float
        Priors: Dirichlet(alpha) on weights; normal-inverse-Wishart with mean 0, kappa0, nu0 (d + 2 by
        default) and scale matrix scale0 times I, in units of the ball around the rows.
    means_init : array-like of shape (n_components, n_features), optional
        Public starting means; a Latin hypercube around the centre by default.
    ledger, random_state, n_jobs, verbose
        As in `dpem.GaussianMixture`; `random_state` seeds the public start and `sample`.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarray
        As in scikit-learn, in the units of the columns.
    privacy_, plan_, n_iter_, n_features_in_, feature_names_in_
        As in `dpem.GaussianMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpem import paper
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> paper.GaussianMixture(2, epsilon=2.0, data_norm=4.0).fit(X).covariances_.shape
    (2, 2, 2)
    """

    _public_name: ClassVar[str] = "dpem.paper.GaussianMixture"
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("weights_", "means_", "covariances_")
    covariance_type = "full"
    _constraints: ClassVar[Constraints] = {
        "n_components": whole(),
        "max_iter": whole(),
        "estimate": word(("map", "mle")),
        "scenario": word(("GGG", "LLG")),
        "composition": word(COMPOSITIONS),
        "alpha": number(1.0, 1e6),
        "kappa0": positive,
        "nu0": optional(positive),
        "scale0": positive,
    }

    n_components: int
    scenario: str
    composition: str
    estimate: str
    delta_i: float | None
    max_iter: int
    alpha: float
    kappa0: float
    nu0: float | None
    scale0: float
    means_init: Any

    @stores_arguments
    def __init__(
        self,
        n_components: int = 1,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        scenario: str = "GGG",
        composition: str = "zcdp",
        estimate: str = "map",
        delta_i: float | None = None,
        max_iter: int = 10,
        alpha: float = 2.0,
        kappa0: float = 1.0,
        nu0: float | None = None,
        scale0: float = 0.1,
        means_init: Any = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    @property
    def _keeps_distances(self) -> bool:
        return False

    def _request(self, domain: Domain) -> _Request:
        """Return the priors and the public starting means, if given."""
        k, d = self.n_components, domain.n_columns
        given = public_means(self.means_init, k, d)
        return _Request(self._prior(d), None if given is None else domain.points_to_grid(given))

    def _prior(self, d: int) -> _Prior | None:
        if self.estimate == "mle":
            return None
        nu = d + 2 if self.nu0 is None else self.nu0
        return _Prior(self.alpha, self.kappa0, nu, self.scale0)

    def _plan(self, public: PublicFacts) -> Plan:
        k, d, steps = self.n_components, public.numeric_domain.n_columns, self.max_iter
        noise = NoiseKind.LAPLACE if self.scenario == "LLG" else NoiseKind.GAUSSIAN
        anything = _Parameters.start(np.zeros((k, d))).components
        weights = Counts(anything).sensitivity(self.adjacency, noise.norm)
        means = Sums(anything).sensitivity(self.adjacency, noise.norm)
        covariances = Moments(anything).sensitivity(self.adjacency)
        return Plan.per_mechanism(
            [
                Stage("weights", 1.0, weights, steps, noise=noise),
                Stage("means", 1.0, means, steps, mechanisms=k, noise=noise),
                Stage("covariances", 1.0, covariances, steps, mechanisms=k),
            ],
            composition=self.composition,
            epsilon=self.epsilon,
            delta=self.delta,
            delta_i=self.delta_i,
        )

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain, request = public.numeric_domain, public.request
        start = request.start
        if start is None:
            start = latin_hypercube(self.n_components, domain.n_columns, random_state)
        parameters = _Parameters.start(start)
        with one_thread():
            for step in range(self.max_iter):
                progress.step(f"step {step + 1} of {self.max_iter}")
                parameters = _em_step(gate, parameters, float(public.n_rows or 1), request.prior)
        scale = domain.scale
        return {
            "weights_": parameters.weights,
            "means_": domain.from_grid(parameters.means * GRID),
            "covariances_": parameters.covariances * scale[:, None] * scale,
            "n_iter_": self.max_iter,
            "n_components_": self.n_components,
            "background_": BackgroundComponents.none(domain.n_columns),
        }

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        k, d = self.n_components, self.n_features_in_
        require_numbers(arrays, {"weights_": (k,), "means_": (k, d), "covariances_": (k, d, d)})
        require_laws("weights_", arrays["weights_"])
        require_covariances("covariances_", arrays["covariances_"])
        self.weights_, self.means_, self.covariances_ = (arrays[name] for name in self._fitted_arrays)
        self.n_components_, self.background_ = k, BackgroundComponents.none(d)


def _em_step(gate: Gate | ExactGate, before: _Parameters, n: float, prior: _Prior | None) -> _Parameters:
    """Release weights, means and covariances; divide by noisy counts only."""
    components = before.components
    k, d = before.means.shape
    statistics = Counts(components), Sums(components), Moments(components)
    noisy = gate.release_jointly(("weights", "means", "covariances"), statistics)
    counts = np.clip(noisy[0].values / 2.0**16 / n, 0.0, 1.0)
    counts = n * (counts / counts.sum() if counts.sum() > 0 else np.full(k, 1 / k))
    sums = noisy[1].values.reshape(k, d) / statistics[1].unit
    upper = noisy[2].values.reshape(k, -1) / statistics[2].unit
    moments = np.zeros((k, d, d))
    i, j = np.triu_indices(d)
    moments[:, i, j] = moments[:, j, i] = upper
    if prior is None:
        weights = counts / n
        divisor = np.maximum(counts, 1.0)
        means = _into_ball(sums / divisor[:, None])
        covariances = moments / divisor[:, None, None] - means[:, :, None] * means[:, None, :]
    else:
        weights = (counts + prior.alpha - 1) / (n + k * (prior.alpha - 1))
        divisor = counts + prior.kappa
        means = _into_ball(sums / divisor[:, None])
        # S0 + N Sigma_MLE + kappa0 N / (kappa0 + N) mu_MLE mu_MLE', in terms of the MAP mean, which is
        # N / (kappa0 + N) mu_MLE: the second moments less (N + kappa0) mu_MAP mu_MAP'.
        about_mean = moments - divisor[:, None, None] * means[:, :, None] * means[:, None, :]
        scatter = prior.scale * np.eye(d) + about_mean
        covariances = scatter / (counts + prior.nu + d + 2)[:, None, None]
    values, vectors = np.linalg.eigh(covariances)
    # Without noise there is nothing to repair, except that rounding may make a variance negative.
    values = np.maximum(values, 1e-12 if isinstance(gate, ExactGate) else SMALLEST_EIGENVALUE)
    return _Parameters(weights, means, (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _into_ball(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move means into the unit ball, as the authors' code does."""
    length = np.sqrt((means**2).sum(axis=1, keepdims=True))
    return np.asarray(means / np.maximum(length, 1.0))
