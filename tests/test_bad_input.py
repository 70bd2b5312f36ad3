"""Whatever cannot be read is one sentence on stderr and exit code 1: never a traceback, never half a report."""

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import traces
from tests.readers.nsys.exports import Tables
from tests.readers.xspaces import PlaneText, write
from tracekit import report
from tracekit.cli import main
from tracekit.errors import on_damage

DATA = Path(__file__).parent / "data"
SMALL = (DATA / "view-cpu.xplane.pb").read_bytes()
COMMANDS = ("read", "report")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


def reads_everything() -> bool:
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0)
        return os.access(file.name, os.R_OK)


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run `tracekit command path` in a directory of its own; gives exit code, stdout, stderr and what was written."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)

    def run(command, path, *options):
        out = ("--out", str(home / "out")) if command == "report" else ()
        monkeypatch.setattr("sys.argv", ["tracekit", command, str(path), *out, *options])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err, sorted(file.name for file in home.iterdir())

    return run


def sentence_of(result) -> str:
    """The sentence with which a command failed, checked to be nothing but that."""
    code, out, err, files = result
    assert (code, out, files) == (1, "", []), err
    assert err.startswith("tracekit: ")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    return err


def of_bytes(data):
    return lambda path: path.write_bytes(data)


def sqlite(path):
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE notes (line TEXT)")
    base.close()


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", "{}")


def link_to_nothing(path):
    path.symlink_to(path.parent / "gone")


KINETO = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": at, "dur": 1} for at in range(99)],
    }
).encode()


def write_damaged_gzip(path):
    """A gzip stream with one bad byte, further in than the bytes that tell the format."""
    packed = bytearray(gzip.compress(random.Random(0).randbytes(900_000)))
    packed[600_000:600_040] = bytes(40)
    path.write_bytes(packed)


# Name of what is given -> how it is made.
UNREADABLE = {
    "missing.xplane.pb": lambda path: None,
    "missing": lambda path: None,
    "dangling.json": link_to_nothing,
    "directory": lambda path: path.mkdir(),
    "directory.xplane.pb": lambda path: path.mkdir(),
    "directory with a text": lambda path: (path.mkdir(), (path / "readme.txt").write_text("hello")),
    "empty.xplane.pb": of_bytes(b""),
    "empty.json": of_bytes(b""),
    "empty.json.gz": of_bytes(gzip.compress(b"")),
    "empty.xplane.pb.gz": of_bytes(gzip.compress(b"")),
    "empty.sqlite": of_bytes(b""),
    "zeros.xplane.pb": of_bytes(bytes(5000)),
    "zeros.json": of_bytes(bytes(5000)),
    "zeros.sqlite": of_bytes(bytes(5000)),
    "text.xplane.pb": of_bytes(b"hello, world\n" * 99),
    "text.txt": of_bytes(b"hello, world\n" * 99),
    "text.json": of_bytes(b"hello, world\n" * 99),
    "latin1.json": of_bytes(b'{"traceEvents": [{"ph": "X", "name": \xe4'),
    "picture.png": of_bytes(PNG),
    "picture.xplane.pb": of_bytes(PNG),
    "archive.zip": write_zip,
    "archive.xplane.pb": write_zip,
    "report.nsys-rep": of_bytes(b"\x0a\x05NVIDIA" * 99),
    "other.sqlite": sqlite,
    "other.json": of_bytes(b'{"name": "package", "version": 1}'),
    "numbers.json": of_bytes(b"[1, 2, 3]"),
    "number.json": of_bytes(b"17"),
    "objects.json": of_bytes(b'[{"a": 1}, {"b": 2}]'),
    "cut.xplane.pb.gz": of_bytes(gzip.compress(SMALL)[:30]),
    "cut.json.gz": of_bytes(gzip.compress(KINETO)[:12]),
    "damaged.xplane.pb.gz": write_damaged_gzip,
    "broken.json.gz": of_bytes(b"\x1f\x8b\x08\x00 this is no gzip"),
    "cut.sqlite": lambda path: (sqlite(path), path.write_bytes(path.read_bytes()[:50])),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_trace_is_one_sentence(cli, tmp_path, name, command):
    path = tmp_path / name
    UNREADABLE[name](path)
    assert str(path) in sentence_of(cli(command, path))


def test_a_report_of_nsight_systems_is_told_how_to_export_it(cli, tmp_path):
    path = tmp_path / "my report.nsys-rep"
    path.write_bytes(b"whatever")
    sentence = sentence_of(cli("read", path))
    assert "nsys export --type sqlite" in sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_a_trace_mangled_by_a_text_encoding_is_one_sentence(cli, tmp_path, command):
    path = tmp_path / "mangled.xplane.pb"
    path.write_bytes(SMALL.decode("utf-8", "replace").encode())
    assert "is corrupt or not an XSpace" in sentence_of(cli(command, path))


@pytest.mark.parametrize("command", COMMANDS)
@traces.needs_real
def test_a_real_trace_mangled_by_a_text_encoding_is_one_sentence(cli, command):
    path = traces.xspace("xplane/corrupt")
    assert "is corrupt or not an XSpace" in sentence_of(cli(command, path))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.skipif(reads_everything(), reason="this user (root) may read everything")
@pytest.mark.parametrize(
    ("closed", "requested"),
    [
        ("trace.xplane.pb", "trace.xplane.pb"),
        ("directory", "directory"),
        ("directory", "directory/trace.xplane.pb"),
        ("above/below", "above"),
        ("log/plugins/profile/run", "log"),
    ],
)
def test_what_may_not_be_read_is_one_sentence(cli, tmp_path, closed, requested, command):
    path = tmp_path / closed
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SMALL) if path.suffix else path.mkdir()
    path.chmod(0)
    try:
        sentence = sentence_of(cli(command, tmp_path / requested))
    finally:
        path.chmod(0o700)
    assert str(path) in sentence
    assert "Permission denied" in sentence


