"""Process-wide state that a library must not change: read, compare, restore and deliberately change it.

`STATE` has one entry for each kind of state. Every entry has a deliberate leak, which shows in a test that
changes of the kind are detected.
"""

import atexit
import builtins
import contextlib
import contextvars
import copyreg
import csv
import decimal
import faulthandler
import functools
import gc
import locale
import logging
import multiprocessing
import operator
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
import pyarrow as pa
import sklearn
import threadpoolctl


class Is:
    """An object that equals only itself; the reference prevents reuse of its identity."""

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, Is) and self.thing is other.thing

    __hash__ = None

    def __repr__(self):
        return repr(self.thing)


class Kind(NamedTuple):
    """One kind of state: functions that read it, restore it, and change it as a bad operation would."""

    read: Callable[[], dict[str, Any]]
    restore: Callable[[dict[str, Any]], None]
    leak: Callable[[], Any]


def nothing(_):
    """Restore nothing, because the leak of this kind ends with the process."""


# -- warnings and logging ------------------------------------------------------------------------------------

_WARNING_FUNCTIONS = (
    "showwarning",
    "formatwarning",
    "_showwarnmsg_impl",
    "warn",
    "warn_explicit",
    "catch_warnings",
)


def _warning_filters():
    found = {"list": Is(warnings.filters), "default action": warnings.defaultaction}
    return found | {f"filter {number}": Is(one) for number, one in enumerate(warnings.filters)}


def _restore_warning_filters(before):
    warnings.filters = before["list"].thing
    warnings.filters[:] = [one.thing for name, one in before.items() if name.startswith("filter ")]
    warnings.defaultaction = before["default action"]
    warnings._filters_mutated()


def _leak_warning_filter():
    warnings.filters.insert(0, ("ignore", None, Warning, "no such module", 0))
    warnings._filters_mutated()


def _warning_functions():
    return {name: Is(getattr(warnings, name)) for name in _WARNING_FUNCTIONS}


def _restore_warning_functions(before):
    for name, function in before.items():
        setattr(warnings, name, function.thing)


def _leak_warning_function():
    warnings.showwarning = lambda *_, **__: None


def _logger_state(logger):
    return logger.level, list(logger.handlers), list(logger.filters), logger.disabled, logger.propagate


def _logging():
    manager = logging.root.manager
    named = {name: one for name, one in manager.loggerDict.items() if isinstance(one, logging.Logger)}
    found = {f"logger {name}": _logger_state(one) for name, one in {"root": logging.root, **named}.items()}
    return found | {
        "disable": manager.disable,
        "last resort": Is(logging.lastResort),
        "raise exceptions": logging.raiseExceptions,
        "logger class": logging.getLoggerClass(),
        "record factory": Is(logging.getLogRecordFactory()),
        "captured warnings": logging._warnings_showwarning is not None,
    }


def _restore_logging(before):
    logging.disable(before["disable"])
    for name, state in before.items():
        if name.startswith("logger ") and isinstance(state, tuple):
            logger = (
                logging.root if name == "logger root" else logging.getLogger(name.removeprefix("logger "))
            )
            logger.level, logger.disabled, logger.propagate = state[0], state[3], state[4]
            logger.handlers[:], logger.filters[:] = state[1], state[2]
    logging.root.manager._clear_cache()


# -- signals, environment, files -----------------------------------------------------------------------------


def _signals():
    found = {
        signal.Signals(number).name: signal.getsignal(number) for number in (1, 2, 3, 10, 12, 13, 14, 15, 17)
    }
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return found | {
        "wakeup": wakeup,
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "timer": signal.getitimer(signal.ITIMER_REAL)[1],
        "fault handler": faulthandler.is_enabled(),
    }


def _restore_signals(before):
    for name, handler in before.items():
        if name.startswith("SIG"):
            signal.signal(signal.Signals[name], handler)


def _restore_environment(before):
    os.environ.clear()
    os.environ.update(before)


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return {"umask": mask}


def _folders():
    return {"working folder": str(Path.cwd()), "temporary folder": tempfile.tempdir}


def _restore_folders(before):
    os.chdir(before["working folder"])
    tempfile.tempdir = before["temporary folder"]


