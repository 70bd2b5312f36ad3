"""Paths may be URLs of any store that fsspec knows: the same results as from a disk, and nothing half-written."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

import tracekit
from tests.readers.nsys.exports import Tables, as_parquet
from tests.readers.nsys_jax_archives import archive, table
from tracekit import TracekitError, executors, remote
from tracekit.cli import app
from tracekit.gate import baselines

DATA = Path(__file__).parent / "data"
FIRST, SECOND = DATA / "two-cpu-devices-jax0.10.2.xplane.pb", DATA / "view-cpu.xplane.pb"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An own cache for each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "tracekit" / "remote"


@pytest.fixture
def memory():
    """fsspec's file system in memory, empty."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield fsspec.filesystem("memory")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(scope="module")
def s3_server():
    """The address of an S3 server on loopback."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server_module = pytest.importorskip("moto.server", reason="moto and flask are not installed")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """The file system of an S3 server with one empty bucket, called bucket."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    known = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**known, "ENDPOINT_URL": s3_server, "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("bucket")
    yield store
    store.rm("bucket", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(params=["memory", "s3"])
def store(request):
    """A file system and the URL below which a test puts its files."""
    return request.getfixturevalue(request.param), f"{request.param}://bucket"


def put(file_system, source: Path, url: str) -> None:
    file_system.put_file(str(source), url)


def names(file_system, url: str) -> set[str]:
    root = fsspec.core.strip_protocol(url)
    file_system.invalidate_cache()
    return {key[len(root) + 1 :] for key in file_system.find(root)}


def same_events(one: tracekit.Trace, other: tracekit.Trace) -> None:
    for name in ("events", "spans", "ops"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    pd.testing.assert_frame_equal(one.hosts.drop(columns="source"), other.hosts.drop(columns="source"))


def test_a_log_directory_reads_as_from_a_disk_and_is_named_by_its_url(store, tmp_path):
    file_system, root = store
    local = tmp_path / "train"
    for run, file in (("r1", FIRST), ("r2", SECOND)):
        place = local / "plugins" / "profile" / run
        place.mkdir(parents=True)
        (place / "host.xplane.pb").write_bytes(file.read_bytes())
        put(file_system, file, f"{root}/logs/train/plugins/profile/{run}/host.xplane.pb")
        time.sleep(1.1 if root.startswith("s3") else 0.01)  # S3 tells whole seconds
    url = f"{root}/logs/train"
    newest = tracekit.read(url)
    assert newest.source == url
    assert [*newest.hosts["source"]] == [f"{url}/plugins/profile/r2/host.xplane.pb"]
    assert newest.runs == ("r2", "r1")
    assert newest.notes[0] == f"{url} contains 2 runs; r2 was read. --run NAME picks another."
    same_events(newest, tracekit.read(local, "r2"))
    same_events(tracekit.read(url, "r1"), tracekit.read(local, "r1"))


def test_processes_fetch_the_files_of_a_run_from_the_store_themselves(s3, cache):
    for rank, file in enumerate((FIRST, SECOND)):
        put(s3, file, f"s3://bucket/logs/rank{rank}/host.xplane.pb")
    here = tracekit.read("s3://bucket/logs")
    shutil.rmtree(cache)
    with executors.Processes(2) as pool:
        there = tracekit.read("s3://bucket/logs", executor=pool)
    same_events(here, there)
    assert there.hosts["source"].tolist() == [f"s3://bucket/logs/rank{rank}/host.xplane.pb" for rank in (0, 1)]
    assert there.notes == here.notes


def test_a_single_file_reads_with_the_capture_json_beside_it(memory, tmp_path):
    run = tmp_path / "logs" / "plugins" / "profile" / "r1"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").write_bytes(FIRST.read_bytes())
    (run / "capture.json").write_text('{"schema": 1, "usable_cores": 2}')
    memory.put(str(tmp_path / "logs"), "/logs", recursive=True)
    url = "memory://logs/plugins/profile/r1/host.xplane.pb"
    found, expected = tracekit.read(url), tracekit.read(run / "host.xplane.pb")
    same_events(found, expected)
    assert (found.runs, found.capture) == (expected.runs, expected.capture)
    assert found.capture == {"schema": 1, "usable_cores": 2}
    with pytest.raises(TracekitError, match=r"^memory://logs/plugins/profile/r1/host.xplane.pb is one file"):
        tracekit.read(url, "r2")


def in_a_zip(path: Path) -> Path:
    """A zip archive of nsys-jax that is longer than the first bytes that are looked at."""
    return archive(path, table(), dumps=[("noise", random.Random(0).randbytes(400_000))])


def as_tables(path: Path) -> Path:
    """A directory of Parquet as Nsight Systems exports it."""
    export = Tables().kernel("gemm", 100, 150).write(path.with_suffix(".sqlite"))
    return as_parquet(export, path)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: shutil.copy(DATA / "jax_two_cpu_devices.trace.json.gz", path.with_suffix(".json.gz")),
        lambda path: shutil.copy(DATA / "kineto-rank1.pt.trace.json", path.with_suffix(".json")),
        lambda path: shutil.copy(DATA / "mxnet_two_contexts_threaded.json.gz", path.with_suffix(".json.gz")),
        lambda path: Tables().kernel("gemm", 100, 150).write(path.with_suffix(".sqlite")),
        lambda path: in_a_zip(path.with_suffix(".zip")),
        as_tables,
    ],
    ids=["jax", "kineto", "mxnet", "nsys", "nsys-jax", "nsys-parquet"],
)
def test_traces_of_every_format_read_as_from_a_disk_by_themselves_and_in_a_directory(memory, tmp_path, make):
    (tmp_path / "logs").mkdir()
    place = Path(make(tmp_path / "logs" / "trace"))
    memory.put(str(tmp_path / "logs"), "/logs", recursive=True)
    same_events(tracekit.read("memory://logs"), tracekit.read(tmp_path / "logs"))
    place = place if place.is_file() else place / "StringIds.parquet"
    url = f"memory://logs/{place.relative_to(tmp_path / 'logs').as_posix()}"
    same_events(tracekit.read(url), tracekit.read(place))
    assert len(tracekit.read(url).events) > 0


