"""
Choosing bounds
===============

Bounds must come from public knowledge, and public knowledge is often vague. This
example shows what bounds cost that are too wide, and what they do if they are too
narrow.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import dpem

# %%
# Two groups of generated rows, whose values lie within -4 and 4.


def rows(n):
    rng = np.random.default_rng(0)
    return np.concatenate(
        [rng.normal(mean, 0.5, (n // 2, 2)) for mean in ([-2, 0], [2, 0])]
    )


def error(X, width):
    """Fit, and return the error of the means in standard deviations of a group."""
    model = dpem.GaussianMixture(
        2, epsilon=1.0, delta=1e-6, bounds=(-width, width)
    ).fit(X)
    means = model.means_[np.argsort(model.means_[:, 0])]
    return np.sqrt(np.mean((means - [[-2, 0], [2, 0]]) ** 2)) / 0.5


# %%
# Fit with six bounds, three times each. Fits of few rows within wide bounds warn
# that noise hides a mean; the example expects these warnings, so it silences them.

widths = [1, 2, 4, 20, 100, 500]
found = {}
with warnings.catch_warnings(action="ignore", category=dpem.errors.DpemWarning):
    for n in (2000, 12_000):
        X = rows(n)
        found[n] = np.array(
            [[error(X, width) for _ in range(3)] for width in widths]
        )

for n, errors in found.items():
    for width, one in zip(widths, np.median(errors, axis=1), strict=True):
        print(f"{n:>6,} rows, bounds ±{width:<3g}: median error {one:.2f}")

# %%
# Look
# ----
#
# With 12,000 rows, bounds twenty-five times too wide cost nothing: the fit finds
# the rows in its first stages, and later noise is relative to where they are. Far
# wider bounds hide the rows from the first stages, and the fit fails. With 2,000
# rows it fails sooner.
#
# Bounds that are too narrow clip rows, and the result is wrong. No warning says so
# here. With a schema, 1 % of the budget buys counts of clipped cells, and a
# ``DataQualityWarning`` names the columns after the fit.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for (n, errors), colour in zip(found.items(), ("C1", "C0"), strict=True):
    ax.plot(widths, np.median(errors, axis=1), color=colour, label=f"{n:,} rows")
    ax.plot(widths, errors, ".", color=colour, alpha=0.4)
ax.axvspan(0.8, 3, color="0.9")
ax.text(1.55, 3, "rows are\nclipped", ha="center", va="center")
ax.set(xscale="log", yscale="log", xlim=(0.8, 650))
ax.set_xticks(widths, [f"±{width:g}" for width in widths])
ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
ax.minorticks_off()
ax.set(
    xlabel="bounds (all rows lie within ±4)",
    ylabel="error of the means\n(standard deviations of a group)",
)
ax.set_title("error of the means against the width of the bounds")
ax.legend(title="epsilon 1")
plt.show()
