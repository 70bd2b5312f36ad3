"""The section on host launches: the finding first, tables of a terminal's width, plain data."""

import json
from unittest import mock

from tests.launch_frames import calls, work
from tests.report.sections.brief import brief, lines_of
from tracekit.analysis import launches as analysis
from tracekit.report.sections.launches import section
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import Trace


def section_of(events, launches):
    return section(analysis.launches(timeline_of(Trace(events, launches=launches))))


def row(start, end, id=None, **more):
    return {"device": "gpu:0", "start": start, "end": end, "id": id, **more}


def late_launches(count):
    """Kernels of 2 ps every 10 ps, each launched 1 ps before it starts."""
    starts = range(0, 10 * count, 10)
    return work(*(row(at, at + 2, at) for at in starts)), calls(*((at, at - 1, at) for at in starts))


def test_a_starved_device_and_what_fusing_would_buy_come_first():
    result = section_of(*late_launches(100))
    assert list(result.sentences) == [
        "gpu:0 was starved (idle, with an empty launch queue) for 69.9 % of its time. Its queue held 0.10 launches on "
        "average, at most 1.",
        "100 kernels on gpu:0 (100 %) are shorter than the host's time per launch: fusing them would save at most 693 "
        "ps (69.9 % of its time).",
    ]
    queue, latency, small = brief(result).values()
    assert queue == (
        "Launch queue depth",
        ["device", "mean", "max", "empty", "starved"],
        [["gpu:0", "0.10", "1", "90.0 %", "69.9 %"]],
    )
    assert latency == (
        "Launch latency",
        ["call", "launches", "median", "p90", "p99"],
        [["launch", "100", "1 ps", "1 ps", "1 ps"]],
    )
    assert small == (
        "Kernels shorter than their launch",
        ["kernel", "n", "time", "max. saving"],
        [["op", "100", "200 ps", "693 ps"]],
    )
    assert result.key == "launches"
    assert json.loads(json.dumps(result.data, allow_nan=False)) == result.data


def test_launch_bound_intervals_have_a_table():
    with mock.patch.object(analysis, "SLOTS", 50):
        result = section_of(*late_launches(100))
    assert brief(result)["launches.bound"] == (
        "Launch-bound intervals",
        ["device", "at", "time", "launches", "of it starved"],
        [["gpu:0", "0 ps", "992 ps", "100", "69.9 %"]],
    )


def test_launches_that_kept_up_and_clocks_that_disagree_are_said_to_be_so():
    events = work(row(0, 50, 1), row(50, 99, 2))
    assert list(section_of(events, calls((1, -9, -8), (2, -8, -7))).sentences) == [
        "The host kept up: no device was starved for more than 1.0 % of its time."
    ]
    assert section_of(events, calls((1, -9, -8), (2, 51, 52))).sentences[-1] == (
        "1 of 2 launches seem to start after their work: the clocks of host and device disagree, so these launches are "
        "left out."
    )


def test_a_device_that_nothing_was_launched_for_in_a_part_is_not_called_starved():
    other = [{**row(at, at + 9, 100 + at), "device": "gpu:1"} for at in (0, 200)]
    events = work(*(row(10 * at, 10 * at + 10, at) for at in range(20)), *other)
    launches = calls(*((at, -1, 0) for at in range(20)), (100, -1, 0), (300, 199, 200))
    part = timeline_of(Trace(events, launches=launches)).inside((50, 150))
    result = analysis.launches(part)
    assert dict(zip(result.queue["device"], result.queue["starved_ratio"], strict=True)) == {"gpu:0": 0, "gpu:1": 1}
    assert section(result).sentences == ("The host kept up: no device was starved for more than 1.0 % of its time.",)


def test_calls_whose_delays_are_all_unknown_have_dashes():
    result = section_of(work(row(0, 50, 1)), calls((1, 3, 4)))
    assert brief(result)["launches.latency"][2] == [["launch", "1", "-", "-", "-"]]
    json.dumps(result.data, allow_nan=False)


def test_tables_fit_a_terminal_of_80_columns():
    name = "void kernel<" + "x" * 90 + ">"
    starts = range(0, 10**8 * 40, 10**8)
    events = work(*(row(at, at + 2 * 10**7, at, name=name, device="host12/gpu:12") for at in starts))
    result = section_of(events, calls(*((at, at - 10**7, at, "main", "cuda" + "y" * 80) for at in starts)))
    assert max(map(len, lines_of(result))) <= 80


def test_without_evidence_only_the_reason_stands_there():
    result = section_of(work(row(0, 1)), calls())
    assert "no host launches" in result.lacking
    assert (result.sentences, result.tables, result.data) == ((), (), None)
