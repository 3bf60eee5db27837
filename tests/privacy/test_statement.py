"""The statement: its epsilon covers its events, in words that can be quoted."""

import json
import math

import numpy as np
import pytest

from dpem.errors import InvalidArgumentError
from dpem.privacy import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyStatement,
    PrivacyUnit,
    calibrate,
)
from dpem.privacy.accountants import GdpAccountant, accountant_named

PLAN = calibrate(ComposedEvent(((GaussianEvent(1.0), 4), (LaplaceEvent(0.1), 1))), 0.5, 1e-6)
BOUNDS = {"age": "0 to 120", "visits": "0 to 20"}


def statement(**changes):
    facts = {"epsilon": 0.5, "delta": 1e-6, "event": PLAN, "bounds": BOUNDS, "insecure_noise": False}
    return PrivacyStatement(**(facts | changes))


def test_the_statement_names_everything():
    """Epsilon, delta, relation, unit, mechanisms, accountant, bounds with their source, and the noise."""
    text = str(statement())
    assert "\n" not in text
    for words in (
        "This release is (epsilon = 0.5, delta = 1e-06)-differentially private.",
        "e^epsilon = 1.649",
        "one row is replaced by any other, and the number of rows is public",
        "4 Gaussian and 1 Laplace mechanisms",
        "accountant 'gdp'",
        "declared as public knowledge, not read from the data (age: 0 to 120; visits: 0 to 20)",
        "operating system's generator",
        "How long the computation took is not covered",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"adjacency": "add_remove"}, "one row is added or removed, and the number of rows is private"),
        ({"unit": PrivacyUnit(3)}, "one person with up to 3 rows is replaced"),
        (
            {"unit": PrivacyUnit(3, "patient")},
            "what a person has above 3 rows was left out",
        ),
        (
            {"unit": PrivacyUnit(3, "patient")},
            "the values of one person are replaced by any others, and who has how many rows is fixed",
        ),
        ({"unit": PrivacyUnit(1, "patient")}, "what a person has above 1 row was left out"),
        ({"unit": PrivacyUnit(2, "patient"), "adjacency": "add_remove"}, "one person is added or removed"),
        ({"bounds": {}}, "No bounds on rows are stated"),
        ({"bounds_source": "estimated"}, "estimated from the data by a release whose budget comes on top"),
        ({"accountant": "linear", "epsilon": 9.0}, "accountant 'linear'"),
        ({"event": GaussianEvent(20.0)}, "touched by 1 Gaussian mechanism and by nothing else"),
        ({"bounds_source": "estimated"}, "mechanisms, by the release of its bounds and by nothing else"),
        ({"bounds_source": "schema"}, "4 Gaussian and 1 Laplace mechanisms and by nothing else"),
        ({"releases": 3}, "3 Gaussian mechanisms, charged beforehand as 4 Gaussian and 1 Laplace,"),
        ({"epsilon": 699.5}, "e^epsilon = 6.152e+303 "),
        ({"epsilon": 720.0}, "e^epsilon = inf "),
    ],
)
def test_the_statement_follows_its_fields(changes, words):
    assert words in str(statement(**changes))


def test_insecure_noise_is_stated_first():
    """A seeded release never claims to be private."""
    text = str(statement(insecure_noise=True))
    assert text.startswith("THIS RELEASE IS NOT PRIVATE")
    assert "This release is (" not in text
    assert text.endswith("Use it for tests and experiments only.")


def test_only_secure_noise_is_private():
    assert statement().is_private is True
    assert statement(insecure_noise=True).is_private is False
    assert PrivacyStatement.not_private().is_private is False


def test_an_epsilon_below_the_cost_raises():
    """Epsilon is checked against the events, at construction and when read from a file."""
    with pytest.raises(InvalidArgumentError, match=r"Expected an epsilon of at least 0\.49999"):
        statement(epsilon=0.49)
    forged = json.loads(statement().to_json())
    forged["epsilon"] = 0.1
    with pytest.raises(InvalidArgumentError, match="Expected an epsilon of at least"):
        PrivacyStatement.from_json(json.dumps(forged))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"adjacency": "add_remove", "unit": PrivacyUnit(5, "id"), "bounds_source": "schema"},
        {"insecure_noise": True, "accountant": "zcdp", "epsilon": 3.0},
    ],
)
def test_json_round_trip(changes):
    """The statement is read back unchanged, and the text is plain JSON."""
    original = statement(**changes)
    assert PrivacyStatement.from_json(original.to_json()) == original
    assert json.loads(original.to_json())["format"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 1}',
        '{"format": 1, "epsilon": 1, "spam": 2}',
        '{"event": "x"}',
    ],
)
def test_damaged_json_is_refused(text):
    """Damaged or newer descriptions raise."""
    with pytest.raises(InvalidArgumentError, match="Expected"):
        PrivacyStatement.from_json(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": float("inf")}, "no privacy"),
        ({"delta": 0}, "delta"),
        ({"adjacency": "x"}, "adjacency"),
        ({"accountant": "x"}, "accountant"),
        ({"bounds_source": "guessed"}, "bounds_source"),
        ({"event": "x"}, "Event"),
        ({"event": None}, "events for a finite epsilon"),
        ({"unit": None}, "PrivacyUnit"),
        ({"insecure_noise": None}, "insecure_noise"),
        ({"releases": 0}, "releases"),
        ({"accountant": "pld", "epsilon": 9.0}, "proof for Laplace noise on vectors"),
    ],
)
def test_bad_fields(changes, message):
    with pytest.raises(InvalidArgumentError, match=message):
        statement(**changes)


