"""Finding the trace: every layout that holds one is taken, and what is not there is said in one sentence."""

import errno
import gzip
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from tests import traces
from tests.programs import ROOT
from tests.readers.nsys.exports import Tables, as_parquet
from tests.readers.xspaces import write
from tracekit import intervals as iv
from tracekit import readers
from tracekit.analysis.collectives import collectives
from tracekit.analysis.completeness import completeness
from tracekit.analysis.idle import idle
from tracekit.analysis.overlap import device_pairs
from tracekit.errors import TraceError, on_damage
from tracekit.export.summarise import summarise
from tracekit.readers import read
from tracekit.readers.merge.clock_fit import SKEW_PS
from tracekit.timeline.timeline import timeline_of

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"

TEXT = """planes { name: "/device:GPU:0" lines { id: 7 name: "Stream #7(Compute)" timestamp_ns: 5
  events { metadata_id: 1 offset_ps: 1 duration_ps: %d } } event_metadata { key: 1 value { id: 1 name: "k" } } }"""


@pytest.fixture
def logdir(tmp_path):
    for at, run in enumerate(("2026_01_02", "2026_01_01")):
        directory = tmp_path / "log" / "sub" / "plugins" / "profile" / run
        directory.mkdir(parents=True)
        file = write(directory / "host.xplane.pb", TEXT % (at + 1))
        os.utime(file, (1000 + at, 1000 + at))
    return tmp_path / "log"


def length(path, **more) -> int:
    events = read(path, **more).events
    return int((events["end_ps"] - events["start_ps"]).iloc[0])


@pytest.mark.parametrize(
    "below",
    [
        "sub/plugins/profile/2026_01_01",
        "sub/plugins/profile/2026_01_01/host.xplane.pb",
        "sub/plugins/profile",
        "sub/plugins",
        "sub",
        "",
    ],
)
def test_any_level_of_the_layout_is_taken_and_the_newest_run_is_read(logdir, below):
    assert length(logdir / below) == 2


def test_several_runs_are_told_and_one_can_be_named(logdir):
    trace = read(logdir)
    assert trace.runs == ("2026_01_01", "2026_01_02")
    assert "2 runs; 2026_01_01 was read" in trace.notes[0]
    assert length(logdir, run="2026_01_02") == 1
    with pytest.raises(TraceError, match="no run 'x'; its runs are: 2026_01_01, 2026_01_02"):
        read(logdir, run="x")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "vm.xplane.pb is empty (0 bytes)"),
        (b"\x0a\x7f" + b"\xff" * 40, "vm.xplane.pb is"),
        (b"\0" * 64, "vm.xplane.pb is corrupt or not an XSpace"),
        (None, "it is empty"),
    ],
)
def test_a_newest_run_that_is_broken_is_stepped_over_to_the_newest_good_one_and_said(logdir, content, why):
    newest = logdir / "sub" / "plugins" / "profile" / "2026_01_03"
    newest.mkdir()
    if content is not None:
        (newest / "vm.xplane.pb").write_bytes(content)
        os.utime(newest / "vm.xplane.pb", (2e9, 2e9))
    os.utime(newest, (2e9, 2e9))
    trace = read(logdir)
    assert (trace.runs[0], int((trace.events["end_ps"] - trace.events["start_ps"]).iloc[0])) == ("2026_01_01", 2)
    (loss,) = trace.losses.to_dict("records")
    assert (loss["what"], loss["lost"]) == ("runs", 1)
    assert loss["evidence"].startswith("2026_01_03: ")
    assert why in loss["evidence"]
    assert loss["evidence"].endswith("; 2026_01_01 was read instead")
    assert "1 other run could not be read" in trace.notes[0]
    with pytest.raises(TraceError):
        read(logdir, strict=True)
    with pytest.raises(TraceError):
        read(logdir, run="2026_01_03")


