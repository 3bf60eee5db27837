"""Fit diffprivlib's k-means in its own environment: read rows, write centres and seconds.

Usage: python diffprivlib_kmeans.py ROWS.npy K EPSILON SEED OUT.npz
"""

import sys
import time
import warnings

import numpy as np
from diffprivlib.models import KMeans

warnings.simplefilter("ignore")
rows = np.load(sys.argv[1])
k, epsilon, seed = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
start = time.perf_counter()
model = KMeans(n_clusters=k, epsilon=epsilon, bounds=(-1, 1), random_state=seed).fit(rows)
np.savez(sys.argv[5], centres=model.cluster_centers_, seconds=time.perf_counter() - start)