def test_a_report_is_written_to_a_store_and_loaded_from_it(store, tmp_path):
    file_system, root = store
    put(file_system, FIRST, f"{root}/a.xplane.pb")
    report = tracekit.report(f"{root}/a.xplane.pb", f"{root}/report")
    tracekit.report(FIRST, tmp_path / "report")
    local = {path.relative_to(tmp_path / "report").as_posix() for path in (tmp_path / "report").rglob("*.*")}
    assert names(file_system, f"{root}/report") == local
    assert tracekit.load(f"{root}/report") == report
    assert report.trace.source == f"{root}/a.xplane.pb"
    again = report.save(f"{root}/again")
    assert (again, tracekit.load(again)) == (f"{root}/again", report)


def test_every_command_takes_urls(memory, capsys, tmp_path):
    put(memory, FIRST, "/a/host.xplane.pb")
    memory.pipe("/rules.toml", b'[[rule]]\nmeasure = "idle"\nmax = "100%"\n')
    memory.pipe("/kinds.toml", b'[[rule]]\nname = "dot"\nkind = "compute"\n')

    def run(*words: str) -> str:
        app([*words], standalone_mode=False)
        return "".join(capsys.readouterr())

    assert "memory://a" in run("read", "memory://a", "--kinds", "memory://kinds.toml")
    for name in ("r1", "r2"):
        assert f"Wrote memory://reports/{name}/ (report.html" in run(
            "report", "memory://a", "--out", f"memory://reports/{name}"
        )
    assert "summary.json" in names(memory, "memory://reports/r1")
    run("report", "memory://reports/r1")
    assert "Wrote memory://compared/ (comparison.html" in run(
        "compare", "memory://reports/r1", "memory://reports/r2", "--out", "memory://compared"
    )
    assert "comparison.json" in names(memory, "memory://compared")
    assert "Wrote memory://history/ (" in run("history", "memory://reports", "--out", "memory://history")
    assert pd.read_parquet(memory.open("/history/history.parquet"))["run"].unique().tolist() == ["r1", "r2"]
    assert "Wrote memory://figures/ (partition.png)" in run(
        "figure", "memory://a", "--what", "partition", "--out", "memory://figures"
    )
    assert memory.cat("/figures/partition.png").startswith(b"\x89PNG")
    assert "Wrote memory://exports/a.pftrace.gz" in run(
        "export", "memory://a", "--out", "memory://exports/a.pftrace.gz"
    )
    assert "Wrote memory://tables/ (" in run("export", "memory://a", "--to", "csv", "--out", "memory://tables")
    assert memory.cat("/tables/events.csv").startswith(b'"host","device",')
    with pytest.raises(TracekitError, match=r"^memory://exports/a.pftrace.gz exists already"):
        run("export", "memory://a", "--out", "memory://exports/a.pftrace.gz")
    assert "Wrote memory://baselines/main/" in run(
        "baseline", "save", "main", "memory://reports/r1", "--baselines", "memory://baselines"
    )
    assert run("baseline", "list", "--baselines", "memory://baselines").startswith("main: 1 capture of memory://a")
    checked = run(
        "check", "memory://reports/r1", "--rules", "memory://rules.toml", "--baseline", "main",
        "--baselines", "memory://baselines", "--junit", "memory://out/junit.xml",
    )  # fmt: skip
    assert re.search(r"^holds .*idle", checked, re.MULTILINE), checked
    assert memory.cat("/out/junit.xml").startswith(b"<?xml")
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


