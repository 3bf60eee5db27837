"""Atomic writing of files, and checks before it."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpem import _validate
from dpem.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["check_writable", "make_folder", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; at the end of the block its file replaces `path`.

    After an error the temporary file is removed, and an existing file stays unchanged.
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
    """Create a folder and its parents, unless they exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"Expected a folder that can be created, got {str(path)!r}: {error.strerror}. Choose another "
            f"folder, or change its permissions."
        ) from error


def check_writable(
    path: str | os.PathLike[str], *, overwrite: bool = False, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise before costly work if a file cannot be written or must not be replaced.

    `inputs` are files that the same work reads: none of them may be the output.
    """
    target = _regular(path)
    for other in inputs:
        if Path(other).resolve() == target:
            raise OutputError(
                f"Expected an output other than the inputs, got {str(path)!r}, which is also an input. "
                f"Choose another name."
            )
    if target.exists() and not overwrite:
        raise OutputError(
            f"Expected a new file, got {str(path)!r}, which exists. Choose another name, or pass --overwrite "
            f"to replace it."
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(
            f"Expected a file that can be replaced, got {str(path)!r}, which is read-only. Choose another "
            f"name."
        )
    _temporary(target, path).unlink()


def _regular(path: str | os.PathLike[str]) -> Path:
    """Resolve links and return the target; raise if something other than a regular file is there."""
    target = _validate.path(path).resolve()
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "not a regular file"
        raise OutputError(
            f"Expected a file to write, got {str(path)!r}, which is {kind}. Choose another name."
        )
    return target


def _temporary(target: Path, path: str | os.PathLike[str]) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise _cannot_write(path, error) from error
    os.close(handle)
    return Path(name)


def _usual_mode(target: Path) -> int:
    """Return the permissions of the file to replace, or the default ones of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    # Reading the umask means setting it, which would affect files of other threads. So create a file instead.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        probe = Path(folder) / "probe"
        probe.touch(mode=0o666)
        return probe.stat().st_mode & 0o777


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> OutputError:
    return OutputError(
        f"Expected a folder that can be written, got path={str(path)!r}: {error.strerror or error}. Create "
        f"the folder, or choose another."
    )
