"""Which files a path means, and what each is by its content; what is no trace is said in one sentence."""

import errno
import gzip
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.readers.layouts import KINETO, sqlite, write_file, xspace
from tracekit.errors import TraceError
from tracekit.readers import find as find_module
from tracekit.readers import formats
from tracekit.readers.find import find

NEXT = (
    "Give the directory that `tracekit capture` wrote, or traces of JAX, PyTorch, MXNet, Nsight Systems "
    "(SQLite, Parquet), nsys-jax or rocprofv3 (JSON); docs/formats.md says how to record them."
)

UTF_16 = "text in UTF-16, and traces are UTF-8: convert it, as by `iconv -f UTF-16 -t UTF-8`"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def names(trace_files):
    return [file.name for file in trace_files.files]


@pytest.mark.parametrize(
    ("name", "content", "description"),
    [
        ("a.json", b"", "empty (0 bytes): the profiler or a copy did not finish writing it"),
        ("a.xplane.pb", b"", "empty (0 bytes): the profiler or a copy did not finish writing it"),
        ("a.pftrace", b"\n\x0a\x08\x01", "a Perfetto trace; give the file that it was converted from"),
        ("a.zip", b"PK\x03\x04...", "a zip archive that is cut off or damaged; copy it again, in binary mode"),
        ("a.xplane.pb", b"PK\x03\x04...", "a zip archive that is cut off or damaged; copy it again, in binary mode"),
        ("a.png", b"\x89PNG\r\n", "an image"),
        ("a.json", '{"traceEvents": []}'.encode("utf-16"), UTF_16),
        ("a.json.gz", gzip.compress(gzip.compress(b"{}")), "compressed twice; decompress it once with gunzip"),
        ("a.xplane.pb", LFS, "a pointer of Git LFS in place of the file; fetch it with `git lfs pull`"),
        ("a.sqlite", LFS, "a pointer of Git LFS in place of the file; fetch it with `git lfs pull`"),
        ("a.json", b"<!DOCTYPE html><html>", "an HTML page, downloaded in place of the file"),
        ("a.txt", b"hello", "text"),
        ("a.gz", b"\x1f\x8bnot really", "a gzip file that cannot be decompressed; copy it again, in binary mode"),
        ("a.json", b"\0" * 64, "all zeros: the copy of it is incomplete"),
        ("a", b"\x01\x02\xff\xfe", "an unknown binary format"),
        (
            "a.sqlite.gz",
            gzip.compress(b"SQLite format 3\0", mtime=0),
            "a gzipped SQLite file; decompress it with gunzip",
        ),
    ],
)
def test_a_file_that_is_no_trace_is_called_what_it_is(tmp_path, name, content, description):
    path = write_file(tmp_path / name, content)
    with pytest.raises(TraceError) as error:
        find(path)
    assert str(error.value) == f"{path} is not a supported trace: it is {description}. {NEXT}"


def test_a_report_of_nsys_gets_the_sentence_that_tells_how_to_export_it(tmp_path):
    path = write_file(tmp_path / "run.nsys-rep", b"\x01")
    with pytest.raises(TraceError, match="nsys export --type sqlite"):
        find(path)
    with pytest.raises(TraceError, match="nsys export --type sqlite"):
        find(tmp_path)


def test_nothing_there_is_one_sentence(tmp_path):
    with pytest.raises(TraceError) as error:
        find(tmp_path / "none")
    assert str(error.value) == f"{tmp_path / 'none'} does not exist. {NEXT}"
    write_file(tmp_path / "deep" / "summary.json", b"{}")
    with pytest.raises(TraceError) as error:
        find(tmp_path)
    assert str(error.value) == f"{tmp_path} contains no trace: no file in it or below it is one. {NEXT}"
    write_file(tmp_path / "a.xplane.pb", b"")
    with pytest.raises(TraceError, match=r"contains no trace: a.xplane.pb is empty \(0 bytes\)"):
        find(tmp_path)


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TraceError, match=r"pipe\.json is a pipe or a device, and no file\. Write what it gives"):
        find(tmp_path / "pipe.json")


