"""Saved models of several estimators to change, and the check of a loaded one."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

import dpem
from dpem.errors import DpemError
from dpem.estimator.base import PrivateEstimator
from dpem.estimator.files import read_model
from dpem.testing import insecure_noise
from fuzz.harness import bounded_memory, scratch

__all__ = ["MODELS", "content_of", "loads", "parts_of"]

_SCHEMA = dpem.Schema(
    {
        "x": {"kind": "continuous", "bounds": [-3, 3]},
        "visits": {"kind": "integer", "bounds": [0, 9]},
        "ward": {"kind": "categorical", "categories": ["north", "south"]},
    }
)
_NUMBERS = {"epsilon": 1.0, "random_state": 0, "schema": _SCHEMA.select(["x", "visits"])}
MODELS = {
    "KMeans": lambda: dpem.KMeans(2, **_NUMBERS),
    "GaussianMixture": lambda: dpem.GaussianMixture(2, max_iter=2, **_NUMBERS),
    "FactorAnalysis": lambda: dpem.FactorAnalysis(1, **_NUMBERS),
    "MixedMixture": lambda: dpem.MixedMixture(2, epsilon=1.0, random_state=0, schema=_SCHEMA),
    "PoissonMixture": lambda: dpem.PoissonMixture(
        2, epsilon=1.0, random_state=0, max_iter=2, schema=_SCHEMA.select(["visits"])
    ),
    "paper.KMeans": lambda: dpem.paper.KMeans(2, max_iter=2, **_NUMBERS),
    "paper.GaussianMixture": lambda: dpem.paper.GaussianMixture(2, max_iter=2, **_NUMBERS),
}


@cache
def content_of(name):
    """Return the bytes of a saved model."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=300), "visits": rng.integers(0, 9, 300), "ward": "north"})
    file = scratch() / "whole.model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(0):
            MODELS[name]().fit(rows).save(file)
    return file.read_bytes()


@cache
def parts_of(name):
    """Return the metadata and the arrays of a saved model."""
    file = scratch() / "whole.model"
    file.write_bytes(content_of(name))
    metadata, arrays = read_model(file)
    return metadata, arrays


def loads(file):
    """Return whether a model is loaded; check that a loaded model can print itself."""
    with bounded_memory():
        try:
            model = dpem.load(file)
        except DpemError as error:
            assert str(error)
            return False
    assert isinstance(model, PrivateEstimator)
    assert str(model.privacy_)
    assert repr(model)
    return True
