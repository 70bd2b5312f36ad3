"""What a trace holds, on one screen: every fact, nothing that is not there, and never more than a screen."""

import json
import re
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from tests import graph_traces
from tests.frames import events, spans, trace
from tests.launch_frames import host_spans
from tests.readers.xspaces import PlaneText, write
from tracekit.columns import concat, frame
from tracekit.readers import read
from tracekit.report import trace_contents
from tracekit.report.build import analyse
from tracekit.report.figures.figure import figure
from tracekit.report.terminal.trace_screen import HEIGHT, MAX_ANNOTATIONS, MIN_NOTE_LINES, WIDTH, lines
from tracekit.report.trace_contents import Annotation, Clock, Contents, Device, Share, Spans, contents, no_device_work
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, HOST_COLUMNS, LAUNCH_COLUMNS, Trace

MS = 10**9
LEFT_OUT = "gpu:0: 1 events damaged or without a valid time were skipped."


def test_of_more_names_than_anyone_reads_those_that_take_longest_are_listed(monkeypatch):
    monkeypatch.setattr(trace_contents, "MOST_NAMES", 2)
    names = host_spans(("load", 0, 1 * MS), ("train", 0, 4 * MS), ("save", 0, 3 * MS))
    result = contents(Trace(events(), spans=names))
    assert [annotation.name for annotation in result.annotations] == ["train", "save"]
    assert result.spans.names == 3
    assert result.notes[-1] == (
        "Of 3 names of phases, steps and annotations the first 2 are listed; tracekit.annotations gives all."
    )


def launches(*rows: tuple) -> pd.DataFrame:
    """Rows of (host, start, end, correlation id)."""
    columns = dict(zip(("host", "start_ps", "end_ps", "correlation_id"), zip(*rows, strict=True), strict=True))
    return frame(LAUNCH_COLUMNS, {**columns, "thread": ["main"] * len(rows), "name": ["launch"] * len(rows)})


def devices(*rows: tuple) -> pd.DataFrame:
    """Rows of (host, device, model)."""
    return frame(DEVICE_COLUMNS, dict(zip(("host", "device", "model"), zip(*rows, strict=True), strict=True)))


def hosts(*rows: tuple) -> pd.DataFrame:
    """Rows of (host, origin, clock, shift, residual)."""
    columns = ("host", "origin_ns", "clock", "shift_ps", "residual_ps")
    data = {name: list(column) for name, column in zip(columns, zip(*rows, strict=True), strict=True)}
    return frame(HOST_COLUMNS, {**data, "source": [f"{row[0]}.json" for row in rows]})


def two_devices() -> Trace:
    rows = events(
        ("gpu:0", "compute", 10 * MS, 20 * MS, "k"),
        ("gpu:0", "collective", 15 * MS, 25 * MS, "all-reduce"),
        ("gpu:1", "memcpy", 30 * MS, 50 * MS, "copy", "H2D"),
    )
    rows["correlation_id"] = pd.array([1, 2, None], "Int64")
    rows["bytes"] = pd.array([None, 64, 128], "Int64")
    return trace(
        rows,
        spans(("train", 0, 60 * MS)),
        launches=launches(("h", 5 * MS, 6 * MS, 1), ("h", 7 * MS, 8 * MS, 9)),
        devices=devices(("h", "gpu:0", "H200"), ("h", "gpu:1", "H200"), ("h", "gpu:2", "H200")),
        hosts=hosts(("h", 1_700_000_000_123_456_789, None, None, None)),
        notes=("traces/test contains 2 runs; new was read. --run NAME picks another.", LEFT_OUT),
        runs=("new", "old"),
    )


