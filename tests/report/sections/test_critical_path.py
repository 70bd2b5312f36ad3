"""The section on critical paths: the median step in words, tables of a terminal's width, plain data."""

import json
from dataclasses import replace

import pytest

from tests.graph_traces import trace
from tests.known_path import US, known_trace, path, step_table
from tests.report.sections.brief import brief, lines_of
from tests.stepped import annotations, join, timeline, work
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.steps import steps
from tracekit.report.sections.critical_path import section
from tracekit.report.sections.steps import section as section_of_steps


def test_the_median_step_comes_first_and_what_it_would_save():
    result = section(path(known_trace(), step_table((0, 87 * US))))
    assert (result.key, result.title, result.lacking) == ("critical_path", "Critical path", "")
    assert list(result.sentences) == [
        "The critical path of step 0 (87.00 µs) is 56.3 % compute, 13.8 % host work, 11.5 % collective "
        "transfer, 9.2 % memcpy.",
        "It would take 77.00 µs (-11.5 %) without collectives, 79.00 µs (-9.2 %) without copies, 71.00 µs (-18.4 %) "
        "without host time.",
        "The devices with work were busy for 71.8 % of it on average, and 62.5 % of what was launched was queued "
        "before its turn.",
    ]
    parts, longest, removed, dependencies = brief(result).values()
    assert parts == (
        "Critical path by part",
        ["part", "time", "of path"],
        [
            ["compute", "49.00 µs", "56.3 %"],
            ["host work", "12.00 µs", "13.8 %"],
            ["collective transfer", "10.00 µs", "11.5 %"],
            ["memcpy", "8.00 µs", "9.2 %"],
            ["launch latency", "4.00 µs", "4.6 %"],
            ["host launch", "2.00 µs", "2.3 %"],
            ["host, nothing recorded", "2.00 µs", "2.3 %"],
        ],
    )
    assert longest[2][:3] == [
        ["compute", "gpu:1", "gemm", "40.00 µs"],
        ["collective transfer", "gpu:1", "all-reduce", "10.00 µs"],
        ["host work", "t", "until call", "9.00 µs"],
    ]
    assert removed[2][0] == ["collective transfers", "77.00 µs", "-11.5 %"]
    assert dependencies[2] == [
        ["thread waits for a stream or device", "1", "0"],
        ["order on a host thread", "8", "0"],
        ["order on a stream or device", "6", "0"],
        ["launch", "8", "0"],
        ["members of a collective", "2", "0"],
    ]
    assert result.data["what_if"][0]["predicted_ps"] == 77 * US
    assert result.data["steps_in_all"] == 1
    assert json.loads(json.dumps(result.data, allow_nan=False)) == result.data


def test_a_faster_network_and_no_waiting_for_late_peers_are_told_apart():
    rows = [("tpu:0", "s", "compute", 0, 10), ("tpu:1", "s", "compute", 0, 60)]
    rows += [
        (device, "s", "collective", start, 70, {"category": "all-reduce"})
        for device, start in (("tpu:0", 10), ("tpu:1", 60))
    ]
    rows += [("tpu:0", "s", "compute", 70, 100), ("tpu:1", "s", "compute", 70, 71)]
    assert section(path(trace(rows))).sentences[1] == (
        "It would take 90 ps (-10.0 %) without collective transfers, 61 ps (-39.0 %) without collectives."
    )


def host_that_waits(between, second_us=40):
    """Two calls of "t", 8 us of work each; between them `between`, spans (thread, start, end, name)."""
    gpu_rows = [("gpu:0", "s", "compute", 2 * US, 10 * US, {"correlation_id": 1})]
    start, end = (second_us + 2) * US, (second_us + 10) * US
    gpu_rows.append(("gpu:0", "s", "compute", start, end, {"correlation_id": 2}))
    calls = [("t", US, 2 * US, 1, "first"), ("t", second_us * US, (second_us + 1) * US, 2, "second")]
    return section(path(trace(gpu_rows, calls, between))).sentences


