"""axe-core has no objection to the page (WCAG 2.2 AA, best practices): on a screen and a phone, light and dark."""

from importlib import resources

import pytest

from tests.browser import Pages
from tests.report.html.pages import html

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Everything that can be opened is open, and the panels of the timeline are filled.
OPEN = """() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const head of document.querySelectorAll("th:first-child > .sort")) head.click();
  const { act, app } = tracekit;
  act.find("e");
  act.select(0, { follow: false });
  act.range(app.whole);
}"""
CHECK = """async (tags) => {
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const only = { type: "tag", values: tags };
  const { violations } = await axe.run(document, { runOnly: only, resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => [id, target, failureSummary]));
}"""


@pytest.fixture(scope="module")
def open_report(chromium, tmp_path_factory):
    """The page of that name, opened once."""
    pages, open_pages = Pages(chromium), {}

    def open_by_name(name: str):
        if name not in open_pages:
            path = tmp_path_factory.mktemp("axe") / f"{name}.html"
            path.write_text(html(name), "utf-8")
            page = open_pages[name] = pages.open(path)
            page.wait_for_selector("#timeline[data-ready]")
            page.evaluate(OPEN)
            page.evaluate(AXE)
        return open_pages[name]

    yield open_by_name
    pages.close()


@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [("phases", 1440, "light"), ("phases", 390, "dark"), ("launched", 390, "light"), ("launched", 1440, "dark")],
)
def test_axe_has_no_objection(open_report, name, width, theme):
    page = open_report(name)
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    assert page.evaluate(CHECK, TAGS) == []


def test_axe_objects_to_what_cannot_be_read_or_has_no_name(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><title>t</title><main><p style='color:#ccc'>pale</p><button></button></main>", "utf-8"
    )
    page = open_page(path)
    page.evaluate(AXE)
    assert {"button-name", "color-contrast", "html-has-lang"} <= {rule for rule, *_ in page.evaluate(CHECK, TAGS)}