def test_all_facts_of_a_trace_are_told():
    kinds = {"compute": 0, "collective": 0, "memcpy": 0, "memset": 0}
    assert contents(two_devices()) == Contents(
        source="traces/test",
        format="xplane",
        files=1,
        runs=("new", "old"),
        clocks=(Clock("", ("h",), 0, 60 * MS, 10 * MS, 50 * MS, 1_700_000_000_123_456_789, None, None, None),),
        devices=(
            Device("gpu:0", "h", "H200", 2, {**kinds, "compute": 1, "collective": 1}, 15 * MS, 40 * MS),
            Device("gpu:1", "h", "H200", 1, {**kinds, "memcpy": 1}, 20 * MS, 40 * MS),
            Device("gpu:2", "h", "H200", 0, kinds, 0, 40 * MS),
        ),
        spans=Spans(count=1, names=1, threads=1, phases=("train",), steps=0),
        annotations=(Annotation("phase", "train", "h", "python", 1, 1, 60 * MS, 60 * MS, None, None),),
        launches=2,
        carried={
            "launch": Share(1, 2),
            "copy_direction": Share(1, 1),
            "copy_bytes": Share(1, 1),
            "collective_bytes": Share(1, 1),
            "collective_ranks": Share(0, 1),
            "hlo_op": Share(0, 3),
        },
        kinds_known_by={"rule": 0.0, "opcode": 0.0, "stat": 0.0, "stream": 0.0, "name": 0.0, "nothing": 1.0},
        missing=(
            "No event names its HLO op: the program is no XLA program, or CUDA graphs hide its ops, "
            "which XLA_FLAGS=--xla_gpu_enable_command_buffer= turns off.",
        ),
        notes=("traces/test contains 2 runs; new was read. --run NAME picks another.", LEFT_OUT),
    )


def test_the_screen_says_them_in_words():
    assert lines(contents(two_devices())) == [
        "trace    traces/test",
        "format   xplane: XSpace of the XLA profiler (JAX, TensorFlow)",
        "runs     new (this one), old",
        "hosts    h",
        "time     60.00 ms in all, 40.00 ms from first to last device event",
        "began    2023-11-14 22:13:20.123456 UTC",
        "",
        "devices  3 GPUs, H200; busy = share of those 40.00 ms",
        "       lanes  compute  collective  memcpy  memset    busy",
        "gpu:0      2        1           1       0       0  37.5 %",
        "gpu:1      1        0           0       1       0  50.0 %",
        "gpu:2 without events",
        "",
        "spans    1 host span of 1 name on 1 thread; phases 'train'; no annotated steps",
        "                name   n     total    median",
        "         phase  train  1  60.00 ms  60.00 ms",
        "launches 2 calls; 1 of 2 events with a correlation id are linked",
        "recorded copies: direction 100 %, bytes 100 %; collectives: bytes 100 %, ranks",
        "         0 %; events: HLO op 0 %",
        "kinds    100 % unclassified (counted as compute), of busy time",
        "missing  No event names its HLO op: the program is no XLA program, or CUDA",
        "         graphs hide its ops, which XLA_FLAGS=--xla_gpu_enable_command_buffer=",
        "         turns off.",
        "notes    traces/test contains 2 runs; new was read. --run NAME picks another.",
        f"         {LEFT_OUT}",
    ]


def many_annotations(number: int) -> Trace:
    """So many annotations `a0`, `a1`, …, each shorter than the one before, on two threads."""
    marks = spans(*((f"a{at}", 0, (number - at) * MS) for at in range(number)))
    marks["tracekit"] = frame({"tracekit": "category"}, {}, number)["tracekit"]
    marks["thread"] = pd.Categorical(["python", *["loader"] * (number - 1)])
    return trace(events(("gpu:0", "compute", 0, MS)), marks)


def test_the_screen_lists_the_first_annotations_and_counts_the_others():
    result = contents(many_annotations(MAX_ANNOTATIONS + 2))
    screen = lines(result)
    first = next(at for at, line in enumerate(screen) if line.startswith("spans")) + 1
    assert screen[first : first + 3] == [
        "                     name  n     total    median  thread",
        "         annotation  a0    1  10.00 ms  10.00 ms  python",
        "         annotation  a1    1   9.00 ms   9.00 ms  loader",
    ]
    assert screen[first + MAX_ANNOTATIONS + 1] == "         and 2 more annotations: --full lists all"
    assert [f" a{at} " in "\n".join(lines(result, full=True)) for at in range(MAX_ANNOTATIONS + 2)] == [True] * 10
    assert not any("--full" in line for line in lines(result, full=True))


