"""The timeline in characters against a count of every picosecond, and what it says in any terminal."""

import io
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.frames import events, spans, trace
from tracekit import console as terminal
from tracekit.columns import categorical, concat
from tracekit.report.build import analyse
from tracekit.report.terminal import timeline_text
from tracekit.report.terminal.timeline_text import strips
from tracekit.timeline.rows import CODE, rows
from tracekit.timeline.timeline import timeline_of
from tracekit.timeline.unions import unions
from tracekit.trace import EVENT_COLUMNS
from tracekit.vocabulary.kinds import Kind

NO_PHASES = spans()[[]].assign(name=[], start_ps=[], end_ps=[])
interval = st.tuples(
    st.sampled_from(["gpu:0", "gpu:1"]), st.sampled_from([*Kind]), st.integers(0, 60), st.integers(0, 25)
)


def strips_of(frame, cells, phases=NO_PHASES, lanes=None):
    sorted_rows = rows(frame)
    return strips(sorted_rows, unions(sorted_rows).windows, phases, lanes, cells)


def drawing(any_trace, width=60, encoding="utf-8"):
    timeline = timeline_of(any_trace)
    console = terminal.console(io.TextIOWrapper(io.BytesIO(), encoding=encoding), width=width)
    return [line.plain for line in timeline_text.timeline(analyse(timeline), timeline, console)]


@settings(max_examples=60)
@given(st.lists(interval, min_size=1, max_size=12), st.integers(1, 30))
def test_every_cell_is_what_a_count_of_every_picosecond_gives(intervals, cells):
    rows_of = [(device, kind.value, start, start + length) for device, kind, start, length in intervals]
    begin, end = min(row[2] for row in rows_of), max(row[3] for row in rows_of)
    result = strips_of(events(*rows_of), cells)
    if begin == end:
        assert result == []
        return
    (strip,) = result
    edges = strip.edges.tolist()
    assert (edges[0], edges[-1], len(edges) - 1) == (begin, end, min(cells, end - begin))
    lengths = np.diff(strip.edges)
    assert lengths.max() - lengths.min() <= 1
    lines = [line for line in strip.lines if not line.label.startswith(" ")]
    assert [line.label for line in lines] == sorted({row[0] for row in rows_of})
    for line in lines:
        kinds_at = [
            {kind for device, kind, a, b in rows_of if device == line.label and a <= ps < b} for ps in range(end)
        ]
        for at, (cell_start, cell_end) in enumerate(itertools.pairwise(edges)):
            inside = kinds_at[cell_start:cell_end]
            busy = sum(map(bool, inside))
            time_of_kind = {kind: sum(kind.value in now for now in inside) for kind in Kind}
            # The drawn eighths never exceed the true share, and are less than one eighth short of it.
            eighths = max(int(line.level[at]) - 1, 0)
            assert eighths * (cell_end - cell_start) <= 8 * busy < (eighths + 1) * (cell_end - cell_start)
            assert (line.level[at] > 0) == (busy > 0)
            longest = next(kind for kind in Kind if time_of_kind[kind] == max(time_of_kind.values()))
            assert line.kind[at] == (CODE[longest] if busy else -1)
        assert line.busy == sum(map(bool, kinds_at[begin:])) / (end - begin)


def test_times_near_the_end_of_int64_do_not_overflow():
    day = 86_400 * 10**12
    frame = events(("gpu:0", "compute", 0, 50 * day), ("gpu:0", "compute", 75 * day, 100 * day))
    (strip,) = strips_of(frame, 4)
    assert strip.lines[0].level.tolist() == [9, 9, 0, 9]


def one_lane(*rows_of):
    """Events whose devices have one lane each."""
    frame = events(*rows_of)
    return frame.assign(lane=categorical(["all"], np.zeros(len(frame), np.int64)))