def test_a_pipe_among_files_is_called_one_and_not_opened(tmp_path):
    os.mkfifo(tmp_path / "rank0.json")
    with pytest.raises(TraceError, match=r"contains no trace: rank0\.json is a pipe or a device, and no file\."):
        find(tmp_path)
    write_file(tmp_path / "rank1.json", KINETO)
    assert find(tmp_path).unreadable == ("rank0.json is a pipe or a device, and no file",)


def test_a_directory_that_is_called_as_files_are_is_told(tmp_path):
    for rank in range(2):
        write_file(tmp_path / f"vm-rank{rank}.pt.trace.json", KINETO)
    for name in ("vm-rank2.pt.trace.json", "vm-rank3.pt.trace.json.gz", "logs", "config.json"):
        write_file(tmp_path / name / "inside.txt", b"x")
    assert find(tmp_path).unreadable == (
        "vm-rank2.pt.trace.json is a directory, and no file",
        "vm-rank3.pt.trace.json.gz is a directory, and no file",
    )


def test_a_directory_of_ranks_is_one_run_and_files_that_are_no_traces_are_passed_over(tmp_path):
    for rank in (0, 1):
        write_file(tmp_path / f"rank{rank}.json", KINETO)
    write_file(tmp_path / "rank2.pt.trace.json.gz", gzip.compress(KINETO))
    for name in ("capture.json", "summary.json", ".cached_tools.json"):
        write_file(tmp_path / name, b'{"a": 1}')
    write_file(tmp_path / ".rank3.json", KINETO)
    trace_files = find(tmp_path)
    assert names(trace_files) == ["rank0.json", "rank1.json", "rank2.pt.trace.json.gz"]
    assert (trace_files.file_type, trace_files.runs, trace_files.notes) == (formats.CHROME, (tmp_path.name,), ())
    assert trace_files.directory == tmp_path


@pytest.mark.parametrize("empty", [1, 9999])
def test_members_of_a_packed_trace_that_hold_nothing_are_passed_over(tmp_path, empty):
    path = write_file(tmp_path / "a.json.gz", gzip.compress(b"", mtime=0) * empty + gzip.compress(KINETO, mtime=0))
    assert names(find(path)) == ["a.json.gz"]


def test_of_a_run_in_several_formats_one_is_read_and_the_rest_noted(tmp_path):
    write_file(tmp_path / "host.trace.json.gz", gzip.compress(KINETO))
    write_file(tmp_path / "perfetto_trace.json.gz", gzip.compress(KINETO))
    trace_files = find(tmp_path)
    assert names(trace_files) == ["host.trace.json.gz"]
    assert trace_files.notes == ("Skipped perfetto_trace.json.gz, which is a copy of host.trace.json.gz.",)
    sqlite(tmp_path / "node.sqlite", "NVTX_EVENTS")
    assert (names(find(tmp_path)), find(tmp_path).file_type) == (["node.sqlite"], formats.NSYS)
    xspace(tmp_path / "host.xplane.pb")
    write_file(tmp_path / "rank3.trace.json.gz", gzip.compress(KINETO))
    trace_files = find(tmp_path)
    assert (names(trace_files), trace_files.file_type) == (["host.xplane.pb"], formats.XSPACE)
    # JAX's own copies of the XSpace are worth no word.
    assert trace_files.notes == ()
    # Those of other hosts or ranks are no copies.
    assert trace_files.json == (tmp_path / "rank3.trace.json.gz",)
    of_another = "node.sqlite is of another profiler than the XSpace files, with which it is not merged"
    assert trace_files.unreadable == (of_another,)
    sqlite(tmp_path / "host.sqlite", "NVTX_EVENTS")
    assert find(tmp_path).notes == ("Skipped host.sqlite: the run's XSpace files were read instead.",)
    assert find(tmp_path).unreadable == (of_another,)


