"""Renew the pictures of docs/page.md: `python -m tests.docs.screenshots reports/concurrent/report.html`."""

import io
import sys
from pathlib import Path

from PIL import Image

from tests.browser import launch_chromium
from tests.docs.blocks import ROOT

IMAGES = ROOT / "docs" / "images"


def save(png: bytes, name: str) -> None:
    """Write a picture with a palette of 256 colours, which takes a third of the bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"{name}.png", optimize=True)
    print(f"Wrote {IMAGES / name}.png", file=sys.stderr)


def main(report: Path) -> None:
    """Photograph the head of the page and its timeline, light and dark."""
    for chromium in launch_chromium():
        for scheme, name in (("light", "page"), ("dark", "page-timeline")):
            context = chromium.new_context(color_scheme=scheme, viewport={"width": 1120, "height": 700})
            page = context.new_page()
            page.goto(report.resolve().as_uri())
            page.wait_for_timeout(2000)
            if name == "page-timeline":
                page.locator("#timeline").scroll_into_view_if_needed()
                page.evaluate("document.querySelector('#timeline').scrollIntoView()")
                page.wait_for_timeout(500)
            save(page.screenshot(), name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
