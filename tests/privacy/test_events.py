"""Events: frozen, counted, and serialised in a permanent format."""

import dataclasses
import importlib
import json
import math
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpem.privacy
from dpem.errors import InvalidArgumentError
from dpem.privacy.accountants import accountant_named
from dpem.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, event_from_dict, flatten

PARAMETERS = st.floats(1e-5, 1e5)
LEAVES = st.one_of(PARAMETERS.map(GaussianEvent), PARAMETERS.map(LaplaceEvent))
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(st.tuples(inner, st.integers(1, 5)), min_size=1, max_size=4).map(
        lambda parts: ComposedEvent(tuple(parts))
    ),
    max_leaves=8,
)


@given(EVENTS)
def test_json_round_trip(event):
    """Events are read back bit for bit."""
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


@given(EVENTS, EVENTS)
def test_flatten_adds_counts(one, two):
    """Composition adds counts of elementary events."""
    both = flatten(ComposedEvent(((one, 2), (two, 3))))
    for leaf, count in both.items():
        assert count == 2 * flatten(one).get(leaf, 0) + 3 * flatten(two).get(leaf, 0)


def test_serial_form_is_permanent():
    """Ledgers contain exactly this text; a change would make old files unreadable."""
    event = ComposedEvent(((GaussianEvent(2.5), 3), (LaplaceEvent(0.5), 1)))
    assert event.to_dict() == {
        "event": "composed",
        "parts": [
            {"count": 3, "event": "gaussian", "noise_multiplier": 2.5},
            {"count": 1, "event": "laplace", "epsilon": 0.5},
        ],
    }


@pytest.mark.parametrize("accountant", ["gdp", "zcdp", "moments", "moments_real", "linear", "advanced"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_numpy_scalars_cost_as_much_as_python_numbers(kind, accountant):
    """Parameters and counts are stored as plain numbers: narrow types cannot wrap or round to nothing."""
    narrow = ComposedEvent(
        ((GaussianEvent(kind(60)), np.uint8(200)), (GaussianEvent(kind(60)), np.uint8(56)))
    )
    plain = ComposedEvent(((GaussianEvent(60.0), 256),))
    account = accountant_named(accountant)
    assert account.epsilon(narrow, 1e-5) == account.epsilon(plain, 1e-5) > 0
    nested = ComposedEvent(((ComposedEvent(((GaussianEvent(kind(60)), np.uint8(16)),)), np.uint8(16)),))
    assert account.epsilon(nested, 1e-5) == account.epsilon(plain, 1e-5)


def test_iterators_and_lists_become_tuples():
    """Iterables are read once and stored: an exhausted iterator cannot make a plan free."""
    for parts in (zip([GaussianEvent(2.0)], [20], strict=True), [[GaussianEvent(2.0), 20]]):
        event = ComposedEvent(parts)
        assert event.parts == ((GaussianEvent(2.0), 20),)
        assert flatten(event) == {GaussianEvent(2.0): 20}
        hash(event)


def test_frozen():
    """An event cannot be changed after it was charged, nor can any other fact of the privacy core."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        GaussianEvent(1.0).noise_multiplier = 2.0
    for module in pkgutil.walk_packages(dpem.privacy.__path__, "dpem.privacy."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                assert kind.__dataclass_params__.frozen, kind


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", None, True, 10**400, 1e31, 1e-31])
def test_bad_parameters(value):
    """Only finite positive parameters describe a mechanism."""
    with pytest.raises(InvalidArgumentError, match="noise_multiplier"):
        GaussianEvent(value)
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        LaplaceEvent(value)


@pytest.mark.parametrize(
    "parts", [(), (("gaussian", 1),), ((GaussianEvent(1.0), 0),), ((GaussianEvent(1.0), 1.5),)]
)
def test_bad_compositions(parts):
    """A composition holds events, each at least once."""
    with pytest.raises(InvalidArgumentError, match="Expected"):
        ComposedEvent(parts)


@pytest.mark.parametrize(("kind", "low", "high"), [(GaussianEvent, 1e-6, 1e30), (LaplaceEvent, 1e-30, 1e6)])
def test_parameters_have_limits(kind, low, high):
    """Both limits are allowed, the next floats are not."""
    for value, outwards in ((low, 0.0), (high, math.inf)):
        assert flatten(kind(value)) == {kind(value): 1}
        with pytest.raises(InvalidArgumentError, match="Expected"):
            kind(math.nextafter(value, outwards))


def test_counts_have_a_limit():
    """Up to 10^18 of a kind are allowed, and not one more."""
    assert flatten(ComposedEvent(((GaussianEvent(1.0), 10**18),))) == {GaussianEvent(1.0): 10**18}
    with pytest.raises(InvalidArgumentError, match="at most 1e\\+18"):
        ComposedEvent(((GaussianEvent(1.0), 10**18 + 1),))


@pytest.mark.parametrize("description", [{}, {"event": "exponential"}, {"event": "gaussian"}])
def test_unknown_descriptions_are_refused(description):
    """An unknown kind of event is refused by name."""
    with pytest.raises(InvalidArgumentError, match="known kind of event"):
        event_from_dict(description)


def test_base_event_has_no_serial_form():
    """A user-defined event cannot get into a ledger."""
    with pytest.raises(TypeError, match="no serial form"):
        Event().to_dict()
    with pytest.raises(TypeError, match="no noise"):
        Event().with_noise_times(2.0)


def nested(depth):
    event = GaussianEvent(50.0)
    for _ in range(depth):
        event = ComposedEvent(((event, 1), (LaplaceEvent(0.5), 1)))
    return event


def test_compositions_have_a_largest_depth():
    """Built or read, 32 nested compositions are allowed and 33 are not; siblings do not count."""
    deepest = nested(32)
    assert event_from_dict(json.loads(json.dumps(deepest.to_dict()))) == deepest
    with pytest.raises(InvalidArgumentError, match="at most 32 nested compositions"):
        nested(33)
    deeper = {"event": "composed", "parts": [{"count": 1, **deepest.to_dict()}]}
    with pytest.raises(InvalidArgumentError, match=r"compositions|known kind of event"):
        event_from_dict(deeper)


def test_deep_descriptions_are_refused_before_they_are_followed():
    """Descriptions of any depth do not overflow the stack."""
    description = {"event": "gaussian", "noise_multiplier": 1.0}
    for _ in range(5000):
        description = {"event": "composed", "parts": [{"count": 1, **description}]}
    with pytest.raises(InvalidArgumentError, match="Expected"):
        event_from_dict(description)


def test_the_largest_count():
    half = ComposedEvent(((GaussianEvent(1e6), 5 * 10**17),))
    assert flatten(ComposedEvent(((half, 2), (LaplaceEvent(0.1), 1)))) == {
        GaussianEvent(1e6): 10**18,
        LaplaceEvent(0.1): 1,
    }
    with pytest.raises(InvalidArgumentError, match="at most 1e"):
        ComposedEvent(((half, 2), (GaussianEvent(1e6), 1), (LaplaceEvent(0.1), 1)))
