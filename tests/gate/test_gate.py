"""Plan and gate: charge first, read second, noise third, and no release outside the plan."""

import copy
import dataclasses
import pickle
import tomllib
import warnings
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dpem
from dpem import Ledger, paper
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine
from dpem.engines.totals import IntegerTotal
from dpem.errors import (
    InsufficientBudgetError,
    InvalidArgumentError,
    LargeEpsilonWarning,
    OtherReleaseError,
    PlanViolationError,
    RepeatedChargeWarning,
    ResumedFitWarning,
)
from dpem.fitting.centres import plan_kmeans
from dpem.gate.plan import NoiseKind, Plan, Stage
from dpem.gate.progress import listening
from dpem.gate.recording import RecordedRelease
from dpem.gate.release import ReleaseGate
from dpem.gate.released import RawStatistics, ReleasedStatistics
from dpem.paper.cluster_sums import ClusterCounts, ClusterSums
from dpem.paper.mixture_sums import Counts, Moments
from dpem.paper.mixture_sums import Sums as WeightedSums
from dpem.privacy import Adjacency, PrivacyUnit
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.events import GaussianEvent, LaplaceEvent
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.simple import DistanceHistogram, SecondMoments, Sums
from dpem.testing import record, replay

X = np.random.default_rng(3).normal(size=(500, 2))
SUMS = Sums(2, counted=False)


def make_plan(**changes):
    arguments = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace_one"} | changes
    stages = [
        Stage("sum", 3.0, SUMS.sensitivity(arguments["adjacency"]), repeats=2),
        Stage("histogram", 7.0, 2.0),
    ]
    return Plan.build(stages, **arguments)


def make_gate(plan=None, source=None, ledger=None):
    domain = Domain.from_arguments(2, data_norm=4.0)
    return ReleaseGate(
        plan or make_plan(), source or TableRows(X), domain, LocalEngine(), ledger=ledger, purpose="test"
    )


class WatchedSource(TableRows):
    """A source that records when rows are read, and the records of the ledger at that time."""

    def __init__(self, data, ledger):
        super().__init__(data)
        self.ledger, self.charges_when_read = ledger, []

    def block(self):
        self.charges_when_read.append(len(self.ledger.history()))
        return super().block()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-6)


# -- the plan --------------------------------------------------------------------------------------------


def test_plan_meets_its_budget_and_serialises():
    """The composed event costs epsilon to 1e-9 and no more; shares are of mu^2."""
    plan = make_plan()
    total = GdpAccountant().epsilon(plan.event, 1e-6)
    assert 1 - 1e-9 <= total <= 1
    sums, histogram = plan.stages
    assert (sums.share, histogram.share) == (0.3, 0.7)
    assert 2 / sums.noise_multiplier**2 / (1 / histogram.noise_multiplier**2) == pytest.approx(3 / 7)
    assert Plan.from_dict(plan.to_dict()) == plan
    assert "histogram" in str(plan)
    for broken in ({"epsilon": -1.0}, {"delta": 2.0}, {"adjacency": "swap"}):
        with pytest.raises(InvalidArgumentError, match=next(iter(broken))):
            Plan.from_dict(plan.to_dict() | broken)


def test_a_plan_may_have_hundreds_of_stages():
    """Enough for any number of EM steps, but not so many that accountants become slow."""
    stages = [Stage(f"em {i}", 1.1 ** (i % 50), 2.0) for i in range(1001)]
    plan = Plan.build(stages[:200], epsilon=1.0, delta=1e-6)
    assert GdpAccountant().epsilon(plan.event, 1e-6) <= 1
    with pytest.raises(InvalidArgumentError, match="at most 1000 stages"):
        Plan.build(stages, epsilon=1.0, delta=1e-6)


def test_persons_multiply_sensitivities():
    """With m rows per person every sensitivity, and the noise with it, is m times as large."""
    one, three = make_plan(), make_plan(unit=PrivacyUnit(3))
    for a, b in zip(one.stages, three.stages, strict=True):
        assert b.sensitivity == 3 * a.sensitivity
        assert b.mechanism.noise_stddev == pytest.approx(3 * a.mechanism.noise_stddev, rel=1e-12)


