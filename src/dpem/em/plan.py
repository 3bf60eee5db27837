"""The plan of a fit: every release with its share, sensitivity and noise, frozen before data is read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem.privacy import sensitivity as sensitivities
from dpem.privacy.budget import Budget
from dpem.privacy.calibration import split
from dpem.privacy.events import ComposedEvent, GaussianEvent, LaplaceEvent, event_from_dict
from dpem.privacy.mechanisms import GaussianMechanism, LaplaceMechanism
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.per_mechanism import per_mechanism_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Plan", "PlannedStage", "PrivacyUnit", "Stage"]


@dataclass(frozen=True)
class Stage:
    """What a model asks for: a name, a share of mu^2, the sensitivity of one row, and how often."""

    name: str
    share: float
    sensitivity: float
    repeats: int = 1
    mechanisms: int = 1


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its noise.

    Attributes
    ----------
    name : str
        What is released.
    share : float
        Part of mu^2 for all repeats together.
    repeats : int
        How many releases.
    sensitivity : float
        Sensitivity in grid units, for the unit of privacy: L2 for Gaussian, L1 for Laplace noise.
    event : GaussianEvent or LaplaceEvent
        What one mechanism costs.
    mechanisms : int
        How many mechanisms are charged for one release: more than one where parts of a vector are accounted
        one by one, each with this sensitivity.
    """

    name: str
    share: float
    repeats: int
    sensitivity: float
    event: GaussianEvent | LaplaceEvent
    mechanisms: int = 1

    @property
    def mechanism(self) -> GaussianMechanism | LaplaceMechanism:
        """The mechanism of one release."""
        if isinstance(self.event, LaplaceEvent):
            return LaplaceMechanism.for_event(self.event, self.sensitivity)
        return GaussianMechanism.for_event(self.event, self.sensitivity)

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity: standard deviation for Gaussian, scale for Laplace noise."""
        if isinstance(self.event, LaplaceEvent):
            return 1 / self.event.epsilon
        return self.event.noise_multiplier

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return dict(vars(self)) | {"event": self.event.to_dict()}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PlannedStage:
        """Rebuild what :meth:`to_dict` described."""
        event = event_from_dict(description["event"])
        if not isinstance(event, GaussianEvent | LaplaceEvent):
            raise _validate.fail("a Gaussian or Laplace event", "event", type(event).__name__)
        return cls(**description | {"event": event})


@dataclass(frozen=True)
class Plan:
    """All releases of a fit. Print it to read it.

    Examples
    --------
    >>> plan = Plan.build(
    ...     [Stage("centre", 0.2, 2.0), Stage("step", 0.8, 2.0, repeats=4)], epsilon=1.0, delta=1e-5
    ... )
    >>> print(plan)
    Plan for epsilon = 1, delta = 1e-05 (replace_one, one row)
    stage                 releases   share   noise / sensitivity
    centre                       1   20.0%                 8.342
    step                         4   80.0%                 8.342
    >>> Plan.from_dict(plan.to_dict()) == plan
    True
    """

    epsilon: float
    delta: float
    adjacency: str
    unit: PrivacyUnit
    stages: tuple[PlannedStage, ...]
    accountant: str = "gdp"

    @classmethod
    def build(
        cls,
        stages: Sequence[Stage],
        *,
        epsilon: float,
        delta: float,
        adjacency: str = "replace_one",
        unit: PrivacyUnit | None = None,
    ) -> Plan:
        """Share the budget among the stages and check that every noise can be drawn."""
        unit = unit or PrivacyUnit()
        if not stages:
            raise _validate.fail("at least one stage", "stages", stages, "A plan cannot be empty.")
        total = sum(Fraction(stage.share) for stage in stages)
        shares = [float(Fraction(stage.share) / total) for stage in stages]
        events = split(
            epsilon,
            delta,
            [
                share / stage.repeats
                for share, stage in zip(shares, stages, strict=True)
                for _ in range(stage.repeats)
            ],
        )
        planned, position = [], 0
        for stage, share in zip(stages, shares, strict=True):
            one_unit = sensitivities.for_person(stage.sensitivity, unit.rows_per_person)
            multiplier = events[position].noise_multiplier
            event = GaussianEvent(multiplier)
            planned.append(PlannedStage(stage.name, share, stage.repeats, one_unit, event))
            position += stage.repeats
        return cls(epsilon, delta, adjacency, unit, tuple(planned))

    @classmethod
    def per_mechanism(
        cls,
        stages: Sequence[Stage],
        *,
        composition: str,
        epsilon: float,
        delta: float,
        laplace: bool,
        unit: PrivacyUnit | None = None,
    ) -> Plan:
        """Give every mechanism of every stage the same epsilon_i, as the paper does (replace-one)."""
        unit = unit or PrivacyUnit()
        count = sum(stage.repeats * stage.mechanisms for stage in stages)
        kinds = {"n_laplace": count, "n_gaussian": 0} if laplace else {"n_laplace": 0, "n_gaussian": count}
        (event, _), *_ = per_mechanism_budget(composition, epsilon, delta, **kinds).event.parts
        if not isinstance(event, GaussianEvent | LaplaceEvent):
            raise _validate.fail("a Gaussian or Laplace event", "event", type(event).__name__)
        planned = [
            PlannedStage(
                stage.name,
                stage.repeats * stage.mechanisms / count,
                stage.repeats,
                sensitivities.for_person(stage.sensitivity, unit.rows_per_person),
                event,
                stage.mechanisms,
            )
            for stage in stages
        ]
        return cls(epsilon, delta, "replace_one", unit, tuple(planned), accountant=composition)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.epsilon(self.epsilon))
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency).value)
        for stage in self.stages:
            stage.mechanism  # noqa: B018  (raises, before anything is charged, if noise cannot be drawn)

    @property
    def event(self) -> ComposedEvent:
        """All that the plan will release, as one event to charge."""
        return ComposedEvent(tuple((s.event, s.repeats * s.mechanisms) for s in self.stages))

    @property
    def budget(self) -> Budget:
        """The budget of the plan, in both currencies."""
        return Budget.from_epsilon(self.epsilon, self.delta)

    def epsilon_for_mu(self, mu: float) -> float:
        """Return the epsilon that would buy `mu` at the plan's delta."""
        return Budget.from_mu(mu, self.delta).epsilon

    def stage(self, name: str) -> PlannedStage:
        """Return the stage with this name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise _validate.fail("a stage of the plan", "stage", name)

    def __str__(self) -> str:
        lines = [
            f"Plan for epsilon = {self.epsilon:g}, delta = {self.delta:g} ({self.adjacency}, {self.unit})",
            f"{'stage':<20}{'releases':>10}{'share':>8}{'noise / sensitivity':>22}",
        ]
        lines += [
            f"{s.name:<20}{s.repeats:>10}{s.share:>8.1%}{s.noise_multiplier:>22.4g}" for s in self.stages
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "unit": self.unit.to_dict(),
            "stages": [stage.to_dict() for stage in self.stages],
            "accountant": self.accountant,
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Plan:
        """Rebuild what :meth:`to_dict` described."""
        return cls(
            description["epsilon"],
            description["delta"],
            description["adjacency"],
            PrivacyUnit.from_dict(description["unit"]),
            tuple(PlannedStage.from_dict(stage) for stage in description["stages"]),
            description["accountant"],
        )
