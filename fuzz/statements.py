"""Privacy statements from files: rejected, or a statement whose events meet its claim."""

import json

from hypothesis import strategies as st

from dpem.errors import DpemError
from dpem.privacy import PrivacyStatement, PrivacyUnit
from dpem.privacy.accountants import accountant_named
from dpem.privacy.events import event_from_dict
from fuzz.events import WHOLE as EVENTS
from fuzz.harness import Target, bounded_memory
from fuzz.mutations import changed_bytes, changed_trees, each_place, each_shift

__all__ = ["TARGET"]

_WHOLE = [
    PrivacyStatement.not_private().to_dict(),
    *(
        PrivacyStatement(
            900.0 if accountant in {"advanced", "linear"} else 90.0,
            1e-5,
            event_from_dict(EVENTS[i]),
            accountant=accountant,
            adjacency=adjacency,
            unit=PrivacyUnit(3, "patient"),
            bounds={"age": "0 to 120"},
            insecure_noise=i == 1,
        ).to_dict()
        for i, (accountant, adjacency) in enumerate(
            [("gdp", "replace_one"), ("moments", "add_remove"), ("linear", "replace_one")]
        )
    ),
]
_TEXTS = [json.dumps(tree).encode() for tree in _WHOLE]


def _files(drawn):
    how, what = drawn
    if how == "tree":
        yield from map(json.dumps, each_place(what))
    else:
        yield from (content.decode("utf-8", "replace") for content in each_shift(what))


def check(text):
    """Read a statement: one that is taken can be written again, and claims no less than its events cost."""
    with bounded_memory():
        try:
            statement = PrivacyStatement.from_json(text)
        except DpemError as error:
            assert str(error)
            return False
        assert PrivacyStatement.from_json(statement.to_json()) == statement
        assert str(statement)
        if statement.event is not None:
            spent = accountant_named(statement.accountant).epsilon(statement.event, statement.delta)
            assert spent <= statement.epsilon
    return True


_DRAWN = st.tuples(st.just("tree"), changed_trees(_WHOLE)) | st.tuples(
    st.just("bytes"), changed_bytes(_TEXTS)
)
TARGET = Target(
    "statements", "JSON of privacy statements with changed trees and bytes", 80_000, _DRAWN, _files, check
)
