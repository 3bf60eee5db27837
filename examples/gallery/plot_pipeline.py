"""
A scikit-learn pipeline
=======================

dpem's estimators are scikit-learn estimators. In a pipeline, every step that learns
from rows must be private: this example replaces ``StandardScaler`` and ``KMeans``,
and keeps the logarithm, which learns nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import dpem

rng = np.random.default_rng(0)
kind = rng.choice(3, 12_000, p=[0.5, 0.3, 0.2])
customers = pd.DataFrame(
    {
        "basket": rng.lognormal(np.log(np.array([15, 60, 300]))[kind], 0.35),
        "visits": rng.lognormal(np.log(np.array([30, 4, 12]))[kind], 0.35),
    }
)

# %%
# Two pipelines
# -------------
#
# ``StandardScaler`` learns means and deviations from the rows without noise.
# ``BoundsScaler`` maps public bounds to 0 and 1 and learns nothing. The bounds are
# those of the logarithms, and the model behind the scaler has the bounds 0 and 1.

logarithm = FunctionTransformer(np.log, feature_names_out="one-to-one")
bounds = (np.log([1, 1]), np.log([5000, 500]))

plain = make_pipeline(logarithm, StandardScaler(), KMeans(3, random_state=0))
private = make_pipeline(
    logarithm,
    dpem.BoundsScaler(bounds=bounds),
    dpem.KMeans(3, epsilon=0.5, delta=1e-6, bounds=(0, 1)),
)
plain.fit(customers)
private.fit(customers)

# %%
# Centres go back to euros with the inverse of the steps before them.


def centres(pipeline):
    found = pipeline[-1].cluster_centers_
    return np.exp(pipeline[1].inverse_transform(found))


for name, pipeline in (("scikit-learn", plain), ("dpem", private)):
    print(name)
    print(
        pd.DataFrame(centres(pipeline), columns=customers.columns)
        .sort_values("basket")
        .round(1)
        .to_string(index=False)
    )

# %%
# Look
# ----
#
# The labels of ``predict`` are as sensitive as the rows, so both pictures are for
# the owner of the rows. The centres of the right one may be published.

figure, axes = plt.subplots(
    1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained"
)
for ax, title, pipeline in zip(
    axes,
    ("scikit-learn, non-private", "dpem, epsilon 0.5"),
    (plain, private),
    strict=True,
):
    order = np.argsort(np.argsort(centres(pipeline)[:, 0]))
    colours = np.array(["C0", "C1", "C2"])[order[pipeline.predict(customers)]]
    ax.scatter(
        customers["basket"][::3], customers["visits"][::3], c=colours[::3], s=2
    )
    ax.plot(*centres(pipeline).T, "kX", markersize=10, markeredgecolor="white")
    ax.set(
        title=title,
        xscale="log",
        yscale="log",
        xlabel="basket (EUR)",
        ylabel="visits",
    )
plt.show()
