"""Fit diffprivlib's principal components in its own environment: read rows, write components and seconds.

Usage: python diffprivlib_pca.py ROWS.npy K EPSILON SEED OUT.npz
"""

import sys
import time
import warnings

import numpy as np
from diffprivlib.models import PCA

warnings.simplefilter("ignore")
rows = np.load(sys.argv[1])
k, epsilon, seed = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
start = time.perf_counter()
model = PCA(n_components=k, epsilon=epsilon, data_norm=1.0, bounds=(-1, 1), random_state=seed).fit(rows)
np.savez(sys.argv[5], components=model.components_, seconds=time.perf_counter() - start)