def test_a_name_that_is_too_long_is_cut_unless_all_is_shown():
    name = "n" * 200
    result = contents(trace(events(("gpu:0", "compute", 0, MS)), spans((name, 0, MS))))
    assert max(map(len, lines(result))) <= WIDTH
    assert any(name in line for line in lines(result, full=True))


def test_json_holds_the_same():
    data = json.loads(json.dumps(contents(two_devices()).data))
    assert data["schema"] == 1
    assert data["devices"][1] == {
        "device": "gpu:1",
        "host": "h",
        "model": "H200",
        "lanes": 1,
        "rows": {"compute": 0, "collective": 0, "memcpy": 1, "memset": 0},
        "busy_ps": 20 * MS,
        "window_ps": 40 * MS,
    }
    assert data["carried"]["launch"] == {"have": 1, "of": 2}


def test_every_key_of_the_json_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
    words = set(re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)))
    data = contents(two_devices()).data
    parts = [
        data,
        *data["clocks"],
        *data["devices"],
        data["spans"],
        *data["annotations"],
        data["carried"],
        *data["carried"].values(),
    ]
    assert {key for part in parts for key in part} - words == set()


def test_a_correlation_id_counts_only_on_its_own_host():
    rows = concat(EVENT_COLUMNS, [events((f"{host}/gpu:0", "compute", 0, 9), host=host) for host in ("a", "b")])
    rows["correlation_id"] = pd.array([7, 7], "Int64")
    result = contents(trace(rows, launches=launches(("a", 0, 1, 7), ("b", 0, 1, 8))))
    assert result.carried["launch"] == Share(1, 2)


def unaligned_hosts(number: int) -> Trace:
    """Hosts with a clock of their own, the times of each 1 h apart."""
    names = [f"rank{at}" for at in range(number)]
    rows = [
        events((f"{name}/gpu:0", "compute", at * 3600 * 10**12, at * 3600 * 10**12 + MS), host=name, clock=name)
        for at, name in enumerate(names)
    ]
    return trace(concat(EVENT_COLUMNS, rows), spans(), hosts=hosts(*[(name, None, name, None, None) for name in names]))


def test_hosts_on_clocks_of_their_own_have_a_time_span_each():
    result = contents(unaligned_hosts(2))
    assert [(clock.hosts, clock.end_ps - clock.start_ps) for clock in result.clocks] == [
        (("rank0",), MS),
        (("rank1",), MS),
    ]
    assert {device.window_ps for device in result.devices} == {MS}
    assert lines(result)[2:6] == [
        "clocks   2 that are not aligned: no time is compared across them",
        "         rank0: 1.00 ms in all, 1.00 ms from first to last device event; began",
        "         at an unknown time of day",
        "         rank1: 1.00 ms in all, 1.00 ms from first to last device event; began",
    ]


def test_the_shift_and_the_rest_of_aligned_hosts_are_told():
    rows = concat(EVENT_COLUMNS, [events((f"{host}/gpu:0", "compute", 0, 9), host=host) for host in ("a", "b")])
    result = contents(trace(rows, hosts=hosts(("a", 10, None, 0, 3000), ("b", 20, None, -MS, 2000))))
    assert "hosts    a, b, on one clock, shifted by up to 1.00 ms, collectives end within" in lines(result)


@cache
def many_devices() -> Trace:
    rows = [
        events(
            *[(f"host{at}/gpu:{device}", "compute", 0, (at + 1) * MS) for device in range(8)],
            (f"host{at}/gpu:0", "memcpy", 0, MS, "copy", "H2D"),
            host=f"host{at}",
        )
        for at in range(64)
    ]
    notes = tuple(
        f"host{at}: something that takes more than a single line to be said was left out." for at in range(64)
    )
    return trace(concat(EVENT_COLUMNS, rows), notes=notes, runs=tuple(f"run{at}" for at in range(50)))


