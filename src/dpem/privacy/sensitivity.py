r"""Sensitivities: how far one privacy unit can move a summed statistic.

There is one function for each kind of statistic. Rows u lie in a ball of radius R, responsibilities g on the
simplex (g_k >= 0, sum g_k <= 1). Each function states what is summed over rows. Each bound is proved in
docs/proofs/sensitivity.md; tests/property/test_sensitivity.py tries to exceed it, and shows that it is tight.
Results are rounded up to a float, so that they are never below the exact number.

=====================  =====================  ======================  ==========================
statistic, per row     ``"add_remove"``       ``"replace_one"``       function
=====================  =====================  ======================  ==========================
counts g               1                      sqrt 2 (L1: 2)          :func:`counts`
sums g_k u             R                      2 R                     :func:`sums`
second moments         R^2                    sqrt 2 R^2              :func:`second_moments`
joint (a, b, c)        sqrt(a^2+b^2+c^2)      see there               :func:`joint`
histogram              1                      sqrt 2 (L1: 2)          :func:`histogram`
m columns' histograms  sqrt m                 sqrt(2 m)               :func:`histograms`
any vector of norm C   C                      2 C (cone: sqrt 2 C)    :func:`clipped_vector`
a number in [0, t]     t (counted: sqrt 2 t)  t                       :func:`interval`
Lloyd, L1              d + 1                  2(d+1) or 2(1+sqrt d)   :func:`lloyd_l1`
=====================  =====================  ======================  ==========================
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpem import _validate
from dpem.privacy._rounding import float_up, root_up
from dpem.privacy.neighbours import Adjacency

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "clipped_vector",
    "coarse",
    "counts",
    "for_person",
    "histogram",
    "histograms",
    "interval",
    "joint",
    "lloyd_l1",
    "second_moments",
    "sums",
]

Norm = Literal["l1", "l2"]
_LARGEST = 1e30  # larger radii and weights are mistakes, and their squares could overflow


def counts(adjacency: str, norm: Norm = "l2") -> float:
    """Sensitivity of ``sum_i g_i``, responsibilities on the simplex.

    Examples
    --------
    >>> counts("add_remove")
    1.0
    """
    in_l1 = _is_l1(norm)
    if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE:
        return 1.0
    return 2.0 if in_l1 else root_up(2)


def histogram(adjacency: str, norm: Norm = "l2") -> float:
    """Sensitivity of a histogram in which every row falls into at most one bin.

    Examples
    --------
    >>> round(histogram("replace_one"), 6)
    1.414214
    """
    return counts(adjacency, norm)  # a one-hot row is a vertex of the simplex


def histograms(n_columns: int, adjacency: str) -> float:
    """Sensitivity (L2) of histograms of several columns, where every row falls into one bin of each.

    Eq. (S-12): a row is a vector of norm sqrt(m) without negative entries.

    Examples
    --------
    >>> histograms(4, "add_remove")
    2.0
    """
    squared = _validate.integer(n_columns, "n_columns")
    return root_up(squared if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE else 2 * squared)


def sums(radius: float, adjacency: str, norm: Norm = "l2", dimension: int | None = None) -> float:
    """Sensitivity of ``sum_i g_ik u_i`` over all components k.

    Parameters
    ----------
    radius : float
        Largest Euclidean norm of a row.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.
    norm : {"l2", "l1"}
        The norm for the mechanism: l2 for Gaussian, l1 for Laplace noise.
    dimension : int, optional
        Number of columns; required for l1.

    Examples
    --------
    >>> sums(1.0, "replace_one")
    2.0
    """
    radius = _size(radius, "radius")
    change = radius if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE else 2 * radius
    if _is_l1(norm):  # |u|_1 <= sqrt(d) |u|_2
        return root_up(_validate.integer(dimension, "dimension") * Fraction(change) ** 2)
    return change


def second_moments(radius: float, adjacency: str) -> float:
    """Sensitivity (Frobenius) of ``sum_i g_ik u_i u_i'`` over all components k.

    Release the upper triangle with off-diagonal entries times sqrt 2. Then the Euclidean norm of the release
    is the Frobenius norm.

    Examples
    --------
    >>> round(second_moments(1.0, "replace_one"), 6)
    1.414214
    """
    squared = Fraction(_size(radius, "radius")) ** 2
    if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE:
        return float_up(squared)
    return root_up(2 * squared**2)


def joint(a: float, b: float, c: float, adjacency: str) -> float:
    r"""Sensitivity of ``sum_i [a g_ik, b g_ik u_i, c g_ik vec(u_i u_i')]`` over all k, in one release.

    Rows have norm at most 1. The bound does not depend on the number of components.

    Eq. (S-4): add/remove sqrt(a^2 + b^2 + c^2). Replace-one: the square root of the larger of
    2 (a^2 + b^2 + c^2), attained by disjoint responsibilities, and, attained within one component,
    2 b^2 + 2 c^2 + b^4 / (2 c^2) if b^2 <= 2 c^2, else 4 b^2. The first is the larger if 4 a^2 c^2 >= b^4.

    Parameters
    ----------
    a, b, c : float
        Weights of counts, sums and second moments, at least zero and not all zero.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.

    Examples
    --------
    >>> joint(0, 1, 0, "replace_one")  # sums alone
    2.0
    >>> round(joint(1, 1, 1, "replace_one") ** 2, 6)
    6.0
    """
    weights = {"a": a, "b": b, "c": c}
    a2, b2, c2 = (Fraction(_validate.within(w, name, 0.0, _LARGEST)) ** 2 for name, w in weights.items())
    one_row = a2 + b2 + c2
    if one_row == 0:
        raise _validate.fail("at least one weight above zero", "(a, b, c)", (a, b, c))
    if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE:
        return root_up(one_row)
    within = 2 * b2 + 2 * c2 + b2 * b2 / (2 * c2) if 0 < b2 <= 2 * c2 else 4 * b2
    return root_up(max(2 * one_row, within))


def interval(top: float, adjacency: str, *, counted: bool = False) -> float:
    """Sensitivity of a sum of numbers from 0 to `top`, alone or together with a count of weight `top`.

    Eq. (S-8). Alone it is `top` under either relation. A row (v, top) that is added or removed has norm at
    most sqrt(2) top. If a row is replaced, the count does not move, and v moves by at most `top`.

    Examples
    --------
    >>> interval(8.0, "replace_one")
    8.0
    >>> round(interval(8.0, "add_remove", counted=True), 4)
    11.3137
    """
    top = _size(top, "top")
    if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE and counted:
        return root_up(2 * Fraction(top) ** 2)
    return top


def clipped_vector(norm_bound: float, adjacency: str, *, cone: bool = False) -> float:
    """Sensitivity of a sum of vectors, each clipped to Euclidean norm `norm_bound`.

    Parameters
    ----------
    norm_bound : float
        The norm C to which the vector of every row is clipped.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation.
    cone : bool, default False
        Whether inner products of the vectors of two rows are never negative, as for non-negative vectors and
        positive semidefinite matrices. This saves a factor sqrt 2 under replace-one. The caller must check
        the condition in integers.

    Examples
    --------
    >>> clipped_vector(3.0, "replace_one")
    6.0
    """
    bound = _size(norm_bound, "norm_bound")
    if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE:
        return bound
    return root_up(2 * Fraction(bound) ** 2) if cone else 2 * bound


def coarse(sensitivity: float, bits: int, noise_shape: ArrayLike) -> float:
    """Sensitivity of integer sums after dropping their lowest `bits`, rounded down. Eq. (S-10).

    A change of x in an entry becomes a change of less than x / 2^bits + 1. The norm therefore grows by at
    most the norm of a vector of ones, each divided by its relative noise.

    Examples
    --------
    >>> coarse(4096.0, 10, [1.0, 1.0])
    5.41421356237309...
    """
    shapes, counts = np.unique(np.asarray(noise_shape, dtype=np.float64), return_counts=True)
    ones = sum(int(n) / Fraction(float(shape)) ** 2 for shape, n in zip(shapes, counts, strict=True))
    return float_up(Fraction(_size(sensitivity, "sensitivity")) / 2**bits + Fraction(root_up(ones)))


def lloyd_l1(dimension: int, adjacency: str, domain: Literal["box", "ball"] = "box") -> float:
    """L1 sensitivity of Lloyd's counts and coordinate sums together, as DPLloyd releases them.

    Parameters
    ----------
    dimension : int
        Number of columns d.
    adjacency : {"replace_one", "add_remove"}
        The neighbouring relation. The d + 1 in the literature is for add/remove over the box.
    domain : {"box", "ball"}
        Rows in [-1, 1]^d, or in the unit ball.

    Examples
    --------
    >>> lloyd_l1(2, "add_remove")
    3.0
    >>> round(lloyd_l1(2, "replace_one", "ball"), 4)
    4.8284
    """
    d = _validate.integer(dimension, "dimension")
    is_ball = _validate.one_of(domain, "domain", ("box", "ball")) == "ball"
    one_row = float_up(1 + Fraction(root_up(d))) if is_ball else 1.0 + d
    return one_row if Adjacency.parse(adjacency) is Adjacency.ADD_REMOVE else 2 * one_row


def for_person(sensitivity: float, rows_per_person: int) -> float:
    """Sensitivity for a person with up to `rows_per_person` rows: that many times the sensitivity of a row.

    Eq. (S-7).

    Examples
    --------
    >>> for_person(2.0, 3)
    6.0
    """
    rows = _validate.integer(rows_per_person, "rows_per_person")
    bound = _size(sensitivity, "sensitivity")
    return float_up(rows * Fraction(bound))


def _is_l1(norm: str) -> bool:
    return _validate.one_of(norm, "norm", ("l1", "l2")) == "l1"


def _size(value: float, name: str) -> float:
    return _validate.within(value, name, 1 / _LARGEST, _LARGEST)