def test_what_a_viewer_wrote_beside_a_trace_is_no_trace(tmp_path):
    xspace(tmp_path / "host.xplane.pb")
    for cache in ("ALL_HOSTS.xplane.pb", "host.SSTABLE", "jit_f(1).hlo_proto.pb", "host.overview_page.pb"):
        xspace(tmp_path / cache)
    assert (names(find(tmp_path)), find(tmp_path).notes) == (["host.xplane.pb"], ())


def test_an_empty_file_of_a_host_is_noted(tmp_path):
    xspace(tmp_path / "a.xplane.pb")
    write_file(tmp_path / "b.xplane.pb", b"")
    trace_files = find(tmp_path)
    assert (names(trace_files), trace_files.unreadable) == (
        ["a.xplane.pb"],
        ("b.xplane.pb is empty (0 bytes): the profiler or a copy did not finish writing it",),
    )


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.json", KINETO.decode().encode("utf-16"), "a.json is text in UTF-16, and traces are UTF-8"),
        ("a.json", KINETO.decode().encode("utf-16-le"), "a.json is text in UTF-16, and traces are UTF-8"),
        ("a.jsonl", b'{"ph": "X"}\n{"ph": "X"}\n', "a.jsonl is JSON lines, an object in each"),
        ("a.json", b"{}", "no file in it or below it is one"),
        ("a.json", b"{\n}", "no file in it or below it is one"),
    ],
)
def test_a_directory_of_json_that_no_profiler_writes_so_is_told_why_it_holds_no_trace(tmp_path, name, content, what):
    write_file(tmp_path / name, content)
    with pytest.raises(TraceError, match=rf"contains no trace: {what}"):
        find(tmp_path)


def test_other_json_beside_traces_is_no_rank(tmp_path):
    for name in ("rank0.json", "rank1.json"):
        write_file(tmp_path / name, KINETO)
    write_file(tmp_path / "config.json", b"{}")
    write_file(tmp_path / "rank2.json", b"not found")
    assert find(tmp_path).unreadable == ("rank2.json is text",)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("worker_two.json", b"<!doctype html><html>", "an HTML page, downloaded in place of the file"),
        ("worker_two.json", b"not found", "text"),
        ("elsewhere.json", b"<html>", "an HTML page, downloaded in place of the file"),
        ("elsewhere.json", b"// a comment", None),
        ("worker_two.json", b"{}", None),
    ],
)
def test_what_is_called_as_files_of_json_are_and_is_none_is_told(tmp_path, name, content, why):
    for number in ("one", "three"):
        write_file(tmp_path / f"worker_{number}.json", KINETO)
    write_file(tmp_path / name, content)
    assert find(tmp_path).unreadable == ((f"{name} is {why}",) if why else ())


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        (".b.xplane.pb.Ab3dE1", True),
        (".syncthing.b.xplane.pb.tmp", True),
        (".b.xplane.pb.icloud", True),
        ("b.xplane.pb.filepart", True),
        ("b.xplane.pb.6eF4b2C1", True),
        ("b.xplane.pb_.gstmp", True),
        # Of one that is there, a second copy is under way; macOS keeps the attributes of a file so.
        (".a.xplane.pb.Ab3dE1", False),
        ("._a.xplane.pb", False),
        (".notes.txt.Ab3dE1", False),
        (".b.xplane.pb.backup", False),
        (".b.xplane.pb.sha256", False),
        ("._b.xplane.pb.icloud", False),
        ("b.xplane.pb.dvc", False),
        ("b.xplane.pb.20261129", False),
    ],
)
def test_a_copy_that_has_not_ended_is_a_host_that_is_missing(tmp_path, name, is_told):
    write_file(tmp_path / "a.xplane.pb", b"\n\x02\x08\x01")
    write_file(tmp_path / name, b"\n\x02\x08")
    assert find(tmp_path).unreadable == ((f"{name} is what a copy left that has not ended",) if is_told else ())


