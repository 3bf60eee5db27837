"""Every estimator, with few steps: for tests of what all of them share."""

import warnings

import numpy as np

import dpem
from dpem.testing import insecure_noise, record
from support.sources import HOLES, NUMBERS, TABLE

_ONE = {"epsilon": 1.0, "random_state": 0}


class Mean(dpem.ExponentialFamily):
    """A plug-in model: the mean of three columns."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(3)}

    def expected_statistics(self, row, parameters):
        return row / 6

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": statistics * 6 / n_rows}

    def norm_bound(self, schema):
        return 1.0


_NUMBERS = _ONE | {"schema": NUMBERS}
ESTIMATORS = {
    "KMeans": lambda **a: dpem.KMeans(3, **_NUMBERS | a),
    "GaussianMixture": lambda **a: dpem.GaussianMixture(2, max_iter=3, **_NUMBERS | a),
    "GaussianMixture tied": lambda **a: dpem.GaussianMixture(
        2, max_iter=3, covariance_type="tied", **_NUMBERS | a
    ),
    "GaussianMixture missing": lambda **a: dpem.GaussianMixture(
        2, max_iter=3, missing="em", schema=HOLES, **_ONE | a
    ),
    "FactorAnalysis": lambda **a: dpem.FactorAnalysis(1, **_NUMBERS | a),
    "MixedMixture": lambda **a: dpem.MixedMixture(2, schema=TABLE, **_ONE | a),
    "MixedMixture em": lambda **a: dpem.MixedMixture(2, schema=TABLE, method="em", max_iter=2, **_ONE | a),
    "CategoricalMixture": lambda **a: dpem.CategoricalMixture(
        2, schema=TABLE.select(["ward", "smoker"]), max_iter=2, **_ONE | a
    ),
    "BernoulliMixture": lambda **a: dpem.BernoulliMixture(
        2, schema=TABLE.select(["smoker"]), max_iter=2, **_ONE | a
    ),
    "PoissonMixture": lambda **a: dpem.PoissonMixture(
        2, schema=TABLE.select(["visits"]), max_iter=2, **_ONE | a
    ),
    "PrivateEM": lambda **a: dpem.PrivateEM(Mean(), max_iter=2, **_NUMBERS | a),
    "paper.KMeans": lambda **a: dpem.paper.KMeans(2, max_iter=2, **_NUMBERS | a),
    "paper.DPLloyd": lambda **a: dpem.paper.DPLloyd(2, max_iter=2, **_NUMBERS | a),
    "paper.GaussianMixture": lambda **a: dpem.paper.GaussianMixture(2, max_iter=2, **_NUMBERS | a),
    "paper.FactorAnalysis": lambda **a: dpem.paper.FactorAnalysis(1, **_NUMBERS | a),
    "paper.GeneralEM": lambda **a: dpem.paper.GeneralEM(Mean(), max_iter=2, **_NUMBERS | a),
}
BY_ADD_REMOVE = [name for name in ESTIMATORS if not name.startswith("paper.")]


def seeded(run, seed=7):
    """Run something under seeded noise; return what it gives and the sums that it released."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(seed), record() as transcript:
            found = run()
    return found, transcript.releases


def same_bits(found, expected):
    """Two results of `seeded`: the same sums, and the same released model."""
    (model, sums), (other, other_sums) = found, expected
    assert [release.stage for release in sums] == [release.stage for release in other_sums]
    for one, two in zip(sums, other_sums, strict=True):
        np.testing.assert_array_equal(one.raw, two.raw, err_msg=one.stage)
    arrays, others = model._arrays(), other._arrays()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
