"""The interface of plug-in models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from dpem.data import Schema
    from dpem.privacy.randomness import PublicRandom

__all__ = ["BlockFamily", "ExponentialFamily", "Parameters", "is_shipped", "shipped"]

Parameters = dict[str, "NDArray[np.float64]"]
Family = TypeVar("Family", bound="ExponentialFamily")

# Models of this package, whose proofs are known, with their attributes at the time of marking. They are
# compared by identity, because names can be faked.
_SHIPPED: list[tuple[type, dict[str, Any]]] = []


def shipped(kind: type[Family]) -> type[Family]:
    """Mark a model of this package, whose proof is known, so that it may see blocks of rows."""
    _SHIPPED.append((kind, dict(vars(kind))))
    return kind


def is_shipped(kind: type) -> bool:
    """Whether a class itself, not a base class, is an unchanged model of this package."""
    for known, defined in _SHIPPED:
        if kind is known:
            return all(vars(kind).get(name) is value for name, value in defined.items() if callable(value))
    return False


class ExponentialFamily(ABC):
    """A model with latent variables whose complete-data likelihood is in the exponential family.

    Implement :meth:`start`, :meth:`expected_statistics` and :meth:`m_step`. Optional are :meth:`log_density`,
    :meth:`sample` and `predict_proba(row, parameters)`, which returns the probabilities of the components for
    :meth:`dpem.PrivateEM.predict`. Parameters are a dict of arrays. :class:`dpem.PrivateEM` then provides
    private fits under both neighbouring relations, accounting, ledger, standard errors, files and replays.

    Attributes
    ----------
    nonnegative : bool, default False
        A promise that no entry of the statistics is negative. Negative entries are then set to zero, and
        replacing a row costs sqrt 2 C instead of 2 C (Eq. S-6).
    start_centres : int, default 0
        Number of private cluster centres for the start. They cost a fifth of the budget.

    Notes
    -----
    Mistakes in a model cost accuracy, but not privacy, within these limits. The model is called with one row
    at a time, on a copy of itself, so that its attributes keep nothing of other rows. It is rejected if its
    code stores to globals, to enclosing variables or, in code that sees rows, to attributes; if it reaches
    mutable objects through globals, closures, default arguments or its class; and if code that sees rows uses
    modules that are not known to keep nothing. Its vectors are clipped to the declared norm C, rounded, and
    checked in integers; a result other than a vector of finite numbers counts as zero, and so does an
    exception. Python cannot be sandboxed: code written to evade these checks will succeed. Run only code that
    you trust.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> class Rate(dpem.ExponentialFamily):
    ...     nonnegative = True
    ...
    ...     def start(self, schema, random_state, centres):
    ...         return {"rate": [1.0]}
    ...
    ...     def expected_statistics(self, row, parameters):
    ...         return row
    ...
    ...     def m_step(self, statistics, parameters, n_rows, noise):
    ...         return {"rate": np.maximum(statistics / n_rows, 0.0)}
    >>> visits = np.random.default_rng(0).poisson(3.0, size=(5000, 1))
    >>> model = dpem.PrivateEM(Rate(), clip_norm=20.0, bounds=(0, 20), epsilon=1.0, max_iter=1).fit(visits)
    >>> bool(abs(model.parameters_["rate"][0] - 3) < 0.5)
    True
    """

    nonnegative: bool = False
    start_centres: int = 0

    @abstractmethod
    def start(
        self, schema: Schema, random_state: PublicRandom, centres: NDArray[np.float64] | None
    ) -> Mapping[str, ArrayLike]:
        """Return the initial parameters, from public knowledge and `centres` alone.

        Parameters
        ----------
        schema : Schema
            The columns.
        random_state : RandomState
            Source of randomness for the start, without privacy cost.
        centres : ndarray of shape (start_centres, length of `encode`), or None
            Private cluster centres of encoded rows, if the model asks for them.
        """

    @abstractmethod
    def expected_statistics(self, row: NDArray[np.float64], parameters: Parameters) -> ArrayLike:
        """Return E[T(x, z) | x, parameters] of one row: the E-step.

        Parameters
        ----------
        row : ndarray of shape (d,)
            Cells in the units of the columns, within their bounds; categories as codes from 0; NaN if
            missing.
        parameters : dict of str to ndarray
            Released parameters, read-only.

        Returns
        -------
        array-like of shape (s,)
            A vector of the same length for every row. It is clipped to `norm_bound` or the declared norm.
        """

    @abstractmethod
    def m_step(
        self, statistics: NDArray[np.float64], parameters: Parameters, n_rows: float, noise: float
    ) -> Mapping[str, ArrayLike]:
        """Return the next parameters from noisy sums over all rows. The method must accept any numbers.

        Parameters
        ----------
        statistics : ndarray of shape (s,)
            Sum of the vectors of all rows, with noise.
        parameters : dict of str to ndarray
            Current parameters.
        n_rows : float
            Number of rows, noisy if it is private.
        noise : float
            Standard deviation of the noise on each entry.
        """

    def norm_bound(self, schema: Schema) -> float | None:  # noqa: ARG002
        """Return a proven bound on the Euclidean norm of one row's vector, or None.

        Vectors are clipped to the bound, so that a wrong proof does not cost privacy. Without a bound, the
        user declares a norm: ``PrivateEM(..., clip_norm=C)``.
        """
        return None

    def trial_schema(self) -> Schema:
        """Return the columns of generated rows for the audit and the conformance tests of a registered model.

        By default, one column of numbers from 0 to 1.
        """
        from dpem.data import Schema  # noqa: PLC0415  (help and version stay quick)

        return Schema({"x": {"kind": "continuous", "bounds": [0, 1]}})

    def encode(self, row: NDArray[np.float64], schema: Schema) -> ArrayLike:
        """Return one row as a vector of norm at most 1, for the private cluster centres of the start.

        By default, the cells scaled by their bounds to 0 to 1, over sqrt(d).
        """
        low, high = schema.bounds
        return np.asarray(np.nan_to_num((row - low) / (high - low), nan=0.5) / np.sqrt(len(row)))

    def log_density(self, row: NDArray[np.float64], parameters: Parameters) -> float:  # noqa: ARG002
        """Return the log-density of one row."""
        raise InvalidArgumentError(
            f"Expected a model with a method log_density, got {type(self).__name__} without it. Implement "
            f"log_density to compute scores."
        )

    def sample(self, n: int, parameters: Parameters, random_state: PublicRandom) -> ArrayLike:  # noqa: ARG002
        """Draw n rows, (n, d)."""
        raise InvalidArgumentError(
            f"Expected a model with a method sample, got {type(self).__name__} without it. Implement sample "
            f"to draw rows."
        )

    @staticmethod
    def from_functions(
        *,
        start: Callable[..., Mapping[str, ArrayLike]],
        expected_statistics: Callable[..., ArrayLike],
        m_step: Callable[..., Mapping[str, ArrayLike]],
        log_density: Callable[..., float] | None = None,
        sample: Callable[..., ArrayLike] | None = None,
        predict_proba: Callable[..., ArrayLike] | None = None,
        norm_bound: float | None = None,
        nonnegative: bool = False,
    ) -> ExponentialFamily:
        """Create a model from functions with the arguments of the methods, without `self`.

        Examples
        --------
        >>> import numpy as np
        >>> import dpem
        >>> mean_of_one_column = dpem.ExponentialFamily.from_functions(
        ...     start=lambda schema, random_state, centres: {"mean": 0.0},
        ...     expected_statistics=lambda row, parameters: row,
        ...     m_step=lambda statistics, parameters, n_rows, noise: {"mean": statistics[0] / n_rows},
        ... )
        >>> X = np.random.default_rng(0).uniform(0, 1, size=(5000, 1))
        >>> model = dpem.PrivateEM(mean_of_one_column, epsilon=1.0, bounds=(0, 1), clip_norm=1.0).fit(X)
        >>> bool(abs(model.parameters_["mean"] - 0.5) < 0.05)
        True
        """
        model = ModelOfFunctions(
            start, expected_statistics, m_step, log_density, sample, norm_bound, nonnegative=nonnegative
        )
        if predict_proba is not None:
            model.predict_proba = predict_proba
        return model


class ModelOfFunctions(ExponentialFamily):
    """A model built from functions."""

    predict_proba: Callable[..., ArrayLike]  # if given

    def __init__(
        self,
        start: Callable[..., Any],
        expected_statistics: Callable[..., Any],
        m_step: Callable[..., Any],
        log_density: Callable[..., Any] | None,
        sample: Callable[..., Any] | None,
        norm_bound: float | None,
        *,
        nonnegative: bool,
    ) -> None:
        self._start, self._expected_statistics, self._m_step = start, expected_statistics, m_step
        self._log_density, self._sample, self._norm_bound = log_density, sample, norm_bound
        self.nonnegative = nonnegative

    def start(self, schema: Schema, random_state: PublicRandom, centres: Any) -> Any:
        return self._start(schema, random_state, centres)

    def expected_statistics(self, row: NDArray[np.float64], parameters: Parameters) -> Any:
        return self._expected_statistics(row, parameters)

    def m_step(self, statistics: Any, parameters: Parameters, n_rows: float, noise: float) -> Any:
        return self._m_step(statistics, parameters, n_rows, noise)

    def norm_bound(self, schema: Schema) -> float | None:  # noqa: ARG002
        return self._norm_bound

    def log_density(self, row: NDArray[np.float64], parameters: Parameters) -> float:
        if self._log_density is None:
            return super().log_density(row, parameters)
        return float(self._log_density(row, parameters))

    def sample(self, n: int, parameters: Parameters, random_state: PublicRandom) -> Any:
        if self._sample is None:
            return super().sample(n, parameters, random_state)
        return self._sample(n, parameters, random_state)


class BlockFamily(ExponentialFamily):
    """A model of this package that processes blocks of rows, each row separately.

    Only for models of this package, because nothing but a proof keeps the vectors of different rows separate.
    Each method must consist of operations on single elements in a fixed order; tests compare blocks with
    single rows bit by bit.
    """

    @abstractmethod
    def statistics_of_rows(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return the vectors (s, n) of rows (d, n)."""

    @abstractmethod
    def encode_rows(self, rows: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return the encoded rows (f, n) of rows (d, n)."""

    def expected_statistics(self, row: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return the vector of one row."""
        return self.statistics_of_rows(row[:, None], parameters)[:, 0]

    def encode(self, row: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """Return the encoding of one row."""
        return self.encode_rows(row[:, None], schema)[:, 0]