def test_a_directory_with_a_copy_alone_that_has_not_ended_says_so(tmp_path):
    write_file(tmp_path / ".b.xplane.pb.Ab3dE1", b"\n\x02\x08")
    with pytest.raises(TraceError, match=r"contains no trace: \.b\.xplane\.pb\.Ab3dE1 is what a copy left"):
        find(tmp_path)


def test_json_stands_for_an_xspace_that_is_under_way(tmp_path):
    write_file(tmp_path / "a.xplane.pb", b"\n\x02\x08\x01")
    write_file(tmp_path / "b.trace.json", KINETO)
    write_file(tmp_path / ".b.xplane.pb.Ab3dE1", b"\n\x02\x08")
    found = find(tmp_path)
    assert found.unreadable == ()
    (copied,) = found.copied
    assert copied.startswith(".b.xplane.pb.Ab3dE1 is what a copy left that has not ended; b.trace.json was read in its")


def test_a_pointer_of_git_lfs_of_another_tool_is_no_rank(tmp_path):
    write_file(tmp_path / "trace.json", KINETO)
    write_file(tmp_path / "tokenizer.json", LFS)
    assert find(tmp_path).unreadable == ()


ZSTD, XZ = b"\x28\xb5\x2f\xfd" + bytes(9), b"\xfd7zXZ\0" + bytes(9)
SQLITE = b"SQLite format 3\0" + bytes(99)


def zipped(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, b"PAR1")
    return data.getvalue()


TABLE, ARCHIVE = "nvtx_gpu_proj_trace/trace.parquet", zipped("nvtx_gpu_proj_trace/trace.parquet", "dump/x")


@pytest.mark.parametrize(
    ("own", "content", "lost"),
    [
        ("rank0.json", KINETO, {"rank1.json.zst": ZSTD, "rank2.json.xz": XZ, "rank3.json.gz.part": b"x"}),
        (
            "rank0.json.gz",
            gzip.compress(KINETO, mtime=0),
            {"rank1.json.zst": ZSTD, "rank2.json.bz2": b"BZh9", "worker.trace.json.lz4": XZ},
        ),
        (
            "1_results.json",
            b'{"rocprofiler-sdk-tool": [',
            {"2_results.json.zst": ZSTD, "host_results.json.zip": zipped("x")},
        ),
        ("a.xplane.pb", b"\n\x02\x08\x01", {"b.xplane.pb.zst": ZSTD, "c.xplane.pb.tmp": b"\x01"}),
        (
            "a.sqlite",
            SQLITE,
            {"b.sqlite.gz": gzip.compress(SQLITE, mtime=0), "c.sqlite.zst": ZSTD, "d.sqlite.7z": b"7z\xbc\xaf"},
        ),
        (
            "a.zip",
            ARCHIVE,
            {"b.zip": ARCHIVE[:-9], "c.zip": b"", "d.zip": bytes(99), "e.zip": b"x", "f.zip.part": b"PK"},
        ),
        ("a.zip", ARCHIVE, {"b.zip": zipped("thread-metadata.parquet"), "c.zip": zipped("dump/module_1.f.hlo.pb.xz")}),
        ("rank0.zip", ARCHIVE, {"rank1.zip": zipped("a.py")}),
        ("a.xplane.pb", b"\n\x02\x08\x01", {"b.tracekit.zip": b""}),
    ],
)
def test_a_file_of_a_rank_that_is_packed_or_no_archive_any_more_is_told(tmp_path, own, content, lost):
    write_file(tmp_path / own, content)
    for name, data in lost.items():
        write_file(tmp_path / name, data)
    assert [reason.split(" is ")[0] for reason in find(tmp_path).unreadable] == sorted(lost)