def test_summaries_of_hosts_in_a_store_stand_for_their_traces_there(memory):
    for rank, source in enumerate((FIRST, SECOND)):
        put(memory, source, f"/run/rank{rank}/host.xplane.pb")
        file = tracekit.summarise(f"memory://run/rank{rank}/host.xplane.pb", "memory://summaries")
        assert file == f"memory://summaries/rank{rank}-host.tracekit.zip"
    assert names(memory, "memory://summaries") == {"rank0-host.tracekit.zip", "rank1-host.tracekit.zip"}
    traces, summaries = tracekit.read("memory://run"), tracekit.read("memory://summaries")
    same_events(summaries, traces)
    assert [*summaries.hosts["source"]] == [*traces.hosts["source"]]
    with pytest.raises(
        TracekitError, match=r"^memory://run holds the files of 2 hosts .* such as memory://run/rank0/host"
    ):
        tracekit.summarise("memory://run", "memory://summaries")
    put(memory, SECOND, "/another/rank0/host.xplane.pb")
    with pytest.raises(
        TracekitError, match=r"^memory://summaries/rank0-host.* is the summary of another trace, memory://run"
    ):
        tracekit.summarise("memory://another/rank0/host.xplane.pb", "memory://summaries")


def test_a_baseline_in_a_store_is_replaced_whole(memory):
    report = tracekit.analyse(FIRST)
    first = baselines.save("main", [report, report], "memory://baselines")
    assert (first.path, first.captures) == ("memory://baselines/main", 2)
    second = baselines.save("main", [report], "memory://baselines")
    assert baselines.baselines("memory://baselines") == (second,)
    assert {name.split("/")[0] for name in names(memory, "memory://baselines/main")} == {"1"}
    assert baselines.find("main", "memory://baselines") == "memory://baselines/main"
    with pytest.raises(TracekitError, match=r"^memory://baselines holds no baseline 'next'. There are main\.$"):
        baselines.find("next", "memory://baselines")
    memory.pipe("/baselines/notes/a.txt", b"mine")
    with pytest.raises(TracekitError, match=r"^memory://baselines/notes is there and is no baseline"):
        baselines.save("notes", [report], "memory://baselines")


