"""A privacy budget: an (epsilon, delta) pair and its Gaussian-DP parameter mu."""

from __future__ import annotations

from dataclasses import dataclass

from dpem.privacy import gaussian_dp

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """A privacy budget, as (epsilon, delta) and as mu.

    Create a budget with :meth:`from_epsilon` or :meth:`from_mu`.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee, as statements give it.
    mu : float
        The Gaussian-DP parameter, as ledgers count it: the values of mu^2 add up.

    Examples
    --------
    >>> budget = Budget.from_epsilon(1.0, 1e-5)
    >>> print(budget)
    epsilon = 1 at delta = 1e-05
    >>> round(budget.mu, 4)
    0.2681
    """

    epsilon: float
    delta: float
    mu: float

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float) -> Budget:
        """Return the budget with the largest mu that (epsilon, delta) allows."""
        return cls(float(epsilon), float(delta), gaussian_dp.mu_for(epsilon, delta))

    @classmethod
    def from_mu(cls, mu: float, delta: float) -> Budget:
        """Return the cost of a mu-GDP mechanism, with its epsilon at `delta`."""
        return cls(gaussian_dp.epsilon_at(mu, delta), float(delta), float(mu))

    def __str__(self) -> str:
        tiny = f" (mu = {self.mu:.2g})" if self.epsilon == 0 < self.mu else ""
        return f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.6g}{tiny}"
