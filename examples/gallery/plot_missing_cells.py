"""
Missing cells
=============

A quarter of the cells of a table are missing. By default, a Gaussian mixture
without a schema moves a row with a missing cell to the middle of the bounds. With
``missing="em"`` it uses the cells that are there.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpem

rng = np.random.default_rng(0)
covariance = [[4.0, 1.5], [1.5, 1.0]]
whole = np.concatenate(
    [rng.multivariate_normal(mean, covariance, 6000) for mean in ([-5, -3], [5, 3])]
)
holes = whole.copy()
holes[rng.random(whole.shape) < 0.25] = np.nan
print(f"rows with a missing cell: {np.isnan(holes).any(axis=1).mean():.0%}")

# %%
# Fit in three ways
# -----------------
#
# An error about a missing cell would reveal something about a row, so no fit raises
# one. The second fit has a third component, for the rows that are moved to the
# centre.

budget = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-20, 20)}
models = {
    "complete rows": dpem.GaussianMixture(2, **budget).fit(whole),
    "missing cells, default": dpem.GaussianMixture(3, **budget).fit(holes),
    'missing cells, missing="em"': dpem.GaussianMixture(
        2, missing="em", **budget
    ).fit(holes),
}
for name, model in models.items():
    print(name)
    for k in model.means_[:, 0].argsort():
        mean = model.means_[k].round(1).tolist()
        print(f"    share {model.weights_[k]:.2f}, mean {mean}")

# %%
# Look
# ----
#
# The grey dots are the complete rows, for their owner only. By default, four in ten
# rows move to the middle of the bounds and become a group that does not exist. With
# ``missing="em"`` the density is close to that of the complete rows.

figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.8), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dpem.plot.density(model, rows=whole[::10], ax=ax)
    ax.set(title=name, xlim=(-12, 12), ylim=(-8, 8))
axes[1].annotate(
    "rows with a\nmissing cell",
    (0.3, -0.3),
    (3, -5.5),
    color="C1",
    arrowprops={"arrowstyle": "->", "color": "C1"},
)
plt.show()

# %%
# ``impute`` fills the missing cells with their expectations under the released
# model. What it returns is as sensitive as the rows.

filled = model.impute(holes)
missing = np.isnan(holes)
error = np.sqrt(np.mean((filled[missing] - whole[missing]) ** 2))
print(f"root mean squared error of a filled cell: {error:.2f}")
print(f"standard deviation of all cells: {whole.std():.2f}")
