"""Fuzz targets, and how to run them: count inputs, distinguish rejections from failures, store nothing.

The check of a target returns whether it accepted an input. A rejected input must raise the documented error.
Any other error, and any warning, is a failure.
"""

import atexit
import itertools
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.stateful import run_state_machine_as_test

__all__ = ["Outcome", "Target", "bounded_memory", "run", "scratch"]

_DRAWS = 200  # limit of one search: Hypothesis keeps a tree of all draws
_MEMORY = 1 << 30  # largest number of bytes that one input may use


@dataclass(frozen=True)
class Target:
    """A parser or reader, with its generated inputs.

    Attributes
    ----------
    name, what : str
        Name and description in the table.
    examples : int
        Usual number of inputs.
    drawn : SearchStrategy, optional
        Draws the basis of a family of inputs, since one draw costs more than most inputs.
    family : callable, optional
        Generates the inputs of a family.
    check : callable, optional
        Takes an input and returns whether it was accepted; raises if a property does not hold.
    machine : type, optional
        A state machine instead of both; one run of it is one input.
    """

    name: str
    what: str
    examples: int
    drawn: Any = None
    family: Callable[[Any], Iterable[Any]] | None = None
    check: Callable[[Any], bool] | None = None
    machine: Any = None


@dataclass
class Outcome:
    """The results of one target."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, other):
        """Add the results of further inputs."""
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.refused += other.refused
        self.seconds += other.seconds
        self.failures += other.failures


def run(target, examples, first_seed=0, *, show=True):
    """Run the given number of inputs, in searches with different seeds; return the results.

    After a failure, with `show`, search again for a small input that causes it, and print it.
    """
    outcome = Outcome()
    while outcome.inputs < examples:
        outcome.add(_run_search(target, examples - outcome.inputs, first_seed, show))
        first_seed += 1
    return outcome


def _run_search(target, examples, number, show):
    outcome = Outcome()
    start = time.perf_counter()
    if target.machine is not None:
        _run_machine(target.machine, min(examples, _DRAWS), number, outcome)
    else:
        draws = min(_DRAWS, 1 + examples // 10)  # most families have more than ten inputs
        _search(target, number, draws, lambda family: _tally(target, family, examples, outcome))
        for failure in outcome.failures if show else ():
            _print_smallest(target, number, draws, failure)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _settings(examples, *phases, **more):
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.generate, *phases),
        **more,
    )


def _search(target, number, draws, use, *phases):
    @seed(number)
    @_settings(draws, *phases)
    @given(drawn=target.drawn)
    def search(drawn):
        use(target.family(drawn))

    search()


def _tally(target, family, most, outcome):
    for value in itertools.islice(family, most - outcome.inputs):
        outcome.inputs += 1
        try:
            accepted = checked(target, value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # some libraries raise errors that are not Exceptions
            outcome.failures[_place(error)] += 1
        else:
            outcome.accepted += accepted
            outcome.refused += not accepted


def checked(target, value):
    """Return whether an input is accepted; warnings and uncatchable errors are failures."""
    uncaught = []
    usual, sys.unraisablehook = sys.unraisablehook, uncaught.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            accepted = target.check(value)
    finally:
        sys.unraisablehook = usual
    if uncaught:
        raise AssertionError(f"Error that nobody could catch: {uncaught[0].exc_value!r}")
    return accepted


def _place(error):
    """Return the type and place of an error, and nothing about the input."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def _print_smallest(target, number, draws, failure):
    def use(family):
        for value in family:
            try:
                checked(target, value)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if _place(error) == failure:
                    raise AssertionError(f"{target.name}: {failure}: {error}\n{value!r}") from error

    try:
        _search(target, number, draws, use, Phase.shrink)
    except AssertionError as error:
        print("".join(traceback.format_exception(error)))


def _run_machine(machine, examples, number, outcome):
    class Counted(machine):
        def __init__(self):
            super().__init__()
            outcome.inputs += 1
            outcome.accepted += 1

    Counted.__name__ = Counted.__qualname__ = machine.__name__
    try:
        run_state_machine_as_test(seed(number)(Counted), settings=_settings(examples, stateful_step_count=25))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome.failures[_place(error)] += 1
        outcome.accepted -= 1
        print("".join(traceback.format_exception(error)))


@cache
def scratch():
    """Return a temporary folder, in memory if possible; it is removed at exit."""
    in_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=in_memory if in_memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def bounded_memory():
    """Limit the memory, so that an input that needs too much fails with a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
