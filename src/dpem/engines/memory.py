"""The memory limit for rows that an engine keeps between the steps of a fit."""

from __future__ import annotations

from pathlib import Path

__all__ = ["bytes_to_keep"]

_MOST = 1 << 31
_SHARE = 4  # at most 1/4 of the free memory


def bytes_to_keep() -> int:
    """Return the limit: two gigabytes, or a quarter of the memory that this process can still allocate."""
    return max(0, min(_MOST, *(free // _SHARE for free in _free())))


def _free() -> list[int]:
    found = [_MOST * _SHARE]
    memory = _numbers(Path("/proc/meminfo"))
    if "MemAvailable" in memory:
        found.append(memory["MemAvailable"] * 1024)
    for folder in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")):
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            try:
                found.append(int((folder / limit).read_text()) - int((folder / used).read_text()))
            except (OSError, ValueError):  # no such limit
                continue
    own = _numbers(Path("/proc/self/status"))
    try:
        import resource  # noqa: PLC0415  (Unix)
    except ImportError:
        return found
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(kind)[0]
        if most != resource.RLIM_INFINITY and name in own:
            found.append(most - own[name] * 1024)
    return found


def _numbers(file: Path) -> dict[str, int]:
    """Parse a file with a name and a number of kilobytes in each line."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
