"""
A Dask array
============

Rows may lie in the partitions of a Dask table, on the workers of a cluster. Workers
send sums of whole numbers, and the process that called ``fit`` adds the noise once.
So the partitions change nothing: this example shows it bit by bit.
"""

import warnings

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import dpem

rng = np.random.default_rng(0)
centres = np.array([[2, 300], [6, 900], [12, 500]])
X = rng.normal(centres[rng.integers(3, size=20_000)], [0.8, 80]).clip(0)
X = X[X[:, 0].argsort()]  # sorted by visits: no partition holds all three clusters
bounds = ([0, 0], [50, 10_000])

# %%
# A cluster on this machine
# -------------------------
#
# Two workers hold eight partitions of unequal size. Elsewhere, ``Client`` takes the
# address of a scheduler.

chunks = ((500, 4500, 1000, 4000, 2500, 2500, 3000, 2000), 2)
client = Client(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
table = da.from_array(X, chunks=chunks)
model = dpem.KMeans(3, epsilon=1.0, delta=1e-6, bounds=bounds, random_state=0).fit(
    table
)
print(model.cluster_centers_.round(2))

# %%
# The same bits
# -------------
#
# Two fits differ, because each draws new noise. ``insecure_noise`` draws the noise
# from a seed, so that fits can be compared. Nothing that is fitted in its block is
# private, and it warns of that.

with warnings.catch_warnings(
    action="ignore", category=dpem.errors.InsecureNoiseWarning
):
    fits = {}
    for name, given in (("memory", X), ("dask", table)):
        with dpem.testing.insecure_noise(7):
            fits[name] = dpem.KMeans(
                3, epsilon=1.0, delta=1e-6, bounds=bounds, random_state=0
            ).fit(given)
client.close()

same = (
    fits["memory"].cluster_centers_.tobytes()
    == fits["dask"].cluster_centers_.tobytes()
)
print("the same bits:", same)

# %%
# Look
# ----
#
# Each colour is a partition. The centres of both fits lie on each other. The rows
# make this picture one for their owner.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
partition = np.repeat(np.arange(8), chunks[0])
ax.scatter(*X[::4].T, c=partition[::4], cmap="Set2", s=3, alpha=0.6)
ax.plot(
    *fits["memory"].cluster_centers_.T,
    "o",
    color="black",
    mfc="none",
    ms=16,
    mew=2,
    label="rows in memory",
)
ax.plot(
    *fits["dask"].cluster_centers_.T,
    "+",
    color="black",
    ms=16,
    mew=2,
    label="eight Dask partitions",
)
ax.set(
    title="centres from memory and from Dask", xlabel="visits", ylabel="cost (EUR)"
)
ax.legend()
plt.show()