def test_a_directory_of_captures_in_a_store_is_one_side_of_a_comparison(memory):
    for run, file in (("r1", FIRST), ("r2", SECOND)):
        put(memory, file, f"/logs/plugins/profile/{run}/host.xplane.pb")
    tracekit.report("memory://logs", "memory://saved/one", run="r1")
    result = tracekit.compare("memory://logs", "memory://saved")
    assert {capture.label for capture in result.a.captures} == {"logs/r1", "logs/r2"}
    assert [capture.label for capture in result.b.captures] == ["one"]
    assert result.b.captures[0].timeline is not None


@pytest.mark.parametrize("word", ["kinds", "rules"])
def test_a_mistake_in_a_file_of_rules_names_its_url(memory, word):
    memory.pipe("/mine.toml", b"[[rule]]\nnothing = 1\n")
    put(memory, FIRST, "/a.xplane.pb")
    for url, words in {
        "memory://mine.toml": "Rule 1 of memory://mine.toml",
        "memory://none.toml": "memory://none.toml",
    }.items():
        with pytest.raises(TracekitError, match=words):
            tracekit.read("memory://a.xplane.pb", kinds=url) if word == "kinds" else tracekit.check(
                "memory://a.xplane.pb", url
            )


def test_a_path_that_pathlib_made_of_a_url_is_that_url(memory):
    put(memory, FIRST, "/logs/a.xplane.pb")
    assert tracekit.read(Path("memory://logs/a.xplane.pb")).source == "memory://logs/a.xplane.pb"
    assert remote.place(f"file://{FIRST}") == remote.place(Path(f"file://{FIRST}")) == FIRST
    assert remote.place("logs/a") == Path("logs/a")


def test_nothing_is_written_inside_a_trace_in_a_store(memory):
    put(memory, FIRST, "/logs/plugins/profile/r1/host.xplane.pb")
    for out in ("memory://logs/report", "memory://logs"):
        with pytest.raises(
            TracekitError, match=f"^{out} lies inside the trace memory://logs, where nothing is written"
        ):
            tracekit.report("memory://logs", out)
    with pytest.raises(TracekitError, match="lies inside the trace"):
        tracekit.export("memory://logs/plugins/profile/r1/host.xplane.pb", "memory://logs/plugins/profile/r1/a.pftrace")
    assert names(memory, "memory://logs") == {"plugins/profile/r1/host.xplane.pb"}


def test_a_report_that_cannot_be_uploaded_whole_leaves_nothing_that_looks_like_one(memory, monkeypatch):
    report = tracekit.report(tracekit.analyse(FIRST), "memory://old")
    put_file = MemoryFileSystem.put_file

    def break_down(self, lpath, rpath, **options):
        if rpath.endswith("report.html"):
            raise OSError("the connection was reset")
        return put_file(self, lpath, rpath, **options)

    monkeypatch.setattr(MemoryFileSystem, "put_file", break_down)
    with pytest.raises(TracekitError, match=r"^memory://new cannot be written: the connection was reset\. Check"):
        tracekit.report(report, "memory://new")
    assert names(memory, "memory://new") == set()
    with pytest.raises(TracekitError, match=r"^memory://old cannot be written"):
        tracekit.report(report, "memory://old")
    with pytest.raises(TracekitError, match=r"^memory://old holds no report: summary\.json is not there"):
        tracekit.load("memory://old")
    monkeypatch.undo()
    monkeypatch.chdir("/")
    report.save("memory://old")
    assert tracekit.load("memory://old") == report


def test_frames_that_a_report_no_longer_has_are_removed(memory):
    report = tracekit.report(tracekit.analyse(FIRST), "memory://report")
    memory.pipe("/report/frames/of.another.parquet", b"")
    memory.pipe("/report/below/frames/of.another.parquet", b"")
    report.save("memory://report")
    assert "frames/of.another.parquet" not in names(memory, "memory://report")
    assert {"report.html", "below/frames/of.another.parquet"} <= names(memory, "memory://report")