UNRECORDED = "The host held it up, and the trace does not record what it did, in these stretches"
UNEXPLAINED = "Nothing in the trace explains these stretches of it"


@pytest.mark.parametrize(
    ("spans", "stretch"),
    [
        ([], "30.00 µs on t between first and second"),
        ([("t", 38 * US, 40 * US, "f")], "28.00 µs on t between first and second"),
        # A wait of another thread of the host tells more than that nothing is known of this one; its work does not.
        ([("python", 5 * US, 39 * US, "$api.py:3165 try_to_block"), ("python", 0, 41 * US, "$main.py:1 f")],
         "30.00 µs while python waited in $api.py:3165 try_to_block"),
        ([("python", 5 * US, 39 * US, "$main.py:1 f")], "30.00 µs on t between first and second"),
        ([("python", 30 * US, 39 * US, "$api.py:3165 try_to_block")], "30.00 µs on t between first and second"),
    ],
)  # fmt: skip
def test_a_stretch_without_record_is_named_by_the_calls_around_it_or_by_who_waited_meanwhile(spans, stretch):
    assert host_that_waits(spans)[1] == f"{UNRECORDED}: {stretch}."


# The thread that calls the programs of a pool's threads waits for them; so do they, with nothing to launch.
@pytest.mark.parametrize(
    ("spans", "waiting"),
    [
        ([("t", 3 * US, 99 * US, "Wait for x"), ("u", 3 * US, 99 * US, "Wait for y")], "t waited in Wait for x"),
        ([("python", 0, 3 * US, "PjitFunction(f)"), ("python", 3 * US, 99 * US, "try_to_block")],
         "python waited in try_to_block"),
    ],
)  # fmt: skip
def test_a_wait_of_the_launching_thread_or_of_the_one_that_calls_its_programs_is_not_its_work(spans, waiting):
    assert host_that_waits(spans, second_us=100)[1] == f"{UNEXPLAINED}: 89.00 µs while {waiting}."


def test_a_wait_of_which_the_trace_does_not_tell_what_for_is_named():
    gpu_rows = [
        ("gpu:0", "s", "compute", 2 * US, 10 * US),
        ("gpu:1", "s", "compute", 41 * US, 50 * US, {"correlation_id": 2}),
    ]
    calls = [("t", 40 * US, 41 * US, 2, "launch")]
    sentences = section(path(trace(gpu_rows, calls, syncs=[("t", 5 * US, 40 * US, *[None] * 5)]))).sentences
    assert sentences[1].startswith(
        "Nothing in the trace explains these stretches of it: 35.00 µs on t in wait, which waited for something that "
        "the trace does not tell"
    )


def test_a_wait_that_has_returned_is_not_what_the_time_after_it_is_in():
    rows_of = [("gpu:0", "s", "compute", 2 * US, 10 * US, {"correlation_id": 1})]
    wait = ("t", 5 * US, 14 * US, None, None, "gpu:0", None, 5 * US)
    result = path(trace(rows_of, [("t", 0, 2 * US, 1)], syncs=[wait]), step_table((0, 50 * US)))
    assert "36.00 µs on t after wait" in section(result).sentences[1]


def test_without_enough_evidence_what_if_is_refused_with_the_reason():
    result = section(path(trace([("gpu:0", "s", "compute", 0, 10), ("gpu:1", "s", "compute", 30, 40)])))
    assert list(result.sentences) == [
        "The critical path of the whole trace (40 ps) is 75.0 % unexplained, 25.0 % compute.",
        "Nothing in the trace explains these stretches of it: 30 ps on gpu:1 before compute.",
        "Its time without collectives, copies or host time cannot be estimated: no dependency explains 75.0 % of its "
        "critical path.",
        "The devices with work were busy for 25.0 % of it on average.",
    ]
    assert [title for title, _, _ in brief(result).values()] == [
        "Critical path by part",
        "Longest pieces of the critical path",
    ]
    assert json.loads(json.dumps(result.data, allow_nan=False)) == result.data


