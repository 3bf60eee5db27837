"""The quick audit detects every seeded bug, and finds nothing without one."""

import warnings

import pytest

import dpem
from dpem.audit.obligations import OBLIGATIONS
from dpem.audit.run import Attack, audit_of_bug, first_violations_of_bug, perform
from dpem.audit.seeded_bugs import BUGS, seeded_bug
from dpem.estimator.trials import points


@pytest.mark.parametrize("name", [name for name in BUGS if BUGS[name].subject not in OBLIGATIONS])
def test_every_seeded_bug_of_a_fit_is_detected(name):
    """The audit of `dpem audit`, up to its first finding, because one is enough."""
    with seeded_bug(name) as bug, warnings.catch_warnings(action="ignore"):
        assert first_violations_of_bug(bug.subject, bug.adjacency)


@pytest.mark.parametrize("name", [name for name in BUGS if BUGS[name].subject in OBLIGATIONS])
def test_every_seeded_bug_of_a_proof_is_detected(name):
    finding = perform(Attack("bug", name))
    assert finding.passed, finding.text


def test_the_whole_audit_of_a_bug_lists_its_findings():
    """The first finding of the test above is one of them."""
    finding = perform(Attack("bug", "half the noise"))
    assert finding.passed
    assert finding.text.startswith("half the noise: caught by ")
    with seeded_bug("half the noise") as bug:
        first = first_violations_of_bug(bug.subject, bug.adjacency)
    assert {f"{violation.check} ({violation.where})" for violation in first} <= set(
        finding.figures["caught_by"]
    )


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
