"""The road of every release, on a toy table: plan, charge, read, add noise, state.

Run it with ``make demo``. The estimators that take this road for you come next.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import dpem
from dpem.privacy import ComposedEvent, GaussianMechanism, PrivacyStatement, sensitivity, split

EPSILON, DELTA = 1.0, 1e-6
# Public knowledge about the columns, never read from the rows.
BOUNDS = {"age": (0, 120), "systolic_pressure": (70, 220), "visits": (0, 20)}
N_ROWS = 2000  # public: neighbours differ in one row's values, not in their number
GRID = 2**24  # rows become integers, so that their sum is exact


def read_bounded_rows(path: Path) -> np.ndarray:
    """Read the table, clip every row to the public bounds and put it on the integer grid."""
    with path.open(newline="") as file:
        rows = [[float(row[name]) for name in BOUNDS] for row in csv.DictReader(file)]
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    in_box = (np.clip(rows, low, high) - (low + high) / 2) / ((high - low) / 2)
    in_ball = in_box / np.sqrt(len(BOUNDS)) * (1 - 2**-20)  # room for rounding
    grid_rows = np.rint(in_ball * GRID).astype(np.int64)
    inside = (grid_rows**2).sum(axis=1) <= GRID**2  # the bound that sensitivity rests on, in integers
    return grid_rows * inside[:, None]


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    ledger = dpem.Ledger.create(folder / "clinic.ledger", name="clinic", cap_epsilon=2.0, cap_delta=DELTA)

    # 1. Plan before anything is read: the noise follows from public facts alone.
    (event,) = split(EPSILON, DELTA, [1.0])
    mechanism = GaussianMechanism.for_event(event, sensitivity.sums(1.0, "replace_one") * GRID)
    half_widths = np.array([(high - low) / 2 for low, high in BOUNDS.values()])
    to_units = half_widths * np.sqrt(len(BOUNDS)) / (1 - 2**-20) / GRID / N_ROWS
    print(f"Plan: the mean of {', '.join(BOUNDS)} over {N_ROWS} rows at epsilon = {EPSILON:g}.")
    for name, unit in zip(BOUNDS, to_units, strict=True):
        print(f"  {name}: the noise will have standard deviation {mechanism.noise_stddev * unit:.3g}")

    # 2. Charge the whole plan, then read, then add noise.
    plan = ComposedEvent.of([event])
    ledger.spend(plan, purpose="mean of all columns", analyst="demo")
    raw_sum = read_bounded_rows(Path(__file__).with_name("clinic.csv")).sum(axis=0)
    release = mechanism.release(raw_sum)

    # 3. Everything from here on is free: it never sees a row.
    centres = [(low + high) / 2 for low, high in BOUNDS.values()]
    print("\nReleased means:")
    for name, centre, value in zip(BOUNDS, centres, release.values * to_units, strict=True):
        print(f"  {name}: {centre + value:.2f}")

    statement = PrivacyStatement(
        EPSILON,
        DELTA,
        plan,
        bounds={name: f"{low} to {high}" for name, (low, high) in BOUNDS.items()},
        bounds_source="declared",
        insecure_noise=release.insecure_noise,
    )
    print(f"\nPrivacy statement:\n{statement}")
    print(f"\nThe same release through every accountant:\n{statement.compare()}")
    print(f"\n{ledger}")


if __name__ == "__main__":
    main()
