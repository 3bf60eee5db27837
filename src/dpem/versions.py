"""What is installed: the first thing that a report of a problem needs."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

__all__ = ["show_versions"]


def show_versions() -> None:
    """Print the versions of dpem, Python and the libraries that it uses, for a report of a problem.

    Nothing is imported, and nothing of the machine is told but its kind and its number of cores.

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
