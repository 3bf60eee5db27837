r"""The paper's general DP-EM (section 3): separate noise on each moment of an exponential-family model.

For a complete-data likelihood in the exponential family, the parameters are a function of the moments
M_l = (1/N) sum_i E_q[T_l(x_i, z_i)], l = 1..L. Replacing one row changes M_l by at most 2/N times the largest
norm of T_l (Eq. moment_sen of the text), in L1 for Laplace and in L2 for Gaussian noise. All J L mechanisms
have the same epsilon_i, computed from a composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dpem import _validate
from dpem.data import TableGrid
from dpem.data.domain import norm_squared
from dpem.estimator.arguments import stores_arguments, whole, word
from dpem.estimator.base import PrivateEstimator, PublicFacts
from dpem.fitting.standard_errors import deviations_of_draws
from dpem.gate.plan import NoiseKind, Plan, Stage
from dpem.paper.base import PaperMethod
from dpem.plugin.checks import check_model, checked_parameters
from dpem.plugin.clipped import read_only, statistic_vectors, treats_blocks
from dpem.plugin.estimator import PrivateEM
from dpem.plugin.memory import refuse_memory
from dpem.privacy import sensitivity
from dpem.privacy._rounding import float_up
from dpem.privacy.per_mechanism import COMPOSITIONS
from dpem.statistics.base import PreparedStatistic
from dpem.statistics.simple import LINEAR_BITS

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.estimator.planned_columns import Forecast
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress
    from dpem.plugin.family import ExponentialFamily, Parameters
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["GeneralEM", "Moment", "generic_sensitivity"]

_ONE = 2.0**LINEAR_BITS  # the bound of a moment on the grid
_MOST_ENTRIES = 1 << 18  # of a moment; rounding then takes an eighth of the grid
_SMALLEST_BOUND = 1e-100
_DRAWS = 100  # of the noise, for standard errors


class Moment(NamedTuple):
    """One moment M_l: entries of the model's expected statistics that share a mechanism.

    Attributes
    ----------
    name : str
        Name of its stage in the plan.
    size : int
        Number of entries. Moments follow each other in the order of the statistics.
    bound : float
        Largest norm of T_l over the bounded domain, in L1 for Laplace and in L2 for Gaussian noise. The
        entries of each row are clipped to it, so a bound that is too small costs accuracy and never privacy.
    noise : {"gaussian", "laplace"}
        Noise distribution.

    Examples
    --------
    >>> Moment("counts", 3, 1.0, "laplace").size
    3
    """

    name: str
    size: int
    bound: float
    noise: str = "gaussian"


@dataclass(frozen=True, eq=False)
class _MomentSum(PreparedStatistic):
    """The sum over rows of T_l, clipped to its bound and rounded (a `RowStatistic`)."""

    model: ExponentialFamily
    parameters: Parameters  # read-only
    grid: TableGrid
    moment: Moment
    start: int  # its first entry among all statistics
    n_statistics: int

    @property
    def size(self) -> int:
        return self.moment.size

    @property
    def unit(self) -> float:
        """The scale of the sums: the bound becomes 2^20 minus a margin for rounding."""
        room = math.sqrt(self.size) / 2 if self.moment.noise == "gaussian" else self.size / 2
        return (_ONE * (1 - 2.0**-40) - room) / self.moment.bound

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:  # noqa: ARG002
        """Return the sensitivity of vectors clipped to the bound, Eq. (S-6), in the norm of the noise."""
        return sensitivity.clipped_vector(_ONE, adjacency)

    def prepare(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the statistics of all moments, (entries, rows)."""
        return statistic_vectors(self.model, self.parameters, self.grid.to_units(rows), self.n_statistics)

    def sum_prepared(
        self,
        rows: NDArray[np.float64],  # noqa: ARG002
        prepared: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Sum clipped and rounded entries; the bound is checked in integers."""
        vectors = prepared[self.start : self.start + self.size]
        vectors = np.where(np.isfinite(vectors), vectors, 0.0)
        # In two steps, so that squares of large entries do not overflow.
        top = np.maximum(np.abs(vectors).max(axis=0, initial=0.0), self.moment.bound)
        length = self._length(vectors / top) * top
        cut = self.moment.bound / np.maximum(length, self.moment.bound)
        scaled = np.rint(vectors * (self.unit * cut))
        scaled[:, ~(self._length(scaled) <= _ONE)] = 0.0
        return np.asarray(scaled.sum(axis=1).astype(np.int64))

    def _length(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.moment.noise == "gaussian":
            return np.sqrt(norm_squared(vectors))
        total = np.abs(vectors[0])
        for row in vectors[1:]:
            total = total + np.abs(row)
        return np.asarray(total)


class _Request(NamedTuple):
    """The public arguments of a fit: the model, its columns and its moments."""

    model: ExponentialFamily
    grid: TableGrid
    moments: tuple[Moment, ...]


class GeneralEM(PaperMethod, PrivateEM):
    """The paper's general DP-EM for any exponential-family model: separate noise on every moment.

    :class:`dpem.PrivateEM` releases all moments with one Gaussian mechanism and needs far less budget. This
    class follows the paper, for comparison: J steps of L mechanisms with the same epsilon_i, a sensitivity of
    2/N times the largest norm of T_l for each moment, and parameters computed from noisy moments.

    Parameters
    ----------
    model : ExponentialFamily
        The model to fit. Its `m_step` gets N times the noisy moments.
    moments : sequence of Moment, optional
        The moments, each with its bound and noise. By default one Gaussian moment of all statistics, with the
        `norm_bound` of the model, which differs from the paper.
    epsilon : float
        Epsilon of the privacy budget. ``math.inf`` runs the same steps without noise and marks the result as
        not private.
    delta : float, default 1e-6
        Delta of the privacy budget.
    bounds, schema
        Public bounds of the columns, as in `dpem.PrivateEM`.
    composition : {"zcdp", "moments", "advanced", "linear"}, default "zcdp"
        Composition from which epsilon_i is computed.
    delta_i : float, optional
        Delta of each Gaussian mechanism; a share of delta by default.
    max_iter : int, default 10
        Number J of steps.
    ledger, random_state, n_jobs, verbose
        As in `dpem.PrivateEM`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        Result of the last `m_step` of the model.
    standard_errors_ : dict of str to ndarray
        Standard errors of each parameter due to the noise of the last step alone.
    privacy_, plan_, n_iter_, n_features_in_, feature_names_in_
        As in `dpem.PrivateEM`.

    Examples
    --------
    The mean and the second moment of one column, as two moments:

    >>> import numpy as np
    >>> import dpem
    >>> from dpem import paper
    >>> class Normal(dpem.ExponentialFamily):
    ...     def start(self, schema, random_state, centres):
    ...         return {"mean": 0.0, "variance": 1.0}
    ...     def expected_statistics(self, row, parameters):
    ...         return [row[0], row[0] ** 2]
    ...     def m_step(self, statistics, parameters, n_rows, noise):
    ...         mean = statistics[0] / n_rows
    ...         return {"mean": mean, "variance": max(statistics[1] / n_rows - mean**2, 0.0)}
    >>> X = np.random.default_rng(0).uniform(0, 1, size=(5000, 1))
    >>> moments = [paper.Moment("mean", 1, 1.0, "laplace"), paper.Moment("square", 1, 1.0)]
    >>> model = paper.GeneralEM(Normal(), moments=moments, epsilon=2.0, bounds=(0, 1), max_iter=1).fit(X)
    >>> bool(abs(model.parameters_["mean"] - 0.5) < 0.1)
    True
    """

    _public_name: ClassVar[str] = "dpem.paper.GeneralEM"
    _constraints: ClassVar[Constraints] = {"max_iter": whole(), "composition": word(COMPOSITIONS)}
    data_quality = False
    clip_norm = None
    tol = 0.0
    max_iter: int

    model: ExponentialFamily
    moments: Sequence[Moment] | None
    composition: str
    delta_i: float | None

    @stores_arguments
    def __init__(  # the paper's form has fewer arguments than PrivateEM
        self,
        model: ExponentialFamily,
        *,
        epsilon: float,
        delta: float = 1e-6,
        moments: Sequence[Moment] | None = None,
        bounds: Any = None,
        schema: Schema | None = None,
        composition: str = "zcdp",
        delta_i: float | None = None,
        max_iter: int = 10,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    def _public_facts(self, n_columns: int, names: Sequence[str] | None, n_rows: int | None) -> PublicFacts:
        schema = self._declared(names, n_columns)
        model = self._make_model(schema)
        if model.start_centres:
            raise _validate.fail(
                "a model without private starting centres",
                "model.start_centres",
                model.start_centres,
                "Set it to 0.",
            )
        given = None if self.moments is None else _checked_moments(self.moments)
        together = None if given is None else math.hypot(*(moment.bound for moment in given))
        shape = check_model(model, schema, together, float(n_rows or 1))
        moments = given or (Moment("moments", shape.n_statistics, shape.norm),)
        if sum(moment.size for moment in moments) != shape.n_statistics:
            raise _validate.fail(
                f"moments whose sizes add up to the {shape.n_statistics} statistics of the model",
                "moments",
                [moment.size for moment in moments],
            )
        grid = TableGrid(schema, "declared" if self.schema is None else self.schema.source)
        return PublicFacts(grid, n_rows, names, _Request(model, grid, moments))

    def _plan(self, public: PublicFacts) -> Plan:
        return Plan.per_mechanism(
            [
                Stage(moment.name, 1.0, 2 * _ONE, self.max_iter, noise=NoiseKind(moment.noise))
                for moment in public.request.moments
            ],
            composition=self.composition,
            epsilon=self.epsilon,
            delta=self.delta,
            delta_i=self.delta_i,
        )

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        """Give no warning: the paper's methods have no forecast."""

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        model, grid, moments = public.request
        n_rows = float(public.n_rows or 1)
        start = model.start(grid.schema, random_state, None)
        parameters = checked_parameters(start, f"{type(model).__name__}.start")
        for step in range(self.max_iter):
            progress.step(f"step {step + 1} of {self.max_iter}")
            before, sums, noise = parameters, *self._release(gate, model, grid, moments, parameters)
            parameters = _m_step(model, sums, before, n_rows, noise)

        # Fresh noise on the last sums, for standard errors.
        def draw() -> tuple[NDArray[np.float64], ...]:
            again = random_state.normal(sums, noise)
            return tuple(_m_step(model, again, before, n_rows, noise).values())

        draws = repeat(draw, _DRAWS if noise.any() else 2)
        errors = deviations_of_draws(draws)
        return self._attributes(grid.schema, parameters) | {
            "standard_errors_": dict(zip(parameters, errors, strict=True)),
            "n_iter_": self.max_iter,
        }

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        return PrivateEstimator._expected(self, public, plan, n_rows, spread)  # raises: no forecast

    def _release(
        self,
        gate: Any,
        model: ExponentialFamily,
        grid: TableGrid,
        moments: Sequence[Moment],
        parameters: Parameters,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Release every moment for the same parameters; return N times the moments, and the noise of each."""
        if not treats_blocks(model):
            refuse_memory(model)  # an M-step may have stored something that rows would share
        locked, sizes = read_only(parameters), [moment.size for moment in moments]
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        parts = [
            _MomentSum(model, locked, grid, moment, start, sum(sizes))
            for moment, start in zip(moments, starts, strict=True)
        ]
        found = gate.release_jointly([moment.name for moment in moments], parts)
        sums = [one.values / part.unit for one, part in zip(found, parts, strict=True)]
        noise = [one.noise_stddev / part.unit for one, part in zip(found, parts, strict=True)]
        return np.concatenate(sums), np.concatenate(noise)


def _m_step(
    model: ExponentialFamily,
    sums: NDArray[np.float64],
    before: Parameters,
    n_rows: float,
    noise: NDArray[np.float64],
) -> Parameters:
    """Return the parameters for noisy moments; the model gets the largest noise of all entries."""
    copies = {name: value.copy() for name, value in before.items()}
    after = model.m_step(sums.copy(), copies, n_rows, float(noise.max()))
    return checked_parameters(after, f"{type(model).__name__}.m_step", like=before)


def generic_sensitivity(largest_norm: float, n_rows: int) -> float:
    r"""Return the sensitivity of M = (1/N) sum_i E_q[T(x_i, z_i)] if one row is replaced.

    The paper (section 3) has the maximum of (2/N) \|T_l(x, z)\| over the bounded domain of (x, z). A bound of
    the expectation is enough: the sensitivity is at most (2/N) times the largest norm of E_q[T(x, z)].
    :class:`dpem.PrivateEM` uses N times that sensitivity for the sum, which is equivalent, and a factor
    sqrt 2 less if a model promises that no entry is negative.

    Parameters
    ----------
    largest_norm : float
        Largest norm of the expected statistics over the bounded domain, in L1 for Laplace and in L2 for
        Gaussian noise. You must have a proof of it.
    n_rows : int
        Public number of rows.

    Examples
    --------
    >>> generic_sensitivity(1.0, 1000)
    0.002
    """
    n = _validate.integer(n_rows, "n_rows")
    return float_up(2 * Fraction(_validate.positive(largest_norm, "largest_norm")) / n)


def _checked_moments(given: Any) -> tuple[Moment, ...]:
    """Return the given moments, validated; each may be a `Moment` or a tuple of its fields."""
    expected = "a list of dpem.paper.Moment(name, size, bound, noise)"
    several = isinstance(given, list | tuple) and not isinstance(given, Moment)
    if not several or not all(isinstance(moment, tuple) for moment in given):
        raise _validate.fail(expected, "moments", given)
    try:
        moments = tuple(Moment(*moment) for moment in given)
    except TypeError:
        raise _validate.fail(expected, "moments", given) from None
    for moment in moments:
        if not isinstance(moment.name, str):
            raise _validate.fail(expected, "moments", given)
        _validate.integer(moment.size, f"size of moment {_validate.shown(moment.name)}")
        if moment.size > _MOST_ENTRIES:
            raise _validate.fail(
                f"at most {_MOST_ENTRIES} entries",
                f"size of moment {_validate.shown(moment.name)}",
                moment.size,
            )
        _validate.within(
            moment.bound,
            f"bound of moment {_validate.shown(moment.name)}",
            _SMALLEST_BOUND,
            1 / _SMALLEST_BOUND,
        )
        _validate.one_of(
            moment.noise, f"noise of moment {_validate.shown(moment.name)}", ("gaussian", "laplace")
        )
    if len({moment.name for moment in moments}) < len(moments):
        raise _validate.fail("moments with different names", "moments", [m.name for m in moments])
    return moments
