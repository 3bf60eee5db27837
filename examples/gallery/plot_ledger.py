"""
A ledger fills up
=================

A ledger limits everything that is released from one table. Each fit charges it
before any value is read. This example spends a budget until a fit is rejected.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dpem
from dpem.privacy.gaussian_dp import epsilon_at, mu_for

# %%
# The owner of the table creates the ledger once. Its cap cannot be changed.

people = dpem.testing.trial_table("age_income")
schema = dpem.Schema(
    {
        "age": {"kind": "continuous", "bounds": [0, 120], "unit": "years"},
        "income": {"kind": "continuous", "bounds": [0, 300_000], "unit": "EUR"},
    }
)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "people.ledger"
dpem.Ledger.create(path, name="people 2026", cap_epsilon=2.0, cap_delta=1e-6)

# %%
# Spend
# -----
#
# Analysts open the ledger and name it in their fits. The last fit is too expensive:
# it is rejected, no value is read, and nothing is charged.

ledger = dpem.Ledger(path, analyst="analyst")
budget = {"delta": 1e-6, "schema": schema, "ledger": ledger}
for model in (
    dpem.KMeans(3, epsilon=0.8, **budget),
    dpem.GaussianMixture(3, epsilon=1.0, **budget),
    dpem.MixedMixture(epsilon=1.0, **budget),
    dpem.KMeans(6, epsilon=1.5, **budget),
):
    try:
        model.fit(people)
        verdict = "charged"
    except dpem.errors.InsufficientBudgetError:
        verdict = "rejected"
    name, left = type(model).__name__, ledger.remaining().epsilon
    print(
        f"{verdict:<9} {name:<16} epsilon = {model.epsilon:g}; {left:.2f} is left"
    )

# %%
# Look
# ----
#
# Squares of mu add up, and epsilons do not. So three fits at epsilon 0.8, 1 and 1
# stay below a cap of 2. The rejected fit would have gone beyond it.

spent = [record.cost.mu for record in ledger.history()]
before = epsilon_at(np.linalg.norm(spent), 1e-6)
after = epsilon_at(np.linalg.norm([*spent, mu_for(1.5, 1e-6)]), 1e-6)

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
dpem.plot.ledger(ledger, ax=ax)
ax.barh(
    3,
    after - before,
    0.7,
    left=before,
    facecolor="none",
    edgecolor="C1",
    hatch="///",
)
ax.set_yticks(
    range(4),
    [
        *(f"{record.number} {record.purpose}" for record in ledger.history()),
        "rejected",
    ],
)
ax.set(ylim=(3.6, -0.6), xlim=(0, 2.5))
ax.set_title("epsilon spent after each charge, below the cap")
plt.show()

# %%
# Every charge is a record with its date, purpose and analyst.

for record in ledger.history():
    print(
        record.number,
        record.purpose,
        record.analyst,
        f"epsilon = {record.cost.epsilon:.3g} alone",
    )
folder.cleanup()
