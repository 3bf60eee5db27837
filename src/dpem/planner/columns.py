"""The columns that a plan is for, with a public guess of how far rows spread along each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.planner.outlook import ExpectedNoise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dpem.data import Domain

__all__ = ["AGAINST_SPREAD", "DEFAULT_SPREAD", "PlannedColumns"]

AGAINST_SPREAD = "the spread of the rows"
DEFAULT_SPREAD = 0.1  # of the width of the bounds: ages within 0 to 120 with a deviation of 12 years


@dataclass(frozen=True, eq=False)
class PlannedColumns:
    """Names, units, and the standard deviation that rows of one component are guessed to have."""

    names: tuple[str, ...]
    units: tuple[str | None, ...]
    spread: NDArray[np.float64]
    assumption: str

    @classmethod
    def of_domain(cls, domain: Domain, names: Sequence[str] | None, spread: Any) -> PlannedColumns:
        """Return the columns of a domain; `spread` is a part of the bounds' width, or names to deviations."""
        low, high = domain.box
        d = domain.n_columns
        names = tuple(map(str, names)) if names is not None else tuple(f"x{j}" for j in range(d))
        units = (None,) * d if domain.schema is None else tuple(c.unit for c in domain.schema.columns)
        part, guessed = DEFAULT_SPREAD, {}
        if isinstance(spread, Mapping):
            guessed = {
                name: _validate.positive(value, f"spread of {name!r}") for name, value in spread.items()
            }
        elif spread is not None:
            part = _validate.positive(spread, "spread", "It is a part of the bounds' width, such as 0.1.")
        unknown = [name for name in guessed if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"Expected columns of the plan in spread, got {', '.join(map(repr, unknown))}. There are "
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
        """Return the noise of a parameter that every column has, from its size relative to the spread."""
        return [
            ExpectedNoise(parameter, name, float(relative * deviation), unit, float(relative), AGAINST_SPREAD)
            for name, unit, deviation in zip(self.names, self.units, self.spread, strict=True)
        ]
