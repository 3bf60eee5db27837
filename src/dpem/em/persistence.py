"""Saving a fitted model: arrays in an npz without pickle, everything else in JSON inside it.

Only released values, public arguments and the statement are written. The file is written beside its place and
then moved there, so that a crash leaves no half of it.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._files import replacing
from dpem.errors import DpemError, InvalidArgumentError

if TYPE_CHECKING:
    import os

__all__ = ["ModelFileError", "read_model", "write_model"]

FORMAT_VERSION = 1
_METADATA = "metadata"


class ModelFileError(DpemError):
    """The file is no saved model, is damaged, or was written by a newer dpem."""


def write_model(
    path: str | os.PathLike[str], metadata: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a model atomically."""
    if _METADATA in arrays:
        raise InvalidArgumentError(f"Expected arrays with other names than {_METADATA!r}.")
    content = json.dumps({"format": FORMAT_VERSION, **metadata}, allow_nan=False).encode()
    everything: dict[str, Any] = {_METADATA: np.frombuffer(content, dtype=np.uint8), **arrays}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **everything)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write_model` wrote; nothing in the file is executed."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            metadata = json.loads(bytes(file[_METADATA]))
            arrays = {name: file[name] for name in file.files if name != _METADATA}
    except FileNotFoundError as error:
        raise ModelFileError(
            f"Expected a saved model, got path={str(path)!r}, which does not exist."
        ) from error
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise ModelFileError(
            f"Expected a model saved by dpem, got path={str(path)!r}, which is none."
        ) from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT_VERSION:
        raise ModelFileError(
            f"Expected model format {FORMAT_VERSION} in {str(path)!r}. Use the release of dpem that wrote it."
        )
    return metadata, arrays