@pytest.mark.parametrize(
    ("own", "content"),
    [("rank0.json", KINETO), ("a.xplane.pb", b"\n\x02\x08\x01"), ("a.sqlite", SQLITE), ("a.zip", ARCHIVE)],
)
def test_other_files_beside_traces_and_packed_copies_of_them_are_no_ranks(tmp_path, own, content):
    write_file(tmp_path / own, content)
    write_file(tmp_path / f"{own}.zst", ZSTD)
    write_file(tmp_path / f"{own}.gz.part", b"\x1f\x8b")
    others = {"README.txt": b"text", "plot.png": b"\x89PNG", "times.csv": b"a,b", "config.json.zst": ZSTD}
    others |= {"code.zip": zipped("main.py", "data.parquet"), "notes.txt.gz": gzip.compress(b"x"), "logs.tar.gz": XZ}
    for name, data in others.items():
        write_file(tmp_path / name, data)
    assert find(tmp_path).unreadable == ()


def test_an_archive_without_its_table_is_called_so(tmp_path):
    write_file(tmp_path / "a.zip", ARCHIVE)
    write_file(tmp_path / "b.zip", zipped("device-metadata.parquet"))
    assert find(tmp_path).unreadable == (f"b.zip is an archive of nsys-jax without {TABLE}",)


def test_an_unpacked_archive_without_a_table_that_can_be_read_is_told(tmp_path, monkeypatch):
    write_file(tmp_path / "run one" / TABLE, b"PAR1")
    write_file(tmp_path / "run two" / TABLE, b"")
    write_file(tmp_path / "run three" / "nvtx_gpu_proj_trace" / "files.parquet", b"PAR1")
    (tmp_path / "code").mkdir()
    empty = "empty (0 bytes): the profiler or a copy did not finish writing it"
    assert find(tmp_path).unreadable == (f"run two/{TABLE} is {empty}", f"run three holds no {TABLE}")
    assert find(tmp_path / "run one").unreadable == ()
    monkeypatch.chdir(tmp_path / "run one")
    assert find(Path()).unreadable == ()


@pytest.mark.parametrize(("rank", "lost"), [("rank{}_pqtdir", "unreadable"), ("run{}_arwdir", "newer"), ("of {}", "")])
def test_a_directory_of_tables_of_nsight_without_its_texts_is_told(tmp_path, rank, lost):
    names = ["StringIds.parquet", "PROCESSES.parquet"]
    for number, tables in enumerate((names, names[1:])):
        for name in tables:
            os.utime(write_file(tmp_path / rank.format(number) / name, b"PAR1"), (1000, 1000))
    found, one, two = find(tmp_path), rank.format(0), rank.format(1)
    assert found.unreadable == ((f"{two} holds no trace",) if lost == "unreadable" else ())
    reason = f"{two}: it holds no table StringIds; {one} was read instead"
    assert found.newer == ((reason,) if lost == "newer" else ())


def test_an_older_directory_of_tables_of_nsight_without_its_texts_is_told(tmp_path):
    for number, names in enumerate((["PROCESSES.parquet"], [], ["StringIds.parquet"], ["StringIds.parquet"])):
        (tmp_path / f"run{number}_pqtdir").mkdir()
        for name in names:
            os.utime(write_file(tmp_path / f"run{number}_pqtdir" / name, b"PAR1"), (1000 + number, 1000 + number))
        os.utime(tmp_path / f"run{number}_pqtdir", (1000 + number, 1000 + number))
    found = find(tmp_path)
    assert found.runs == ("run3_pqtdir", "run2_pqtdir")
    assert found.newer == ("run0_pqtdir: it holds no table StringIds", "run1_pqtdir: it is empty")


