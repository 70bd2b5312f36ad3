"""The section on idle time: the finding first, tables of a terminal's width, plain data."""

import json

import pytest

from tests.idle_frames import CALLED, FIRST, US, call, idle, row
from tests.launch_frames import calls, work
from tests.report.sections.brief import brief, lines_of
from tracekit.report.sections.idle import section


def test_the_idlest_device_comes_first_with_what_most_of_it_was():
    events = work(FIRST, row("gpu:0", 1000, 1100, 2, name="late"), row("gpu:1", 0, 800))
    result = section(idle(events, calls(CALLED, call(2, 950, 990))))
    assert list(result.sentences) == [
        "gpu:0 was idle for 81.8 % of the window, mainly host-bound (94.4 % of the idle time): the next launch came "
        "late.",
        "Idle time of the 2 devices: 70.8 % host-bound, 25.0 % after last work.",
    ]
    causes, devices, gaps = brief(result).values()
    assert causes == (
        "Idle time by cause, summed over 2 devices",
        ["cause", "gaps", "time", "of idle"],
        [
            ["host-bound", "1", "850.0 µs", "70.8 %"],
            ["after last work", "1", "300.0 µs", "25.0 %"],
            ["slow launch call", "1", "40.00 µs", "3.3 %"],
            ["launch latency", "1", "10.00 µs", "0.8 %"],
        ],
    )
    assert devices[2] == [
        ["gpu:0", "900.0 µs", "81.8 %", "host-bound", "94.4 %"],
        ["gpu:1", "300.0 µs", "27.3 %", "after last work", "100 %"],
    ]
    assert gaps[2] == [
        ["gpu:0", "100.0 µs", "900.0 µs", "host-bound", "late"],
        ["gpu:1", "800.0 µs", "300.0 µs", "after last work", "-"],
    ]
    assert result.key == "idle"
    assert result.data["largest"][1]["next"] is None
    assert result.data["devices"][0] == {
        "device": "gpu:0",
        "window_ps": 1100 * US,
        "idle_ps": 900 * US,
        "ratio": 900 / 1100,
        "cause": "host-bound",
        "cause_ratio": 850 / 900,
    }
    assert json.loads(json.dumps(result.data, allow_nan=False)) == result.data


def test_tables_fit_a_terminal_of_80_columns():
    rows = [row(f"host{at}/gpu:{at}", at, at + 1, name="kernel<" + "x" * 90 + ">") for at in range(0, 50, 2)]
    result = section(idle(work(*rows, row("host0/gpu:0", 90, 91, 7)), calls(call(7, 60, 80))))
    assert all(len(rows) <= 11 for _, _, rows in brief(result).values())
    assert max(map(len, lines_of(result))) <= 80


def test_devices_that_were_never_idle_are_said_to_be_so():
    assert list(section(idle(work(row("gpu:0", 0, 5)))).sentences) == ["No device was ever idle."]


@pytest.mark.parametrize(
    ("others", "meaning"),
    [
        ([], "nothing more ran on any device"),
        ([row("gpu:1", 0, 200)], "nothing more ran on any device"),
        ([row("gpu:1", 0, 250)], "other devices were busy for a part of it"),
        ([row("gpu:1", 0, 400)], "other devices were still busy"),
        # It is idle just as long here, and works again after this part of the trace.
        ([row("gpu:1", 0, 200), row("gpu:1", 600, 700)], "other devices worked later"),
    ],
)
def test_after_its_last_work_others_are_said_to_have_been_busy_only_where_they_were(others, meaning):
    rows = work(FIRST, row("gpu:0", 110, 200, 2), *others)
    result = section(idle(rows, calls(CALLED, call(2, 104, 106)), window=(0, 500 * US)))
    assert result.sentences[0].startswith("gpu:0 was idle for 62.0 % of the window, mainly after last work (96.8 %")
    assert result.sentences[0].endswith(f": {meaning}.")


def test_before_its_first_work_others_are_said_to_have_started_only_where_they_had():
    rows = work(row("gpu:0", 300, 400, 1), row("gpu:0", 410, 500, 2))
    launches = calls(call(1, 295, 299), call(2, 404, 406))
    (sentence,) = section(idle(rows, launches, window=(0, 500 * US))).sentences
    assert sentence.endswith("mainly before first work (96.8 % of the idle time): nothing ran on any device yet.")


def test_without_evidence_only_the_reason_stands_there():
    result = section(idle(work(row("gpu:0", 0, 1), row("gpu:0", 9, 10))))
    assert "no host launches" in result.lacking
    assert (result.sentences, result.tables, result.data) == ((), (), None)
