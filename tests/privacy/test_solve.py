"""Root finding with rounding to the safe side: results pass, and their neighbours do not."""

import math

import pytest

from dpem.privacy._solve import largest_passing, smallest_passing


@pytest.mark.parametrize("root", [1e-12, 0.3, 1.0, 7.7, 1e9])
@pytest.mark.parametrize("guess", [1e-3, 0.5, 1.0, 3.0])
def test_smallest_and_largest_passing(root, guess):
    """From guesses too small or too large, the result passes, within a few units in the last place."""
    found = smallest_passing(lambda x: math.log(max(x, 1e-300) / root), 0.0, guess * root)
    assert root <= found <= root * (1 + 1e-15)
    found = largest_passing(lambda x: math.log(root / x), guess * root, 10 * root)
    assert root * (1 - 1e-15) <= found <= root


def test_passing_ends_of_the_interval_are_returned():
    """Without a root inside the interval, the nearest allowed argument is returned."""
    assert smallest_passing(lambda x: x, 2.0, 5.0) == 2.0
    assert smallest_passing(lambda x: x - 2, 2.0, 5.0) == 2.0
    assert largest_passing(lambda x: 9 - x, 1.0, 5.0) == 5.0
    assert largest_passing(lambda x: 5 - x, 1.0, 5.0) == 5.0


def test_the_smallest_argument_of_a_flat_part():
    """If slack is zero from 3 to 8, the smallest passing argument is 3."""
    assert smallest_passing(lambda x: min(x - 3.0, 0.0) + max(x - 8.0, 0.0), 0.0, 20.0) == 3.0
