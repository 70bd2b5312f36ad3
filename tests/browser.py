"""Real headless Chromium for tests of report.html: it opens a page, and tells on it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path(os.environ.get("TRACEKIT_CHROMIUM", "/usr/bin/chromium"))
# Without a sandbox it runs as root; without these it would ask Google's servers for updates of its own.
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Pages:
    """The pages that one test opened, and what they did beside showing themselves."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self._contexts: list[Any] = []
        self.problems: list[str] = []

    def open(self, path: Path, fragment: str = "", **how: Any) -> Any:
        """Playwright's page of the file at `path`, once it has loaded; `fragment` is what follows the `#`.

        `how` goes to the browser's context: viewport={"width": 1280, "height": 800}, device_scale_factor,
        color_scheme="dark", java_script_enabled=False, has_touch and the like.
        """
        context = self._chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        self._contexts.append(context)
        page = context.new_page()
        url = path.resolve().as_uri()
        page.on(
            "console",
            lambda message: self._tell("console", message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self._tell("page error", str(error)))
        page.on("request", lambda request: self._tell("request", request.url) if _leaves(request.url, url) else None)
        page.on("dialog", lambda dialog: (self._tell("dialog", dialog.message), dialog.dismiss()))
        page.goto(url + (f"#{fragment}" if fragment else ""))
        return page

    def close(self) -> None:
        """Close all pages; none may have made an error, asked for another file, or opened a dialog."""
        for context in self._contexts:
            context.close()
        assert self.problems == []

    def _tell_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._tell("console", message.text)

    def _tell(self, what: str, words: str) -> None:
        self.problems.append(f"{what}: {words}")


def _leaves(url: str, own: str) -> bool:
    """Whether a request asks for anything but the page itself; what the page made itself has no place to ask."""
    return url.split("#")[0] != own and not url.startswith(("data:", "blob:"))


def launch_chromium() -> Iterator[Any]:
    """A headless Chromium; skips where it or playwright is not installed, unless TRACEKIT_REQUIRE_CHROMIUM is set."""
    lacking = "" if CHROMIUM.exists() else f"{CHROMIUM} is not there: install Debian's package chromium"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking = lacking or "playwright is not installed: pip install playwright"
    if lacking:
        if os.environ.get("TRACEKIT_REQUIRE_CHROMIUM"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_QUIET)
        yield chromium
        chromium.close()


def serve_pages(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(path, **how)`, as Pages.open; when the test ends, no page may have made an error or a request."""
    pages = Pages(chromium)
    yield pages.open
    pages.close()
