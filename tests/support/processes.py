"""Work in a process of its own, which may run out of disk or memory, give up its rights, or die."""

import multiprocessing
import resource
from contextlib import contextmanager

# Forked from a server that has imported the package and done nothing else: quick, and free of threads.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["dpem.loading", "dpem.cli"])


class Died(Exception):  # noqa: N818
    """The process ended without a result."""


def _answer(pipe, function, arguments):
    try:
        pipe.send((function(*arguments), None))
    except BaseException as error:  # noqa: BLE001  (it is raised again, where it is seen)
        error.notes = getattr(error, "__notes__", [])
        pipe.send((None, error))


def apart(function, *arguments):
    """Return what a function returns in a process of its own, or raise what it raises."""
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_answer, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        result, error = ours.recv()
    except EOFError:
        process.join()
        raise Died(process.exitcode) from None
    finally:
        ours.close()
        process.join()
    if error is not None:
        raise error
    return result


@contextmanager
def limited(which, most):
    """Let this process have no more of something inside the block: bytes of a file, or of memory."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)
