"""Events: frozen, serialisable descriptions of mechanisms that used the data.

An event contains everything that an accountant needs, and nothing of the data. Ledgers and saved models
contain events as JSON, so this format is permanent: kinds can be added, but never changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ComposedEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "as_event",
    "event_from_dict",
    "flatten",
]

_MOST = 10**18  # limit of the count of an event, beyond any use and within the floats
_DEEPEST = 32  # limit of nested compositions


class Event:
    """Base class of all events.

    Examples
    --------
    >>> GaussianEvent(4.0).to_dict()
    {'event': 'gaussian', 'noise_multiplier': 4.0}
    >>> isinstance(event_from_dict({"event": "laplace", "epsilon": 0.1}), Event)
    True
    """

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        raise TypeError(f"{type(self).__name__} has no serial form.")

    def with_noise_times(self, factor: float) -> Event:
        """Return the same event with its noise multiplied by `factor`."""
        raise TypeError(f"{type(self).__name__} has no noise to scale by {factor}.")


@dataclass(frozen=True)
class GaussianEvent(Event):
    """A Gaussian mechanism.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the L2 sensitivity, from 1e-6 to 1e30.

    Examples
    --------
    >>> GaussianEvent(4.0).with_noise_times(2)
    GaussianEvent(noise_multiplier=8.0)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        # Stored as a Python float: narrow NumPy scalars could overflow or round inside an accountant.
        value = _validate.within(self.noise_multiplier, "noise_multiplier", 1e-6, 1e30)
        object.__setattr__(self, "noise_multiplier", value)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {"event": "gaussian", "noise_multiplier": self.noise_multiplier}

    def with_noise_times(self, factor: float) -> GaussianEvent:
        """Return the same event with its noise multiplied by `factor`."""
        return GaussianEvent(self.noise_multiplier * factor)


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """A Laplace mechanism.

    Parameters
    ----------
    epsilon : float
        L1 sensitivity over the scale of the noise: the mechanism is epsilon-DP.

    Examples
    --------
    >>> LaplaceEvent(0.5).with_noise_times(2)
    LaplaceEvent(epsilon=0.25)
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.within(self.epsilon, "epsilon", 1e-30, 1e6))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {"event": "laplace", "epsilon": self.epsilon}

    def with_noise_times(self, factor: float) -> LaplaceEvent:
        """Return the same event with its noise multiplied by `factor`."""
        return LaplaceEvent(self.epsilon / factor)


@dataclass(frozen=True)
class ComposedEvent(Event):
    """Several events on the same data, each with a count.

    Parameters
    ----------
    parts : tuple of (Event, int)
        At least one event with its count. Use :meth:`of` to build it from a list.

    Examples
    --------
    >>> ComposedEvent.of([GaussianEvent(4.0), GaussianEvent(4.0), LaplaceEvent(0.1)])
    ComposedEvent(parts=((GaussianEvent(noise_multiplier=4.0), 2), (LaplaceEvent(epsilon=0.1), 1)))
    """

    parts: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        parts = []
        try:
            pairs = [(event, count) for event, count in self.parts]
        except (TypeError, ValueError) as error:
            raise _validate.fail("pairs of an event and its count", "parts", self.parts) from error
        for event, count in pairs:
            if not isinstance(event, Event):
                raise _validate.fail("an Event in parts", "event", event)
            if _validate.integer(count, "count") > _MOST:
                raise _validate.fail(f"at most {_MOST:g} releases of a kind", "count", count)
            parts.append((event, int(count)))
        if not parts:
            raise _validate.fail("at least one event", "parts", self.parts, "A plan cannot be empty.")
        object.__setattr__(self, "parts", tuple(parts))  # a tuple of plain values, whatever was given
        if _depth(self) > _DEEPEST:
            raise _validate.fail(f"at most {_DEEPEST} nested compositions", "parts", "more")
        if max(flatten(self).values()) > _MOST:
            raise _validate.fail(f"at most {_MOST:g} releases of a kind", "parts", "more")

    @classmethod
    def of(cls, events: Iterable[Event]) -> ComposedEvent:
        """Compose events in any order; equal events are counted."""
        return cls(tuple(Counter(_checked(events)).items()))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        parts = [{"count": count, **event.to_dict()} for event, count in self.parts]
        return {"event": "composed", "parts": parts}

    def with_noise_times(self, factor: float) -> ComposedEvent:
        """Return the same events with all noise multiplied by `factor`."""
        return ComposedEvent(tuple((event.with_noise_times(factor), count) for event, count in self.parts))


def _depth(event: Event) -> int:
    return 1 + max(_depth(part) for part, _ in event.parts) if isinstance(event, ComposedEvent) else 0


def as_event(plan: Event | Iterable[Event]) -> Event:
    """Return an event; compose a list of events into one."""
    return plan if isinstance(plan, Event) else ComposedEvent.of(plan)


def _checked(events: Any) -> list[Event]:
    try:
        found = list(events)
    except TypeError as error:
        raise _validate.fail("an Event, or a list of them", "event", events) from error
    for event in found:
        if not isinstance(event, Event):
            expected = "an Event, or a list of them"
            raise InvalidArgumentError(
                f"Expected {expected}, got {_validate.described(event)}. See dpem.privacy.events."
            )
    return found


def flatten(event: Event) -> dict[Event, int]:
    """Return the elementary events inside `event`, each with its total count.

    Examples
    --------
    >>> inner = ComposedEvent(((GaussianEvent(2.0), 3),))
    >>> flatten(ComposedEvent(((inner, 2), (GaussianEvent(2.0), 1))))
    {GaussianEvent(noise_multiplier=2.0): 7}
    """
    if not isinstance(event, Event):
        raise _validate.fail("an Event", "event", event, "See dpem.privacy.events.")
    counts: Counter[Event] = Counter()
    if isinstance(event, ComposedEvent):
        for part, count in event.parts:
            for leaf, leaf_count in flatten(part).items():
                counts[leaf] += count * leaf_count
    else:
        counts[event] += 1
    return dict(counts)


def event_from_dict(description: Mapping[str, Any]) -> Event:
    """Rebuild an event from the output of `to_dict`; raise for an unknown kind."""
    return _described(description, 0)


def _described(description: Any, depth: int) -> Event:
    match description:
        case {"event": "gaussian", "noise_multiplier": noise_multiplier}:
            return GaussianEvent(noise_multiplier)
        case {"event": "laplace", "epsilon": epsilon}:
            return LaplaceEvent(epsilon)
        case {"event": "composed", "parts": [*parts]} if depth < _DEEPEST:
            counted = [(_described(part, depth + 1), part.get("count")) for part in parts]
            return ComposedEvent(tuple(counted))
    kind = description.get("event") if hasattr(description, "get") else description
    raise _validate.fail("a known kind of event with its fields", "event", kind)
