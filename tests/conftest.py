"""Settings for all tests: no silent skips if everything is installed."""

import functools
import gc
import os
from contextlib import ExitStack, contextmanager

# Two test processes with one thread per core slow each other down, because OpenMP's threads spin.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import pytest

from dpem import _compiled
from dpem.fitting.standard_errors import few_draws
from dpem.models.table.pairs import short_searches

# Tests of tensors have a separate environment: `make test-gpu`.
collect_ignore = [] if os.environ.get("DPEM_GPU") == "1" else ["gpu"]

_REQUIRE_ALL = os.environ.get("DPEM_REQUIRE_ALL") == "1"

# Runs in CI draw the same examples every time; local runs draw new ones.
hypothesis.settings.register_profile("judged", derandomize=True)
# Tests are slow under coverage.
hypothesis.settings.register_profile(
    "measured", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
if _REQUIRE_ALL:
    hypothesis.settings.load_profile("judged")


# Files that take a minute come first, so that no process runs one alone at the end.
_LONG = ("reproduce", "engines", "audit", "models", "cli", "faults", "report")


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(_LONG)}
    items.sort(key=lambda item: place.get(item.path.parent.name, len(_LONG)))


def pytest_collection_finish():
    """Leave all that was imported and collected out of garbage collections, which would look at it often."""
    gc.collect()
    gc.freeze()


def _forbid_skip(report):
    """Turn a skip into a failure under DPEM_REQUIRE_ALL=1; expected failures are not skips."""
    if _REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"Skipped under DPEM_REQUIRE_ALL=1: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _forbid_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _forbid_skip((yield))


@pytest.fixture(autouse=True)
def _compiled_sums_of_few_rows():
    """Use compiled kernels although the tables of tests are small."""
    with _compiled.for_any_size():
        yield


# Standard errors, and searches for synthetic tables, take most of a small fit. Tests of them are marked.
_DRAWS, _TABLES = "all_draws", "good_tables"


@contextmanager
def _cheap(markers):
    """Use few draws for standard errors and search little for tables, without those that are marked."""
    with ExitStack() as stack:
        if _DRAWS not in markers:
            stack.enter_context(few_draws(10))
        if _TABLES not in markers:
            stack.enter_context(short_searches(10))
        yield


@pytest.fixture(autouse=True)
def _cheap_fits(request):
    """Make the fits of a test cheap."""
    with _cheap({marker.name for marker in request.node.iter_markers()}):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Make the fits that tests share cheap, unless a test of the file has a marker."""
    if fixturedef.scope == "function":
        return (yield)
    with _cheap(_markers_of(request.path, request.session)):
        return (yield)


@functools.cache
def _markers_of(path, session):
    return {marker.name for item in session.items if item.path == path for marker in item.iter_markers()}
