# What `import dpem` offers: read by type checkers, and by __init__.py for where each name is found.
from . import audit as audit
from . import errors as errors
from . import paper as paper
from . import privacy as privacy
from . import report as report
from . import testing as testing
from .data.files import Files as Files
from .data.scaler import BoundsScaler as BoundsScaler
from .data.schema import Schema as Schema
from .em.exponential_family import ExponentialFamily as ExponentialFamily
from .em.model_check import check_model as check_model
from .em.projection import cosine_basis as cosine_basis
from .em.transcript import resumable as resumable
from .loading import load as load
from .models.diagnostics import clipped_fraction as clipped_fraction
from .models.diagnostics import nicv as nicv
from .models.diagnostics import private_nicv as private_nicv
from .models.discrete_mixtures import BernoulliMixture as BernoulliMixture
from .models.discrete_mixtures import CategoricalMixture as CategoricalMixture
from .models.discrete_mixtures import PoissonMixture as PoissonMixture
from .models.factor_analysis import FactorAnalysis as FactorAnalysis
from .models.factor_analysis import factors_allowed as factors_allowed
from .models.gaussian_mixture import GaussianMixture as GaussianMixture
from .models.kmeans import KMeans as KMeans
from .models.mixed_mixture import MixedMixture as MixedMixture
from .models.private_bounds import private_bounds as private_bounds
from .models.private_em import PrivateEM as PrivateEM
from .models.table_quality import compare_tables as compare_tables
from .planner import Outlook as Outlook
from .planner import epsilon_needed as epsilon_needed
from .planner import plan as plan
from .privacy.ledger import Ledger as Ledger
from .privacy.statement import PrivacyStatement as PrivacyStatement
from .versions import show_versions as show_versions

__version__: str
