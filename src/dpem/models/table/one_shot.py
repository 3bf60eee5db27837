"""Synthetic tables in one shot: noisy histograms, then noisy tables of pairs, then post-processing.

The budget is spent on fine and coarse histograms of all columns, from which bins are chosen, and then on
tables of all pairs of columns over these bins, split by the target if there is one. Nothing else reads rows.
If noise would hide the pairs, the whole budget goes to the columns, which are then independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.fitting.reserve import RESERVED, plan_of_first
from dpem.gate.plan import Plan, Stage
from dpem.models.table.bins import ColumnBins, NoisyLevels, choose_bins, most_bins_of, noisy_rows
from dpem.models.table.density import MixedBlock, MixedDensity
from dpem.models.table.pairs import PairEvidence, fit_pairs
from dpem.plugin.product_mixture import CategoricalFamily
from dpem.statistics.contingency import Histograms, PairTables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid
    from dpem.estimator.base import PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Terms
    from dpem.gate.progress import Progress

__all__ = [
    "FittedTable",
    "OneShotRequest",
    "fit_one_shot",
    "fitted_to_columns",
    "histograms_of",
    "released_levels",
]

# Shares of mu^2, chosen on generated tables (experiments/mixed_constants.py). The share of the first stage is
# fixed. The other shares depend on the number of rows per standard deviation of noise in the last stage.
_COLUMNS = {False: 0.25, True: 0.2}  # without and with a target
_MANY, _ENOUGH, _ENOUGH_OF_TARGET = 120.0, 50.0, 40.0
_MOST_TARGET_BINS = 8
# Bounds on memory for tables with many columns.
_BLOCK_COLUMNS = 100
_MOST_ENTRIES = 2**23  # of all tables of pairs
_FITTINGS = 20  # iterations of proportional fitting


@dataclass(frozen=True, eq=False)
class FittedTable:
    """The result of a fit.

    Attributes
    ----------
    density : MixedDensity
        The model.
    smoothing : float
        The chosen penalty, the largest of all blocks; infinite if the columns of a block are independent, NaN
        if no pairs were fitted.
    dependence, misfit : ndarray of shape (m, m)
        Difference of every noisy table of pairs from independence, and from the model, in standard
        deviations. NaN for pairs that were not counted.
    """

    density: MixedDensity
    smoothing: float
    dependence: NDArray[np.float64]
    misfit: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OneShotRequest:
    """The public arguments of a fit."""

    grid: LevelGrid
    n_components: int | None  # None: chosen by the noise
    target: int | None
    n_jobs: int  # threads

    @property
    def n_columns(self) -> int:
        """The number of columns, including the target."""
        return len(self.grid.columns)

    @cached_property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Blocks of neighbouring columns whose pairs are counted: all columns except the target."""
        columns = [j for j in range(self.n_columns) if j != self.target]
        n_blocks = -(-len(columns) // _BLOCK_COLUMNS)
        return tuple(tuple(map(int, part)) for part in np.array_split(columns, max(n_blocks, 1)) if len(part))

    @property
    def n_pairs(self) -> int:
        """The number of tables of pairs."""
        return sum(len(block) * (len(block) - 1) // 2 for block in self.blocks)

    def most_bins(self, n_parts: int) -> int:
        """Return the largest number of bins of a column for which all tables of pairs fit into memory."""
        widest = max(len(block) for block in self.blocks) if self.blocks else 1
        bins_of_block = (_MOST_ENTRIES / (n_parts * max(len(self.blocks), 1))) ** 0.5
        return max(2, int(bins_of_block / max(widest, 1)) - 1)

    def most_entries(self) -> NDArray[np.float64]:
        """Return the largest number of entries of each table of two columns, over all bins of the target."""
        n_parts = 1
        if self.target is not None:
            target = self.grid.columns[self.target]
            n_parts = min(target.n_values, _MOST_TARGET_BINS) + target.column.missing
        most = self.most_bins(n_parts)
        sizes = np.array(
            [
                min(levels.n_values, most_bins_of(levels), most) + levels.column.missing
                for levels in self.grid.columns
            ],
            dtype=np.float64,
        )
        pairs = [np.triu(np.outer(sizes[list(block)], sizes[list(block)]), 1) for block in self.blocks]
        return n_parts * np.concatenate([table[table > 0] for table in pairs])

    def histograms(self) -> Histograms:
        """Return the statistic of the first stage."""
        return histograms_of(self.grid)

    def plan(self, n_rows: int | None, **terms: Unpack[Terms]) -> Plan:
        """Return the plan. If the number of rows is private, a noisy one determines the later shares."""
        one_ways = self.histograms().sensitivity(terms["adjacency"])
        if not self._wants_pairs:
            return Plan.build([Stage("columns", 1.0, one_ways)], **terms)
        plan = plan_of_first("columns", _COLUMNS[self.target is not None], one_ways, **terms)
        if n_rows is None:
            return plan
        return plan.refined(RESERVED, self.layout(plan, n_rows), by_release=False)

    @property
    def _wants_pairs(self) -> bool:
        return self.n_components != 1 and self.n_columns > 1

    def left_out(self, plan: Plan) -> str | None:
        """Return a warning about relations between columns that a plan leaves out, or None."""
        stages = {stage.name for stage in plan.stages}
        if RESERVED not in stages and self._wants_pairs and self.n_pairs and "pairs" not in stages:
            kept = "only the relation of each column to the target" if "target" in stages else "no relations"
            return (
                f"Expected enough rows for tables of pairs at this budget, got too few: noise would hide the "
                f"tables. Of the relations between columns, the model keeps {kept}. Use a larger epsilon or "
                f"fewer columns."
            )
        if len(self.blocks) > 1 and stages & {"pairs", RESERVED}:
            return (
                f"Because there are many columns, pairs are counted within {len(self.blocks)} blocks of at "
                f"most {max(map(len, self.blocks))} neighbouring columns. Columns of different blocks are "
                f"independent in this model{'' if self.target is None else ', given the target'}. Place "
                f"related columns next to each other in the schema, or use fewer columns."
            )
        return None

    def layout(self, plan: Plan, n_rows: float) -> list[Stage]:
        """Return the remaining stages for a number of rows: the most detailed ones that the noise allows."""
        adjacency = plan.adjacency
        columns = self.histograms().sensitivity(adjacency)
        pairs = PairTables([np.zeros(1, dtype=np.intp)] * self.n_columns, self.blocks)
        layouts: list[tuple[float, list[Stage]]] = []
        if self.target is None:
            one_row = pairs.sensitivity(adjacency)
            layouts.append((_MANY, [Stage("pairs", 1.0, one_row)]))
            layouts.append(
                (_ENOUGH, [Stage("columns again", 1 / 3, columns), Stage("pairs", 2 / 3, one_row)])
            )
        else:
            split = Histograms.of_columns([1] * (self.n_columns - 1)).sensitivity(adjacency)
            if self.n_pairs:
                one_row = pairs.sensitivity(adjacency)
                layouts.append((_MANY, [Stage("target", 1 / 8, split), Stage("pairs", 7 / 8, one_row)]))
                layouts.append(
                    (
                        _ENOUGH,
                        [
                            Stage("columns again", 1 / 4, columns),
                            Stage("target", 1 / 4, split),
                            Stage("pairs", 1 / 2, one_row),
                        ],
                    )
                )
            layouts.append(
                (_ENOUGH_OF_TARGET, [Stage("columns again", 1 / 4, columns), Stage("target", 3 / 4, split)])
            )
        for least, stages in layouts:
            refined = plan.refined(RESERVED, stages, by_release=False)
            if n_rows >= least * refined.stage(stages[-1].name).noise_stddev:
                return stages
        return [Stage("columns again", 1.0, columns)]


def histograms_of(grid: LevelGrid) -> Histograms:
    """Return histograms of the levels of all columns, and of coarse parts of columns with many levels."""
    columns = list(range(len(grid.columns)))
    bins = [np.arange(levels.size) for levels in grid.columns]
    for j, levels in enumerate(grid.columns):
        if levels.parts is not None:
            columns.append(j)
            bins.append(levels.parts)
    return Histograms(columns, bins)


def released_levels(gate: Gate, grid: LevelGrid, stage: str) -> list[NoisyLevels]:
    """Release the histograms of all columns in a stage of the plan."""
    histograms = histograms_of(grid)
    released = gate.release(stage, histograms)
    noise = float(released.noise_stddev[0])
    tables = [table[0] for table in histograms.split(released.values)]
    coarse = dict(zip(histograms.columns[len(grid.columns) :], tables[len(grid.columns) :], strict=True))
    return [
        NoisyLevels.measured(levels, tables[j], coarse.get(j), noise) for j, levels in enumerate(grid.columns)
    ]


def fit_one_shot(
    gate: Gate,
    request: OneShotRequest,
    n_rows: int | None,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedTable:
    """Release all tables and fit the density to them."""
    progress.step("histograms of the columns")
    columns = released_levels(gate, request.grid, "columns")
    n = gate.n_rows = float(n_rows) if n_rows is not None else noisy_rows(columns)
    if n_rows is None and request.n_columns > 1 and request.n_components != 1:
        gate.refine(RESERVED, request.layout(gate.plan, n))
    stages = {stage.name for stage in gate.plan.stages}
    if "columns again" in stages:
        again = released_levels(gate, request.grid, "columns again")
        columns = [first.averaged_with(second) for first, second in zip(columns, again, strict=True)]
        n = gate.n_rows = float(n_rows) if n_rows is not None else noisy_rows(columns)
    if not stages & {"pairs", "target"}:
        return _independent(columns, n)
    bins = _bins(request, columns, n)
    by_part = _split_by_target(gate, request, bins, progress)
    if "pairs" not in stages and request.target is not None:
        return _given_target(request.target, bins, by_part, n)
    return _from_pairs(gate, request, columns, bins, by_part, n, random_state, progress)


def _bins(request: OneShotRequest, columns: Sequence[NoisyLevels], n: float) -> list[ColumnBins]:
    """Choose the bins of every column; those of the target first, because they multiply all tables."""
    chosen: dict[int, ColumnBins] = {}
    n_parts = 1
    order = sorted(range(len(columns)), key=lambda j: j != request.target)
    for j in order:
        column = columns[j]
        most = _MOST_TARGET_BINS if j == request.target else most_bins_of(column.levels)
        chosen[j] = choose_bins(
            column.levels, column.probabilities(n), column.noise / n, min(most, request.most_bins(n_parts))
        )
        if j == request.target:
            n_parts = chosen[j].size
    return [chosen[j] for j in range(len(columns))]


def _split_by_target(
    gate: Gate, request: OneShotRequest, bins: Sequence[ColumnBins], progress: Progress
) -> tuple[dict[int, NDArray[np.float64]], float]:
    """Release the histograms split by the target; return (parts, bins) for each column, and the noise."""
    if request.target is None:
        return {}, 1.0
    progress.step("histograms by target")
    others = [j for j in range(request.n_columns) if j != request.target]
    split = Histograms(
        others, [bins[j].of_level for j in others], (request.target, bins[request.target].of_level)
    )
    released = gate.release("target", split)
    return dict(zip(others, split.split(released.values), strict=True)), float(released.noise_stddev[0])


def _from_pairs(
    gate: Gate,
    request: OneShotRequest,
    columns: Sequence[NoisyLevels],
    bins: Sequence[ColumnBins],
    by_part: tuple[dict[int, NDArray[np.float64]], float],
    n: float,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedTable:
    """Release the tables of pairs, and fit a mixture to each block."""
    tables = PairTables([column.of_level for column in bins], request.blocks, request.target)
    progress.step("tables of pairs")
    released = gate.release("pairs", tables)
    noise = float(released.noise_stddev[0])
    grams = tables.grams(released.values)
    if request.target is None:
        parts, part_variances = np.array([n]), np.array([1.0])
    else:
        parts, part_variances = columns[request.target].of_bins(bins[request.target].of_level)
    k = request.n_components or _components(n, noise, request.n_pairs)
    blocks, smoothing = [], 0.0
    m = request.n_columns
    dependence, misfit = np.full((m, m), np.nan), np.full((m, m), np.nan)
    total_parts = []
    for number, (block, gram) in enumerate(zip(request.blocks, grams, strict=True)):
        if len(request.blocks) > 1:
            progress.step(f"block {number + 1} of {len(request.blocks)}")
        counts, variances = zip(*(columns[j].of_bins(bins[j].of_level) for j in block), strict=True)
        split = np.concatenate([by_part[0][j] for j in block], axis=1) if by_part[0] else None
        evidence = PairEvidence(
            gram,
            noise,
            np.concatenate(counts),
            np.concatenate(variances),
            split,
            by_part[1],
            parts,
            part_variances,
            tables.starts(block),
            n,
        )
        found, chosen = fit_pairs(
            evidence, k, random_state, request.n_jobs, progress, share_of_work=1 / len(request.blocks)
        )
        smoothing = max(smoothing, chosen)
        total_parts.append(found.weights.sum(axis=1))
        split_at = evidence.starts[1:-1]
        blocks.append(
            MixedBlock(
                block,
                found.weights / found.weights.sum(axis=1, keepdims=True),
                tuple(np.ascontiguousarray(table.T) for table in np.split(found.tables, split_at)),
            )
        )
        independent = np.outer(found.marginal, found.marginal)[None] * total_parts[-1][:, None, None]
        for result, model in ((dependence, independent), (misfit, found.pairs())):
            result[np.ix_(block, block)] = _deviations(evidence, n * model)
    weights = np.mean(total_parts, axis=0)
    density = MixedDensity(tuple(bins), tuple(blocks), weights / weights.sum(), request.target)
    return FittedTable(density, smoothing, dependence, misfit)


def _components(n: float, noise: float, n_pairs: int) -> int:
    """Return the number of components that the noise allows."""
    signal = n * n_pairs**0.5 / noise  # n mu
    return int(np.clip(round(60 * (signal / 7500) ** 0.5), 8, 150))


def _deviations(evidence: PairEvidence, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference of every table of pairs from its expectation, in standard deviations."""
    variance = evidence.variance(evidence.pair_noise**2, expected)
    squared = (((evidence.pairs - expected) ** 2 / variance) * evidence.counted).sum(axis=0)
    starts = evidence.starts[:-1]
    total = np.add.reduceat(np.add.reduceat(squared, starts, axis=0), starts, axis=1)
    sizes = np.diff(evidence.starts)
    entries = np.outer(sizes, sizes) * len(evidence.pairs)
    result = (total - entries) / np.sqrt(2.0 * entries)
    np.fill_diagonal(result, np.nan)
    return np.asarray(result)


def _given_target(
    target: int,
    bins: Sequence[ColumnBins],
    by_part: tuple[dict[int, NDArray[np.float64]], float],
    n: float,
) -> FittedTable:
    """Return the density of columns that are independent given the bin of the target."""
    parts = bins[target].of_bins
    split, noise = by_part
    others = tuple(split)
    family = CategoricalFamily(len(parts), tuple(bins[j].size for j in others), (0.0,) * len(others))
    sums = np.concatenate([split[j] for j in others], axis=1)
    tables = family.tables(family.column_parameters(sums, parts * n, noise))
    fitted = fitted_to_columns(tables, parts, [bins[j].of_bins for j in others])
    block = MixedBlock(others, np.eye(len(parts)), tuple(fitted))
    density = MixedDensity(tuple(bins), (block,), parts, target)
    return FittedTable(density, float("nan"), *_not_counted(len(bins)))


def fitted_to_columns(
    tables: Sequence[NDArray[np.float64]],
    weights: NDArray[np.float64],
    columns: Sequence[NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """Adjust tables (k, bins) by proportional fitting: their mean becomes the distribution of the column."""
    fitted = []
    for table, column in zip(tables, columns, strict=True):
        moved = table
        for _ in range(_FITTINGS):
            moved = moved * (column / (weights @ moved))
            moved = moved / moved.sum(axis=1, keepdims=True)
        fitted.append(moved)
    return fitted


def _not_counted(m: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.full((m, m), np.nan), np.full((m, m), np.nan)


def _independent(columns: Sequence[NoisyLevels], n: float) -> FittedTable:
    """Return the density of independent columns with the distributions of their histograms."""
    bins, tables = [], []
    for column in columns:
        probabilities = column.probabilities(n)
        bins.append(ColumnBins(column.levels, np.arange(column.levels.size), probabilities))
        tables.append(probabilities[None])
    block = MixedBlock(tuple(range(len(columns))), np.ones((1, 1)), tuple(tables))
    density = MixedDensity(tuple(bins), (block,), np.ones(1))
    return FittedTable(density, float("inf"), *_not_counted(len(columns)))
