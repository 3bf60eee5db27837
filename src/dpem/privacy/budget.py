"""A privacy budget: an (epsilon, delta) pair and the Gaussian-DP parameter that it amounts to."""

from __future__ import annotations

from dataclasses import dataclass

from dpem.privacy import gaussian_dp

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """An amount of privacy, in both currencies.

    Make one with :meth:`from_epsilon` or :meth:`from_mu`.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee as it is stated.
    mu : float
        The Gaussian-DP parameter as it is spent: amounts add up as mu^2.

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
        """Return the budget that (epsilon, delta) buys."""
        return cls(float(epsilon), float(delta), gaussian_dp.mu_for(epsilon, delta))

    @classmethod
    def from_mu(cls, mu: float, delta: float) -> Budget:
        """Return what a mu-GDP mechanism costs, stated at `delta`."""
        return cls(gaussian_dp.epsilon_at(mu, delta), float(delta), float(mu))

    def __str__(self) -> str:
        tiny = f" (mu = {self.mu:.2g})" if self.epsilon == 0 < self.mu else ""
        return f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.6g}{tiny}"
