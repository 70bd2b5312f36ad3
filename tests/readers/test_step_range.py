"""Reading only some steps: the known work of a simulated job, and every row of a trace against the rules one by one."""

import gzip
import json
import os
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.simulator.clocks import WHOLE
from tests.simulator.job import DEVICE_SORTS
from tests.simulator.random_jobs import random_job
from tests.simulator.test_agreement import NS, number
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.analysis.collectives import collectives
from tracekit.analysis.completeness import completeness
from tracekit.analysis.steps import steps
from tracekit.columns import constant, frame
from tracekit.errors import TraceError, TracekitError
from tracekit.export.summarise import summarise
from tracekit.readers import read, step_range
from tracekit.readers.step_range import Steps
from tracekit.report.build import analyse
from tracekit.timeline.timeline import Timeline, timeline_of
from tracekit.timeline.unions import CELLS
from tracekit.trace import EVENT_COLUMNS, FRAME_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, Trace

CHOSEN = (1, 2)


def rows_of(events: pd.DataFrame) -> dict[int, list[tuple[int, int]]]:
    """When the rows of each device begin and end after its first, in ps, in order."""
    found = {}
    for device, table in events.groupby("device", observed=True):
        begin = int(table["start_ps"].min())
        found[number(str(device))] = sorted(
            (start - begin, end - begin)
            for start, end in zip(table["start_ps"].tolist(), table["end_ps"].tolist(), strict=True)
        )
    return found


def known_rows(truth: Truth, is_one_host: bool) -> dict[int, list[tuple[int, int]]]:
    """The same of the work that the job launched in the chosen steps, and of what but collectives ran beside that on
    its host: that of all ranks, or of each."""
    rows = [row for row in truth.job.rows if row.sort in DEVICE_SORTS]
    times_of = truth.recording.times
    found = {}
    for rank in range(truth.job.ranks):
        chosen = [
            times_of(row) for row in rows if CHOSEN[0] <= row.step <= CHOSEN[1] and (is_one_host or row.rank == rank)
        ]
        first, last = min(start for start, _ in chosen), max(end for _, end in chosen)
        times = []
        for row in rows:
            start, end = times_of(row)
            is_beside = row.collective < 0 and start < last and end > first
            if row.rank == rank and (CHOSEN[0] <= row.step <= CHOSEN[1] or is_beside):
                times.append((start, end))
        begin = min(start for start, _ in times)
        found[rank] = sorted(((start - begin) * NS, (end - begin) * NS) for start, end in times)
    return found


@pytest.mark.parametrize("seed", [1, 3, 6, 14])
def test_the_work_of_the_chosen_steps_is_read_and_its_collectives_wait_as_long(seed, tmp_path):
    truth = Truth(random_job(seed))
    step_of = {row.collective: row.step for row in truth.job.rows if row.collective >= 0}
    known = [
        (each.transfer * NS, sum(each.waiting.values()) * NS, each.last_rank)
        for at, each in enumerate(truth.collectives())
        if CHOSEN[0] <= step_of[at] <= CHOSEN[1] and len(each.waiting) > 1
    ]
    for trace_format, write in FORMATS.items():
        trace = read(write(truth, tmp_path / trace_format, WHOLE), steps=CHOSEN)
        assert rows_of(trace.events) == known_rows(truth, trace_format != "kineto"), trace_format
        table = collectives(timeline_of(trace)).table.sort_values("last_start_ps")
        columns = (table["transfer_ps"], table["wait_ps"], map(number, table["last"]))
        assert [*zip(*columns, strict=True)] == known, trace_format
        assert steps(timeline_of(trace)).table["step"].tolist() == [1, 2], trace_format
        assert trace.notes[0] == "Only steps 1 to 2 of each file were read."


def spans(*rows):
    """Spans (process, name, step, start, end) of one host."""
    columns = ("process", "name", "step", "start_ps", "end_ps")
    table = dict(zip(columns, zip(*rows, strict=True), strict=True))
    table |= {"host": ["h"] * len(rows), "thread": ["main"] * len(rows)}
    texts = ("host", "process", "thread", "name")
    return frame(SPAN_COLUMNS, {name: pd.Categorical(of) if name in texts else of for name, of in table.items()})


