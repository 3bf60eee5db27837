"""Every estimator with few steps, for tests of common behaviour."""

import warnings

import numpy as np

from dpem import registry
from dpem.estimator.trials import mixed_table
from dpem.plugin.trials import Mean
from dpem.testing import insecure_noise, record

__all__ = ["BY_ADD_REMOVE", "ESTIMATORS", "Mean", "same_bits", "seeded"]


def _seeded(trial):
    return lambda **changes: trial.make(**{"random_state": 0} | changes)


_TRIALS = {
    name.removesuffix(", table"): trial
    for name, trial in registry.trials().items()
    if trial.rows is mixed_table
}
ESTIMATORS = {name: _seeded(trial) for name, trial in _TRIALS.items()}
BY_ADD_REMOVE = [name for name, trial in _TRIALS.items() if "add_remove" in trial.relations]


def seeded(run, seed=7):
    """Run a function under seeded noise; return its result and the released sums."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(seed), record() as transcript:
            found = run()
    return found, transcript.releases


def same_bits(found, expected):
    """Assert that two results of `seeded` have the same sums and the same released model."""
    (model, sums), (other, other_sums) = found, expected
    assert [release.stage for release in sums] == [release.stage for release in other_sums]
    for one, two in zip(sums, other_sums, strict=True):
        np.testing.assert_array_equal(one.raw, two.raw, err_msg=one.stage)
    arrays, others = model._arrays(), other._arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
