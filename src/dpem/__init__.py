"""dpem: latent-variable models by expectation maximisation under differential privacy.

The public names are listed in `__init__.pyi`. Each is imported when it is first used.
"""

import lazy_loader

__version__ = "0.1.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
