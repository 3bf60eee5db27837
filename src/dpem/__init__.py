"""dpem: latent-variable models by expectation maximisation under differential privacy."""

from importlib import import_module
from typing import Any

from dpem import errors, paper, privacy, testing
from dpem.data.files import Files
from dpem.data.scaler import BoundsScaler
from dpem.data.schema import Schema
from dpem.em.estimator import load
from dpem.em.exponential_family import ExponentialFamily
from dpem.em.model_check import check_model
from dpem.em.projection import cosine_basis
from dpem.em.transcript import resumable
from dpem.models.diagnostics import clipped_fraction, nicv, private_nicv
from dpem.models.discrete_mixtures import BernoulliMixture, CategoricalMixture, PoissonMixture
from dpem.models.factor_analysis import FactorAnalysis, factors_allowed
from dpem.models.gaussian_mixture import GaussianMixture
from dpem.models.kmeans import KMeans
from dpem.models.mixed_mixture import MixedMixture
from dpem.models.private_bounds import private_bounds
from dpem.models.private_em import PrivateEM
from dpem.models.table_quality import compare_tables
from dpem.planner import Outlook, epsilon_needed, plan
from dpem.privacy.ledger import Ledger
from dpem.privacy.statement import PrivacyStatement

__version__ = "0.1.0.dev0"

__all__ = [
    "BernoulliMixture",
    "BoundsScaler",
    "CategoricalMixture",
    "ExponentialFamily",
    "FactorAnalysis",
    "Files",
    "GaussianMixture",
    "KMeans",
    "Ledger",
    "MixedMixture",
    "Outlook",
    "PoissonMixture",
    "PrivacyStatement",
    "PrivateEM",
    "Schema",
    "__version__",
    "audit",
    "check_model",
    "clipped_fraction",
    "compare_tables",
    "cosine_basis",
    "epsilon_needed",
    "errors",
    "factors_allowed",
    "load",
    "nicv",
    "paper",
    "plan",
    "privacy",
    "private_bounds",
    "private_nicv",
    "resumable",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Import the audits when they are asked for: nothing else needs them."""
    if name == "audit":
        return import_module("dpem.audit")
    raise AttributeError(f"module 'dpem' has no attribute {name!r}")
