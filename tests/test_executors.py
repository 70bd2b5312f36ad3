"""The files of a run read by processes or a Dask cluster: the same trace, bit for bit, and a hole for a lost file."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import tracekit
from tests.executor_tasks import die, double
from tests.programs import ROOT
from tests.readers.nsys.exports import Tables, as_parquet
from tests.readers.test_summary import assert_equal
from tests.simulator.clocks import recorder
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit import executors
from tracekit.cli import main
from tracekit.errors import TracekitError
from tracekit.executors import Processes, executor_of, results
from tracekit.readers import Reduction, read
from tracekit.report.figures.figure import write_figures
from tracekit.timeline.reduction import reduced


def job_in(folder, trace_format="xspace"):
    """A job of several ranks whose clocks drift, and its files."""
    job = random_job(3)
    source = FORMATS[trace_format](Truth(job), folder, recorder("hosts", 3, job.ranks))
    return source, sorted(path for path in source.rglob("*") if path.is_file())


class Called(Executor):
    """Runs tasks at once in this process, keeps what they were called with, and loses those of the files `lost`."""

    def __init__(self, *lost):
        self.calls, self.lost = [], lost

    def submit(self, task, /, *arguments, **_):
        self.calls.append(arguments)
        future = Future()
        if any(name in arguments[0] for name in self.lost):
            future.set_exception(BrokenExecutor("a process was ended"))
        else:
            future.set_result(task(*arguments))
        return future


@pytest.mark.parametrize("trace_format", [*FORMATS])
def test_any_executor_gives_the_trace_that_this_process_reads(tmp_path, monkeypatch, trace_format):
    _, files = job_in(tmp_path / "traces", trace_format)
    monkeypatch.chdir(tmp_path)
    source = Path("traces")
    called = Called()
    trace, other = read(source), read(source, executor=called)
    assert [Path(where) for where, *_ in called.calls] == files  # workers may have other working directories
    assert_equal(trace, other)
    assert other.capture == trace.capture
    with ThreadPoolExecutor(2) as pool:
        assert_equal(trace, read(source, executor=pool))
    some = read(source, steps=(0, 1))
    assert_equal(some, read(source, steps=(0, 1), executor=called))
    assert 0 < len(some.events) < len(trace.events)


def test_an_export_of_several_files_is_one_task_and_named_by_its_directory(tmp_path, monkeypatch, memory):
    for rank in (0, 1):
        (tmp_path / "logs" / f"rank{rank}").mkdir(parents=True)
        export = Tables().kernel("gemm", 100, 150 + rank).write(tmp_path / f"{rank}.sqlite")
        as_parquet(export, tmp_path / "logs" / f"rank{rank}" / "run_pqtdir")
    memory.put(str(tmp_path / "logs"), "/bucket/logs", recursive=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracekit.remote.is_shared", bool)
    for source in (Path("logs"), "memory://bucket/logs"):
        called = Called()
        trace, other = read(source), read(source, executor=called)
        assert_equal(trace, other)
        assert len(called.calls) == len(trace.hosts) == 2


@pytest.fixture(scope="module")
def processes():
    with Processes(2) as pool:
        yield pool


def test_two_processes_give_the_trace_that_one_reads(tmp_path, processes):
    source, _ = job_in(tmp_path / "traces", "kineto")
    assert_equal(read(source), read(source, executor=processes))


def test_results_come_in_the_order_of_their_tasks(processes):
    assert [*results(processes, double, [(1,), (2,), (3,)])] == [2, 4, 6]


@pytest.mark.parametrize(("times", "is_lost"), [(1, False), (9, True)])
def test_a_task_whose_process_dies_runs_once_more_and_is_then_lost_alone(tmp_path, times, is_lost):
    with Processes(2) as pool:
        first, second = results(pool, die, [(str(tmp_path / "first"), times), (str(tmp_path / "second"), 0)])
    assert second == "second"
    assert isinstance(first, BrokenExecutor) if is_lost else first == "first"


def interrupted():
    with Processes(1) as pool:
        assert pool.submit(double, 1).result() == 2
        pool.submit(time.sleep, 600)
        raise KeyboardInterrupt


def test_an_error_ends_what_the_processes_do():
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begun < 300


def is_running(process):
    """Whether a process runs, which its parent may have left unreaped."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


