"""Make the toy table of the demo: invented visits to a clinic that does not exist."""

from pathlib import Path

import numpy as np


def main() -> None:
    rng = np.random.default_rng(2026)
    n = 2000
    age = np.clip(rng.gamma(6.0, 9.0, n), 0, 120).round().astype(int)
    pressure = np.clip(rng.normal(105 + 0.4 * age, 14), 70, 220).round().astype(int)
    visits = rng.poisson(1 + age / 30)
    rows = "\n".join(f"{a},{p},{v}" for a, p, v in zip(age, pressure, visits, strict=True))
    path = Path(__file__).with_name("clinic.csv")
    path.write_text("age,systolic_pressure,visits\n" + rows + "\n")


if __name__ == "__main__":
    main()
