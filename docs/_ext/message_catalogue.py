"""Write docs/reference/messages.md: every exception and warning of dpem with a message that it really gave.

Each example is a snippet that is executed in an empty folder when the documentation is built; the page
shows the message that was raised. `tests/docs/test_messages.py` checks that no class is missing and that
each snippet gives its own class.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpem import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "reference" / "messages.md"

SET_UP = """
import numpy as np
import dpem
X = np.random.default_rng(0).normal([[30.0, 24.0]] * 500 + [[70.0, 28.0]] * 500, 4.0)
"""


@dataclass(frozen=True)
class Example:
    """A snippet that makes dpem raise or warn, and what a user should do about the message."""

    snippet: str
    remedy: str
    alone: bool = False  # needs a process of its own, which it leaves changed, or which must be fresh


EXAMPLES: dict[str, Example] = {
    "InvalidArgumentError": Example(
        """
        dpem.KMeans(2, epsilon=-1.0, bounds=(0, 100)).fit(X)
        """,
        "Correct the argument that the message names.",
    ),
    "UnsupportedEventError": Example(
        """
        from dpem.privacy import GaussianEvent, accountant_named
        accountant_named("pld").epsilon(GaussianEvent(1e-3), 1e-5)
        """,
        "Use the default accountant `gdp`.",
    ),
    "InsufficientBudgetError": Example(
        """
        ledger = dpem.Ledger.create("survey.ledger", name="survey", cap_epsilon=1.0, cap_delta=1e-6)
        dpem.KMeans(2, epsilon=3.0, bounds=(0, 100), ledger=ledger).fit(X)
        """,
        "Fit with a smaller epsilon. What is left is rounded down, so an unused cap of 1 shows as 0.999999. "
        "Only the data owner can decide on more budget, in a new ledger.",
    ),
    "UnreachableBudgetError": Example(
        """
        from dpem.privacy import GaussianEvent, calibrate
        from dpem.privacy.accountants import MomentsAccountant
        calibrate(GaussianEvent(1.0), 0.05, 1e-4, MomentsAccountant(max_order=100))
        """,
        "Use the default accountant `gdp`, which has no such limit, or a larger epsilon or delta.",
    ),
    "DataError": Example(
        """
        import pandas as pd
        table = pd.DataFrame(X, columns=["age", "bmi"])
        table.to_parquet("rows.parquet", row_group_size=100)
        with open("rows.parquet", "r+b") as file:
            file.seek(1000)
            file.write(bytes(2000))
        dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit("rows.parquet")
        """,
        "Repair or exclude the file. The charge stays on the ledger; with `dpem.resumable` a fit continues.",
    ),
    "ChangedDataError": Example(
        """
        lengths = [900, 1000, 1000]
        dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(lambda: iter([X[: lengths.pop()]]))
        """,
        "Keep the table unchanged while a fit reads it: every pass must see the same rows in the same order.",
    ),
    "EngineError": Example(
        """
        import dask
        import dask.dataframe as dd
        import pandas as pd
        meta = pd.DataFrame({"age": [0.0], "bmi": [0.0]})
        parts = [dask.delayed(pd.read_parquet)("moved.parquet")]
        table = dd.from_delayed(parts, meta=meta, verify_meta=False)
        dpem.KMeans(2, epsilon=1.0, bounds=(0, 100), adjacency="add_remove").fit(table)
        """,
        "Read the logs of the cluster, repair the cause, and continue with `dpem.resumable`.",
    ),
    "ExactArithmeticError": Example(
        """
        from dpem.statistics.exact import exact_product
        exact_product(np.ones((1, 1)), np.ones((1, 1)), bound=2.0**60)
        """,
        "Use NumPy's own wheels. The other cause, a BLAS library whose products of integers are not exact, "
        "has not been seen on supported platforms.",
    ),
    "PlanViolationError": Example(
        """
        from dpem.engines import LocalEngine
        from dpem.gate.plan import Plan, Stage
        from dpem.gate.release import ReleaseGate
        from dpem.data import Domain, TableRows
        from dpem.statistics.simple import Sums
        sums = Sums(2, counted=False)
        stages = [Stage("sum", 1.0, sums.sensitivity("replace_one"))]
        plan = Plan.build(stages, epsilon=1.0, delta=1e-6, adjacency="replace_one")
        domain = Domain.from_arguments(2, data_norm=100.0)
        gate = ReleaseGate(plan, TableRows(X), domain, LocalEngine(), ledger=None, purpose="two sums")
        for _ in range(2):
            gate.release("sum", sums)
        """,
        "Report it: no model of dpem should leave its plan. In a model of your own, plan every release.",
    ),
    "OtherReleaseError": Example(
        """
        model = dpem.KMeans(2, epsilon=1.0, bounds=(0, 100))
        with dpem.testing.record() as transcript:
            model.fit(X)
        with dpem.testing.replay(transcript):
            dpem.GaussianMixture(2, epsilon=1.0, bounds=(0, 100)).fit(X)
        """,
        "Replay a transcript with the estimator and arguments that wrote it.",
    ),
    "ResumeFileError": Example(
        """
        open("fit.resume", "w").write("notes")
        with dpem.resumable("fit.resume"):
            dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(X)
        """,
        "Name a new file, or continue with the arguments and rows that the file was written for.",
    ),
    "AuditFailedError": Example(
        """
        other = X.copy()
        other[:2] = 100.0  # two rows differ, and the guarantee is for one
        model = dpem.KMeans(2, epsilon=1.0, bounds=(0, 100), max_iter=1)
        dpem.audit.replay(model, X, [(X, other)]).require()
        """,
        "Treat it as a privacy bug: do not publish, and [report it](../development/reporting.md).",
    ),
    "ModelFileError": Example(
        """
        open("groups.dpem", "w").write("not a model")
        dpem.load("groups.dpem")
        """,
        "Check that the file is complete and was written by `model.save`; a newer file needs a newer dpem.",
    ),
    "OutputError": Example(
        """
        model = dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(X)
        model.save("no_such_folder/groups.dpem")
        """,
        "Create the folder, or name another file.",
    ),
    "LedgerError": Example(
        """
        dpem.Ledger("missing.ledger").remaining()
        """,
        "Correct the path, or create the ledger with `dpem.Ledger.create` or `dpem budget init`.",
    ),
    "LedgerTamperedError": Example(
        """
        import sqlite3
        ledger = dpem.Ledger.create("survey.ledger", name="survey", cap_epsilon=1.0, cap_delta=1e-6)
        dpem.KMeans(2, epsilon=0.5, bounds=(0, 100), ledger=ledger).fit(X)
        file = sqlite3.connect("survey.ledger")
        for (trigger,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            file.execute(f"DROP TRIGGER {trigger}")
        file.execute("UPDATE spend SET purpose = 'another' WHERE number = 1")
        file.commit()
        file.close()
        dpem.Ledger("survey.ledger").verify()
        """,
        "Stop releasing from the table. Restore the ledger from a backup whose head matches a kept one.",
    ),
    "MissingExtraError": Example(
        """
        import sys
        sys.modules["dp_accounting"] = None
        from dpem.privacy import accountant_named
        accountant_named("pld")
        """,
        "Install the extra that the message names.",
        alone=True,
    ),
    "InsecureNoiseWarning": Example(
        """
        with dpem.testing.insecure_noise(0):
            dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(X)
        """,
        "Use seeded noise in tests and experiments only; never publish such a model.",
    ),
    "DataQualityWarning": Example(
        """
        import pandas as pd
        table = pd.DataFrame({"age": X[:, 0] + 60, "bmi": X[:, 1]})
        schema = dpem.Schema({
            "age": {"kind": "continuous", "bounds": [0, 90]},
            "bmi": {"kind": "continuous", "bounds": [10, 60]},
        })
        dpem.GaussianMixture(2, epsilon=8.0, schema=schema).fit(table)
        """,
        "Declare wider bounds or further categories, as far as public knowledge and the released shares "
        "justify them. For unreadable or missing cells, `dpem check` shows how they are written. "
        "[One rule](../guide/schema.md#what-may-depend-on-the-rows) says what may depend on the rows. "
        "The next fit is charged again "
        "([ordered list](../how-to/when-the-result-looks-wrong.md#remedies-data-quality)).",
    ),
    "DeltaWarning": Example(
        """
        dpem.KMeans(2, epsilon=1.0, delta=0.01, bounds=(0, 100)).fit(X)
        """,
        "Choose delta well below one over the number of rows.",
    ),
    "FewerComponentsWarning": Example(
        """
        dpem.GaussianMixture(8, epsilon=0.5, bounds=(0, 100)).fit(X)
        """,
        "Accept the smaller model, or use the epsilon that the message names "
        "([ordered list](../how-to/when-the-result-looks-wrong.md#remedies-fewer-components)).",
    ),
    "LargeEpsilonWarning": Example(
        """
        dpem.KMeans(2, epsilon=50.0, bounds=(0, 100)).fit(X)
        """,
        "Choose an epsilon from 0.1 to 1, or at most 10; use fewer clusters or more rows against the noise.",
    ),
    "NoLedgerWarning": Example(
        """
        for _ in range(2):
            dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(X)
        """,
        "Pass `ledger=`, so that the sum of all charges to a table is known.",
        alone=True,
    ),
    "ModelWarning": Example(
        """
        class Mean(dpem.ExponentialFamily):
            def start(self, schema, random_state, centres):
                return {"mean": 0.5}
            def expected_statistics(self, row, parameters):
                return row
            def m_step(self, statistics, parameters, n_rows, noise):
                if noise < 10:
                    raise ValueError("no solution")
                return {"mean": statistics[0] / n_rows}
            def norm_bound(self, schema):
                return 1.0
        dpem.PrivateEM(Mean(), epsilon=5.0, bounds=(0, 1), max_iter=1).fit(X[:, :1] / 100)
        """,
        "Make `m_step` robust to noisy sums: negative counts, sums outside their range.",
    ),
    "RepeatedChargeWarning": Example(
        """
        ledger = dpem.Ledger.create("trial.ledger", name="trial", cap_epsilon=3.0, cap_delta=1e-6)
        for run in range(2):
            dpem.KMeans(2, epsilon=1.0, bounds=(0, 100), ledger=ledger).fit(X)
        """,
        "Load the saved model instead of fitting again, such as after a cell of a notebook ran twice. If a "
        "further fit is intended, ignore the warning, or record another purpose with "
        "`dpem.Ledger(path, purpose=...)`.",
    ),
    "ResumedFitWarning": Example(
        """
        passes = iter(range(100))
        def rows():
            if next(passes) == 4:
                raise KeyboardInterrupt
            yield X
        for attempt in range(2):
            try:
                with dpem.resumable("fit.resume"):
                    dpem.KMeans(2, epsilon=1.0, bounds=(0, 100)).fit(rows)
            except KeyboardInterrupt:
                continue
        """,
        "Nothing to do: the fit continues without a second charge.",
    ),
    "WeakFitWarning": Example(
        """
        dpem.KMeans(16, epsilon=0.5, bounds=(0, 100)).fit(X[:500])
        """,
        "Do not interpret what the message names. This fit has paid; the "
        "[ordered list of remedies](../how-to/when-the-result-looks-wrong.md#remedies-weak-fit) starts with "
        "what is free.",
    ),
    "WeakSignalWarning": Example(
        """
        dpem.KMeans(8, epsilon=0.05, bounds=(0, 100)).fit(X)
        """,
        "Plan before you fit: the plan gives the same warning and charges nothing. Then follow the "
        "[ordered list of remedies](../how-to/when-the-result-looks-wrong.md#remedies-weak-signal).",
    ),
}


def message_of(name: str) -> str:
    """Execute an example in an empty folder; return the message of the class `name` that it gave."""
    if EXAMPLES[name].alone:
        program = f"import message_catalogue; print(message_catalogue.executed({name!r}))"
        found = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
        return found.stdout.strip()
    return executed(name)


def executed(name: str) -> str:
    """Execute an example in this process; return its message."""
    wanted = getattr(errors, name)
    snippet = textwrap.dedent(EXAMPLES[name].snippet)
    program = compile(SET_UP + snippet, f"<example of {name}>", "exec")
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            exec(program, {"__name__": "example"})
        except wanted as error:
            return _public(str(error), folder)
    for warning in caught:
        if isinstance(warning.message, wanted):
            return _public(str(warning.message), folder)
    raise AssertionError(f"The example of {name} gave no {name}.")


def _public(message: str, folder: str) -> str:
    """Return a message without the temporary folder."""
    return message.replace(str(Path(folder).resolve()) + os.sep, "").replace(folder + os.sep, "")


def classes() -> list[str]:
    """Return the names of all concrete classes of dpem.errors, in the order of the module."""
    own = [name for name, found in vars(errors).items() if inspect.isclass(found) and name in errors.__all__]
    bases = {base.__name__ for name in own for base in getattr(errors, name).__bases__}
    return [name for name in own if name not in bases or name in EXAMPLES]


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Messages"
    yield ""
    yield (
        "Every exception and warning of dpem, with a message that it gives and what to do about it. All "
        "exceptions derive from `dpem.errors.DpemError`, all warnings from `dpem.errors.DpemWarning`. "
        "Messages depend on public facts or released values only: no message contains a value of the table. "
        "An exception before the charge spends nothing."
    )
    yield ""
    yield "The examples run when this page is built, after these lines:"
    yield from ("", "```python", *SET_UP.strip().splitlines(), "```", "")
    for heading, base in (("Exceptions", Exception), ("Warnings", Warning)):
        yield from (f"## {heading}", "")
        for name in classes():
            found = getattr(errors, name)
            if issubclass(found, Warning) is (base is Warning):
                yield from _section(name, found)


def _section(name: str, found: type[Any]) -> Iterator[str]:
    example = EXAMPLES[name]
    first = re.split(r"\n\s*\n", inspect.cleandoc(found.__doc__ or ""))[0].replace("\n", " ")
    parent = found.__bases__[0].__name__
    yield from (f"(message-{name})=", f"### {name}", "", f"{first} *Base class: `{parent}`.*", "")
    yield from ("```python", *textwrap.dedent(example.snippet).strip().splitlines(), "```", "")
    yield from ("```text", *textwrap.wrap(message_of(name), 100), "```", "")
    yield from (f"**What to do.** {example.remedy}", "")


def write_page(*_: Any) -> None:
    """Write the page; called when Sphinx begins."""
    PAGE.write_text("\n".join(lines()), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