def test_a_newer_run_of_what_is_packed_is_told(tmp_path):
    run = tmp_path / "plugins" / "profile"
    os.utime(write_file(run / "one" / "a.xplane.pb", b"\n\x02\x08\x01"), (1000, 1000))
    write_file(run / "two" / "a.xplane.pb.zst", ZSTD)
    assert find(tmp_path).newer == (
        "two: a.xplane.pb.zst is compressed with zstd; decompress it; one was read instead",
    )


@pytest.mark.parametrize("below", ["", "plugins/profile/monday"])
def test_a_directory_of_a_rank_that_is_gone_or_holds_no_trace_is_told(tmp_path, below):
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}" / below).mkdir(parents=True)
        xspace(tmp_path / f"rank_{rank}" / below / "machine.xplane.pb")
    (tmp_path / "rank_2").mkdir()
    write_file(tmp_path / "rank_3" / "log.txt", b"out of memory")
    (tmp_path / "rank_4").symlink_to("nowhere")
    (tmp_path / "logs").mkdir()
    assert find(tmp_path).unreadable == (
        "rank_2 holds no trace",
        "rank_3 holds no trace",
        "rank_4 is a link to a directory that does not exist",
    )
    assert find(tmp_path / "rank_0").unreadable == ()


def test_a_newer_directory_of_what_is_no_trace_is_told(tmp_path):
    def newest(path, seconds):
        os.utime(path, (seconds, seconds), follow_symlinks=False)

    newest(write_file(tmp_path / "iteration_10" / "rank0.json", KINETO), 1000)
    for number, content in enumerate((b"garbage", b"<html>", b"", b"{}")):
        newest(write_file(tmp_path / f"again{number}" / "rank0.json", content).parent, 2000 + number)
    write_file(tmp_path / "iteration_10" / "later" / "rank0.json", b"garbage")
    write_file(tmp_path / "settings" / "config.json", b"{}")
    (tmp_path / "iteration_11").mkdir()
    (tmp_path / "iteration_12").symlink_to("nowhere")
    before = write_file(tmp_path / "before" / "rank0.json", b"garbage")
    newest(before, 500)
    newest(before.parent, 500)
    assert find(tmp_path).newer == (
        "again0: rank0.json is text; iteration_10 was read instead",
        "again1: rank0.json is an HTML page, downloaded in place of the file; iteration_10 was read instead",
        "again2: rank0.json is empty (0 bytes): the profiler or a copy did not finish writing it; "
        "iteration_10 was read instead",
        "again3: rank0.json is JSON without trace events; iteration_10 was read instead",
        "iteration_11: it is empty; iteration_10 was read instead",
        "iteration_12: it is a link to a directory that does not exist; iteration_10 was read instead",
    )


@pytest.mark.parametrize(
    ("good", "other", "later_s", "is_told"),
    [
        ("monday", "tuesday", 0, True),
        ("monday", "tuesday", -1.5, True),
        ("tuned", "baseline", -60, False),
        ("2026_11_28_09_00_00-ab1", "2026_11_28_10_00_00-0cd", -60, True),
        ("2026_11_28_10_00_00-ab1", "2026_11_28_09_00_00-0cd", 1.5, False),
        ("2026_11_28_10_00_00-ab1", "2026_11_28_09_00_00-0cd", 60, True),
        ("2026_11_28_10_00_00-ab1", "2026_11_28_09_00_00-0cd", -60, False),
        ("iteration_9", "iteration_10", -60, True),
        ("iteration_10", "iteration_9", 0, False),
    ],
)
@pytest.mark.parametrize("time_of", ["directory", "file"])
@pytest.mark.parametrize("below", ["plugins/profile", ""])
def test_a_run_stepped_over_is_told_where_it_may_be_the_newest(tmp_path, good, other, later_s, is_told, time_of, below):
    (tmp_path / below / good).mkdir(parents=True)
    os.utime(xspace(tmp_path / below / good / "machine.xplane.pb"), (1000, 1000))
    empty = write_file(tmp_path / below / other / "machine.xplane.pb", b"")
    for path, seconds in ((empty, 1000 + later_s), (empty.parent, 1000 + later_s)):
        os.utime(path, (500, 500) if (path is empty) != (time_of == "file") else (seconds, seconds))
    found = find(tmp_path)
    assert found.runs == (good,)
    assert [each.partition(":")[0] for each in found.newer] == [other] * is_told