def test_shares_and_noise_are_what_the_stages_say():
    """Computed by hand: shares of repeats times mechanisms, noise over sensitivity, epsilon and mu."""
    stages = [
        Stage("a", 1.0, 2.0, repeats=3, mechanisms=2, noise=NoiseKind.LAPLACE),
        Stage("b", 1.0, 8.0, repeats=4),
    ]
    plan = Plan.per_mechanism(stages, composition="linear", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(2))
    a, b = plan.stages
    assert [(s.share, s.repeats, s.mechanisms, s.sensitivity) for s in (a, b)] == [
        (0.6, 3, 2, 4),
        (0.4, 4, 1, 16),
    ]
    assert plan.event.parts == ((a.event, 6), (b.event, 4))
    assert a.event.epsilon == pytest.approx(0.1, rel=1e-9)
    assert (a.noise_multiplier, b.noise_multiplier) == (1 / a.event.epsilon, b.event.noise_multiplier)
    assert a.noise_stddev == pytest.approx(4 * np.sqrt(2) / a.event.epsilon, rel=1e-12)
    assert b.noise_stddev == pytest.approx(16 * b.event.noise_multiplier, rel=1e-12)
    assert plan.epsilon_for_mu(plan.budget.mu) == pytest.approx(1.0, rel=1e-9)
    assert (plan.accountant, plan.adjacency, make_plan().accountant) == ("linear", "replace_one", "gdp")