@pytest.mark.skipif(reads_everything(), reason="this user (root) may read everything")
@pytest.mark.parametrize(
    ("closed", "whole", "said"),
    [
        ("rank_2", "rank_0/t.xplane.pb", "rank_2 cannot be read: Permission denied"),
        ("rank_2", "rank_0/plugins/profile/run/t.xplane.pb", "rank_2 cannot be read: Permission denied"),
        ("plugins/profile/b", "plugins/profile/a/t.xplane.pb", "b: it cannot be read: Permission denied; a was read"),
        ("beside", "plugins/profile/a/t.xplane.pb", "beside: it cannot be read: Permission denied; a was read"),
        ("today", "before/plugins/profile/a/t.xplane.pb", "today: it cannot be read: Permission denied; a was read"),
        ("lost+found", "plugins/profile/a/t.xplane.pb", None),
    ],
)
def test_a_directory_that_is_closed_costs_itself(cli, tmp_path, closed, whole, said):
    (tmp_path / whole).parent.mkdir(parents=True)
    (tmp_path / whole).write_bytes(SMALL)
    os.utime(tmp_path / whole, (1000, 1000))
    (tmp_path / closed).mkdir()
    (tmp_path / closed).chmod(0)
    try:
        code, out, err, _ = cli("read", tmp_path)
    finally:
        (tmp_path / closed).chmod(0o700)
    assert (code, err) == (0, "")
    assert (said or "") in " ".join(out.split())
    assert ("could not be read" in out) is (said is not None)


@pytest.mark.skipif(reads_everything(), reason="this user (root) may read everything")
def test_a_link_that_may_not_be_followed_costs_itself(cli, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "rank_0.xplane.pb").write_bytes(SMALL)
    (tmp_path / "closed").mkdir()
    for name in ("rank_1.xplane.pb", "notes.txt"):
        (run / name).symlink_to(f"../closed/{name}")
    (tmp_path / "closed").chmod(0)
    try:
        code, out, _, _ = cli("read", run)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert code == 0
    told = "rank_1.xplane.pb is not readable: Permission denied"
    assert told in " ".join(out.split())
    assert "notes.txt" not in out


BROKEN_RANKS = {
    "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(500)),
    "a page": lambda path: path.write_bytes(b"<!DOCTYPE html><html>404</html>"),
    "zeros": lambda path: path.write_bytes(bytes(500)),
    "ten bytes": lambda path: path.write_bytes(b"\x0a\xff\xff\xff\xff12345"),
    "nothing": lambda path: path.write_bytes(b""),
    "link to nothing": link_to_nothing,
    "half": lambda path: path.write_bytes(SMALL[:2000]),
}


