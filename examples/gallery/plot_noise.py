"""
What noise does
===============

A private fit adds noise to what it releases. This example fits the same generated
rows many times at four epsilons, to show how far the noise moves a result, and when
dpem warns.
"""

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

import dpem

rng = np.random.default_rng(0)
X = np.concatenate(
    [rng.normal(mean, 1.0, (2000, 2)) for mean in ([-4, -2], [0, 3], [4, -2])]
)

# %%
# Fit twenty times
# ----------------
#
# Each fit draws new noise. On real rows each fit would be a release with a charge
# of its own; to learn how large the noise is, nobody needs to repeat a fit, because
# every model states its standard errors.

epsilons = (1.0, 0.2, 0.08, 0.02)
models, warned = {}, {}
for epsilon in epsilons:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models[epsilon] = [
            dpem.KMeans(3, epsilon=epsilon, bounds=(-10, 10)).fit(X)
            for _ in range(20)
        ]
    warned[epsilon] = caught

# %%
# Look
# ----
#
# Each cross is a centre of one of the twenty fits. From left to right the noise
# grows.

figure, axes = plt.subplots(
    1, 4, figsize=(11, 3.4), sharex=True, sharey=True, layout="constrained"
)
for ax, epsilon in zip(axes, epsilons, strict=True):
    centres = np.concatenate([model.cluster_centers_ for model in models[epsilon]])
    ax.plot(*X[::5].T, ".", color="0.8", markersize=2)
    ax.plot(*centres.T, "x", color="C1", markersize=6)
    ax.set(
        title=f"epsilon = {epsilon:g}",
        xlim=(-10.8, 10.8),
        ylim=(-10.8, 10.8),
        aspect="equal",
    )
figure.suptitle(
    "60 centres of 20 fits, and some of the rows (for their owner only)"
)
plt.show()

# %%
# When dpem warns
# ---------------
#
# ``WeakSignalWarning`` comes before the charge, from public numbers.
# ``WeakFitWarning`` comes after the fit, from the released standard errors.


def count(epsilon, category):
    return sum(one.category is category for one in warned[epsilon])


signal, fit = dpem.errors.WeakSignalWarning, dpem.errors.WeakFitWarning
print("epsilon  standard error  WeakSignalWarning  WeakFitWarning")
for epsilon in epsilons:
    errors = [
        model.standard_errors_["cluster_centers"] for model in models[epsilon]
    ]
    counts = f"{count(epsilon, signal):>12} of 20 {count(epsilon, fit):>9} of 20"
    print(f"{epsilon:<8g} {np.median(errors):>14.2f} {counts}")
print()
message = next(one.message for one in warned[0.02] if one.category is signal)
print(textwrap.fill(str(message), 80))
