"""
Missing cells
=============

A quarter of the cells of a table are missing. By default, a Gaussian mixture without a schema moves a
row with a missing cell to the centre of the bounds. With ``missing="em"`` it uses the cells that are
there.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpem

rng = np.random.default_rng(0)
covariance = [[4.0, 1.5], [1.5, 1.0]]
whole = np.concatenate([rng.multivariate_normal(mean, covariance, 6000) for mean in ([-5, -3], [5, 3])])
holes = whole.copy()
holes[rng.random(whole.shape) < 0.25] = np.nan
print(f"rows with a missing cell: {np.isnan(holes).any(axis=1).mean():.0%}")

# %%
# Fit in three ways
# -----------------
#
# An error about a missing cell would reveal that somebody's cell is missing. So no fit raises one, and
# the table must be described by whoever declares it.

budget = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-20, 20)}
models = {
    "complete rows": dpem.GaussianMixture(2, **budget).fit(whole),
    "missing cells, default": dpem.GaussianMixture(2, **budget).fit(holes),
    'missing cells, missing="em"': dpem.GaussianMixture(2, missing="em", **budget).fit(holes),
}
for name, model in models.items():
    left = model.means_[:, 0].argmin()
    print(
        f"{name:<28} mean of the left group {model.means_[left].round(1)}, share {model.weights_[left]:.2f}"
    )

# %%
# Look
# ----
#
# The grey rows are the complete ones, for their owner only. By default, rows at the centre of the bounds
# become a group that does not exist. With ``missing="em"`` the density is close to that of the complete
# rows.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dpem.plot.density(model, rows=whole[::10], ax=ax)
    ax.set(title=name, xlim=(-12, 12), ylim=(-8, 8))
plt.show()

# %%
# ``impute`` fills the missing cells with their expectations under the released model. What it returns is
# as sensitive as the rows.

model = models['missing cells, missing="em"']
filled = model.impute(holes)
missing = np.isnan(holes)
error = np.sqrt(np.mean((filled[missing] - whole[missing]) ** 2))
print(f"root mean squared error of a filled cell: {error:.2f}; its column spreads by {whole.std():.2f}")
