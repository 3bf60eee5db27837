"""The report in a real browser: it renders, reacts, prints, fetches nothing, and agrees with the model."""

import re
import sqlite3

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

import dpem
from dpem.errors import InvalidArgumentError, LedgerError, LedgerTamperedError, WeakSignalWarning
from dpem.generated_tables import PATIENTS_SCHEMA, patients
from dpem.report import render_report, write_report
from support.browser import CHROMIUM, headless_browser

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
NUMBERS = ["age", "bmi", "systolic"]
HOSTILE = "<script>alert('age')</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def ledger(folder):
    return dpem.Ledger.create(
        folder / "p.ledger", name="demo patients", cap_epsilon=20.0, cap_delta=1e-6, rows_per_person=1
    )


@pytest.fixture(scope="module")
def models(ledger):
    """Fit one model of every kind to synthetic patients."""
    table = patients(4000, 0)
    schema = PATIENTS_SCHEMA.select(NUMBERS)
    hostile = dpem.Schema({HOSTILE: {"kind": "integer", "bounds": [0, 110]}, "[bold]": {"kind": "boolean"}})
    common = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
    classes = dpem.Schema(
        {"sex": {"kind": "categorical", "categories": ["female", "male"]}, "readmitted": {"kind": "boolean"}}
    )
    with pytest.warns(WeakSignalWarning, match="blur relations"):
        of_all_columns = dpem.MixedMixture(schema=PATIENTS_SCHEMA, ledger=ledger, **common).fit(table)
    return {
        "mixture": dpem.GaussianMixture(3, schema=schema, ledger=ledger, **common).fit(table),
        "kmeans": dpem.KMeans(3, schema=schema, ledger=ledger, **common).fit(table),
        "factors": dpem.FactorAnalysis(1, schema=schema, ledger=ledger, **common).fit(table),
        "table": of_all_columns,
        "classes": dpem.CategoricalMixture(2, schema=classes, **common).fit(table),
        "hidden rows": dpem.GaussianMixture(2, schema=schema, adjacency="add_remove", **common).fit(table),
        "one column": dpem.GaussianMixture(1, bounds=(0, 110), **common).fit(table[["age"]]),
        "hostile": dpem.MixedMixture(schema=hostile, **common).fit(
            pd.DataFrame({HOSTILE: table["age"], "[bold]": table["readmitted"]})
        ),
        "not private": dpem.GaussianMixture(2, epsilon=np.inf, schema=schema).fit(table),
    }


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as opened:
        yield opened


@pytest.fixture
def opened(browser, models, ledger, folder):
    """Return a function that writes and opens a report; errors and requests of the page fail the test."""
    pages, problems = [], []

    def open_report(name, *, ledger_shown=True, **options):
        model = models[name]
        path = folder / f"{name}.html"
        shown = ledger if ledger_shown and model.charge_ is not None else None
        write_report(model, path, ledger=shown)
        context = browser.new_context(**options)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda request: request.url.startswith("file:") or problems.append(request.url))
        page.goto(path.as_uri())
        pages.append(context)
        return page

    yield open_report
    for context in pages:
        context.close()
    assert problems == []


@pytest.mark.parametrize(
    "kind",
    [
        "mixture",
        "kmeans",
        "factors",
        "table",
        "classes",
        "hidden rows",
        "one column",
        "hostile",
        "not private",
    ],
)
def test_every_kind_of_model_renders(opened, models, kind):
    """There is no console error and no request; all charts are drawn, and the statement is complete."""
    page = opened(kind)
    model = models[kind]
    assert page.locator(".statement").inner_text() == str(model.privacy_)
    assert page.locator("#density svg").count() == 1
    assert page.locator("h1").inner_text().endswith(type(model).__name__)
    if kind == "not private":
        assert "NOT PRIVATE" in page.locator(".alarm").inner_text()
        return
    assert page.locator("#accountants tbody tr").count() == len(model.privacy_.compare().epsilons)
    if kind == "hidden rows":
        assert page.locator("#noise").count() == 0
        assert "number of rows is private" in page.locator("#warnings").inner_text()
    elif kind != "classes":
        assert page.locator("#noise svg .chosen").count() == 1


def test_charts_follow_the_choice_of_columns(opened):
    """Choosing other columns redraws the charts."""
    page = opened("mixture")
    before = page.locator("#density .total").get_attribute("d")
    page.select_option("#density-column", label="bmi")
    assert page.locator("#density .total").get_attribute("d") != before
    assert "bmi" in page.locator("#density .axis").first.text_content()
    assert page.locator("#density .part").count() == 3
    pair = page.locator("#pair").inner_html()
    page.select_option("#pair-y", label="systolic")
    assert page.locator("#pair").inner_html() != pair
    page.select_option("#pair-y", label="age")
    assert "two different columns" in page.locator("#pair-readout").inner_text()


