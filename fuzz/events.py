"""Events from descriptions: rejected, or an event with an equal description."""

import json

from dpem.errors import InvalidArgumentError
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.events import event_from_dict, flatten
from fuzz.harness import Target
from fuzz.mutations import changed_trees, each_place

__all__ = ["TARGET", "WHOLE"]

_GAUSSIAN = {"event": "gaussian", "noise_multiplier": 4.0}
_LAPLACE = {"event": "laplace", "epsilon": 0.1}
_BOTH = {"event": "composed", "parts": [{"count": 20, **_GAUSSIAN}, {"count": 1, **_LAPLACE}]}
WHOLE = [_GAUSSIAN, _LAPLACE, _BOTH, {"event": "composed", "parts": [{"count": 10**9, **_BOTH}]}]


def check(description):
    """Rebuild an event, describe it, and compute its mu."""
    try:
        event = event_from_dict(description)
    except InvalidArgumentError as error:
        assert str(error)
        return False
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert all(count >= 1 for count in flatten(event).values())
    assert GdpAccountant().mu(event) > 0
    return True


TARGET = Target("events", "changed descriptions of events", 120_000, changed_trees(WHOLE), each_place, check)
