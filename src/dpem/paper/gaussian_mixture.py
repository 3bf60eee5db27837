"""The paper's mixture of Gaussians, corrected where its text is not private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpem import _validate
from dpem._threads import one_thread
from dpem.data.domain import GRID
from dpem.estimator.base import PrivateEstimator
from dpem.estimator.saved_arrays import require_covariances, require_laws, require_numbers
from dpem.fitting.matrices import cholesky
from dpem.gate.plan import Plan, Stage
from dpem.gate.progress import Progress
from dpem.models.gaussian_mixture.density import BackgroundComponents, GaussianDensityMixin, public_means
from dpem.paper.exact_gate import ExactGate, finish, gate_for
from dpem.paper.kmeans import latin_hypercube
from dpem.paper.mixture_sums import Counts, Moments, Sums
from dpem.privacy.per_mechanism import COMPOSITIONS
from dpem.statistics.gaussian import GaussianComponents

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.base import Ledger
    from dpem.gate.release import ReleaseGate

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

    @property
    def components(self) -> GaussianComponents:
        """On grids."""
        weights = np.maximum(self.weights, 1e-300)
        return GaussianComponents.from_parameters(weights, self.means, cholesky(self.covariances))


class GaussianMixture(GaussianDensityMixin, PrivateEstimator):
    """The paper's DP-EM for a mixture of Gaussians: 2K + 1 mechanisms in each of J steps.

    Sums are noised with the text's sensitivities and divided by noisy counts, as its sensitivity equations
    have it. Its perturbation equations, read with exact counts, are not private (docs/paper.md has both).

    Parameters
    ----------
    n_components : int, default 1
        How many components.
    epsilon, delta : float
        The budget. ``epsilon=math.inf`` takes the same steps without noise, marked as not private.
    bounds, data_norm, schema
        Public limits of the rows, as in `dpem.KMeans`.
    scenario : {"GGG", "LLG"}, default "GGG"
        Gaussian noise on everything, or Laplace noise on weights and means.
    composition : {"zcdp", "moments", "advanced", "linear"}, default "zcdp"
        How epsilon_i is found.
    estimate : {"map", "mle"}, default "map"
        Whether the priors are used.
    delta_i : float, optional
        Delta of each Gaussian mechanism; a share of delta unless given. Under zCDP and moments it only names
        the ratio of noise to sensitivity.
    max_iter : int, default 10
        Steps J.
    alpha, kappa0, nu0, scale0 : float
        The priors: Dirichlet(alpha) on weights; normal-inverse-Wishart with mean 0, kappa0, nu0 (d + 2 unless
        given) and scale matrix scale0 times I, in units of the ball that holds the rows.
    means_init : array-like of shape (n_components, n_features), optional
        A public start; a Latin hypercube around the centre unless given.
    ledger, random_state, n_jobs, verbose
        As in `dpem.GaussianMixture`; `random_state` seeds the public start and `sample`.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarray
        As in scikit-learn, in the columns' units.
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
    adjacency = "replace_one"
    rows_per_person = 1
    person = None
    covariance_type = "full"

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
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.data_norm = data_norm
        self.schema = schema
        self.scenario = scenario
        self.composition = composition
        self.estimate = estimate
        self.delta_i = delta_i
        self.max_iter = max_iter
        self.alpha = alpha
        self.kappa0 = kappa0
        self.nu0 = nu0
        self.scale0 = scale0
        self.means_init = means_init
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the mixture; see `dpem.GaussianMixture.fit` for what happens to the rows."""
        k = _validate.integer(self.n_components, "n_components")
        iterations = _validate.integer(self.max_iter, "max_iter")
        _validate.one_of(self.estimate, "estimate", ("map", "mle"))
        _validate.one_of(self.scenario, "scenario", ("GGG", "LLG"))
        _validate.one_of(self.composition, "composition", COMPOSITIONS)
        self._check_budget()
        random_state = self._random()
        source, domain = self._source(X, keep_distances=False)
        d = source.n_columns
        prior = self._prior(d)
        given = public_means(self.means_init, k, d)
        start = latin_hypercube(k, d, random_state) if given is None else domain.points_to_grid(given)
        if self._plain:
            self._plain_rows(source, domain)  # raises on NaN: here nothing is hidden
        n_rows = float(source.n_rows if self._plain else self._public_rows(source) or 1)
        parameters = _Parameters(np.full(k, 1 / k), start / GRID, np.repeat(np.eye(d)[None], k, axis=0))
        gate = gate_for(self, lambda: self._plan(parameters.components, iterations), source, domain)
        progress = Progress(self._public_name, self.verbose)
        with self._charged(), one_thread():
            for step in range(iterations):
                progress.step(f"step {step + 1} of {iterations}")
                parameters = _em_step(gate, parameters, n_rows, prior)
        scale = domain.scale
        self.weights_ = parameters.weights
        self.means_ = domain.from_grid(parameters.means * GRID)
        self.covariances_ = parameters.covariances * scale[:, None] * scale
        self._finish(d)
        self.n_iter_ = iterations
        finish(self, gate, source)
        return self

    def _finish(self, n_columns: int) -> None:
        self.n_components_ = len(self.weights_)
        self.background_ = BackgroundComponents.none(n_columns)

    def _prior(self, d: int) -> _Prior | None:
        if self.estimate == "mle":
            return None
        nu = d + 2 if self.nu0 is None else _validate.positive(self.nu0, "nu0")
        return _Prior(
            _validate.within(self.alpha, "alpha", 1.0, 1e6),
            _validate.positive(self.kappa0, "kappa0"),
            nu,
            _validate.positive(self.scale0, "scale0"),
        )

    def _plan(self, components: GaussianComponents, iterations: int) -> Plan:
        laplace = self.scenario == "LLG"
        norm: Any = "l1" if laplace else "l2"
        k = len(components.constants)
        weights = Counts(components).sensitivity("replace_one", norm)
        means = Sums(components).sensitivity("replace_one", norm)
        covariances = Moments(components).sensitivity("replace_one")
        return Plan.per_mechanism(
            [
                Stage("weights", 1.0, weights, iterations, laplace=laplace),
                Stage("means", 1.0, means, iterations, mechanisms=k, laplace=laplace),
                Stage("covariances", 1.0, covariances, iterations, mechanisms=k),
            ],
            composition=self.composition,
            epsilon=self.epsilon,
            delta=self.delta,
            delta_i=self.delta_i,
        )

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        k, d = self.n_components, self.n_features_in_
        require_numbers(arrays, {"weights_": (k,), "means_": (k, d), "covariances_": (k, d, d)})
        require_laws("weights_", arrays["weights_"])
        require_covariances("covariances_", arrays["covariances_"])
        self.weights_, self.means_, self.covariances_ = (arrays[name] for name in self._fitted_arrays)
        self._finish(d)


def _em_step(
    gate: ReleaseGate | ExactGate, before: _Parameters, n: float, prior: _Prior | None
) -> _Parameters:
    """Release weights, means and covariances, and divide by noisy counts alone."""
    components = before.components
    k, d = before.means.shape
    queries = Counts(components), Sums(components), Moments(components)
    noisy = gate.release_jointly(("weights", "means", "covariances"), queries)
    counts = np.clip(noisy[0].values / 2.0**16 / n, 0.0, 1.0)
    counts = n * (counts / counts.sum() if counts.sum() > 0 else np.full(k, 1 / k))
    sums = noisy[1].values.reshape(k, d) / queries[1].unit
    upper = noisy[2].values.reshape(k, -1) / queries[2].unit
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
    # Without noise there is nothing to repair: rounding alone is kept from making a variance negative.
    values = np.maximum(values, 1e-12 if isinstance(gate, ExactGate) else SMALLEST_EIGENVALUE)
    return _Parameters(weights, means, (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))


def _into_ball(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move means into the unit ball, as the authors' code does."""
    length = np.sqrt((means**2).sum(axis=1, keepdims=True))
    return np.asarray(means / np.maximum(length, 1.0))
