"""Roots on the safe side: they pass, and their neighbours do not."""

import math

import pytest

from dpem.privacy._solve import largest_passing, smallest_passing


@pytest.mark.parametrize("root", [1e-12, 0.3, 1.0, 7.7, 1e9])
@pytest.mark.parametrize("guess", [1e-3, 0.5, 1.0, 3.0])
def test_the_first_and_the_last_that_pass(root, guess):
    """Whether the guess is too small or too large: the result passes, a few units in the last place off."""
    found = smallest_passing(lambda x: math.log(max(x, 1e-300) / root), 0.0, guess * root)
    assert root <= found <= root * (1 + 1e-15)
    found = largest_passing(lambda x: math.log(root / x), guess * root, 10 * root)
    assert root * (1 - 1e-15) <= found <= root


def test_ends_that_pass_are_taken():
    """Nothing to search for: the nearest argument that is allowed."""
    assert smallest_passing(lambda x: x, 2.0, 5.0) == 2.0
    assert smallest_passing(lambda x: x - 2, 2.0, 5.0) == 2.0
    assert largest_passing(lambda x: 9 - x, 1.0, 5.0) == 5.0
    assert largest_passing(lambda x: 5 - x, 1.0, 5.0) == 5.0


def test_a_flat_part_begins_where_it_begins():
    """Slack that stays at zero from 3 to 8: the smallest argument that passes is 3."""
    assert smallest_passing(lambda x: min(x - 3.0, 0.0) + max(x - 8.0, 0.0), 0.0, 20.0) == 3.0
