"""Saving a fitted model: arrays in an npz without pickle, everything else in JSON inside it.

Only released values, public arguments and the statement are written. The file is written beside its place and
then moved there, so that a crash leaves no half of it.

A file may come from anyone. What it claims is compared with what it weighs before memory is taken, its
checksums are checked, nothing in it is unpacked to disk, and nothing is executed. What its numbers mean is
checked by the models (`dpem.estimator.saved_arrays`).
"""

from __future__ import annotations

import json
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib import format as npy

from dpem._files import replacing
from dpem.errors import InvalidArgumentError, ModelFileError

if TYPE_CHECKING:
    import os

__all__ = ["read_model", "write_model"]

FORMAT_VERSION = 1
_METADATA = "metadata"
_SUFFIX = ".npy"  # which npz files give the names of their arrays

# What a small file may grow to in memory. Beyond it, arrays are not compressed: a file weighs what it claims.
_ROOM = 2**28
_ROOM_FOR_TEXT, _TEXT_FOR_WEIGHT = 2**22, 16  # of metadata: JSON becomes objects many times its size
_LONGEST_HEADER = 512  # characters of an array's own description

# All that the readers of zip, npy and JSON raise on bytes that are none of theirs.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,  # of an array's header
    EOFError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,  # encryption, unknown compression, nesting beyond Python's stack
    SyntaxError,
    TypeError,
    ValueError,
)


def write_model(
    path: str | os.PathLike[str], metadata: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a model atomically."""
    if _METADATA in arrays:
        raise InvalidArgumentError(f"Expected arrays with other names than {_METADATA!r}.")
    content = json.dumps({"format": FORMAT_VERSION, **metadata}, allow_nan=False).encode()
    everything: dict[str, Any] = {_METADATA: np.frombuffer(content, dtype=np.uint8), **arrays}
    claimed = sum(array.nbytes + _LONGEST_HEADER for array in everything.values())
    write = np.savez_compressed if claimed <= _ROOM else np.savez
    with replacing(path) as temporary, temporary.open("wb") as file:
        write(file, **everything)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write_model` wrote; nothing in the file is executed."""
    file = Path(path)
    if not file.exists():
        raise ModelFileError(f"Expected a saved model, got path={str(path)!r}, which does not exist.")
    if not file.is_file():  # to read from a pipe or a device might never end
        raise ModelFileError(f"Expected a saved model, got path={str(path)!r}, which is no regular file.")
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, file.stat().st_size)
            content = _array(archive, members.pop(_METADATA)).tobytes()
            metadata = json.loads(content, parse_constant=_refuse)
            arrays = {name: _array(archive, member) for name, member in members.items()}
    except OSError as error:
        raise ModelFileError(
            f"Expected a model that can be read, got path={str(path)!r}: {error.strerror or error}."
        ) from error
    except _UNREADABLE as error:
        raise ModelFileError(
            f"Expected a model saved by dpem, got path={str(path)!r}, which is none, or is damaged. Take a "
            f"copy of it, or save the model again."
        ) from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT_VERSION:
        raise ModelFileError(
            f"Expected model format {FORMAT_VERSION} in {str(path)!r}. Use the release of dpem that wrote it."
        )
    return metadata, arrays


def _members(archive: zipfile.ZipFile, weight: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by the names of their arrays; raise where they claim more than the file weighs."""
    listed = archive.infolist()
    members = {member.filename.removesuffix(_SUFFIX): member for member in listed}
    names = [member.filename for member in listed]
    if len(members) < len(listed) or not all(name.endswith(_SUFFIX) for name in names):
        raise ValueError("Expected arrays alone, each once.")
    if any(set(name) & set("/\\") for name in names):
        raise ValueError("Expected names, got paths.")
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in listed):
        raise ValueError("Expected members as NumPy writes them.")
    if sum(member.file_size for member in listed) > max(_ROOM, weight):
        raise ValueError("Expected a file that weighs what it claims.")
    if members[_METADATA].file_size > max(_ROOM_FOR_TEXT, _TEXT_FOR_WEIGHT * weight):
        raise ValueError("Expected short metadata.")
    return members


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read an array of plain numbers whose header agrees with the size of its member."""
    with archive.open(info) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError("Expected the first version of the format, which does for plain numbers.")
        shape, _, dtype = npy.read_array_header_1_0(member, max_header_size=_LONGEST_HEADER)
        if dtype.kind not in "fiu" or dtype.itemsize > 8:
            raise ValueError("Expected plain numbers.")
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError("Expected as many numbers as the header says.")
        member.seek(0)
        return np.asarray(npy.read_array(member, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"Expected JSON, got {constant}.")
