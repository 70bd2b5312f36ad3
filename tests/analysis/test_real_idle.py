"""Idle time and launches of whole traces, against sweeps of their own, their schedules and figures of HTA."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from tests import traces
from tests.data import schedule
from tests.traces import needs_real
from tracekit.analysis.idle import idle
from tracekit.analysis.launches import launches
from tracekit.report.sections import idle as idle_section
from tracekit.report.sections import launches as launches_section

# Four profilers' forms of one job.
GPUS = ("generated/gpu.xplane.pb", "generated/gpu.trace.json.gz", "generated/gpu.sqlite", "generated/kineto")
CASES = traces.cases(
    *GPUS,
    "generated/rocm.xplane.pb",
    "generated/tpu.xplane.pb",
    "generated/tpu.trace.json.gz",
    "two-cpu-devices-jax0.10.2.xplane.pb",
    "two-cpu-devices-jax0.12.0.xplane.pb",
    "view-cpu.xplane.pb",
    "kineto/hta-df_index_resolver",
    "kineto/hta-sampled_rank-0",
    "kineto/hta-nccl_data-A100",
    "kineto/dlrm-8xV100",
    "nsys/mfu_2gpu_before-2xH100",
    "xplane/tf-8xV100",
    "xplane/jax-8xMI300X",
    "xplane/jax-MI300X-gemm",
    "xplane/xla-2xGTX1080Ti",
    "xplane/tpu-v6e-4chip",
    "chrome/jax-tpu-2chip-vllm",
    "mxnet/gpu_mnist_cnn_profile_output",
)
HOSTS_PART = {"host-bound", "compiling", "input pipeline", "waiting for a copy"}


@cache
def analyse(case):
    """Trace, rows, links and both results of a case."""
    timeline = traces.timeline(case)
    return timeline.trace, timeline.rows, timeline.launch, idle(timeline), launches(timeline)


def sweep(rows, device):
    """(start, end, place in rows of the row before, of the row that ends it) of a device's gaps, row by row."""
    gaps, last = [], None
    for place in range(int(rows.first[device]), int(rows.first[device + 1])):
        start, end = int(rows.start[place]), int(rows.end[place])
        if end == start:
            continue
        if last is not None and start > rows.end[last]:
            gaps.append((int(rows.end[last]), start, last, place))
        if last is None or end >= rows.end[last]:
            last = place
    return gaps


@pytest.mark.parametrize("case", CASES)
def test_the_causes_sum_to_the_gaps_and_the_sections_are_made(case):
    trace, rows, launch, idle_result, launch_result = analyse(case)
    call_starts = trace.launches["start_ps"].to_numpy()
    for device, name in enumerate(rows.devices):
        gaps = sweep(rows, device)
        mine = idle_result.gaps[idle_result.gaps["device"] == name]
        inner = mine[~mine["cause"].isin(["before first work", "after last work"])]
        if not rows.placed[device]:
            assert len(mine) == 0
            continue
        assert (inner["end_ps"] - inner["start_ps"]).sum() == sum(end - start for start, end, *_ in gaps)
        assert inner["interval"].nunique() == len(gaps)
        gap_starts = {int(rows.at[after]): start for start, _, _, after in gaps}
        assert set(inner["next"]) == set(gap_starts)
        # Nothing is host-bound after the launch, and all before it is the host's part, unless its thread was in a wait.
        part = sum(
            min(max(int(call_starts[launch[after]]), start), end) - start
            for start, end, before, after in gaps
            if launch[after] >= 0 and launch[after] != launch[before]
        )
        late = inner[inner["cause"].str.startswith("waiting") | (inner["cause"] == "unexplained")]
        hosts_pieces = inner[inner["cause"].isin(HOSTS_PART) | inner.index.isin(late.index)]
        length = int((hosts_pieces["end_ps"] - hosts_pieces["start_ps"]).sum())
        assert length >= part >= length - int((late["end_ps"] - late["start_ps"]).sum())
    for section in (idle_section.section(idle_result), launches_section.section(launch_result)):
        assert bool(section.lacking) != bool(section.sentences)


