"""The quick audit detects every seeded bug, and finds nothing without one."""

import pytest

import dpem
from dpem.audit.run import Attack, audit_of_bug, perform
from dpem.audit.seeded_bugs import BUGS, seeded_bug
from dpem.estimator.trials import points


@pytest.mark.parametrize("name", BUGS)
def test_every_seeded_bug_is_detected(name):
    finding = perform(Attack("bug", name))
    assert finding.passed, finding.text


@pytest.mark.parametrize("name", ["paper.KMeans, Gaussian", "MixedMixture"])
def test_without_a_bug_nothing_is_found(name):
    """The same fits pass the same audit; `test_replay` covers all other fits."""
    audit_of_bug(name, "replace_one").require()


def test_a_bug_marks_releases_as_not_private():
    """A model fitted with a bug on is marked as not private; later models are not."""
    model, rows = dpem.paper.KMeans(2, epsilon=1.0, data_norm=1.0, noise="gaussian"), points(50)
    with seeded_bug("half the noise"):
        assert not model.fit(rows).privacy_.is_private
    assert model.fit(rows).privacy_.is_private
