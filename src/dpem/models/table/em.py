"""Synthetic tables by EM, one mechanism per step, over bins chosen from noisy histograms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpem.fitting.averaging import DecayingAverage, is_averaged
from dpem.fitting.loop import run_em
from dpem.fitting.projection import count_weights
from dpem.gate.plan import Plan, Stage
from dpem.models.table.bins import choose_bins, most_bins_of, noisy_rows
from dpem.models.table.density import MixedBlock, MixedDensity
from dpem.models.table.one_shot import FittedTable, fitted_to_columns, histograms_of, released_levels
from dpem.plugin.product_mixture import CategoricalFamily
from dpem.statistics.mixture_tables import MixtureTables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid
    from dpem.estimator.base import PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Terms
    from dpem.gate.progress import Progress
    from dpem.gate.released import ReleasedStatistics
    from dpem.models.table.bins import ColumnBins

__all__ = ["DEFAULT_ITERATIONS", "EMRequest", "fit_by_em"]

DEFAULT_ITERATIONS = 10
_COLUMNS = 0.25  # of mu^2, for the histograms
_SPREAD = 0.5  # standard deviation of the logarithms of starting probabilities


@dataclass(frozen=True, eq=False)
class EMRequest:
    """The public arguments of a fit."""

    grid: LevelGrid
    n_components: int | None  # None: chosen by the noise
    iterations: int

    def plan(self, n_rows: int | None, **terms: Unpack[Terms]) -> Plan:
        """Return the plan, which does not depend on the number of rows: histograms, then equal EM steps."""
        del n_rows
        adjacency = terms["adjacency"]
        one_step = _one_component(self.grid).sensitivity(adjacency)
        share = (1 - _COLUMNS) / self.iterations
        stages = [Stage("columns", _COLUMNS, histograms_of(self.grid).sensitivity(adjacency))]
        stages += Stage.numbered("em", [share] * self.iterations, one_step)
        return Plan.build(stages, **terms)

    def left_out(self, plan: Plan) -> None:
        """Return None: the plan leaves nothing out."""

    def components(self, n_rows: float, noise: float) -> int:
        """Return the number of components: a quarter of the number for the one-shot method."""
        if self.n_components is not None:
            return self.n_components
        worth = n_rows * np.sqrt(len(self.grid.columns)) / noise
        return int(np.clip(round(15 * (worth / 2400) ** 0.5), 2, 40))


def _one_component(grid: LevelGrid) -> MixtureTables:
    """Return the statistic of a single component and bin: sensitivities do not depend on their numbers."""
    missing = [np.full(1, 0.5) if levels.column.missing else None for levels in grid.columns]
    bins = [np.zeros(levels.size, dtype=np.intp) for levels in grid.columns]
    return MixtureTables(bins, np.ones(1), [np.ones((1, 1))] * len(bins), missing)


@dataclass(frozen=True, eq=False)
class _State:
    """Released parameters, and the averaged sums behind them."""

    weights: NDArray[np.float64]
    tables: tuple[NDArray[np.float64], ...]
    missing: tuple[NDArray[np.float64] | None, ...]
    step: int = 0
    average: DecayingAverage = field(default_factory=DecayingAverage)


@dataclass(frozen=True, eq=False)
class _Step:
    """One EM step (an `EMModel`); in the second half, sums are averaged with those of the steps before."""

    bins: Sequence[ColumnBins]
    n_rows: float
    iterations: int

    def statistic(self, parameters: _State) -> MixtureTables:
        """Return the expected tables under these parameters."""
        return MixtureTables(
            [column.of_level for column in self.bins],
            parameters.weights,
            parameters.tables,
            parameters.missing,
        )

    def m_step(self, parameters: _State, released: ReleasedStatistics) -> _State:
        """Average, then take parts of noisy counts, drawn together as far as noise explains."""
        sums, noise = self.statistic(parameters).read(released)
        average = (
            parameters.average.add(noise, sums)
            if is_averaged(parameters.step, self.iterations)
            else DecayingAverage.of(noise, sums)
        )
        (sums,), noise = average.sums, average.noise
        weights = count_weights(sums[:, 0], max(noise, 1e-9), self.n_rows)
        counts = weights * self.n_rows
        sizes = [table.shape[1] for table in parameters.tables]
        values, lost = np.split(sums[:, 1:], [sum(sizes)], axis=1)
        tables = _tables(values, counts, sizes, noise)
        missing: list[NDArray[np.float64] | None] = []
        for one in parameters.missing:
            if one is None:
                missing.append(None)
            else:
                here, lost = lost[:, :1], lost[:, 1:]
                missing.append(
                    _tables(np.hstack([counts[:, None] - here, here]), counts, [2], noise)[0][:, 1]
                )
        return _State(weights, tuple(tables), tuple(missing), parameters.step + 1, average)


def _tables(
    sums: NDArray[np.float64], counts: NDArray[np.float64], sizes: Sequence[int], noise: float
) -> list[NDArray[np.float64]]:
    """Return the probabilities (k, bins) of each column; all are positive."""
    family = CategoricalFamily(len(counts), tuple(sizes), (0.0,) * len(sizes))
    return family.tables(family.column_parameters(sums, counts, noise))


def fit_by_em(
    gate: Gate,
    request: EMRequest,
    n_rows: int | None,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedTable:
    """Release histograms, then run the planned EM steps from a random start near the histograms."""
    progress.step("histograms of the columns")
    columns = released_levels(gate, request.grid, "columns")
    n = gate.n_rows = float(n_rows) if n_rows is not None else noisy_rows(columns)
    bins = [
        choose_bins(
            column.levels,
            column.probabilities(n),
            column.noise / n,
            most_bins_of(column.levels),
        )
        for column in columns
    ]
    k = request.components(n, columns[0].noise)
    start = _start(bins, k, random_state)
    step = _Step(bins, n, request.iterations)
    last, _, _ = run_em(gate, step, start, gate.plan.numbered("em"), progress)
    nothing = np.full((len(bins), len(bins)), np.nan)
    return FittedTable(_density_of(bins, last), float("nan"), nothing, nothing)


def _start(bins: Sequence[ColumnBins], k: int, random_state: PublicRandom) -> _State:
    """Return the first state: random components near the distributions of the columns."""
    tables, missing = [], []
    for column in bins:
        values = column.of_bins
        lost = float(values[-1]) if column.levels.column.missing else None
        if lost is not None:
            values = values[:-1]
        near = np.log(values) + _SPREAD * random_state.normal(size=(k, len(values)))
        table = np.exp(near - near.max(axis=1, keepdims=True))
        tables.append(table / table.sum(axis=1, keepdims=True))
        missing.append(None if lost is None else np.full(k, np.clip(lost, 1e-6, 1 - 1e-6)))
    return _State(np.full(k, 1 / k), tuple(tables), tuple(missing))


def _density_of(bins: Sequence[ColumnBins], state: _State) -> MixedDensity:
    """Return the density, with missing cells as one more bin of each column.

    Tables are adjusted so that the distribution of each column agrees with its histogram, which is more
    precise.
    """
    tables = []
    for table, missing in zip(state.tables, state.missing, strict=True):
        if missing is None:
            tables.append(table)
        else:
            tables.append(np.hstack([table * (1 - missing)[:, None], missing[:, None]]))
    tables = fitted_to_columns(tables, state.weights, [column.of_bins for column in bins])
    block = MixedBlock(tuple(range(len(bins))), state.weights[None], tuple(tables))
    return MixedDensity(tuple(bins), (block,), np.ones(1))
