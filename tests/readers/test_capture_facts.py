"""capture.json beside a trace: what is damaged of it costs only itself, and is told."""

import json
import os
from pathlib import Path

import pytest

from tests import traces
from tracekit import report
from tracekit.errors import TraceError
from tracekit.readers import host_trace, read, summary
from tracekit.readers.find import find
from tracekit.vocabulary.losses import Loss

MACHINE = {
    "cores": 2,
    "load_average": [3.0, None],
    "throttled": {"periods": 0, "throttled_s": 0.0},
    "samples": {
        "unix_ns": [1795728427391000000, 1795728427608637602],
        "own_cpu_s": [0.0, 0.07],
        "other_cpu_s": [0.0, 0.34],
        "stolen_cpu_s": [0.0, 0.0],
        "frequency_mhz": [2596.1, 2596.1],
    },
    "lacking": {"cpu": "why"},
}
FACTS = {"schema": 1, "exit_code": 139, "usable_cores": 2, "commit": None, "xla_flags": "", "machines": {"a": "m"}}
FACTS |= {"machine": MACHINE, "x": [None]}


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "gpu.xplane.pb").write_bytes(traces.path("generated/gpu.xplane.pb").read_bytes())
    return tmp_path


def told(trace):
    """The losses but that of the other rank of a job, of which no file is there."""
    return [(row.what, row.evidence) for row in trace.losses.itertuples() if row.what != "ranks"]


def with_machine(**samples):
    return FACTS | {"machine": MACHINE | {"samples": MACHINE["samples"] | samples}}


def test_what_is_whole_is_there_and_nothing_is_told(trace):
    (trace / "capture.json").write_text(json.dumps(FACTS))
    assert read(trace, strict=True).capture == FACTS
    assert told(read(trace)) == []


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(FACTS)[:60],
        "",
        "[1]",
        "[" * 200_000,
        '{"exit_code": ' + "9" * 5000 + "}",
        b"\xff\xfe{",
        b'{"x": "' + b"x" * (17 << 20) + b'"}',
    ],
    ids=["cut", "empty", "list", "nested", "digits", "bytes", "large"],
)
def test_a_file_that_is_not_whole_is_told_and_costs_no_event(trace, text):
    whole = read(trace)
    (trace / "capture.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    without = read(trace)
    assert without.capture is None
    assert without.events.equals(whole.events)
    ((what, evidence),) = told(without)
    assert what == Loss.DETAILS
    assert evidence.startswith("capture.json: ")
    assert f"Some details of devices and events could not be read ({evidence})." in without.notes
    with pytest.raises(TraceError, match=r"is damaged: .*capture\.json"):
        read(trace, strict=True)


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"\xff\xfe{", b"", bytes(99), b"<html>", b"\x1f\x8b", b"PK\x03\x04"])
@pytest.mark.parametrize("name", ["rank0.json", "capture3.json", "1_results.json"])
def test_what_is_no_json_is_no_file_of_a_rank(tmp_path, name, text):
    (tmp_path / name).write_bytes(traces.path("kineto-rank1.pt.trace.json").read_bytes())
    (tmp_path / "capture.json").write_bytes(text)
    ((what, evidence),) = told(read(tmp_path))
    assert (what, evidence.startswith("capture.json: ")) == (Loss.DETAILS, True)


