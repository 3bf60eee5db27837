"""The methods of Park, Foulds, Chaudhuri and Welling (AISTATS 2017), apart from the defaults.

They follow the text of the paper where it is private and right, and change as little as possible where
it is not (docs/paper/methods.md). Use them as baselines.

May import: everything up to the measures. Never sees: planner, report, commands.
"""

from dpem.paper.factor_analysis import FactorAnalysis
from dpem.paper.gaussian_mixture import GaussianMixture
from dpem.paper.general_em import GeneralEM, Moment, generic_sensitivity
from dpem.paper.kmeans import DPLloyd, KMeans

__all__ = [
    "DPLloyd",
    "FactorAnalysis",
    "GaussianMixture",
    "GeneralEM",
    "KMeans",
    "Moment",
    "generic_sensitivity",
]
