r"""Fit a mixture of products to noisy tables of pairs. This is post-processing, and costs no budget.

Components k have weights w_ck in the bins c of a target column (a single c without a target), and a table of
probabilities theta_kj for every column j. The model of a pair table is sum_k w_ck theta_ki theta_kj'. It is
fitted to the released tables, of n rows, by least squares in units of each entry's noise and sampling error:

    sum (Y - n model)^2 / (2 variance) + smoothing n sum_j I(k; x_j),

summed over pairs and histograms. The penalty is the mutual information of component and column. As it grows,
the columns become independent, while their own distributions stay the same. The strength of the penalty is
chosen on the noisy tables themselves: Gaussian thinning splits them, by added noise, into two independent
halves, one to fit and one to validate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._compiled import kernel_module
from dpem._threads import one_thread
from dpem.estimator.base import public_random

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.gate.progress import Progress

__all__ = ["PairEvidence", "ProductComponents", "fit_pairs", "short_searches"]

# Chosen on generated tables (experiments/mixed_constants.py).
_SMOOTHING = 0.063  # times mu^(3/4), with mu of the release of the pairs
_TRIED = (0.6, 1.0, 2.0, 4.0)  # multiples of that smoothing
_RESTARTS = 8
_STEPS = 700
_TRIAL_STEPS = 300
_TRIALS = 2
_RATE = 0.05  # learning rate of Adam, on logarithms of probabilities
_ENTRIES_PER_THREAD = 1 << 19
_ENTRIES_PER_CELL = 100  # entries of pairs, over all steps, that take as long as a cell of rows
_WORK = 1e12  # floating-point operations of all restarts together
_FLOOR = 1e-4  # share of the column's distribution in each table
_shorter: ContextVar[int] = ContextVar("dpem_shorter_searches", default=1)


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """The released counts of a block of columns, in rows.

    Attributes
    ----------
    pairs : ndarray of shape (parts, bins, bins)
        Noisy tables of pairs, symmetric, and zero for a column with itself.
    pair_noise : float
        Standard deviation of their noise.
    columns, column_variances : ndarray of shape (bins,)
        Noisy histograms of the columns, and the variance of their noise.
    by_part, by_part_noise : ndarray of shape (parts, bins), float; or None
        The histograms split by the bins of a target, and the standard deviation of their noise.
    parts, part_variances : ndarray of shape (parts,)
        Noisy counts of the bins of the target, and the variance of their noise.
    starts : ndarray of int
        First bin of each column, and the total number of bins.
    n_rows : float
        Public or noisy number of rows.
    sampling : float
        Sampling variance of a count, relative to the count: 1, and 2 for halves after thinning.
    """

    pairs: NDArray[np.float64]
    pair_noise: float
    columns: NDArray[np.float64]
    column_variances: NDArray[np.float64]
    by_part: NDArray[np.float64] | None
    by_part_noise: float
    parts: NDArray[np.float64]
    part_variances: NDArray[np.float64]
    starts: NDArray[np.intp]
    n_rows: float
    sampling: float = 1.0

    def variance(self, noise: Any, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of counts: that of their noise, plus that of sampling rows."""
        return np.asarray(noise + self.sampling * np.maximum(counts, 0.0))

    @cached_property
    def column_of_bin(self) -> NDArray[np.intp]:
        """The column of each bin."""
        return np.asarray(np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)))

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """A mask of the entries that were counted: those of two different columns."""
        column = self.column_of_bin
        return np.asarray(column[:, None] != column)

    @property
    def mu(self) -> float:
        """The mu of Gaussian DP of the release of all tables of pairs."""
        m = len(self.starts) - 1
        return float(np.sqrt(m * (m - 1) / 2) / self.pair_noise)

    @property
    def smoothing(self) -> float:
        """The default smoothing for this noise; beyond mu = 1 sampling error dominates."""
        return float(_SMOOTHING * min(self.mu, 1.0) ** 0.75)

    @cached_property
    def scaled(self) -> tuple[NDArray[np.float32], ...]:
        """The released counts over n, each followed by n^2 over its variance, per entry."""
        n = self.n_rows
        pair_weights = n * n / self.variance(self.pair_noise**2, self.pairs) * self.counted
        column_weights = n * n / self.variance(self.column_variances, self.columns)
        part_weights = n * n / self.variance(self.part_variances, self.parts)
        everything = [
            self.pairs / n,
            pair_weights,
            self.columns / n,
            column_weights,
            self.parts / n,
            part_weights,
        ]
        if self.by_part is not None:
            split = n * n / self.variance(self.by_part_noise**2, self.by_part)
            everything += [self.by_part / n, split]
        return tuple(array.astype(np.float32) for array in everything)

    def thinned(self, random_state: PublicRandom) -> tuple[PairEvidence, PairEvidence]:
        """Split the counts into two independent halves, each with twice the variance.

        With Y = q + e and fresh noise z of the same distribution as e, Y + z and Y - z are independent given
        q. Here e includes the sampling error, so that one half validates a fit to the other against the
        population, not against these rows.
        """
        pair = random_state.normal(size=self.pairs.shape)
        pair = np.triu(pair) + np.triu(pair, 1).transpose(0, 2, 1)
        pair *= np.sqrt(self.variance(self.pair_noise**2, self.pairs)) * self.counted
        column = random_state.normal(size=self.columns.shape)
        column *= np.sqrt(self.variance(self.column_variances, self.columns))
        split = None
        if self.by_part is not None:
            split = random_state.normal(size=self.by_part.shape)
            split *= np.sqrt(self.variance(self.by_part_noise**2, self.by_part))
        halves = [
            replace(
                self,
                pairs=self.pairs + sign * pair,
                pair_noise=self.pair_noise * np.sqrt(2.0),
                columns=self.columns + sign * column,
                column_variances=2 * self.column_variances,
                by_part=None if self.by_part is None or split is None else self.by_part + sign * split,
                by_part_noise=self.by_part_noise * np.sqrt(2.0),
                sampling=2 * self.sampling,
            )
            for sign in (1.0, -1.0)
        ]
        return halves[0], halves[1]


