"""A thread that asks in a loop whether its work is done waits for it: the paths of traces whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.chrome.kineto_files import event, trace_of
from tests.readers.nsys.exports import Tables
from tracekit import read
from tracekit.analysis.critical_path.critical_path import critical_path
from tracekit.analysis.critical_path.host import _in_query_loops
from tracekit.analysis.steps import steps
from tracekit.timeline.timeline import timeline_of

# A step takes 1,200 us: a launch at 3, its kernel from 12 to 1,012, queries every 40 us from 30 to 1,030.
STEP, KERNEL, QUERIES = 1200, (12, 1012), range(30, 1031, 40)


def kineto(tmp_path, query="cudaEventQuery", inside="op", after=()):
    events, number = [], 0
    for step in range(6):
        at = 1000 + STEP * step
        events.append(event("user_annotation", f"ProfilerStep#{step}", at, STEP, pid=50, tid=9))
        if inside:
            kind = "user_annotation" if inside == "annotation" else "cpu_op"
            events.append(event(kind, "read the result", at + 10, 1100, pid=50, tid=9))
        for name, start in [("cudaLaunchKernel", 3), *((query, start) for start in QUERIES), *after]:
            number += 1
            events.append(event("cuda_runtime", name, at + start, 2, pid=50, tid=9, correlation=number))
            if name == "cudaLaunchKernel" and start == 3:
                times = KERNEL[0], KERNEL[1] - KERNEL[0]
                events.append(event("kernel", "k", at + times[0], times[1], device=0, stream=7, correlation=number))
    return trace_of(tmp_path, *events)


def nsys(tmp_path):
    tables, number = Tables(), 0
    for step in range(6):
        at = 1000 + STEP * step
        tables.range(f"step {step}", at * 1000, (at + STEP) * 1000).range("read", (at + 10) * 1000, (at + 1110) * 1000)
        for start in (3, *QUERIES):
            number += 1
            name = "cudaLaunchKernel_v7000" if start == 3 else "cudaEventQuery_v3020"
            tables.call(name, (at + start) * 1000, (at + start + 2) * 1000, number)
            if start == 3:
                tables.kernel("k", (at + KERNEL[0]) * 1000, (at + KERNEL[1]) * 1000, correlationId=number)
    return read(tables.write(tmp_path / "loop.sqlite"))


def parts(trace):
    timeline = timeline_of(trace)
    total = critical_path(timeline, steps(timeline).table).total
    return dict(zip(total["part"], total["ratio"].astype(float), strict=True))


@pytest.mark.parametrize("query", ["cudaEventQuery", "cudaStreamQuery", "hipEventQuery", "cuStreamQuery"])
@pytest.mark.parametrize("inside", ["", "op", "annotation"])
def test_a_loop_of_queries_until_a_kernel_ends_waits_for_it(tmp_path, query, inside):
    trace = kineto(tmp_path, query, inside)
    assert trace.syncs[["start_ps", "end_ps"]].to_numpy()[0].tolist() == [30 * 10**6, 1032 * 10**6]
    timeline = timeline_of(trace)
    assert timeline.syncs.awaited.tolist() == list(range(6))
    path = critical_path(timeline, steps(timeline).table)
    times_us = dict(zip(path.total["part"], path.total["time_ps"] / (6 * 10**6), strict=True))
    work_us = 20 + 78 * bool(inside)  # until the loop sees it, and of the range behind
    assert times_us == {
        "compute": 1000,
        "host work": work_us,
        "host, nothing recorded": 191 - work_us,
        "launch latency": 9,
    }
    # Without the kernel, the first query sees that all is done.
    assert path.what_if.set_index("name").loc["k", "predicted_ps"] == 6 * (STEP - (KERNEL[1] - QUERIES[0])) * 10**6


def test_the_same_in_nsys(tmp_path):
    trace = nsys(tmp_path)
    assert set(trace.launches["name"]) == {"cudaEventQuery", "cudaLaunchKernel"}
    assert trace.syncs[["name", "start_ps", "end_ps"]].to_numpy()[0].tolist() == [
        "cudaEventQuery",
        30 * 10**6,
        1032 * 10**6,
    ]
    assert timeline_of(trace).syncs.awaited.tolist() == list(range(6))
    assert parts(trace)["compute"] == pytest.approx(1000 / 1200, abs=0.01)


def test_a_loop_that_nothing_ended_before_is_waiting_for_what_is_not_known(tmp_path):
    # The loop goes on for 160 us after the kernel.
    trace = kineto(tmp_path, after=[("cudaEventQuery", start) for start in range(1070, 1191, 40)])
    assert (timeline_of(trace).syncs.awaited == -1).all()
    ratios = parts(trace)
    assert ratios.get("host work", 0) < 0.02
    assert ratios["unexplained"] == (1192 - 30) / 1200


@given(
    *(
        st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 30), st.integers(shortest, 9)), max_size=6)
        for shortest in (1, 0)
    )
)
def test_a_query_is_in_a_loop_where_those_of_its_thread_hold_all_of_it(asked, looped):
    asked = [*(("cudaEventQuery", *query) for query in asked), ("cudaLaunchKernel", "t", 3, 1)]
    waits = [*(("cudaEventQuery", *loop) for loop in looped), ("cudaStreamSynchronize", "t", 0, 40)]
    names = (pd.Series([name for name, *_ in calls], dtype="category") for calls in (asked, waits))
    _, thread, start, length = zip(*asked, *waits, strict=True)
    times = np.unique(thread, return_inverse=True)[1], np.array(start), np.add(start, length)
    held = {of: {p for own, at, long in looped if own == of for p in range(at, at + long)} for of in "tu"}
    assert _in_query_loops(*names, times).tolist() == [
        name == "cudaEventQuery" and {*range(at, at + long)} <= held[of] for name, of, at, long in asked
    ]


def test_single_looks_with_work_between_them_stay_work_of_the_host(tmp_path):
    names = "cudaEventQuery", "cudaEventRecord"
    events = []
    for step in range(6):
        at = 1000 + STEP * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, STEP, pid=50, tid=9),
            event("cpu_op", "search", at, STEP, pid=50, tid=9),
            *(
                event(
                    "cuda_runtime", names[number % 2], at + 30 + 40 * number, 2, tid=9, pid=50, correlation=at + number
                )
                for number in range(25)
            ),
            event("cuda_runtime", "cudaLaunchKernel", at + 1100, 2, pid=50, tid=9, correlation=at + 99),
            event("kernel", "k", at + 1110, 80, device=0, stream=7, correlation=at + 99),
        ]
    trace = trace_of(tmp_path, *events)
    assert len(trace.syncs) == 0
    assert parts(trace)["host work"] > 0.8
