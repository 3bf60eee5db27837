"""Check docs/development/architecture.md: its files exist, and a fit runs the listed ones."""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpem
import dpem.loading  # import all models here, so that the profile below sees only functions, not imports
from dpem import registry

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dpem"
PAGE = (ROOT / "docs" / "development" / "architecture.md").read_text()
MOST_FILES = 25  # to read for somebody new who follows a row


def section(title):
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def files_in(text):
    """Return the files in the second column of a table."""
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row[2])]


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    """Fit a CSV file under a ledger; return the files of dpem whose functions ran."""
    folder = tmp_path_factory.mktemp("walk")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(0, 1, (3000, 2)) + 3 * rng.integers(0, 2, (3000, 1)), columns=["a", "b"])
    rows.to_csv(folder / "rows.csv", index=False)
    ledger = dpem.Ledger.create(folder / "ledger", name="rows", cap_epsilon=5.0, cap_delta=1e-5)
    schema = dpem.Schema({name: {"kind": "continuous", "bounds": [-5, 8]} for name in "ab"})
    seen = set()

    def note(frame, event, argument):
        seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        model = dpem.GaussianMixture(2, epsilon=2.0, schema=schema, ledger=ledger).fit(folder / "rows.csv")
        model.save(folder / "model")
        model.score_samples(rows)
        model.verify_charge(ledger)
        dpem.load(folder / "model")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {Path(name).relative_to(SOURCE).as_posix() for name in seen if name.startswith(str(SOURCE))}


@pytest.mark.parametrize("title", ["A row's walk", "A budget's walk"])
def test_a_fit_runs_the_listed_files(title, visited):
    named = files_in(section(title))
    assert 10 <= len(set(named)) <= MOST_FILES
    assert set(named) <= visited


def test_files_that_did_not_run_are_not_counted(visited):
    assert "models/kmeans/estimator.py" not in visited
    assert "fitting/box_tree.py" in visited  # a mixture starts from private centres


def test_every_file_on_the_page_exists():
    names = re.findall(r"`([\w/]+(?:\.(?:py|js|txt|toml|pyi)|/))`", PAGE)
    assert len(names) > 60
    for name in names:
        own = name in {"estimator.py", "fit.py", "one_shot.py", "summary.py", "trials.py", "__init__.py"}
        assert own or (SOURCE / name).exists() or (ROOT / name).exists(), name


def test_the_page_lists_exactly_the_existing_packages():
    rooms = set(re.findall(r"`([\w]+)/`", section("Rooms")))
    assert rooms == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}


def test_every_package_has_a_docstring_with_its_import_rules():
    for path in SOURCE.rglob("__init__.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        if path.parent.parent == SOURCE:  # a top-level package
            assert re.search(r"May import: .*Never\s+sees:\s", text.split('"""')[1], re.DOTALL), path


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/development/architecture.md"])
def test_example_files_exist(page):
    text = (ROOT / page).read_text()
    for name in re.findall(r"`((?:src|tests|docs|benchmarks)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), name


def test_every_model_folder_is_registered_once():
    folders = {path.parent.name for path in (SOURCE / "models").glob("*/__init__.py")}
    assert folders == set(registry._FOLDERS)
    estimators = [entry.estimator for entry in registry.shipped().values()]
    assert len(set(estimators)) == len(estimators)
    public = {type_ for type_ in estimators if hasattr(dpem, type_.rpartition(":")[2])}
    assert public == set(estimators)