def test_of_twice_as_many_runs_twice_as_much_is_looked_at(tmp_path, monkeypatch):
    looked_at = []
    parts_of = find_module._run_parts
    monkeypatch.setattr(find_module, "_run_parts", lambda *args: looked_at.append(args) or parts_of(*args))

    def count(directory, runs):
        for number in range(runs):
            word = "".join(chr(97 + int(digit)) for digit in f"{number:03}")
            for name in (f"run_{word}", f"zz_{word}"):
                (directory / "plugins" / "profile" / name).mkdir(parents=True)
            trace = xspace(directory / "plugins" / "profile" / f"run_{word}" / "machine.xplane.pb")
            os.utime(trace, (1000, 1000))
        looked_at.clear()
        assert len(find(directory).newer) == runs
        return len(looked_at)

    assert count(tmp_path / "more", 40) < 2.5 * count(tmp_path / "few", 20)


def test_a_report_of_nsys_without_its_export_is_noted(tmp_path):
    sqlite(tmp_path / "node0.sqlite", "NVTX_EVENTS")
    for node in (0, 1):
        write_file(tmp_path / f"node{node}.nsys-rep", b"\x01")
    trace_files = find(tmp_path)
    assert names(trace_files) == ["node0.sqlite"]
    (note,) = trace_files.notes
    assert note.startswith("Skipped node1.nsys-rep: ")
    assert "nsys export --type sqlite" in note


def test_directories_with_traces_are_runs_of_which_the_newest_is_read(tmp_path):
    for at, step in enumerate((20, 10)):
        os.utime(write_file(tmp_path / f"iteration_{step}" / "rank0.json", KINETO), (1000 + at, 1000 + at))
    trace_files = find(tmp_path)
    assert (trace_files.directory, trace_files.runs) == (tmp_path / "iteration_10", ("iteration_10", "iteration_20"))
    assert trace_files.notes == (f"{tmp_path} contains 2 runs; iteration_10 was read. --run NAME picks another.",)
    assert find(tmp_path, "iteration_20").directory == tmp_path / "iteration_20"


def test_directories_numbered_as_ranks_or_hosts_are_one_run(tmp_path):
    for step in (10, 20):
        for rank in (0, 1):
            write_file(tmp_path / f"step{step}" / f"rank_{rank}" / "trace.json", KINETO)
    trace_files = find(tmp_path, "step20")
    assert [file.parent.name for file in trace_files.files] == ["rank_0", "rank_1"]
    assert trace_files.runs == ("step20", "step10")
    assert [file.parent.name for file in find(tmp_path / "step10").files] == ["rank_0", "rank_1"]


def test_each_process_of_a_run_may_have_a_log_directory_of_its_own(tmp_path):
    for rank in (0, 1):
        for run in ("monday", "tuesday"):
            directory = tmp_path / f"proc{rank}" / "plugins" / "profile" / run
            directory.mkdir(parents=True)
            xspace(directory / "machine.xplane.pb")
    trace_files = find(tmp_path, "monday")
    assert [file.relative_to(tmp_path).parts[0] for file in trace_files.files] == ["proc0", "proc1"]
    assert trace_files.runs == ("monday", "tuesday")