@pytest.mark.parametrize(
    "text",
    [
        'planes { name: "/host:CPU" }',
        'planes { name: "/device:GPU:0" }',
        'planes { name: "Task Environment" } errors: "no GPU"',
    ],
)
def test_a_newest_run_without_events_is_stepped_over_and_said(logdir, text):
    newest = logdir / "sub" / "plugins" / "profile" / "2026_01_03"
    newest.mkdir()
    os.utime(write(newest / "vm.xplane.pb", text), (2e9, 2e9))
    trace = read(logdir)
    assert (trace.runs[0], len(trace.events)) == ("2026_01_01", 1)
    assert trace.losses["evidence"].tolist() == ["2026_01_03: it holds no events; 2026_01_01 was read instead"]
    with pytest.raises(TraceError, match="it holds no events"):
        read(logdir, strict=True)
    assert read(logdir, run="2026_01_03").events.empty
    for old in ("2026_01_01", "2026_01_02"):
        shutil.rmtree(newest.parent / old)
        assert not read(logdir).runs[0].endswith(old)
    assert read(logdir).events.empty


def test_a_newest_run_of_json_without_events_is_stepped_over_and_said(tmp_path):
    for at, (run, source) in enumerate((("a", "generated/kineto/rank0.pt.trace.json.gz"), ("b", None))):
        file = tmp_path / run / "rank0.json"
        file.parent.mkdir()
        file.write_bytes(gzip.decompress(traces.path(source).read_bytes()) if source else b'{"traceEvents": []}')
        os.utime(file, (1000 + at, 1000 + at))
    trace = read(tmp_path)
    assert (trace.runs, len(trace.events) > 0) == (("a", "b"), True)
    assert trace.losses["evidence"].tolist() == ["b: it holds no events; a was read instead", "rank 1"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            ValueError("x"),
            "it is damaged in a way that tracekit does not know (ValueError in readers/__init__.py, line ",
        ),
        (KeyError("x"), "by a bug of tracekit: KeyError in readers/__init__.py, line "),
        (ModuleNotFoundError("No module named 'numba'"), "No module named 'numba'. Install tracekit anew."),
        (MemoryError(), "does not fit in memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "does not fit in memory"),
        (OSError(errno.EIO, "Input/output error"), "cannot be read: Input/output error."),
    ],
)
def test_what_a_reader_should_not_raise_is_damage_or_called_a_bug(logdir, monkeypatch, error, why):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("tracekit.readers._as_written", broken)
    with pytest.raises(TraceError, match=re.escape(why)) as raised:
        read(logdir, run="2026_01_01")
    assert str(raised.value).startswith(f"{logdir}/sub/plugins/profile/2026_01_01/host.xplane.pb ")


@pytest.fixture
def one_file(tmp_path):
    """A function that gives a trace of a format, and the file of it that a test writes to."""

    def made(kind):
        if kind == "xspace":
            path = write(tmp_path / "host.xplane.pb", TEXT % 9)
        elif kind == "json":
            write_rank(tmp_path, 0, reduces(100))
            path = tmp_path / "rank0.json"
        elif kind == "summary":
            summarise(write(tmp_path / "host.xplane.pb", TEXT % 9), tmp_path / "host.tracekit.zip")
            path = tmp_path / "host.tracekit.zip"
        else:
            export = Tables().kernel("k", 0, 9).write(tmp_path / "one.sqlite")
            path = export if kind != "parquet" else as_parquet(export, tmp_path / "tables") / "StringIds.parquet"
        table = path.with_name("CUPTI_ACTIVITY_KIND_KERNEL.parquet")
        return (table, path) if kind == "parquet" else (path, path)

    return made


def disturbed(monkeypatch, change):
    """Let `change` happen when a file was read, before its reader has ended."""
    as_written = readers._as_written

    def read_and_change(path, file_type):
        host = as_written(path, file_type)
        change()
        return host

    monkeypatch.setattr(readers, "_as_written", read_and_change)


@pytest.mark.parametrize("kind", ["xspace", "json", "sqlite", "parquet", "summary"])
def test_a_file_that_is_written_while_it_is_read_is_one_sentence(one_file, monkeypatch, kind):
    """Whatever its format, also where it is as long as it was, and where its reader fails by that."""
    path, written = one_file(kind)
    os.utime(written, (1000, 1000))
    read(path)
    content = written.read_bytes()
    disturbed(monkeypatch, lambda: written.write_bytes(content))
    sentence = f"{written} was written while it was read, so that what was read is of no one trace. Read it again when "
    with pytest.raises(TraceError, match=re.escape(sentence)):
        read(path)

    def fail(path, file_type):
        written.write_bytes(content[:-1])
        raise TraceError("it is damaged")

    monkeypatch.setattr(readers, "_as_written", fail)
    with pytest.raises(TraceError, match=re.escape(sentence)):
        read(path)


