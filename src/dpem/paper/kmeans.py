"""The paper's k-means and its baseline DPLloyd, corrected where their text is not private."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpem import _validate
from dpem.data.domain import GRID, onto_grid
from dpem.estimator.base import PrivateEstimator
from dpem.gate.plan import Plan, Stage
from dpem.gate.progress import Progress
from dpem.models.kmeans.nearest_centre import NearestCentreMixin
from dpem.paper.cluster_sums import ClusterCounts, ClusterSums, CountsAndSums
from dpem.paper.exact_gate import finish, gate_for

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.release import ReleaseGate
    from dpem.paper.exact_gate import ExactGate

__all__ = ["DPLloyd", "KMeans", "latin_hypercube"]

_COMPOSITIONS = ("linear", "zcdp")


class _PaperKMeans(NearestCentreMixin, PrivateEstimator):
    """What the two share: J steps from a public start, replace-one, one epsilon_i for every mechanism."""

    adjacency = "replace_one"
    rows_per_person = 1
    person = None

    n_clusters: int
    max_iter: int
    composition: str

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the centres; see `dpem.KMeans.fit` for what happens to the rows."""
        k = _validate.integer(self.n_clusters, "n_clusters")
        iterations = _validate.integer(self.max_iter, "max_iter")
        _validate.one_of(self.composition, "composition", _COMPOSITIONS)
        self._check_noise()
        self._check_budget()
        random_state = self._random()
        source, domain = self._source(X)
        n_rows = source.n_rows if self._plain else self._public_rows(source)
        if self._plain:
            self._plain_rows(source, domain)  # raises on NaN: here nothing is hidden
        gate = gate_for(self, lambda: self._plan(source.n_columns, k, iterations), source, domain)
        progress = Progress(self._public_name, self.verbose)
        centres = latin_hypercube(k, source.n_columns, random_state)
        with self._charged():
            for step in range(iterations):
                progress.step(f"step {step + 1} of {iterations}")
                centres = self._step(gate, centres, float(n_rows or 1))
        self.cluster_centers_ = domain.from_grid(centres)
        self.n_iter_ = iterations
        finish(self, gate, source)
        return self

    def _check_noise(self) -> None:
        """Raise for noise that the method does not have."""

    @abstractmethod
    def _plan(self, n_columns: int, k: int, iterations: int) -> Plan:
        """Return the plan."""

    @abstractmethod
    def _step(
        self, gate: ReleaseGate | ExactGate, centres: NDArray[np.float64], n_rows: float
    ) -> NDArray[np.float64]:
        """Return the next centres."""


