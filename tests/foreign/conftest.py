"""Scikit-learn's fixtures, and the exclusions of each module, for running its tests on dpem."""

from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent


@pytest.fixture
def global_dtype():
    """Return the default type of scikit-learn's tests, the only one that dpem computes in."""
    return np.float64


@pytest.fixture
def global_random_seed():
    """Return the default seed of scikit-learn's tests."""
    return 42


@pytest.fixture(autouse=True)
def _seeded():
    """Seed NumPy's global generator for tests without a seed, so that every run is the same."""
    generator = np.random.mtrand._rand
    state = generator.get_state()
    generator.seed(42)
    yield
    generator.set_state(state)


def pytest_collection_modifyitems(config, items):
    """Deselect cases that do not apply; mark those that fail because of a known defect."""
    kept, left_out = [], []
    for item in items:
        if item.path.parent != FOLDER or not hasattr(item, "originalname"):
            kept.append(item)
            continue
        suite = item.module.SUITE
        arguments = item.callspec.params if hasattr(item, "callspec") else {}
        if item.originalname in suite.functions and suite.excluded(arguments) is not None:
            left_out.append(item)
            continue
        defect = suite.known_defects.get(item.name, suite.known_defects.get(item.originalname))
        if defect is not None:
            item.add_marker(pytest.mark.xfail(reason=defect, strict=True))
        # Many of these tests stop a fit early on purpose, and warnings are not errors in scikit-learn.
        item.add_marker(pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"))
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
