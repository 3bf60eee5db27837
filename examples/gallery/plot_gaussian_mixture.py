"""
The density of two columns
==========================

A Gaussian mixture describes how the rows of a table are spread. This example fits
one to 10,000 generated patients, draws the released density beside the rows, and
publishes a second density whose columns are skewed.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

# %%
# Declare and fit
# ---------------
#
# The schema states the bounds of each column. They come from public knowledge,
# never from the rows.

rng = np.random.default_rng(0)
young = rng.normal([30, 24], [6, 3], (6000, 2))
old = rng.normal([70, 28], [8, 4], (4000, 2))
patients = pd.DataFrame(np.concatenate([young, old]), columns=["age", "bmi"])

schema = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "bmi": {"kind": "continuous", "bounds": [10, 60]},
    }
)
model = dpem.GaussianMixture(2, epsilon=1.0, delta=1e-6, schema=schema).fit(
    patients
)

components = pd.DataFrame(model.means_, columns=["age", "bmi"])
components["share"] = model.weights_
components["standard error of age"] = model.standard_errors_["means"][:, 0]
print(components.round(2).to_string(index=False))

# %%
# Look
# ----
#
# The left picture shows rows, so it is for the owner of the rows only. The right
# one shows the released density, and may be published. Its contours enclose equal
# parts of the probability.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained"
)
left.scatter(
    patients["age"][::5], patients["bmi"][::5], s=3, color="0.5", linewidths=0
)
left.set(title="rows: for their owner only", xlabel="age (years)", ylabel="bmi")
dpem.plot.density(model, ax=right)
right.set_title("released density, epsilon 1")
right.set(xlim=(0, 120), ylim=(10, 50))
plt.show()

# %%
# Skewed columns
# --------------
#
# Incomes and rents have long tails, and Gaussian components do not. The logarithm
# of each cell is a public function of its row, so it costs nothing. The bounds
# become logarithms, too.

income = rng.lognormal(10.3, 0.5, 20_000)
rent = income / 12 * rng.uniform(0.2, 0.4, 20_000)
rows = np.log(np.column_stack([income, rent]))
bounds = (np.log([1000, 50]), np.log([1_000_000, 20_000]))
model = dpem.GaussianMixture(4, epsilon=1.0, delta=1e-6, bounds=bounds).fit(rows)

# %%
# Rows drawn from the density go back to euros. They belong to nobody.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
dpem.plot.density(model, ax=left)
left.set(
    title="released density of the logarithms",
    xlabel="log of income",
    ylabel="log of rent",
)
left.set(xlim=np.log([8000, 150_000]), ylim=np.log([120, 4000]))
drawn = np.exp(model.sample(4000, random_state=0)) / [1000, 1]
right.scatter(*drawn.T, s=3, color="C0", alpha=0.5, linewidths=0)
right.set(
    title="4,000 synthetic rows",
    xlabel="income (thousand EUR a year)",
    ylabel="rent (EUR a month)",
)
right.set(xlim=(0, 120), ylim=(0, 3500))
plt.show()
