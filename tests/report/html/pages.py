"""The reports whose page is tested, and the page as a tree that a strict parser made."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

import html5lib

from tests import stepped
from tests.analysis.test_memory import events as allocations
from tests.frames import events, spans, trace
from tracekit.columns import concat
from tracekit.readers import read
from tracekit.report.build import analyse
from tracekit.report.html.page import page
from tracekit.report.model import Report
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace

MS = 10**9
HOSTILE = "</script><img src=x onerror=alert(1)>"
DATA = Path(__file__).parent.parent.parent / "data"


def _many(devices: int) -> Trace:
    rows = [
        (f"host{at // 8}/gpu:{at % 8}", kind, start * MS + at, start * MS + at + length * MS // 10)
        for at in range(devices)
        for start, length, kind in ((0, 10, "compute"), (1, 3 + at % 5, "collective"), (2, 1 + at % 3, "memcpy"))
    ]
    return trace(events(*rows))


def _hostile() -> Trace:
    rows = events(
        (f"gpu:0{HOSTILE}", "compute", 0, MS, f"{HOSTILE}\x1b[31m"),
        (f"gpu:1{HOSTILE}", "collective", MS // 2, 2 * MS, f"all-reduce{HOSTILE}"),
        (f"gpu:0{HOSTILE}", "memcpy", 3 * MS, 4 * MS, f"{HOSTILE}\u202e", "H2D"),
        host=f"host{HOSTILE}",
    )
    rows["lane"] = rows["lane"].cat.rename_categories(lambda lane: f"{lane}{HOSTILE}")
    marks = spans((f"a{HOSTILE}", 0, MS), (f"b{HOSTILE}", MS, 4 * MS, f"a{HOSTILE}"), host=f"host{HOSTILE}")
    hostile_trace = trace(rows, marks, notes=(f"note{HOSTILE}",), runs=(f"run{HOSTILE}",))
    return replace(hostile_trace, source=f"traces/{HOSTILE}")


def _clocks() -> Trace:
    parts = [
        events(*[(f"h{host}/gpu:0", "compute", host * MS + at * 10, host * MS + at * 10 + 6) for at in range(4)],
               host=f"h{host}", clock=f"h{host}")
        for host in (0, 1)
    ]  # fmt: skip
    return trace(concat(EVENT_COLUMNS, parts))


def _phases() -> Trace:
    rows = events(
        ("gpu:0", "compute", 0, 10 * MS),
        ("gpu:1", "compute", 10 * MS, 20 * MS),
        ("gpu:0", "compute", 20 * MS, 31 * MS),
        ("gpu:1", "compute", 20 * MS, 30 * MS),
        ("gpu:1", "memcpy", 28 * MS, 34 * MS, "copy", "H2D"),
        ("gpu:0", "collective", 30 * MS, 34 * MS, "all-reduce.1"),
        ("gpu:1", "collective", 32 * MS, 34 * MS, "all-reduce.1"),
    )
    marks = spans(("first", 0, 10 * MS), ("second", 10 * MS, 20 * MS), ("both", 20 * MS, 40 * MS, "first;second"))
    memory = allocations(
        *[
            ("gpu:0", "bfc", at * MS, size, in_use)
            for at, size, in_use in [(1, 700, 1700), (8, -500, 1200), (25, 900, 2100)]
        ],
        limit_bytes=4000,
    )
    return trace(rows, marks, memory=memory)


def _three() -> Trace:
    """Three devices that overlap unequally in a phase with a baseline."""
    rows = events(
        *[("gpu:0", "compute", 0, 30)],
        *[(f"gpu:{at}", "compute", 40 + at * 3, 50 + at * 4) for at in range(3)],
        ("gpu:2", "memset", 60, 62),
    )
    return trace(rows, spans(("one", 0, 30), ("three", 40, 62, None, "one")))


def _launched() -> Trace:
    """Eight steps of small kernels that are launched one by one, the sixth of them three times as long."""
    starts = [50_000 + at for at in (0, 1000, 2000, 3000, 4000, 5000, 8000, 9000, 10_000)]
    kernels = [
        ("gpu:0", "compute", at + 1, at + 3, at)
        for start, end in pairwise(starts)
        for at in range(start, end, (end - start) // 20)
    ]
    rows, launches = stepped.work(("gpu:0", "compute", 1, 49_000, 0), *kernels)
    marks = stepped.annotations(*[("train", step, *ends) for step, ends in enumerate(pairwise(starts))])
    return trace(rows, marks, launches=launches)


_TRACES = {
    "captured": lambda: read(DATA / "two-cpu-devices-jax0.10.2.xplane.pb"),
    "stepped": lambda: read(DATA / "stepped-cpu.xplane.pb.gz"),
    "phases": _phases,
    "three": _three,
    "launched": _launched,
    "hostile": _hostile,
    "clocks": _clocks,
    "many": lambda: _many(40),
    "several": lambda: _many(9),
    "one": lambda: trace(events(("gpu:0", "compute", 5, 10))),
    "empty": lambda: trace(events()),
}
NAMES = tuple(_TRACES)


@cache
def timeline(name: str) -> Timeline:
    """The trace of that name, in order."""
    return timeline_of(_TRACES[name]())


@cache
def report(name: str) -> Report:
    """Its report."""
    return analyse(timeline(name))


@cache
def html(name: str) -> str:
    """Its page."""
    return page(report(name), timeline(name))


@cache
def tree(name: str) -> Element:
    """Its page, parsed; any error of its HTML raises. The scripts, the same on all, are read with one page only."""
    source = html(name) if name == "hostile" else re.sub(r"<script>.*?</script>", "", html(name), flags=re.S)
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(source)


def words(element: Element) -> str:
    """The text of an element, blanks as one."""
    return " ".join("".join(element.itertext()).split())


def within(root: Element, id: str) -> Element:
    """The element of that id."""
    (element,) = [element for element in root.iter() if element.get("id") == id]
    return element


def table(root: Element, caption: str) -> tuple[list[str], list[list[Element]]]:
    """Head and rows of the tables of that caption, the folded rest of it included."""
    tables = [
        element for element in root.iter("table") if (title := element.find("caption/span")) is not None
        and (words(title) == caption or words(title).startswith(f"{caption}: "))
    ]  # fmt: skip
    heads = [[words(cell) for cell in element.findall("thead/tr/*")] for element in tables]
    assert all(head == heads[0] for head in heads)
    return heads[0], [list(row) for element in tables for row in element.findall("tbody/tr")]


def values(cell: Element) -> Iterator[str]:
    """The exact values of the figures in a cell."""
    return (data.get("value", "") for data in cell.iter("data"))


def value(cell: Element) -> int | float | None:
    """The one exact value in a cell; None where there is none."""
    numbers = [float(text) if "." in text or "e" in text else int(text) for text in values(cell)]
    return numbers[0] if numbers else None
