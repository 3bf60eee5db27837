"""
Choosing epsilon
================

The planner computes the noise of a fit from public numbers, so it can be asked for any epsilon, free of
charge. This example draws the planner's curve, then fits generated rows to show that the fits do what
the planner said.
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
# The analysis can bear an error of half a year in the mean age of a group. The planner needs the number
# of rows, and a guess of how far ages spread within a group. Without a guess it takes a tenth of the
# width of the bounds.

schema = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "stay": {"kind": "integer", "bounds": [0, 90], "unit": "days"},
    }
)
n_rows, spread = 3000, {"age": 6, "stay": 4}
model = dpem.GaussianMixture(3, epsilon=1.0, delta=1e-6, schema=schema)
needed = dpem.epsilon_needed(model, n_rows, {"age": 0.5}, spread=spread)
print(f"half a year needs epsilon = {needed:g}")

# %%
# Fit
# ---
#
# The rows are generated, so this example may fit them as often as it likes. Real rows would be charged
# for each fit: one table has one budget, and one good fit is better than several tries.

rng = np.random.default_rng(0)
centres = rng.permutation(np.repeat([[25, 5], [50, 15], [75, 30]], n_rows // 3, axis=0))
table = pd.DataFrame(rng.normal(centres, [6, 4]), columns=["age", "stay"])
table = table.round().clip(0, 90)
plain = dpem.GaussianMixture(3, epsilon=math.inf, schema=schema, random_state=0).fit(table)
ages = np.sort(plain.means_[:, 0])

epsilons = [0.5, 0.7, 1.0, 2.0]
errors = []
for epsilon in epsilons:
    fits = [model.set_params(epsilon=epsilon).fit(table).means_[:, 0] for _ in range(6)]
    errors.append(np.sqrt(np.mean([(np.sort(means) - ages) ** 2 for means in fits])))
    print(f"epsilon = {epsilon:<4g} noise in a mean age: {errors[-1]:.2f} years")

# %%
# Look
# ----
#
# The curve is the planner's, and each dot comes from six fits. Noise is not the only error: another
# 3,000 people would have other means, whatever epsilon is.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
dpem.plot.noise(model, n_rows, epsilons=np.geomspace(0.2, 4, 12), spread=spread, ax=ax)
ax.scatter(epsilons, errors, color="black", zorder=3, label="error of a mean age in six fits")
ax.axhline(0.5, color="0.5", linestyle=":", label="wanted: half a year")
ax.legend()
plt.show()
