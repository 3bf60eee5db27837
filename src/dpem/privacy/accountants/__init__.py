"""Accountants: compute the guarantee of events. Each file has one idea; `base.py` is their interface."""

from dpem.privacy.accountants.base import Accountant
from dpem.privacy.accountants.comparison import Comparison, compare
from dpem.privacy.accountants.composition import AdvancedAccountant, LinearAccountant
from dpem.privacy.accountants.gdp import GdpAccountant
from dpem.privacy.accountants.moments import MomentsAccountant, RealMomentsAccountant
from dpem.privacy.accountants.pld import PldAccountant
from dpem.privacy.accountants.registry import ACCOUNTANTS, accountant_named
from dpem.privacy.accountants.zcdp import ZcdpAccountant

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdvancedAccountant",
    "Comparison",
    "GdpAccountant",
    "LinearAccountant",
    "MomentsAccountant",
    "PldAccountant",
    "RealMomentsAccountant",
    "ZcdpAccountant",
    "accountant_named",
    "compare",
]