def test_many_devices_become_one_line_with_ranges():
    table = [line for line in lines(contents(many_devices())) if "GPUs" in line or "lanes" in line]
    assert table == [
        "devices  512 GPUs; busy = share of those 64.00 ms",
        "          lanes  compute  collective  memcpy  memset       busy",
        "512 GPUs    1-2        1           0     0-1       0  1.6-100 %",
    ]


def test_devices_without_rows_and_of_other_models_stand_apart():
    rows = events(*[(f"gpu:{at}", "compute", 0, 4) for at in range(9)], ("cpu:0", "compute", 0, 1))
    several_models = trace(rows, devices=devices(*[("h", f"gpu:{at}", "A" if at < 6 else "B") for at in range(12)]))
    screen = lines(contents(several_models))
    at = next(at for at, line in enumerate(screen) if line.startswith("devices"))
    assert screen[at : at + 6] == [
        "devices  1 CPU device and 12 GPUs: 6 A, 6 B; busy = share of those 4 ps",
        "        lanes  compute  collective  memcpy  memset    busy  model",
        "cpu:0       1        1           0       0       0  25.0 %  -",
        "6 GPUs      1        1           0       0       0   100 %  A",
        "3 GPUs      1        1           0       0       0   100 %  B",
        "3 GPUs without events",
    ]


@pytest.mark.parametrize(
    "make_trace", [two_devices, lambda: unaligned_hosts(64), many_devices, lambda: trace(events())]
)
def test_whatever_is_there_it_is_one_screen(make_trace):
    screen = lines(contents(replace(make_trace(), source="p" * 200)))
    assert max(map(len, screen[1:])) <= WIDTH
    assert len(screen) <= HEIGHT + MIN_NOTE_LINES


def test_notes_without_room_are_counted():
    screen = lines(contents(many_devices()))
    note_count = sum("something that takes" in line for line in screen)
    assert note_count > 0
    assert screen[-1] == f"         … and {64 - note_count} more: --json prints all."


WAIT = "; for the next one, wait for the results inside the profile (jax.block_until_ready), and keep "


@pytest.mark.parametrize(("form", "ending"), [("xplane", WAIT), ("jax-json", WAIT), ("kineto", ".")])
def test_a_trace_of_host_threads_only_says_so_first(form, ending):
    host_only = replace(trace(events(), spans(("train", 0, 9))), format=form)
    (sentence,) = contents(host_only).missing
    assert sentence.startswith(f"The trace holds no device work, only host threads{ending}")
    report = analyse(host_only)
    assert (report.headline, report.verdict, report.verdicts) == (
        sentence,
        sentence,
        {"train": "No device was busy."},
    )


def test_every_format_says_what_would_have_recorded_devices(tmp_path):
    """A file of each format that holds host threads only; the advice stands in `missing` or in a note."""
    kineto = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [host_event("user_annotation", "step")]}
    mxnet = [process("cpu/0", 1), process("MXNET_C_API", 2), *pair("MXNDArraySave", 2)]
    jax = [process("/host:CPU", 1), {"ph": "X", "name": "f", "pid": 1, "tid": 2, "ts": 1, "dur": 1}, {}]
    writers = {
        "host.xplane.pb": lambda path: write(path, PlaneText("/host:CPU").event("python", "f", 0, 9).text()),
        "host.trace.json": lambda path: path.write_text(json.dumps({"traceEvents": jax})),
        "kineto.json": lambda path: path.write_text(json.dumps(kineto)),
        "mxnet.json": lambda path: path.write_text(json.dumps({"traceEvents": mxnet})),
        "nsys.sqlite": ranges_only,
    }
    advice = ("host_tracer_level", "host_tracer_level", "ProfilerActivity.CUDA", "profile_all=True", "--trace=cuda")
    for (name, make), setting in zip(writers.items(), advice, strict=True):
        make(tmp_path / name)
        result = contents(read(tmp_path / name))
        assert result.missing[0].startswith("The trace holds no device work, only host threads"), name
        assert sum(setting in sentence for sentence in (*result.missing, *result.notes)) == 1, name