@pytest.mark.parametrize("kind", ["xplane", "kineto"])
@pytest.mark.parametrize("broken", BROKEN_RANKS)
def test_one_broken_rank_of_several_is_left_out_told_and_with_strict_refused(cli, tmp_path, broken, kind):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    suffix, whole = (".xplane.pb", SMALL) if kind == "xplane" else (".json", KINETO)
    for rank in (0, 2):
        (ranks / f"rank{rank}{suffix}").write_bytes(whole)
    BROKEN_RANKS[broken](ranks / f"rank1{suffix}")
    code, out, err, _ = cli("read", ranks)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "1 of 3 files of hosts or ranks could not be read (" in said
    assert f"rank1{suffix}" in said
    assert "1 of 3 files of hosts or ranks could not be read" in sentence_of(cli("read", ranks, "--strict"))


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--out", "o.csv", "--table", "events"],
        ["figure", "--what", "gantt", "--out", "f"],
        ["check", "--max-idle", "99%"],
        ["compare", "whole"],
        ["baseline", "save", "b", "--baselines", "b"],
    ],
    ids=lambda words: words[0],
)
def test_damage_is_told_by_every_command_that_reads_a_trace_and_with_strict_refused(cli, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    for name in ("whole", "damaged"):
        (tmp_path / name).mkdir()
        for rank in (0, 2):
            (tmp_path / name / f"rank{rank}.xplane.pb").write_bytes(SMALL)
    (tmp_path / "damaged" / "rank1.xplane.pb").write_bytes(b"damaged")
    said = "damaged is damaged: 1 of 3 files of hosts or ranks could not be read"
    assert said in "".join(cli(*words, "damaged")[1:3])
    there = {*tmp_path.rglob("*")}
    assert said in sentence_of(cli(*words, "damaged", "--strict"))
    assert {*tmp_path.rglob("*")} == there


@pytest.mark.parametrize(
    "words",
    [
        ["report"],
        ["check", "--max-idle", "99%"],
        ["compare", "whole"],
        ["baseline", "save", "b", "--baselines", "b"],
    ],
    ids=lambda words: words[0],
)
def test_what_a_saved_report_lacks_is_told_like_that_of_its_trace_and_with_strict_refused(
    cli, tmp_path, monkeypatch, words
):
    """A gate is often given reports: what was missing when they were made is so still."""
    monkeypatch.chdir(tmp_path)
    for name in ("whole", "damaged"):
        (tmp_path / "traces" / name).mkdir(parents=True)
        for rank in (0, 2):
            (tmp_path / "traces" / name / f"rank{rank}.xplane.pb").write_bytes(SMALL)
    (tmp_path / "traces" / "damaged" / "rank1.xplane.pb").write_bytes(b"damaged")
    on_damage.set(lambda sentence, remedy: None)  # what a command of another test set, whose process this is
    for name in ("whole", "damaged"):
        report(f"traces/{name}", name)
    there = {*tmp_path.rglob("*")}
    said = "is damaged: 1 of 3 files of hosts or ranks could not be read"
    assert said in sentence_of(cli(*words, "damaged", "--strict"))
    assert {*tmp_path.rglob("*")} == there
    assert cli(*words, "whole", "--strict")[0] == 0
    told = "Some of the work is missing" if words == ["report"] else said
    assert told in " ".join("".join(cli(*words, "damaged")[1:3]).split())


def test_ranks_that_only_collectives_prove_to_be_missing_are_told_and_with_strict_refused(cli, tmp_path):
    """Two files of a job of four; one file by itself is not asked for the others."""
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in (0, 1):
        args = {"device": 0, "stream": 7, "Collective name": "allreduce", "Process Group Name": "0"}
        args |= {"Process Group Ranks": "[0, 1, 2, 3]", "Group size": 4}
        kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7}
        rows = [{**kernel, "ts": 100 * at + rank, "dur": 90, "args": args} for at in range(9)]
        (ranks / f"host{rank}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    said = "9 collectives (0) are of 4 ranks (0, 1, 2, 3), of which the trace holds 2"
    read = cli("read", ranks)
    assert (read[0], said in " ".join(read[1].split())) == (0, True)
    for words in (["read", ranks], ["report", ranks], ["check", ranks, "--max-idle", "99%"]):
        assert said in sentence_of(cli(*words, "--strict"))
    checked = cli("check", ranks, "--max-idle", "99%")
    assert (checked[0], said in checked[1]) == (0, True)
    compared = cli("compare", ranks, str(ranks / "host0.json"), "--out", str(tmp_path.parent / "c"))
    assert (compared[0], f"The trace of A is not whole: {said}" in " ".join(compared[1].split())) == (0, True)
    for name in ("comparison.json", "comparison.html"):
        assert said in (tmp_path.parent / "c" / name).read_text("utf-8")
    assert cli("read", ranks / "host0.json", "--strict")[0] == 0


def test_a_line_of_json_without_a_name_is_lost_and_strict_refuses_what_the_report_withholds(cli, tmp_path):
    document = json.loads(gzip.decompress(traces.path("generated/gpu.trace.json.gz").read_bytes()))
    path, out = tmp_path / "t.trace.json", tmp_path / "out"
    for event in document["traceEvents"]:
        if event.get("name") == "thread_name" and event["args"]["name"].startswith("Stream #13"):
            event["args"]["name"] = None
    path.write_text(json.dumps(document))
    assert "lines of planes could not be read (without a name, of gpu:0)" in sentence_of(cli("read", path, "--strict"))
    assert cli("report", path, "--out", out)[0] == 0
    assert "could not be read" in sentence_of(cli("report", out, "--strict"))


def _calls_without_kernels(directory):
    tables = Tables()
    for at in range(40):
        tables.call("cudaLaunchKernel_v7000", 100 * at, 100 * at + 5, at + 1)
        if at < 10 or at == 39:
            tables.kernel("k", 100 * at + 10, 100 * at + 90, correlationId=at + 1)
    return tables.write(directory / "t.sqlite")


def _calls_without_kernels_of_pytorch(directory):
    events = []
    for at in range(40):
        args = {"correlation": at + 1}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 5}
        events.append({**call, "ts": 10 * at, "args": args})
        if at < 10 or at == 39:
            events.append({**kernel, "ts": 10 * at + 3, "args": {**args, "device": 0, "stream": 7}})
    path = directory / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.mark.parametrize("written", [_calls_without_kernels, _calls_without_kernels_of_pytorch])
