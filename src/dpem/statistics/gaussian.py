r"""Moments of rows under Gaussian components, in the frame of each component, as bounded integers.

A component has a centre m_k and a factor L_k of its covariance. In its frame, a row x has the coordinates
z_k = L_k^-1 (x - m_k), clipped to a radius tau. With psi_k = (s, z_k) and responsibilities g_k, one
release contains

    sum_i g_ik psi_ik psi_ik'        for every component k,

which are counts, sums and second moments. Its sensitivity is sqrt 2 (s^2 + tau^2) if a row is replaced, and
s^2 + tau^2 if a row is added or removed, for any number of components: Eq. (S-9). So the noise of a component
is in proportion to its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from scipy import special

from dpem._threads import one_thread
from dpem.data.domain import GRID, onto_grid
from dpem.privacy import sensitivity
from dpem.statistics.base import TensorStatistic, require_gaussian
from dpem.statistics.exact import exact_product
from dpem.statistics.simple import SQUARED_BITS, unit_scale
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = [
    "COVARIANCES",
    "Covariance",
    "FrameMoments",
    "GaussianComponents",
    "ReleasedMoments",
    "kept_variance",
    "noise_entries",
]

Covariance = Literal["full", "tied", "diag", "spherical"]
COVARIANCES: tuple[Covariance, ...] = get_args(Covariance)

# Responsibilities are multiples of 2^-16, entries of psi multiples of 2^-13 of its largest norm. A row adds
# at most 2^42.
RESPONSIBILITY_BITS = 16
ROW_BITS = RESPONSIBILITY_BITS + 2 * SQUARED_BITS
# Low bits dropped from whole sums, so that about 2^32 rows fit. The rest is much finer than any noise.
COARSE_BITS = 12
# Number of rows whose sums of products are exact in float64: at most 2^51 in all. The check of
# `exact_product` sums 8 rows of psi, with a norm at most sqrt(8) times as large, so that its products stay
# below 2^53.
EXACT_ROWS = 2 ** (51 - ROW_BITS)
CHECKED_TOGETHER = 8
# Number of rows of whitening matrices that one sum checks on a device: products stay below 2^52.
PLACES_TOGETHER = 16
# Norm of the rows of a whitening matrix: products with data rows stay below 2^47.
WHITENING = 2.0**23
# Number of rows of a lower triangle in one product.
_BAND = 25


@dataclass(frozen=True, eq=False)
class GaussianComponents:
    """Public Gaussian components on grids, so that products of their whitening matrices with rows are exact.

    Attributes
    ----------
    whitening : ndarray of shape (m * d, d)
        Inverse factors as integers, each row scaled by a power of two.
    offsets, scales : ndarray of shape (m, d)
        They give the coordinates z = (whitening @ row - offset) * scale.
    constants : ndarray of shape (m,)
        Logarithm of the weight over the normalising constant, in units of the domain's ball.
    centres : ndarray of shape (m, d)
        Centres on the grid, in units of the ball.
    """

    whitening: NDArray[np.float64]
    offsets: NDArray[np.float64]
    scales: NDArray[np.float64]
    constants: NDArray[np.float64]
    centres: NDArray[np.float64]

    @classmethod
    def from_parameters(
        cls, weights: NDArray[np.float64], means: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> GaussianComponents:
        """Round weights (m,), means (m, d) and lower factors (m, d, d), in units of the ball, to grids."""
        m, d = means.shape
        inverse = _inverse(factors)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # refused below
            lengths = np.sqrt((inverse**2).sum(axis=2))
            steps = np.exp2(np.floor(np.log2(WHITENING / lengths)))
            log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
            constants = np.log(weights) - log_det - d / 2 * math.log(2 * math.pi)
        proper = np.isfinite(lengths) & (lengths > 0) & (steps < 2.0**500)
        if not (proper.all() and np.isfinite(constants).all() and np.isfinite(means).all()):
            raise ArithmeticError(
                "Expected components with finite means and with positive, finite weights and widths."
            )
        whitening = np.tril(np.rint(inverse * steps[:, :, None]))
        centres = onto_grid(means * GRID)
        offsets = np.stack(
            [
                exact_product(w, c[:, None], bound=2.0**48)[:, 0]
                for w, c in zip(whitening, centres, strict=True)
            ]
        )
        return cls(whitening.reshape(m * d, d), offsets, 1 / (steps * GRID), constants, centres / GRID)

    @cached_property
    def _bands(self) -> list[tuple[slice, NDArray[np.float64]]]:
        """Bands of rows of all lower triangles, without the zeros at their right."""
        m, d = self.offsets.shape
        triangles = self.whitening.reshape(m, d, d)
        bands = [slice(start, min(start + _BAND, d)) for start in range(0, d, _BAND)]
        return [(band, triangles[:, band, : band.stop].reshape(-1, band.stop)) for band in bands]

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        """The factors (m, d, d) whose inverses are the rounded whitening matrices."""
        m, d = self.offsets.shape
        with one_thread():
            factors = np.linalg.inv(self.whitening.reshape(m, d, d) * (self.scales * GRID)[:, :, None])
        return np.asarray(factors, dtype=np.float64)

    def frames(self, rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the coordinates of each row in every frame, (m, d, n), and their squared norms, (m, n)."""
        m, d = self.offsets.shape
        # |whitening row| <= 2^23 + sqrt(d)/2 and |row| <= 2^24.
        z = np.empty((m, d, rows.shape[1]))
        for band, whitening in self._bands:
            product = exact_product(whitening, rows[: band.stop], bound=2.0**48)
            np.subtract(product.reshape(m, -1, rows.shape[1]), self.offsets[:, band, None], out=z[:, band])
        z *= self.scales[:, :, None]
        return z, np.stack([_squared_norms(frame) for frame in z])

    def log_joint(self, squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of weight times density, (m, n)."""
        return np.asarray(self.constants[:, None] - 0.5 * squared)


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """Released moments in the frames of their components, in real units.

    Attributes
    ----------
    moments : ndarray of shape (..., k, d + 1, d + 1)
        sum g psi psi', symmetric. A restricted covariance does not release all entries. The others are zero
        ("diag"), divided among components by count ("tied"), or equal along the diagonal ("spherical").
    others : ndarray
        Counts of the components without moments.
    noise : float
        Standard deviation of the noise on a diagonal entry.
    others_noise : float
        Standard deviation of the noise on the counts without moments.
    """

    moments: NDArray[np.float64]
    others: NDArray[np.float64]
    noise: float
    others_noise: float


@dataclass(frozen=True, eq=False)
class FrameMoments(TensorStatistic):
    """Weighted moments of rows under the first `n_framed` components, and counts of the others. Eq. (S-9).

    A restricted covariance releases fewer entries of psi psi': its diagonal ("diag"), its trace
    ("spherical"), or one matrix for all components ("tied"). The sensitivity stays the same, and fewer
    entries get noise.
    """

    components: GaussianComponents
    n_framed: int
    covariance: Covariance
    clip: float  # tau
    count_scale: float  # s
    coarse_bits = COARSE_BITS
    kernels: ClassVar[str] = "gaussian"
    tensor_kernel: ClassVar[str] = "frame_moments"
    tensor_in_single: ClassVar[bool] = True

    @property
    def n_columns(self) -> int:
        """Number of columns of a row."""
        return int(self.components.offsets.shape[1])

    @property
    def n_others(self) -> int:
        """Number of components with a count alone."""
        return len(self.components.constants) - self.n_framed

    @property
    def size(self) -> int:
        """Number of released entries."""
        return len(self.noise_shape)

    @property
    def pooled(self) -> bool:
        """Whether second moments are summed over components. Responsibilities must then sum to at most 1."""
        return self.covariance == "tied"

    @property
    def unit(self) -> float:
        """The largest norm of psi, sqrt(s^2 + tau^2), in grid units."""
        return unit_scale(self.n_columns + 1, SQUARED_BITS)

    @property
    def per_unit(self) -> float:
        """Grid units of psi per unit of a frame."""
        return self.unit / math.hypot(self.clip, self.count_scale)

    @property
    def count_units(self) -> float:
        """The first entry of psi, s, rounded down to the grid."""
        return math.floor(self.count_scale * self.per_unit)

    @cached_property
    def noise_shape(self) -> NDArray[np.float64]:
        """1 on diagonals, 1/sqrt 2 (rounded up) off diagonals, in the order of `sum_block`."""
        d, k = self.n_columns, self.n_framed
        beside = math.nextafter(math.sqrt(0.5), 1.0)
        first_row = np.r_[1.0, np.full(d, beside)]
        i, j = np.triu_indices(d)
        triangle = np.where(i == j, 1.0, beside)
        per_component = {
            "full": np.r_[first_row, triangle],
            "diag": np.r_[first_row, np.ones(d)],
            "spherical": np.r_[first_row, 1.0],
            "tied": first_row,
        }[self.covariance]
        shared = triangle if self.pooled else np.zeros(0)
        return np.concatenate([np.tile(per_component, k), shared, np.ones(self.n_others)])

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of Eq. (S-9) in released units, including the rounding of every entry."""
        require_gaussian(norm)
        return sensitivity.coarse(
            sensitivity.clipped_vector(2.0**ROW_BITS, adjacency, cone=True),
            self.coarse_bits,
            self.noise_shape,
        )

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.frame_moments(
            rows,
            self.components.whitening,
            self.components.offsets,
            self.components.scales,
            self.components.constants,
            self.n_framed,
            kernels.KINDS[self.covariance],
            self.clip,
            self.per_unit,
            float(self.count_units),
            2.0**RESPONSIBILITY_BITS,
            4.0**SQUARED_BITS,
            total,
        )

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        z, squared = self.components.frames(rows)
        g = self._responsibilities(self.components.log_joint(squared))
        d, k = self.n_columns, self.n_framed
        total = np.zeros(self.size, dtype=np.int64)
        own, shared, others = self._split(total)
        others += (g[k:].sum(axis=1) * 4.0**SQUARED_BITS).astype(np.int64)
        for own_k, z_k, squared_k, g_k in zip(own, z, squared, g, strict=False):
            held = np.flatnonzero(g_k)  # rows of weight zero add nothing
            for start in range(0, len(held), EXACT_ROWS):
                part = held[start : start + EXACT_ROWS]
                weight = g_k[part]
                psi = self._onto_grid(z_k.take(part, axis=1), squared_k[part])
                weighted = psi * weight
                own_k[0] += int(weight.sum() * self.count_units**2)
                own_k[1 : d + 1] += (weighted.sum(axis=1) * self.count_units).astype(np.int64)
                second = shared if self.pooled else own_k[d + 1 :]
                second += self._second_moments(weighted, psi).astype(np.int64)
        return total

    def _split(self, total: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return views of sums: rows of the framed components, pooled second moments, and other counts."""
        d, counted = self.n_columns, self.size - self.n_others
        n_pooled = d * (d + 1) // 2 if self.pooled else 0
        own, shared, others = np.split(total, [counted - n_pooled, counted], axis=-1)
        return own.reshape(*total.shape[:-1], self.n_framed, -1), shared, others

    @cached_property
    def _triangle(self) -> NDArray[np.bool_]:
        return np.triu(np.ones((self.n_columns, self.n_columns), dtype=bool))

    def _second_moments(self, weighted: NDArray[np.float64], psi: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the products that this covariance releases, over at most `EXACT_ROWS` rows."""
        if self.covariance == "diag":
            return np.asarray((weighted * psi).sum(axis=1))
        if self.covariance == "spherical":
            return np.array([(weighted * psi).sum()])
        moments = exact_product(weighted, psi.T, bound=2.0**51, group=CHECKED_TOGETHER)
        return np.asarray(moments[self._triangle])

    def _responsibilities(self, log_joint: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return responsibilities times 2^16 as integers; check their norm (if pooled, sum) per row."""
        g, _, _ = softmax(log_joint)
        g *= 2.0**RESPONSIBILITY_BITS
        g = np.floor(g) if self.pooled else np.rint(g)
        weight = g[0].copy() if self.pooled else g[0] * g[0]
        for row in g[1:]:
            weight += row if self.pooled else row * row
        limit = 2.0**RESPONSIBILITY_BITS if self.pooled else 4.0**RESPONSIBILITY_BITS
        g[:, ~(weight <= limit)] = 0.0  # NaN fails the comparison, too
        return g

    def _onto_grid(self, z: NDArray[np.float64], squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip z (d, n) to tau and round it. A row with |psi|^2 > 4^13 in integers is set to zero."""
        psi = z * (self.per_unit * (self.clip / np.maximum(np.sqrt(squared), self.clip)))
        np.rint(psi, out=psi)
        bad = ~(_squared_norms(psi) <= 4.0**SQUARED_BITS - self.count_units**2)
        if bad.any():
            psi[:, bad] = 0.0
        return psi

    def read(self, released: ReleasedStatistics) -> ReleasedMoments:
        """Convert released values, or a stack of them, to real units."""
        d = self.n_columns
        one = 2.0 ** (self.coarse_bits - RESPONSIBILITY_BITS)
        real = one / self.per_unit**2
        own, pooled, others = self._split(released.values)
        per = own * real
        moments = np.zeros((*per.shape[:-1], d + 1, d + 1))
        # The first entry of psi was rounded down. Rescale it to s.
        restore = self.count_scale * self.per_unit / self.count_units
        moments[..., 0, 0] = per[..., 0] * restore**2
        moments[..., 0, 1:] = moments[..., 1:, 0] = per[..., 1 : d + 1] * restore
        i, j = np.triu_indices(d)
        diagonal = np.arange(1, d + 1)
        match self.covariance:
            case "full":
                moments[..., i + 1, j + 1] = moments[..., j + 1, i + 1] = per[..., d + 1 :]
            case "diag":
                moments[..., diagonal, diagonal] = per[..., d + 1 :]
            case "spherical":
                moments[..., diagonal, diagonal] = per[..., d + 1 :] / d
            case "tied":
                counts = np.maximum(moments[..., 0, 0], 1e-9)
                share = counts / counts.sum(axis=-1, keepdims=True)
                shared = pooled[..., None, :] * real * share[..., None]
                moments[..., i + 1, j + 1] = moments[..., j + 1, i + 1] = shared
        one_count = one / 4.0**SQUARED_BITS
        noise = float(released.noise_stddev[0] / self.noise_shape[0])
        return ReleasedMoments(moments, others * one_count, noise * real, noise * one_count)


def _inverse(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert lower factors (m, d, d). Diagonal factors, which may be very wide, are inverted by entry."""
    diagonals = np.diagonal(factors, axis1=1, axis2=2)
    if np.count_nonzero(factors) == np.count_nonzero(diagonals):
        inverse = np.zeros_like(factors)
        columns = np.arange(factors.shape[1])
        with np.errstate(divide="ignore"):
            inverse[:, columns, columns] = 1 / diagonals
        return inverse
    with one_thread():  # the bits of an inverse depend on the number of threads
        return np.asarray(np.linalg.inv(factors))


def _squared_norms(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the squares of each column in order, so that no column changes the bits of another."""
    squares = columns * columns
    if squares.shape[1] == 1:  # NumPy would sum a single column pairwise
        return np.asarray(np.cumsum(squares, axis=0)[-1])
    return np.asarray(np.add.reduce(squares, axis=0))


def kept_variance(d: float, clip: float) -> float:
    """Return the fraction of the variance of a standard Gaussian that remains after clipping to `clip`."""
    squared = clip * clip
    inside = float(special.gammainc(d / 2 + 1, squared / 2))
    return inside + squared / d * float(special.gammaincc(d / 2, squared / 2))


def noise_entries(covariance: Covariance, n_columns: int) -> float:
    """Return the expected squared Frobenius norm of the noise of a covariance, in units of its variance.

    The unit is the variance of the noise on a diagonal entry.
    """
    d = n_columns
    return {"full": d * (d + 1) / 2, "tied": d * (d + 1) / 2, "diag": float(d), "spherical": 1 / d}[
        covariance
    ]
