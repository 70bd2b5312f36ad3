"""One Chromium for all tests of report.html: `open_page(path)` opens a file in it."""

import pytest

from tests.report.page import browser

chromium = pytest.fixture(scope="session", name="chromium")(browser.started)
open_page = pytest.fixture(name="open_page")(browser.opened)
