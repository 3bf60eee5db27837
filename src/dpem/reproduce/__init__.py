"""The figures of the DP-EM paper, regenerated: what it says, what its text gives, what dpem gives.

Every experiment is a list of independent tasks, each with a seed of its own for rows, starts and noise, so
that a run can be interrupted, continued and repeated on any machine. `dpem reproduce` is the way in.

May import: everything. Never sees: data that is not public.
"""

from dpem.reproduce.datasets import Datasets
from dpem.reproduce.experiments import EXPERIMENTS
from dpem.reproduce.run import reproduce

__all__ = ["EXPERIMENTS", "Datasets", "reproduce"]
