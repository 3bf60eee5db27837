"""Installed versions, for bug reports."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

__all__ = ["show_versions"]


def show_versions() -> None:
    """Print the versions of dpem, Python and the libraries that dpem uses, for a bug report.

    Of the machine, only the system and the number of cores are printed. Nothing is imported.

    Examples
    --------
    >>> import dpem
    >>> dpem.show_versions()
    dpem             ...
    Python           ...
    """
    lines = {
        "dpem": version("dpem"),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    for requirement in requires("dpem") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if name != "dpem" and "extra == 'dev'" not in requirement.replace('"', "'"):
            lines[name] = _version(name)
    print("\n".join(f"{name:<16} {found}" for name, found in lines.items()))  # noqa: T201


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