def test_a_file_is_fetched_once_for_each_version(memory, cache, monkeypatch):
    fetched = []
    get_file = MemoryFileSystem.get_file
    monkeypatch.setattr(
        MemoryFileSystem,
        "get_file",
        lambda self, key, *rest, **more: fetched.append(key) or get_file(self, key, *rest, **more),
    )
    put(memory, FIRST, "/logs/host.xplane.pb")
    first = tracekit.read("memory://logs")
    same_events(first, tracekit.read("memory://logs"))
    assert fetched == ["/logs/host.xplane.pb"]
    put(memory, SECOND, "/logs/host.xplane.pb")
    assert len(tracekit.read("memory://logs").events) != len(first.events)
    assert len(fetched) == 2
    assert cache.stat().st_mode & 0o777 == 0o700
    kept = [path for path in cache.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert {path.read_bytes() for path in kept} >= {FIRST.read_bytes(), SECOND.read_bytes()}
    assert not [*(cache / "views").iterdir()]


@pytest.mark.parametrize("place", ["logs", "logs/host.xplane.pb"])
def test_a_file_that_is_written_while_it_is_fetched_is_one_sentence(memory, cache, monkeypatch, place):
    put(memory, FIRST, "/logs/host.xplane.pb")
    get_file = MemoryFileSystem.get_file

    def get_and_write(self, key, *rest, **more):
        get_file(self, key, *rest, **more)
        put(memory, FIRST, key)

    monkeypatch.setattr(MemoryFileSystem, "get_file", get_and_write)
    sentence = f"memory://{place}: host.xplane.pb was written while it was read. Read it again when what writes it has"
    with pytest.raises(TracekitError, match=sentence):
        tracekit.read(f"memory://{place}")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parents[1]))
    assert FIRST.read_bytes() not in [path.read_bytes() for path in (cache / "versions").iterdir()]
    assert len(tracekit.read(f"memory://{place}").events)


def test_the_cache_keeps_what_was_used_last_within_its_bound(memory, cache, monkeypatch):
    for name in "abc":
        memory.pipe(f"/{name}.bin", name.encode() * 1_000_000)
    monkeypatch.setenv(remote.CACHE_VARIABLE, "0.0022")
    for name in ("a", "b", "a", "c"):
        with remote.fetched(f"memory://{name}.bin") as path:
            assert path.read_bytes() == name.encode() * 1_000_000
        time.sleep(0.02)
    assert {path.read_bytes()[:1] for path in (cache / "versions").iterdir()} == {b"a", b"c"}
    monkeypatch.setenv(remote.CACHE_VARIABLE, "much")
    with (
        pytest.raises(TracekitError, match=r"^TRACEKIT_CACHE_GB='much' is not a number\.$"),
        remote.fetched("memory://a.bin"),
    ):
        pass


def test_what_a_process_left_behind_is_removed_and_what_another_one_reads_is_not(memory, cache):
    put(memory, FIRST, "/a.xplane.pb")
    left = cache / "views" / "left"
    left.mkdir(parents=True)
    left.with_suffix(".lock").touch()
    with remote.fetched("memory://a.xplane.pb") as path:
        tracekit.read("memory://a.xplane.pb")
        assert not left.exists()
        for kept in (cache / "versions").iterdir():
            kept.unlink()  # as another process does whose bound is smaller
        assert path.read_bytes() == FIRST.read_bytes()


def test_without_a_writable_cache_a_url_is_read_all_the_same(memory, cache):
    put(memory, FIRST, "/a.xplane.pb")
    cache.parent.parent.mkdir(parents=True)
    cache.parent.touch()
    same_events(tracekit.read("memory://a.xplane.pb"), tracekit.read("memory://a.xplane.pb"))


def test_keys_that_are_no_paths_stay_in_the_store(memory, tmp_path):
    put(memory, FIRST, "/logs/host.xplane.pb")
    for key in ("/logs/../../../escaped", "/logs//twice"):
        MemoryFileSystem.store[key] = MemoryFileSystem.store["/logs/host.xplane.pb"]
    with remote.fetched("memory://logs") as path:
        assert [each.name for each in path.rglob("*") if each.is_file()] == ["host.xplane.pb"]
    assert not [*tmp_path.rglob("escaped")]