@pytest.mark.parametrize(
    ("case", "missing"),
    [
        ("mxnet_two_contexts_threaded.json.gz", True),
        ("generated/tpu.trace.json.gz", False),  # Its rows say of which run of a program they are.
        ("generated/rocm.xplane.pb", False),
        ("view-cpu.xplane.pb", False),
        traces.param("mxnet/gpu_mnist_cnn_profile_output", True),
        traces.param("chrome/jax-tpu-2chip-vllm", False),
        traces.param("xplane/tpu-v6e-4chip", False),
        traces.param("xplane/jax-8xMI300X", False),
    ],
)
def test_a_trace_without_evidence_is_said_to_have_none(case, missing):
    assert bool(analyse(case)[3].lacking) == missing


def by_stream(rows, launch, call_starts, mine):
    """Microseconds of the gaps between the rows `mine` of a stream: before a launch, shorter than 30 us, and others."""
    call_starts = call_starts[launch][mine]
    gap = (rows.start[mine][1:] - rows.end[mine][:-1]) // 10**6
    host = call_starts[1:] > rows.end[mine][:-1]
    return [int(gap[which].sum()) for which in (host, ~host & (gap < 30), ~host & (gap >= 30))]


@pytest.mark.parametrize("case", GPUS)
def test_by_stream_the_links_give_the_gaps_of_the_schedule(case):
    trace, rows, launch, _, _ = analyse(case)
    lanes = np.array([int(re.search(r"\d+", name)[0]) for name in rows.labels("lane")])[rows.codes("lane")]
    devices = np.array([int(name[-1]) for name in rows.labels("device")])[rows.codes("device")]
    breakdown = {}
    for device, stream in sorted({(event.device, event.stream) for event in schedule.gpu_job()}):
        mine = (devices == device) & (lanes == stream)
        breakdown[device, stream] = by_stream(rows, launch, trace.launches["start_ps"].to_numpy(), mine)
    assert breakdown == {key: schedule_breakdown(*key) for key in breakdown}


def schedule_breakdown(device: int, stream: int) -> list[int]:
    """The same by the schedule."""
    work = sorted(
        (event.start, event.end, event.called)
        for event in schedule.gpu_job()
        if (event.device, event.stream) == (device, stream)
    )
    host = short = long = 0
    for (_, end, _), (start, _, call_start) in pairwise(work):
        gap = start - end
        if call_start > end:
            host += gap
        elif gap < 30:
            short += gap
        else:
            long += gap
    return [host, short, long]


def test_between_the_steps_of_a_schedule_the_host_loads_data_and_then_the_launch_takes_8_us():
    """From the copy of the loss at 733 us, for which PyTorch's thread waits until 735 us, to the next batch's at 1,010
    us, launched at 1,002 us; both GPUs alike."""
    after, returned, launched, begun = 733, 735, 1_002, 1_010
    since, until = schedule.LOADING
    loading = [
        ("waiting for a copy", after, returned),
        ("host-bound", returned, since),
        ("input pipeline", since, until),
        ("host-bound", until, launched),
    ]
    latency = ("launch latency", launched, begun)
    assert between_steps("generated/kineto") == [*loading, latency]
    copy = ("waiting for a copy", after, returned)
    assert between_steps("generated/gpu.xplane.pb") == [copy, ("host-bound", returned, launched), latency]


def between_steps(case: str) -> list[tuple[str, int, int]]:
    """The pieces of the gap between the first two steps, in microseconds of the first, the same on both GPUs."""
    trace, _, _, idle_result, _ = analyse(case)
    zero = int(trace.events["start_ps"].min()) // 10**6 - 10
    gaps = idle_result.gaps.assign(
        start=idle_result.gaps["start_ps"] // 10**6 - zero, end=idle_result.gaps["end_ps"] // 10**6 - zero
    )
    gaps = gaps[(gaps["start"] >= 733) & (gaps["end"] <= 1_010)]
    first, second = (
        [*zip(mine["cause"], mine["start"], mine["end"], strict=True)]
        for _, mine in gaps.groupby("device", observed=True)
    )
    assert first == second
    return first


