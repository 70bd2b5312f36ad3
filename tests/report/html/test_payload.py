"""What the timeline's data say, decoded here by another reader; and that no name in them becomes markup."""

import base64
import html.parser
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames import events, spans, trace
from tracekit.columns import concat, frame
from tracekit.report.build import analyse
from tracekit.report.html.lanes import origins
from tracekit.report.html.payload import SCRIPTS, STYLES, column, json_text, payload
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS

HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028\u2029'\"<!--\x00"


class Elements(html.parser.HTMLParser):
    """The elements of some HTML, with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data.strip())


def read(text: str) -> dict:
    """The header, what is named, and every column, by plain loops over single bytes."""
    found = Elements(text).found
    assert {tag for tag, _, _ in found} == {"script"}
    header = json.loads(found[0][2])
    columns = {at["data-column"]: zlib.decompress(base64.b64decode(held)) for _, at, held in found[1:]}
    made = {**header, **json.loads(columns.pop("named"))}
    for name, held in columns.items():
        told = header["columns"][name]
        n = told["length"]
        values = [sum(held[p * n + i] << 8 * p for p in range(told["planes"])) for i in range(n)]
        made[name] = [-(v + 1) // 2 if v % 2 else v // 2 for v in values] if told["signed"] else values
    return made


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_a_column_holds_any_integers(values):
    made = column("x", np.array(values, np.int64))
    held = zlib.decompress(made.content)
    assert len(held) == made.planes * len(values)
    plain = [sum(held[p * len(values) + i] << 8 * p for p in range(made.planes)) for i in range(len(values))]
    assert [(-(v + 1) // 2 if v % 2 else v // 2) if made.signed else v for v in plain] == values


def payload_of(given):
    timeline = timeline_of(given)
    return payload(analyse(timeline), timeline)


def test_the_columns_tell_every_row_lane_by_lane():
    rows = events(
        ("gpu:10", "compute", 7_000, 9_000, "b"),
        ("gpu:2", "memcpy", 5_000, 6_000, "c", "H2D"),
        ("gpu:2", "compute", 3_000, 12_000_000_000_000, "a"),
        ("gpu:2", "compute", 2_000, 4_000, "b"),
    )
    rows["bytes"] = pd.array([pd.NA, 2**40, pd.NA, pd.NA], "Int64")
    found = read(payload_of(trace(rows)))
    assert (found["unit_ps"], found["clocks"], found["whole"]) == (
        "1000",
        [{"name": "", "origin_ps": "2000"}],
        [0, 11_999_999_998],
    )
    assert [(one["name"], one["kind"]) for one in found["groups"]] == [("gpu:2", "device"), ("gpu:10", "device")]
    assert found["lanes"] == [[0, "compute", 2], [0, "memcpy", 1], [1, "compute", 1]]
    # The second row starts 1 ns before the first has ended.
    assert (found["gap"], found["duration"]) == ([0, -1, 3, 5], [2, 11_999_999_997, 1, 2])
    assert [found["names"][code] for code in found["name"]] == ["b", "a", "c", "b"]
    assert [tuple(found["classes"][code]) for code in found["kind"]] == [
        ("compute", None),
        ("compute", None),
        ("memcpy", "H2D"),
        ("compute", None),
    ]
    assert (found["has_bytes"], found["bytes"]) == ([0, 0, 1, 0], [2**40])


def test_a_row_tells_the_call_that_started_it_and_calls_of_no_row_are_left_out():
    rows = events(("gpu:0", "compute", 50, 60), ("gpu:0", "compute", 60, 70))
    rows["correlation_id"] = pd.array([8, 9], "Int64")
    calls = {"host": ["h"] * 3, "thread": ["t", "s", "t"], "name": ["launch", "launch", "other"]}
    times = {"start_ps": [10, 20, 30], "end_ps": [15, 25, 35], "correlation_id": [9, 8, 7]}
    found = read(payload_of(trace(rows, launches=frame(LAUNCH_COLUMNS, calls | times))))
    assert found["lanes"] == [[0, "compute", 2], [1, "s", 1], [1, "t", 1]]
    assert np.cumsum(found["launch"]).tolist() == [2, 3]
    assert (found["device_rows"], found["rows"], found["groups"][1]["kind"]) == (2, 4, "host")
    assert found["gap"][2:] == [20 - 50, 10 - 50]


def test_rows_of_one_collective_share_its_number():
    rows = events(*[(f"gpu:{d}", "collective", 10 * k + d, 10 * k + 9, "all") for k in range(3) for d in range(2)])
    found = read(payload_of(trace(rows)))
    assert found["has_instance"] == [1] * 6
    assert np.cumsum(found["instance"]).tolist() == [0, 1, 2, 0, 1, 2]


def test_phases_are_bands_and_what_is_shown_at_first_reaches_from_the_first_to_the_last():
    timeline = timeline_of(trace(events(("gpu:0", "compute", 100, 900)), spans(("p", 300, 400), ("q", 500, 600))))
    made = analyse(timeline)
    found = read(payload(made, timeline))
    assert [(one["name"], one["start"], one["end"]) for one in found["phases"]] == [("p", 200, 300), ("q", 400, 500)]
    assert found["shown"] == [made.shown[0] - 100, made.shown[1] - 100]


def test_clocks_that_are_not_aligned_have_a_time_0_each():
    rows = concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "compute", 1000, 2000), host="a", clock="a"),
            events(("b/gpu:0", "compute", 10**15, 10**15 + 500), host="b", clock="b"),
        ],
    )
    timeline = timeline_of(trace(rows))
    report = analyse(timeline)
    assert origins(report) == {"a": 1000, "b": 10**15}
    found = read(payload(report, timeline))
    assert (found["gap"], [one["clock"] for one in found["groups"]]) == ([0, 0], [0, 1])


def test_times_beyond_2_to_the_52_are_rounded_to_a_coarser_unit_and_that_is_told():
    found = read(payload_of(trace(events(("gpu:0", "compute", 0, 3), ("gpu:0", "compute", 5, 2**60 + 1)))))
    assert (found["unit_ps"], found["rounded"]) == ("1000", True)
    assert (found["gap"], found["duration"]) == ([0, 0], [0, (2**60 + 1) // 1000])


def test_an_empty_trace_has_a_header_and_no_rows():
    found = read(payload_of(trace(events())))
    assert (found["rows"], found["whole"], found["names"], found["lanes"]) == (0, None, [], [])


def test_hostile_names_stay_inside_their_strings():
    rows = events(("gpu:0", "compute", 0, 10, HOSTILE))
    rows["lane"] = rows["lane"].cat.rename_categories([HOSTILE])
    made = payload_of(trace(rows, spans((HOSTILE, 0, 5))))
    found = read(made)
    assert (found["names"], found["lanes"][0][1], found["phases"][0]["name"]) == ([HOSTILE],) + (HOSTILE,) * 2
    assert made.isascii()
    assert made.count("<") == 2 * len(Elements(made).found)


def test_text_is_ascii_without_markup_and_a_lone_surrogate_survives():
    words = HOSTILE + "\ud800"
    made = json_text([words])
    assert made.isascii()
    assert not set(made) & set("<>&")
    assert json.loads(made) == [words]


def test_a_page_that_would_be_too_large_leaves_out_calls_then_cuts_names_and_says_so():
    rows = events(("gpu:0", "compute", 50, 60, "n" * 500))
    rows["correlation_id"] = pd.array([8], "Int64")
    call = {"host": ["h"], "thread": ["t"], "name": ["launch"], "start_ps": [10], "end_ps": [15], "correlation_id": [8]}
    timeline = timeline_of(trace(rows, launches=frame(LAUNCH_COLUMNS, call)))
    report = analyse(timeline)
    whole, less = read(payload(report, timeline)), read(payload(report, timeline, limit=100))
    assert (whole["rows"], whole["notes"], less["rows"], len(less["notes"])) == (2, [], 1, 2)
    assert less["names"] == ["n" * 80 + "…" + "n" * 79]


@pytest.mark.parametrize("name", [*SCRIPTS, *STYLES])
def test_no_script_or_style_ends_its_element_or_asks_for_anything(name):
    from importlib import resources

    text = (resources.files("tracekit.report.html") / name).read_text("utf-8")
    assert not re.search(
        r"</(script|style)|<!--|\bhttps?://(?!www\.w3\.org/2000/svg\b)|\bfetch\(|XMLHttpRequest|import\(|@import|url\(",
        text,
    )


def test_with_compared_phases_a_row_says_its_step_where_it_is_in_one():
    """The steps are those inside the compared phase; what ran elsewhere is of none."""
    marks = frame(
        SPAN_COLUMNS,
        {
            "host": ["h"] * 3,
            "thread": ["main"] * 3,
            "name": ["train"] * 3,
            "start_ps": [0, 200, 250],
            "end_ps": [50, 250, 300],
            "step": pd.array([7, 8, 9], "Int64"),
        },
    )
    rows = events(*[(device, "compute", at, at + 50) for device in ("gpu:0", "gpu:1") for at in (0, 200, 250)])
    both = concat(SPAN_COLUMNS, [spans(("solo", 0, 100), ("both", 200, 300, "solo")), marks])
    held = read(payload_of(trace(rows, both)))
    assert [one["step"] for one in held["steps"]] == [8, 9]
    assert np.cumsum(held["step"]).tolist() == [-1, 0, 1] * 2
    assert held["notes"] == []