def test_a_file_that_is_replaced_while_it_is_read_is_refused_and_one_that_is_removed_was_read(one_file, monkeypatch):
    path, _ = one_file("xspace")
    os.utime(path, (1000, 1000))
    other = path.with_name("other")
    shutil.copy2(path, other)
    disturbed(monkeypatch, lambda: other.replace(path))
    with pytest.raises(TraceError, match="was written while it was read"):
        read(path)
    monkeypatch.undo()
    disturbed(monkeypatch, path.unlink)
    assert len(read(path).events) == 1


def test_a_database_whose_log_is_written_while_it_is_read_is_refused_and_an_empty_log_is_none(one_file, monkeypatch):
    path, _ = one_file("sqlite")
    log = path.with_name(f"{path.name}-wal")
    disturbed(monkeypatch, log.touch)
    assert len(read(path).events) == 1
    monkeypatch.undo()
    disturbed(monkeypatch, lambda: log.write_bytes(b"x" * 32))
    with pytest.raises(TraceError, match=r"one\.sqlite-wal was written while it was read"):
        read(path)


def test_of_a_run_a_file_that_is_written_while_it_is_read_is_lost(tmp_path, monkeypatch):
    for rank in (0, 1):
        write_rank(tmp_path, rank, reduces(100), world_size=2)
    os.utime(tmp_path / "rank1.json", (1000, 1000))
    disturbed(monkeypatch, (tmp_path / "rank1.json").touch)
    trace = read(tmp_path)
    assert trace.hosts["host"].tolist() == ["rank0"]
    ((what, evidence),) = trace.losses.loc[trace.losses["what"] == "files", ["what", "evidence"]].to_numpy().tolist()
    assert (what, evidence.split(",")[0]) == ("files", "rank1.json was written while it was read")


def test_what_a_capture_has_not_finished_is_no_run(logdir):
    shutil.copytree(logdir / "sub" / "plugins", logdir / "sub" / ".2026_01_04" / "plugins")
    assert read(logdir).runs == ("2026_01_01", "2026_01_02")


def test_what_capture_wrote_beside_the_trace_comes_along(logdir):
    facts = {"schema": 1, "usable_cores": 3}
    (logdir / "sub" / "plugins" / "profile" / "2026_01_01" / "capture.json").write_text(json.dumps(facts))
    assert read(logdir).capture == facts


@pytest.mark.parametrize(("code", "is_told"), [(1, True), (-9, True), (0, False), ("no number", False)])
def test_a_script_that_failed_is_told(logdir, code, is_told):
    facts = {"schema": 1, "exit_code": code}
    (logdir / "sub" / "plugins" / "profile" / "2026_01_01" / "capture.json").write_text(json.dumps(facts))
    sentence = f"The script ended with exit code {code}: the trace holds what ran until then."
    assert (sentence in read(logdir).notes) == is_told


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "does not exist"),
        (lambda path: path.mkdir(), "contains no trace"),
        (lambda path: path.write_text("x"), "is not a supported trace: it is text"),
    ],
)
def test_what_is_no_trace_is_one_sentence_that_says_what_to_give(tmp_path, make, message):
    make(tmp_path / "given")
    with pytest.raises(TraceError, match=rf"{message}.*Give the directory"):
        read(tmp_path / "given")


def test_several_hosts_in_one_run_become_one_trace(logdir):
    run = logdir / "sub" / "plugins" / "profile" / "2026_01_01"
    write(run / "other.xplane.pb", TEXT % 9)
    trace = read(logdir)
    assert trace.events["device"].tolist() == ["host/gpu:0", "other/gpu:0"]
    assert (trace.events["end_ps"] - trace.events["start_ps"]).tolist() == [2, 9]
    assert length(run / "other.xplane.pb") == 9


def write_rank(directory, rank, kernels, ahead_us=0, world_size=2):
    """A PyTorch trace of one rank: kernels are (name, start, end) in microseconds of one clock, which is off."""
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": 7,
            "ts": 1_700_000_000_000_000 + start + ahead_us,
            "dur": end - start,
            "args": {"device": 0, "stream": 7, "correlation": at},
        }
        for at, (name, start, end) in enumerate(kernels)
    ]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size},
        "traceEvents": events,
    }
    (directory / f"rank{rank}.json").write_text(json.dumps(document))