@needs_real
def test_by_stream_the_links_give_the_idle_breakdown_of_hta():
    """HolisticTraceAnalysis 0.5 on the same file, `get_idle_time_breakdown`, which leaves the last step out."""
    trace, rows, launch, _, _ = analyse("kineto/hta-df_index_resolver")
    call_starts = trace.launches["start_ps"].to_numpy()
    spans = trace.spans
    last = spans.loc[spans["name"].astype(str).str.startswith("ProfilerStep#"), "start_ps"].max()
    breakdown = {}
    for lane in ("stream 7", "stream 14"):
        mine = (rows.codes("lane") == rows.labels("lane").index(lane)) & (call_starts[launch] < last)
        breakdown[lane] = by_stream(rows, launch, call_starts, mine)
    assert breakdown == {"stream 7": [791330, 16727, 73829], "stream 14": [933139, 5568, 4444]}


@pytest.mark.parametrize("case", traces.cases("generated/kineto/rank0.pt.trace.json.gz", "kineto/hta-nccl_data-A100"))
def test_delays_and_tiny_kernels_are_those_of_a_loop_over_the_rows(case):
    trace, rows, launch, _, launch_result = analyse(case)
    call_starts = trace.launches["start_ps"].to_numpy()
    delays = sorted(int(rows.start[at] - call_starts[launch[at]]) for at in range(len(rows)) if launch[at] >= 0)
    line = launch_result.by_device.iloc[0]
    assert (line["n"], line["negative"]) == (len(delays), 0)
    assert (line["median_ps"], line["p99_ps"]) == (
        delays[(len(delays) + 1) // 2 - 1],
        delays[-(-len(delays) * 99 // 100) - 1],
    )
    threads = trace.launches["thread"].astype(str).to_numpy()
    begins = {}
    for place in sorted(set(launch.tolist()) - {-1}, key=lambda place: call_starts[place]):
        begins.setdefault(threads[place], []).append(int(call_starts[place]))
    distance = {name: int(np.sort(np.diff(times))[len(times) // 2 - 1]) for name, times in begins.items()}
    assert launch_result.threads.set_index("thread")["interval_ps"].to_dict() == distance
    gaps = {after: start for start, _, _, after in sweep(rows, 0)}
    cost = kernels = 0
    for at in range(len(rows)):
        limit = distance[threads[launch[at]]]
        if rows.kind[at] == 0 and rows.end[at] - rows.start[at] < limit:
            kernels += 1
            late = min(int(call_starts[launch[at]]), int(rows.start[at])) - gaps.get(at, int(rows.start[at]))
            cost += min(max(late, 0), limit)
    assert (launch_result.tiny_by_device["kernels"][0], launch_result.tiny_by_device["cost_ps"][0]) == (kernels, cost)


@needs_real
def test_the_host_was_loading_data_in_the_longest_gap_of_dlrm_s_rank_3():
    _, _, _, idle_result, _ = analyse("kineto/dlrm-8xV100")
    mine = idle_result.gaps[
        (idle_result.gaps["device"] == "rank3/gpu:3") & (idle_result.gaps["cause"] == "input pipeline")
    ]
    assert (mine[["start_ps", "end_ps"]] // 10**6).to_numpy().tolist() == [[1444, 2450]]


def test_compiling_is_most_of_what_the_devices_of_a_fresh_program_waited_for():
    _, _, _, idle_result, _ = analyse("two-cpu-devices-jax0.10.2.xplane.pb")
    most = idle_result.by_cause.set_index("cause")["ratio"]
    assert most["compiling"] > most["host-bound"] > most["launch latency"]