def test_values_can_be_read_by_mouse_and_keyboard(opened, models):
    """The density shown for a point equals the density of the model there."""
    page = opened("mixture")
    chart = page.locator("#density svg")
    chart.hover()
    by_mouse = page.locator("#density-readout").inner_text()
    chart.press("ArrowRight")
    by_key = page.locator("#density-readout").inner_text()
    assert by_key != by_mouse
    place, value = map(float, re.search(r"= ([-\d.e]+): density ([-\d.e]+);", by_key).groups())
    model = models["mixture"]
    weights, means, covariances = model._all_components()
    variances = covariances[:, 0, 0]
    law = weights * np.exp(-0.5 * (place - means[:, 0]) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
    assert value == pytest.approx(law.sum(), rel=2e-2)
    for name in ("table", "kmeans"):
        page = opened(name)
        for part in ("density", "pair"):
            page.locator(f"#{part} svg").press("ArrowRight")
            assert "point at" not in page.locator(f"#{part}-readout").inner_text()


def test_shares_of_a_table_agree_with_the_model(opened, models):
    page = opened("table")
    page.select_option("#density-column", label="ward")
    chart = page.locator("#density svg")
    chart.hover()
    label, share = re.fullmatch(
        r"ward = (\w+): ([\d.]+)% of rows", page.locator("#density-readout").inner_text()
    ).groups()
    assert float(share) / 100 == pytest.approx(models["table"].marginals("ward")[label], rel=0.01)


def test_hovering_over_a_component_dims_the_others(opened):
    page = opened("mixture")
    page.locator("#profile-table tbody tr").nth(1).hover()
    dimmed = page.locator("#density .part.dimmed")
    assert dimmed.count() == 2
    assert [mark.get_attribute("data-part") for mark in dimmed.all()] == ["0", "2"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["mixture", "table"])
def test_the_page_is_accessible(opened, kind, scheme):
    """Axe finds no violation, in both colour schemes, with everything unfolded."""
    page = opened(kind, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = Axe().run(page)
    assert found.response["violations"] == []


def test_dark_light_and_print(opened):
    """The button switches to dark and back; the printed page is light, unfolded and has lines to sign."""
    page = opened("mixture", color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.evaluate(paper) == "rgb(15, 20, 25)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert page.locator(".signature").is_visible()
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 20_000


def test_hostile_names_are_shown_as_text(opened):
    """A script in a column name is shown and not run; the fixture would fail on its dialog."""
    page = opened("hostile")
    assert HOSTILE in page.locator("#density-column").inner_text()
    assert "[bold]" in page.locator("#sample").inner_text()


def test_without_javascript_only_charts_are_missing(opened, models):
    page = opened("mixture", java_script_enabled=False)
    assert str(models["mixture"].privacy_) in page.locator("main").inner_text()
    assert page.locator("#noise svg path.curve").count() == 1
    assert page.locator("#profile-table tbody tr").count() == 3


# -- contents, without a browser -----------------------------------------------------------------------------


def test_profiles_contain_values_and_noise(models):
    page = render_report(models["mixture"])
    model = models["mixture"]
    largest = int(np.argmax(model.weights_))
    assert f"{model.weights_[largest]:.1%}" in page
    assert f"{model.means_[largest, 0]:.3g}" in page
    assert "No ledger was charged" not in page


def test_the_ledger_must_contain_the_charge(models, ledger, folder):
    """Another ledger or a changed one raises, because record, hash and events are verified."""
    number = models["mixture"].charge_.number
    for given in (ledger, ledger.path, str(ledger.path)):
        page = render_report(models["mixture"], ledger=given)
        assert f"record {number} is the charge for this model" in page
    other = dpem.Ledger.create(folder / "other.ledger", name="other", cap_epsilon=1.0, cap_delta=1e-6)
    with pytest.raises(LedgerError, match="Pass the file of that ledger"):
        render_report(models["mixture"], ledger=other)
    with pytest.raises(LedgerError, match="without a charge"):
        render_report(models["classes"], ledger=ledger)
    changed = folder / "changed.ledger"
    changed.write_bytes((folder / "p.ledger").read_bytes())
    with sqlite3.connect(changed) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE spend SET purpose = 'nothing' WHERE number = 1")
    with pytest.raises(LedgerTamperedError):
        render_report(models["mixture"], ledger=dpem.Ledger(changed))


def test_the_report_claims_no_more_than_was_certified(models):
    """It shows mu only for the accountant gdp, names the privacy unit, and adds the cost of bounds."""
    table = patients(2000, 0)[["age", "bmi"]]
    paper = dpem.paper.KMeans(2, epsilon=2.0, delta=1e-6, bounds=(0, 110)).fit(table)
    assert "μ =" not in render_report(paper)
    assert "μ =" in render_report(models["mixture"])
    persons = dpem.KMeans(2, epsilon=2.0, delta=1e-6, bounds=(0, 110), rows_per_person=4).fit(table)
    assert "one person with up to 4 rows is replaced" in render_report(persons)
    bought = dpem.private_bounds(table, epsilon=1.0, delta=1e-6).schema
    page = render_report(dpem.KMeans(2, epsilon=2.0, delta=1e-6, schema=bought).fit(table))
    for words in (
        "plus the cost of estimated bounds",
        "(epsilon = 1, delta = 1e-06)",
        "estimated from the rows where marked",
    ):
        assert words in page
    assert "by the release of its bounds and by nothing else" in page
    hidden = render_report(models["hidden rows"])
    assert "All releases were planned before" not in hidden
    assert "charged in advance as 3 Gaussian" in hidden


def test_wide_tables_are_transposed():
    """Tables with many columns list them as rows; the page states how many columns are shown."""
    names = [f"c{j}" for j in range(30)]
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 30)), columns=names)
    page = render_report(dpem.KMeans(3, epsilon=5.0, delta=1e-6, bounds=(-5, 5)).fit(rows))
    assert '<th scope="row">c29</th>' in page
    assert "The first 24 of 30 columns" in page


def test_a_private_number_of_rows_can_be_guessed(models):
    page = render_report(models["hidden rows"], n_rows=4000)
    assert 'id="noise"' in page
    assert "4,000" not in page.split('id="plan"')[0]


def test_a_model_must_be_fitted():
    with pytest.raises(InvalidArgumentError, match="not fitted"):
        render_report(dpem.KMeans(2, epsilon=1.0, bounds=(0, 1)))
