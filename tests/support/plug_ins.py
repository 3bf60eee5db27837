"""Plug-in models for tests: one with every method, and one that warns about each row."""

import warnings

from dpem.plugin import pure_library
from support import crossing
from support.estimators import Mean


class Whole(Mean):
    """A model that can score rows and sample them."""

    def log_density(self, row, parameters):
        return -((row - parameters["mean"]) ** 2).sum()

    def sample(self, n, parameters, random_state):
        return random_state.normal(parameters["mean"], 1.0, (n, 3))


# Models that use modules with state are refused; this module keeps nothing of a row, so it is allowed here.
pure_library._pure_modules()[id(crossing)] = crossing
pure_library._library()[id(crossing.take_turn)] = crossing.take_turn


class Talkative(Mean):
    """A model that gives other threads a turn, then warns about its row, which must be silenced."""

    def expected_statistics(self, row, parameters):
        crossing.take_turn()
        warnings.warn(f"the model warns about a row: {row[0]}", RuntimeWarning, stacklevel=1)
        return row / 6
