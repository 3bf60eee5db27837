"""Other block sizes than those of the package; sums must not depend on them."""

from contextlib import contextmanager

import pytest

from dpem.data import TableRows


@contextmanager
def blocks_of(n_rows, kept=True):
    """Read rows in blocks of `n_rows`; with `kept=False`, cache none between steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableRows, "block_rows", property(lambda self: n_rows))
        if not kept:
            keep_nothing(patch)
        yield


def keep_nothing(patch):
    """Let the engine read all rows again on every pass."""
    patch.setattr("dpem.engines.local.bytes_to_keep", lambda: 0)
