"""Fit MST or AIM of dpmm, with the defaults of its models, in its own environment.

Usage: python dpmm_table.py IN.npz MST|AIM EPSILON SEED OUT.npz

IN.npz holds `codes` (n, m) on public grids and `sizes`; OUT.npz gets as many synthetic rows, and seconds.
"""

import resource
import sys
import time
import warnings

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    source, name, epsilon, seed, out = sys.argv[1:]
    table = np.load(source)
    columns = [f"c{j:02d}" for j in range(len(table["sizes"]))]
    frame = pd.DataFrame(table["codes"], columns=columns)
    domain = {column: int(size) for column, size in zip(columns, table["sizes"], strict=True)}
    start = time.perf_counter()
    model = {"MST": MSTGM, "AIM": AIMGM}[name](epsilon=float(epsilon), delta=1e-5)
    model.set_domain(domain)
    model.set_random_state(np.random.RandomState(int(seed)))
    model.fit(frame)
    fitted = time.perf_counter() - start
    rows = model.generate(n_records=len(frame))
    np.savez(
        out,
        codes=rows[columns].to_numpy(),
        seconds=fitted,
        gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    )
