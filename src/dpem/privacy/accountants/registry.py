"""The accountants by name, tightest first."""

from __future__ import annotations

from dpem import _validate
from dpem.privacy.accountants.base import Accountant
from dpem.privacy.accountants.composition import AdvancedAccountant, LinearAccountant
from dpem.privacy.accountants.gdp import GdpAccountant
from dpem.privacy.accountants.moments import MomentsAccountant, RealMomentsAccountant
from dpem.privacy.accountants.pld import PldAccountant
from dpem.privacy.accountants.zcdp import ZcdpAccountant

ACCOUNTANTS: dict[str, type[Accountant]] = {
    accountant.name: accountant
    for accountant in (
        GdpAccountant,
        PldAccountant,
        RealMomentsAccountant,
        MomentsAccountant,
        ZcdpAccountant,
        AdvancedAccountant,
        LinearAccountant,
    )
}


def accountant_named(name: str | Accountant) -> Accountant:
    """Return a new accountant by name; return an instance unchanged.

    Examples
    --------
    >>> accountant_named("zcdp").name
    'zcdp'
    """
    if isinstance(name, Accountant):
        return name
    return ACCOUNTANTS[_validate.one_of(name, "accountant", ACCOUNTANTS)]()