class KMeans(_PaperKMeans):
    """The paper's k-means: noise on counts and on the mean of each cluster, J(K+1) mechanisms.

    Sums are noised with sensitivity 2 sqrt(d) (Laplace) or 2 (Gaussian) and divided by noisy counts, which
    are charged too. The text does not say how counts are treated; the authors' code takes exact ones for
    free, which is not private (docs/paper.md).

    Parameters
    ----------
    n_clusters : int, default 8
        How many centres.
    epsilon, delta : float
        The budget. ``epsilon=math.inf`` takes the same steps without noise, marked as not private.
    bounds, data_norm, schema
        Public limits of the rows, as in `dpem.KMeans`.
    noise : {"laplace", "gaussian"}, default "laplace"
        The paper's choice is Laplace.
    composition : {"zcdp", "linear"}, default "zcdp"
        How epsilon_i is found.
    max_iter : int, default 10
        Steps J.
    ledger, random_state, n_jobs, verbose
        As in `dpem.KMeans`; `random_state` seeds the public start.

    Examples
    --------
    >>> import numpy as np
    >>> from dpem import paper
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> paper.KMeans(3, epsilon=2.0, data_norm=4.0).fit(X).cluster_centers_.shape
    (3, 2)
    """

    _public_name: ClassVar[str] = "dpem.paper.KMeans"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        noise: str = "laplace",
        composition: str = "zcdp",
        max_iter: int = 10,
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
        self.noise = noise
        self.composition = composition
        self.max_iter = max_iter
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_noise(self) -> None:
        _validate.one_of(self.noise, "noise", ("laplace", "gaussian"))

    def _plan(self, n_columns: int, k: int, iterations: int) -> Plan:
        laplace = self.noise == "laplace"
        norm: Any = "l1" if laplace else "l2"
        start = np.zeros((k, n_columns))
        counts = ClusterCounts(start).sensitivity("replace_one", norm)
        sums = ClusterSums(start).sensitivity("replace_one", norm)
        return Plan.per_mechanism(
            [
                Stage("counts", 1.0, counts, iterations, laplace=laplace),
                Stage("sums", 1.0, sums, iterations, mechanisms=k, laplace=laplace),
            ],
            composition=self.composition,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def _step(
        self, gate: ReleaseGate | ExactGate, centres: NDArray[np.float64], n_rows: float
    ) -> NDArray[np.float64]:
        queries = ClusterCounts(centres), ClusterSums(centres)
        noisy_counts, noisy_sums = gate.release_jointly(("counts", "sums"), queries)
        counts = np.clip(noisy_counts.values, 0, n_rows)
        counts = np.maximum(counts * n_rows / max(counts.sum(), 1.0), 1.0)
        return _into_box(noisy_sums.values.reshape(centres.shape) / counts[:, None])


class DPLloyd(_PaperKMeans):
    """DPLloyd (Blum et al. 2005, as in Su et al. 2016), the paper's baseline.

    Laplace noise on counts and coordinate sums together.

    The literature's sensitivity d + 1 holds when a row is added or removed over the unit box. The paper
    replaces rows in the unit ball, which takes 2 (1 + sqrt d) (docs/paper.md).

    Parameters
    ----------
    n_clusters : int, default 8
        How many centres.
    epsilon, delta : float
        The budget. ``epsilon=math.inf`` takes the same steps without noise, marked as not private.
    bounds, data_norm, schema
        Public limits of the rows, as in `dpem.KMeans`.
    composition : {"linear", "zcdp"}, default "linear"
        How epsilon_i is found.
    max_iter : int, default 10
        Steps J.
    ledger, random_state, n_jobs, verbose
        As in `dpem.KMeans`; `random_state` seeds the public start.

    Examples
    --------
    >>> import numpy as np
    >>> from dpem import paper
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> paper.DPLloyd(3, epsilon=2.0, data_norm=4.0).fit(X).cluster_centers_.shape
    (3, 2)
    """

    _public_name: ClassVar[str] = "dpem.paper.DPLloyd"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        composition: str = "linear",
        max_iter: int = 10,
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
        self.composition = composition
        self.max_iter = max_iter
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _plan(self, n_columns: int, k: int, iterations: int) -> Plan:
        one_row = CountsAndSums(np.zeros((k, n_columns))).sensitivity("replace_one", "l1")
        return Plan.per_mechanism(
            [Stage("counts and sums", 1.0, one_row, iterations, laplace=True)],
            composition=self.composition,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def _step(
        self,
        gate: ReleaseGate | ExactGate,
        centres: NDArray[np.float64],
        n_rows: float,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        k = len(centres)
        released = gate.release("counts and sums", CountsAndSums(centres)).values
        counts = np.maximum(released[:k] / GRID, 1.0)
        return _into_box(released[k:].reshape(centres.shape) / counts[:, None])


def latin_hypercube(k: int, d: int, random_state: PublicRandom) -> NDArray[np.float64]:
    """Return a public start: one stratified point per cluster in [-1/2, 1/2]^d."""
    strata = np.stack([random_state.permutation(k) for _ in range(d)], axis=1)
    return onto_grid(GRID * ((strata + random_state.uniform(size=(k, d))) / k - 0.5))


def _into_box(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip means to the domain's box, then to its ball: a mean of rows lies there."""
    return onto_grid(np.clip(means, -GRID, GRID))
