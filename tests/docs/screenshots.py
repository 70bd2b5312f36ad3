"""Renew the pictures of README.md, the tutorial and docs/page.md: `python -m tests.docs.screenshots reports`.

It takes the reports that `make demo` and the commands of the tutorial write. Capture on an otherwise idle machine, and
bring the figures of the tutorial in line with the new reports.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image

from tests.browser import launch_chromium
from tests.docs.blocks import ROOT

IMAGES = ROOT / "docs" / "images"
# Picture -> the report whose timeline it is.
TIMELINES = {
    "demo": "demo",
    "first-capture": "concurrent",
    "copies": "copies",
    "training-steps": "training",
    "sharded": "sharded",
}


def save(png: bytes, name: str) -> None:
    """Write a picture with a palette of 256 colours, which takes a third of the bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"{name}.png", optimize=True)
    print(f"Wrote {IMAGES / name}.png", file=sys.stderr)


def main(reports: Path) -> None:
    """Copy the timelines; photograph the head of the first capture's page, light, and its timeline, dark."""
    for name, report in TIMELINES.items():
        shutil.copyfile(reports / report / "gantt.png", IMAGES / f"{name}.png")
    for chromium in launch_chromium():
        for scheme, name in (("light", "page"), ("dark", "page-timeline")):
            context = chromium.new_context(color_scheme=scheme, viewport={"width": 1120, "height": 700})
            page = context.new_page()
            page.goto((reports / "concurrent" / "report.html").resolve().as_uri())
            page.wait_for_timeout(2000)
            if name == "page-timeline":
                page.locator("#timeline").scroll_into_view_if_needed()
                page.evaluate("document.querySelector('#timeline').scrollIntoView()")
                page.wait_for_timeout(500)
            save(page.screenshot(), name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
