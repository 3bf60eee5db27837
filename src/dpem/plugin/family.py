"""What a researcher writes to have a model fitted privately."""

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

# Models of this package, whose proofs are known, with what they defined when they were marked: by identity,
# since a name can be faked.
_SHIPPED: list[tuple[type, dict[str, Any]]] = []


def shipped(kind: type[Family]) -> type[Family]:
    """Mark a model as one of this package, whose proof is known: it may treat blocks of rows."""
    _SHIPPED.append((kind, dict(vars(kind))))
    return kind


def is_shipped(kind: type) -> bool:
    """Whether a class itself, not one that it is derived from, is a model of this package, unchanged."""
    for known, defined in _SHIPPED:
        if kind is known:
            return all(vars(kind).get(name) is value for name, value in defined.items() if callable(value))
    return False


class ExponentialFamily(ABC):
    """A model with latent variables whose complete-data likelihood is in the exponential family.

    Implement :meth:`start`, :meth:`expected_statistics` and :meth:`m_step`; :meth:`log_density` and
    :meth:`sample` where they are wanted, and `predict_proba(row, parameters)`, the vector of probabilities of
    the components, for :meth:`dpem.PrivateEM.predict`. Parameters are a dict of arrays. Private fitting under
    both relations, accounting, the ledger, standard errors, files and replay then come free: see
    :class:`dpem.PrivateEM`.

    Attributes
    ----------
    nonnegative : bool, default False
        A certificate that no entry of the statistics is negative. Entries below zero are then cut to zero,
        and replacing a row costs sqrt 2 C instead of 2 C (Eq. S-6).
    start_centres : int, default 0
        How many private cluster centres the start asks for. They cost a fifth of the budget.

    Notes
    -----
    A mistake in a model does not cost privacy, as far as this goes: it is called with one row at a time, on a
    copy of itself, so that its attributes keep nothing of other rows. It is refused if its code stores to
    globals, to variables around it or, where it sees rows, to attributes; if it reaches anything that can
    change through globals, closures, default arguments or its class; and if code that sees rows uses modules
    that are not known to keep nothing. Whatever it returns is cut to the norm C that was declared, rounded,
    and checked in integers; what is no vector of finite numbers counts as zero, and so does an error. Python
    cannot be sandboxed: code that is written to get around this reading will. Run only code that you trust.

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
        """Return the first parameters, from public knowledge and `centres` alone.

        Parameters
        ----------
        schema : Schema
            The columns.
        random_state : RandomState
            For a random start; it is free.
        centres : ndarray of shape (start_centres, length of `encode`), or None
            Private cluster centres of encoded rows, where the model asks for them.
        """

    @abstractmethod
    def expected_statistics(self, row: NDArray[np.float64], parameters: Parameters) -> ArrayLike:
        """Return E[T(x, z) | x, parameters] of one row: the E-step.

        Parameters
        ----------
        row : ndarray of shape (d,)
            Cells in the user's units, inside their bounds; categories as codes from 0; NaN where missing.
        parameters : dict of str to ndarray
            Released parameters; read-only.

        Returns
        -------
        array-like of shape (s,)
            The same length for every row. One row's vector is bounded by `norm_bound` or the declared norm.
        """

    @abstractmethod
    def m_step(
        self, statistics: NDArray[np.float64], parameters: Parameters, n_rows: float, noise: float
    ) -> Mapping[str, ArrayLike]:
        """Return the next parameters from noisy sums over all rows. It must accept any numbers.

        Parameters
        ----------
        statistics : ndarray of shape (s,)
            The sum of all rows' vectors, with noise.
        parameters : dict of str to ndarray
            The parameters before.
        n_rows : float
            The number of rows; noisy where it is private.
        noise : float
            Standard deviation of the noise on each entry.
        """

    def norm_bound(self, schema: Schema) -> float | None:  # noqa: ARG002
        """Return a proved bound on the Euclidean norm of one row's vector, or None.

        It is checked row by row: where the proof is wrong, vectors are cut, and privacy stays. Without a
        bound the user declares a norm, ``PrivateEM(..., clip_norm=C)``.
        """
        return None

    def trial_schema(self) -> Schema:
        """Return columns that the audit and conformance tests of a registered model generate rows for.

        Unless overridden: one column of numbers within 0 and 1.
        """
        from dpem.data import Schema  # noqa: PLC0415  (help and version stay quick)

        return Schema({"x": {"kind": "continuous", "bounds": [0, 1]}})

    def encode(self, row: NDArray[np.float64], schema: Schema) -> ArrayLike:
        """Return the vector, of norm at most 1, that private clusters of the start are made of.

        Unless overridden: the cells in units of their bounds, over sqrt(d).
        """
        low, high = schema.bounds
        return np.asarray(np.nan_to_num((row - low) / (high - low), nan=0.5) / np.sqrt(len(row)))

    def log_density(self, row: NDArray[np.float64], parameters: Parameters) -> float:  # noqa: ARG002
        """Return the log-density of one row."""
        raise InvalidArgumentError(
            f"Expected a model with a log_density method, got {type(self).__name__} without. Write one to "
            f"score."
        )

    def sample(self, n: int, parameters: Parameters, random_state: PublicRandom) -> ArrayLike:  # noqa: ARG002
        """Draw n rows, (n, d)."""
        raise InvalidArgumentError(
            f"Expected a model with a sample method, got {type(self).__name__} without. Write one to sample."
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
        """Build a model from functions with the arguments of the methods, `self` left out.

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
    """A model of functions."""

    predict_proba: Callable[..., ArrayLike]  # where one is given

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
    """A model of this package that treats blocks of rows at once, each row by itself.

    Not for use elsewhere: nothing but its proof keeps one row out of another's vector. Each method must be
    built of operations on single elements in a fixed order; tests compare blocks with single rows bit by bit.
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
        """Return one row, encoded."""
        return self.encode_rows(row[:, None], schema)[:, 0]
