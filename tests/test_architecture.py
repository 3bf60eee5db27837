"""Check docs/development/architecture.md: its files exist, and a fit runs the listed files and functions."""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpem
import dpem.loading  # import all models here, so that the profile below sees only functions, not imports
from dpem import _compiled, registry
from dpem.privacy import calibration, gaussian_dp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dpem"
PAGE = (ROOT / "docs" / "development" / "architecture.md").read_text()
MOST_FILES = 25  # in one table, to read for somebody new who follows a row or a budget
N_ROWS = 20_000


def section(title):
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def tables_in(text):
    """Return the second column of each table: pairs of a file and a function (None if a file has none)."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        cells = "; ".join(row.split("|")[2] for row in table.splitlines())
        named = []
        for file, functions in re.findall(r"`([\w/]+\.py)`(?: \(((?:`[\w.]+`(?:, )?)+)\))?", cells):
            named += [(file, name) for name in re.findall(r"`([\w.]+)`", functions)] or [(file, None)]
        found.append(named)
    return found


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    """Fit a CSV file under a ledger; return the functions of dpem that ran, as pairs of file and name.

    The rows have more cells than a block needs for compiled kernels. Calls of kernels are seen too.
    """
    assert _compiled.are_used(2 * N_ROWS)
    folder = tmp_path_factory.mktemp("walk")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        rng.normal(0, 1, (N_ROWS, 2)) + 3 * rng.integers(0, 2, (N_ROWS, 1)), columns=["a", "b"]
    )
    rows.to_csv(folder / "rows.csv", index=False)
    ledger = dpem.Ledger.create(folder / "ledger", name="rows", cap_epsilon=5.0, cap_delta=1e-5)
    schema = dpem.Schema({name: {"kind": "continuous", "bounds": [-5, 8]} for name in "ab"})
    seen = set()
    # An earlier fit with the same plan, or a charge of the same epsilon, would leave calibrations out.
    calibration._factor_of_parts.cache_clear()
    gaussian_dp._epsilon_at.cache_clear()

    def note(frame, event, argument):
        seen.add(frame.f_code)

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
    return {
        (Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname)
        for code in seen
        if code.co_filename.startswith(str(SOURCE))
    }


@pytest.mark.parametrize(("title", "n_tables"), [("A row's walk", 2), ("A budget's walk", 1)])
def test_a_fit_runs_the_listed_files_and_functions(title, n_tables, visited):
    tables = tables_in(section(title))
    assert len(tables) == n_tables
    for named in tables:
        assert 10 <= len({file for file, _ in named}) <= MOST_FILES
        assert [pair for pair in named if pair not in visited] == []  # nor is a file that names no function


def test_the_walk_lists_each_file_that_maps_and_sums_a_row(visited):
    """The first table has all files of row sources and engines that ran, and the kernels of the example."""
    listed = {file for file, _ in tables_in(section("A row's walk"))[0]}
    for file, function in (
        ("data/grid_kernel.py", "rows_to_grid"),
        ("statistics/kernels/gaussian.py", "frame_moments"),
        ("gate/opening.py", "open_gate"),
    ):
        assert (file, function) in visited
        assert file in listed
    files = {file for file, _ in visited}
    ran = {file for file in files if re.match(r"(engines|data/(sources|grid_kernel|domain))", file)}
    helpers = {"data/sources/base.py", "engines/memory.py"}  # of no step: the interface, and the free memory
    assert ran - helpers <= listed | {"engines/__init__.py", "data/sources/__init__.py"}


def test_functions_that_did_not_run_are_noticed(visited):
    files = {file for file, _ in visited}
    assert "models/kmeans/estimator.py" not in files
    assert ("data/domain.py", "Domain.to_grid") not in visited  # the path of small blocks
    assert ("statistics/gaussian.py", "FrameMoments.sum_block") not in visited  # inherited
    text = "|---|---|\n| a step | `gate/plan.py`, `data/domain.py` (`Domain.to_grid`, `onto_grid`) |\n"
    pairs = [("gate/plan.py", None), ("data/domain.py", "Domain.to_grid"), ("data/domain.py", "onto_grid")]
    assert tables_in(text) == [pairs]


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
