"""One quantity reads the same on every face: shares of time on terminal, Markdown and page are those of the summary."""

import io
import math
import re
from fractions import Fraction
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from tests.traces import DATA, REAL
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.html.page import page
from tracekit.report.markdown import markdown
from tracekit.report.terminal import printout
from tracekit.timeline.timeline import timeline_of

OURS = sorted(path for pattern in ("*.pb", "*.pb.gz", "*.json", "*.json.gz") for path in DATA.glob(pattern))
OTHERS = ("kineto/dlrm-8xV100", "xplane/tpu-v6e-4chip", "xplane/jax-8xMI300X", "xplane/tf-8xV100")
# The columns of the table of where time went, and the cells of the partition that each holds.
COLUMNS = (
    ("compute",),
    ("collective", "collective+memory"),
    ("memory",),
    ("compute+collective", "compute+memory", "compute+collective+memory"),
    ("idle",),
)


def said(part: int, whole: int) -> str:
    """A share as every face says it: one digit, and 0 % or 100 % only where it is exactly that."""
    share = Fraction(100 * part, whole)
    if share in (0, 100):
        return f"{int(share)} %"
    if share < Fraction(1, 10):
        return "<0.1 %"
    return ">99.9 %" if share > Fraction(999, 10) else f"{math.floor(share * 10 + Fraction(1, 2)) / 10:.1f} %"


def plain(text: str) -> str:
    """The text of a page or of Markdown, with spaces only between its words."""
    return " ".join(unescape(re.sub(r"<[^>]*>|\|", " ", text)).split())


@pytest.mark.parametrize("path", [*OURS, *OTHERS], ids=lambda path: Path(path).name)
def test_shares_of_every_device_read_the_same_on_every_face(path):
    path = REAL / path if isinstance(path, str) else path
    if not path.exists():
        pytest.skip(f"{path} is not there")
    timeline = timeline_of(read(path))
    report = analyse(timeline)
    file = io.StringIO()
    printout.show(report, Console(file=file, width=240, force_terminal=False), full=True, timeline=timeline)
    # Everything but the timeline's data and the scripts.
    body = re.sub(r"<(script|style).*?</\1>", "", page(report), flags=re.S)
    faces = {"terminal": " ".join(file.getvalue().split()), "Markdown": plain(markdown(report)), "page": plain(body)}
    devices = report.summary()["devices"]
    assert devices
    for device in devices:
        if report.whole.lacking or not device["window_ps"] or report.steady is not None:
            continue  # no shares, or those of the steady steps
        cells = [sum(device["partition"][cell] for cell in column) for column in COLUMNS]
        assert sum(cells) == device["window_ps"]
        shares = [said(cell, device["window_ps"]) for cell in cells]
        row = re.compile(rf"(?<!\S){re.escape(device['device'])} \S+ \S+ " + " ".join(map(re.escape, shares)))
        for face in ("terminal", "Markdown"):
            assert row.search(faces[face]), (face, device["device"], shares)
        parts = ("compute only", "exposed comm.", "exposed copy", "overlapped", "idle")
        told = ", ".join(
            re.escape(f"{part} {share}") for part, share in zip(parts, shares, strict=True) if share != "0 %"
        )
        bar = re.compile(rf"(?<!\S){re.escape(device['device'])} .{{0,999}}?busy \S+ \S+: {told}")
        assert bar.search(faces["page"]), ("page", device["device"], shares)
    for figure in report.key_figures:
        for face, text in faces.items():
            assert figure.text in text, (face, figure)