def reduces(*ends):
    return [("gemm", 0, 10), *((REDUCE, end - 40, end) for end in ends)]


def test_a_directory_of_ranks_is_one_trace_on_one_clock(tmp_path):
    write_rank(tmp_path, 0, reduces(100, 233, 371), world_size=3)
    write_rank(tmp_path, 1, reduces(101, 232, 374), ahead_us=5000, world_size=3)
    (tmp_path / "notes.json").write_text('{"not": "a trace"}')
    trace = read(tmp_path)
    assert (trace.source, trace.format, trace.runs) == (str(tmp_path), "kineto", (tmp_path.name,))
    microseconds = trace.events[["start_ps", "end_ps"]] // 10**6
    assert [
        [*row] for row in zip(trace.events["device"], microseconds["start_ps"], microseconds["end_ps"], strict=True)
    ] == [
        *[["rank0/gpu:0", start, end] for start, end in ((1, 11), (61, 101), (194, 234), (332, 372))],
        *[["rank1/gpu:0", start, end] for start, end in ((0, 10), (61, 101), (192, 232), (334, 374))],
    ]
    assert trace.notes[:2] == (
        "The clock of rank1 was 5.00 ms ahead of rank0's by the ends of 3 shared collectives: its times were shifted "
        "to fit, and ends now differ by at most 2.00 µs.",
        "The job had 3 ranks: rank 2 is missing.",
    )


def test_one_rank_has_plain_device_names_and_lacks_others_only_where_a_directory_was_to_hold_them(tmp_path):
    write_rank(tmp_path, 3, reduces(100), world_size=8)
    trace = read(tmp_path / "rank3.json")
    assert trace.events["device"].tolist() == ["gpu:0"] * 2
    assert not any("missing" in note for note in trace.notes)
    assert read(tmp_path).notes == ("The job had 8 ranks: ranks 0-2, 4-7 are missing.", *trace.notes)


def test_json_of_no_known_profiler_is_left_out_beside_others_and_an_error_alone(tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"traceEvents": [{"ph": "X", "name": "a", "cat": "b", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}')
    with pytest.raises(TraceError, match=r"holds trace events, but not as PyTorch, JAX or MXNet writes them"):
        read(other)
    write_rank(tmp_path, 0, reduces(100))
    assert read(tmp_path).notes[0] == "Skipped other.json: not written by PyTorch, JAX or MXNet."


def lost(trace) -> list[list]:
    """What was lost of the run."""
    of_run = trace.losses[trace.losses["host"] == ""]
    rows = of_run[["what", "lost", "total", "evidence"]].astype(object).to_numpy().tolist()
    return [[None if value is pd.NA else value for value in row] for row in rows]


def write_jax_json(path, duration_us):
    """What JAX writes of a host with one kernel."""
    process = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}}
    thread = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "Stream #7(Compute)"}}
    kernel = {"ph": "X", "name": "k", "pid": 1, "tid": 7, "ts": 1, "dur": duration_us}
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [process, thread, kernel]}).encode()))


LACKS = "which lacks HLO protos, asynchronous operations of TPUs, the memory of the host and details of devices"


def test_a_host_of_which_there_is_no_xspace_is_read_from_its_json(tmp_path):
    write(tmp_path / "a.xplane.pb", TEXT % 9_000_000)
    write_jax_json(tmp_path / "a.trace.json.gz", 9)  # a copy, as its name says
    write_jax_json(tmp_path / "b.trace.json.gz", 5)
    trace = read(tmp_path)
    assert (trace.format, trace.hosts["host"].tolist()) == ("xplane", ["a", "b"])
    assert trace.events["device"].tolist() == ["a/gpu:0", "b/gpu:0"]
    assert (trace.events["end_ps"] - trace.events["start_ps"]).tolist() == [9_000_000, 5_000_000]
    assert lost(trace) == [
        ["details", None, None, f"no .xplane.pb is beside b.trace.json.gz, read in its place, {LACKS}"]
    ]
    assert not any("Skipped" in note for note in trace.notes)
    # What is there twice, to the picosecond, is a copy by whatever name.
    write_jax_json(tmp_path / "b.trace.json.gz", 9)
    trace = read(tmp_path)
    assert trace.hosts["host"].tolist() == ["a"]
    assert "Skipped b.trace.json.gz: it holds the work of a.xplane.pb, which is not counted twice." in trace.notes
    # A damaged one is a host that is lost, unless it is a copy.
    for name in "ab":
        (tmp_path / f"{name}.trace.json.gz").write_bytes(b"no JSON")
    assert lost(read(tmp_path)) == [["files", 1, 2, "b.trace.json.gz is text"]]