def test_numbers_are_stated_exactly():
    """Delta and a short epsilon are exact; a long epsilon and the factor are rounded up."""
    made = statement(epsilon=1.2345649, delta=1.23456789e-6)
    text = str(made)
    assert "epsilon = 1.235, delta = 1.23456789e-06" in text
    assert "epsilon=1.2345649" in repr(made)
    assert made.to_dict()["epsilon"] == 1.2345649
    assert "epsilon = 0.756, " in str(statement(epsilon=0.7559812676591635))
    assert "epsilon = 1.23456, " in str(statement(epsilon=1.23456))
    assert "e^epsilon = 3.437 " in text  # e^1.2345649 = 3.43688...
    assert "e^epsilon = 2.719 " in str(statement(epsilon=1.0))
    assert "e^epsilon = 2.001 " in str(statement(epsilon=math.log(2)))  # the logarithm may be above itself


def test_a_statement_cannot_be_changed():
    """Numbers are plain floats, and bounds cannot be changed afterwards."""
    words = dict(BOUNDS)
    made = statement(bounds=words, delta=np.float64(1e-6), epsilon=np.float32(0.5))
    words["age"] = "0 to 20"
    assert made.bounds == BOUNDS
    assert type(made.delta) is float
    assert type(made.epsilon) is float


def test_epsilon_may_equal_the_cost():
    spent = GdpAccountant().epsilon(PLAN, 1e-6)
    assert statement(epsilon=spent).epsilon == spent
    only_gaussian = GaussianEvent(4.0)
    spent = accountant_named("pld").epsilon(only_gaussian, 1e-6)
    assert statement(accountant="pld", event=only_gaussian, epsilon=spent).accountant == "pld"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "statement format 1"),
        ({"spam": 1}, "fields of a privacy statement"),
        ({"event": "x"}, "Event|event"),
        ({"event": None}, "event"),
        ({"unit": None}, "fields of a privacy statement"),
        ({"unit": {}}, "fields of a privacy statement"),
    ],
)
def test_damaged_descriptions_raise(changes, message):
    with pytest.raises(InvalidArgumentError, match=message):
        PrivacyStatement.from_dict(statement().to_dict() | changes)
    with pytest.raises(InvalidArgumentError, match="fields of a privacy statement"):
        PrivacyStatement.from_dict([changes])
    with pytest.raises(InvalidArgumentError, match="JSON object"):
        PrivacyStatement.from_json(json.dumps([changes]))


def test_files_must_contain_the_mark_of_insecure_noise():
    """A description without the mark of insecure noise, or with text in its place, is refused."""
    description = statement(insecure_noise=True).to_dict()
    assert PrivacyStatement.from_dict(description).insecure_noise
    without = {name: value for name, value in description.items() if name != "insecure_noise"}
    for wrong in (without, description | {"insecure_noise": None}, description | {"event": "x"}):
        with pytest.raises(InvalidArgumentError, match="Expected"):
            PrivacyStatement.from_dict(wrong)


def test_not_private():
    """Epsilon = inf has a statement too: it says that there is no guarantee."""
    plain = PrivacyStatement.not_private()
    assert str(plain).startswith("NOT PRIVATE")
    assert (plain.epsilon, plain.delta, plain.insecure_noise) == (math.inf, 0.0, False)
    assert PrivacyStatement.from_json(plain.to_json()) == plain
    with pytest.raises(InvalidArgumentError, match="nothing to compare"):
        plain.compare()


def test_compare():
    """One call shows the epsilon of the same events by every accountant."""
    table = statement().compare()
    assert table.epsilons["gdp"] <= 0.5 < table.epsilons["linear"]


@pytest.mark.parametrize("bounds", [None, {"age": (0, 120)}, {1: "0 to 1"}, ["age"]])
def test_bounds_are_words(bounds):
    with pytest.raises(InvalidArgumentError, match="bounds"):
        PrivacyStatement(1.0, 1e-5, GaussianEvent(4.0), bounds=bounds, insecure_noise=False)


def test_text_that_is_not_json_is_refused():
    with pytest.raises(InvalidArgumentError, match="JSON"):
        PrivacyStatement.from_json(None)
