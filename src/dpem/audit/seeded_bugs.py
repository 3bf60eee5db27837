"""Seeded privacy bugs that an audit must detect, switched on one at a time.

Each is a mistake from published code or from a paper, or one that a single wrong line could cause here. While
a bug is on, every release is marked as having insecure noise.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from dpem import _compiled
from dpem.audit import obligations
from dpem.data import Domain, TableRows
from dpem.data.column import READ, UNREADABLE
from dpem.data.sources import persons
from dpem.engines.local import LocalEngine
from dpem.fitting.centres import LloydModel
from dpem.gate import release
from dpem.gate.progress import Progress
from dpem.gate.release import ReleaseGate
from dpem.paper import KMeans, mixture_sums
from dpem.plugin import clipped as clipped_statistic
from dpem.privacy import mechanisms, sensitivity
from dpem.privacy.neighbours import Adjacency
from dpem.privacy.noise import rounded_gaussian, rounded_laplace
from dpem.privacy.randomness import OperatingSystemEntropy, SeededEntropy
from dpem.statistics import gaussian as gaussian_moments
from dpem.statistics import missing_cells
from dpem.statistics import simple as simple_statistics
from dpem.statistics.base import JointStatistic
from dpem.statistics.contingency import PairTables
from dpem.statistics.gaussian import RESPONSIBILITY_BITS, FrameMoments
from dpem.statistics.gaussian_missing import IncompleteMoments
from dpem.statistics.mixture_tables import MixtureTables
from dpem.statistics.softmax import exp_non_positive, softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpem.gate.released import ReleasedStatistics

__all__ = ["BUGS", "Bug", "seeded_bug"]


@dataclass(frozen=True)
class Bug:
    """A privacy bug, and a trial that it affects.

    Attributes
    ----------
    subject : str
        Trial, or step of a proof, to audit with the bug on.
    patches : callable
        Function that returns the patches that switch the bug on.
    adjacency : str
        Neighbouring relation for the audit.
    """

    subject: str
    patches: Callable[[], list[Any]]
    adjacency: str = Adjacency.REPLACE_ONE


@contextmanager
def seeded_bug(name: str) -> Iterator[Bug]:
    """Switch a bug on in this context. Only for testing the audits."""
    bug = BUGS[name]
    with ExitStack() as stack:
        for mistake in bug.patches():
            stack.enter_context(mistake)
        stack.enter_context(patch.object(OperatingSystemEntropy, "is_secure", False))
        yield bug


# -- noise -----------------------------------------------------------------------------------------------


def _half_the_noise() -> list[Any]:
    def too_little(noise_stddev: float, size: int) -> Any:
        return rounded_gaussian(noise_stddev / 2, size)

    return [patch.object(mechanisms, "rounded_gaussian", too_little)]


def _variance_for_deviation() -> list[Any]:
    """Use the square root of the standard deviation.

    The authors' factor analysis passes the variance of the noise where the standard deviation is wanted.
    Their deviation is below 1, so that the noise is too small. The deviations here are far above 1, in units
    of the grid, and their variance would be too much noise. The square root is too little.
    """

    def of_variance(noise_stddev: float, size: int) -> Any:
        return rounded_gaussian(max(1.0, np.sqrt(noise_stddev)), size)

    return [patch.object(mechanisms, "rounded_gaussian", of_variance)]


def _noise_forgotten_once() -> list[Any]:
    whole = ReleaseGate._add_noise

    def without(self: ReleaseGate, stage: Any, *arguments: Any, **named: Any) -> ReleasedStatistics:
        if stage.name != "grid":
            return whole(self, stage, *arguments, **named)
        with patch.object(mechanisms, "rounded_gaussian", lambda _, size: np.zeros(size, dtype=np.int64)):
            return whole(self, stage, *arguments, **named)

    return [patch.object(ReleaseGate, "_add_noise", without)]


def _noise_reused() -> list[Any]:
    kept: dict[int, Any] = {}

    def again(noise_stddev: float, size: int) -> Any:
        if size not in kept:
            kept[size] = rounded_gaussian(2.0**40, size) / 2.0**40
        return np.rint(kept[size] * noise_stddev).astype(np.int64)

    return [patch.object(mechanisms, "rounded_gaussian", again)]


def _noise_from_a_seed() -> list[Any]:
    def seeded(noise_stddev: float, size: int) -> Any:
        return rounded_gaussian(noise_stddev, size, SeededEntropy(0))

    return [patch.object(mechanisms, "rounded_gaussian", seeded)]


def _entropy_shared_by_forks() -> list[Any]:
    """Keep a buffer of entropy, from which a forked process reads the same bytes as its parent."""
    buffer = bytearray(os.urandom(1 << 22))  # noqa: TID251  (the buffer is the bug)

    def from_buffer(self: OperatingSystemEntropy, n_bytes: int) -> bytes:  # noqa: ARG001
        if len(buffer) < n_bytes:
            buffer.extend(os.urandom(n_bytes + (1 << 20)))  # noqa: TID251
        drawn = bytes(buffer[:n_bytes])
        del buffer[:n_bytes]
        return drawn

    return [patch.object(OperatingSystemEntropy, "draw", from_buffer)]


def _float_noise() -> list[Any]:
    """Add floating-point noise, whose gaps reveal values (docs/background/known-vulnerabilities.md)."""
    exact = mechanisms._released

    def on_floats(clipped: Any, noise: Any, event: Any) -> Any:
        return exact(clipped, noise + np.linspace(0.1, 0.4, noise.size).reshape(noise.shape), event)

    return [patch.object(mechanisms, "_released", on_floats)]


def _noise_with_holes() -> list[Any]:
    """Add noise in multiples of 16, so that the remainder is that of the exact sum."""

    def coarse(noise_stddev: float, size: int) -> Any:
        return (
            rounded_gaussian(noise_stddev, size) // 16 * 16
            if noise_stddev > 64
            else rounded_gaussian(noise_stddev, size)
        )

    return [patch.object(mechanisms, "rounded_gaussian", coarse)]


# -- sensitivities ---------------------------------------------------------------------------------------


def _smaller(function: str) -> Callable[[], list[Any]]:
    """Return a patch that uses the add-remove sensitivity for replace-one."""

    def patches() -> list[Any]:
        exact = getattr(sensitivity, function)

        def too_small(*arguments: Any, **named: Any) -> float:
            swapped = [Adjacency.ADD_REMOVE if word == Adjacency.REPLACE_ONE else word for word in arguments]
            found = float(exact(*swapped, **named))
            return found if found < float(exact(*arguments, **named)) else max(1.0, 0.7 * found)

        return [patch.object(sensitivity, function, too_small)]

    return patches


def _person_of_one_row() -> list[Any]:
    def one_row(value: float, rows_per_person: int) -> float:  # noqa: ARG001
        return value

    return [patch.object(module, "for_person", one_row) for module in (sensitivity, release)]


def _noise_shape_too_small() -> list[Any]:
    """Halve the off-diagonal noise of a symmetric matrix twice."""
    shape = property(lambda self: np.where(_on_diagonal(len(self.centre)), 1.0, 0.5))
    return [patch.object(simple_statistics.SecondMoments, "noise_shape", shape)]


def _on_diagonal(d: int) -> Any:
    i, j = np.triu_indices(d)
    return i == j


def _paper_denominators() -> list[Any]:
    """Divide by the un-noised count of a component before noise is added, as in the paper's text.

    The text's sensitivity is that of a noisy count, which noise can make as large as that of all rows.
    """
    exact = LocalEngine.sum

    def over_counts(self: LocalEngine, statistic: Any, source: Any, domain: Any) -> Any:
        found = exact(self, statistic, source, domain)
        if not isinstance(statistic, JointStatistic) or not isinstance(statistic.parts[1], mixture_sums.Sums):
            return found
        counts, sums, moments = statistic.split(found)
        k, d = statistic.parts[1].shape
        scaled = sums.reshape(k, d) / (counts / 2.0**16 + 1)[:, None] * (source.n_rows + 1)
        return np.concatenate([counts, np.rint(scaled).astype(np.int64).ravel(), moments])

    return [patch.object(LocalEngine, "sum", over_counts)]


def _bound_without_missing_cells() -> list[Any]:
    """Skip the bound on vectors for rows with missing cells."""

    def as_complete(self: IncompleteMoments, n_missing: Any) -> Any:
        return np.full(len(n_missing), self.clip), np.ones(len(n_missing))

    def unchecked(self: IncompleteMoments, psi: Any, which: Any, projectors: Any) -> Any:  # noqa: ARG001
        return np.ones(psi.shape[1], dtype=bool)

    return [
        patch.object(IncompleteMoments, "_reach", as_complete),
        patch.object(IncompleteMoments, "_within_norm", unchecked),
        patch.object(_compiled, "ENABLED", False),
    ]


def _float_sums() -> list[Any]:
    """Sum rows in single precision."""

    def in_floats(self: LocalEngine, statistic: Any, source: Any, domain: Any) -> Any:  # noqa: ARG001
        total = np.zeros(statistic.size, dtype=np.float32)
        for block in source.in_memory().blocks():
            grid = domain.to_grid(block)
            for i in range(grid.shape[1]):
                total += statistic.sum_block(grid[:, i : i + 1]).astype(np.float32)
        return total.astype(np.int64) >> statistic.coarse_bits

    return [patch.object(LocalEngine, "sum", in_floats)]


def _pair_tables_of_one_block() -> list[Any]:
    """Count only the tables of the first block of columns, although a row is in those of all blocks."""

    def of_first(self: PairTables) -> int:
        n = len(self.blocks[0])
        return n * (n - 1) // 2

    return [patch.object(PairTables, "n_tables", property(of_first))]


def _coarse_sums_as_if_exact() -> list[Any]:
    """Ignore that rounding sums down may add one to the change of each entry."""
    return [patch.object(sensitivity, "coarse", lambda whole, bits, _: float(whole) / 2**bits)]


def _missing_cells_forgotten() -> list[Any]:
    """Charge expected tables as if no column had an entry for missing cells."""
    sound = MixtureTables.sensitivity

    def without(self: MixtureTables, *arguments: Any) -> float:
        return sound(replace(self, missing=[None] * len(self.tables)), *arguments)

    return [patch.object(MixtureTables, "sensitivity", without)]


def _negative_entries_pass() -> list[Any]:
    sound = clipped_statistic._bounded

    def any_sign(*arguments: Any, nonnegative: bool) -> Any:  # noqa: ARG001
        return sound(*arguments, nonnegative=False)

    return [patch.object(clipped_statistic, "_bounded", any_sign)]


def _filled_rows_too_long() -> list[Any]:
    sound = missing_cells.fill_rows

    def longer(*arguments: Any) -> Any:
        return np.rint(1.01 * sound(*arguments))

    return [patch.object(module, "fill_rows", longer) for module in (missing_cells, obligations)]


def _tied_responsibilities_rounded() -> list[Any]:
    """Round responsibilities to the nearest integer, so that their sum may exceed one."""

    def rounded(self: FrameMoments, log_joint: Any) -> Any:  # noqa: ARG001
        return np.rint(softmax(log_joint)[0] * 2.0**RESPONSIBILITY_BITS)

    return [
        patch.object(FrameMoments, "_responsibilities", rounded),
        patch.object(_compiled, "ENABLED", False),
    ]


# -- rows that change others -------------------------------------------------------------------------------


def _softmax_of_the_block() -> list[Any]:
    """Subtract the largest logit of the block instead of the row, so that distant rows lose precision."""

    def of_block(logits: Any) -> Any:
        largest = np.broadcast_to(logits.max(), logits.shape[1:])
        weights = exp_non_positive(logits - largest)
        total = weights.sum(axis=0)
        return weights / total, largest, total

    return [
        patch.object(gaussian_moments, "softmax", of_block),
        patch.object(_compiled, "ENABLED", False),
    ]


def _last_chunk_twice() -> list[Any]:
    """Extend the last chunk of rows backwards to the full size, so that some rows count twice."""
    sound = FrameMoments.sum_block

    def in_chunks(self: FrameMoments, rows: Any) -> Any:
        n, total = rows.shape[1], np.zeros(self.size, dtype=np.int64)
        for start in range(0, n, 256):
            first = min(start, max(0, n - 256))
            total += sound(self, np.ascontiguousarray(rows[:, first : first + 256]))
        return total

    return [patch.object(FrameMoments, "sum_block", in_chunks)]


def _cells_read_by_their_block() -> list[Any]:
    """Round all numbers of a block if one of its cells is not a number."""
    sound = TableRows.block

    def block(self: TableRows) -> Any:
        values = sound(self)
        if self.schema is not None and not self._of_findings:
            found = sound(self.of_findings())
            for j, column in enumerate(self.schema.columns):
                if column.is_number and (found[j] == UNREADABLE).any():
                    values[j] = np.where(found[j] == READ, np.rint(values[j]), values[j])
        return values

    return [patch.object(TableRows, "block", block)]


# -- persons -----------------------------------------------------------------------------------------------


def _cap_of_a_person_per_piece() -> list[Any]:
    """Apply the cap on rows of a person to every piece separately."""
    sound: Any = vars(persons._KeptRows)["by_piece"].func

    def each_by_itself(self: persons._KeptRows) -> Any:
        whole = sound(self)
        kept = []
        for owners, mask in zip(self._owners, whole, strict=True):
            more = mask.copy()
            for owner in np.unique(owners[owners >= 0]):
                more[np.flatnonzero(owners == owner)[: self._cap]] = True
            kept.append(more)
        return kept

    return [patch.object(persons._KeptRows, "by_piece", property(each_by_itself))]


def _uncapped_counts_of_findings() -> list[Any]:
    def uncapped(self: persons.LimitedRows) -> Any:
        return self._source.of_findings()

    return [patch.object(persons.LimitedRows, "of_findings", uncapped)]


# -- what depends on rows ----------------------------------------------------------------------------------


def _before_the_fit(change: Callable[[KMeans, Any], None]) -> Callable[[], list[Any]]:
    def patches() -> list[Any]:
        sound = KMeans.fit

        def fit(self: KMeans, X: Any, y: Any = None) -> KMeans:
            change(self, np.clip(np.nan_to_num(np.asarray(X, dtype=np.float64)), -1e6, 1e6))
            return sound(self, X, y)

        return [patch.object(KMeans, "fit", fit)]

    return patches


def _start_from_rows(model: KMeans, rows: Any) -> None:
    model.random_state = int(np.abs(rows[:, 0]).sum() * 1e6) % 2**31


def _as_many_clusters_as_groups(model: KMeans, rows: Any) -> None:
    model.n_clusters = len(np.unique(np.rint(rows), axis=0))


def _scale_of_the_rows(model: KMeans, rows: Any) -> None:
    model.data_norm = float(np.sqrt((rows**2).sum(axis=1).max()))


def _bounds_of_the_rows(model: KMeans, rows: Any) -> None:
    model.data_norm, model.bounds = None, (rows.min(axis=0) - 1e-3, rows.max(axis=0) + 1e-3)


def _last_sum() -> tuple[dict[str, Any], Any]:
    """Return a dictionary for the last exact sum, and the patch that keeps it there."""
    exact, last = LocalEngine.sum, dict[str, Any]()

    def remembering(self: LocalEngine, statistic: Any, source: Any, domain: Any) -> Any:
        last["sum"] = exact(self, statistic, source, domain)
        return last["sum"]

    return last, patch.object(LocalEngine, "sum", remembering)


def _stop_by_exact_sums() -> list[Any]:
    """Skip a release depending on exact sums: here, if they are even."""
    sound = ReleaseGate.release_jointly
    last, remember = _last_sum()

    def release(self: ReleaseGate, names: Any, parts: Any) -> Any:
        if "released" in last and int(last["sum"].sum()) % 2 == 0:
            return last["released"]
        last["released"] = sound(self, names, parts)
        return last["released"]

    return [remember, patch.object(ReleaseGate, "release_jointly", release)]


def _more_releases_than_planned() -> list[Any]:
    """Release every Lloyd step twice and average, but charge one release."""
    sound = ReleaseGate.release

    def twice(self: ReleaseGate, name: str, statistic: Any, rows: Any = None) -> ReleasedStatistics:
        first = sound(self, name, statistic, rows)
        if name != "lloyd":
            return first
        self._used[name] -= 1
        second = sound(self, name, statistic, rows)
        return first.with_more_noise((second.values - first.values) / 2)

    return [patch.object(ReleaseGate, "release", twice)]


def _exact_attribute() -> list[Any]:
    sound = KMeans.fit

    def fit(self: KMeans, X: Any, y: Any = None) -> KMeans:
        sound(self, X, y)
        rows = np.nan_to_num(np.clip(np.asarray(X, dtype=np.float64), -1, 1))
        distances = ((rows[:, None] - self.cluster_centers_) ** 2).sum(axis=2)
        self.inertia_ = float(distances.min(axis=1).sum())
        return self

    return [patch.object(KMeans, "fit", fit)]


def _exact_centres() -> list[Any]:
    """Let the M-step use the exact sum behind the noise."""
    sound = LloydModel.m_step
    last, remember = _last_sum()

    def m_step(self: LloydModel, parameters: Any, released: ReleasedStatistics) -> Any:
        return sound(self, parameters, released.with_more_noise(last["sum"] - released.values))

    return [remember, patch.object(LloydModel, "m_step", m_step)]


def _error_about_a_row() -> list[Any]:
    sound = TableRows.block

    def block(self: TableRows) -> Any:
        found = sound(self)
        if not np.isfinite(found).all():
            raise ValueError(
                f"Input X contains NaN in row {int(np.flatnonzero(~np.isfinite(found).all(axis=0))[0])}."
            )
        return found

    return [patch.object(TableRows, "block", block)]


def _warning_about_rows() -> list[Any]:
    sound = Domain.to_grid

    def to_grid(self: Domain, columns: Any) -> Any:
        outside = int((self.changed(columns) > 0).sum())
        if outside:
            warnings.warn(f"{outside} rows lie outside the bounds.", UserWarning, stacklevel=2)
        return sound(self, columns)

    return [patch.object(Domain, "to_grid", to_grid), patch.object(_compiled, "ENABLED", False)]


def _log_of_exact_sums() -> list[Any]:
    sound = Progress.step
    last, remember = _last_sum()

    def step(self: Progress, text: str) -> None:
        sound(self, text)
        sys.stderr.write(f"total {np.abs(last.get('sum', 0)).sum()}\n")

    return [remember, patch.object(Progress, "step", step)]


def _debug_record_of_exact_sums() -> list[Any]:
    exact = LocalEngine.sum

    def logged(self: LocalEngine, statistic: Any, source: Any, domain: Any) -> Any:
        found = exact(self, statistic, source, domain)
        logging.getLogger("dpem.engines").debug("sum %s", int(np.abs(found).sum()))
        return found

    return [patch.object(LocalEngine, "sum", logged)]


def _noise_shared_within_a_release() -> list[Any]:
    def halved(noise_stddev: float, size: int) -> Any:
        half = rounded_gaussian(noise_stddev, (size + 1) // 2)
        return np.concatenate([half, half])[:size]

    return [patch.object(mechanisms, "rounded_gaussian", halved)]


def _shaped_noise_drawn_once() -> list[Any]:
    """Scale one draw to every shape of a release, instead of drawing each separately."""
    kept: dict[str, Any] = {}
    sound = mechanisms.GaussianMechanism.release

    def release(self: Any, values: Any, shape: Any = None) -> Any:
        kept.clear()
        return sound(self, values, shape)

    def again(noise_stddev: float, size: int) -> Any:
        if "base" not in kept or kept["base"].size < size:
            kept["base"] = rounded_gaussian(2.0**40, max(size, 64)) / 2.0**40
        return np.rint(kept["base"][:size] * noise_stddev).astype(np.int64)

    return [
        patch.object(mechanisms, "rounded_gaussian", again),
        patch.object(mechanisms.GaussianMechanism, "release", release),
    ]


def _laplace_noise_shared_within_a_release() -> list[Any]:
    def halved(noise_scale: float, size: int) -> Any:
        half = rounded_laplace(noise_scale, (size + 1) // 2)
        return np.concatenate([half, -half])[:size]

    return [patch.object(mechanisms, "rounded_laplace", halved)]


def _rows_with_missing_cells_dropped() -> list[Any]:
    sound = TableRows.__init__

    def init(self: TableRows, data: Any, schema: Any = None, **named: Any) -> None:
        if isinstance(data, np.ndarray):
            data = data[np.isfinite(data).all(axis=1)]
        sound(self, data, schema, **named)

    return [patch.object(TableRows, "__init__", init)]


# -- the ledger --------------------------------------------------------------------------------------------


def _charged_after_reading() -> list[Any]:
    pay, close = ReleaseGate._pay, ReleaseGate.close

    def later(self: ReleaseGate, ledger: Any, purpose: str) -> None:
        self._owed = (ledger, purpose)  # type: ignore[attr-defined]

    def pay_and_close(self: ReleaseGate) -> None:
        pay(self, *self._owed)  # type: ignore[attr-defined]
        close(self)

    return [patch.object(ReleaseGate, "_pay", later), patch.object(ReleaseGate, "close", pay_and_close)]


def _never_charged() -> list[Any]:
    return [patch.object(ReleaseGate, "_pay", lambda self, ledger, purpose: None)]  # noqa: ARG005


# Fitted in milliseconds, for bugs in code that all models share.
_QUICK = "paper.KMeans, Gaussian"

BUGS: dict[str, Bug] = {
    "half the noise": Bug("MixedMixture", _half_the_noise),
    "a variance taken for a deviation": Bug("FactorAnalysis", _variance_for_deviation),
    "one release without noise": Bug("KMeans", _noise_forgotten_once),
    "noise reused between iterations": Bug("GaussianMixture, full", _noise_reused),
    "noise from a seed": Bug("KMeans", _noise_from_a_seed),
    "noise reused by forked processes": Bug(_QUICK, _entropy_shared_by_forks),
    "floating-point noise": Bug(_QUICK, _float_noise),
    "noise with holes": Bug("GaussianMixture, full", _noise_with_holes),
    "floating-point sums": Bug(_QUICK, _float_sums),
    "sensitivity of counts": Bug("paper.KMeans", _smaller("counts")),
    "sensitivity of sums": Bug(_QUICK, _smaller("sums")),
    "sensitivity of second moments": Bug("KMeans, four columns", _smaller("second_moments")),
    "sensitivity of counts and sums together": Bug("KMeans", _smaller("joint")),
    "sensitivity of a histogram": Bug("KMeans", _smaller("histogram")),
    "sensitivity of several histograms": Bug("MixedMixture", _smaller("histograms")),
    "sensitivity of moments in frames": Bug("GaussianMixture, full", _smaller("clipped_vector")),
    "sensitivity of a plug-in model": Bug("PrivateEM", _smaller("clipped_vector")),
    "sensitivity of a number in an interval": Bug("clipped_fraction", _smaller("interval")),
    "sensitivity of DPLloyd, as printed": Bug("paper.DPLloyd", _smaller("lloyd_l1")),
    "a person's other rows": Bug("KMeans, three rows a person", _person_of_one_row),
    "noise beside the diagonal": Bug("KMeans, four columns", _noise_shape_too_small),
    "denominators without noise, as printed": Bug(
        "paper.GaussianMixture, GGG, zcdp, map", _paper_denominators
    ),
    "missing cells pass by the bound": Bug(
        "GaussianMixture, missing cells, no background", _bound_without_missing_cells, Adjacency.ADD_REMOVE
    ),
    "rows with missing cells dropped": Bug(_QUICK, _rows_with_missing_cells_dropped),
    "a start that depends on rows": Bug(_QUICK, _before_the_fit(_start_from_rows)),
    "a stop that depends on rows": Bug(_QUICK, _stop_by_exact_sums),
    "a scale that depends on rows": Bug(_QUICK, _before_the_fit(_scale_of_the_rows)),
    "clipping at the data's own extremes": Bug(_QUICK, _before_the_fit(_bounds_of_the_rows)),
    "a number of clusters that depends on rows": Bug(_QUICK, _before_the_fit(_as_many_clusters_as_groups)),
    "a release that nobody paid for": Bug("KMeans", _more_releases_than_planned),
    "an attribute without noise": Bug(_QUICK, _exact_attribute),
    "an M-step behind the noise": Bug("KMeans", _exact_centres),
    "an error message about a row": Bug(_QUICK, _error_about_a_row),
    "a warning that counts rows": Bug(_QUICK, _warning_about_rows),
    "a log line of exact sums": Bug(_QUICK, _log_of_exact_sums),
    "a debug record of exact sums": Bug(_QUICK, _debug_record_of_exact_sums),
    "noise shared within a release": Bug("MixedMixture", _noise_shared_within_a_release),
    "shaped noise drawn once": Bug("GaussianMixture, full", _shaped_noise_drawn_once),
    "Laplace noise shared within a release": Bug("paper.DPLloyd", _laplace_noise_shared_within_a_release),
    "pair tables of one block": Bug("tables of pairs in blocks of columns", _pair_tables_of_one_block),
    "pair tables of one block, in a fit": Bug(
        "MixedMixture, more than 100 columns", _pair_tables_of_one_block, Adjacency.ADD_REMOVE
    ),
    "coarse sums taken for exact ones": Bug("sums without their low bits", _coarse_sums_as_if_exact),
    "missing cells forgotten in tables": Bug(
        "MixedMixture, em, one component", _missing_cells_forgotten, Adjacency.ADD_REMOVE
    ),
    "negative entries of a plug-in model": Bug("PrivateEM, unruly model", _negative_entries_pass),
    "filled rows too long": Bug("filled rows lie in the ball", _filled_rows_too_long),
    "tied responsibilities rounded to nearest": Bug(
        "a row counts once under a tied covariance", _tied_responsibilities_rounded
    ),
    "softmax by the largest logit of a block": Bug("GaussianMixture, tight groups", _softmax_of_the_block),
    "the last chunk of rows counted twice": Bug("GaussianMixture, full", _last_chunk_twice),
    "cells read by what else is in their block": Bug("MixedMixture, text cells", _cells_read_by_their_block),
    "a person's cap kept in each piece": Bug("KMeans, persons, batches", _cap_of_a_person_per_piece),
    "findings of rows above a person's cap": Bug("KMeans, persons", _uncapped_counts_of_findings),
    "the ledger charged after reading": Bug(_QUICK, _charged_after_reading),
    "the ledger never charged": Bug(_QUICK, _never_charged),
}