def host_event(category, name):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 5, "dur": 1}


def process(name, pid):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def pair(name, pid):
    return [{"ph": ph, "cat": "MXNET_C_API", "name": name, "pid": pid, "tid": 1, "ts": 5, "id": 1} for ph in "be"]


def ranges_only(path):
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INT, value TEXT)")
        base.execute("CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, globalTid INT, text TEXT)")
        base.execute("INSERT INTO NVTX_EVENTS VALUES (100, 200, 59, 16777217, 'step')")
    base.close()


@pytest.mark.parametrize(
    ("without_time", "beginning"),
    [
        (trace(events()), "The trace holds neither device work nor named host spans; for the next one, "),
        (Trace(events()), "The trace holds neither device work nor named host spans."),
        (
            trace(events(), devices=devices(("h", "gpu:0", None))),
            "The trace names devices, but holds none of their events; ",
        ),
        (
            trace(events(("gpu:0", "compute", 5, 5))),
            "All device events have zero length: the trace says that they ran, but not for how long.",
        ),
    ],
    ids=["empty", "empty and of no format", "empty planes", "zero length"],
)
def test_a_trace_without_device_work_is_told_apart_and_drawn(without_time, beginning):
    sentence = no_device_work(without_time)
    assert sentence.startswith(beginning)
    assert contents(without_time).missing[0] == sentence
    report = analyse(without_time)
    assert report.headline == sentence
    assert figure(without_time, title=report.headline).get_axes() == []


def test_a_trace_of_calls_alone_says_that_none_of_what_they_launched_has_a_row():
    """PyTorch's profiler in WSL 2, or where CUPTI could not be used, records the calls of CUDA and no kernel."""
    calls = [("t", 10 * n, 10 * n + 5, n + 1, "cudaLaunchKernel") for n in range(40)]
    calls_alone = graph_traces.trace([], calls)
    sentence = "None of 40 kernels and copies that the host launched has a row on a device."
    assert no_device_work(calls_alone) == analyse(calls_alone).headline == sentence
    # One kernel shows that they are recorded.
    one = graph_traces.trace([("gpu:0", "s", "compute", 500, 600, {"correlation_id": 40})], calls)
    assert no_device_work(one) is None


def test_a_trace_that_holds_all_misses_nothing():
    rows = events(("tpu:0", "compute", 0, 9))
    assert contents(trace(rows, spans(("train", 0, 9)))).missing == ()


def test_sparse_cores_are_counted_apart():
    rows = events(("tpu:0", "compute", 0, 9), ("tpu:0/sc:0", "compute", 0, 9), ("tpu:0/sc:1", "compute", 0, 9))
    assert "devices  1 TPU and 2 SparseCores; busy = share of those 9 ps" in lines(contents(trace(rows)))


def test_ranges_of_large_numbers_are_short():
    rows = {"compute": 1_234_567, "collective": 0, "memcpy": 9_999, "memset": 999_499}
    device = Device("gpu:0", "h", None, 1, rows, 5, 10)
    more = [
        replace(device, device=f"gpu:{at}", rows={kind: number + at for kind, number in rows.items()})
        for at in range(9)
    ]
    screen = lines(replace(contents(two_devices()), devices=tuple(more)))
    assert "9 GPUs      1     1.2M         0-8  9,999-10k  999k-1.0M  50.0 %" in screen


@pytest.mark.parametrize(("kinds", "is_told"), [(("memcpy", "memset"), False), (("memcpy", "compute"), True)])
def test_copies_alone_lack_no_hlo_op(kinds, is_told):
    made = trace(events(*(("gpu:0", kind, at, at + 1) for at, kind in enumerate(kinds))))
    assert any("HLO op" in sentence for sentence in contents(made).missing) == is_told
