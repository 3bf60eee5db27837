"""Mechanisms: the charged event covers the noise, and insecure noise is marked."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpem.errors import InsecureNoiseWarning, InvalidArgumentError
from dpem.privacy import GaussianEvent, GaussianMechanism, LaplaceEvent, LaplaceMechanism, mechanisms
from dpem.testing import insecure_noise

FACTORS = st.floats(1.0, 1e6)


@given(multiplier=FACTORS, sensitivity=FACTORS)
def test_gaussian_noise_covers_its_event(multiplier, sensitivity):
    """Noise over sensitivity is never below the charged multiplier, in exact arithmetic."""
    mechanism = GaussianMechanism.for_event(GaussianEvent(multiplier), sensitivity)
    assert Fraction(mechanism.noise_stddev) >= Fraction(multiplier) * Fraction(sensitivity)
    assert mechanism.event.noise_multiplier >= multiplier
    assert Fraction(mechanism.event.noise_multiplier) * Fraction(sensitivity) <= Fraction(
        mechanism.noise_stddev
    )


@given(epsilon=FACTORS, sensitivity=FACTORS)
def test_laplace_noise_covers_its_event(epsilon, sensitivity):
    """Sensitivity over scale is never above the charged epsilon, in exact arithmetic."""
    if not 2.0**-9 < sensitivity / epsilon < 2.0**53:
        return
    mechanism = LaplaceMechanism.for_event(LaplaceEvent(epsilon), sensitivity)
    assert Fraction(mechanism.noise_scale) * Fraction(epsilon) >= Fraction(sensitivity)
    assert mechanism.event.epsilon <= epsilon
    assert Fraction(mechanism.event.epsilon) * Fraction(mechanism.noise_scale) >= Fraction(sensitivity)


@pytest.mark.parametrize("mechanism", [GaussianMechanism(1.0, 5.0), LaplaceMechanism(1.0, 5.0)])
def test_release(mechanism):
    """Values keep their shape, noise is new, the event is the mechanism's, the noise is secure."""
    statistic = np.arange(600, dtype=np.int64).reshape(20, 30)
    one, two = mechanism.release(statistic), mechanism.release(statistic)
    assert one.values.shape == (20, 30)
    assert (one.values != two.values).any()
    assert abs((one.values - statistic).mean()) < 5
    assert one.event == mechanism.event
    assert not one.insecure_noise


def test_narrow_integers_are_widened():
    """Small integer types are integers; a single number is a vector of one."""
    mechanism = GaussianMechanism(1.0, 2.0**-10)
    assert mechanism.release(np.array([1, 2], np.int32)).values.tolist() == [1, 2]
    assert mechanism.release(np.int64(3)).values.tolist() == [3]


def test_noise_shape_scales_single_entries():
    """Only the entries with a smaller relative noise get less noise."""
    shape = np.where(np.arange(20_000) % 2, 1.0, 0.01)
    values = GaussianMechanism(1.0, 1000.0).release(np.zeros(20_000, np.int64), shape).values
    assert 900 < values[1::2].std() < 1100
    assert 9 < values[::2].std() < 11


def test_shaped_noise_is_rounded_up(monkeypatch):
    """An entry's own noise is never below its part of the charged one, in exact arithmetic."""
    drawn = []
    monkeypatch.setattr(
        mechanisms, "rounded_gaussian", lambda stddev, size: drawn.append(stddev) or np.zeros(size, np.int64)
    )
    shape = 1 / np.sqrt(np.arange(2.0, 50.0))
    GaussianMechanism(1.0, 1e6 / 3).release(np.zeros(48, np.int64), shape)
    for factor, stddev in zip(np.unique(shape), drawn, strict=True):
        exact = Fraction(1e6 / 3) * Fraction(float(factor))
        assert exact <= Fraction(stddev) < exact * (1 + Fraction(1, 2**50))


def test_insecure_noise_is_marked():
    """A release with seeded noise is marked."""
    with pytest.warns(InsecureNoiseWarning), insecure_noise(1):
        assert GaussianMechanism(1.0, 5.0).release(np.zeros(3, np.int64)).insecure_noise


def test_extreme_statistics_neither_raise_nor_wrap():
    """Private values never cause an error; they are clipped at 2^62 and stay on their side of zero."""
    values = np.array([2**63 - 1, -(2**63), 0])
    for mechanism in (GaussianMechanism(1.0, 2.0**50), LaplaceMechanism(1.0, 2.0**50)):
        noisy = mechanism.release(values).values
        assert noisy[0] > 2**61
        assert noisy[1] < -(2**61)
    quiet = GaussianMechanism(1.0, 2.0**-10).release(values).values  # whose noise is zero
    assert quiet.tolist() == [2**62 - 1, 1 - 2**62, 0]


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
def test_a_mechanism_cannot_be_changed(kind):
    """Neither its noise nor what it released can be changed after the charge."""
    mechanism = kind(1.0, 5.0)
    for thing, name in ((mechanism, "sensitivity"), (mechanism.release(np.zeros(1, np.int64)), "event")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, None)


@pytest.mark.parametrize("statistic", [np.zeros(3), np.zeros(3, np.uint64), [1.5]])
def test_floats_are_refused_without_showing_them(statistic):
    """Noise on floats is not private, so only integers are accepted; the message shows the type alone."""
    with pytest.raises(InvalidArgumentError, match="got dtype=") as caught:
        GaussianMechanism(1.0, 5.0).release(statistic)
    assert "1.5" not in str(caught.value)


@pytest.mark.parametrize(
    ("sensitivity", "scale"), [(0, 1), (-1, 1), (np.nan, 1), (1, 0), (1, 2.0**60), (0.5, 1), (2.0**60, 1)]
)
def test_bad_parameters(sensitivity, scale):
    """A mechanism whose noise cannot be drawn cannot be built, so nothing is charged for it."""
    for kind in (GaussianMechanism, LaplaceMechanism):
        with pytest.raises(InvalidArgumentError, match="Expected"):
            kind(sensitivity, scale)
