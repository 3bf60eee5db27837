"""Record and replay: what a fit asked of its rows, raw values included, for tests and audits.

Whatever is fitted under a recording is marked as not private. Use it through `dpem.testing` and `dpem.audit`.
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
    """One release as the gate saw it.

    Attributes
    ----------
    stage : str
        The stage of the plan.
    raw : ndarray of int64
        The exact sum over the rows.
    noisy : ndarray of float64
        What was released.
    sensitivity : float
        What one unit of privacy can move, in grid units, each entry over its relative noise.
    event : GaussianEvent or LaplaceEvent
        What the release costs.
    statistic : RowStatistic
        What was summed.
    grid : RowGrid
        What turned rows into integers.
    of_findings : bool
        Whether it did so with what the schema made of each cell, not with the cells.
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
        """What the event promises of each entry: the Gaussian's deviation, or the Laplace scale."""
        if isinstance(self.event, LaplaceEvent):
            return np.full(self.raw.size, self.sensitivity / self.event.epsilon)
        return self.sensitivity * self.event.noise_multiplier * self.shape

    @property
    def shape(self) -> NDArray[np.float64]:
        """Noise of each entry relative to the mechanism's."""
        given = self.statistic.noise_shape
        return np.ones(self.raw.size) if given is None else given

    def distance(self, other: RecordedRelease) -> float:
        """Return how far the raw values of two releases lie apart, over the sensitivity: 1 at most."""
        return self.length(self.raw - other.raw)

    def length(self, difference: NDArray[np.number]) -> float:
        """Return the length of a difference of raw values over the sensitivity."""
        relative = difference.astype(np.float64) / self.shape
        return float(np.linalg.norm(relative, self.norm)) / self.sensitivity


@dataclass
class Recording:
    """The transcript of a fit, raw values included; given `replay`, it hands out those noisy values.

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
        """Note a release and return the noisy values that the fit goes on with."""
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
                    f"{release.stage!r}."
                )
            release = replace(release, noisy=recorded.noisy)
        self.releases.append(release)
        return release.noisy.copy()


_recording: ContextVar[Recording | None] = ContextVar("dpem_recording", default=None)


def active_recording() -> Recording | None:
    """Return the recording that fits here are written into."""
    return _recording.get()


@contextmanager
def recording(transcript: Recording) -> Iterator[Recording]:
    """Write every release inside the block into `transcript`. Call it through `dpem.testing`."""
    token = _recording.set(transcript)
    try:
        yield transcript
    finally:
        _recording.reset(token)
