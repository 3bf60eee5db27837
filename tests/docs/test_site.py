"""The built documentation in a real browser: `make docs` builds it, then runs this.

Every sampled page loads without failed or external requests and without console errors, and passes axe's
accessibility rules in light and dark mode. Mathematics is typeset, and the search finds pages.
"""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from support.browser import CHROMIUM, headless_browser

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = [
    "index.html",
    "tutorials/quickstart.html",
    "how-to/index.html",
    "guide/gaussian-mixture.html",
    "guide/schema.html",
    "background/concepts.html",
    "auto_examples/index.html",
    "auto_examples/plot_gaussian_mixture.html",
    "proofs/sensitivity.html",
    "paper/reproduction.html",
    "reference/api/index.html",
    "reference/api/generated/dpem.GaussianMixture.html",
    "reference/messages.html",
    "reference/command.html",
    "reference/options.html",
    "tutorials/installation.html",
    "background/benchmarks.html",
    "background/benchmarks/gaussian-mixtures.html",
    "development/attacks.html",
    "search.html",
]

pytestmark = [pytest.mark.site, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Write no log."""


@pytest.fixture(scope="module")
def address():
    assert (SITE / "index.html").exists(), "Build the site first: make docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as opened:
        yield opened


@pytest.fixture(params=["light", "dark"])
def page(browser, address, request):
    """Return a page; at the end, fail on external or failed requests and on console errors."""
    problems = []
    context = browser.new_context(color_scheme=request.param)
    opened = context.new_page()
    opened.on("console", lambda message: message.type == "error" and problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("requestfailed", lambda failed: problems.append(f"failed: {failed.url}"))
    opened.on(
        "response", lambda answer: answer.status >= 400 and problems.append(f"{answer.status}: {answer.url}")
    )
    opened.on(
        "request",
        lambda asked: (
            asked.url.startswith((address, "data:", "blob:")) or problems.append(f"foreign: {asked.url}")
        ),
    )
    yield opened
    context.close()
    assert not problems


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_without_external_requests_and_is_accessible(page, address, name):
    page.goto(address + name, wait_until="networkidle")
    # Without `preload`, since axe would fetch the theme's imported style sheet from a wrong address.
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"], "preload": False})
    assert found.violations_count == 0, found.generate_report()


def test_mathematics_is_typeset(page, address):
    page.goto(address + "proofs/sensitivity.html", wait_until="networkidle")
    page.wait_for_selector("mjx-container")
    assert page.locator("mjx-container").count() > 20
    assert page.locator("mjx-merror").count() == 0


@pytest.mark.parametrize("words", ["replace-one", "GaussianMixture", "InsufficientBudgetError"])
def test_the_search_finds_pages(page, address, words):
    page.goto(f"{address}search.html?q={words}", wait_until="networkidle")
    page.wait_for_selector("ul.search li a")
    assert page.locator("ul.search li a").count() >= 1
