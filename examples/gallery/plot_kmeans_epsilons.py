"""
Clusters at four epsilons
=========================

k-means publishes the centres of clusters. A smaller epsilon protects each row
better and moves the centres further. This example fits the same 9,000 generated
customers four times.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

rng = np.random.default_rng(1)
truth = np.array([[30, 20, 2], [50, 80, 5], [70, 40, 12]])
customers = pd.DataFrame(
    np.concatenate(
        [rng.normal(centre, [4, 8, 1], (3000, 3)) for centre in truth]
    ).clip(0),
    columns=["age", "basket", "visits"],
)

# %%
# Fit
# ---
#
# Each column has bounds of its own, from the terms of sale and not from the table.
# Distances are measured in widths of these bounds, so years and euros count alike.
#
# At the smallest epsilon, dpem warns before the charge that noise will hide the
# clusters. The example records the warnings instead of printing them.

bounds = ([16, 0, 0], [100, 300, 50])
models, weak = {}, {}
for epsilon in (0.01, 0.1, 0.3, 1.0):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = dpem.KMeans(3, epsilon=epsilon, delta=1e-6, bounds=bounds)
        models[epsilon] = model.fit(customers)
    weak[epsilon] = [
        one.message
        for one in caught
        if one.category is dpem.errors.WeakSignalWarning
    ]
print(textwrap.fill(str(weak[0.01][0]), 80))

# %%
# Look
# ----
#
# Crosses are the released centres; colours show which centre is nearest to a row.
# The rows make this picture one for the owner of the rows. The centres alone may be
# published.

figure, axes = plt.subplots(
    2, 2, figsize=(8, 6.5), sharex=True, sharey=True, layout="constrained"
)
for ax, (epsilon, model) in zip(axes.flat, models.items(), strict=True):
    dpem.plot.clusters(model, ["age", "basket"], rows=customers[::6], ax=ax)
    ax.set_title(
        f"epsilon = {epsilon:g}" + (", with a warning" if weak[epsilon] else "")
    )
    ax.set(xlim=(16, 100), ylim=(0, 150))
plt.show()

# %%
# Compare
# -------
#
# The standard error is the standard deviation that noise adds to a centre, and it
# is released with the centre. The error is known here only because the rows are
# generated.

print("epsilon  error of ages (years)  standard error (years)")
for epsilon, model in models.items():
    nearest = [
        np.linalg.norm((model.cluster_centers_ - centre) / 100, axis=1).argmin()
        for centre in truth
    ]
    error = np.abs(model.cluster_centers_[nearest] - truth)[:, 0].mean()
    expected = model.standard_errors_["cluster_centers"][:, 0].mean()
    print(f"{epsilon:<8g} {error:>21.2f} {expected:>23.2f}")