ORPHANED = """
    import os, signal, sys, time
    from tracekit.executors import Processes

    if __name__ == "__main__":
        pool = Processes(1)
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_the_one_that_has_started_them(tmp_path):
    script = tmp_path / "orphaned.py"
    script.write_text(textwrap.dedent(ORPHANED))
    program = subprocess.run([sys.executable, script], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=-1, stderr=-1)
    assert program.returncode == -9
    process, deadline = int(program.stdout), time.monotonic() + 60
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(process)


def test_a_file_whose_worker_dies_is_a_note_and_a_hole(tmp_path):
    source, (first, second) = job_in(tmp_path / "traces")
    trace = read(source, executor=Called(str(second)))
    assert trace.hosts["source"].tolist() == [str(first)]
    assert trace.losses[["what", "lost", "total"]].values.tolist() == [["files", 1, 2]]
    (evidence,) = trace.losses["evidence"]
    assert "its worker came to no end (BrokenExecutor: a process was ended)" in evidence
    assert "read fewer files at a time" in evidence
    with pytest.raises(TracekitError, match="came to no end"):
        read(source, executor=Called(str(first), str(second)))


def test_a_damaged_file_is_told_as_in_one_process(tmp_path, processes):
    source, (_, second) = job_in(tmp_path / "traces")
    second.write_bytes(second.read_bytes()[:40])
    trace, other = read(source), read(source, executor=processes)
    assert_equal(trace, other)
    assert len(trace.losses)


def test_a_file_that_workers_do_not_see_says_where_to_put_it(tmp_path):
    source, (_, second) = job_in(tmp_path / "traces")

    class Elsewhere(Called):
        def submit(self, task, /, where, *rest):
            return super().submit(task, where.replace(str(second), "/nowhere/at/all"), *rest)

    (evidence,) = read(source, executor=Elsewhere()).losses["evidence"]
    assert "workers share no disk. Put it where all of them see it, or into a bucket" in evidence


def test_summaries_are_unpacked_here(tmp_path):
    _, files = job_in(tmp_path / "traces")
    (tmp_path / "summaries").mkdir()
    for file in files:
        tracekit.summarise(file, tmp_path / "summaries")
    called = Called()
    assert len(read(tmp_path / "summaries", executor=called).hosts) == 2
    assert called.calls == []


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield fsspec.filesystem("memory")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_what_lies_in_the_memory_of_this_process_is_handed_over_as_a_file(tmp_path, memory):
    source, _ = job_in(tmp_path / "traces")
    memory.put(str(source), "/bucket/logs", recursive=True)
    called = Called()
    trace = read("memory://bucket/logs", executor=called)
    assert_equal(trace, read("memory://bucket/logs"))
    assert all(Path(where).is_absolute() for where, *_ in called.calls)


def test_workers_fetch_files_at_urls_themselves(tmp_path, memory, monkeypatch):
    source, files = job_in(tmp_path / "traces")
    memory.put(str(source), "/bucket/logs", recursive=True)
    trace = read("memory://bucket/logs")
    monkeypatch.setattr("tracekit.remote.is_shared", bool)
    called = Called()
    assert_equal(read("memory://bucket/logs/", executor=called), read("memory://bucket/logs/"))
    names = [file.relative_to(source).as_posix() for file in files]
    assert [where for where, *_ in called.calls] == [f"memory://bucket/logs/{name}" for name in names]
    assert_equal(trace, read("memory://bucket/logs", executor=Called()))


@pytest.mark.parametrize(
    ("sizes", "name", "count", "is_divided"),
    [
        ([100_000_000, 97_000_000], "t{}.json", None, True),
        ([900_000_000, 90_000_000], "t{}.json", None, False),  # the largest is read meanwhile
        ([100_000_000, 10_000_000], "t{}.json.gz", None, True),
        ([900_000_000], "t{}.json", None, False),
        ([900_000_000] * 3, "t{}.xplane.pb", None, False),  # whose decoder lets threads run
        ([10, 10], "t{}.xplane.pb", 2, True),
        ([10], "t{}.xplane.pb", 2, False),
    ],
)  # fmt: skip
def test_processes_are_started_where_they_pay_or_are_asked_for(tmp_path, monkeypatch, sizes, name, count, is_divided):
    from tracekit.readers import _divided, find, formats

    monkeypatch.setattr("tracekit.cores.threads", lambda most: min(most, 2))
    files = [tmp_path / name.format(number) for number in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        file.touch()
        os.truncate(file, size)
    its_type = formats.CHROME if "json" in name else formats.XSPACE
    origin = find.TraceFiles(tmp_path, tuple(files), its_type, ("run",))
    assert _divided(origin, Processes(count), False) == (tuple(files) if is_divided else ())


@pytest.mark.parametrize(("hosts", "are_divided"), [(31, False), (32, True)])
def test_processes_reduce_many_hosts_and_summaries_too(tmp_path, monkeypatch, hosts, are_divided):
    from tracekit.readers import _divided, find, formats

    monkeypatch.setattr("tracekit.cores.threads", lambda most: min(most, 2))
    files = tuple(tmp_path / f"{host}.tracekit.zip" for host in range(hosts))
    for file in files:
        file.touch()
    spaces = find.TraceFiles(tmp_path, files[:4], formats.XSPACE, ("run",), summaries=files[4:])
    for origin in (find.TraceFiles(tmp_path, files, formats.SUMMARY, ("run",)), spaces):
        assert _divided(origin, Processes(), True) == (files if are_divided else ())
        assert _divided(origin, Processes(), False) == ()


def said(monkeypatch, capsys, *words):
    """What a command line that fails says."""
    monkeypatch.setattr(sys, "argv", ["tracekit", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code
    return capsys.readouterr().err


def test_dask_that_is_not_installed_is_named_with_its_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = said(monkeypatch, capsys, "read", ROOT / "tests" / "data", "--dask", "tcp://localhost:8786")
    assert words == "tracekit: --dask needs a package. Install it: pip install 'tracekit-jax[dask]'.\n"


def test_jobs_and_dask_together_are_refused(monkeypatch, capsys):
    words = said(monkeypatch, capsys, "read", "x", "--jobs", 2, "--dask", "tcp://localhost:8786")
    assert words == "tracekit: Give --jobs or --dask: the one reads on this machine, the other on a cluster.\n"


class Asked(Called):
    def submit(self, task, /, *arguments, **_):
        raise TracekitError("asked")


def test_reports_and_the_command_line_hand_the_executor_on(tmp_path, monkeypatch, capsys):
    source, _ = job_in(tmp_path / "traces")
    with pytest.raises(TracekitError, match=r"^asked$"):
        tracekit.report(source, tmp_path / "report", executor=Asked())
    monkeypatch.setattr(Processes, "submit", Asked.submit)
    for command in ("read", "report"):
        assert said(monkeypatch, capsys, command, source, "--jobs", 2) == "tracekit: asked\n"


def test_a_saved_report_has_nothing_to_divide(tmp_path, monkeypatch, capsys):
    source, _ = job_in(tmp_path / "traces")
    tracekit.analyse(source).save(tmp_path / "report")
    words = said(monkeypatch, capsys, "report", tmp_path / "report", "--jobs", 2)
    assert words == (
        f"tracekit: {tmp_path}/report is a saved report, which no executor reads. Leave out --jobs and --dask.\n"
    )


def test_a_scheduler_is_asked_where_a_loop_runs_as_in_a_notebook(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "_SCHEDULER_S", 0.5)

    async def cell():
        with pytest.raises(TracekitError, match="no answer within"), executor_of(None, "tcp://127.0.0.1:9"):
            pass

    with ThreadPoolExecutor(1) as other:  # this thread has a loop where a browser's tests ran before
        other.submit(asyncio.run, cell()).result()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:9", "no answer within 0.5 s"),
        ("nonsense", "missing port number in address 'nonsense'"),
    ],
)
def test_a_scheduler_that_is_not_there_is_one_sentence(monkeypatch, capsys, address, reason):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "_SCHEDULER_S", 0.5)
    words = said(monkeypatch, capsys, "read", ROOT / "tests" / "data", "--dask", address)
    assert words == (
        f"tracekit: The Dask scheduler {address} cannot be reached: {reason}. Check the address, such as "
        "tcp://HOST:8786, and that it runs.\n"
    )


# The first worker that reads a file of rank 1 is killed on the way.
KILLED_ONCE = """
    import os, signal
    from tracekit import readers

    def read_each(path, *how, original=readers._host_trace):
        if "rank1" in str(path):
            try:
                os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return original(path, *how)

    readers._host_trace = read_each
