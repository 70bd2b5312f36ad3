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

from tests import stepped
from tests.frames import events, spans, trace
from tracekit.columns import concat, frame
from tracekit.report.build import analyse
from tracekit.report.html import payload as html_payload
from tracekit.report.html.payload import SCRIPTS, STYLES, column, json_text, payload
from tracekit.report.model import time_zero
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS

HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028\u2029'\"<!--\x00"


class Elements(html.parser.HTMLParser):
    """The elements of some HTML, with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.elements:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data.strip())


def read(text: str) -> dict:
    """The header, what is named, and every column, by plain loops over single bytes."""
    elements = Elements(text).elements
    assert {tag for tag, _, _ in elements} == {"script"}
    header = json.loads(elements[0][2])
    columns = {at["data-column"]: zlib.decompress(base64.b64decode(content)) for _, at, content in elements[1:]}
    result = {**header, **json.loads(columns.pop("named"))}
    for name, content in columns.items():
        layout = header["columns"][name]
        n = layout["length"]
        values = [sum(content[p * n + i] << 8 * p for p in range(layout["planes"])) for i in range(n)]
        result[name] = [-(v + 1) // 2 if v % 2 else v // 2 for v in values] if layout["signed"] else values
    return result


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20), st.sampled_from([1, 7, 20]))
def test_a_column_holds_any_integers(values, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_payload, "_PIECE", piece)
        packed = column("x", np.array(values, np.int64))
    content = zlib.decompress(packed.content)
    assert len(content) == packed.planes * len(values)
    plain = [sum(content[p * len(values) + i] << 8 * p for p in range(packed.planes)) for i in range(len(values))]
    assert [(-(v + 1) // 2 if v % 2 else v // 2) if packed.signed else v for v in plain] == values


def payload_of(any_trace):
    timeline = timeline_of(any_trace)
    return payload(analyse(timeline), timeline)


def test_the_columns_tell_every_row_lane_by_lane():
    rows = events(
        ("gpu:10", "compute", 7_000, 9_000, "b"),
        ("gpu:2", "memcpy", 5_000, 6_000, "c", "H2D"),
        ("gpu:2", "compute", 3_000, 12_000_000_000_000, "a"),
        ("gpu:2", "compute", 2_000, 4_000, "b"),
    )
    rows["bytes"] = pd.array([pd.NA, 2**40, pd.NA, pd.NA], "Int64")
    data = read(payload_of(trace(rows)))
    assert (data["unit_ps"], data["clocks"], data["windows"], data["whole"]) == (
        "1000",
        [{"name": "", "origin_ps": "2000"}],
        [[[0], [11_999_999_998]]],
        [0, 11_999_999_998],
    )
    assert [(group["name"], group["kind"]) for group in data["groups"]] == [("gpu:2", "device"), ("gpu:10", "device")]
    assert data["lanes"] == [[0, "compute", 2], [0, "memcpy", 1], [1, "compute", 1]]
    # The second row starts 1 ns before the first has ended.
    assert (data["gap"], data["duration"]) == ([0, -1, 3, 5], [2, 11_999_999_997, 1, 2])
    assert [data["names"][code] for code in data["name"]] == ["b", "a", "c", "b"]
    assert [tuple(data["classes"][code]) for code in data["kind"]] == [
        ("compute", None),
        ("compute", None),
        ("memcpy", "H2D"),
        ("compute", None),
    ]
    assert (data["has_bytes"], data["bytes"]) == ([0, 0, 1, 0], [2**40])


def test_a_row_tells_the_call_that_started_it_and_calls_of_no_row_are_left_out():
    rows = events(("gpu:0", "compute", 50, 60), ("gpu:0", "compute", 60, 70))
    rows["correlation_id"] = pd.array([8, 9], "Int64")
    calls = {"host": ["h"] * 3, "thread": ["t", "s", "t"], "name": ["launch", "launch", "other"]}
    times = {"start_ps": [10, 20, 30], "end_ps": [15, 25, 35], "correlation_id": [9, 8, 7]}
    data = read(payload_of(trace(rows, launches=frame(LAUNCH_COLUMNS, calls | times))))
    assert data["lanes"] == [[0, "compute", 2], [1, "s", 1], [1, "t", 1]]
    assert np.cumsum(data["launch"]).tolist() == [2, 3]
    assert (data["device_rows"], data["rows"], data["groups"][1]["kind"]) == (2, 4, "host")
    assert data["gap"][2:] == [20 - 50, 10 - 50]


def test_rows_of_one_collective_share_its_number():
    rows = events(*[(f"gpu:{d}", "collective", 10 * k + d, 10 * k + 9, "all") for k in range(3) for d in range(2)])
    data = read(payload_of(trace(rows)))
    assert data["has_instance"] == [1] * 6
    assert np.cumsum(data["instance"]).tolist() == [0, 1, 2, 0, 1, 2]


def test_phases_are_bands_and_what_is_shown_at_first_reaches_from_the_first_to_the_last():
    timeline = timeline_of(trace(events(("gpu:0", "compute", 100, 900)), spans(("p", 300, 400), ("q", 500, 600))))
    report = analyse(timeline)
    data = read(payload(report, timeline))
    assert [(phase["name"], phase["start"], phase["end"]) for phase in data["phases"]] == [
        ("p", 200, 300),
        ("q", 400, 500),
    ]
    assert data["extent"] == [report.extent[0] - 100, report.extent[1] - 100]


def test_a_part_is_shown_without_the_launches_before_it():
    rows, launches = stepped.work(("gpu:0", "compute", 0, 10, 0), ("gpu:0", "compute", 500, 600, 50))
    whole = timeline_of(trace(rows, launches=launches))
    report = analyse(whole, start=400, end=550)
    data = read(payload(report, whole.inside(report.windows)))
    assert (data["whole"][0], data["extent"]) == (50, [400, 550])


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
    assert time_zero(report).start_ps == {"a": 1000, "b": 10**15}
    data = read(payload(report, timeline))
    assert (data["gap"], [group["clock"] for group in data["groups"]]) == ([0, 0], [0, 1])


def test_times_beyond_2_to_the_52_are_rounded_to_a_coarser_unit_and_that_is_told():
    data = read(payload_of(trace(events(("gpu:0", "compute", 0, 3), ("gpu:0", "compute", 5, 2**60 + 1)))))
    assert (data["unit_ps"], data["rounded"]) == ("1000", True)
    assert (data["gap"], data["duration"]) == ([0, 0], [0, (2**60 + 1) // 1000])


def test_an_empty_trace_has_a_header_and_no_rows():
    data = read(payload_of(trace(events())))
    assert (data["rows"], data["whole"], data["names"], data["lanes"]) == (0, None, [], [])


def test_hostile_names_stay_inside_their_strings():
    rows = events(("gpu:0", "compute", 0, 10, HOSTILE))
    rows["lane"] = rows["lane"].cat.rename_categories([HOSTILE])
    markup = payload_of(trace(rows, spans((HOSTILE, 0, 5))))
    data = read(markup)
    assert (data["names"], data["lanes"][0][1], data["phases"][0]["name"]) == ([HOSTILE],) + (HOSTILE,) * 2
    assert markup.isascii()
    assert markup.count("<") == 2 * len(Elements(markup).elements)


def test_text_is_ascii_without_markup_and_a_lone_surrogate_survives():
    words = HOSTILE + "\ud800"
    result = json_text([words])
    assert result.isascii()
    assert not set(result) & set("<>&")
    assert json.loads(result) == [words]


def test_what_cannot_be_seen_or_turns_the_text_around_has_a_sign():
    assert json.loads(json_text([{"a\u202eb": "\u200b漢字\u2028\x1b👩\u200d👧"}])) == [
        {"a\ufffdb": "\ufffd漢字\u2028\x1b👩\u200d👧"}
    ]


def test_a_page_that_would_be_too_large_leaves_out_calls_then_cuts_names_and_says_so():
    rows = events(("gpu:0", "compute", 50, 60, "n" * 500))
    rows["correlation_id"] = pd.array([8], "Int64")
    call = {"host": ["h"], "thread": ["t"], "name": ["launch"], "start_ps": [10], "end_ps": [15], "correlation_id": [8]}
    timeline = timeline_of(trace(rows, launches=frame(LAUNCH_COLUMNS, call)))
    report = analyse(timeline)
    whole, less = read(payload(report, timeline)), read(payload(report, timeline, limit=100))
    assert (whole["rows"], whole["notes"], less["rows"], len(less["notes"])) == (2, [], 1, 2)
    assert less["names"] == ["n" * 80 + "…" + "n" * 79]


@pytest.mark.parametrize("ns", [1, 1000])
def test_of_many_rows_a_part_tells_that_calls_do_not_fit(monkeypatch, ns):
    rng = np.random.default_rng(7)
    starts = ns * np.cumsum(rng.integers(900, 9_000, 4_000))
    rows = events(*[("gpu:0", "compute", at, at + ns * 500, f"k{at % 7}") for at in starts.tolist()])
    rows["correlation_id"] = pd.array(range(len(rows)), "Int64")
    calls = {
        "host": ["h"] * len(rows),
        "thread": ["t"] * len(rows),
        "name": ["launch"] * len(rows),
        "start_ps": starts - ns * rng.integers(300, 800, len(rows)),
        "end_ps": starts - ns * 200,
        "correlation_id": range(len(rows)),
    }
    timeline = timeline_of(trace(rows, launches=frame(LAUNCH_COLUMNS, calls)))
    report = analyse(timeline)
    packed, pack = [], html_payload._elements
    monkeypatch.setattr(html_payload, "_elements", lambda *given: packed.append(pack(*given)) or packed[-1])

    def sizes(limit):
        packed.clear()
        result = payload(report, timeline, limit)
        return result, [*map(len, packed)]

    (whole, (both,)), (alone, (_, less)) = sizes(10**9), sizes(1)
    limits = (both + 1, both, both - 1, (both + less) // 2, less + 1, less - 1)
    expected = [whole if limit >= both else alone for limit in limits]
    assert [sizes(limit)[0] for limit in limits] == expected
    monkeypatch.setattr(html_payload, "_SAMPLE", 256)
    monkeypatch.setattr(html_payload, "_SAMPLED_IN", 4)
    sampled = [sizes(limit) for limit in limits]
    assert [result for result, _ in sampled] == expected
    # Well below what all takes it is packed once, near it twice.
    assert [len(tries) for _, tries in sampled] == [1, 1, 2, 1, 1, 1]


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
    data = read(payload_of(trace(rows, both)))
    assert [step["step"] for step in data["steps"]] == [8, 9]
    assert np.cumsum(data["step"]).tolist() == [-1, 0, 1] * 2
    assert data["notes"] == []
