"""The documentation shows a real example of each class of dpem.errors."""

import message_catalogue as catalogue
import pytest

from dpem import errors


def test_every_error_class_has_an_example():
    assert set(catalogue.EXAMPLES) == set(catalogue.classes())
    abstract = set(errors.__all__) - set(catalogue.EXAMPLES)
    assert abstract == {"BudgetError", "DpemError", "DpemWarning"}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", catalogue.EXAMPLES)
def test_an_example_raises_its_own_class(name):
    assert len(catalogue.message_of(name)) > 40
    assert catalogue.EXAMPLES[name].remedy.endswith(".")


def test_an_example_that_raises_nothing_fails(monkeypatch):
    monkeypatch.setitem(catalogue.EXAMPLES, "DeltaWarning", catalogue.Example("X.sum()", "Nothing."))
    with pytest.raises(AssertionError, match="gave no DeltaWarning"):
        catalogue.message_of("DeltaWarning")