def test_of_two_steps_the_shorter_is_told():
    result = section(path(known_trace(), step_table((0, 40 * US), (40 * US, 87 * US))))
    assert result.sentences[0].startswith("The critical path of step 0 (the shorter of 2, 40.00 µs) is ")
    assert "Longest pieces of the critical path of the shorter step" in [
        title for title, _, _ in brief(result).values()
    ]


def test_the_median_is_that_of_one_clock_s_steps_of_one_name():
    frames = [
        work(
            *((f"{host}/gpu:0", "compute", end - 9 * US, end, end - 9 * US) for end in (10 * US, 30 * US, 60 * US)),
            host=host,
            clock=host,
        )
        for host in "ab"
    ]
    marks = [
        annotations(("train", 1, 0, 10 * US), ("train", 2, 10 * US, 30 * US), (last, 3, 30 * US, 60 * US), host=host)
        for host, last in (("a", "save"), ("b", "train"))
    ]
    two_clocks = timeline(tuple(join(list(parts)) for parts in zip(*frames, strict=True)), join(marks))
    result = critical_path(two_clocks, steps(two_clocks).table)
    assert result.steps[["clock", "name", "step", "example"]].astype(object).fillna("").to_numpy().tolist() == [
        ["a", "train", 1, ""],
        ["a", "train", 2, ""],
        ["a", "save", 3, ""],
        ["b", "train", 1, ""],
        ["b", "train", 2, "median"],
        ["b", "train", 3, "longest"],
    ]
    told = section(result)
    assert told.sentences[0].startswith("The critical path of step 2 of train on the clock of b (the median of 3, ")
    assert "of these 6 steps of 2 clocks on average" in " ".join(told.sentences)
    assert told.tables[0].title == "Critical path by part, all 6 steps of 2 clocks"
    assert section_of_steps(steps(two_clocks)).sentences[0].startswith("3 steps (train) on the clock of b: median ")


def test_what_contradicts_the_times_is_told():
    result = section(replace(path(known_trace(), step_table((0, 87 * US))), notes=("Something was dropped.",)))
    assert result.sentences[-1] == "Something was dropped."


def test_where_nothing_but_ops_holds_a_step_up_it_is_said():
    result = section(path(trace([("tpu:0", "s", "compute", 0, 10), ("tpu:0", "s", "compute", 10, 40)])))
    assert result.sentences[1] == "Compute-bound: it holds no collectives and copies, and no host time."


def test_a_path_of_compute_is_not_compute_bound_where_devices_are_mostly_idle():
    """Devices that take turns compute all along the path."""
    ops = path(trace([("tpu:0", "s", "compute", 0, 10), ("tpu:0", "s", "compute", 10, 40)]))
    assert section(replace(ops, busy_ratio=0.5)).sentences[1] == "It holds no collectives and copies, and no host time."


def test_tables_fit_a_terminal_of_80_columns():
    rows = [
        (f"host{k}/gpu:{k}", "s", "compute", 100 * k, 100 * k + 90, {"name": "void cutlass::Kernel<" + "x" * 90})
        for k in range(12)
    ]
    result = section(path(trace(rows)))
    assert all(len(rows) <= 11 for _, _, rows in brief(result).values())
    assert max(map(len, lines_of(result))) <= 80


def test_without_work_only_the_reason_stands_there():
    result = section(path(trace([])))
    assert result.lacking.startswith("The trace holds no work")
    assert (result.sentences, result.tables, result.data) == ((), (), None)


def test_what_is_device_bound_is_said_with_the_path():
    rows = [
        ("gpu:0", "s", "compute", 10 * US * (step + 1), 10 * US * (step + 2), {"correlation_id": step})
        for step in range(20)
    ]
    result = path(trace(rows, [("t", step * 1000, step * 1000 + 900, step) for step in range(20)]))
    assert section(result).sentences[0] == (
        "The critical path of the whole trace (200.0 µs) is 100 % compute: device-bound, 100 % busy."
    )
    assert "device-bound" not in section(replace(result, queued_ratio=0.5)).sentences[0]
