"""The paper's k-means and its baseline DPLloyd, with corrections if their text is not private."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.data.domain import GRID, onto_grid
from dpem.estimator.arguments import stores_arguments, whole, word
from dpem.gate.plan import NoiseKind, Plan, Stage
from dpem.models.kmeans.nearest_centre import NearestCentreMixin
from dpem.paper.base import PaperMethod
from dpem.paper.cluster_sums import ClusterCounts, ClusterSums, CountsAndSums

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicFacts, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress

__all__ = ["DPLloyd", "KMeans", "latin_hypercube"]


class _PaperKMeans(NearestCentreMixin, PaperMethod):
    """The common part of both methods: J steps from a public start, and one epsilon_i for every mechanism."""

    _constraints: ClassVar[Constraints] = {
        "n_clusters": whole(),
        "max_iter": whole(),
        "composition": word(("linear", "zcdp")),
    }

    n_clusters: int
    max_iter: int
    composition: str

    def _plan(self, public: PublicFacts) -> Plan:
        stages = self._stages(np.zeros((self.n_clusters, public.numeric_domain.n_columns)))
        return Plan.per_mechanism(
            stages, composition=self.composition, epsilon=self.epsilon, delta=self.delta
        )

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain = public.numeric_domain
        centres = latin_hypercube(self.n_clusters, domain.n_columns, random_state)
        for step in range(self.max_iter):
            progress.step(f"step {step + 1} of {self.max_iter}")
            centres = self._step(gate, centres, float(public.n_rows or 1))
        return {"cluster_centers_": domain.from_grid(centres), "n_iter_": self.max_iter}

    @abstractmethod
    def _stages(self, centres: NDArray[np.float64]) -> list[Stage]:
        """Return the stages of all steps; only the shape of `centres` matters."""

    @abstractmethod
    def _step(self, gate: Gate, centres: NDArray[np.float64], n_rows: float) -> NDArray[np.float64]:
        """Return the next centres."""


class KMeans(_PaperKMeans):
    """The paper's k-means: noise on counts and on the mean of each cluster, J(K+1) mechanisms.

    Sums get noise for sensitivity 2 sqrt(d) (Laplace) or 2 (Gaussian), and are divided by noisy counts, which
    are charged too. The text does not say how counts are treated. The authors' code uses exact counts without
    a charge, which is not private (docs/paper/methods.md).

    Parameters
    ----------
    n_clusters : int, default 8
        Number of centres.
    epsilon, delta : float
        The privacy budget. ``epsilon=math.inf`` runs the same steps without noise and marks the result as not
        private.
    bounds, data_norm, schema
        Public bounds of the rows, as in `dpem.KMeans`.
    noise : {"laplace", "gaussian"}, default "laplace"
        Noise distribution. The paper uses Laplace.
    composition : {"zcdp", "linear"}, default "zcdp"
        Composition from which epsilon_i is computed.
    max_iter : int, default 10
        Number J of steps.
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
    _constraints: ClassVar[Constraints] = {"noise": word(("laplace", "gaussian"))}

    noise: str

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
        noise: str = "laplace",
        composition: str = "zcdp",
        max_iter: int = 10,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    def _stages(self, centres: NDArray[np.float64]) -> list[Stage]:
        noise = NoiseKind(self.noise)
        counts = ClusterCounts(centres).sensitivity(self.adjacency, noise.norm)
        sums = ClusterSums(centres).sensitivity(self.adjacency, noise.norm)
        return [
            Stage("counts", 1.0, counts, self.max_iter, noise=noise),
            Stage("sums", 1.0, sums, self.max_iter, mechanisms=len(centres), noise=noise),
        ]

    def _step(self, gate: Gate, centres: NDArray[np.float64], n_rows: float) -> NDArray[np.float64]:
        statistics = ClusterCounts(centres), ClusterSums(centres)
        noisy_counts, noisy_sums = gate.release_jointly(("counts", "sums"), statistics)
        counts = np.clip(noisy_counts.values, 0, n_rows)
        counts = np.maximum(counts * n_rows / max(counts.sum(), 1.0), 1.0)
        return _into_box(noisy_sums.values.reshape(centres.shape) / counts[:, None])


class DPLloyd(_PaperKMeans):
    """DPLloyd (Blum et al. 2005, as in Su et al. 2016), the paper's baseline.

    It adds Laplace noise to counts and coordinate sums together. The sensitivity d + 1 of the literature
    holds if a row of the unit box is added or removed. The paper replaces rows of the unit ball, which needs
    2 (1 + sqrt d) (docs/paper/methods.md).

    Parameters
    ----------
    n_clusters : int, default 8
        Number of centres.
    epsilon, delta : float
        The privacy budget. ``epsilon=math.inf`` runs the same steps without noise and marks the result as not
        private.
    bounds, data_norm, schema
        Public bounds of the rows, as in `dpem.KMeans`.
    composition : {"linear", "zcdp"}, default "linear"
        Composition from which epsilon_i is computed.
    max_iter : int, default 10
        Number J of steps.
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
        composition: str = "linear",
        max_iter: int = 10,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    def _stages(self, centres: NDArray[np.float64]) -> list[Stage]:
        one_row = CountsAndSums(centres).sensitivity(self.adjacency)
        return [Stage("counts and sums", 1.0, one_row, self.max_iter, noise=NoiseKind.LAPLACE)]

    def _step(
        self,
        gate: Gate,
        centres: NDArray[np.float64],
        n_rows: float,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        k = len(centres)
        released = gate.release("counts and sums", CountsAndSums(centres)).values
        counts = np.maximum(released[:k] / GRID, 1.0)
        return _into_box(released[k:].reshape(centres.shape) / counts[:, None])


def latin_hypercube(k: int, d: int, random_state: PublicRandom) -> NDArray[np.float64]:
    """Return public starting centres: one stratified point per cluster in [-1/2, 1/2]^d."""
    strata = np.stack([random_state.permutation(k) for _ in range(d)], axis=1)
    return onto_grid(GRID * ((strata + random_state.uniform(size=(k, d))) / k - 0.5))


def _into_box(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip means to the box of the domain and then to its ball, where all means of rows lie."""
    return onto_grid(np.clip(means, -GRID, GRID))