def test_processes_that_name_their_runs_for_themselves_are_one_run_newest_with_newest(tmp_path):
    for rank in (0, 1):
        for at, day in enumerate(("monday", "tuesday")):
            directory = tmp_path / f"rank{rank}" / "plugins" / "profile" / f"{day}-{rank}"
            directory.mkdir(parents=True)
            os.utime(xspace(directory / "machine.xplane.pb"), (1000 + at, 1000 + at))
    trace_files = find(tmp_path)
    assert [file.parent.name for file in trace_files.files] == ["tuesday-0", "tuesday-1"]
    assert trace_files.runs == ("tuesday-0", "monday-0")
    assert trace_files.notes == (
        f"{tmp_path} contains 2 runs; tuesday-0 was read. --run NAME picks another.",
        "Each process named its run itself: tuesday-0, tuesday-1 were read as one run.",
    )
    assert [file.parent.name for file in find(tmp_path, "monday-0").files] == ["monday-0", "monday-1"]


def test_a_stray_trace_beside_runs_is_left_out_with_a_note(tmp_path):
    run = tmp_path / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    xspace(run / "host.xplane.pb")
    write_file(tmp_path / "exported.json", json.dumps({"traceEvents": []}).encode())
    trace_files = find(tmp_path)
    assert (trace_files.directory, trace_files.notes) == (
        run,
        ("Skipped exported.json, which is in none of the runs.",),
    )


def test_a_single_file_is_no_run_but_the_one_that_it_lies_in(tmp_path):
    path = write_file(tmp_path / "monday" / "rank0.json", KINETO)
    assert find(path, "monday") == find(path)
    with pytest.raises(TraceError, match="is one file, and not the run 'tuesday'"):
        find(path, "tuesday")


def test_a_directory_that_many_links_lead_to_is_looked_into_once(tmp_path):
    write_file(tmp_path / "run" / "rank0.json", KINETO)
    for number in range(40):
        (tmp_path / f"link{number}").symlink_to(".")
    (tmp_path / "latest").symlink_to("run")
    assert find(tmp_path).runs == ("run",)


def test_of_many_other_files_each_is_looked_into_once(tmp_path, monkeypatch):
    looked_into = []
    content = formats.content
    monkeypatch.setattr(formats, "content", lambda path: looked_into.append(path) or content(path))
    for number in range(20):
        write_file(tmp_path / f"{number}.json", b"{}")
    with pytest.raises(TraceError, match="no file in it or below it is one"):
        find(tmp_path)
    assert len(looked_into) == 20


@pytest.mark.parametrize("closed", ["today", "plugins/profile/b", "lost+found"])
def test_a_directory_that_may_not_be_looked_into_is_told_of_any_age(closed, tmp_path, monkeypatch):
    """As root may look into all, the system is stood in for."""
    whole = tmp_path / "plugins" / "profile" / "a" / "t.xplane.pb"
    for folder in (whole.parent, tmp_path / closed):
        folder.mkdir(parents=True)
    xspace(whole)
    os.utime(tmp_path / closed, (1000, 1000))
    listed, scanned = os.listdir, os.scandir

    def refusing(look):
        def refused(path="."):
            if os.fspath(path) == str(tmp_path / closed):
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return look(path)

        return refused

    monkeypatch.setattr(os, "listdir", refusing(listed))
    monkeypatch.setattr(os, "scandir", refusing(scanned))
    found = find(tmp_path)
    name = closed.rpartition("/")[2]
    told = (f"{name}: it cannot be read: Permission denied; a was read instead",)
    assert found.newer == (() if name == "lost+found" else told)


def test_a_link_that_may_not_be_followed_costs_itself(tmp_path, monkeypatch):
    """As root may follow all, the system is stood in for."""
    xspace(tmp_path / "rank_0.xplane.pb")
    links = [tmp_path / name for name in ("notes.txt", "rank_1.xplane.pb")]
    for link in links:
        link.symlink_to(tmp_path / "closed")
    stat = os.stat

    def refused(path, *, dir_fd=None, follow_symlinks=True):
        if follow_symlinks and os.fspath(path) in map(str, links):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", refused)
    found = find(tmp_path)
    assert names(found) == ["rank_0.xplane.pb"]
    assert found.unreadable == ("rank_1.xplane.pb is not readable: Permission denied",)