def test_every_row_and_call_is_judged_as_by_the_rules_one_by_one():
    draw = np.random.default_rng(5)
    marks = [
        (process, f"step {step}", step, 1000 * step + shift, 1000 * step + shift + 700)
        for process, shift in (("a", 0), ("b", 300))
        for step in range(6)
    ]
    n = 400
    begins, process, ids = draw.integers(0, 6500, n), draw.integers(0, 2, n), draw.integers(0, 300, n)
    calls = {"process": pd.Categorical(np.array(["a", "b"])[process]), "host": constant("h", n)}
    calls |= {"thread": constant("main", n), "name": constant("launch", n)}
    launches = frame(
        LAUNCH_COLUMNS, calls | {"start_ps": begins, "end_ps": begins + 5, "correlation_id": pd.array(ids, "Int64")}
    )
    row_ids = pd.array(draw.integers(0, 400, n), "Int64")
    row_ids[draw.integers(0, n, 50)] = pd.NA
    starts = draw.integers(0, 7000, n)
    texts = {"host": "h", "device": "gpu:0", "lane": "s", "kind": "compute", "known_by": "name", "name": "k"}
    events = {name: constant(text, n) for name, text in texts.items()}
    events |= {"start_ps": starts, "end_ps": starts + 9, "correlation_id": row_ids}
    trace = Trace(frame(EVENT_COLUMNS, events), spans=spans(*marks), launches=launches)

    def is_in(time, whose):
        return any(start <= time < end for start, end in whose)

    # Of steps 2 and 3 the time between them, too.
    of_process = {"a": [(2000, 3700)], "b": [(2300, 4000)]}
    in_steps = [is_in(begin, of_process["ab"[which]]) for begin, which in zip(begins, process, strict=True)]
    known = []
    for start, its in zip(starts, row_ids, strict=True):
        told = {inside for inside, call in zip(in_steps, ids, strict=True) if its is not pd.NA and call == its}
        known.append(told == {True} if len(told) == 1 else is_in(start, [(2000, 4000)]))
    low, high = min(starts[known]), max(starts[known]) + 9
    beside = [not its and start < high and start + 9 > low for its, start in zip(known, starts, strict=True)]
    launched = {its for its, is_beside in zip(row_ids, beside, strict=True) if is_beside and its is not pd.NA}
    calls_kept = [its or call in launched for its, call in zip(in_steps, ids, strict=True)]
    chosen = step_range.only(trace, "a.json", Steps((2, 3)))
    assert chosen.launches["start_ps"].tolist() == begins[calls_kept].tolist()
    assert chosen.events["start_ps"].tolist() == starts[np.logical_or(known, beside)].tolist()
    assert 0 < sum(known) < len(chosen.events) < n


def test_all_from_the_first_to_the_last_of_the_chosen_steps_is_theirs():
    trace = Trace(
        frame(EVENT_COLUMNS),
        spans=spans(
            ("", "step 0", 0, 0, 10),
            ("", "step 1", 1, 20, 30),
            ("", "eval", 0, 40, 50),
            ("", "step 1", 1, 60, 70),
            ("", "inside", None, 25, 26),
            ("", "around all", None, 0, 99),
            ("", "between", None, 31, 39),
            ("", "ends as it begins", None, 15, 20),
            ("", "empty", None, 20, 20),
        ),
    )
    kept = step_range.only(trace, "a.json", Steps((1, 1))).spans["name"].astype("str").tolist()
    assert kept == ["step 1", "eval", "step 1", "inside", "around all", "between", "empty"]


@pytest.mark.parametrize("seed", [1, 3, 6, 14, 19])
def test_a_report_of_few_steps_has_the_figures_that_the_whole_trace_gives_them(seed, tmp_path):
    """Where the host runs ahead, the devices still run what it launched in the step before."""
    truth = Truth(random_job(seed))
    for trace_format, write in FORMATS.items():
        path = write(truth, tmp_path / trace_format, WHOLE)
        whole = timeline_of(path)
        for first, last in ((2, 2), (1, 2)):
            report = analyse(path, steps=(first, last))
            known = analyse(whole, steps=(first, last))
            assert report.headline.startswith(f"Only {step_range.named(Steps((first, last)))} ("), trace_format
            columns = ["device", "window_ps", *CELLS]
            pd.testing.assert_frame_equal(report.whole.partition[columns], known.whole.partition[columns])
        of_step = analyse(whole, step=2).whole.partition
        pd.testing.assert_frame_equal(analyse(path, steps=(2, 2)).whole.partition, of_step)


