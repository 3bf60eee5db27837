"""The file format of fitted models: an npz file without pickle, with arrays and JSON metadata.

A file contains released values, public arguments and the statement only. It is written to a temporary file
first and then renamed, so that a crash leaves no incomplete file.

A file may be forged. The sizes that it claims are compared with its size on disk before memory is allocated,
checksums are verified, nothing is unpacked to disk, and nothing is executed. The models validate the values
(`dpem.estimator.saved_arrays`).
"""

from __future__ import annotations

import json
import math
import struct
import tokenize
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib import format as npy

from dpem import _validate
from dpem._files import replacing
from dpem.errors import InvalidArgumentError, ModelFileError

if TYPE_CHECKING:
    import os

__all__ = ["read_model", "write_model"]

FORMAT_VERSION = 1
_METADATA = "metadata"
_SUFFIX = ".npy"  # suffix of array names in npz files

# Bytes of memory that any file may use. Larger arrays are not compressed, so that the file has their size.
_MEMORY_LIMIT = 2**28
# Limits of metadata, because parsed JSON is many times its size: in bytes, and relative to the file.
_TEXT_LIMIT, _TEXT_RATIO = 2**22, 16
_LONGEST_HEADER = 512  # characters of the header of an array

# The exceptions of the readers of zip, npy and JSON on invalid bytes.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,  # in the header of an array
    EOFError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,  # encryption, unknown compression, nesting too deep
    SyntaxError,
    TypeError,
    ValueError,
)


def write_model(
    path: str | os.PathLike[str], metadata: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a model atomically."""
    if _METADATA in arrays:
        raise InvalidArgumentError(
            f"Expected array names other than {_METADATA!r}, got an array with this name. Rename it."
        )
    content = json.dumps({"format": FORMAT_VERSION, **metadata}, allow_nan=False).encode()
    everything: dict[str, Any] = {_METADATA: np.frombuffer(content, dtype=np.uint8), **arrays}
    claimed = sum(array.nbytes + _LONGEST_HEADER for array in everything.values())
    write = np.savez_compressed if claimed <= _MEMORY_LIMIT else np.savez
    with replacing(path) as temporary, temporary.open("wb") as file:
        write(file, **everything)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file that `write_model` wrote; nothing in the file is executed."""
    file = _validate.path(path, remedy="Pass the file that save() wrote.")
    if not file.exists():
        raise ModelFileError(
            f"Expected a saved model, got path={str(path)!r}, which does not exist. Correct the path."
        )
    if not file.is_file():  # reading from a pipe or a device might never end
        raise ModelFileError(
            f"Expected a saved model, got path={str(path)!r}, which is not a regular file. Correct the path."
        )
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, file.stat().st_size)
            content = _array(archive, members.pop(_METADATA)).tobytes()
            metadata = json.loads(content, parse_constant=_reject_constant)
            arrays = {name: _array(archive, member) for name, member in members.items()}
    except OSError as error:
        raise ModelFileError(
            f"Expected a model that can be read, got path={str(path)!r}: {error.strerror or error}."
        ) from error
    except _UNREADABLE as error:
        raise ModelFileError(
            f"Expected a model saved by dpem, got path={str(path)!r}, which is another file, or is damaged. "
            f"Restore it from a copy, or save the model again."
        ) from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT_VERSION:
        raise ModelFileError(
            f"Expected model format {FORMAT_VERSION} in {str(path)!r}, got another. Install the version of "
            f"dpem that wrote the file."
        )
    return metadata, arrays


def _members(archive: zipfile.ZipFile, file_size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by the names of their arrays; raise if they claim to be larger than the file."""
    listed = archive.infolist()
    members = {member.filename.removesuffix(_SUFFIX): member for member in listed}
    names = [member.filename for member in listed]
    if len(members) < len(listed) or not all(name.endswith(_SUFFIX) for name in names):
        raise ValueError("Expected only arrays, each once.")
    if any(set(name) & set("/\\") for name in names):
        raise ValueError("Expected names, got paths.")
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in listed):
        raise ValueError("Expected members as NumPy writes them.")
    if sum(member.file_size for member in listed) > max(_MEMORY_LIMIT, file_size):
        raise ValueError("Expected arrays of the size that the file has.")
    if members[_METADATA].file_size > max(_TEXT_LIMIT, _TEXT_RATIO * file_size):
        raise ValueError("Expected short metadata.")
    return members


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read an array of plain numbers whose header agrees with the size of its member."""
    with archive.open(info) as member:
        if npy.read_magic(member) != (1, 0):
            raise ValueError("Expected version 1.0 of the npy format.")
        shape, _, dtype = npy.read_array_header_1_0(member, max_header_size=_LONGEST_HEADER)
        if dtype.kind not in "fiu" or dtype.itemsize > 8:
            raise ValueError("Expected plain numbers.")
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError("Expected as many numbers as the header says.")
        member.seek(0)
        return np.asarray(npy.read_array(member, allow_pickle=False, max_header_size=_LONGEST_HEADER))


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"Expected JSON, got {constant}.")