def _temporary_files():
    """Return the content of the temporary folder and of the working folder, which only this process uses."""
    folders = (Path(tempfile.gettempdir()), Path.cwd())
    return {str(path.relative_to(folder.parent)): "there" for folder in folders for path in folder.rglob("*")}


def _open_files():
    found = {}
    with contextlib.suppress(FileNotFoundError):  # the list exists only on Linux
        for file in list(Path("/proc/self/fd").iterdir()):
            with contextlib.suppress(FileNotFoundError):  # the file of the list itself
                found[file.name] = str(file.readlink())
    return found


def _limits():
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    found = {name: resource.getrlimit(getattr(resource, name)) for name in names}
    return found | {"cores": os.sched_getaffinity(0), "priority": os.getpriority(os.PRIO_PROCESS, 0)}


def _restore_limits(before):
    for name, limit in before.items():
        if name.startswith("RLIMIT_"):
            resource.setrlimit(getattr(resource, name), limit)


def _leak_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


# -- threads and processes -----------------------------------------------------------------------------------


def _threads():
    return {f"{thread.name} {thread.ident}": type(thread).__name__ for thread in threading.enumerate()}


def _leak_thread():
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def _children():
    """Return child processes, including zombies."""
    found, own = {}, str(os.getpid())
    with contextlib.suppress(FileNotFoundError):
        for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208  (called thousands of times)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{process}/stat", encoding="utf-8") as file:  # noqa: PTH123
                    name, _, rest = file.read().partition("(")[2].rpartition(")")
                if rest.split(maxsplit=2)[1] == own:
                    found[process] = name
    return found


@functools.cache
def _libraries():
    return threadpoolctl.ThreadpoolController().lib_controllers


def _pools():
    found = {Path(library.filepath).name: library.num_threads for library in _libraries()}
    return found | {
        "numba": numba.get_num_threads(),
        "Arrow": pa.cpu_count(),
        "Arrow input": pa.io_thread_count(),
        "start method": multiprocessing.get_start_method(allow_none=True),
    }


def _restore_pools(before):
    for library in _libraries():
        library.set_num_threads(before[Path(library.filepath).name])
    numba.set_num_threads(before["numba"])
    pa.set_cpu_count(before["Arrow"])
    pa.set_io_thread_count(before["Arrow input"])


# -- libraries -----------------------------------------------------------------------------------------------


def _numpy_errors():
    return np.geterr() | {"call": Is(np.geterrcall()), "buffer": np.getbufsize()}


def _restore_numpy_errors(before):
    np.seterr(**{name: what for name, what in before.items() if name not in ("call", "buffer")})
    np.seterrcall(before["call"].thing)


def _random_state():
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {"random": hash(random.getstate()), "numpy": (name, keys.tobytes(), *rest)}


def _decimal():
    return {"context": repr(decimal.getcontext()), "default": repr(decimal.DefaultContext)}


def _leak_decimal():
    decimal.Decimal(1) / decimal.Decimal(3)  # a flag of the caller's context is set


