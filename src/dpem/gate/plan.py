"""The plan of a fit: every release with its share, sensitivity and noise, fixed before data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, TypedDict

from dpem import _html, _validate
from dpem.privacy import sensitivity as sensitivities
from dpem.privacy._rounding import root_up
from dpem.privacy.budget import Budget
from dpem.privacy.calibration import split
from dpem.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, event_from_dict, flatten
from dpem.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, NoiseKind
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.per_mechanism import per_mechanism_budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["NoiseKind", "Plan", "PlannedStage", "PrivacyUnit", "Stage", "StageName", "Terms"]

_MOST_STAGES = 1000  # an EM step is one stage; accountants are slow for more, which a forged file may claim


class Terms(TypedDict):
    """The guarantee of a plan."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: PrivacyUnit


class StageName(str):
    """The name of a numbered stage, such as "em 3": text with its kind and number as attributes."""

    kind: str
    number: int

    def __new__(cls, kind: str, number: int) -> Self:
        """Build the name from its parts."""
        name = super().__new__(cls, f"{kind} {number}")
        name.kind, name.number = kind, number
        return name

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return self.kind, self.number

    @classmethod
    def from_file(cls, text: str) -> str:
        """Parse a name from a saved plan; return other text than the name of a numbered stage unchanged."""
        kind, _, number = text.rpartition(" ")
        return cls(kind, int(number)) if kind and number.isdecimal() and f"{int(number)}" == number else text


def _kind_of(name: str) -> str:
    return name.kind if isinstance(name, StageName) else name


@dataclass(frozen=True)
class Stage:
    """A request for releases: name, share of mu^2, sensitivity of one row, and number of releases."""

    name: str
    share: float
    sensitivity: float
    repeats: int = 1
    mechanisms: int = 1
    noise: NoiseKind = NoiseKind.GAUSSIAN  # Laplace only if each mechanism has its own epsilon_i

    @classmethod
    def numbered(cls, kind: str, shares: Iterable[float], sensitivity: float, first: int = 1) -> list[Stage]:
        """Return one stage of a kind for each share: "em 1", "em 2" and so on."""
        return [
            cls(StageName(kind, number), float(share), sensitivity)
            for number, share in enumerate(shares, first)
        ]


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its noise.

    Attributes
    ----------
    name : str
        The name of the stage.
    share : float
        The share of mu^2 for all its releases together.
    repeats : int
        The number of releases.
    sensitivity : float
        Sensitivity in grid units for the privacy unit: L2 for Gaussian, L1 for Laplace noise.
    event : GaussianEvent or LaplaceEvent
        The cost of one mechanism.
    mechanisms : int
        The number of mechanisms that are charged for one release: more than one if parts of a vector are
        accounted one by one, each with this sensitivity.
    """

    name: str
    share: float
    repeats: int
    sensitivity: float
    event: GaussianEvent | LaplaceEvent
    mechanisms: int = 1

    def __post_init__(self) -> None:
        _validate.text(self.name, "stage")
        _validate.non_negative(self.share, "share")
        _validate.integer(self.repeats, "repeats")
        _validate.integer(self.mechanisms, "mechanisms")

    @property
    def kind(self) -> str:
        """The name without the number of the stage."""
        return _kind_of(self.name)

    @property
    def noise(self) -> NoiseKind:
        """The distribution of the noise."""
        return NoiseKind.LAPLACE if isinstance(self.event, LaplaceEvent) else NoiseKind.GAUSSIAN

    @property
    def mechanism(self) -> GaussianMechanism | LaplaceMechanism:
        """The mechanism of one release."""
        if isinstance(self.event, LaplaceEvent):
            return LaplaceMechanism.for_event(self.event, self.sensitivity)
        return GaussianMechanism.for_event(self.event, self.sensitivity)

    @property
    def noise_multiplier(self) -> float:
        """The standard deviation of Gaussian noise, or the scale of Laplace noise, over the sensitivity."""
        if isinstance(self.event, LaplaceEvent):
            return 1 / self.event.epsilon
        return self.event.noise_multiplier

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise of one release."""
        mechanism = self.mechanism
        if isinstance(mechanism, LaplaceMechanism):
            return math.sqrt(2) * mechanism.noise_scale
        return mechanism.noise_stddev

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return dict(vars(self)) | {"name": str(self.name), "event": self.event.to_dict()}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PlannedStage:
        """Rebuild a stage from the output of :meth:`to_dict`."""
        name = StageName.from_file(_validate.text(description["name"], "stage"))
        event = _elementary(event_from_dict(description["event"]))
        return cls(**description | {"name": name, "event": event})


