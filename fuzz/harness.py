"""What a target is, and how it is run: inputs counted, refusals told from failures, nothing stored.

A target's check returns whether an input was accepted; an input that it refuses must raise nothing but the
error that the documentation names. Whatever else is raised, or warned of, is a failure.
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

_DRAWS = 200  # of one search: Hypothesis keeps a tree of all that it drew
_MEMORY = 1 << 30  # bytes that one input may take at most


@dataclass(frozen=True)
class Target:
    """One thing that reads inputs.

    Attributes
    ----------
    name, what : str
        For the table.
    examples : int
        How many inputs the record has.
    drawn : SearchStrategy, optional
        Draws what a family of inputs is made of: a draw costs more than most inputs do.
    family : callable, optional
        Makes the inputs of a family.
    check : callable, optional
        Takes an input; returns whether it was accepted, and raises where a property does not hold.
    machine : type, optional
        Instead of both, a state machine, which counts its own steps in `steps`; a run of it is one input.
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
    """What came of the inputs of one target."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, other):
        """Add what came of further inputs."""
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.refused += other.refused
        self.seconds += other.seconds
        self.failures += other.failures


def run(target, examples, first_seed=0, *, show=True):
    """Run inputs until there are so many, in searches with seeds of their own; return what came of them.

    Where something fails, and `show` is on, search again for a small input that does, and print it.
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
        except BaseException as error:  # some libraries raise others than Exception
            outcome.failures[_place(error)] += 1
        else:
            outcome.accepted += accepted
            outcome.refused += not accepted


def checked(target, value):
    """Return whether an input is accepted; a warning is an error, and so is one that nobody could catch."""
    uncaught = []
    usual, sys.unraisablehook = sys.unraisablehook, uncaught.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            accepted = target.check(value)
    finally:
        sys.unraisablehook = usual
    if uncaught:
        raise AssertionError(f"Ignored where it was raised: {uncaught[0].exc_value!r}")
    return accepted


def _place(error):
    """Say where an error was raised, and nothing of the input."""
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
    """Return a folder for files, in memory where there is one there; removed at the end."""
    in_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=in_memory if in_memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def bounded_memory():
    """Let an input that asks for much memory fail with a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