def test_what_only_launches_show_to_be_lost_strict_refuses_when_it_reads_and_when_it_reports(cli, tmp_path, written):
    path = written(tmp_path)
    said = "29 of 40 kernels and copies that the host launched have no row on a device."
    assert cli("read", path)[0] == 0
    assert said in sentence_of(cli("read", path, "--strict"))
    assert said in sentence_of(cli("report", path, "--strict"))


def test_where_kinds_are_lost_no_face_counts_them(cli, tmp_path):
    rows = [
        {"ph": "X", "cat": "kernel", "ts": at, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
        for at in (10, 20)
    ]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    code, out, _, _ = cli("report", tmp_path / "t.json", "--out", tmp_path / "out", "--json")
    assert code == 0
    (device,) = json.loads(out)["devices"]
    assert {kind["events"] for kind in device["kinds"].values()} == {None}
    assert json.loads(out)["completeness"]["losses"][0]["what"] == "kinds"


def test_a_wall_of_which_the_end_is_missing_holds_no_bound(cli, tmp_path):
    rows = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "ts": at,
            "dur": 5,
            "pid": 0,
            "tid": 7,
            "args": {"device": 0, "stream": 7},
        }
        for at in range(10, 1000, 10)
    ]
    text = json.dumps({"schemaVersion": 1, "traceEvents": rows})
    (tmp_path / "t.json").write_text(text)
    assert cli("check", tmp_path / "t.json", "--max-wall", "600us")[0] == 3
    (tmp_path / "t.json").write_text(text[: len(text) // 2])
    code, out, _, _ = cli("check", tmp_path / "t.json", "--max-wall", "600us")
    assert code == 4
    assert "cannot be told  wall at most 600.0 µs" in out


def test_where_no_rank_can_be_read_the_first_is_named(cli, tmp_path):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in (0, 1):
        (ranks / f"rank{rank}.xplane.pb").write_bytes(SMALL[:300])
    assert "rank0.xplane.pb" in sentence_of(cli("read", ranks))


def test_a_rank_of_its_own_directory_that_holds_no_trace_is_told(cli, tmp_path):
    for rank in range(3):
        (tmp_path / "job" / f"rank_{rank}").mkdir(parents=True)
        (tmp_path / "job" / f"rank_{rank}" / "step.json").write_bytes(KINETO if rank != 1 else bytes(99))
    code, out, _, _ = cli("read", tmp_path / "job")
    assert code == 0
    assert "1 of 3 files of hosts or ranks could not be read (rank_1/step.json is all zeros" in " ".join(out.split())


def test_json_that_breaks_off_is_read_as_far_as_it_goes_and_says_so(cli, tmp_path):
    path = tmp_path / "cut.json"
    path.write_bytes(KINETO[:-40])
    code, out, err, _ = cli("read", path)
    assert (code, err) == (0, "")
    assert "The file is truncated" in out


def boundaries(data: bytes) -> set[int]:
    """Where the top-level fields of a message end, its start too: varint tag, varint length, that many bytes."""
    ends, at = {0}, 0
    while at < len(data):
        size = shift = 0
        at += 1  # one byte of tag: field numbers of an XSpace are below 16
        while True:
            size |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        at += size
        ends.add(at)
    assert at == len(data)
    return ends


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, len(SMALL) - 1))
def test_a_file_cut_anywhere_is_one_sentence_or_holds_whole_planes(cli, tmp_path, length):
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(SMALL[:length])
    result = cli("read", path)
    whole = [end for end in sorted(boundaries(SMALL)) if 0 < end <= length]
    if not whole:
        assert str(path) in sentence_of(result)
    else:
        assert result[0] == 0
        assert ("could not be read" in " ".join(result[1].split())) == (length not in whole)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_cut_inside_a_plane_is_one_sentence(cli, tmp_path, command):
    path = tmp_path / "cut.xplane.pb"
    plane = PlaneText("/device:GPU:0").event("Stream #1(Compute)", "kernel", 0, 100, correlation_id=7)
    write(path, plane.text())
    data = path.read_bytes()
    step = 1 if command == "read" else 9
    for length in range(1, len(data), step):
        path.write_bytes(data[:length])
        sentence_of(cli(command, path))


