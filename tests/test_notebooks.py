"""The notebooks in examples/ run from top to bottom.

python tests/test_notebooks.py     runs them and saves their output
"""

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def run(path):
    """Run a notebook and return it with its output; an exception in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    return notebook


def shown(notebook):
    """Return all printed text of the cells."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # ignore the user's own settings
    text = shown(run(path))
    assert "Warning" not in text
    if path.stem == "patients":
        assert "left on ledger 'patients 2026'" in text
    else:
        assert "is better than the paper's method" in text
        assert "no violation" in text


if __name__ == "__main__":
    for name in NOTEBOOKS:
        nbformat.write(run(name), name)
        print(f"Ran {name.name}", file=sys.stderr)