# What JAX's JSON calls a GPU with two streams, and a thread of the host.
JAX_NAMES = (
    {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/device:GPU:0"}},
    {"ph": "M", "pid": 2, "tid": 13, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}},
    {"ph": "M", "pid": 2, "tid": 20, "name": "thread_name", "args": {"name": "Stream #20(Compute)"}},
    {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
    {"ph": "M", "pid": 701, "tid": 1, "name": "thread_name", "args": {"name": "python"}},
)


def write_host(path, events):
    """Write JAX's JSON of a host."""
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*JAX_NAMES, *events]}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def lagging_job(path, draw, hosts, slowest=1):
    """Write the files of hosts with one GPU each, in JAX's JSON, whose collectives run on a stream that falls behind
    the host by several steps; the kernels of the last one take `slowest` times as long. Gives how many steps there
    are."""
    steps = int(draw.integers(5, 9))
    events: list[list[dict[str, Any]]] = [[] for _ in range(hosts)]
    now, free, number = [10] * hosts, {13: [20] * hosts, 20: [20] * hosts}, 0
    for step in range(steps):
        begun = [*now]
        for is_collective in (draw.random(draw.integers(1, 5)) < 0.35).tolist():
            number += 1
            stream, op, name = (20, "all-reduce.1", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)")
            if not is_collective:
                stream, op, name = (13, "dot.3", "gemm")
            now = [time + int(draw.integers(1, 5)) for time in now]
            start = [max(launched + 2, at) for launched, at in zip(now, free[stream], strict=True)]
            start = [time + int(draw.integers(0, 8)) for time in start]
            end = [time + int(draw.integers(3, 40)) * (slowest if host else 1) for host, time in enumerate(start)]
            free[stream] = [max(start) + int(draw.integers(20, 160))] * hosts if is_collective else end
            for host, launched in enumerate(now):
                call = {"pid": 701, "tid": 1, "ts": launched, "dur": 1, "name": "cuLaunchKernel"}
                row = {
                    "pid": 2,
                    "tid": stream,
                    "ts": start[host],
                    "dur": free[stream][host] - start[host],
                    "name": name,
                }
                its = {"correlation_id": str(number)}
                of_row = its | {"hlo_module": "jit_f", "hlo_op": op}
                events[host] += [{"ph": "X", **call, "args": its}, {"ph": "X", **row, "args": of_row}]
        now = [time + int(draw.integers(1, 20)) for time in now]
        for host, (start, end) in enumerate(zip(begun, now, strict=True)):
            mark = {"ph": "X", "pid": 701, "tid": 1, "ts": start, "dur": end - start, "name": "train"}
            events[host].append({**mark, "args": {"step_num": str(step)}})
        now = [time + 1 for time in now]
    path.mkdir()
    for host, of_host in enumerate(events):
        write_host(path / f"host{host}.trace.json.gz", of_host)
    return steps


@pytest.mark.parametrize(("hosts", "slowest"), [(1, 1), (2, 1), (2, 6)])
def test_what_falls_behind_by_several_steps_is_read_with_those_that_launched_it(hosts, slowest, tmp_path):
    compared, wider = 0, 0
    for seed in range(16):
        draw = np.random.default_rng([seed, hosts, slowest])
        path = tmp_path / str(seed)
        count = lagging_job(path, draw, hosts, slowest)
        first = int(draw.integers(0, count))
        chosen = (first, int(draw.integers(first, count)))
        report, known = analyse(path, steps=chosen), analyse(timeline_of(path), steps=chosen)
        if any("unaligned" in note for note in report.notes):  # too few collectives are left to compare clocks by
            continue
        compared += 1
        read = step_range.note(step_range.with_context(chosen))
        wider += read not in report.notes or any("work that they launched runs in" in note for note in report.notes)
        columns = ["device", "window_ps", *CELLS]
        pd.testing.assert_frame_equal(report.whole.partition[columns], known.whole.partition[columns])
        tables = [each.explanation.collectives.table for each in (report, known)]
        for column in ("op", "devices", "last", "wait_ps", "transfer_ps", "exposed_ps"):
            assert tables[0][column].astype("str").tolist() == tables[1][column].astype("str").tolist(), (seed, column)
    assert compared >= 8
    assert wider >= 4


def test_a_report_of_a_step_that_there_is_twice_asks_which():
    twice = timeline_of(trace_of_two_rounds())
    with pytest.raises(TracekitError, match=r"has several steps 1: .* Say which with --from and --to\."):
        analyse(twice, steps=(1, 2))