@pytest.mark.parametrize("folder", ["run_pqtdir", "run/nvtx_gpu_proj_trace"])
def test_beside_a_directory_that_stands_for_a_file_it_is_of_that(tmp_path, folder, monkeypatch):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / ("StringIds.parquet" if "pqt" in folder else "trace.parquet")).write_bytes(b"PAR1")
    assert find(tmp_path).capture == tmp_path / folder
    (tmp_path / "capture.json").write_text("{")
    assert find(tmp_path).capture == tmp_path
    monkeypatch.chdir(tmp_path / Path(folder).parts[0])
    assert find(Path()).capture == tmp_path
    (tmp_path / folder / "capture.json").write_text("{}")
    assert find(tmp_path).capture == tmp_path / folder


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_not_read(trace, make):
    make(trace / "capture.json")
    ((_, evidence),) = told(read(trace))
    assert evidence.startswith("capture.json: ")


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (FACTS | {"exit_code": "x"}, "exit_code"),
        (FACTS | {"machines": {"a": 1}}, "machines"),
        (FACTS | {"machines": ["a"]}, "machines"),
        (FACTS | {"usable_cores": 1e300}, "usable_cores"),
        (FACTS | {"commit": {}}, "commit"),
        (FACTS | {"machine": "x"}, "machine"),
        (FACTS | {"machine": MACHINE | {"cores": 2**63}}, "machine"),
        (FACTS | {"machine": MACHINE | {"load_average": [1e300]}}, "machine"),
        (with_machine(unix_ns=[2**63, 1795728427608637602]), "machine"),
        (with_machine(unix_ns=[]), "machine"),
        (with_machine(own_cpu_s=[0.0, "x"]), "machine"),
        (with_machine(own_cpu_s=[0.0, float("nan")]), "machine"),
        (with_machine(other_cpu_s=[0.0]), "machine"),
        (with_machine(stolen_cpu_s=None), "machine"),
        (with_machine(frequency_mhz=[1e300, 1e300]), "machine"),
    ],
)
def test_a_value_that_is_not_of_its_form_costs_itself(trace, tmp_path, facts, name):
    (trace / "capture.json").write_text(json.dumps(facts))
    one = read(trace)
    assert one.capture == {key: value for key, value in FACTS.items() if key != name}
    ((what, evidence),) = told(one)
    assert (what, evidence.startswith(f"capture.json: {name}: ")) == (Loss.DETAILS, True)
    report(trace, tmp_path.parent / f"{tmp_path.name}-report")


@pytest.mark.parametrize(
    ("text", "kept", "why", "unknown"),
    [
        ("{}", None, "it has no schema", "how the script ended"),
        ('{"world_size": 2}', None, "it has no schema", "the commit"),
        ('{"schema": 99, "exit_code": 1}', None, "its schema is 99", "how the script ended"),
        ('{"schema": true, "exit_code": 1}', None, "its schema is True", "how the script ended"),
        ('{"schema": 1}', {}, "usable_cores: it is missing; commit: it is missing", "how many cores it could use, the"),
        ('{"schema": 1, "commit": "a"}', {"commit": "a"}, "usable_cores: it is missing", "how many cores"),
        (json.dumps(FACTS | {"usable_cores": float("nan"), "commit": 1}), None, "usable_cores: ", "the commit"),
        (json.dumps(FACTS | {"x": [1e300]}).replace("1e+300", "1e400"), None, "x: it holds a number out of range", ""),
        (json.dumps(FACTS | {"command": "x", "started": 1}), None, "command: ", "the command, when it began"),
    ],
)
def test_what_is_not_understood_is_told_in_one_note_with_what_is_unknown_by_it(trace, text, kept, why, unknown):
    (trace / "capture.json").write_text(text)
    one = read(trace)
    if kept is not None:
        assert one.capture == {"schema": 1} | kept
    elif '"schema": 1,' not in text:
        assert one.capture is None
    ((what, evidence),) = told(one)
    assert (what, evidence.startswith("capture.json: "), why in evidence) == (Loss.DETAILS, True, True)
    assert unknown in evidence.partition("not known because of it: ")[2]
    assert sum("capture.json" in note for note in one.notes) == 1


def test_a_trace_that_is_called_so_itself_has_none(tmp_path):
    (tmp_path / "capture.json").write_bytes(traces.path("kineto-rank1.pt.trace.json").read_bytes())
    for source in (tmp_path, tmp_path / "capture.json"):
        assert (read(source).capture, told(read(source))) == (None, [])


def test_a_summary_tells_what_is_lost_of_the_capture(trace, tmp_path):
    path = tmp_path.parent / f"{tmp_path.name}.tracekit.zip"
    for text in (json.dumps(FACTS | {"exit_code": "x"}), "{"):
        (trace / "capture.json").write_text(text)
        summary.write(host_trace(trace), path)
        assert read(path).capture == read(trace).capture
        assert told(read(path)) == told(read(trace))
