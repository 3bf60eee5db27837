"""The average of noisy sums over EM steps: its stated noise is that of the average, in fits and forecasts."""

import numpy as np
import pytest

import dpem
from dpem.fitting.averaging import DecayingAverage, is_averaged, noise_after
from dpem.models.table import em as table_em
from dpem.plugin.fit import _State, _Step
from dpem.statistics.mixture_tables import ROW_UNIT

_DRAWS = 40_000  # a standard deviation is then known to 0.4 %; the tests allow eight times that


def averages(noises, rng):
    """Return draws of the last average of sums that are noise alone."""
    average = DecayingAverage()
    for step, noise in enumerate(noises):
        sums = rng.normal(0, noise, _DRAWS)
        average = (
            average.add(noise, sums) if is_averaged(step, len(noises)) else DecayingAverage.of(noise, sums)
        )
    return average


@pytest.mark.parametrize(
    "noises", [[1.0], [2.0, 1.0], [1.0] * 10, [3.0, 2.0, 1.0, 2.0, 3.0], list(np.linspace(5, 2, 15))]
)
def test_the_stated_noise_is_that_of_the_average(noises):
    average = averages(noises, np.random.default_rng(0))
    assert np.std(average.sums[0]) == pytest.approx(average.noise, rel=0.03)
    assert noise_after(noises) == pytest.approx(average.noise, rel=1e-12)


def test_sums_of_the_first_half_are_forgotten():
    average = averages([1e-6, 1.0, 1.0, 1.0], np.random.default_rng(0))
    assert 0.5 < average.noise < 1
    alone = DecayingAverage.of(2.0, np.ones(3)).add(1.0, np.zeros(3), forget=0.0)
    assert (alone.sums[0] == 0).all()
    assert alone.noise == 1


def test_the_noise_of_the_last_sums_gives_the_noise_of_the_average():
    """Noise of this size in the last sums alone moves the average as much as the noise of all steps."""
    rng, noises = np.random.default_rng(1), [1.0, 2.0, 0.5, 1.0]
    average = averages(noises, rng)
    last = rng.normal(0, noises[-1] * average.noise_of_last, _DRAWS)
    moved = last * (1 - average.earlier / average.weight)
    assert np.std(moved) == pytest.approx(average.noise, rel=0.03)


def test_the_forecast_of_a_plug_in_model_is_the_noise_of_its_average():
    """The noise in the sums that reach the M-step, simulated with the noise of the plan, is the forecast."""
    model = dpem.PoissonMixture(3, epsilon=1.0, bounds=[(0,) * 2, (20,) * 2])
    outlook = dpem.plan(model, 10_000)
    request = model._public_facts(2, None, 10_000).request
    unit = request.statistic({}).unit
    rng = np.random.default_rng(2)
    noises = [stage.noise_stddev / unit for stage in outlook.plan.numbered("em")]
    assert len(noises) == request.iterations

    class Kept(_Step):
        def statistic(self, parameters):
            return self

        def read(self, released):
            return released

        def model_step(self, before, sums, noise):
            return before

    step = Kept(request, 10_000.0)
    state = _State({}, 0, DecayingAverage((np.zeros(_DRAWS),)))
    for noise in noises:
        state = step.m_step(state, (rng.normal(0, noise, _DRAWS), noise))
    (entry,) = outlook.noise
    simulated = 3 / 10_000 * np.std(state.average.sums[0])
    assert entry.size == pytest.approx(simulated, rel=0.03)


def test_synthetic_tables_by_em_know_the_noise_of_their_average(monkeypatch):
    """The noise by which the M-step shrinks tables is that of the averaged sums, in every step."""
    k = 200
    seen = []

    def tables(sums, counts, sizes, noise):
        seen.append((np.std(sums), noise))
        return [np.full((k, k), 1 / k)]

    class Kept(table_em._Step):
        def statistic(self, parameters):
            return self

        def read(self, released):
            return released

    monkeypatch.setattr(table_em, "_tables", tables)
    step = Kept([], 10_000.0, 10)
    state = table_em._State(np.full(k, 1 / k), (np.full((k, k), 1 / k),), (None,))
    rng = np.random.default_rng(3)
    for _ in range(10):
        state = step.m_step(state, (rng.normal(0, 5.0, (k, 1 + k)), 5.0))
    found, stated = np.array(seen).T
    np.testing.assert_allclose(stated, found, rtol=0.03)
    assert found[-1] == pytest.approx(0.436 * 5.0, rel=0.03)


def test_the_forecast_of_synthetic_tables_by_em_is_the_noise_of_their_average():
    schema = dpem.Schema({"a": {"kind": "boolean"}, "b": {"kind": "integer", "bounds": [0, 9]}})
    outlook = dpem.plan(dpem.MixedMixture(3, schema=schema, epsilon=1.0, method="em"), 10_000)
    (entry,) = [entry for entry in outlook.noise if "component" in entry.parameter]
    noises = [stage.noise_stddev / ROW_UNIT for stage in outlook.plan.numbered("em")]
    simulated = averages(noises, np.random.default_rng(4)).sums[0]
    assert entry.size == pytest.approx(np.std(simulated) / 10_000, rel=0.03)