def trace_of_two_rounds():
    """A device that works in two rounds of steps 0 to 2."""
    begins = np.arange(6) * 1000
    texts = {"host": "h", "device": "gpu:0", "lane": "s", "kind": "compute", "known_by": "name", "name": "k"}
    work = {name: constant(text, 6) for name, text in texts.items()} | {
        "start_ps": begins + 100,
        "end_ps": begins + 900,
    }
    marks = [("", "train", at % 3, begin, begin + 950) for at, begin in enumerate(begins.tolist())]
    return Trace(frame(EVENT_COLUMNS, work), spans=spans(*marks))


def kept_calls(marks, calls, chosen):
    """When the calls (thread, begin) of one process begin that are kept of the steps of `marks`."""
    texts = {"host": constant("h", len(calls)), "process": constant("p", len(calls))}
    texts |= {"name": constant("launch", len(calls)), "thread": pd.Categorical([thread for thread, _ in calls])}
    begins = np.array([begin for _, begin in calls])
    launches = frame(LAUNCH_COLUMNS, {**texts, "start_ps": begins, "end_ps": begins + 1})
    trace = step_range.only(Trace(frame(EVENT_COLUMNS), spans=marks, launches=launches), "a.json", Steps(chosen))
    return trace.launches["start_ps"].tolist(), trace.spans["name"].astype("str").tolist()


def test_numbered_spans_inside_steps_and_around_them_are_none():
    marks = spans(
        ("p", "epoch", 2, 0, 400),
        *(("p", "train", step, 100 * step, 100 * step + 90) for step in range(1, 4)),
        *(
            ("p", "part", part, 100 * step + 20 * part, 100 * step + 20 * part + 9)
            for step in (1, 2, 3)
            for part in (1, 2)
        ),
    )
    calls = [("main", begin) for begin in (50, 125, 145, 205, 225, 245, 325, 345)]
    assert kept_calls(marks, calls, (2, 2)) == ([205, 225, 245], ["train", "part", "part"])
    with pytest.raises(TraceError, match=r"has no step 4: it numbers steps 1 to 3\."):
        kept_calls(marks, calls, (4, 4))


def test_each_thread_that_marks_the_steps_is_cut_by_its_own():
    marks = spans(
        *(("p", "train", step, 100 * step, 100 * step + 100) for step in range(4)),
        *(("p", "train", step, 100 * step + 40, 100 * step + 140) for step in range(4)),
        ("p", "train", 0, 0, 100),
    )
    threads = pd.Categorical(["a"] * 4 + ["b"] * 4 + ["one step"])
    begins = (120, 210, 230, 250, 310)
    for thread, kept in (
        ("a", [210, 230, 250]),
        ("b", [250, 310]),
        ("one step", [210, 230, 250, 310]),
        ("c", begins[1:]),
    ):
        calls = [(thread, begin) for begin in begins]
        assert kept_calls(marks.assign(thread=threads), calls, (2, 2))[0] == [*kept]


def test_a_step_that_overlaps_the_next_one_by_rounding_ends_there():
    marks = spans(*(("p", "train", step, 20_000_000 * step, 20_000_000 * step + 21_000_000) for step in range(4)))
    calls = [("main", 20_000_000 * step + late) for step in range(4) for late in (0, 10_000_000)]
    assert kept_calls(marks, calls, (1, 2))[0] == [20_000_000, 30_000_000, 40_000_000, 50_000_000]


def test_a_file_without_the_steps_is_refused_with_those_that_it_has():
    path = traces.path("h100-steps-jax0.11.2.xplane.pb.gz")
    with pytest.raises(TraceError, match=r"has no steps 7 to 9: it numbers steps 0 to 4\."):
        read(path, steps=(7, 9))
    with pytest.raises(TraceError, match="numbers no steps, so step 1 cannot be told from others"):
        read(traces.path("torch-1.13-list.json.gz"), steps=(1, 1))


@pytest.fixture
def job(tmp_path):
    """A job of two ranks, one of which numbers steps 1 to 3, the other one 3 to 5."""
    for rank in (0, 1):
        text = gzip.decompress(traces.path(f"generated/kineto/rank{rank}.pt.trace.json.gz").read_bytes()).decode()
        renamed = re.sub(r"(?<=ProfilerStep#)\d", lambda number: str(int(number[0]) + 2), text)
        (tmp_path / f"rank{rank}.json").write_text(renamed if rank else text)
    return tmp_path


