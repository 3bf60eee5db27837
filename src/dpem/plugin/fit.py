"""Private EM of a plug-in model: an optional private start, then steps that release one clipped sum each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpem._warnings import warn
from dpem.data.domain import GRID
from dpem.errors import ModelWarning
from dpem.estimator.planned_columns import ExpectedNoise
from dpem.fitting.averaging import DecayingAverage, is_averaged, noise_after
from dpem.fitting.centres import fit_centres, kmeans_stages
from dpem.fitting.loop import run_em
from dpem.gate.mapped_rows import MappedRowsGate
from dpem.gate.plan import Plan, Stage
from dpem.plugin.checks import checked_parameters
from dpem.plugin.clipped import (
    ClippedStatistic,
    EncodedRows,
    encoded_vectors,
    read_only,
    statistic_vectors,
    treats_blocks,
)
from dpem.plugin.memory import refuse_memory
from dpem.statistics.simple import CountedRows

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.data import RowSource
    from dpem.data.table_grid import TableGrid
    from dpem.estimator.base import PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Terms
    from dpem.gate.progress import Progress
    from dpem.gate.released import ReleasedStatistics
    from dpem.plugin.checks import ModelShape
    from dpem.plugin.family import ExponentialFamily, Parameters

__all__ = [
    "DEFAULT_ITERATIONS",
    "FittedModel",
    "ModelRequest",
    "fit_model",
    "fit_plain_model",
    "noise_of_statistics",
]

DEFAULT_ITERATIONS = 15
_PLAIN_ROWS = 4096
# Shares of mu^2.
_ROWS, _START = 0.03, 0.20
_START_STEPS = 4
_GROWTH = 2.0  # of the budget from the first EM step to the last


@dataclass(frozen=True)
class ModelRequest:
    """The public arguments of a fit."""

    model: ExponentialFamily
    grid: TableGrid
    shape: ModelShape
    iterations: int

    def plan(self, **terms: Unpack[Terms]) -> Plan:
        """Return the plan of all stages."""
        adjacency = terms["adjacency"]
        stages, left = [], 1.0
        if not adjacency.n_rows_public:
            stages.append(Stage("rows", _ROWS, CountedRows().sensitivity(adjacency)))
            left -= _ROWS
        if self.model.start_centres:
            stages += kmeans_stages(self.shape.n_encoded, adjacency, _START_STEPS, share=_START)
            left -= _START
        one = self.statistic({}).sensitivity(adjacency)
        growth = _GROWTH ** (np.arange(self.iterations) / self.iterations)
        stages += Stage.numbered("em", left * growth / growth.sum(), one)
        return Plan.build(stages, **terms)

    def statistic(self, parameters: Parameters) -> ClippedStatistic:
        """Return the statistic for given parameters."""
        shape = self.shape
        if not treats_blocks(self.model):
            refuse_memory(self.model)  # an M-step may have stored something that rows would share
        return ClippedStatistic(
            self.model, read_only(parameters), self.grid, shape.n_statistics, shape.norm, shape.nonnegative
        )


@dataclass(frozen=True, eq=False)
class _State:
    """Released parameters, and the averaged sums behind them."""

    parameters: Parameters
    step: int
    average: DecayingAverage


@dataclass(frozen=True, eq=False)
class _Step:
    """One EM step (an `EMModel`); in the second half, sums are averaged with those of the steps before."""

    request: ModelRequest
    n_rows: float

    def statistic(self, parameters: _State) -> ClippedStatistic:
        """Return the model's statistic."""
        return self.request.statistic(parameters.parameters)

    def m_step(self, parameters: _State, released: ReleasedStatistics) -> _State:
        """Average the sums and run the model's M-step on the average."""
        sums, noise = self.statistic(parameters).read(released)
        forget = None if is_averaged(parameters.step, self.request.iterations) else 0.0
        average = parameters.average.add(noise, sums, forget=forget)
        after = self.model_step(parameters.parameters, average.sums[0], average.noise)
        return _State(after, parameters.step + 1, average)

    def model_step(self, before: Parameters, sums: NDArray[np.float64], noise: float) -> Parameters:
        """Return the result of the model's M-step, or the earlier parameters if it fails."""
        model = self.request.model
        try:
            copies = {key: value.copy() for key, value in before.items()}
            with np.errstate(all="ignore"):
                after = model.m_step(sums.copy(), copies, self.n_rows, noise)
            return checked_parameters(after, f"{type(model).__name__}.m_step", like=before)
        except Exception as error:  # noqa: BLE001  (the exception depends on released values only)
            warn(
                f"Expected {type(model).__name__}.m_step to accept any noisy sums, got an exception "
                f"({error}). The step was skipped. Correct m_step before the next fit.",
                ModelWarning,
            )
            return before


