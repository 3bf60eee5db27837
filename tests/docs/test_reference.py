"""The API reference lists every public name."""

import pkgutil
import re
from pathlib import Path

import dpem
import dpem.audit
import dpem.plot
import dpem.report

INDEX = Path(__file__).parents[2] / "docs" / "reference" / "api" / "index.md"
MODULES = (dpem, dpem.privacy, dpem.paper, dpem.audit, dpem.plot, dpem.report, dpem.testing)


def test_every_public_name_is_in_the_reference():
    listed = {
        name if name.startswith("dpem.") else f"dpem.{name}"
        for name in re.findall(r"^   ([A-Za-z][\w.]*)$", INDEX.read_text(), flags=re.MULTILINE)
    }
    elsewhere = {"dpem.privacy.Ledger", "dpem.privacy.PrivacyStatement"}  # listed as dpem.Ledger, ...
    public = {
        f"{module.__name__}.{name}"
        for module in MODULES
        for name in module.__all__
        if type(getattr(module, name)).__name__ != "module"
    }
    assert public - listed == elsewhere


def test_every_module_is_on_the_page_about_stability():
    page = (INDEX.parents[1] / "stability.md").read_text()
    stable, unstable = page.split("These may change at any time:")
    for module in pkgutil.iter_modules(dpem.__path__, "dpem."):
        if not module.name.startswith("dpem._"):
            kept = any(module.name == public.__name__ for public in (*MODULES, dpem.errors))
            assert f"`{module.name}`" in (stable if kept else unstable), module.name
