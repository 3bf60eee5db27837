"""Write docs/_static/sample-report.html: the report of the commands of the privacy officer's tutorial.

The rows are those of `dpem demo`. The report is written when the documentation is built.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dpem
from dpem.generated_tables import PATIENTS_SCHEMA, patients
from dpem.report import write_report

PAGE = Path(__file__).parents[1] / "_static" / "sample-report.html"


def write_page(*_: Any) -> None:
    """Fit, charge and write the report; called when Sphinx begins."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "register.ledger"
        dpem.Ledger.create(path, name="demo patients", cap_epsilon=2.0, cap_delta=1e-6)
        ledger = dpem.Ledger(path, purpose="age and weight of patients", analyst="epidemiology")
        schema = PATIENTS_SCHEMA.select(["age", "bmi"])
        model = dpem.GaussianMixture(3, epsilon=1.0, delta=1e-6, schema=schema, ledger=ledger)
        write_report(model.fit(patients(3000, 0)), PAGE, ledger=ledger)


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
