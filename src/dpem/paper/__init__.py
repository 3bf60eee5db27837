"""The methods of Park, Foulds, Chaudhuri and Welling (AISTATS 2017), apart from the defaults.

They follow the paper's text where the text is private, and make the smallest change where it is not
(docs/paper.md). Use them as baselines.
"""

from dpem.paper.factor_analysis import FactorAnalysis
from dpem.paper.gaussian_mixture import GaussianMixture
from dpem.paper.general import generic_sensitivity
from dpem.paper.general_em import GeneralEM, Moment
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
