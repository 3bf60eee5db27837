"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpem.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_writable", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to, beside `path`; what is there at the end of the block takes its place.

    After an error nothing is left, and a file that was there before is as it was.
    """
    target = Path(path)
    temporary = _temporary(target)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(_usual_mode(target))
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise where a file could not be written, or is there and must not be replaced: before costly work."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"Expected a file to write, got {str(path)!r}, which is a folder.")
    if target.exists() and not overwrite:
        raise OutputError(
            f"Expected a new file, got {str(path)!r}, which exists. Choose another name, or pass --overwrite "
            f"to replace it."
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"Expected a file that may be replaced, got {str(path)!r}, which is read-only.")
    _temporary(target).unlink()


def _temporary(target: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise _cannot_write(target, error) from error
    os.close(handle)
    return Path(name)


def _usual_mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of any new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def _cannot_write(target: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Expected a folder that can be written, got path={str(target)!r}: {error.strerror or error}."
    )