@dataclass(frozen=True, eq=False)
class FittedModel:
    """The result of a fit; `redraw` repeats the last M-step with fresh noise."""

    parameters: Parameters
    redraw: Callable[[PublicRandom], Parameters]


def fit_model(
    gate: Gate,
    request: ModelRequest,
    n_rows: int | None,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedModel:
    """Run all stages of the fit."""
    n = gate.n_rows = float(n_rows) if n_rows is not None else _noisy_rows(gate)
    centres = None
    if request.model.start_centres:
        encode = EncodedRows(request.model, request.grid, request.shape.n_encoded)
        found, _, _, _ = fit_centres(
            MappedRowsGate(gate, encode),
            request.shape.n_encoded,
            n,
            request.model.start_centres,
            random_state,
            progress,
        )
        centres = found / GRID
    name = type(request.model).__name__
    start = checked_parameters(
        request.model.start(request.grid.schema, random_state, centres), f"{name}.start"
    )
    step = _Step(request, n)
    first = _State(start, 0, DecayingAverage((np.zeros(request.shape.n_statistics),)))
    last, before, _ = run_em(gate, step, first, gate.plan.numbered("em"), progress)

    def redraw(random_state: PublicRandom) -> Parameters:
        (sums,), noise = last.average.sums, last.average.noise
        sums = sums + random_state.normal(0.0, noise, size=len(sums))
        return step.model_step(before.parameters, sums, noise)

    return FittedModel(last.parameters, redraw)


def _noisy_rows(gate: Gate) -> float:
    released = gate.release("rows", CountedRows())
    return max(1.0, float(released.values[0]))


def fit_plain_model(
    source: RowSource,
    request: ModelRequest,
    random_state: PublicRandom,
    tol: float,
    progress: Progress,
) -> tuple[Parameters, int]:
    """Run EM without clipping, rounding and noise, until no parameter changes by more than `tol`."""
    model, schema, shape = request.model, request.grid.schema, request.shape
    rows = source.in_memory()
    centres = None
    if model.start_centres:
        blocks = [encoded_vectors(model, schema, block, shape.n_encoded) for block in rows.blocks()]
        kmeans = PlainKMeans(model.start_centres, n_init=5, random_state=random_state)
        centres = kmeans.fit(np.concatenate(blocks, axis=1).T).cluster_centers_
    name = type(model).__name__
    parameters = checked_parameters(model.start(schema, random_state, centres), f"{name}.start")
    for step in range(1, request.iterations + 1):
        progress.step(f"step {step}")
        locked = read_only(parameters)
        sums = np.zeros(shape.n_statistics)
        for block in rows.blocks(_PLAIN_ROWS):
            sums += statistic_vectors(model, locked, block, shape.n_statistics).sum(axis=1)
        copies = {key: value.copy() for key, value in parameters.items()}
        after = model.m_step(sums, copies, float(rows.n_rows), 0.0)
        after = checked_parameters(after, f"{name}.m_step", like=parameters)
        change = max(float(np.abs(after[key] - old).max(initial=0.0)) for key, old in parameters.items())
        parameters = after
        if change <= tol:
            return parameters, step
    return parameters, request.iterations


def noise_of_statistics(request: ModelRequest, plan: Plan, n_rows: int) -> list[ExpectedNoise]:
    """Return the noise of the mean statistics within a component, relative to the clipping norm."""
    unit = request.statistic({}).unit
    noise = noise_after([stage.noise_stddev / unit for stage in plan.numbered("em")])
    size = max(request.model.start_centres, 1) / n_rows * noise
    against = "the norm to which a row's statistics are clipped"
    return [ExpectedNoise("statistics of a component", None, size, None, size, against)]