# What writes where --out or another option says, and the words before that.
WRITERS = (
    ("report", "--out"),
    ("export", "--out"),
    ("figure", "--out"),
    ("summarise", "--out"),
    ("compare", str(DATA / "view-cpu.xplane.pb"), "--out"),
    ("check", "--max-idle", "99%", "--junit"),
)


@pytest.mark.parametrize("words", WRITERS, ids=[word for word, *_ in WRITERS])
def test_links_in_a_circle_end_in_no_bug(tmp_path, words):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    command, *options = words
    trace = str(DATA / "view-cpu.xplane.pb")
    process = subprocess.run(
        [sys.executable, "-m", "tracekit", command, trace, *options, str(loop)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
        cwd=tmp_path,
        check=False,
    )
    assert "a bug of tracekit" not in process.stderr
    assert "Traceback" not in process.stderr
    is_refused = command in ("report", "compare", "figure")  # others put their file in the place of the link
    assert process.returncode == is_refused, process.stderr
    assert ("cannot be written" in process.stderr) == is_refused
    assert loop.is_file() != is_refused
    (tmp_path / "source").symlink_to("source")
    command_of_source = [sys.executable, "-m", "tracekit", command, "source", *options[:-1]]
    of_source = subprocess.run(command_of_source, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert of_source.returncode != 0
    assert "a bug of tracekit" not in of_source.stderr


def test_a_report_of_a_trace_leaves_what_is_of_others_where_it_is(cli, tmp_path):
    mine = tmp_path / "home" / "out" / "frames" / "0001.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    code, out, err, _ = cli("report", DATA / "view-cpu.xplane.pb")
    assert (code, out) == (1, "")
    assert "out holds frames, which is of no report that tracekit saved, and would be lost." in err
    assert mine.read_text() == "precious"


def test_what_others_put_into_reports_is_no_obstacle_to_a_report_below_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "reports" / "report.html"
    mine.parent.mkdir()
    mine.write_text("of the tests")
    monkeypatch.setattr("sys.argv", ["tracekit", "report", str(DATA / "view-cpu.xplane.pb")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert (tmp_path / "reports" / "view-cpu" / "report.html").is_file()
    assert mine.read_text() == "of the tests"
