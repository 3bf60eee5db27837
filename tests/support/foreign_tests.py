"""Run the tests of scikit-learn's installed test modules on dpem's classes."""

import functools
import importlib.util
import inspect
import itertools
import warnings
from dataclasses import dataclass, field
from types import ModuleType
from unittest import mock

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

__all__ = ["ForeignTests"]


@dataclass
class ForeignTests:
    """A test module of scikit-learn with one class replaced by dpem's, and its excluded tests.

    Attributes
    ----------
    name : str
        The module, such as "sklearn.cluster.tests.test_k_means".
    package : module
        The package from which the module imports the class.
    ours : type
        The class that replaces the one of the same name.
    not_applicable : dict of str to str
        Tests that are not collected, each with its reason.
    known_defects : dict of str to str
        Tests, or single cases of them ("test_a[1-x]"), that fail until a defect of dpem is fixed.
    parameters : dict of str to function
        Cases that are not collected: the reason, and a function of an argument's name and value.
    up_to : dict of str to str
        Tests that run until the adapter refuses a feature, with the text of the refusal.
    since : dict of str to str
        The version of scikit-learn that added a test, if not all supported versions have it.
    """

    name: str
    package: ModuleType
    ours: type
    not_applicable: dict
    known_defects: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    up_to: dict = field(default_factory=dict)
    since: dict = field(default_factory=dict)

    def __post_init__(self):
        # A private copy. Our class replaces theirs during the import, so that the arguments of
        # `parametrize` contain our class too.
        spec = importlib.util.find_spec(self.name)
        module = importlib.util.module_from_spec(spec)
        with mock.patch.object(self.package, self.ours.__name__, self.ours):
            spec.loader.exec_module(module)
        self.functions = {
            name: value
            for name, value in vars(module).items()
            if name.startswith("test_") and inspect.isfunction(value)
        }

    def collected(self):
        """Return the tests for pytest to collect: those of scikit-learn, and those of the tables."""
        tests = {name: value for name, value in self.functions.items() if name not in self.not_applicable}
        for name, refusal in self.up_to.items():
            tests[name] = _runs_up_to(tests[name], refusal)
        tests["test_tables"] = self._tables_are_exact()
        if self.not_applicable:
            tests["test_exclusion"] = self._exclusions_are_needed()
        return tests

    def excluded(self, arguments):
        """Return the reason if a case is not applicable, else None."""
        for reason, holds in self.parameters.items():
            if any(holds(name, value) for name, value in arguments.items()):
                return reason
        return None

    def _tables_are_exact(self):
        def test_tables():
            """Every test of scikit-learn runs or is named in a table, and every named test exists."""
            installed = parse_version(sklearn.__version__)
            tables = self.not_applicable | self.known_defects | self.up_to
            later = {name for name, since in self.since.items() if installed < parse_version(since)}
            assert {name.partition("[")[0] for name in tables} - later <= self.functions.keys()
            assert not self.not_applicable.keys() & {name.partition("[")[0] for name in self.known_defects}
            for name in self.functions.keys() - self.not_applicable.keys():
                assert any(self.excluded(case) is None for case in _cases(self.functions[name])), name
            cases = [case for test in self.functions.values() for case in _cases(test)]
            for reason, holds in self.parameters.items():
                assert any(holds(*argument) for case in cases for argument in case.items()), reason

        return test_tables

    def _exclusions_are_needed(self):
        @pytest.mark.parametrize("name", sorted(self.not_applicable.keys() & self.functions.keys()))
        def test_exclusion(name, request):
            """A test that is not applicable fails, or does not use our class."""
            function = self.functions[name]
            cases = [case for case in _cases(function) if self.excluded(case) is None]
            ours = [case for case in cases if self._is_used(function, case)]
            assert not ours or not all(_passes(function, case, request) for case in ours)

        return test_exclusion

    def _is_used(self, function, case):
        return self.ours.__name__ in function.__code__.co_names or any(
            value is self.ours for value in case.values()
        )


def _cases(function):
    """Return the arguments of all cases of a test with `parametrize` marks."""
    factors = [
        _arguments(*mark.args) for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"
    ]
    return [functools.reduce(dict.__or__, combined, {}) for combined in itertools.product(*factors)]


def _arguments(names, values):
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [
        getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
        for value in values
    ]
    return [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]


def _passes(function, case, request):
    fixtures = [name for name in inspect.signature(function).parameters if name not in case]
    arguments = case | {name: request.getfixturevalue(name) for name in fixtures}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**arguments)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception):  # noqa: BLE001
            return False
    return True


def _runs_up_to(function, refusal):
    from support.plain_estimators import NotOffered

    @functools.wraps(function)
    def test(*arguments, **named):
        with pytest.raises(NotOffered, match=refusal):
            function(*arguments, **named)

    return test
