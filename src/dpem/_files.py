"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpem.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["check_writable", "make_folder", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to, beside `path`; what is there at the end of the block takes its place.

    After an error nothing is left, and a file that was there before is as it was.
    """
    target = _regular(path)
    temporary = _temporary(target, path)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(_usual_mode(target))
        temporary.replace(target)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"Expected a folder that can be made, got {str(path)!r}: {error.strerror}."
        ) from error


def check_writable(
    path: str | os.PathLike[str], *, overwrite: bool = False, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise where a file could not be written, or must not be replaced: before costly work.

    `inputs` are files that are read: none of them may be the output.
    """
    target = _regular(path)
    for other in inputs:
        if Path(other).resolve() == target:
            raise OutputError(f"Expected an output that is no input, got {str(path)!r}, which is read too.")
    if target.exists() and not overwrite:
        raise OutputError(
            f"Expected a new file, got {str(path)!r}, which exists. Choose another name, or pass --overwrite "
            f"to replace it."
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"Expected a file that may be replaced, got {str(path)!r}, which is read-only.")
    _temporary(target, path).unlink()


def _regular(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to, through links; what is no file is never replaced."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no regular file"
        raise OutputError(f"Expected a file to write, got {str(path)!r}, which is {kind}.")
    return target


def _temporary(target: Path, path: str | os.PathLike[str]) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise _cannot_write(path, error) from error
    os.close(handle)
    return Path(name)


def _usual_mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of any new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    # The umask cannot be read without setting it, which would change the files of other threads: make a file.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        probe = Path(folder) / "probe"
        probe.touch(mode=0o666)
        return probe.stat().st_mode & 0o777


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> OutputError:
    return OutputError(
        f"Expected a folder that can be written, got path={str(path)!r}: {error.strerror or error}."
    )
