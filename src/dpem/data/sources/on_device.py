"""Say which device sums rows that are elsewhere: in memory or in files of this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dpem.errors import InvalidArgumentError

__all__ = ["OnDevice", "invalid_device", "without_device"]

_DEVICE = re.compile("[a-z]{2,16}(:[0-9]{1,3})?")


@dataclass(frozen=True)
class OnDevice:
    """Rows in memory or in files of this machine, streamed to a device block by block.

    The device holds a few blocks at a time, so its memory does not limit the number of rows. Integers of the
    rows are kept there between the steps of a fit as far as they fit into a quarter of its free memory. The
    released bits are those of the same fit without the device.

    Parameters
    ----------
    data : tensor, array, DataFrame, path, Files or function
        Rows, as for `fit`. The device parses a tensor. It should be in pinned memory
        (``tensor.pin_memory()``), from which copies are fastest. All other rows are parsed by the threads of
        this machine.
    device : str or torch.device, default "cuda"
        The device, as in torch.

    Notes
    -----
    It needs the extra `gpu`. Rows that are on a device already need no `OnDevice`: pass the tensor itself.

    Examples
    --------
    >>> import dpem
    >>> claims = dpem.OnDevice("claims/*.parquet")
    >>> model = dpem.KMeans(3, epsilon=1.0, schema=schema).fit(claims)  # doctest: +SKIP
    """

    data: Any
    device: Any = "cuda"

    def __post_init__(self) -> None:
        if isinstance(self.data, OnDevice):
            raise InvalidArgumentError("Expected rows, got rows with a device already. Name one device.")
        of_torch = type(self.device).__module__.partition(".")[0] == "torch"
        if not of_torch and not (isinstance(self.device, str) and _DEVICE.fullmatch(self.device)):
            raise invalid_device()

    def __repr__(self) -> str:
        return f"OnDevice({type(self.data).__name__}, {str(self.device)!r})"  # shows no rows


def invalid_device() -> InvalidArgumentError:
    """Return the error for a wrong device, which may be rows in the wrong place: it shows no value."""
    return InvalidArgumentError(
        'Expected a device of torch, such as "cuda", "cuda:1" or "cpu", got another value. Name a device.'
    )


def without_device(data: Any) -> Any:
    """Return the rows themselves."""
    return data.data if isinstance(data, OnDevice) else data
