"""Fit OpenDP's principal components in its own environment: read rows, write components and seconds.

Its proofs do not cover its numpy sums ("idealized numerics"). Its noise takes no seed.

Usage: python opendp_pca.py ROWS.npy K EPSILON SEED OUT.npz
"""

import sys
import time

import numpy as np
import opendp.prelude as dp
from opendp.extras.sklearn.decomposition import PCA

dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
rows = np.load(sys.argv[1])
n, d = rows.shape
start = time.perf_counter()
model = PCA(
    epsilon=float(sys.argv[3]), row_norm=1.0, n_samples=n, n_features=d, n_components=int(sys.argv[2])
)
model.fit(rows)
np.savez(sys.argv[5], components=model.components_, seconds=time.perf_counter() - start)