def test_a_timeline_says_what_ran_longest_without_colours_and_where_the_phases_were():
    frame = one_lane(
        ("gpu:0", "compute", 0, 30),
        ("gpu:0", "collective", 30, 40),
        ("gpu:1", "memcpy", 20, 25, "copy", "H2D"),
        ("gpu:1", "memset", 35, 36),
    )
    recording = trace(frame, spans(("first", 0, 20), ("second", 20, 40, None, "first")))
    assert drawing(recording, 55) == [
        "Timeline: 40 ps, from the first phase to the last",
        "gpu:0  ████████████████████████████████████████   100 %",
        "                                     cccccccccc",
        "gpu:1                      █████          █      15.0 %",
        "                           mmmmm          s",
        "       |0        |10 ps    |20 ps    |30 ps",
        "first  ━━━━━━━━━━━━━━━━━━━━",
        "second                     ━━━━━━━━━━━━━━━━━━━━",
        "Each cell spans 1 ps: █ is 100 % busy, · less than an",
        "eighth. Letters name the longest kind, where it is not",
        "compute: c collective, m memcpy, s memset. Time 0 is",
        "the first device work.",
    ]


def test_a_terminal_without_unicode_gets_digits():
    frame = one_lane(("gpu:0", "compute", 0, 10), ("gpu:0", "compute", 40, 41), ("gpu:0", "memcpy", 70, 80))
    recording = trace(frame)
    assert drawing(recording, 30, "ascii")[2:5] == [
        "gpu:0 88      1     88  26.3 %",
        "                    mm",
        "      |0        |50 ps",
    ]
    assert all(line.isascii() for line in drawing(recording, 30, "ascii"))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_whatever_the_names(width):
    names = [
        "[red]x[/red]",
        "\x1b[31mred\x1b[0m",
        "tab\there",
        "漢字" * 12,
        "👩‍👩‍👧 family",
        "\u202eevil",
        "a" * 90,
        "new\nline",
    ]
    frame = events(*[(name, "compute", at, at + 5) for at, name in enumerate(names)])
    recording = trace(frame, spans(*[(name, 2 * at, 2 * at + 3) for at, name in enumerate(names)]))
    lines = drawing(recording, width)
    assert max(map(cell_len, lines)) <= width
    assert not any(ord(letter) < 32 or letter == "\u202e" for line in lines for letter in line)
    bars = [line for line in lines if line.rstrip().endswith("%")]
    assert len(bars) == len(names)
    # All bars end in the same column of the terminal, wide letters or not.
    assert len({cell_len(line) for line in bars}) == 1


def test_streams_stand_below_their_device_where_they_are_few_and_threads_of_a_cpu_never():
    lanes = [
        ("gpu:0", "compute", 0, 9),
        ("gpu:0", "memcpy", 3, 6),
        ("cpu:0", "compute", 0, 5),
        ("cpu:0", "compute", 5, 9),
    ]
    frame = events(*lanes)
    frame["lane"] = ["Stream #1", "Stream #2", "t1", "t2"]
    frame["lane"] = frame["lane"].astype("category")
    (strip,) = strips_of(frame, 9)
    assert [line.label for line in strip.lines] == ["cpu:0", "gpu:0", "  Stream #1", "  Stream #2"]
    many = events(*[("gpu:0", "compute", at, at + 1) for at in range(timeline_text.MAX_LANES + 1)])
    many["lane"] = [f"Stream #{at}" for at in range(timeline_text.MAX_LANES + 1)]
    many["lane"] = many["lane"].astype("category")
    assert [line.label for line in strips_of(many, 9)[0].lines] == ["gpu:0"]


def test_more_devices_and_phases_than_there_is_room_for_are_counted():
    frame = events(*[(f"gpu:{at}", "compute", 0, 100) for at in range(100)])
    marks = spans(*[(f"p{at}", at, at + 1) for at in range(timeline_text.MAX_PHASES + 2)])
    lines = drawing(trace(frame, marks))
    assert "… and 99 more devices and 2 more phases." in lines
    # Of a fleet whose devices are all alike one stands for all.
    assert sum(line.startswith("gpu:") for line in lines) == 1


