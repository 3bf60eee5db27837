"""Regenerate the figures of the DP-EM paper, by its text and with dpem, and check the paper's claims.

An experiment is a list of independent tasks. Each task has its own seed for rows, starts and noise, so that a
run can be interrupted, continued and repeated on any machine. The command `dpem reproduce` runs experiments.

May import: everything. Never sees: data that is not public.
"""

from dpem.reproduce.datasets import Datasets
from dpem.reproduce.run import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "Datasets", "reproduce"]
