"""Pages that are made from code are as the code is, and tables of columns and keys are complete."""

import json
import re

from tests.docs import drawings, reference
from tests.docs.blocks import ROOT
from tests.frames import events
from tests.frames import trace as make_trace
from tracekit.report.build import analyse
from tracekit.trace import EVENT_COLUMNS

DOCS = ROOT / "docs"


def firsts(page: str, heading: str) -> list[str]:
    """The names in the first column of the table under a heading."""
    part = (DOCS / page).read_text("utf-8").partition(f"{heading}\n")[2].partition("\n#")[0]
    cells = re.findall(r"^\| ([^|]+) \|", part, re.MULTILINE)
    return [name.strip(" `") for cell in cells[1:] for name in cell.split(",") if not set(name) <= set("- ")]


def test_the_page_of_the_python_interface_is_made_from_the_code():
    assert reference.PAGE.read_text("utf-8") == reference.page(), "python -m tests.docs.reference renews it"


def test_the_drawings_are_made_from_what_they_show():
    for name, draw in drawings.DRAWINGS.items():
        path = drawings.IMAGES / f"{name}.svg"
        assert path.read_text("utf-8") == draw(), f"python -m tests.docs.drawings renews {path.name}"


def test_every_column_of_the_events_is_documented():
    heading = "## `trace.events`: one row per interval on a device"
    assert sorted(firsts("events-frame.md", heading)) == sorted(EVENT_COLUMNS)


def test_every_key_of_the_summary_is_documented():
    report = analyse(make_trace(events(("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 5, 15))))
    keys = set(json.loads(json.dumps(report.summary())))
    page = (DOCS / "summary.md").read_text("utf-8")
    assert {key for key in keys if f"`{key}`" not in page} == set()
    assert set(firsts("summary.md", "# `summary.json`")) <= keys


def test_the_files_that_the_page_on_architecture_names_are_there():
    paths = re.findall(r"`(tracekit/[\w/.]+)`", (DOCS / "architecture.md").read_text("utf-8"))
    assert len(paths) >= 6
    assert [path for path in paths if not (ROOT / path).exists()] == []