@dataclass(frozen=True, repr=False)
class Plan:
    """All releases of a fit, with their noise. Print it to read it.

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
    adjacency: Adjacency
    unit: PrivacyUnit
    stages: tuple[PlannedStage, ...]
    accountant: str = "gdp"
    charged: ComposedEvent | None = None  # the charged event, if a released value chose the stages

    @classmethod
    def build(
        cls,
        stages: Sequence[Stage],
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        unit: PrivacyUnit | None = None,
    ) -> Plan:
        """Share the budget among the stages, and check that the noise of each can be drawn."""
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
            planned.append(_planned(stage, share, events[position], unit))
            position += stage.repeats
        return cls(epsilon, delta, adjacency, unit, tuple(planned))

    def with_stage(self, stage: Stage) -> Plan:
        """Return a plan of the same cost with another Gaussian release before all others.

        The release gets `stage.share` of mu^2. Every other release keeps 1 - share of its mu^2: its noise
        grows by 1 / sqrt(1 - share), rounded up.
        """
        share = Fraction(stage.share)
        total = _squared_mu(self._stages_event)
        planned = []
        for old in self.stages:
            if not isinstance(old.event, GaussianEvent):
                raise _validate.fail("Gaussian stages to share a budget with", "stage", old.name)
            event = GaussianEvent(root_up(Fraction(old.event.noise_multiplier) ** 2 / (1 - share)))
            planned.append(replace(old, share=old.share * (1 - stage.share), event=event))
        first = _planned(stage, stage.share, GaussianEvent(root_up(1 / (share * total))), self.unit)
        return replace(self, stages=(first, *planned))

    def refined(self, name: str, stages: Sequence[Stage], *, by_release: bool) -> Plan:
        """Replace an unused stage by other stages that together cost no more.

        With `by_release`, a released value (a noisy number of rows) chose the stages. Their total cost is
        then fixed in advance, but not their number. The charge remains that of the one mechanism that they
        replace, which fully adaptive composition of Gaussian mechanisms allows (docs/proofs/gaussian-dp.md).
        """
        reserved = self.stage(name)
        if reserved.repeats != 1 or not isinstance(reserved.event, GaussianEvent):
            raise _validate.fail("a stage of one Gaussian release", "stage", name)
        total = sum(Fraction(stage.share) for stage in stages)
        planned = []
        for stage in stages:
            part = Fraction(stage.share) / total  # of the reserved mu^2, which is 1 / multiplier^2
            squared = Fraction(reserved.event.noise_multiplier) ** 2 / (part / stage.repeats)
            event = GaussianEvent(root_up(squared))
            planned.append(_planned(stage, float(part) * reserved.share, event, self.unit))
        position = self.stages.index(reserved)
        all_stages = self.stages[:position] + tuple(planned) + self.stages[position + 1 :]
        return replace(self, stages=all_stages, charged=self.event if by_release else None)

    @classmethod
    def per_mechanism(
        cls,
        stages: Sequence[Stage],
        *,
        composition: str,
        epsilon: float,
        delta: float,
        delta_i: float | None = None,
        unit: PrivacyUnit | None = None,
    ) -> Plan:
        """Give every mechanism of every stage the same epsilon_i, as the paper does (replace-one)."""
        unit = unit or PrivacyUnit()
        counts = {
            noise: sum(stage.repeats * stage.mechanisms for stage in stages if stage.noise is noise)
            for noise in NoiseKind
        }
        count = sum(counts.values())
        budget = per_mechanism_budget(
            composition,
            epsilon,
            delta,
            n_laplace=counts[NoiseKind.LAPLACE],
            n_gaussian=counts[NoiseKind.GAUSSIAN],
            delta_i=delta_i,
        )
        events = {
            NoiseKind.LAPLACE if isinstance(event, LaplaceEvent) else NoiseKind.GAUSSIAN: event
            for event, _ in budget.event.parts
        }
        planned = [
            PlannedStage(
                stage.name,
                stage.repeats * stage.mechanisms / count,
                stage.repeats,
                sensitivities.for_person(stage.sensitivity, unit.rows_per_person),
                _elementary(events[stage.noise]),
                stage.mechanisms,
            )
            for stage in stages
        ]
        return cls(epsilon, delta, Adjacency.REPLACE_ONE, unit, tuple(planned), accountant=composition)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.epsilon(self.epsilon))
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        if len(self.stages) > _MOST_STAGES or len(flatten(self.event)) > _MOST_STAGES:
            raise _validate.fail(f"at most {_MOST_STAGES} stages", "stages", len(self.stages))
        for stage in self.stages:
            stage.mechanism  # noqa: B018  (raises, before anything is charged, if noise cannot be drawn)
        if self.charged is not None and _squared_mu(self._stages_event) > _squared_mu(self.charged):
            raise _validate.fail("stages that cost no more than was charged", "stages", len(self.stages))

    @property
    def event(self) -> ComposedEvent:
        """All mechanisms of the plan, as one event to charge."""
        return self.charged or self._stages_event

    @property
    def _stages_event(self) -> ComposedEvent:
        return ComposedEvent(tuple((s.event, s.repeats * s.mechanisms) for s in self.stages))

    @property
    def releases(self) -> int | None:
        """The number of releases, if a released value chose it; else None."""
        return None if self.charged is None else sum(stage.repeats for stage in self.stages)

    @property
    def budget(self) -> Budget:
        """The budget of the plan, as (epsilon, delta) and as mu."""
        return Budget.from_epsilon(self.epsilon, self.delta)

    def epsilon_for_mu(self, mu: float) -> float:
        """Return the epsilon of a budget `mu` at the plan's delta."""
        return Budget.from_mu(mu, self.delta).epsilon

    def numbered(self, kind: str) -> list[PlannedStage]:
        """Return the stages of one kind, in order."""
        return [stage for stage in self.stages if stage.kind == kind]

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

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        title = f"Plan for epsilon = {self.epsilon:g}, delta = {self.delta:g} ({self.adjacency}, {self.unit})"
        rows = [(s.name, s.repeats, f"{s.share:.1%}", f"{s.noise_multiplier:.4g}") for s in self.stages]
        header = ["stage", "releases", "share", "noise / sensitivity"]
        return _html.paragraph(title) + _html.table(header, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit.to_dict(),
            "stages": [stage.to_dict() for stage in self.stages],
            "accountant": self.accountant,
            "charged": None if self.charged is None else self.charged.to_dict(),
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Plan:
        """Rebuild a plan from the output of :meth:`to_dict`."""
        charged = description.get("charged")
        if charged is not None:
            charged = event_from_dict(charged)
            if not isinstance(charged, ComposedEvent):
                raise _validate.fail("a composed event", "charged", type(charged).__name__)
        return cls(
            description["epsilon"],
            description["delta"],
            description["adjacency"],
            PrivacyUnit.from_dict(description["unit"]),
            tuple(PlannedStage.from_dict(stage) for stage in description["stages"]),
            description["accountant"],
            charged,
        )


def _planned(stage: Stage, share: float, event: GaussianEvent, unit: PrivacyUnit) -> PlannedStage:
    if stage.mechanisms != 1 or stage.noise is not NoiseKind.GAUSSIAN:
        raise _validate.fail("one Gaussian mechanism in a stage that shares mu^2", "stage", stage.name)
    one_unit = sensitivities.for_person(stage.sensitivity, unit.rows_per_person)
    return PlannedStage(stage.name, share, stage.repeats, one_unit, GaussianEvent(event.noise_multiplier))


def _elementary(event: Event) -> GaussianEvent | LaplaceEvent:
    if not isinstance(event, GaussianEvent | LaplaceEvent):
        raise _validate.fail("a Gaussian or Laplace event", "event", type(event).__name__)
    return event


def _squared_mu(event: ComposedEvent) -> Fraction:
    """Return the exact sum of mu^2 of Gaussian mechanisms."""
    total = Fraction(0)
    for part, count in flatten(event).items():
        if not isinstance(part, GaussianEvent):
            raise _validate.fail("Gaussian events", "charged", type(part).__name__)
        total += count / Fraction(part.noise_multiplier) ** 2
    return total
