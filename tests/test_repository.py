"""Rules of the repository: no silent skips, randomness in one module only, lazy imports, extras."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpem
from dpem.estimator.base import PrivateEstimator

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("skip", ["@pytest.mark.skip\ndef test(): pass", "pytest.importorskip('no_such')"])
def test_a_skip_fails_if_everything_is_required(tmp_path, skip):
    """With DPEM_REQUIRE_ALL=1, skipped tests and skipped modules fail."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_skip.py").write_text(f"import pytest\n{skip}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    for value, passes in (("0", True), ("1", False)):
        run = subprocess.run(
            [*command, str(tmp_path)],
            env={"DPEM_REQUIRE_ALL": value, "PATH": ""},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert ("failed" not in run.stdout and "error" not in run.stdout) is passes, run.stdout


@pytest.mark.parametrize(
    "line",
    [
        "from numpy.random import default_rng",
        "import numpy as np\ngenerator = np.random.default_rng()",
        "import os\nbits = os.urandom(8)",
        "import random",
        "import secrets",
        "import torch\nnoise = torch.randn(3)",
        "import torch\ngenerator = torch.Generator()",
        "from sklearn.utils import check_random_state",
    ],
)
def test_lint_forbids_randomness_outside_its_module(line):
    """Ruff's banned-api rejects generators in all modules except privacy/randomness.py."""

    def refused(filename):
        command = [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select",
            "TID251",
            "--stdin-filename",
            filename,
            "-",
        ]
        return subprocess.run(command, input=line + "\n", text=True, capture_output=True, cwd=ROOT).returncode

    assert refused("src/dpem/models/kmeans/estimator.py") == 1
    assert refused("src/dpem/privacy/randomness.py") == 0


def test_a_missing_extra_is_named():
    """Without dp-accounting, the error of accountant 'pld' names the extra, and `compare` still works."""
    program = """
import sys
sys.modules["dp_accounting"] = None
from dpem.errors import MissingExtraError
from dpem.privacy import GaussianEvent, accountant_named, compare
try:
    accountant_named("pld")
except MissingExtraError as error:
    assert "pip install '.[pld]'" in str(error), error
else:
    raise SystemExit("no error")
table = compare(GaussianEvent(4.0), 1e-5)
assert "pld" in table.missing and "gdp" in table.epsilons and "'.[pld]'" in str(table)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_dpem_loads_nothing_slow():
    """Names are imported on first use, so that `import dpem`, workers and `dpem --help` are fast."""
    slow = (
        "('dp_accounting', 'mpmath', 'numba', 'opendp', 'pandas', 'scipy.optimize', 'scipy.stats', 'sklearn')"
    )
    for names in ("dpem", "dpem, dpem.cli", "dpem.privacy", "dpem.statistics.gaussian, dpem.engines.remote"):
        program = f"import sys, {names}; print([m for m in {slow} if m in sys.modules])"
        run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert run.stdout.strip() == "[]", names


def test_public_names_exist():
    """Every name in __all__ exists."""
    for module in (dpem, dpem.privacy):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_a_fresh_process_can_load_every_model():
    """Models are registered on import, and `dpem.load` imports all of them."""
    program = "import dpem; dpem.load; from dpem.estimator.saving import _MODELS; print(*sorted(_MODELS))"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    public = [getattr(module, name) for module in (dpem, dpem.paper) for name in module.__all__]
    models = [entry for entry in public if isinstance(entry, type) and issubclass(entry, PrivateEstimator)]
    assert run.stdout.split() == sorted(model._public_name for model in models)