@pytest.mark.parametrize(
    ("steps", "lost", "why"),
    [
        ((1, 2), 1, "rank1.json has no steps 1 to 2: it numbers steps 3 to 5"),
        (step_range.with_context((1, 2)), 1, "rank1.json has no steps 1 to 2: it numbers steps 3 to 5"),
        ((3, 4), 1, "rank0.json lacks 4"),
        ((2, 4), 2, "rank0.json lacks 4; rank1.json lacks 2"),
    ],
)
def test_steps_that_some_files_lack_are_told_as_that_and_not_as_damage(job, steps, lost, why):
    trace = read(job, steps=steps)
    losses = trace.losses[trace.losses["what"] == "steps"]
    assert losses[["lost", "total", "evidence"]].to_numpy().tolist() == [[lost, 2, why]]
    does = "does" if lost == 1 else "do"
    told = f"{lost} of 2 files of hosts or ranks {does} not hold all the steps asked for ({why})."
    assert told in trace.notes
    assert completeness(Timeline(trace)).rows == told
    with pytest.raises(TraceError) as refused:
        read(job, steps=steps, strict=True)
    remedy = "Ask for steps that all of its files hold, or read without strict those that some hold."
    assert str(refused.value) == f"{job} is not whole: {told} {remedy}"


def test_steps_in_which_no_device_works_are_read_as_those_in_which_some_do(tmp_path):
    for host in range(2):
        mark = {"ph": "X", "pid": 701, "tid": 1, "dur": 5, "name": "train"}
        steps = [{**mark, "ts": 10 * step + host, "args": {"step_num": str(step)}} for step in range(4)]
        row = {"ph": "X", "pid": 2, "tid": 13, "ts": 1, "dur": 2 + host, "name": "gemm", "args": {"hlo_op": "dot.3"}}
        write_host(tmp_path / f"host{host}.trace.json.gz", [row, *steps])
    trace = read(tmp_path, steps=step_range.with_context((3, 3)))
    assert (len(trace.events), len(trace.hosts)) == (0, 2)  # two files with the same rows would be copies
    assert {*trace.spans["step"].dropna()} == {2, 3}


def test_steps_that_no_file_holds_are_a_note_where_others_are_there_and_else_refused(job):
    trace = read(job, steps=(3, 3), strict=True)
    assert not any("no file holds" in note for note in trace.notes)
    assert "Of steps 0 to 9 no file holds 0, 6-9." in read(job, steps=(0, 9)).notes
    with pytest.raises(TraceError, match=r"rank0\.json has no step 6: it numbers steps 1 to 3\."):
        read(job, steps=step_range.with_context((6, 6)))


def test_an_older_run_is_not_read_for_steps_that_the_newest_lacks(tmp_path):
    for at, (run, source) in enumerate((("old", "rank0"), ("new", "rank1"))):
        (tmp_path / run).mkdir()
        text = gzip.decompress(traces.path(f"generated/kineto/{source}.pt.trace.json.gz").read_bytes()).decode()
        file = tmp_path / run / "rank0.json"
        file.write_text(text.replace("ProfilerStep#3", "ProfilerStep#4") if run == "new" else text)
        os.utime(file, (1000 + at, 1000 + at))
    assert read(tmp_path, steps=(2, 2)).runs[0] == "new"
    with pytest.raises(TraceError, match="has no step 3: it numbers steps 1 to 4"):
        read(tmp_path, steps=(3, 3))


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1-x", "1.5", "²"])
def test_what_names_no_steps_is_refused(text):
    with pytest.raises(TracekitError, match="is no step and no range of steps: give 7, or 7-9"):
        step_range.parse(text)


def test_steps_are_named_first_to_last():
    assert step_range.parse("7") == (7, 7)
    assert step_range.parse("07-12") == (7, 12)
    with pytest.raises(TracekitError, match="Steps 3 to 2 are none"):
        step_range.parse("3-2")


def test_a_summary_of_some_steps_is_read_as_they_are_of_its_trace(tmp_path):
    path = traces.path("h100-steps-jax0.11.2.xplane.pb.gz")
    of_trace = read(path, steps=(1, 2))
    own = read(summarise(path, tmp_path / "own", steps=(1, 2)))
    whole = read(summarise(path, tmp_path / "whole"), steps=(1, 2))
    for name in FRAME_COLUMNS:
        if name != "hosts":
            for other in (own, whole):
                pd.testing.assert_frame_equal(getattr(of_trace, name), getattr(other, name), check_categorical=False)
    assert own.notes[0] == "Only steps 1 to 2 of each file were read."
    of_one = read(summarise(path, tmp_path / "one", steps=(1, 1)))
    assert of_one.notes[0] == "Only step 1 of each file was read."