@pytest.mark.parametrize("is_captured", [False, True])
def test_json_of_a_captured_run_stands_for_an_xspace_that_is_gone(tmp_path, is_captured):
    write_jax_json(tmp_path / "vm.trace.json.gz", 9)
    if is_captured:
        (tmp_path / "capture.json").write_text('{"schema": 1, "usable_cores": 2, "commit": null}')
    evidence = f"no .xplane.pb is beside vm.trace.json.gz, read in its place, {LACKS}"
    assert lost(read(tmp_path)) == ([["details", None, None, evidence]] if is_captured else [])
    assert lost(read(tmp_path / "vm.trace.json.gz")) == []  # who names it wants it


def test_a_rank_of_another_profiler_is_lost_and_one_of_both_is_read_once(tmp_path):
    write_rank(tmp_path, 0, reduces(100))
    Tables().kernel("k", 0, 9).write(tmp_path / "rank1.sqlite")
    left_out = "rank0.json is of another profiler than the Nsight Systems files, with which it is not merged"
    assert lost(read(tmp_path)) == [["files", 1, 2, left_out]]
    with pytest.raises(TraceError, match=left_out):
        read(tmp_path, strict=True)
    (tmp_path / "rank1.sqlite").rename(tmp_path / "rank0.sqlite")
    trace = read(tmp_path)
    assert lost(trace) == []
    assert "Skipped rank0.json: the run's Nsight Systems files were read instead." in trace.notes


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\0" * 500, "a.xplane.pb is corrupt or not an XSpace: the bytes at offset 0 are not a valid message"),
        (b"", "a.xplane.pb is empty (0 bytes): the profiler or a copy did not finish writing it"),
    ],
)
@pytest.mark.parametrize("others", [0, 1])
def test_the_json_of_an_xspace_that_cannot_be_read_is_read_in_its_place(tmp_path, content, why, others):
    for _ in range(others):
        write(tmp_path / "b.xplane.pb", TEXT % 9_000_000)
    (tmp_path / "a.xplane.pb").write_bytes(content)
    write_jax_json(tmp_path / "a.trace.json.gz", 5)
    trace = read(tmp_path)
    assert trace.hosts["host"].tolist() == ["a", "b"][: 1 + others]
    assert trace.format == ("xplane" if others else "jax-json")
    assert lost(trace) == [["details", None, None, f"{why}; a.trace.json.gz was read in its place, {LACKS}"]]
    with pytest.raises(TraceError, match=r"a\.trace\.json\.gz was read in its place"):
        read(tmp_path, strict=True)
    if content:  # the user named this one
        with pytest.raises(TraceError, match="corrupt or not an XSpace"):
            read(tmp_path / "a.xplane.pb")


def test_ranks_of_another_profiler_are_left_out(tmp_path):
    for rank in (0, 1):
        write_rank(tmp_path, rank, reduces(100))
    process = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}}
    event = {"ph": "X", "name": "fusion", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "host.trace.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": [process, event]}).encode()))
    trace = read(tmp_path)
    assert trace.format == "kineto"
    left_out = "host.trace.json.gz is of another profiler than the others, with which it is not merged"
    assert lost(trace) == [["files", 1, 3, left_out]]
    (tmp_path / "host.trace.json.gz").rename(tmp_path / "rank1.trace.json.gz")
    trace = read(tmp_path)
    assert trace.notes[0] == "Skipped rank1.trace.json.gz: written by another profiler than the other files."
    assert lost(trace) == []


