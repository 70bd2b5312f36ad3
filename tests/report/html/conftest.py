"""One page of the timeline for all tests that look at it: loading it anew takes less than opening another."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Pages
from tests.report.html.timeline_page import US, demo, write_page


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """The page, and before it a link into it and more than a screen of nothing."""
    link = (
        f'<button id="jump" data-from="{100 * US}" data-to="{180 * US}" data-device="gpu:1" data-find="gemm">go'
        "</button>"
        '<div style="height:1200px"></div>'
    )
    return write_page(tmp_path_factory.mktemp("page") / "page.html", demo(), link)


def _reloaded(pages: Pages, page: Any) -> Iterator[Any]:
    page.mouse.move(0, 0)
    page.goto(page.url.split("#")[0])
    page.wait_for_selector("#timeline[data-ready]")
    page.locator(".tl-plot").scroll_into_view_if_needed()
    yield page
    assert pages.problems == []


@pytest.fixture(scope="session")
def _screen(chromium, path):
    pages = Pages(chromium)
    yield pages, pages.open(path)
    pages.close()


@pytest.fixture(scope="session")
def _phone(chromium, path):
    pages = Pages(chromium)
    yield pages, pages.open(path, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    pages.close()


@pytest.fixture
def page(_screen):
    """The timeline in the middle of the window, ready."""
    yield from _reloaded(*_screen)


@pytest.fixture
def phone(_phone):
    """The same on a phone."""
    yield from _reloaded(*_phone)
