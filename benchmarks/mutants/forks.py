"""Run tests on changed code, in processes forked from one that has imported and collected everything.

If a change lies inside functions, the fork replaces their code and starts the tests at once: first the tests
that caught other changes, then quick ones. Any other change (a constant, a decorator) needs a new import.
Values computed at import stay unchanged; at worst, a mutant survives that should be killed.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from _pytest.main import pytest_runtestloop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Verdict = tuple[str, str]

_PATIENCE = 10.0  # seconds allowed beyond ten times the usual time of a test
OPTIONS = [
    "-x",
    "-q",
    "--no-header",
    "--tb=line",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
]


class Forks:
    """A pytest plugin that runs the collected tests once unchanged, and then once for each change."""

    def __init__(
        self, module: str, path: Path, changes: dict[str, str], tell: Callable[[str, str, str], bool]
    ) -> None:
        self._module, self._path, self._changes, self._tell = module, path, changes, tell
        self._notes = path.with_suffix(".notes")
        self._kills: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how long each test takes, and which fails."""
        if report.failed or report.when == "call":
            ended = "timed out" if "Timeout (>" in report.longreprtext else report.outcome
            with self._notes.open("a") as file:
                file.write(json.dumps([report.nodeid, ended, report.duration]) + "\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests in forks."""
        original = self._path.read_text()
        begun = time.monotonic()
        verdict, by = self._run(session, None, 900)
        if verdict != "survived":
            raise SystemExit(f"The tests of {self._module} fail without any change: {by}")
        limit = 20 + 3 * (time.monotonic() - begun)
        seconds = {nodeid: duration for nodeid, _, duration in self._read_notes()}
        for item in session.items:
            item.add_marker(pytest.mark.timeout(_PATIENCE + 10 * seconds.get(item.nodeid, 0.0)))
        for key, source in self._changes.items():
            functions = _changed_functions(self._module, original, source)
            if functions is None:
                continue
            session.items.sort(key=lambda item: (-self._kills[item.nodeid], seconds.get(item.nodeid, 0.0)))
            self._path.write_text(source)
            verdict, by = self._run(session, functions, limit)
            self._path.write_text(original)
            self._kills[by] += 1
            if not self._tell(key, verdict, by):
                break
        return True

    def _run(
        self, session: pytest.Session, functions: list[tuple[FunctionType, CodeType]] | None, limit: float
    ) -> Verdict:
        self._notes.write_text("")

        def tests() -> int:
            for function, code in functions or ():
                function.__code__ = code
            with suppress(session.Failed):
                pytest_runtestloop(session)
            return int(session.testsfailed > 0)

        verdict = in_fork(tests, limit)
        failed = [
            (ended, nodeid) for nodeid, ended, _ in self._read_notes() if ended in ("failed", "timed out")
        ]
        if failed and failed[0][0] == "timed out":
            verdict = "timed out"
        return verdict, failed[0][1] if failed else ""

    def _read_notes(self) -> list[Any]:
        return [json.loads(line) for line in self._notes.read_text().splitlines()]


def _changed_functions(module: str, before: str, after: str) -> list[tuple[FunctionType, CodeType]] | None:
    """Return the changed functions of the imported module with their code; None if more changed."""
    try:
        old, new = compile(before, "old", "exec"), compile(after, "old", "exec")
    except SyntaxError:
        return None
    if _skeleton(old) != _skeleton(new):
        return None
    was = dict(_functions(old))
    changed = [(name, code) for name, code in _functions(new) if was.get(name) != code]
    try:
        return [(_find(module, name), code) for name, code in changed]
    except (AttributeError, KeyError, TypeError):
        return None


def _skeleton(code: CodeType) -> Any:
    """Return what runs at import: everything except the bodies of functions."""
    inside = [
        _skeleton(c)
        if isinstance(c, CodeType) and not c.co_flags & 2
        else type(c)
        if isinstance(c, CodeType)
        else repr(c)
        for c in code.co_consts
    ]
    return code.co_code, code.co_names, inside


def _functions(code: CodeType) -> Iterable[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 2:  # CO_NEWLOCALS: a function; a class body has none
                yield constant.co_qualname, constant
            else:
                yield from _functions(constant)


def _find(module: str, name: str) -> FunctionType:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = vars(found)[part]
        found = getattr(found, "fget", None) or getattr(found, "__func__", found)
        found = getattr(found, "__wrapped__", found)
    if not isinstance(found, FunctionType):
        raise TypeError(name)
    return found


# -- processes -------------------------------------------------------------------------------------------


def in_fork(work: Callable[[], int], limit: float) -> str:
    """Run `work` in a forked process of its own group, and return how its tests ended."""
    child = os.fork()
    if child == 0:
        _child(work)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            _end_group(child)
            return "survived" if status == 0 else "killed"
        time.sleep(0.01)
    _end_group(child)
    os.waitpid(child, 0)
    return "timed out"


def _child(work: Callable[[], int]) -> NoReturn:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
    code = 99
    try:
        code = work()
    except BaseException:  # noqa: BLE001  (a change may raise anything, anywhere)
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