def test_a_plan_cannot_be_changed():
    """A plan is immutable, and its stages accept only their own types."""
    plan = make_plan()
    for thing in (plan, plan.stages[0], Stage("a", 1.0, 2.0)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            thing.epsilon = 2.0
    with pytest.raises(InvalidArgumentError, match="one Gaussian mechanism"):
        Plan.build([Stage("a", 1.0, 2.0, noise=NoiseKind.LAPLACE)], epsilon=1.0, delta=1e-6)
    one = plan.stage("histogram")
    laplace = dataclasses.replace(plan, stages=(dataclasses.replace(one, event=LaplaceEvent(0.1)),))
    with pytest.raises(InvalidArgumentError, match="one Gaussian release"):
        laplace.refined("histogram", [Stage("a", 1.0, 2.0)], by_release=True)
    with pytest.raises(InvalidArgumentError, match="Gaussian events"):
        dataclasses.replace(laplace, charged=plan.event)
    charged = plan.refined("histogram", [Stage("a", 1.0, 2.0)], by_release=True).to_dict()
    for broken in (
        {"charged": one.event.to_dict()},
        {"stages": [one.to_dict() | {"event": charged["charged"]}]},
    ):
        with pytest.raises(InvalidArgumentError, match="event"):
            Plan.from_dict(charged | broken)


def test_impossible_plans_are_refused():
    """Empty plans and noise that cannot be drawn raise before anything is charged."""
    with pytest.raises(InvalidArgumentError, match="at least one stage"):
        Plan.build([], epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidArgumentError, match="noise_stddev"):
        Plan.build([Stage("huge", 1.0, 2.0**54)], epsilon=0.1, delta=1e-6)
    with pytest.raises(InvalidArgumentError, match="a stage of the plan"):
        make_plan().stage("other")


# -- the gate --------------------------------------------------------------------------------------------


def test_the_ledger_is_charged_before_the_first_row_is_read(ledger):
    """Every read finds the whole plan already charged."""
    source = WatchedSource(X, ledger)
    gate = make_gate(source=source, ledger=ledger)
    assert source.charges_when_read == []
    gate.release("sum", SUMS)
    assert set(source.charges_when_read) == {1}
    assert ledger.history()[0].event == gate.plan.event
    assert ledger.remaining().epsilon < 1e-3


def test_a_refused_plan_reads_nothing(ledger):
    """Without enough budget there is no gate, no row is read, and nothing is charged."""
    ledger.spend(make_plan(epsilon=0.5).event, purpose="before")
    source = WatchedSource(X, ledger)
    with pytest.raises(InsufficientBudgetError):
        make_gate(source=source, ledger=ledger)
    assert source.charges_when_read == []
    assert len(ledger.history()) == 1


def test_terms_of_the_ledger_are_enforced(ledger):
    """Another relation or unit is refused at the gate."""
    with pytest.raises(InvalidArgumentError, match="adjacency"):
        make_gate(make_plan(adjacency="add_remove"), ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="privacy unit"):
        make_gate(make_plan(unit=PrivacyUnit(2)), ledger=ledger)


def test_a_stage_allows_only_its_planned_releases():
    gate = make_gate()
    gate.release("sum", SUMS)
    gate.release("sum", SUMS)
    with pytest.raises(PlanViolationError, match="used up"):
        gate.release("sum", SUMS)


def made_plan():
    stages = [Stage("first", 0.5, 1.0, 4), Stage("rest", 0.5, 1.0)]
    return Plan.build(stages, epsilon=1.0, delta=1e-6, unit=PrivacyUnit())


@pytest.mark.parametrize(
    "changes", [{"name": ""}, {"share": -0.1}, {"share": np.nan}, {"repeats": 0}, {"mechanisms": 0}]
)
def test_invalid_stages_cannot_be_planned(changes):
    stage = plan_kmeans(
        2, 3, epsilon=1.0, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, unit=PrivacyUnit()
    ).stages[0]
    with pytest.raises(InvalidArgumentError, match=r"stage|share|repeats|mechanisms"):
        dataclasses.replace(stage, **changes)


def test_plans_state_the_number_of_releases_that_a_release_chose():
    """A plan whose stages no release chose states no number."""
    plan = made_plan()
    assert plan.releases is None
    halves = [Stage(f"part {i}", 0.5, 1.0) for i in range(2)]
    assert plan.refined("rest", halves, by_release=True).releases == 4 + 2


def test_statistics_for_gaussian_noise_have_no_other_sensitivity():
    with pytest.raises(TypeError, match="Gaussian noise only"):
        SecondMoments(np.zeros(2), 2.0**24).sensitivity("replace_one", "l1")


def test_a_closed_gate_releases_nothing(monkeypatch):
    """Neither the gate nor the engine, which frees the rows that it holds."""
    closed = []
    monkeypatch.setattr(LocalEngine, "close", lambda engine: closed.append(1))
    gate = make_gate()
    gate.close()
    assert len(closed) == 1
    for name in ("sum", "histogram"):
        with pytest.raises(PlanViolationError, match="used up"):
            gate.release(name, SUMS)


def test_progress_counts_releases():
    """A listener receives the stage, the number of releases done, and the number of planned releases."""
    told = []
    with listening(lambda *news: told.append(news)):
        gate = make_gate()
        gate.release("sum", SUMS)
        gate.release("sum", SUMS)
    assert told == [("sum", 0, 3), ("sum", 1, 3)]


def test_refining_a_stage_does_not_increase_its_cost():
    """In exact fractions; if a release chose the stages the charge stays, and a forged plan is refused."""
    plan = make_plan()
    parts = [Stage("a", 0.5, 2.0, repeats=3), Stage("b", 3.5, 2.0), Stage("c", 1.0, 2.0)]
    before = 1 / Fraction(plan.stage("histogram").event.noise_multiplier) ** 2
    for by_release in (False, True):
        refined = plan.refined("histogram", parts, by_release=by_release)
        new = [refined.stage(name) for name in "abc"]
        after = sum(s.repeats / Fraction(s.event.noise_multiplier) ** 2 for s in new)
        assert before * (1 - Fraction(1, 10**12)) < after <= before
        assert [stage.share for stage in new] == pytest.approx([0.07, 0.49, 0.14], rel=1e-12)
        assert (refined.event == plan.event) is by_release
        assert Plan.from_dict(refined.to_dict()) == refined
    three = Plan.build([Stage(name, 1.0, 2.0) for name in "xyz"], epsilon=1.0, delta=1e-6)
    assert [s.name for s in three.refined("x", parts[:2], by_release=True).stages] == ["a", "b", "y", "z"]
    for factor in (1e-3, 1 - 1e-9):
        event = GaussianEvent(new[1].event.noise_multiplier * factor)
        quieter = dataclasses.replace(new[1], event=event)
        with pytest.raises(InvalidArgumentError, match="no more than was charged"):
            dataclasses.replace(refined, stages=(*refined.stages[:2], quieter, *refined.stages[3:]))
    with pytest.raises(InvalidArgumentError, match="one Gaussian release"):
        plan.refined("sum", parts, by_release=True)
    with pytest.raises(InvalidArgumentError, match="one Gaussian mechanism"):
        plan.refined("histogram", [Stage("a", 1.0, 2.0, mechanisms=2)], by_release=True)


def test_the_gate_refines_its_plan_within_the_charge(ledger):
    """The new stages can be released, and the charge to the ledger stays as it was."""
    gate = make_gate(ledger=ledger)
    paid = gate.plan.event
    gate.refine("histogram", [Stage("coarse", 0.5, 2.0), Stage("fine", 0.5, 2.0)])
    assert [stage.name for stage in gate.plan.stages] == ["sum", "coarse", "fine"]
    assert gate.plan.event == paid == ledger.history()[0].event
    gate.release("fine", DistanceHistogram(np.zeros((1, 2)), np.array([1.0, 2.0])))


def test_a_used_stage_cannot_be_refined():
    gate = make_gate()
    gate.release("histogram", DistanceHistogram(np.zeros((1, 2)), np.array([1.0, 2.0])))
    with pytest.raises(PlanViolationError, match="used up"):
        gate.refine("histogram", [Stage("again", 1.0, 2.0)])


def test_a_larger_sensitivity_than_planned_is_refused():
    """A statistic cannot be released in a stage that was planned for a smaller sensitivity."""
    with pytest.raises(PlanViolationError, match="smaller sensitivity"):
        make_gate().release("histogram", SUMS)


def test_release_is_the_sum_plus_noise_of_the_stated_size():
    """Over many gates the error has mean zero and the stated standard deviation, to one part in ten."""
    domain = Domain.from_arguments(2, data_norm=4.0)
    truth = domain.to_grid(X.T).sum(axis=1)
    errors = []
    for _ in range(200):
        released = make_gate().release("sum", SUMS)
        errors.append((released.values - truth) / released.noise_stddev)
    # 400 standard normal errors: mean and spread leave these bounds once in 10^9 runs.
    assert abs(np.mean(errors)) < 6.2 / np.sqrt(400)
    assert 0.75 < np.std(errors) < 1.25


def plan_of_paper(method):
    return method._plan(method._public_facts(3, None, 1000))


ONE_BALL = {"epsilon": 0.7, "delta": 1e-6, "data_norm": 1.0}
PLANS = {
    "kmeans": plan_kmeans(3, 5, epsilon=0.7, delta=1e-6, adjacency=Adjacency.REPLACE_ONE, unit=PrivacyUnit()),
    "kmeans, private n": plan_kmeans(
        2, 2, epsilon=0.7, delta=1e-6, adjacency=Adjacency.ADD_REMOVE, unit=PrivacyUnit(3)
    ),
    "paper": plan_of_paper(paper.KMeans(4, **ONE_BALL)),
    "paper, gaussian": plan_of_paper(paper.KMeans(4, noise="gaussian", **ONE_BALL)),
    "lloyd": plan_of_paper(paper.DPLloyd(4, **ONE_BALL)),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_planned_mechanism_is_as_noisy_as_its_charge(name):
    """In exact fractions, noise over the stated sensitivity is at least that of the charged event."""
    for stage in PLANS[name].stages:
        mechanism, sensitivity = stage.mechanism, Fraction(stage.sensitivity)
        if isinstance(stage.event, LaplaceEvent):
            assert Fraction(mechanism.noise_scale) >= sensitivity / Fraction(stage.event.epsilon)
        else:
            assert Fraction(mechanism.noise_stddev) >= sensitivity * Fraction(stage.event.noise_multiplier)


@pytest.mark.parametrize("noise", NoiseKind)
def test_noise_of_the_gate_has_the_charged_spread(noise):
    laplace = noise is NoiseKind.LAPLACE
    """The empirical spread is that of the charge times the sensitivity, whatever the mechanism says."""
    query = ClusterCounts(np.zeros((2000, 2)))
    sensitivity = query.sensitivity("replace_one", noise.norm)
    plan = Plan.per_mechanism(
        [Stage("counts", 1.0, sensitivity, noise=noise)], composition="zcdp", epsilon=0.1, delta=1e-6
    )
    released = make_gate(plan).release("counts", query)
    event = plan.stages[0].event
    expected = np.sqrt(2) * sensitivity / event.epsilon if laplace else sensitivity * event.noise_multiplier
    # 1999 empty clusters: their spread leaves these bounds far less than once in 10^9 runs.
    assert 0.8 * expected < np.std(released.values[1:]) < 1.25 * expected
    assert released.noise_stddev[0] == pytest.approx(expected, rel=1e-6)


def test_a_noise_shape_scales_the_stated_noise():
    query = SecondMoments(np.zeros(2), 1.0)
    plan = Plan.build([Stage("m", 1.0, query.sensitivity("replace_one"))], epsilon=1.0, delta=1e-6)
    released = make_gate(plan).release("m", query)
    assert len(set(query.noise_shape)) > 1
    assert released.noise_stddev == pytest.approx(plan.stages[0].noise_stddev * query.noise_shape, rel=1e-15)


def test_a_noise_shape_with_laplace_noise_is_refused():
    class Shaped(ClusterCounts):
        noise_shape = np.array([1.0, 0.5])

    shaped = Shaped(np.zeros((2, 2)))
    plan = Plan.per_mechanism(
        [Stage("m", 1.0, 2.0, noise=NoiseKind.LAPLACE)], composition="linear", epsilon=1.0, delta=1e-6
    )
    with pytest.raises(PlanViolationError, match="Gaussian noise only"):
        make_gate(plan).release("m", shaped)
    query = SecondMoments(np.zeros(2), 1.0)
    plan = Plan.per_mechanism(
        [Stage("m", 1.0, 2.0**40, noise=NoiseKind.LAPLACE)], composition="linear", epsilon=1.0, delta=1e-6
    )
    with pytest.raises((PlanViolationError, TypeError), match="Gaussian noise only"):
        make_gate(plan).release("m", query)


def test_recording_marks_the_charge(ledger):
    """Raw statistics are exposed while a fit is recorded, and the ledger's record is marked."""
    with record():
        make_gate(ledger=ledger).release("sum", SUMS)
    assert ledger.history()[0].insecure_noise


def test_a_replay_asks_for_the_same_releases():
    """A replayed fit uses the recorded values, is marked, and may ask for no other release."""
    with record() as first:
        original = make_gate().release("sum", SUMS)
    with replay(first) as second:
        gate = make_gate()
        again = gate.release("sum", SUMS)
        with pytest.raises(OtherReleaseError, match="another release"):
            gate.release("sum", SUMS)
    assert (again.values == original.values).all()
    assert (original.insecure_noise, again.insecure_noise, gate.insecure_noise) == (True, True, True)
    assert not make_gate().insecure_noise
    assert (second.releases[0].raw == first.releases[0].raw).all()
    histogram = DistanceHistogram(np.zeros((1, 2)), np.array([1.0, 2.0]))
    with replay(first), pytest.raises(OtherReleaseError, match="another release"):
        make_gate().release("histogram", histogram)


def test_distances_of_recorded_releases():
    """Computed by hand: in the norm of the noise, over the sensitivity, with entries over relative noise."""

    def recorded(raw, event, shape=None):
        statistic = SimpleNamespace(noise_shape=shape)
        return RecordedRelease("s", np.array(raw), np.zeros(2), 5.0, event, statistic, None)

    for event, shape, distance in (
        (GaussianEvent(1.0), None, 1.0),
        (GaussianEvent(1.0), np.array([0.5, 0.5]), 2.0),
        (LaplaceEvent(1.0), None, 1.4),
    ):
        assert recorded([13, 24], event, shape).distance(recorded([10, 20], event, shape)) == distance
    with pytest.raises(dataclasses.FrozenInstanceError):
        recorded([0, 0], GaussianEvent(1.0)).sensitivity = 9.0


def test_histogram_through_the_gate():
    """Counts are near the true ones at a large epsilon."""
    gate = make_gate(make_plan(epsilon=1e3))
    released = gate.release(
        "histogram", DistanceHistogram(np.zeros((1, 2)), np.array([1.0, 2.0, 4.0]) * 2.0**22)
    )
    radius = np.linalg.norm(X, axis=1)
    truth = [(radius <= 1).sum(), ((radius > 1) & (radius <= 2)).sum(), (radius > 2).sum()]
    assert released.values == pytest.approx(truth, abs=3)


# -- the two types -----------------------------------------------------------------------------------------


def test_raw_statistics_expose_no_values():
    """Raw sums have no text, array, copy or pickle."""
    raw = RawStatistics(np.array([123456]))
    assert "123456" not in repr(raw) + str(raw)
    for leak in (np.asarray, pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            leak(raw)


def test_released_statistics_cannot_be_forged():
    """Only the gate has the key."""
    with pytest.raises(TypeError, match="Only the release gate"):
        ReleasedStatistics("sum", np.zeros(2), np.ones(2), False, object())
    released = make_gate().release("sum", SUMS)
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(released, values=np.zeros(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        released.values = np.zeros(2)


def test_slices_of_released_statistics_and_additional_noise():
    released = make_gate().release("sum", SUMS)
    assert released.entries(slice(1, 2)).values == released.values[1:]
    assert released.entries(slice(1, 2)).noise_stddev == released.noise_stddev[1:]
    assert (released.with_more_noise(np.array([1.0, -2.0])).values - released.values).tolist() == [1.0, -2.0]


def test_types_keep_raw_statistics_out_of_an_m_step():
    """`make lint` checks a module whose marked line hands a raw sum to an M-step: that must be an error."""
    root = Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"]
    assert "private_sums" in settings["modules"]
    assert "warn_unused_ignores" not in settings
    marked = [
        line for line in (root / "tests/typing/private_sums.py").read_text().splitlines() if "# type:" in line
    ]
    assert marked == ["    model.m_step(centres, raw)  # type: ignore[arg-type]"]


# -- several statistics of one pass ----------------------------------------------------------------------


def joint_plan(parts, repeats=1):
    stages = [
        Stage(name, 1.0, part.sensitivity("replace_one"), repeats=repeats) for name, part in parts.items()
    ]
    return Plan.build(stages, epsilon=1.0, delta=1e-6)


def weighted():
    means = np.array([[0.1, 0.0], [-0.1, 0.2]])
    factors = np.stack([0.3 * np.eye(2)] * 2)
    components = GaussianComponents.from_parameters(np.array([0.5, 0.5]), means, factors)
    return {
        "weights": Counts(components),
        "means": WeightedSums(components),
        "covariances": Moments(components),
    }


def clusters():
    centres = np.array([[1.0, 0.0], [-1.0, 2.0], [0.0, 0.0]]) * 2.0**20
    return {"counts": ClusterCounts(centres), "sums": ClusterSums(centres)}


@pytest.mark.parametrize("make", [weighted, clusters])
def test_a_joint_release_is_each_release_by_itself(make, monkeypatch):
    """A joint release has the same sums in one pass over the rows, with low bits dropped or kept."""
    parts = make()
    with record() as apart:
        gate = make_gate(joint_plan(parts))
        for name, part in parts.items():
            gate.release(name, part)
    passes, total = [], LocalEngine.sum
    monkeypatch.setattr(LocalEngine, "sum", lambda self, *a: passes.append(1) or total(self, *a))
    with record() as together:
        make_gate(joint_plan(parts)).release_jointly(list(parts), list(parts.values()))
    assert len(passes) == 1
    assert len(apart.releases) == len(together.releases) == len(parts)
    for one, two in zip(apart.releases, together.releases, strict=True):
        assert one.stage == two.stage
        np.testing.assert_array_equal(one.raw, two.raw)
        assert one.raw.any()


def test_a_joint_release_respects_the_plan():
    """If one part exceeds its repeats or its sensitivity, no part is released."""
    parts = clusters()
    gate = make_gate(joint_plan(parts))
    names, statistics = list(parts), list(parts.values())
    gate.release_jointly(names, statistics)
    with pytest.raises(PlanViolationError, match="used up"):
        gate.release_jointly(names, statistics)
    with pytest.raises(PlanViolationError, match="used up"):
        gate.release("sums", parts["sums"])
    narrow = Plan.build([Stage("counts", 1.0, 2.0), Stage("sums", 1.0, 2.0)], epsilon=1.0, delta=1e-6)
    with record() as seen, pytest.raises(PlanViolationError, match="smaller sensitivity"):
        make_gate(narrow).release_jointly(names, statistics)
    assert seen.releases == []


def test_low_bits_are_dropped_entry_by_entry():
    """Also for sums beyond 64 bits, which one shift for all entries would truncate."""
    total = IntegerTotal(2)
    for _ in range(40):
        total.add(np.array([2**52, -(2**52) + 3], dtype=np.int64))
    for bits in (np.array([0, 20]), np.array([7, 3])):
        expected = [
            min(max(value >> int(shift), -(2**62 - 1)), 2**62 - 1)
            for value, shift in zip((40 * 2**52, 40 * (3 - 2**52)), bits, strict=True)
        ]
        assert total.value(bits).tolist() == expected
    many = IntegerTotal(2)
    many._high += 2**44  # 2^64 in all
    assert many.value(np.array([0, 20])).tolist() == [2**62 - 1, 2**44]


def test_an_epsilon_that_protects_nobody_gives_a_warning_before_the_charge(tmp_path):
    """Turned into an error, the warning leaves the ledger uncharged; a plan lists it."""
    ledger = dpem.Ledger.create(tmp_path / "l", name="l", cap_epsilon=100.0, cap_delta=1e-6)
    rows, model = np.zeros((100, 2)), dpem.KMeans(1, epsilon=21.0, data_norm=1.0, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LargeEpsilonWarning)
        with pytest.raises(LargeEpsilonWarning, match="epsilon=21 protects nobody"):
            model.fit(rows)
        assert ledger.history() == []
        model.set_params(epsilon=20.0).fit(rows)
    planned = dpem.plan(model.set_params(epsilon=21.0), 100, columns=2)
    assert any("protects nobody" in words for words in planned.warnings)


# -- repeated charges ------------------------------------------------------------------------------------


def test_an_equal_charge_gives_a_warning_before_it(tmp_path):
    """The warning names the record and what is left; as an error it prevents the charge."""
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    ledger = dpem.Ledger.create(tmp_path / "l", name="rows", cap_epsilon=5.0, cap_delta=1e-6)

    def fit(**changed):
        charged = {"epsilon": 1.0, "bounds": ([-1, -1], [1, 1]), "ledger": ledger} | changed
        return dpem.KMeans(2, **charged).fit(X)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedChargeWarning)
        fit()
        fit(epsilon=0.5)
        fit(bounds=([-2, -2], [2, 2]))
        fit(ledger=dpem.Ledger(ledger.path, purpose="again"))
        with dpem.resumable(tmp_path / "r"):
            fit(epsilon=0.6)
        assert len(ledger.history()) == 5
        with pytest.raises(RepeatedChargeWarning, match="record 1 of the ledger of 'rows'"):
            fit()
        assert len(ledger.history()) == 5
        with dpem.resumable(tmp_path / "r"), pytest.warns(ResumedFitWarning):  # not charged
            fit(epsilon=0.6)
    with pytest.warns(RepeatedChargeWarning) as caught:
        fit()
    assert f"{ledger.remaining()} is left after it" in str(caught[0].message)
