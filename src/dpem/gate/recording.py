"""Record and replay the releases of a fit, with the sums before noise, for tests and audits.

Every fit under a recording is marked as not private. Use recordings through `dpem.testing` and `dpem.audit`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dpem.errors import OtherReleaseError
from dpem.privacy.events import GaussianEvent, LaplaceEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid
    from dpem.statistics.base import RowStatistic

__all__ = ["RecordedRelease", "Recording", "active_recording", "recording"]


@dataclass(frozen=True, eq=False)
class RecordedRelease:
    """One release, with the values that the gate computed.

    Attributes
    ----------
    stage : str
        The stage of the plan.
    raw : ndarray of int64
        The exact sum over the rows.
    noisy : ndarray of float64
        The released values.
    sensitivity : float
        The sensitivity for one privacy unit, in grid units, after dividing each entry by its relative noise.
    event : GaussianEvent or LaplaceEvent
        The cost of the release.
    statistic : RowStatistic
        The statistic that was summed.
    grid : RowGrid
        The grid that mapped rows to integers.
    of_findings : bool
        Whether the grid mapped the findings about cells instead of their values.
    """

    stage: str
    raw: NDArray[np.int64]
    noisy: NDArray[np.float64]
    sensitivity: float
    event: GaussianEvent | LaplaceEvent
    statistic: RowStatistic
    grid: RowGrid
    of_findings: bool = False

    @property
    def norm(self) -> int:
        """The norm of the sensitivity: 1 for Laplace, 2 for Gaussian noise."""
        return 1 if isinstance(self.event, LaplaceEvent) else 2

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """The noise of each entry by the event: the Gaussian standard deviation, or the Laplace scale."""
        if isinstance(self.event, LaplaceEvent):
            return np.full(self.raw.size, self.sensitivity / self.event.epsilon)
        return self.sensitivity * self.event.noise_multiplier * self.shape

    @property
    def shape(self) -> NDArray[np.float64]:
        """The noise of each entry relative to that of the mechanism."""
        given = self.statistic.noise_shape
        return np.ones(self.raw.size) if given is None else given

    def distance(self, other: RecordedRelease) -> float:
        """Return the distance of two releases' raw values over the sensitivity; at most 1 for neighbours."""
        return self.length(self.raw - other.raw)

    def length(self, difference: NDArray[np.number]) -> float:
        """Return the length of a difference of raw values over the sensitivity."""
        relative = difference.astype(np.float64) / self.shape
        return float(np.linalg.norm(relative, self.norm)) / self.sensitivity


@dataclass
class Recording:
    """The transcript of a fit, with raw values; with `replay`, releases return the noisy values of that one.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> with dpem.testing.record() as transcript:
    ...     _ = dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(np.zeros((1000, 1)))
    >>> isinstance(transcript, Recording), transcript.releases[0].stage
    (True, 'centre')
    """

    releases: list[RecordedRelease] = field(default_factory=list)
    replay: Recording | None = None

    def pass_through(self, release: RecordedRelease) -> NDArray[np.float64]:
        """Record a release and return the noisy values with which the fit continues."""
        if self.replay is not None:
            position = len(self.releases)
            recorded = self.replay.releases[position] if position < len(self.replay.releases) else None
            if (
                recorded is None
                or recorded.stage != release.stage
                or recorded.noisy.shape != release.noisy.shape
            ):
                planned = "no more" if recorded is None else repr(recorded.stage)
                raise OtherReleaseError(
                    f"Expected the releases of the recorded fit ({planned} here), got another release, "
                    f"{release.stage!r}. Replay the same fit; if it is the same, its control flow depends on "
                    f"rows."
                )
            release = replace(release, noisy=recorded.noisy)
        self.releases.append(release)
        return release.noisy.copy()


_recording: ContextVar[Recording | None] = ContextVar("dpem_recording", default=None)


def active_recording() -> Recording | None:
    """Return the current recording, if any."""
    return _recording.get()


@contextmanager
def recording(transcript: Recording) -> Iterator[Recording]:
    """Record every release inside the block in `transcript`. Call this through `dpem.testing`."""
    token = _recording.set(transcript)
    try:
        yield transcript
    finally:
        _recording.reset(token)
