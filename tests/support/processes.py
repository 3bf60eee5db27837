"""Run functions in a separate process, which may run out of disk or memory, drop its rights, or die."""

import multiprocessing
import resource
from contextlib import contextmanager

# Forked from a server that has only imported the package, which is fast and has no threads.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["dpem.loading", "dpem.cli"])


class Died(Exception):  # noqa: N818
    """The process ended without a result."""


def _answer(pipe, function, arguments):
    try:
        pipe.send((function(*arguments), None))
    except BaseException as error:  # noqa: BLE001  (raised again in the parent)
        error.notes = getattr(error, "__notes__", [])
        pipe.send((None, error))


def apart(function, *arguments):
    """Run a function in a separate process; return its result or raise its exception."""
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
    """Limit a resource of this process inside the block, such as the size of files or memory."""
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)
