"""Two threads that interleave inside a process-wide switch, in the worst order: enter, enter, leave, leave.

`warnings.catch_warnings`, thread-pool limits, `os.umask`, redirected streams and patched classes are shared
by all threads. Each restores the state it found: in this order the second thread finds the state that the
first one has set, and restores that state last. The order is rare by chance; a `Crossing` enforces it
whenever dpem enters such a switch.
"""

import contextlib
import os
import sys
import threading
import unittest.mock
import warnings
from collections import Counter

import threadpoolctl

_SECONDS = 0.5  # that a thread waits for the other, which never comes if there is no switch or a lock
_BETWEEN = (__name__, "warnings", "contextlib", "threadpoolctl", "unittest.mock")


def entered_by_dpem():
    """Return whether dpem's own code entered the switch, because libraries have internal switches."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "dpem"


_turns = []


def take_turn():
    """Let a waiting thread run; called inside a plug-in model."""
    for turn in _turns:
        turn()


class Crossing:
    """The order of two named threads at one switch; each calls `turn` before it leaves the switch."""

    def __init__(self, names, turn):
        self._names, self._turn = names, turn
        self._depth, self.one_at_a_time = Counter(), threading.RLock()
        self._arrived, self._may_come = [], len(names) > 1
        self._second_is_in, self._first_is_out, self._second_is_out = (threading.Event() for _ in range(3))

    def enter(self):
        """Record which thread came first and which second."""
        name = threading.current_thread().name
        if name not in self._names:
            return
        self._depth[name] += 1
        if self._depth[name] == 1 and entered_by_dpem():
            if name not in self._arrived and len(self._arrived) < 2:
                self._arrived.append(name)
            if self._arrived[1:] == [name]:
                self._second_is_in.set()

    def leave(self):
        """Take a turn; the first thread waits until the second enters, the second until the first leaves."""
        name = threading.current_thread().name
        if name not in self._names or self._depth[name] != 1 or not entered_by_dpem():
            return
        self._turn()
        if self._arrived[:1] == [name] and self._may_come:
            self._may_come = self._second_is_in.wait(_SECONDS)  # a lock may block the other: wait once
        elif self._arrived[1:] == [name]:
            self._first_is_out.wait(_SECONDS)

    def left(self):
        """Record that this thread has left, and wait for the other, so that neither repairs the state."""
        name = threading.current_thread().name
        self._depth[name] -= name in self._names
        if self._depth[name]:
            return
        if self._arrived[:1] == [name]:
            self._first_is_out.set()
            if self._second_is_in.is_set():
                self._second_is_out.wait(_SECONDS)
        elif self._arrived[1:] == [name]:
            self._second_is_out.set()


def _around(crossing, enter, leave):
    """Wrap the two functions of a switch so that threads interleave inside it."""

    def entering(*arguments, **named):
        with crossing.one_at_a_time:  # otherwise both may find the original state
            result = enter(*arguments, **named)
            crossing.enter()
        return result

    def leaving(*arguments, **named):
        crossing.leave()
        try:
            return leave(*arguments, **named)
        finally:
            crossing.left()

    return entering, leaving


@contextlib.contextmanager
def crossing(*names, turn=lambda: None):
    """Let threads of these names interleave inside every switch that dpem enters in the block."""
    switches = [
        (warnings.catch_warnings, "__enter__", "__exit__"),
        (threadpoolctl._ThreadpoolLimiter, "__init__", "__exit__"),
        (contextlib._RedirectStream, "__enter__", "__exit__"),
        (unittest.mock._patch, "__enter__", "__exit__"),
    ]
    umask, masks, calls = os.umask, Crossing(names, turn), Counter()

    def asked(mask):
        name = threading.current_thread().name
        calls[name] += 1
        if calls[name] % 2:
            with masks.one_at_a_time:
                result = umask(mask)
                masks.enter()
            return result
        masks.leave()
        try:
            return umask(mask)
        finally:
            masks.left()

    before = [(owner, name, vars(owner)[name]) for owner, *both in switches for name in both]
    _turns.append(turn)
    try:
        os.umask = asked
        for owner, enter, leave in switches:
            both = _around(Crossing(names, turn), vars(owner)[enter], vars(owner)[leave])
            setattr(owner, enter, both[0])
            setattr(owner, leave, both[1])
        yield
    finally:
        _turns.remove(turn)
        os.umask = umask
        for owner, name, function in before:
            setattr(owner, name, function)


def at_once(*works):
    """Run functions in interleaving threads; return the exceptions of the threads."""
    errors, start = {}, threading.Barrier(len(works))

    def run(work):
        start.wait(60)
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (an audit stops a fit by a BaseException)
            errors[threading.current_thread().name] = repr(error)

    names = [f"at once {number}" for number in range(len(works))]
    with crossing(*names):
        threads = [
            threading.Thread(target=run, args=(work,), name=name)
            for name, work in zip(names, works, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return errors