@dataclass(frozen=True, eq=False)
class ProductComponents:
    """Components: weights (parts, k), which sum to 1, and tables (bins, k), which sum to 1 in each column."""

    weights: NDArray[np.float64]
    tables: NDArray[np.float64]

    def pairs(self) -> NDArray[np.float64]:
        """Return the probabilities of all pairs of bins, (parts, bins, bins)."""
        return np.stack([(self.tables * weights) @ self.tables.T for weights in self.weights])

    @property
    def marginal(self) -> NDArray[np.float64]:
        """The probability of each bin."""
        return np.asarray(self.tables @ self.weights.sum(axis=0))


def fit_pairs(
    evidence: PairEvidence,
    n_components: int,
    random_state: PublicRandom,
    n_jobs: int,
    progress: Progress,
    share_of_work: float = 1.0,
) -> tuple[ProductComponents, float]:
    """Fit components to the released counts; return them and the chosen smoothing.

    Several restarts are averaged into one mixture, because each finds another good fit to the same tables.
    """
    # Numbers of components and smoothing to try: from close to the noisy tables to independent columns.
    tried = [(n_components, factor * evidence.smoothing) for factor in _TRIED]
    tried += [(max(2, n_components // 4), evidence.smoothing), (1, np.inf)]
    steps, most_restarts = _STEPS // _shorter.get(), max(2, _RESTARTS // _shorter.get())
    work = 4.0 * evidence.pairs.size * n_components / share_of_work
    trial_steps = int(np.clip(_WORK / (work * len(tried) * _TRIALS), 50, _TRIAL_STEPS)) // _shorter.get()
    entries = evidence.pairs.size * n_components
    # Searches of all sizes are compiled, or none.
    kernels = kernel_module("dpem.models.table.descent_kernel", entries * _STEPS // _ENTRIES_PER_CELL)
    halves, searches = [], []
    for _ in range(_TRIALS):
        fitted_to, judged_by = evidence.thinned(random_state)
        # Each half has half of mu^2, and needs the smoothing of a release with that mu.
        less = fitted_to.smoothing / evidence.smoothing
        halves += [judged_by] * len(tried)
        searches += [
            _Search(fitted_to, k, less * by, trial_steps, _seed(random_state), kernels) for k, by in tried
        ]
    # Without compiled code the interpreter's lock takes most of a small step: more threads would wait.
    useful = len(searches) if kernels is not None else 1 + entries // _ENTRIES_PER_THREAD
    with one_thread(), ThreadPoolExecutor(min(n_jobs, useful)) as pool:
        progress.step(f"smoothing, {_TRIALS} trials")
        losses = list(pool.map(_Search.loss, searches, halves))
        k, smoothing = tried[int(np.reshape(losses, (_TRIALS, -1)).sum(axis=0).argmin())]
        restarts = int(np.clip(_WORK / (work * _STEPS), 2, most_restarts)) if k > 1 else 1
        progress.step(f"{restarts} restarts of {k} components")
        searches = [
            _Search(evidence, k, smoothing, steps, _seed(random_state), kernels) for _ in range(restarts)
        ]
        found = list(pool.map(_Search.run, searches))
    return _averaged(found), float(smoothing)


@contextmanager
def short_searches(times: int) -> Iterator[None]:
    """Search so many times shorter inside the block, for audits, whose fits need not be good."""
    token = _shorter.set(times)
    try:
        yield
    finally:
        _shorter.reset(token)


def _seed(random_state: PublicRandom) -> int:
    return int(random_state.randint(2**31 - 1))


def _averaged(found: Sequence[ProductComponents]) -> ProductComponents:
    weights = np.concatenate([one.weights for one in found], axis=1) / len(found)
    tables = np.concatenate([one.tables for one in found], axis=1)
    together = ProductComponents(weights / weights.sum(), tables)
    return replace(together, tables=(1 - _FLOOR) * tables + _FLOOR * together.marginal[:, None])


def _loss(found: ProductComponents, evidence: PairEvidence) -> float:
    """Return the sum of squared differences between tables of pairs and model, in units of their errors."""
    model = evidence.n_rows * found.pairs()
    variance = evidence.variance(evidence.pair_noise**2, model)
    return float((evidence.counted * (evidence.pairs - model) ** 2 / variance).sum())


@dataclass(frozen=True, eq=False)
class _Search:
    """One descent from a random start. Single precision suffices, because the tables are far noisier.

    With the module `kernels`, the descent is compiled. Its results are those of NumPy up to rounding.
    """

    evidence: PairEvidence
    n_components: int
    smoothing: float
    steps: int
    seed: int
    kernels: Any = None

    def run(self) -> ProductComponents:
        """Minimise by Adam, with a learning rate that falls towards the end."""
        with np.errstate(all="ignore"):
            return self._descended()

    def loss(self, judged_by: PairEvidence) -> float:
        """Return the loss of the components that this search finds, on the other half of the counts."""
        return _loss(self.run(), judged_by)

    def _descended(self) -> ProductComponents:
        log_tables, log_weights = self._start()
        if self.kernels is None:
            self._descend(log_tables, log_weights)
        else:
            *released, nothing = *self.evidence.scaled, np.empty((0, 0), dtype=np.float32)
            split = released[6:] or [nothing, nothing]
            self.kernels.descend(
                *(log_tables, log_weights, self.evidence.starts, *released[:6], *split),
                *(self._strength, 1 / self._n_entries, self._rates),
            )
        found = _softmax_columns(log_tables, self.evidence).astype(np.float64)
        parts = np.exp((log_weights - log_weights.max()).astype(np.float64))
        return ProductComponents(parts / parts.sum(), found / self._column_sums(found))

    def _descend(self, log_tables: NDArray[np.float32], log_weights: NDArray[np.float32]) -> None:
        """Move the logarithms of tables and weights, which the compiled form does up to rounding."""
        evidence = self.evidence
        firsts, column = evidence.starts[:-1], evidence.column_of_bin
        moments = [np.zeros_like(log_tables), np.zeros_like(log_tables)]
        weight_moments = [np.zeros_like(log_weights), np.zeros_like(log_weights)]
        for step, rate in enumerate(self._rates.tolist(), start=1):
            tables = _softmax_columns(log_tables, evidence)
            weights = np.exp(log_weights - log_weights.max())
            weights /= weights.sum()
            by_tables, by_weights = self._gradient(tables, weights)
            # Chain rule through the softmax of each column, and of all weights.
            inner = tables * by_tables
            inner -= tables * np.add.reduceat(inner, firsts, axis=0).take(column, axis=0)
            by_weights = weights * (by_weights - (weights * by_weights).sum())
            log_tables -= _adam(inner, moments, step, rate)
            log_weights -= _adam(by_weights, weight_moments, step, rate)

    @property
    def _rates(self) -> NDArray[np.float64]:
        """The learning rate of each step: it rises over the first 20 and falls over the last 40 percent."""
        step = np.arange(1, self.steps + 1)
        late = (self.steps - step) / (0.4 * self.steps)
        return np.asarray(_RATE * np.minimum(1.0, step / 20) * np.minimum(1.0, 0.02 + 0.98 * late))

    @property
    def _strength(self) -> np.float32:
        """The smoothing in units of the sum of squares; a single component needs none."""
        return np.float32(self.smoothing * self.evidence.n_rows if self.n_components > 1 else 0.0)

    @property
    def _n_entries(self) -> np.float32:
        return np.float32(max(self.evidence.pairs.size / 2, 1))

    def _start(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the logarithms of random components near the distributions of the columns."""
        random_state = public_random(self.seed)
        evidence, k = self.evidence, self.n_components
        positive = np.maximum(evidence.columns, 0.1 * np.sqrt(evidence.column_variances) + 1e-6)
        near = np.log(positive)[:, None] + 0.5 * random_state.normal(size=(len(positive), k))
        parts = np.maximum(evidence.parts, 1e-3 * evidence.n_rows)
        weights = np.log(parts / parts.sum())[:, None] + 0.4 * random_state.normal(size=(len(parts), k))
        return near.astype(np.float32), weights.astype(np.float32)

    def _gradient(
        self, tables: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the gradients by tables and by weights, divided by the number of entries."""
        pairs, pair_weights, columns, column_weights, parts, part_weights, *split = self.evidence.scaled
        total = weights.sum(axis=0)
        marginal = tables @ total
        column_residual = (marginal - columns) * column_weights
        by_tables = column_residual[:, None] * total
        by_weights = np.repeat((tables.T @ column_residual)[None], len(weights), axis=0)
        if len(weights) > 1:
            by_weights += ((weights.sum(axis=1) - parts) * part_weights)[:, None]
        for c, part in enumerate(weights):
            residual = (tables * part) @ tables.T
            residual -= pairs[c]
            residual *= pair_weights[c]
            along = residual @ tables
            by_weights[c] += 0.5 * (tables * along).sum(axis=0)
            if split:
                in_part = (tables @ part - split[0][c]) * split[1][c]
                along += in_part[:, None]
                by_weights[c] += tables.T @ in_part
            by_tables += along * part
        # Mutual information of component and column; its gradient through the marginal is constant.
        if self.n_components > 1:
            ratio = np.log(np.maximum(tables, 1e-9)) - np.log(np.maximum(marginal, 1e-9))[:, None]
            by_tables += self._strength * total * ratio
            by_weights += self._strength * (tables * ratio).sum(axis=0)
        return np.asarray(by_tables / self._n_entries, dtype=np.float32), np.asarray(
            by_weights / self._n_entries, dtype=np.float32
        )

    def _column_sums(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.add.reduceat(tables, self.evidence.starts[:-1], axis=0)
        return np.asarray(sums.take(self.evidence.column_of_bin, axis=0), dtype=np.float64)


def _softmax_columns(logits: NDArray[np.float32], evidence: PairEvidence) -> NDArray[np.float32]:
    """Return probabilities of the bins of each column."""
    firsts, column = evidence.starts[:-1], evidence.column_of_bin
    shifted = logits - np.maximum.reduceat(logits, firsts, axis=0).take(column, axis=0)
    np.exp(shifted, out=shifted)
    shifted /= np.add.reduceat(shifted, firsts, axis=0).take(column, axis=0)
    return shifted


def _adam(
    gradient: NDArray[np.float32], moments: list[NDArray[np.float32]], step: int, rate: float
) -> NDArray[np.float32]:
    """Return the step of Adam and update its running means."""
    moments[0] *= 0.9
    moments[0] += 0.1 * gradient
    moments[1] *= 0.99
    moments[1] += 0.01 * gradient * gradient
    mean, square = moments[0] / (1 - 0.9**step), moments[1] / (1 - 0.99**step)
    return np.asarray(rate * mean / (np.sqrt(square) + 1e-8), dtype=np.float32)
