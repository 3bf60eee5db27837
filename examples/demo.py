"""The main job end to end on a toy table: plan, charge, fit, publish, and be refused.

Run it with ``make demo``.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import dpem
from dpem.errors import FewerComponentsWarning, InsufficientBudgetError

EPSILON, DELTA = 1.0, 1e-6
# Public knowledge about the columns, never read from the rows.
SCHEMA = dpem.Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "systolic_pressure": {"kind": "integer", "bounds": [70, 220]},
        "visits": {"kind": "integer", "bounds": [0, 20]},
    }
)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    rows = np.loadtxt(Path(__file__).with_name("clinic.csv"), delimiter=",", skiprows=1)
    ledger = dpem.Ledger.create(folder / "clinic.ledger", name="clinic", cap_epsilon=1.8, cap_delta=DELTA)

    print("1. Fit three clusters privately. The plan is charged before a row is read.\n")
    model = dpem.KMeans(3, epsilon=EPSILON, delta=DELTA, schema=SCHEMA, ledger=ledger, random_state=0).fit(
        rows
    )
    print(model.plan_)

    print("\n2. The centres may be published, with what the noise does to them:\n")
    print("   " + "".join(f"{name:>26}" for name in SCHEMA.names))
    for centre, error in zip(model.cluster_centers_, model.standard_errors_, strict=True):
        print("   " + "".join(f"{c:>18.1f} +- {e:4.1f}" for c, e in zip(centre, error, strict=True)))

    print("\n3. What is guaranteed, in words that can be quoted:\n")
    print(model.privacy_)

    print("\n4. The same fit through every accountant:\n")
    print(model.privacy_.compare())

    print("\n5. The model is saved without rows and without pickle, and loads anywhere:\n")
    model.save(folder / "clusters.dpem")
    print(f"   {dpem.load(folder / 'clusters.dpem')}")

    print(
        "\n6. A density, with as many components as the noise leaves room for, and new rows drawn from it:\n"
    )
    with warnings.catch_warnings(record=True) as announced:
        warnings.simplefilter("always", FewerComponentsWarning)
        density = dpem.GaussianMixture(
            3,
            epsilon=EPSILON,
            delta=DELTA,
            schema=SCHEMA,
            ledger=ledger,
            covariance_type="diag",
            random_state=0,
        ).fit(rows)
    for warning in announced:
        print(f"   {warning.message}")
    print(density.sample(3)[0].to_string(index=False))

    print("\n7. The ledger remembers, and refuses what the cap does not cover:\n")
    print(ledger)
    try:
        dpem.KMeans(5, epsilon=EPSILON, delta=DELTA, schema=SCHEMA, ledger=ledger).fit(rows)
    except InsufficientBudgetError as refusal:
        print(f"\n   {refusal}")


if __name__ == "__main__":
    main()