def test_of_a_jax_run_the_xspace_is_read_and_its_json_copy_left_out(logdir):
    run = logdir / "sub" / "plugins" / "profile" / "2026_01_01"
    (run / "host.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}'))
    trace = read(run)
    assert (trace.format, len(trace.events), trace.notes) == ("xplane", 1, ())


def test_a_trace_without_events_is_a_trace(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    trace = read(path)
    assert (trace.format, len(trace.events), trace.hosts["host"].tolist()) == ("chrome", 0, ["t"])


def test_importing_the_readers_imports_neither_numba_nor_jax():
    code = "import sys, tracekit.readers; print({'numba', 'jax'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# Whole jobs whose ranks are on one clock: how many, and how far apart their collectives' ends are, in ps.
JOBS = {"generated/kineto": (2, 0), "kineto/dlrm-8xV100": (8, 7_000_000)}


def of_rank(file, rank):
    return re.match(rf"(worker|rank){rank}[_.]", file.name) is not None


def shift_clock(case, directory, rank, by_us):
    """A copy of the ranks of a job in `directory`, one of them with a clock that is off by `by_us`."""
    for file in traces.path(case).iterdir():
        if not of_rank(file, rank):
            shutil.copy(file, directory)
            continue
        document = json.loads(gzip.decompress(file.read_bytes()))
        for event in document["traceEvents"]:
            if "ts" in event and event["ph"] != "M":
                event["ts"] += by_us
        (directory / file.name).write_bytes(gzip.compress(json.dumps(document).encode()))
    return directory


def busy(trace):
    return {name.split("/")[0]: device.busy for name, device in timeline_of(trace).unions.devices.items()}


def pairs(trace):
    table = device_pairs(trace.events)
    return {
        tuple(device.split("/")[0] for device in (a, b)): overlap
        for a, b, overlap in zip(table["a"], table["b"], table["overlap_ps"], strict=True)
    }


@pytest.mark.parametrize("case", traces.cases(*JOBS))
def test_the_ranks_of_a_job_are_on_one_clock_and_overlap_as_known(case):
    ranks, spread = JOBS[case]
    trace = traces.trace(case)
    assert trace.hosts["host"].tolist() == [f"rank{rank}" for rank in range(ranks)]
    assert trace.hosts["shift_ps"].tolist() == [0] * ranks
    assert trace.hosts["residual_ps"].max() <= spread
    assert trace.events["clock"].isna().all()
    unions, overlaps = busy(trace), pairs(trace)
    for what, expected in traces.FIGURES[case].items():
        numbers = re.findall(r"rank (\d+)", what)
        if len(numbers) == 2:
            assert overlaps[tuple(f"rank{number}" for number in numbers)] == expected * 10**6
        else:
            assert iv.total(unions[f"rank{numbers[0]}"]) == expected["busy"] * 10**6


@pytest.mark.parametrize(
    ("case", "rank", "by_us"),
    [
        *(traces.param("generated/kineto", rank, by_us) for rank, by_us in ((1, 5000), (1, -1_000_000), (1, 3))),
        *(traces.param("kineto/dlrm-8xV100", *off) for off in ((3, 5000), (0, -1_000_000), (1, 3), (7, 40))),
    ],
)
def test_a_rank_whose_clock_is_off_is_put_back_to_within_the_spread_of_the_ends(tmp_path, case, rank, by_us):
    ranks, spread = JOBS[case]
    trace = read(shift_clock(case, tmp_path, rank, by_us))
    off = trace.hosts["host"] == f"rank{rank}"
    assert trace.hosts["shift_ps"][~off].tolist() == [0] * (ranks - 1)
    residual_ps = int(trace.hosts["shift_ps"][off].iloc[0]) + by_us * 10**6
    assert abs(residual_ps) <= max(spread, SKEW_PS)
    # The overlap with the others is what it is with that much left of the offset.
    unions, overlaps = busy(traces.trace(case)), pairs(trace)
    for other in {f"rank{at}" for at in range(ranks)} - {f"rank{rank}"}:
        expected = iv.total(iv.intersection(unions[other], unions[f"rank{rank}"] + residual_ps))
        assert overlaps[tuple(sorted((other, f"rank{rank}")))] == expected


def test_a_run_that_lacks_a_rank_is_not_whole_and_strict_refuses_it(tmp_path):
    told = []
    for rank in (0, 2):
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1 + rank, "dur": 9}
        kernel |= {"args": {"device": 0, "stream": 7, "correlation": 5}}
        job = {"traceEvents": [kernel], "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 3}}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(job | {"schemaVersion": 1}))
    asked = on_damage.set(lambda sentence, remedy: told.append(sentence))
    try:
        read(tmp_path)
    finally:
        on_damage.reset(asked)
    assert told == [f"{tmp_path} is not whole: 1 of 3 ranks or hosts have no file: rank 1."]
    with pytest.raises(TraceError, match=r"is not whole: 1 of 3 ranks .*rank 1\. Copy its files again"):
        read(tmp_path, strict=True)
    # One file of a job is not asked for the others.
    assert len(read(next(tmp_path.iterdir()), strict=True).events)


@pytest.mark.parametrize(
    ("case", "missing", "twice"),
    [traces.param("generated/kineto", 0, 1), traces.param("kineto/dlrm-8xV100", 2, 5)],
)
def test_a_rank_that_is_missing_is_noted_and_one_given_twice_counts_once(tmp_path, case, missing, twice):
    for file in traces.path(case).iterdir():
        if not of_rank(file, missing):
            shutil.copy(file, tmp_path)
    trace = read(tmp_path)
    assert f"The job had {JOBS[case][0]} ranks: rank {missing} is missing." in trace.notes
    (original,) = (file for file in tmp_path.iterdir() if of_rank(file, twice))
    shutil.copy(original, tmp_path / "again.json.gz")
    repeated = read(tmp_path)
    assert pairs(repeated) == pairs(trace)
    assert any("again.json.gz" in note and "not counted twice" in note for note in repeated.notes)


def ranks_of_four(folder, **sizes):
    """Files of ranks of a job of four, without those whose size is None; "" is that of a file that does not tell it."""
    document = json.loads(gzip.decompress((ROOT / "tests/data/generated/kineto/rank0.pt.trace.json.gz").read_bytes()))
    for rank in range(4):
        size = sizes.get(f"rank{rank}", 4)
        job = {"rank": rank} | ({"world_size": size} if size else {})
        if size is not None:
            (folder / f"rank{rank}.json").write_text(json.dumps(document | {"distributedInfo": job}))
    return folder


@pytest.mark.parametrize(
    ("sizes", "note", "lost"),
    [
        ({}, None, None),
        ({"rank1": ""}, None, None),
        ({"rank3": None}, "The job had 4 ranks: rank 3 is missing.", (1, 4, "rank 3")),
        ({"rank1": "", "rank3": None}, "The job had 4 ranks: rank 3 is missing.", (1, 4, "rank 3")),
        (
            {"rank1": 2, "rank3": None},
            "The files are of jobs of different sizes: 2 ranks by rank1.json; 4 ranks by rank0.json, rank2.json.",
            (None, None, "the files are of jobs of different sizes: 2 ranks by rank1.json; 4 ranks by rank0.json, "
             "rank2.json"),
        ),
    ],
)  # fmt: skip
def test_the_files_that_tell_the_size_of_the_job_tell_it_for_the_others(tmp_path, sizes, note, lost):
    trace = read(ranks_of_four(tmp_path, **sizes))
    found = trace.losses[trace.losses["what"] == "ranks"].astype(object)
    rows = [tuple(None if pd.isna(value) else value for value in row) for row in found.iloc[:, 2:].to_numpy()]
    assert rows == ([lost] if lost else [])
    assert [each for each in trace.notes if "The job had" in each or "jobs of" in each] == ([note] if note else [])
    assert completeness(timeline_of(trace)).is_complete is (lost is None)


@pytest.mark.parametrize("case", traces.cases(*JOBS))
def test_ranks_without_collectives_are_unaligned_and_nothing_is_said_across_them(tmp_path, case):
    for file in [*sorted(traces.path(case).iterdir())][:2]:
        document = json.loads(gzip.decompress(file.read_bytes()))
        document["traceEvents"] = [event for event in document["traceEvents"] if "nccl" not in str(event.get("name"))]
        (tmp_path / file.name).write_bytes(gzip.compress(json.dumps(document).encode()))
    trace = read(tmp_path)
    assert set(trace.events["clock"]) == {"rank0", "rank1"}
    assert device_pairs(trace.events)["overlap_ps"].isna().all()
    assert "clocks of rank0 and rank1: they are unaligned" in trace.notes[0]


@pytest.mark.parametrize(("hosts", "is_left_out"), [(24, True), (8, False)])
def test_a_damaged_host_is_a_hole_among_many_and_withholds_reasons_among_few(hosts, is_left_out, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    make = importlib.import_module("make_fleet")
    made = make.Fleet(hosts, steps=3, kernels=6, collectives=3)
    times = make.Times(made)
    for host in range(hosts):
        make.write_xspace(made, times, host, tmp_path)
    damaged = tmp_path / "host0003.xplane.pb"
    content = damaged.read_bytes()
    place = content.index(b"/device:GPU:5")
    damaged.write_bytes(content[: place + 13] + b"\xff" * 40 + content[place + 53 :])
    trace = read(tmp_path)
    found = completeness(timeline_of(trace))
    waits = collectives(timeline_of(trace), found.waiting).table["wait_ps"]
    assert ("host0003" in set(trace.events["host"])) is not is_left_out
    assert (found.rows == "", found.waiting == "") == (is_left_out, is_left_out)
    if is_left_out:
        assert waits.notna().all()
        (loss,) = trace.losses.to_dict("records")
        assert (loss["what"], loss["lost"], loss["total"]) == ("files", 1, hosts)
        assert loss["evidence"].startswith("host0003.xplane.pb, left out as it lacks planes: /device:GPU:5 ")
        assert "1 of 24 files of hosts or ranks could not be read (host0003.xplane.pb, left out" in trace.notes[0]
        with pytest.raises(TraceError, match="damaged"):
            read(tmp_path, strict=True)
    alone = read(damaged)
    assert alone.losses["what"].tolist() == ["planes"]
    assert len(alone.events) > 0


@pytest.mark.parametrize(("hosts", "lossy", "is_left_out"), [(24, [3], True), (24, [3, 7], False), (8, [3], False)])
def test_a_host_that_lost_what_it_launched_is_a_hole_among_many_too(hosts, lossy, is_left_out, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    make = importlib.import_module("make_fleet")
    make.write(make.Fleet(hosts, steps=5, kernels=6, collectives=3), tmp_path, 0)
    trace = read(tmp_path)
    devices = [f"host{host:04}/gpu:5" for host in lossy]
    lost = trace.events["device"].isin(devices) & (trace.events["kind"] == "compute")
    timeline = timeline_of(replace(trace, events=trace.events[~lost].reset_index(drop=True)))
    found = completeness(timeline)
    assert ({"host0003"} <= set(timeline.trace.events["host"])) is not is_left_out
    assert ({"host0003"} <= set(timeline.trace.hosts["host"])) is not is_left_out
    assert (found.rows == "") is is_left_out
    if not is_left_out:
        assert found.rows == "30 of 360 kernels and copies that the host launched have no row on a device."
        assert timeline.trace.notes == trace.notes
        return
    (loss,) = timeline.trace.losses.to_dict("records")
    assert (loss["what"], loss["lost"], loss["total"]) == ("files", 1, 24)
    what = "30 of 360 kernels and copies that it launched have no row on a device"
    assert loss["evidence"] == f"host0003, left out as {what}"
    assert f"1 of 24 files of hosts or ranks could not be read (host0003, left out as {what})." in timeline.trace.notes
    assert collectives(timeline, found.waiting).table["wait_ps"].notna().all()
    assert len(idle(timeline).gaps)


@pytest.mark.parametrize("how", ["whole", "part"])
@pytest.mark.parametrize(
    ("removed", "broken", "absent"),
    [
        ([2], [], "host0002 is missing, no file of it is here"),
        ([2, 4], [], "host0002, host0004 are missing, no file of them is here"),
        ([0, 5], [], None),  # or host0006
        ([2], [1], "host0002 is missing, no file of it is here"),
        ([], [1], None),  # that is told by itself
        ([], [], None),
    ],
)
def test_a_machine_without_a_file_is_told_by_the_size_of_the_job_and_the_names_of_others(
    removed, broken, absent, how, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    make = importlib.import_module("make_fleet")
    make.write(make.Fleet(6, steps=3, kernels=6, collectives=3), tmp_path, 3)
    for host in removed:
        (file,) = tmp_path.glob(f"host{host:04}.*")
        file.unlink()
    for host in broken:
        (file,) = tmp_path.glob(f"host{host:04}.*")
        # Nothing of it can be read, or of some devices what stands before it breaks off.
        file.write_bytes(b"\0" * 100 if how == "whole" else file.read_bytes()[: file.stat().st_size // 2])
    notes = [note for note in read(tmp_path).notes if "The job had" in note]
    assert notes == ([f"The job had 48 devices on 6 hosts, 8 on each: {absent}."] if absent else [])
