"""All experiments, by name."""

from dpem.reproduce.experiment import Experiment
from dpem.reproduce.gowalla import GOWALLA
from dpem.reproduce.lifesci import LIFESCI
from dpem.reproduce.motivation import MOTIVATION
from dpem.reproduce.olivetti import OLIVETTI
from dpem.reproduce.stroke import STROKE

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (MOTIVATION, LIFESCI, STROKE, GOWALLA, OLIVETTI)
}
