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


_VIEWPORT = {"width": 1280, "height": 900}


class Pages:
    """The pages that one test opened, and what they did beside showing themselves.

    `tabs` are those that tests before it have left, as good as new: a new one takes twice the time of all it shows.
    """

    def __init__(self, chromium: Any, tabs: list[Any] | None = None) -> None:
        self._chromium, self._tabs = chromium, tabs
        self._contexts: list[Any] = []
        self._open: list[tuple[Any, dict[str, Callable[[Any], None]]]] = []
        self.problems: list[str] = []

    def open(self, path: Path, fragment: str = "", **how: Any) -> Any:
        """Playwright's page of the file at `path`, once it has loaded; `fragment` is what follows the `#`.

        `how` goes to the browser's context: viewport={"width": 1280, "height": 800}, device_scale_factor,
        color_scheme="dark", java_script_enabled=False, has_touch and the like.
        """
        how = {"viewport": _VIEWPORT, **how}
        page = self._left_tab(**how) if self._tabs is not None and how.keys() <= {"viewport", "color_scheme"} else None
        if page is None:
            self._contexts.append(self._chromium.new_context(**how))
            page = self._contexts[-1].new_page()
        url = path.resolve().as_uri()
        listeners = {
            "console": self._tell_console,
            "pageerror": lambda error: self._tell("page error", str(error)),
            "request": lambda request: self._tell("request", request.url) if _leaves(request.url, url) else None,
            "dialog": lambda dialog: (self._tell("dialog", dialog.message), dialog.dismiss()),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
        if page.context not in self._contexts:
            self._open.append((page, listeners))
        page.goto(url + (f"#{fragment}" if fragment else ""))
        return page

    def close(self) -> None:
        """Close all pages, or leave them to the next test; none may have made an error, asked for another file, or
        opened a dialog."""
        for page, listeners in self._open:
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
            page.mouse.move(0, 0)
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            page.goto("about:blank")
            self._tabs.append(page)
        for context in self._contexts:
            context.close()
        assert self.problems == []

    def _left_tab(self, viewport: dict[str, int], color_scheme: str = "light") -> Any:
        """An empty tab that shows pages like this, of those that are left, or else new."""
        page = self._tabs.pop() if self._tabs else self._chromium.new_context().new_page()
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme, media="screen")
        return page

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


def no_tabs() -> list[Any]:
    """Where tests leave their tabs to those after them: at first there is none."""
    return []


def serve_pages(chromium: Any, tabs: list[Any]) -> Iterator[Callable[..., Any]]:
    """`open_page(path, **how)`, as Pages.open; when the test ends, no page may have made an error or a request."""
    pages = Pages(chromium, tabs)
    yield pages.open
    pages.close()
