"""Numbers in the documentation equal those in the result files."""

import importlib.util
import math
import pkgutil
import re
from pathlib import Path

import pytest
import sklearn
from scipy.special import ndtr

from dpem.privacy.gaussian_dp import mu_for

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
EXCERPT = re.compile(r"<!-- from (\S+) -->\n((?:\|.*\n)+)")
SELECTION = re.compile(r'<!-- from (\S+), under "(.+)": (.+)\n((?:.+ = .+\n)+)-->\n((?:\|.*\n)+)')
SUMMARY = re.compile(r"<!-- figures of the summary, .+\n((?:.+ = .+\n)+)-->\n((?:\|.*\n)+)")
PARAGRAPH = re.compile(r"<!-- figures of the paragraph below, .+\n((?:.+ = .+\n)+)-->\n((?:.+\n)+)")
FIGURE = re.compile(r'(.+?): (\S.*) = (\S+), under "(.+)": (.*) -> (.+)')
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def cells(line):
    """Return the cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def selected(written, under, columns, keys):
    """Return selected rows and columns of the first tables after a text in a result file.

    The keys are the leading cells of the rows.
    """
    assert under in written
    lines = (under + written.partition(under)[2]).splitlines()
    names, found = [], {}
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following.startswith("|---"):
            names = cells(line)
        elif line.startswith("|") and set(columns) <= set(names):
            row = cells(line)
            for key in keys:
                if row[: len(key)] == key:
                    found.setdefault(tuple(key), [row[names.index(column)] for column in columns])
    return [found[tuple(key)] for key in keys]


def test_excerpts_equal_their_result_files():
    """An excerpt has complete lines, or the rows and columns that the comment above the table selects."""
    found = [(page, *match) for page in PAGES for match in EXCERPT.findall(page.read_text())]
    for page, source, table in found:
        lines = (ROOT / source).read_text().splitlines()
        for line in table.splitlines():
            assert line in lines, f"{page.name}: not in {source}: {line}"
    chosen = [(page, *match) for page in PAGES for match in SELECTION.findall(page.read_text())]
    for page, source, under, columns, rows, table in chosen:
        pairs = [row.split(" = ") for row in rows.splitlines()]
        keys = [[cell.strip() for cell in key.split(";")] for key, _ in pairs]
        values = selected((ROOT / source).read_text(), under, columns.split("; "), keys)
        expected = [[label, *row] for (_, label), row in zip(pairs, values, strict=True)]
        assert [cells(line) for line in table.splitlines()[2:]] == expected, f"{page.name}: not in {source}"
    assert len(found) + len(chosen) == sum(page.read_text().count("<!-- from ") for page in PAGES)
    assert len([page for page, *_ in chosen if page.name == "README.md"]) >= 3


def extreme(written, under, which, column, key):
    """Return the largest or smallest first number of a column after a text; with a key, only of its rows."""
    lines = (under + written.partition(under)[2]).splitlines()
    names, found = [], []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following.startswith("|---"):
            names = cells(line)
        elif line.startswith("| ") and column in names and key in {"", cells(line)[0]}:
            cell = cells(line)[names.index(column)]
            if cell and not cell.startswith("over "):  # an unfinished run
                found.append(float(re.search(r"\d[\d.]*", cell)[0]))
    return {"largest": max, "smallest": min}[which](found)


def test_the_summary_of_the_benchmarks_equals_the_result_files():
    """Each number of a line is one that the comment above the table reads from a result file."""
    ((figures, table),) = SUMMARY.findall((ROOT / "docs/background/benchmarks.md").read_text())
    sources = [FIGURE.fullmatch(line).groups() for line in figures.splitlines()]
    for _, value, file, under, key, column in sources:
        written = (ROOT / "benchmarks" / "results" / file).read_text()
        assert under in written
        which, _, named = key.partition(" ")
        if which in {"largest", "smallest"}:
            assert float(re.match(r"[\d.]+", value)[0]) == extreme(written, under, which, column, named)
        else:
            ((cell,),) = selected(written, under, [column], [[part.strip() for part in key.split(";")]])
            assert re.search(rf"(?<![\d.]){re.escape(value)}(?![\d])", cell), (value, cell)
    rows = [cells(line) for line in table.splitlines()[2:]]
    assert len(rows) >= 6
    for task, _, *claims in rows:
        own = [" ".join(source) for source in sources if source[0] == task]
        known = set(re.findall(r"\d(?:[\d.,]*\d)?", " ".join(own)))
        used = re.findall(r"\d(?:[\d.,]*\d)?", " ".join(claims))
        assert used
        assert set(used) <= known, (task, set(used) - known)
        shown = [value for named, value, *_, column in sources if named == task and column != "its value"]
        assert [value for value in shown if value not in " ".join(claims)] == []
    worse = (ROOT / "benchmarks/results/mixture.md").read_text().partition("Where `dpem` is worse")[2]
    listed = re.findall(r"^\| (.+?) \| ([\d.]+) \|", worse.partition("Privacy saving")[0], flags=re.MULTILINE)
    assert {"; ".join(row) for row in listed} == {key for *_, key, column in sources if column == "its value"}


def test_the_examples_of_the_benchmarks_equal_the_result_files():
    """Each number in the comment above an example is in the example, and in its result file."""
    found = [
        match
        for page in (ROOT / "docs/background").glob("**/*.md")
        for match in PARAGRAPH.findall(page.read_text())
    ]
    assert len(found) >= 4
    for figures, paragraph in found:
        for line in figures.splitlines():
            _, value, file, under, key, column = FIGURE.fullmatch(line).groups()
            written = (ROOT / "benchmarks" / "results" / file).read_text()
            ((cell,),) = selected(written, under, [column], [[part.strip() for part in key.split(";")]])
            for text in (cell, paragraph):
                assert re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", text), (value, text)


def test_a_selection_reads_the_rows_below_its_text():
    written = (ROOT / "benchmarks/results/synthetic.md").read_text()
    titanic, diabetes = (
        selected(written, under, ["two way"], [["1", "one shot"]])
        for under in ("## titanic", "## diabetes130")
    )
    assert titanic != diabetes
    with pytest.raises(KeyError):
        selected(written, "## titanic", ["two way"], [["2", "one shot"]])


@pytest.mark.parametrize("result", RESULTS, ids=lambda path: path.stem)
def test_every_result_is_shown_with_the_command_that_writes_it(result):
    """A page includes the file and names its command above it, and the command exists."""
    written = result.read_text()
    for page in PAGES:
        before, included, _ = page.read_text().partition(f"benchmarks/results/{result.name}\n")
        if included and re.search(r"\{include\} (?:\.\./)+$", before):
            named = re.findall(r"`make ([a-z-]+)", before[-3000:] + written[:1000])
            assert named
            assert set(named) <= TARGETS
            return
    pytest.fail(f"No page shows {result.name}")


def test_the_prose_of_the_readme_has_no_measured_numbers():
    """Measured numbers are only in excerpts, which are checked against result files."""
    text = re.sub(
        r"```.*?```|^\|.*?$|\(.*?\)", "", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    assert not re.findall(r"[0-9.]+ ?(?:times|%|x\b|seconds|ms\b)", text)


def test_odds_of_an_epsilon_agree_with_their_formula():
    """docs/background/concepts.md: posterior odds exp(epsilon), and the best test of a Gaussian shift."""
    text = (ROOT / "docs" / "background" / "concepts.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \| ([\d.]+) % \|$", text, flags=re.MULTILINE)
    assert len(rows) == 6
    for epsilon, factor, *posteriors in rows:
        exact = math.exp(float(epsilon))
        assert factor in {f"{exact:.1f}", f"{exact:,.0f}"}
        for before, after in zip((0.1, 0.5), posteriors, strict=True):
            odds = exact * before / (1 - before)
            digits = len(after.partition(".")[2])
            assert after == f"{100 * odds / (1 + odds):.{digits}f}"
    budgets, guesses = (
        re.findall(r"[\d.]+", re.search(rf"^\| {name}.*$", text, flags=re.MULTILINE)[0])
        for name in (r"epsilon \| 0\.1", "guesses that are right")
    )
    assert budgets == [epsilon for epsilon, *_ in rows]
    assert guesses == [f"{100 * ndtr(mu_for(float(epsilon), 1e-6) / 2):.0f}" for epsilon in budgets]


def test_counts_of_scikit_learns_tests_are_correct():
    """The counts of scikit-learn tests in docs/background/comparison.md, for the version named there."""
    text = (ROOT / "docs/background/comparison.md").read_text()
    version, applying, whole, others = re.search(
        r"With scikit-learn ([0-9.]+), (\d+) of the (\d+) test functions apply.*other (\d+) is named", text
    ).groups()
    if sklearn.__version__ != version:
        return  # other versions have other tests
    suites = []
    for file in sorted((ROOT / "tests/foreign").glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"counted_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        suites.append(module.SUITE)
    functions = sum(len(suite.functions) for suite in suites)
    excluded = sum(len(suite.not_applicable.keys() & suite.functions.keys()) for suite in suites)
    assert (int(applying), int(whole), int(others)) == (functions - excluded, functions, excluded)
    assert not any(suite.known_defects for suite in suites)


def test_api_names_in_the_documentation_exist():
    """Names such as `dpem.Ledger` are checked in the glossary, the tutorials and the guides."""
    pages = [page for page in PAGES if {"tutorials", "how-to", "glossary.md"} & set(page.parts)]
    names = [(page, name) for page in pages for name in re.findall(r"`(dpem(?:\.\w+)+)", page.read_text())]
    assert len(names) > 50
    for page, name in names:
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ImportError):
            pytest.fail(f"{page.name}: {name}")
