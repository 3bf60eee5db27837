"""Saved models of every kind: a model is known from when it is imported, so all of them are, here."""

import dpem.models.discrete_mixtures
import dpem.models.factor_analysis
import dpem.models.gaussian_mixture
import dpem.models.kmeans
import dpem.models.mixed_mixture
import dpem.models.private_em
import dpem.paper  # noqa: F401
from dpem.em.estimator import load

__all__ = ["load"]
