"""The figures that stand largest, and the sentence over them: only what the trace has, each with what it is a share
of."""

from dataclasses import replace

import pytest

from tests.frames import events, spans, trace
from tests.idle_frames import call, row
from tests.launch_frames import calls, work
from tests.report.html import pages
from tracekit.columns import frame
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.section import Unit
from tracekit.report.sections import verdict
from tracekit.report.sections.key_figures import KeyFigure
from tracekit.trace import HOST_COLUMNS

S, ORIGIN_NS = 10**12, 1_795_386_218_000_000_000


def figures_of(any_trace):
    return [(figure.label, figure.text, figure.of) for figure in analyse(any_trace).key_figures]


def test_of_several_devices_they_are_busy_together_and_exposed():
    rows = events(
        *[(f"gpu:{at}", "compute", 0, 10 + 10 * at) for at in range(3)], ("gpu:0", "collective", 10, 40, "all-reduce")
    )
    assert figures_of(trace(rows)) == [
        ("busy", "75.0 %", "of 40 ps, mean of 3 GPUs"),
        ("busy at the same time", "2.25", "of 3 GPUs on average while any was"),
        ("exposed communication", "25.0 %", "of the devices' time"),
    ]


def test_of_two_devices_the_overlap_is_that_of_the_shorter_busy_time():
    report = analyse(trace(events(("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 5, 25))))
    assert report.key_figures[1] == KeyFigure(
        "overlapped", "overlapped", 0.5, Unit.RATIO, "of the shorter busy time of both"
    )
    assert report.whole.pairs["ratio_min"].tolist() == [0.5]


def test_of_one_device_they_are_busy_hidden_and_exposed():
    rows = events(
        ("gpu:0", "compute", 0, 50),
        ("gpu:0", "memcpy", 40, 60, "copy", "H2D"),
        ("gpu:0", "collective", 60, 80, "all-reduce"),
        ("gpu:0", "compute", 99, 100),
    )
    assert figures_of(trace(rows)) == [
        ("busy", "81.0 %", "of 100 ps"),
        ("overlapped", "25.0 %", "of 40 ps of collectives and copies"),
        ("exposed", "30.0 %", "of the device's time: communication 20.0 %, copies 10.0 %"),
    ]


def test_overlapped_copies_leave_out_memsets_and_exposed_time_names_them():
    rows = events(("gpu:0", "compute", 0, 50), ("gpu:0", "memcpy", 40, 60, "copy", "H2D"), ("gpu:0", "memset", 60, 100))
    assert figures_of(trace(rows))[1:] == [
        ("overlapped", "50.0 %", "of 20 ps of copies"),
        ("exposed copies and memsets", "50.0 %", "of the device's time"),
    ]


def test_of_a_compared_phase_they_end_with_the_speedup():
    rows = events(
        ("gpu:0", "compute", 0, 10), ("gpu:1", "compute", 10, 20), *[(f"gpu:{at}", "compute", 20, 35) for at in (0, 1)]
    )
    marks = spans(("a", 0, 10), ("b", 10, 20), ("both", 20, 40, "a;b"))
    assert figures_of(trace(rows, marks)) == [
        ("busy", "75.0 %", "of both (20 ps), mean of 2 GPUs"),
        ("overlapped", "100 %", "of the shorter busy time of both"),
        ("speedup", "1.00x", "over a, b, one after the other"),
    ]


@pytest.mark.parametrize(
    ("other_cpu_s", "label"), [([0.0, 2.0, 3.5], "speedup on a busy machine"), ([0.0, 2.0, 2.1], "speedup")]
)
def test_a_speedup_says_beside_its_number_that_other_processes_left_too_few_cores_for_it(other_cpu_s, label):
    # One sample a second: others used both cores in the solo phases already, which need one core each.
    both = [(f"cpu:{at}", "compute", 2 * S, 4 * S) for at in (0, 1)]
    rows = events(("cpu:0", "compute", 0, S), ("cpu:1", "compute", S, 2 * S), *both)
    marks = spans(("a", 0, S), ("b", S, 2 * S), ("both", 2 * S, 4 * S, "a;b"))
    series = {"other_cpu_s": other_cpu_s, "own_cpu_s": [0.0] * 3, "stolen_cpu_s": [0.0] * 3, "frequency_mhz": None}
    samples = {"unix_ns": [ORIGIN_NS + at * 10**9 for at in (0, 2, 4)], **series}
    load = {"cores": 2, "load_average": [], "throttled": None, "samples": samples, "lacking": {}}
    hosts = frame(HOST_COLUMNS, {"host": ["h"], "origin_ns": [ORIGIN_NS], "source": ["h"]})
    report = analyse(trace(rows, marks, capture={"machine": load}, hosts=hosts))
    assert (report.key_figures[-1].key, report.key_figures[-1].label) == ("speedup", label)
    assert (" on a busy machine" in report.headline) is ("busy" in label)
    assert f"* **1.00x** {label} over a, b, one after the other\n" in markdown(report)


@pytest.mark.parametrize(
    ("other_cpu_s", "words"),
    [
        # Both cores of two in a; one, which leaves a the other; in both phases too.
        ([0.0, 2.0, 2.1, 2.1], "Other processes used 2.00 of 2 cores during a, not during both: on a quiet machine"),
        ([0.0, 0.9, 0.9, 0.9], ""),
        ([0.0, 2.0, 4.0, 8.0], "Other processes used 2.00 of 2 cores meanwhile"),
    ],
)
def test_load_in_a_phase_alone_is_told_beside_the_speedup_that_it_inflates(other_cpu_s, words):
    rows = events(
        *[("cpu:0", "compute", 0, S), ("cpu:1", "compute", S, 2 * S)],
        *[(f"cpu:{at}", "compute", 2 * S, 4 * S) for at in (0, 1)],
    )
    marks = spans(("a", 0, S), ("b", S, 2 * S), ("both", 2 * S, 4 * S, "a;b"))
    series = {"other_cpu_s": other_cpu_s, "own_cpu_s": [0.0] * 4, "stolen_cpu_s": [0.0] * 4, "frequency_mhz": None}
    samples = {"unix_ns": [ORIGIN_NS + at * 10**9 for at in (0, 1, 2, 4)], **series}
    load = {"cores": 2, "load_average": [], "throttled": None, "samples": samples, "lacking": {}}
    hosts = frame(HOST_COLUMNS, {"host": ["h"], "origin_ns": [ORIGIN_NS], "source": ["h"]})
    verdict_on_both = analyse(trace(rows, marks, capture={"machine": load}, hosts=hosts)).verdicts["both"]
    assert words in verdict_on_both
    assert ("Other processes" in verdict_on_both) is bool(words)


def test_the_longest_of_the_compared_phases_is_the_main_one():
    rows = events(*[("gpu:0", "compute", at, at + 10) for at in (0, 20, 60)])
    marks = spans(("a", 0, 10), ("short", 20, 30, "a"), ("long", 60, 80, "a"))
    report = analyse(trace(rows, marks))
    assert report.main_phase == "long"
    assert report.key_figures[0].of == "of long (20 ps)"


def test_what_the_trace_does_not_have_is_no_figure():
    assert figures_of(trace(events())) == []
    assert figures_of(trace(events(("gpu:0", "compute", 5, 10)))) == [("busy", "100 %", "of 5 ps")]
    # Devices on clocks that are not aligned, and more CPU devices than cores: how far they overlapped is not known.
    assert [figure.key for figure in pages.report("clocks").key_figures] == ["busy"]
    time_shared = trace(events(*[(f"cpu:{at}", "compute", 0, 10) for at in range(3)]), capture={"usable_cores": 2})
    assert [figure.key for figure in analyse(time_shared).key_figures] == ["busy"]


def test_of_one_device_that_communicates_nothing_they_tell_what_the_rest_of_its_time_was():
    rows = events(
        ("gpu:0", "compute", 0, 100, "gemm"), ("gpu:0", "compute", 110, 130, "gelu"), ("gpu:0", "compute", 900, 1000)
    )
    assert figures_of(trace(rows)) == [
        ("busy", "22.0 %", "of 1.00 ns"),
        # No cause of the 780 ps of idle time is known: nothing that the busy time does not say.
        ("longest idle gap", "770 ps", "77.0 % of 1.00 ns"),
        ("matmul", "45.5 %", "of 220 ps of busy time"),
    ]


def test_idle_time_is_told_by_its_largest_cause_and_an_evenly_spread_one_has_no_gap():
    times = range(0, 100_000, 10_000)  # in µs
    rows = work(*(row("gpu:0", start, start + 1000, at, name="gemm") for at, start in enumerate(times)))
    launched = calls(*(call(at, start - 9, start - 4) for at, start in enumerate(times)))
    assert figures_of(trace(rows, launches=launched))[1:] == [
        ("idle, host-bound", "88.9 %", "of the device's time, the largest cause of 89.0 % idle"),
        ("matmul", "100 %", "of 10.00 ms of busy time"),
    ]


@pytest.mark.parametrize("name", ["captured", "stepped", "phases", "several", "empty"])
def test_the_summary_holds_them(name):
    report = pages.report(name)
    assert [(row["key"], row["value"], row["unit"]) for row in report.summary()["key_figures"]] == [
        (figure.key, figure.value, figure.unit.value) for figure in report.key_figures
    ]


def test_the_verdict_says_for_whom_exposed_communication_waits():
    rows, at = [], 0
    for _ in range(16):
        for device in range(3):
            late = 80 if device == 2 else 0
            rows.append((f"gpu:{device}", "compute", at, at + 10 + late))
            rows.append((f"gpu:{device}", "collective", at + 10 + late, at + 100, "all-reduce"))
        at += 100
    headline = analyse(trace(events(*rows))).headline
    assert headline == "3 GPUs were busy 100 % of 1.60 ns; 63.3 % exposed communication, mostly waiting for gpu:2."


def test_a_device_that_was_busy_alone_is_called_so_only_where_nothing_is_missing():
    rows = events(("gpu:0", "compute", 0, 10), ("gpu:0", "memcpy", 0, 10, "copy", "H2D"), ("gpu:1", "compute", 5, 5))
    report = analyse(trace(rows))
    assert report.headline == "Only gpu:0 of 2 GPUs was busy, 100 % of 10 ps; 50.0 % idle, mostly before first work."
    completeness = report.explanation.completeness
    completeness = replace(completeness, groups=completeness.groups.reindex([0]))
    first, *_ = verdict.whole(report.whole, why=replace(report.explanation, completeness=completeness))
    assert first.startswith("gpu:0 was busy 100 % of 10 ps (the trace holds no work of the other 1); ")