def test_of_a_key_that_is_a_file_and_a_directory_the_directory_is_read(s3):
    for key in ("host.xplane.pb", "both", "both/below"):
        s3.put_file(str(FIRST), f"bucket/logs/{key}")
    with remote.fetched("s3://bucket/logs") as path:
        files = {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()}
    assert files == {"host.xplane.pb", "both/below"}


class Silent(MemoryFileSystem):
    """A store that does not answer."""

    protocol = "silent"
    cachable = False

    def info(self, path, **options):
        time.sleep(30)


def test_a_store_that_does_not_answer_is_one_sentence_in_time(monkeypatch):
    fsspec.register_implementation("silent", Silent, clobber=True)
    monkeypatch.setenv(remote.WAIT_VARIABLE, "0.2")
    begin = time.monotonic()
    for call in (
        lambda: tracekit.read("silent://bucket/logs"),
        lambda: tracekit.report(FIRST, "silent://bucket/report"),
        lambda: tracekit.report("silent://bucket/logs"),
        lambda: tracekit.load("silent://bucket/report"),
    ):
        with pytest.raises(
            TracekitError, match=r"^silent://bucket/\w+ cannot be \w+: its store did not answer within 0\.2 s\."
        ):
            call()
    assert time.monotonic() - begin < 5


def test_a_protocol_without_its_package_is_a_sentence_that_says_what_to_install(monkeypatch):
    absent = {"class": "no_such_package.Store", "err": "Install no_such_package to reach it"}
    monkeypatch.setitem(known_implementations, "absent", absent)
    with pytest.raises(
        TracekitError,
        match=r"^absent://a cannot be read: absent:// needs a package\. Install no_such_package to reach it\.$",
    ):
        tracekit.read("absent://a")
    with pytest.raises(TracekitError, match=r"^unheard://a cannot be read: fsspec knows no protocol unheard://\."):
        tracekit.read("unheard://a")


def test_without_fsspec_a_path_is_read_and_a_url_says_what_to_install():
    code = f"""
import sys
sys.modules["fsspec"] = sys.modules["s3fs"] = None
import tracekit
print(len(tracekit.read({str(FIRST)!r}).events))
for url in ("s3://bucket/a", "memory://a"):
    try:
        tracekit.read(url)
    except tracekit.TracekitError as error:
        print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=DATA.parents[1])
    assert (process.returncode, process.stderr) == (0, "")
    rows, *sentences = process.stdout.splitlines()
    assert int(rows) > 0
    assert sentences == [
        "s3://bucket/a cannot be read: s3:// needs a package. Install it: pip install 'tracekit-jax[s3]'.",
        "memory://a cannot be read: memory:// needs a package. Install it: pip install 'fsspec'.",
    ]


def test_a_bucket_that_is_not_there_is_said_before_anything_is_read(s3):
    with pytest.raises(
        TracekitError, match=r"^s3://nobody/a cannot be written: there is no bucket nobody\. Check the name\.$"
    ):
        tracekit.report(FIRST, "s3://nobody/a")
    with pytest.raises(TracekitError, match=r"^s3://nobody/a does not exist"):
        tracekit.read("s3://nobody/a")


def test_a_server_that_is_not_there_is_one_sentence_on_the_command_line_within_seconds(s3, tmp_path):
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "tracekit", "read", "s3://bucket/a"]
    begin = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=DATA.parents[1])
    assert time.monotonic() - begin < 25
    assert (process.returncode, process.stdout) == (1, "")
    assert re.fullmatch(r"tracekit: s3://bucket/a cannot be read: .*\. Check the name.*\n", process.stderr)


def test_import_tracekit_imports_no_fsspec():
    code = "import sys, json, tracekit; print(json.dumps([name for name in sys.modules if name.startswith('fsspec')]))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=DATA.parents[1])
    assert json.loads(process.stdout) == []


def test_a_server_of_the_web_that_is_not_reached_is_no_file_that_is_not_there():
    with pytest.raises(TracekitError, match=r"^http://127.0.0.1:9/a.json cannot be read: Cannot connect to host"):
        tracekit.read("http://127.0.0.1:9/a.json")
