"""What holds for all tests, and one Chromium for all pages: `open_page(path)` opens a file in it."""

import signal

import pytest

from tests import browser

chromium = pytest.fixture(scope="session", name="chromium")(browser.started)
open_page = pytest.fixture(name="open_page")(browser.opened)


def pytest_sessionstart() -> None:
    # What runs tests side by side, or in the background, ignores Ctrl-C or the end of its terminal, and so would every
    # program that a test starts to send it such a signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
