"""The words on the host's calls: what follows waits, how idle time is spread, and what the host did in a long gap."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.frames import events
from tracekit.analysis.explain import explain
from tracekit.analysis.host_api import CALL_COLUMNS, DEVICE_COLUMNS, PLACE_COLUMNS
from tracekit.analysis.idle import LARGEST_COLUMNS
from tracekit.analysis.idle_gaps import LONGEST_COLUMNS
from tracekit.columns import frame
from tracekit.report.sections.host_api import section

US = 1_000_000
LONGEST = LONGEST_COLUMNS.items()
EMPTY = replace(explain(events()).host_api, lacking="")


def calls(*rows):
    """Rows of (call, n, total, after_launch, gaps, idle, host_bound, ratio)."""
    full = [
        (call, n, 1, total, 2 * US, 3 * US, 0, 0, after, gaps, *idle, 0, None)
        for call, n, total, after, gaps, *idle in rows
    ]
    return frame(CALL_COLUMNS, full)


WAIT = calls(("cudaDeviceSynchronize", 1312, 90 * US, 1312, 1312, 110 * US, 99 * US, 0.11))


def places(*rows):
    """Rows of (operation, source, gaps, idle in us)."""
    full = [
        ("cudaDeviceSynchronize", name, None, source, 2, gaps, idle * US, 5, 0.1, "gpu:0", 0, 5)
        for name, source, gaps, idle in rows
    ]
    return frame(PLACE_COLUMNS, full)


def devices(*rows):
    return frame(DEVICE_COLUMNS, rows)


def first(**parts):
    return section(replace(EMPTY, **parts)).sentences[0]


ONE = devices(("gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ([("aten::item", None, 1312, 110)], ", under aten::item"),
        ([("aten::item", "train.py:12", 1312, 110)], ", under aten::item at train.py:12"),
        ([(None, "train.py:12", 1312, 110)], ", at train.py:12"),
        (
            [("aten::item", None, 1204, 99), ("f", None, 108, 11)],
            ", 90.0 % of it under aten::item (1,204 gaps)",
        ),
        ([(None, None, 1312, 110)], ""),
    ],
)
def test_the_costliest_wait_says_how_long_devices_idled_after_it_and_how_many_launches_it_follows(where, words):
    assert first(by_call=WAIT, places=places(*where), launches=1312, by_device=ONE) == (
        "gpu:0 fell idle in cudaDeviceSynchronize and stayed so for 11.0 % of its time (110.0 µs), in 1,312 gaps, "
        f"90.0 % of it host-bound{words}; it follows 1,312 of 1,312 launches."
    )


def test_of_several_devices_the_time_is_summed():
    two = pd.concat([ONE, ONE.assign(device="gpu:1")])
    assert first(by_call=WAIT, places=places((None, None, 2, 5)), launches=1312, by_device=two).startswith(
        "Devices fell idle in cudaDeviceSynchronize and stayed so for 11.0 % of their time (110.0 µs summed over 2 dev"
    )


@pytest.mark.parametrize(
    ("ratio", "window_us", "begins", "loss"),
    [
        (0.11, 10_000, "gpu:0 fell idle in cudaDeviceSynchronize", "host-bound"),
        (0.11, 1_000, "One gap of 570", ""),
        (0.01, 10_000, "One gap of 570", ""),
        (0.01, 100_000, "", ""),
    ],
    ids=["wait", "gap", "gap alone", "neither"],
)
def test_what_matters_most_is_the_costliest_wait_or_the_long_gap(ratio, window_us, begins, loss):
    longest = frame(
        LONGEST_COLUMNS,
        [[{"device": "gpu:0", "idle_ps": 570 * US}.get(name, 0 if "int" in kind else None) for name, kind in LONGEST]],
    )
    idle_ps = round(ratio * window_us) * US
    waits = WAIT.assign(ratio=ratio, idle_ps=idle_ps, host_bound_ps=idle_ps)
    shown = section(replace(EMPTY, by_call=waits, by_device=ONE, longest=longest), {"gpu:0": window_us * US})
    assert (shown.result[: len(begins)] if begins else shown.result, shown.loss) == (begins, loss)
    assert (shown.share == 0.0) == (not begins)


def test_a_long_gap_adds_to_the_entry_of_its_cause():
    largest = frame(LARGEST_COLUMNS, [("gpu:0", 0, 570 * US, 570 * US, "compiling", 0.9, None, None)])
    shown = section(replace(EMPTY, by_device=ONE, longest=gaps(gap())), {"gpu:0": 600 * US}, largest)
    assert (shown.loss, shown.detail) == ("compiling", shown.result)
    elsewhere = largest.assign(device="gpu:1")
    assert section(replace(EMPTY, by_device=ONE, longest=gaps(gap())), {"gpu:0": 600 * US}, elsewhere).loss == ""


def test_a_wait_that_costs_most_is_told_with_the_long_gap_after_it():
    largest = frame(LARGEST_COLUMNS, [("gpu:0", 0, 570 * US, 570 * US, "host-bound", 0.9, None, None)])
    waits = WAIT.assign(ratio=0.95, idle_ps=580 * US, host_bound_ps=580 * US)
    shown = section(replace(EMPTY, by_call=waits, by_device=ONE, longest=gaps(gap())), {"gpu:0": 600 * US}, largest)
    assert shown.result.startswith("gpu:0 fell idle in cudaDeviceSynchronize")
    assert shown.detail.startswith("One gap of 570")


def test_unexplained_idle_time_after_a_wait_adds_to_the_entry_of_that():
    idle_ps = 110 * US
    for unexplained_ps, loss in ((idle_ps // 2, "unexplained"), (idle_ps // 2 - 1, ""), (pd.NA, "")):
        waits = WAIT.assign(host_bound_ps=5, unexplained_ps=unexplained_ps)
        shown = section(replace(EMPTY, by_call=waits), {"gpu:0": 1000 * US})
        assert shown.result.startswith("Devices fell idle in cudaDeviceSynchronize")
        assert (shown.loss, shown.detail) == (loss, shown.result if loss else "")


def test_idle_time_after_a_wait_adds_to_the_entry_of_its_cause():
    waits = WAIT.assign(host_bound_ps=5, cause=pd.array(["input pipeline"], "str"))
    assert section(replace(EMPTY, by_call=waits), {"gpu:0": 1000 * US}).loss == "input pipeline"


def test_waits_that_cost_next_to_nothing_are_told_so():
    little = calls(("cudaDeviceSynchronize", 2, 9, 0, 1, 5, 5, 0.001))
    result = section(replace(EMPTY, by_call=little))
    assert result.sentences[0] == "Devices idled for less than 1.0 % of their time after any call that waits."
    assert (result.share, result.result) == (0.0, "")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            ("gpu:0", 4, 600 * US, 10 * US, 570 * US, 0.95, 1),
            "One gap of 570.0 µs is 95.0 % of the idle time of gpu:0 between its work; the host spent 70.0 % of it in "
            "load.",
        ),
        (
            ("gpu:0", 4000, 600 * US, US, 6 * US, 0.01, 900),
            "The idle time of gpu:0 between its work is spread over 4,000 gaps of 1.00 µs (median); the longest, "
            "6.00 µs, is 1.0 % of it.",
        ),
        (
            ("gpu:0", 9, 600 * US, US, 200 * US, 0.33, 2),
            "Half of the idle time of gpu:0 between its work lies in 2 of its 9 gaps.",
        ),
    ],
)
def test_one_long_gap_is_told_from_many_small_ones(row, sentence):
    assert first(by_device=devices(row), longest=gaps(gap())) == sentence


def gap(idle=570, doing="load", doing_ps=399, unrecorded=10, host_bound=500, launched=560, source=None):
    """A row of LONGEST_COLUMNS, times in us."""
    times = [None if value is None else value * US for value in (doing_ps, unrecorded)]
    thread = None if unrecorded is None else "main"
    early = None if launched is None else launched * US
    where = ("gpu:0", 0, idle * US, idle * US, 0.95, host_bound * US)
    return (*where, early, thread, doing, source, *times)


def gaps(*rows):
    return frame(LONGEST_COLUMNS, rows)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (gap(source="data.py:3"), "; the host spent 70.0 % of it in load at data.py:3."),
        (gap(doing_ps=1, unrecorded=500), "; for 87.7 % of it nothing of the host is recorded."),
        (gap(doing=None, doing_ps=None, unrecorded=None, launched=None), "of the idle time of gpu:0 between its work."),
        (
            gap(host_bound=0, launched=-4),
            "; what ended it had been launched before it began: the host, which spent 70.0 % of it in load, did not "
            "hold it up.",
        ),
        (
            gap(doing="hipLaunchKernel", host_bound=0, launched=4),
            "; what ended it was launched 4.00 µs after it began, and the host spent 70.0 % of it in hipLaunchKernel.",
        ),
        (
            gap(doing="cudaDeviceSynchronize", host_bound=0, launched=4),
            "; what ended it was launched 4.00 µs after it began: the host, which spent 70.0 % of it in "
            "cudaDeviceSynchronize, did not hold it up.",
        ),
        (
            gap(doing=None, doing_ps=0, unrecorded=570, host_bound=0, launched=4),
            "; what ended it was launched 4.00 µs after it began.",
        ),
    ],
)
def test_a_long_gap_says_what_the_host_did_and_whether_it_held_it_up(row, words):
    assert first(by_device=ONE, longest=gaps(row)).endswith(words)


def test_a_few_long_gaps_among_many_are_told_with_what_the_host_did_in_most():
    row = ("gpu:0", 7075, 600 * US, US, 110 * US, 0.18, 3)
    three = gap(110), gap(100, host_bound=0), gap(90, "save")
    assert first(by_device=devices(row), longest=gaps(*three, gap(1))) == (
        "Half of the idle time of gpu:0 between its work lies in the 3 longest of its 7,075 gaps, of 90.00 µs to "
        "110.0 µs; 2 of them are host-bound, and in 2 of them the host was mostly in load."
    )
    silent = gap(100, doing_ps=1, unrecorded=80), gap(90, doing_ps=1, unrecorded=80)
    row = (*row[:-1], 2)
    assert first(by_device=devices(row), longest=gaps(*silent)).endswith(
        "; all of them are host-bound, and for most of their time nothing of the host is recorded."
    )
    row = (*row[:-1], 3)
    mixed = gap(110, "f", host_bound=0), gap(100, "g"), gap(90, "save", host_bound=0)
    assert first(by_device=devices(row), longest=gaps(*mixed)).endswith("; 1 of them is host-bound.")


def test_the_table_of_gaps_says_where_most_of_one_is_not_recorded():
    told = section(replace(EMPTY, by_device=ONE, longest=gaps(gap(), gap(doing_ps=1, unrecorded=500)))).tables[-1]
    heads = [column.head for column in told.columns]
    at = heads.index("host mostly in"), heads.index("for")
    assert [tuple(row[place] for place in at) for row in told.rows] == [
        ("load", 399 * US),
        ("nothing recorded", 500 * US),
    ]


def test_the_call_that_takes_most_is_told_with_its_median():
    assert section(
        replace(EMPTY, by_call=calls(("cudaLaunchKernel", 19370, 120_000 * US, 0, 0, 0, 0, 0.0)))
    ).sentences == ("The call that took longest in all is cudaLaunchKernel: 120.0 ms in 19,370 calls, median 2.00 µs.",)


def test_of_a_call_that_seldom_waits_the_waits_are_told_apart():
    some = calls(("cudaMemcpyAsync", 1250, 766 * US, 0, 0, 0, 0, 0.0)).assign(waits=30, waits_ps=758 * US)
    assert section(replace(EMPTY, by_call=some)).sentences[-1].endswith("; 30 of them waited, 758.0 µs in all.")
    assert "waited" not in section(replace(EMPTY, by_call=some.assign(waits=1250))).sentences[-1]


def test_without_calls_and_gaps_the_section_says_why():
    assert "neither calls" in section(explain(events()).host_api).lacking