"""


@pytest.fixture
def cluster(tmp_path):
    """A Dask scheduler with three workers, one of which is killed as it reads rank 1, where it leaves a marker."""
    pytest.importorskip("distributed")
    marker, preload, about = (tmp_path / name for name in ("marker", "preload.py", "scheduler.json"))
    preload.write_text(textwrap.dedent(KILLED_ONCE.format(marker=str(marker))))
    shared = ["--host", "127.0.0.1", "--scheduler-file", str(about), "--no-dashboard"]
    worker = ["worker", *shared, "--no-nanny", "--nthreads", "1", "--preload", str(preload)]
    worker += ["--local-directory", str(tmp_path)]
    children = []
    try:
        for words in (["scheduler", *shared, "--port", "0"], *[worker] * 3):
            command = [sys.executable, "-m", "dask", *words]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            children.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60
        address = None
        while address is None and time.monotonic() < deadline:
            time.sleep(0.05)
            # The scheduler makes the file before it writes it.
            with suppress(FileNotFoundError, json.JSONDecodeError):
                address = json.loads(about.read_text())["address"]
        assert address, "the scheduler did not start within a minute"
        yield address, marker
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()


def test_a_cluster_that_loses_a_worker_on_the_way_gives_the_same_report_bit_for_bit(tmp_path, cluster):
    address, marker = cluster
    source, files = job_in(tmp_path / "traces", "kineto")
    assert sum("rank1" in str(file) for file in files) == 1
    with executor_of(None, address) as executor:
        trace = read(source, executor=executor)
    assert marker.exists(), "no worker was killed"
    here = read(source)
    assert_equal(here, trace)
    tracekit.analyse(here).save(tmp_path / "here")
    tracekit.analyse(trace).save(tmp_path / "cluster")
    files = [path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*") if path.is_file()]
    assert Path("summary.json") in files
    one, other = ([(tmp_path / name / file).read_bytes() for file in files] for name in ("here", "cluster"))
    assert one == other
    with executor_of(None, address) as executor:
        small = read(source, executor=executor, reduction=Reduction(reduced))
    assert len(small.events) < small.row_count == len(here.events)
    assert_equal(small, read(source, reduction=Reduction(reduced)))


def test_figures_and_exports_read_a_run_as_reports_do(tmp_path, monkeypatch):
    source, files = job_in(tmp_path / "traces")
    monkeypatch.chdir(tmp_path)
    called = Called()
    tracekit.export(source, tmp_path / "alone", to="parquet")
    tracekit.export(source, tmp_path / "beside", to="parquet", executor=called)
    for table in (tmp_path / "alone").iterdir():
        assert (tmp_path / "beside" / table.name).read_bytes() == table.read_bytes()
    write_figures(source, "partition", out=tmp_path / "pictures", executor=called)
    assert (tmp_path / "pictures" / "partition.png").stat().st_size > 0
    assert sorted(arguments[0] for arguments in called.calls) == sorted(2 * [str(file) for file in files])
