"""
Choosing epsilon
================

The planner computes the noise of a fit from public numbers, so it can be asked for
any epsilon, free of charge. This example draws the planner's curve, then fits
generated rows to show that the fits do what the planner said.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

# %%
# Ask the planner
# ---------------
#
# The analysis can bear an error of 0.2 years in the mean age of a group. The
# planner needs the number of rows, and a guess of how far ages spread within a
# group. Without a guess it takes a tenth of the width of the bounds.

schema = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "stay": {"kind": "integer", "bounds": [0, 90], "unit": "days"},
    }
)
n_rows, spread = 12_000, {"age": 6, "stay": 4}
model = dpem.GaussianMixture(3, epsilon=1.0, delta=1e-6, schema=schema)
needed = dpem.epsilon_needed(model, n_rows, {"age": 0.2}, spread=spread)
print(f"0.2 years need epsilon = {needed:g}")

# %%
# Fit
# ---
#
# The rows are generated, so this example may fit them as often as it likes. Real
# rows would be charged for each fit: one table has one budget, and one good fit is
# better than several tries.

rng = np.random.default_rng(0)
centres = rng.permutation(
    np.repeat([[25, 15], [50, 30], [75, 50]], n_rows // 3, axis=0)
)
table = pd.DataFrame(rng.normal(centres, [6, 4]), columns=["age", "stay"])
table = table.round().clip(0, 90)
plain = dpem.GaussianMixture(
    3, epsilon=math.inf, schema=schema, random_state=0
).fit(table)


def means_by_age(model):
    return model.means_[model.means_[:, 0].argsort()]


epsilons = [0.5, 0.7, 1.0, 2.0]
errors = []
for epsilon in epsilons:
    fits = [
        means_by_age(model.set_params(epsilon=epsilon).fit(table)) for _ in range(6)
    ]
    age, stay = np.sqrt(np.mean((fits - means_by_age(plain)) ** 2, axis=(0, 1)))
    errors.append(max(age / 6, stay / 4))
    print(
        f"epsilon = {epsilon:<3g} noise in means: {age:.2f} years, {stay:.2f} days"
    )

# %%
# Look
# ----
#
# The curves are the planner's: noise as a part of the spread of a group, in the
# noisiest column. The black dots are the noise in the means of six fits. They
# should lie near the line of the means.
#
# The planner assumes that a fit finds the groups. Left of the dots some fits would
# start from wrong centres; dpem warns of such a fit after it. Nor is noise the only
# error: another 12,000 people would have other means, whatever epsilon is.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
dpem.plot.noise(model, n_rows, [0.2, 0.3, 0.5, 0.7, 1, 2, 4], spread=spread, ax=ax)
ax.plot(epsilons, errors, "ko", markersize=8, zorder=3, label="means of six fits")
ax.axhline(0.2 / 6, color="C1", linestyle=":")
ax.text(4, 0.2 / 6, "wanted: 0.2 years", color="C1", ha="right", va="bottom")
ax.legend(loc="lower left", frameon=False)
ax.set_title("planned noise and the noise of fits, against epsilon")
ax.set_ylim(0.001, 1.5)
plt.show()
