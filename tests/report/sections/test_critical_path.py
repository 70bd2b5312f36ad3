"""The section on critical paths: the median step in words, tables of a terminal's width, plain data."""

import json
from dataclasses import replace

from tests.graph_traces import trace
from tests.known_path import US, known, path, step_table
from tracekit.report.sections.critical_path import section


def test_the_median_step_comes_first_and_what_it_would_save():
    made = section(path(known(), step_table((0, 87 * US))))
    assert (made.key, made.title, made.lacking) == ("critical_path", "What determines the length of a step", "")
    assert list(made.said) == [
        "Step 0, of median length (87.00 µs): its critical path is 56.3 % compute, 13.8 % host work, 11.5 % collective "
        "transfer, 9.2 % memcpy, 6.9 % unexplained, 2.3 % host launch.",
        "It would take 77.00 µs (-11.5 %) without collectives, 79.00 µs (-9.2 %) without copies, 73.00 µs (-16.1 %) if "
        "the host took no time.",
        "Replayed from what is proven to wait for what, it takes 81.00 µs, an error of -6.9 %.",
    ]
    parts, longest, tried, proven = made.tables
    assert parts == (
        "The critical paths of 1 step",
        ["part", "time", "of all"],
        [
            ["compute", "49.00 µs", "56.3 %"],
            ["host work", "12.00 µs", "13.8 %"],
            ["collective transfer", "10.00 µs", "11.5 %"],
            ["memcpy", "8.00 µs", "9.2 %"],
            ["unexplained", "6.00 µs", "6.9 %"],
            ["host launch", "2.00 µs", "2.3 %"],
        ],
    )
    assert longest[2][:3] == [
        ["compute", "gpu:1", "gemm", "40.00 µs"],
        ["collective transfer", "gpu:1", "all-reduce", "10.00 µs"],
        ["host work", "t", "until call", "9.00 µs"],
    ]
    assert tried[2][0] == ["collective transfers", "77.00 µs", "-11.5 %"]
    assert proven[2] == [
        ["a thread waits for a lane", "1", "0"],
        ["order on a thread of the host", "8", "0"],
        ["order in a queue", "6", "0"],
        ["launch", "8", "0"],
        ["members of a collective", "2", "0"],
    ]
    assert made.data["what_if"][0]["predicted_ps"] == 77 * US
    assert made.data["steps_in_all"] == 1
    assert json.loads(json.dumps(made.data, allow_nan=False)) == made.data


def test_a_faster_network_and_no_waiting_for_late_peers_are_told_apart():
    rows = [("tpu:0", "s", "compute", 0, 10), ("tpu:1", "s", "compute", 0, 60)]
    rows += [
        (device, "s", "collective", start, 70, {"category": "all-reduce"})
        for device, start in (("tpu:0", 10), ("tpu:1", 60))
    ]
    rows += [("tpu:0", "s", "compute", 70, 100), ("tpu:1", "s", "compute", 70, 71)]
    assert section(path(trace(rows))).said[1] == (
        "It would take 90 ps (-10.0 %) if collectives took no time once all are there, 61 ps (-39.0 %) without "
        "collectives."
    )


def test_without_enough_evidence_what_if_is_refused_with_the_reason():
    made = section(path(trace([("gpu:0", "s", "compute", 0, 10), ("gpu:1", "s", "compute", 30, 40)])))
    assert list(made.said) == [
        "Whole trace (40 ps): its critical path is 75.0 % unexplained, 25.0 % compute.",
        "What it would take without collectives, copies or the host cannot be told: no dependency explains 75 % of the "
        "critical paths.",
        "Replayed from what is proven to wait for what, it takes 10 ps, an error of -75.0 %.",
    ]
    assert [title for title, _, _ in made.tables] == [
        "The critical paths of 1 step",
        "Longest pieces of the median step's path",
        "What is proven to wait for what",
    ]
    assert json.loads(json.dumps(made.data, allow_nan=False)) == made.data


def test_what_contradicts_the_times_is_told():
    made = section(replace(path(known(), step_table((0, 87 * US))), notes=("Something was dropped.",)))
    assert made.said[-1] == "Something was dropped."


def test_where_nothing_but_ops_holds_a_step_up_it_is_said():
    made = section(path(trace([("tpu:0", "s", "compute", 0, 10), ("tpu:0", "s", "compute", 10, 40)])))
    assert made.said[1] == (
        "Neither collectives nor copies nor the host hold it up: without any of them it would take as long."
    )


def test_tables_fit_a_terminal_of_80_columns():
    rows = [
        (f"host{k}/gpu:{k}", "s", "compute", 100 * k, 100 * k + 90, {"name": "void cutlass::Kernel<" + "x" * 90})
        for k in range(12)
    ]
    for _, head, body in section(path(trace(rows))).tables:
        assert len(body) <= 11
        assert sum(max(map(len, column)) + 1 for column in zip(head, *body, strict=True)) <= 81


def test_without_work_only_the_reason_stands_there():
    made = section(path(trace([])))
    assert made.lacking.startswith("The trace holds no work")
    assert (made.said, made.tables, made.data) == ((), (), None)
