"""
A synthetic table beside a real one
===================================

``MixedMixture`` generates a table with all columns of a register, of every kind.
This example compares 10,000 synthetic patients with the (generated) register that
the model was fitted to.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

rng = np.random.default_rng(4)
n = 10_000
age = rng.integers(0, 100, n)
register = pd.DataFrame(
    {
        "age": age,
        "ward": np.where(
            rng.random(n) < age / 110,
            "geriatrics",
            rng.choice(["surgery", "internal"], n),
        ),
        "hba1c": np.where(
            rng.random(n) < 0.2, np.nan, rng.normal(5 + age / 60, 0.5)
        ),
        "readmitted": rng.random(n) < age / 300,
    }
)

# %%
# Fit and sample
# --------------
#
# Sampling is free and can be repeated: the guarantee is that of the model.

schema = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "ward": {
            "kind": "categorical",
            "categories": ["geriatrics", "surgery", "internal"],
            "outside": "internal",
        },
        "hba1c": {
            "kind": "continuous",
            "bounds": [3, 15],
            "unit": "%",
            "missing": True,
        },
        "readmitted": {"kind": "boolean"},
    }
)
model = dpem.MixedMixture(
    schema=schema, epsilon=1.0, delta=1e-6, random_state=0
).fit(register)
synthetic = model.sample(n)
print(synthetic.head().to_string(index=False))

# %%
# Margins
# -------
#
# A margin is the distribution of one column. The picture shows the margins of the
# register as well, so it is for the owner of the register only.
# ``dpem.plot.margins(model)`` without rows may be published.

figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
dpem.plot.margins(model, rows=register, axes=axes)
plt.show()

# %%
# Association
# -----------
#
# How strongly each pair of columns depends on each other, in the register and in
# the synthetic table.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
dpem.plot.association(register, ax=left)
left.set_title("register: for its owner only")
dpem.plot.association(synthetic, ax=right)
right.set_title("synthetic table")
plt.show()

# %%
# A number for the owner
# ----------------------
#
# Total variation is 0 if two tables agree, and 1 if they have nothing in common.
# The comparison says in its first line who may see it.

print(dpem.compare_tables(register, synthetic, schema))