def _pandas(options=pd.options, prefix=""):
    found = {}
    for name in dir(options):
        value = getattr(options, name)
        if type(value) is type(pd.options):
            found |= _pandas(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _restore_pandas(before):
    for name, value in before.items():
        if pd.get_option(name) != value:
            pd.set_option(name, value)


def _standard_modules():
    return {
        "csv field": csv.field_size_limit(),
        "csv dialects": csv.list_dialects(),
        "sqlite adapters": len(sqlite3.adapters),
        "sqlite converters": len(sqlite3.converters),
        "socket timeout": socket.getdefaulttimeout(),
        "pickling": len(copyreg.dispatch_table),
        "time zone": time.tzname,
        "at exit": atexit._ncallbacks(),
    }


def _leak_standard_module():
    csv.field_size_limit(csv.field_size_limit() + 1)
    atexit.register(int)


# -- the interpreter -----------------------------------------------------------------------------------------

_HOOKS = ("excepthook", "displayhook", "unraisablehook", "breakpointhook", "stdin", "stdout", "stderr")
_LISTS = ("path", "meta_path", "path_hooks", "argv")


def _interpreter():
    found = {name: Is(getattr(sys, name)) for name in _HOOKS}
    found |= {name: (Is(getattr(sys, name)), list(getattr(sys, name))) for name in _LISTS}
    return found | {
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "trace": sys.gettrace(),
        "profile": sys.getprofile(),
        "long numbers": sys.get_int_max_str_digits(),
        "thread hook": Is(threading.excepthook),
        "thread trace": threading.gettrace(),
        "stack of threads": threading.stack_size(),
        "bytecode": sys.dont_write_bytecode,
        "built-in names": sorted(vars(builtins)),
        "import": Is(builtins.__import__),
        "open": Is(builtins.open),
        "print": Is(builtins.print),
    }


def _restore_interpreter(before):
    for name in _HOOKS:
        setattr(sys, name, before[name].thing)
    for name in _LISTS:
        kept, items = before[name]
        kept.thing[:] = items
        setattr(sys, name, kept.thing)
    sys.setrecursionlimit(before["recursion limit"])
    sys.setswitchinterval(before["switch interval"])


def _collector():
    return {
        "enabled": gc.isenabled(),
        "thresholds": gc.get_threshold(),
        "debug": gc.get_debug(),
        "callbacks": [Is(one) for one in gc.callbacks],
        "frozen": gc.get_freeze_count(),
    }


def _restore_collector(before):
    gc.enable()
    gc.set_threshold(*before["thresholds"])


def _context_variables():
    """Return every context variable with a value, such as dpem's seeded noise and recordings."""
    return {
        f"{variable.name} {id(variable)}": Is(value) for variable, value in contextvars.copy_context().items()
    }


_ANY_VARIABLE = contextvars.ContextVar("any_variable")


def _restore_context_variables(before):
    _ANY_VARIABLE.set(None)


_CODE = types.FunctionType | types.BuiltinFunctionType | type | property | classmethod | staticmethod
_PATCHED = ("numpy", "warnings", "os", "signal", "threading", "threadpoolctl", "sqlite3", "tempfile")
_PLACES: dict[str, dict[str, tuple[Any, str]]] = {}
_LATEST: dict[str, Any] = {"places": [], "functions": [], "state": {}}


def _places(module_name):
    """Return the functions, classes and methods of a module with their owners, by name."""
    module, found = sys.modules[module_name], {}
    for name, value in list(vars(module).items()):
        own = module_name in _PATCHED or getattr(value, "__module__", None) == module_name
        if own and isinstance(value, _CODE):
            found[f"{module_name}.{name}"] = module, name
        if isinstance(value, type) and getattr(value, "__module__", None) == module_name:
            members = [key for key, member in vars(value).items() if isinstance(member, _CODE)]
            found |= {f"{module_name}.{name}.{key}": (value, key) for key in members}
    return found


def _functions():
    """Return functions and methods of dpem and of modules that it uses, by name; none may be replaced.

    There are thousands, so the dictionary of the last call is returned if all of them are the same objects.
    """
    for name in [name for name in sys.modules if name in _PATCHED or name.partition(".")[0] == "dpem"]:
        if name not in _PLACES:
            _PLACES[name] = _places(name)
            # `vars` of a module and of a class shows later changes.
            _LATEST["places"] += [(place, vars(owner), key) for place, (owner, key) in _PLACES[name].items()]
    functions = [names.get(key) for _, names, key in _LATEST["places"]]
    before = _LATEST["functions"]
    if len(functions) != len(before) or not all(map(operator.is_, functions, before)):
        places = [place for place, _, _ in _LATEST["places"]]
        _LATEST.update(functions=functions, state=dict(zip(places, map(Is, functions), strict=True)))
    return _LATEST["state"]


def _restore_functions(before):
    for places in _PLACES.values():
        for place, (owner, name) in places.items():
            if place in before and vars(owner).get(name) is not before[place].thing:
                setattr(owner, name, before[place].thing)


def _leak_function():
    os.getcwd = lambda: "nowhere"


# Without figures no plotting library is needed; a fit needs no notebook and no test framework.
_UNWANTED = ("matplotlib", "IPython", "pytest", "hypothesis")


def _modules():
    return {name: "imported" for name in _UNWANTED if name in sys.modules}


def _leak_module():
    sys.modules["matplotlib"] = types.ModuleType("matplotlib")


def _restore_modules(before):
    for name in _UNWANTED:
        if name not in before:
            sys.modules.pop(name, None)


STATE = {
    "warning filters": Kind(_warning_filters, _restore_warning_filters, _leak_warning_filter),
    "warning functions": Kind(_warning_functions, _restore_warning_functions, _leak_warning_function),
    "logging": Kind(
        _logging, _restore_logging, lambda: logging.getLogger("numba").addHandler(logging.NullHandler())
    ),
    "signals": Kind(_signals, _restore_signals, lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)),
    "environment": Kind(
        lambda: dict(os.environ), _restore_environment, lambda: os.environ.update(OMP_NUM_THREADS="7")
    ),
    "locale": Kind(
        lambda: {"locale": locale.setlocale(locale.LC_ALL)},
        lambda before: locale.setlocale(locale.LC_ALL, before["locale"]),
        lambda: locale.setlocale(
            locale.LC_NUMERIC, "C" if locale.setlocale(locale.LC_NUMERIC) != "C" else "C.UTF-8"
        ),
    ),
    "umask": Kind(_umask, lambda before: os.umask(before["umask"]), lambda: os.umask(0o007)),
    "folders": Kind(_folders, _restore_folders, lambda: os.chdir(tempfile.gettempdir())),
    "temporary files": Kind(_temporary_files, nothing, tempfile.mkdtemp),
    "open files": Kind(_open_files, nothing, lambda: os.open(os.devnull, os.O_RDONLY)),
    "limits": Kind(_limits, _restore_limits, _leak_limit),
    "threads": Kind(_threads, nothing, _leak_thread),
    "children": Kind(_children, nothing, lambda: LEAKED.append(subprocess.Popen(["sleep", "600"]))),
    "thread pools": Kind(_pools, _restore_pools, lambda: threadpoolctl.threadpool_limits(limits=1)),
    "NumPy errors": Kind(_numpy_errors, _restore_numpy_errors, lambda: np.seterr(over="raise")),
    "NumPy printing": Kind(
        np.get_printoptions,
        lambda before: np.set_printoptions(precision=before["precision"]),
        lambda: np.set_printoptions(precision=3),
    ),
    "random numbers": Kind(_random_state, nothing, np.random.rand),
    "decimal": Kind(_decimal, lambda _: decimal.getcontext().clear_flags(), _leak_decimal),
    "pandas": Kind(_pandas, _restore_pandas, lambda: pd.set_option("display.max_rows", 7)),
    "scikit-learn": Kind(
        sklearn.get_config,
        lambda before: sklearn.set_config(assume_finite=before["assume_finite"]),
        lambda: sklearn.set_config(assume_finite=True),
    ),
    "standard modules": Kind(_standard_modules, lambda _: atexit.unregister(int), _leak_standard_module),
    "interpreter": Kind(_interpreter, _restore_interpreter, lambda: sys.setrecursionlimit(4321)),
    "collector": Kind(_collector, _restore_collector, gc.disable),
    "context variables": Kind(_context_variables, _restore_context_variables, lambda: _ANY_VARIABLE.set(1)),
    "functions": Kind(_functions, _restore_functions, _leak_function),
    "modules": Kind(_modules, _restore_modules, _leak_module),
}
LEAKED: list[Any] = []
_MAY_GROW = ("functions",)  # an imported module adds its own
_SLOW_TO_END = ("threads", "children", "open files")  # a joined thread may be listed a moment longer


def read_state():
    """Return the state of the process, by kind."""
    return {name: kind.read() for name, kind in STATE.items()}


def differences(before, patience):
    """Return one line for each difference: the kind, the name, and the values before and after."""
    deadline = time.monotonic() + patience
    while (slow := {kind: STATE[kind].read() for kind in _SLOW_TO_END}) != {
        kind: before[kind] for kind in _SLOW_TO_END
    } and time.monotonic() < deadline:
        time.sleep(0.02)
    after, found = {name: slow[name] if name in slow else kind.read() for name, kind in STATE.items()}, []
    for kind in STATE:
        if after[kind] is before[kind]:
            continue
        new_names = () if kind in _MAY_GROW else (name for name in after[kind] if name not in before[kind])
        for name in (*before[kind], *new_names):
            old, new = before[kind].get(name, "nothing"), after[kind].get(name, "nothing")
            if old != new:
                found.append(f"{kind}: {name}: {repr(old)[:200]} became {repr(new)[:200]}")
    return found


def restore(before):
    """Restore the state as far as possible, so that the next operation is checked on its own."""
    for name, kind in STATE.items():
        if kind.read() != before[name]:
            kind.restore(before[name])
