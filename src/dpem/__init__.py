"""dpem: latent-variable models by expectation maximisation under differential privacy."""

from dpem import errors, privacy, testing
from dpem.privacy.ledger import Ledger
from dpem.privacy.statement import PrivacyStatement

__version__ = "0.1.0.dev0"

__all__ = ["Ledger", "PrivacyStatement", "__version__", "errors", "privacy", "testing"]