def test_clocks_that_are_not_aligned_have_a_timeline_each():
    parts = [
        events(("a/gpu:0", "compute", 0, 10), host="a", clock="a"),
        events(("b/gpu:0", "compute", 90, 100), host="b", clock="b"),
    ]
    lines = drawing(trace(concat(EVENT_COLUMNS, parts)), 60)
    assert [line for line in lines if line.startswith("Timeline")] == [
        "Timeline: 10 ps, from first start to last end, on the clock",
        "Timeline: 10 ps, from first start to last end, on the clock",
    ]
    assert [line.split()[0] for line in lines if line.endswith("100 %")] == ["a/gpu:0", "b/gpu:0"]


@pytest.mark.parametrize("frame", [events(), events(("gpu:0", "compute", 5, 5))], ids=["no rows", "no length"])
def test_without_device_work_of_any_length_there_is_no_timeline(frame):
    assert drawing(trace(frame)) == []


@pytest.mark.parametrize(
    ("start", "end", "ticks"),
    [
        (12_400, 15_400, {2: "12.5 ns", 12: "13 ns", 22: "13.5 ns", 32: "14 ns", 42: "14.5 ns", 52: "15 ns"}),
        (-1000, 2000, {0: "-1 ns", 10: "-500 ps", 20: "0", 30: "500 ps", 40: "1 ns", 50: "1.5 ns"}),
        # Too many digits for the room between two ticks.
        (
            10**12 + 1,
            10**12 + 1201,
            {0: "1.000000000001 s", 10: "+200 ps", 20: "+400 ps", 30: "+600 ps", 40: "+800 ps", 50: "+1 ns"},
        ),
    ],
)
def test_ticks_tell_the_time_since_time_0_not_since_the_left_edge(start, end, ticks):
    zero = 777
    edges = zero + np.linspace(start, end, 61).astype(np.int64)
    assert dict(zip(*timeline_text.axis(edges, zero), strict=True)) == ticks


def test_an_unknown_device_has_a_line_only_where_it_did_something():
    of = events(("cpu:0", "compute", 0, 5), ("cpu:0", "compute", 20, 25), ("cpu:?", "memcpy", 7, 9))
    in_phase = " ".join(drawing(trace(of, spans(("late", 20, 30)))))
    assert "cpu:?" in " ".join(drawing(trace(of)))
    assert "cpu:0" in in_phase
    assert "cpu:?" not in in_phase


def test_in_a_part_of_several_windows_the_shares_are_of_the_windows():
    frame = events(("gpu:0", "compute", 10, 20), ("gpu:0", "compute", 30, 50))
    whole = timeline_of(trace(frame))
    windows = {"": np.array([[10, 20], [30, 40]])}
    (strip,) = timeline_text.strips(whole.narrowed(windows).rows, windows, spans(), None, 6)
    assert strip.lines[0].busy == 1


@pytest.mark.parametrize(
    ("length", "cells", "words"),
    [
        (6_700 * 10**9, 51, ["0", "2 s", "4 s", "6 s"]),
        (10**9, 60, ["0", "200 µs", "400 µs", "600 µs", "800 µs"]),
        (3, 3, ["0"]),
    ],
)
def test_ticks_stand_at_round_times_in_the_cells_that_hold_them(length, cells, words):
    edges = np.array([5 + length * at // cells for at in range(cells + 1)], np.int64)
    places, labels = timeline_text.axis(edges, 5)
    assert labels[: len(words)] == words
    step = length if len(words) == 1 else None
    for place, word in zip(places, labels, strict=True):
        at = 5 + (0 if word == "0" else int(word.split()[0]) * {"s": 10**12, "µs": 10**6, "ps": 1}[word.split()[1]])
        assert edges[place] <= at < edges[place + 1]
    assert step is None or places[0] == 0
