"""Every seeded bug is caught by the same quick audit; without one it finds nothing."""

import pytest

import dpem
from dpem.audit.run import Attack, audit_of_bug, perform
from dpem.audit.seeded_bugs import BUGS, seeded_bug
from dpem.estimator.trials import points


@pytest.mark.parametrize("name", BUGS)
def test_every_seeded_bug_is_caught(name):
    finding = perform(Attack("bug", name))
    assert finding.passed, finding.said


@pytest.mark.parametrize("name", ["paper.KMeans, Gaussian", "MixedMixture"])
def test_without_a_bug_nothing_is_found(name):
    """The same audit of the same fits; `test_replay` has all others."""
    audit_of_bug(name, "replace_one").require()


def test_a_bug_marks_what_is_released():
    """A model that is fitted while a bug is on says so; afterwards all is well."""
    model, rows = dpem.paper.KMeans(2, epsilon=1.0, data_norm=1.0, noise="gaussian"), points(50)
    with seeded_bug("half the noise"):
        assert not model.fit(rows).privacy_.is_private
    assert model.fit(rows).privacy_.is_private
