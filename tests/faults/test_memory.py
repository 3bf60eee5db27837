"""If memory runs out during a fit, the charge stays, and no partial file is left."""

import resource
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpem
from dpem import Ledger
from support.processes import Died, apart, limited


def _size():
    """Return the size of this process's address space."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _fit(folder, n_jobs, n_rows):
    """Fit blocks of rows, the last one large, with little more memory than a small fit needs."""
    warnings.simplefilter("ignore")

    def blocks():
        for n in (1000, n_rows):
            yield np.zeros((n, 4))

    names = {name: {"kind": "continuous", "bounds": [-1, 1]} for name in "abcd"}
    model = dpem.KMeans(
        3, epsilon=1.0, delta=1e-6, schema=dpem.Schema(names), adjacency="add_remove", n_jobs=n_jobs
    )
    model.fit(np.zeros((9000, 4)))  # linear algebra allocates its memory once, and would wait for it forever
    model.set_params(ledger=folder / "ledger")
    with limited(resource.RLIMIT_AS, _size() + 2**26):
        model.fit(blocks)
        model.save(folder / "model")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_without_memory_stays_charged(tmp_path, n_jobs):
    """The fit raises, also from a worker, and succeeds later with enough memory."""
    terms = {"name": "x", "cap_epsilon": 3.0, "cap_delta": 1e-6, "adjacency": "add_remove"}
    ledger = Ledger.create(tmp_path / "ledger", **terms)
    with pytest.raises((MemoryError, Died)) as caught:
        apart(_fit, tmp_path, n_jobs, 10**8)
    if isinstance(caught.value, MemoryError):
        assert "stays charged" in caught.value.notes[0]
    ledger.verify()
    assert len(ledger.history()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["ledger"]
    apart(_fit, tmp_path, n_jobs, 1000)
    assert len(ledger.history()) == 2
    dpem.load(tmp_path / "model").verify_charge(ledger)
