"""The privacy statement: the guarantee of a release in one paragraph that a privacy officer can quote."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpem import _html, _validate
from dpem.errors import InvalidArgumentError
from dpem.privacy._rounding import digits_up
from dpem.privacy.accountants import ACCOUNTANTS, Comparison, accountant_named, compare
from dpem.privacy.events import Event, GaussianEvent, LaplaceEvent, event_from_dict, flatten
from dpem.privacy.neighbours import Adjacency, PrivacyUnit

__all__ = ["BOUNDS_SOURCES", "PrivacyStatement", "facts_of"]

FORMAT_VERSION = 1

# Origins of the bounds on rows, and their wording in the statement.
BOUNDS_SOURCES = {
    "declared": "declared as public knowledge, not read from the data",
    "schema": "declared in the schema as public knowledge, not read from the data",
    "estimated": "some of them estimated from the data by a release whose budget comes on top",
    "rows": "some of them chosen after looking at rows, which this guarantee does not cover",
}


@dataclass(frozen=True, repr=False)
class PrivacyStatement:
    """The guarantee of a release, its privacy unit and its assumptions. Print it to read it.

    A statement raises if the cost of its events exceeds its epsilon.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    event : Event or None
        Every mechanism that used the data; None if epsilon is infinite (see `not_private`).
    adjacency : str
        The neighbouring relation, ``"replace_one"`` or ``"add_remove"``.
    unit : PrivacyUnit
        The privacy unit.
    accountant : str
        The accountant that certified the total.
    bounds : dict of str to str
        The bounds to which rows were clipped, in words, by column or for the whole row.
    bounds_source : {"declared", "schema", "estimated", "rows"}
        The origin of these bounds.
    insecure_noise : bool
        Whether noise was drawn from a seed, so that nothing is guaranteed. Each release is marked, and the
        caller must pass the mark on.
    releases : int, optional
        The number of releases, if a released value chose it within the charged plan.

    Examples
    --------
    >>> from dpem.privacy.events import GaussianEvent
    >>> statement = PrivacyStatement(
    ...     1.0, 1e-5, GaussianEvent(4.0), bounds={"age": "0 to 120"}, insecure_noise=False
    ... )
    >>> print(statement)
    This release is (epsilon = 1, delta = 1e-05)-differentially private. ...
    >>> PrivacyStatement.from_json(statement.to_json()) == statement
    True
    """

    epsilon: float
    delta: float
    event: Event | None
    adjacency: str = Adjacency.REPLACE_ONE.value
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    accountant: str = "gdp"
    bounds: dict[str, str] = field(default_factory=dict)
    bounds_source: str = "declared"
    insecure_noise: bool = field(kw_only=True)
    releases: int | None = field(default=None, kw_only=True)

    @classmethod
    def not_private(cls) -> PrivacyStatement:
        """Return the statement of a result with epsilon = inf: without noise and without a guarantee."""
        return cls(math.inf, 0.0, None, insecure_noise=False)

    @property
    def is_private(self) -> bool:
        """Whether the release has a guarantee."""
        return self.event is not None and not self.insecure_noise

    def __post_init__(self) -> None:
        if self.event is None:
            if self.epsilon != math.inf:
                raise _validate.fail("events for a finite epsilon", "event", self.event)
            return
        object.__setattr__(self, "epsilon", _validate.epsilon(self.epsilon))
        object.__setattr__(self, "delta", _validate.delta(self.delta))
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency).value)
        _validate.one_of(self.accountant, "accountant", ACCOUNTANTS)
        if not isinstance(self.unit, PrivacyUnit):
            raise _validate.fail("a PrivacyUnit", "unit", self.unit)
        if not isinstance(self.insecure_noise, bool):
            raise _validate.fail("True or False", "insecure_noise", self.insecure_noise)
        if self.releases is not None:
            _validate.integer(self.releases, "releases")
        _validate.one_of(self.bounds_source, "bounds_source", BOUNDS_SOURCES)
        bounds: Any = self.bounds
        if not isinstance(bounds, Mapping) or not all(
            isinstance(word, str) for pair in bounds.items() for word in pair
        ):
            raise _validate.fail(
                "limits in words by column", "bounds", bounds, 'Pass a mapping such as {"age": "0 to 120"}.'
            )
        object.__setattr__(self, "bounds", dict(bounds))
        if self.accountant == "pld" and any(isinstance(leaf, LaplaceEvent) for leaf in flatten(self.event)):
            raise InvalidArgumentError(
                "Expected an accountant with a proof for Laplace noise on vectors, got accountant='pld'. "
                "Use 'gdp', 'zcdp' or 'moments'."
            )
        spent = accountant_named(self.accountant).epsilon(self.event, self.delta)
        if spent > self.epsilon:
            raise InvalidArgumentError(
                f"Expected an epsilon of at least {spent!r}, which the events cost by the accountant "
                f"{self.accountant!r} at delta={self.delta!r}, got epsilon={self.epsilon!r}."
            )

    @property
    def facts(self) -> str:
        """A hash of public facts, which a ledger record contains in addition to the events."""
        return facts_of(self.epsilon, self.delta, self.accountant, self.bounds, self.bounds_source)

    def compare(self) -> Comparison:
        """Return the epsilon that each accountant gives for the same events."""
        if self.event is None:
            raise InvalidArgumentError(
                "Expected the statement of a private release, got one with epsilon = inf. Without noise "
                "there is nothing to compare."
            )
        return compare(self.event, self.delta)

    def __repr__(self) -> str:
        if self.event is None:
            return "PrivacyStatement(NOT PRIVATE)"
        mark = ", NOT PRIVATE: insecure noise" if self.insecure_noise else ""
        return (
            f"PrivacyStatement(epsilon={_exact(self.epsilon)}, delta={_exact(self.delta)}, "
            f"{self.adjacency}, {self.unit}{mark})"
        )

    def _repr_html_(self) -> str:
        return _html.paragraph(self)

    # -- words ---------------------------------------------------------------------------------------

    def __str__(self) -> str:
        if self.event is None:
            return (
                "NOT PRIVATE: this was computed with epsilon = inf, without noise and without any guarantee."
            )
        return " ".join(
            [
                self._guarantee(),
                self._meaning(),
                self.neighbours,
                self._accounting(self.event),
                self._limits(),
                self._noise(),
            ]
        )

    def _guarantee(self) -> str:
        pair = f"(epsilon = {self._epsilon_text}, delta = {_exact(self.delta)})"
        if self.insecure_noise:
            return (
                f"THIS RELEASE IS NOT PRIVATE: its noise was drawn from a seed, or its raw statistics were "
                f"recorded, so that the noise can be removed. Otherwise it would be {pair}-differentially "
                f"private."
            )
        return f"This release is {pair}-differentially private."

    def _meaning(self) -> str:
        factor = digits_up(math.exp(self.epsilon) * (1 + 1e-12), 4) if self.epsilon < 700 else math.inf
        return (
            f"Whatever else an observer knows, the data of {self._unit()} changes the probability of any "
            f"outcome by a factor of at most e^epsilon = {factor:.4g} (rounded up), plus "
            f"{_exact(self.delta)}."
        )

    @property
    def _epsilon_text(self) -> str:
        """Epsilon: exact if it is short, else rounded up to four digits."""
        short = _exact(self.epsilon)
        return short if len(short) <= _SHORT_NUMBER else f"{digits_up(self.epsilon, 4):.4g}"

    @property
    def neighbours(self) -> str:
        """The neighbouring relation and the privacy unit, in words."""
        unit = self._unit()
        if self.adjacency == Adjacency.ADD_REMOVE:
            relation = f"{unit} is added or removed, and the number of rows is private"
        elif self.unit.person is not None:
            relation = f"the values of {unit} are replaced by any others, and who has how many rows is fixed"
        else:
            relation = f"{unit} is replaced by any other, and the number of rows is public"
        capped = (
            f" Column {self.unit.person!r} identifies persons; what a person has above "
            f"{self.unit.rows_per_person} row{'s' * (self.unit.rows_per_person > 1)} was left out."
            if self.unit.person is not None
            else ""
        )
        return f"Data sets are compared in which {relation}.{capped}"

    def _unit(self) -> str:
        if self.unit.person is not None:
            return "one person"
        rows = self.unit.rows_per_person
        return "one row" if rows == 1 else f"one person with up to {rows} rows"

    def _accounting(self, event: Event) -> str:
        counts = {"Gaussian": 0, "Laplace": 0}
        for leaf, count in flatten(event).items():
            if isinstance(leaf, GaussianEvent):
                counts["Gaussian"] += count
            elif isinstance(leaf, LaplaceEvent):
                counts["Laplace"] += count
        kinds = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        plural = "" if sum(counts.values()) == 1 else "s"
        touched = f"{kinds} mechanism{plural}"
        if self.releases is not None:  # a noisy number of rows chose their number, within the charged plan
            touched = f"{self.releases} Gaussian mechanisms, charged beforehand as {kinds},"
        also = ", by the release of its bounds" if self.bounds_source == "estimated" else ""
        return (
            f"The data was touched by {touched}{also} and by nothing else; the total of the mechanisms was "
            f"certified by the accountant '{self.accountant}'."
        )

    def _limits(self) -> str:
        if not self.bounds:
            return "No bounds on rows are stated here."
        limits = "; ".join(f"{name}: {limit}" for name, limit in self.bounds.items())
        return f"Rows were clipped to bounds {BOUNDS_SOURCES[self.bounds_source]} ({limits})."

    def _noise(self) -> str:
        if self.insecure_noise:
            return "Use it for tests and experiments only."
        return (
            "Statistics and noise are exact integers; the noise comes from the operating system's "
            "generator, and the guarantee is as good as that generator. How long the computation took "
            "is not covered."
        )

    # -- files ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {
            "format": FORMAT_VERSION,
            "epsilon": "inf" if self.event is None else self.epsilon,
            "delta": self.delta,
            "event": None if self.event is None else self.event.to_dict(),
            "adjacency": str(self.adjacency),
            "unit": self.unit.to_dict(),
            "accountant": self.accountant,
            "bounds": dict(self.bounds),
            "bounds_source": self.bounds_source,
            "insecure_noise": self.insecure_noise,
            "releases": self.releases,
        }

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PrivacyStatement:
        """Rebuild a statement from the output of :meth:`to_dict`; check its epsilon against its events."""
        given: Any = description
        if not isinstance(given, Mapping):
            raise _damaged()
        fields = dict(given)
        version = fields.pop("format", None)
        if version != FORMAT_VERSION:
            raise _validate.fail(f"statement format {FORMAT_VERSION}", "format", version)
        if set(fields) != {entry.name for entry in dataclasses.fields(cls)}:
            raise _damaged()
        try:
            if fields["event"] is None and fields["epsilon"] == "inf":
                return cls.not_private()
            fields["event"] = event_from_dict(fields["event"])
            fields["unit"] = PrivacyUnit.from_dict(fields["unit"])
            return cls(**fields)
        except (AttributeError, KeyError, TypeError) as error:
            raise _damaged() from error

    def to_json(self) -> str:
        """Return the statement as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> PrivacyStatement:
        """Rebuild a statement from JSON text."""
        try:
            description = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                "Expected JSON text of a privacy statement, got text that is not JSON."
            ) from error
        if not isinstance(description, dict):
            raise InvalidArgumentError(
                f"Expected a JSON object with a privacy statement, got {type(description).__name__}."
            )
        return cls.from_dict(description)


def facts_of(
    epsilon: float, delta: float, accountant: str, bounds: Mapping[str, str], bounds_source: str
) -> str:
    """Return the hash of public facts of a release, for the ledger record of its charge."""
    facts = [float(epsilon), float(delta), accountant, dict(bounds), bounds_source]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _damaged() -> InvalidArgumentError:
    return InvalidArgumentError(
        "Expected the fields of a privacy statement, got others. The description is damaged, or from a newer "
        "dpem."
    )


_SHORT_NUMBER = 8  # characters


def _exact(value: float) -> str:
    """Format a number so that parsing it gives the same number, without rounding."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
