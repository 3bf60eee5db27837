"""Saved models of every kind: a model is known from when it is imported, so all of them are, here."""

import dpem.models.discrete.estimator
import dpem.models.factor_analysis.estimator
import dpem.models.gaussian_mixture.estimator
import dpem.models.kmeans.estimator
import dpem.models.table.estimator
import dpem.paper  # noqa: F401
from dpem.estimator.base import load

__all__ = ["load"]
