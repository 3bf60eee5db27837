"""The expected noise of a plan for each column, from public numbers and an assumed spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem._warnings import warn
from dpem.errors import InvalidArgumentError, WeakSignalWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dpem.data import Domain
    from dpem.gate.plan import Plan

__all__ = ["AGAINST_SPREAD", "DEFAULT_SPREAD", "ExpectedNoise", "Forecast", "PlannedColumns", "warn_of_noise"]

AGAINST_SPREAD = "the spread of the rows"
# A warning is issued if noise exceeds this share of the width of a column's bounds: half of the default
# spread.
LARGEST_NOISE = 0.05
DEFAULT_SPREAD = 0.1  # share of the width of the bounds: a deviation of 12 years for ages from 0 to 120


@dataclass(frozen=True)
class ExpectedNoise:
    """The expected standard deviation of a released parameter due to noise.

    Attributes
    ----------
    parameter : str
        The parameter, such as "mean" or "share of rows".
    column : str or None
        The column, if the parameter belongs to one.
    size : float
        The standard deviation, in the unit of the column; shares and correlations have no unit.
    unit : str or None
        The unit, if the schema names one.
    relative : float
        The standard deviation divided by a reference size.
    against : str
        The reference size, in words.
    """

    parameter: str
    column: str | None
    size: float
    unit: str | None
    relative: float
    against: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected result of a fit, from public numbers.

    Attributes
    ----------
    plan : Plan
        The plan that the fit would charge.
    asked, granted : dict of str to int
        The requested sizes of the model, such as the number of components, and those that noise allows.
    noise : tuple of ExpectedNoise
        The noise in each parameter.
    assumption : str
        The assumption about the rows, as a sentence.
    rows_per_deviation : float, optional
        For a table of any kind of columns: the number of rows over the noise of a count of the last tables.
    """

    plan: Plan
    asked: dict[str, int]
    granted: dict[str, int]
    noise: tuple[ExpectedNoise, ...]
    assumption: str
    rows_per_deviation: float | None = None


@dataclass(frozen=True, eq=False)
class PlannedColumns:
    """Names and units of columns, and the assumed standard deviation of rows within a component."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    spread: NDArray[np.float64]
    assumption: str

    @classmethod
    def of_domain(cls, domain: Domain, names: Sequence[str] | None, spread: Any) -> PlannedColumns:
        """Return the columns of a domain.

        `spread` is a share of the width of the bounds, or a mapping of column names to standard deviations.
        """
        low, high = domain.box
        d = domain.n_columns
        names = tuple(map(str, names)) if names is not None else tuple(f"x{j}" for j in range(d))
        units = (None,) * d if domain.schema is None else tuple(c.step_unit for c in domain.schema.columns)
        part, guessed = DEFAULT_SPREAD, {}
        if isinstance(spread, Mapping):
            guessed = {
                name: _validate.positive(value, f"spread of {_validate.shown(name)}")
                for name, value in spread.items()
            }
        elif spread is not None:
            remedy = "Pass a share of the width of the bounds, such as 0.1."
            part = _validate.positive(spread, "spread", remedy)
        unknown = [name for name in guessed if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"Expected columns of the plan in spread, got {_validate.shown_names(unknown)}. The plan has "
                f"{', '.join(map(repr, names[:20]))}."
            )
        deviations = part * (high - low)
        for name, deviation in guessed.items():
            deviations[names.index(name)] = deviation
        others = "a column" if not guessed else "any other column"
        assumption = ""
        if len(guessed) < d:
            assumption = f"rows of one component deviate by {part:.3g} of the width of the bounds in {others}"
        if guessed:
            given = ", ".join(f"{name} by {deviation:.3g}" for name, deviation in guessed.items())
            assumption = "; ".join(filter(None, [f"rows of one component deviate in {given}", assumption]))
        return cls(names, units, deviations, f"Assumed: {assumption}; components of equal size.")

    def noise(self, parameter: str, relative: float) -> list[ExpectedNoise]:
        """Return the noise of a parameter for every column, from its size relative to the spread."""
        return [
            ExpectedNoise(parameter, name, float(relative * deviation), unit, float(relative), AGAINST_SPREAD)
            for name, unit, deviation in zip(self.names, self.units, self.spread, strict=True)
        ]


def warn_of_noise(
    entries: Sequence[ExpectedNoise],
    widths: Sequence[float],
    plan: Plan,
    *,
    also: str = "",
) -> None:
    """Warn, from public numbers, if noise exceeds the share `LARGEST_NOISE` of the public range.

    Parameters
    ----------
    entries : sequence of ExpectedNoise
        The noise of one parameter, such as means.
    widths : sequence of float
        The public range of each entry: the width of a column's bounds, or 1 for a share of rows.
    plan : Plan
        The plan that causes this noise.
    also : str
        Further remedies, for the message.
    """
    shares = {e.column or e.parameter: e.size / width for e, width in zip(entries, widths, strict=True)}
    noisy = {name: share for name, share in shares.items() if share > LARGEST_NOISE}
    if not noisy:
        return
    shown = sorted(noisy, key=lambda name: -noisy[name])[:5]
    named = ", ".join(f"{name!r} ({noisy[name]:.0%})" for name in shown)
    more = f" and {len(noisy) - len(shown)} more" if len(noisy) > len(shown) else ""
    of = f"the {entries[0].parameter} of " if entries[0].column is not None else ""
    factor = max(max(noisy.values()) / LARGEST_NOISE, 1.1)  # never advise the current epsilon
    needed = plan.epsilon_for_mu(plan.budget.mu * factor)
    remedies = [f"epsilon of about {needed:.2g}"] if needed <= _validate.LARGE_EPSILON else []
    remedies.append(f"{factor:.2g} times the rows")
    warn(
        f"Noise will blur {of}{named}{more}: its standard deviation is above {LARGEST_NOISE:.0%} of the "
        f"public range. Remedies: {', '.join(remedies)}{also}.",
        WeakSignalWarning,
    )
