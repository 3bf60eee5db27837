"""The public interface, every name with its arguments, so that each change of it is deliberate.

python tests/test_api.py     regenerates tests/api.txt
"""

import inspect
from enum import Enum
from pathlib import Path

import dpem
import dpem.audit
import dpem.plot
import dpem.report

SNAPSHOT = Path(__file__).with_name("api.txt")
MODULES = (dpem, dpem.privacy, dpem.paper, dpem.audit, dpem.plot, dpem.report, dpem.testing, dpem.errors)


def lines_of(name, entry):
    """Yield the public interface of a name: functions and classes with arguments, methods, properties."""
    if inspect.ismodule(entry):
        return
    if not inspect.isclass(entry):
        yield f"{name}{arguments(entry)}" if callable(entry) else f"{name}: {type(entry).__name__}"
        return
    if issubclass(entry, BaseException):
        yield f"{name}({', '.join(base.__name__ for base in entry.__bases__)})"
        return
    if issubclass(entry, Enum):
        yield f"{name}: {', '.join(choice.value for choice in entry)}"
        return
    yield f"{name}{arguments(entry)}"
    for member in sorted(dir(entry)):
        if member.startswith("_"):
            continue
        value = getattr(entry, member, None)
        if isinstance(inspect.getattr_static(entry, member), property):
            yield f"{name}.{member}"
        elif callable(value) and str(getattr(value, "__module__", "")).startswith("dpem"):  # not inherited
            yield f"{name}.{member}{arguments(value)}"


def arguments(entry):
    """Return the arguments with their defaults, without types, which mypy checks."""
    try:
        signature = inspect.signature(entry)
    except ValueError:  # written in C, or an enumeration
        return "(...)"
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def interface():
    """Return the public interface, one line for each name."""
    lines = [
        line
        for module in MODULES
        for name in sorted(module.__all__)
        for line in lines_of(f"{module.__name__}.{name}", getattr(module, name))
    ]
    return "\n".join(lines) + "\n"


def test_the_public_interface_equals_the_recorded_one():
    assert interface() == SNAPSHOT.read_text(), (
        "If the change is intended, run python tests/test_api.py and add a line to CHANGELOG"
    )


def test_every_public_name_has_a_docstring():
    """Every name and method has a docstring, and every callable has an example, which is executed."""
    for module in MODULES:
        for name in module.__all__:
            entry = getattr(module, name)
            text = inspect.getdoc(entry)
            assert text, f"{module.__name__}.{name}"
            told = inspect.isclass(entry) and issubclass(entry, BaseException | Enum)
            if callable(entry) and not told:
                assert ">>>" in text, f"{module.__name__}.{name} has no example"
            for member in dir(entry) if inspect.isclass(entry) and not told else ():
                if not member.startswith("_") and callable(getattr(entry, member)):
                    assert inspect.getdoc(getattr(entry, member)), f"{module.__name__}.{name}.{member}"


if __name__ == "__main__":
    SNAPSHOT.write_text(interface())
