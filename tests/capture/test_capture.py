"""`tracekit capture` runs a script as python would, and leaves a trace of it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import tracekit
from tracekit import CaptureError, cores
from tracekit.capture import jax_session
from tracekit.capture.capture import Captured, _leaving
from tracekit.capture.jax_session import JaxSession, _uncached
from tracekit.capture.script import check_file
from tracekit.capture.session import Plan
from tracekit.cli import main

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")},
    "JAX_PLATFORMS": "cpu",
    "PYTHONPATH": str(ROOT),
}


# A shell that starts these tests in the background has these signals ignored, and a capture keeps what was ignored
# before it.
HEEDING = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def start(folder, *command):
    return subprocess.Popen(
        [sys.executable, "-c", HEEDING, *map(str, command)],
        cwd=folder,
        env=ENVIRONMENT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def python(folder, *command):
    with start(folder, *command) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def capture(folder, *command):
    return python(folder, "-m", "tracekit", "capture", *command)


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def facts(out):
    (path,) = out.glob("plugins/profile/*/capture.json")
    return json.loads(path.read_text())


def event_names(out):
    """Return the names of all events of the only trace in `out`."""
    from jax.profiler import ProfileData

    (path,) = out.glob("plugins/profile/*/*.xplane.pb")
    planes = ProfileData.from_file(str(path)).planes
    return [event.name for plane in planes for line in plane.lines for event in line.events]


# Says all that a script can see of how it was started, then fails.
MIRROR = """
    '''Doc.'''
    # Has options of its own: --out, --devices.
    import atexit, gc, json, pickle, sys

    class Thing:
        pass

    def main():
        import jax.numpy as jnp
        print(float(jnp.ones(3).sum()))
        raise ValueError("boom")

    atexit.register(lambda: print("at exit:", sys.argv, sys.modules["__main__"].Thing is Thing))
    names = sorted(name for name in globals() if name.startswith("__"))
    print(json.dumps([sys.argv, sys.path, __name__, __file__, __doc__, __package__, __cached__, names]))
    print(getattr(__spec__, "name", None), type(__builtins__), type(__loader__), sys.excepthook is sys.__excepthook__)
    print("jax" in sys.modules, gc.get_threshold(), type(pickle.loads(pickle.dumps(Thing()))) is Thing)
    print("to stderr", file=sys.stderr)
    if __name__ == "__main__":
        main()
"""


def test_a_script_sees_and_prints_what_python_would_give_it_and_a_failure_still_leaves_a_trace(tmp_path):
    write(tmp_path, "real/mirror.py", MIRROR)
    (tmp_path / "link.py").symlink_to("real/mirror.py")
    command = ["./link.py", "--out", "x", "-h", "--", "--devices=3"]

    expected = python(tmp_path, *command)
    code, out, err = capture(tmp_path, *command)

    own = err.splitlines()[-2:]
    assert (code, out) == expected[:2]
    assert err.splitlines()[:-2] == expected[2].splitlines()
    assert "ValueError: boom" in err
    assert "tracekit" not in "".join(err.splitlines()[:-2])
    assert (code, own[1]) == (1, f"Next: tracekit report {own[0].split()[1].partition('/plugins')[0]}")
    (trace,) = (tmp_path / "traces").iterdir()
    assert re.fullmatch(r"link-\d{4}(_\d\d){5}-[0-9a-f]{6}", trace.name)
    assert own[0] == f"Wrote traces/{trace.name}/plugins/profile/{trace.name.removeprefix('link-')}"
    assert event_names(trace)
    record = facts(trace)
    assert record["command"] == ["python", *command]
    assert (record["schema"], record["exit_code"], record["platform"], record["xla_flags"]) == (1, 1, "cpu", "")
    assert record["devices"] == [{"id": 0, "kind": "cpu", "platform": "cpu", "process_index": 0}]
    assert record["usable_cores"] == cores.usable()
    assert set(record["machine"]) == {"cores", "load_average", "throttled", "samples", "lacking"}
    assert set(record["versions"]) == {"python", "jax", "jaxlib", "tracekit"}
    assert 0 < record["wall_s"] < 100
    assert "T" in record["started"]


def test_a_trace_is_written_into_a_directory_that_is_not_utf8(tmp_path):
    script = write(tmp_path, "s.py", "import jax.numpy as jnp; jnp.ones(3).block_until_ready()")
    out = tmp_path / os.fsdecode(b"t\xff")
    code, _, err = capture(tmp_path, "--out", out, script)
    assert (code, err.count("\n")) == (0, 2), err
    assert err.startswith(f"Wrote {tmp_path}/t\\xff/plugins/profile/")
    assert tracekit.read(out).capture["exit_code"] == 0
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_a_module_runs_as_python_m_would_run_it(tmp_path):
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/__main__.py", MIRROR)

    expected = python(tmp_path, "-m", "pkg", "a", "--module")
    code, out, err = capture(tmp_path, "--out", "t", "-m", "pkg", "a", "--module")

    assert (code, out) == expected[:2]
    # Python's own frames of -m stand in its traceback; tracekit's stand-ins for them do not.
    frozen = [line for line in expected[2].splitlines() if "<frozen runpy>" not in line]
    assert err.splitlines()[:-2] == frozen
    assert facts(tmp_path / "t")["command"] == ["python", "-m", "pkg", "a", "--module"]


def test_xla_flags_that_the_script_sets_hold_and_win_over_devices(tmp_path):
    script = write(
        tmp_path,
        "s.py",
        """
        import os, sys
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        import jax
        print(jax.device_count())
        sys.exit("that was it")
        """,
    )
    code, out, err = capture(tmp_path, "--devices", "2", "--out", "t", script)

    assert (code, out) == (1, "3\n")
    assert err.startswith("tracekit: --devices 2 is not used: XLA_FLAGS sets the number of CPU devices.\nthat was it\n")
    assert (len(facts(tmp_path / "t")["devices"]), facts(tmp_path / "t")["exit_code"]) == (3, 1)
    assert "device_count=3" in facts(tmp_path / "t")["xla_flags"]


def test_jax_num_cpu_devices_that_the_script_sets_wins_over_devices_and_xla_flags(tmp_path):
    script = write(
        tmp_path,
        "s.py",
        """
        import os, sys
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
        import jax
        jax.config.update("jax_num_cpu_devices", 4)
        print(jax.device_count())
        sys.exit(263)
        """,
    )
    code, out, err = capture(tmp_path, "--devices", "2", "--out", "t", script)

    assert (code, out) == (7, "4\n")
    assert "--devices 2 is not used: jax_num_cpu_devices is 4 already" in err
    assert facts(tmp_path / "t")["exit_code"] == 7


def test_a_script_may_initialise_jax_distributed_and_devices_hold(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = write(
        tmp_path,
        "s.py",
        f"""
        import jax
        jax.distributed.initialize("127.0.0.1:{port}", num_processes=1, process_id=0)
        total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jax.numpy.arange(2.0))
        with open("said", "w") as said:
            print(jax.process_count(), jax.local_device_count(), total, file=said)
        """,
    )
    code, _, err = capture(tmp_path, "--devices", "2", "--out", "t", "--python-tracer", script)

    # Into a file: Gloo's threads write to stdout too, and cut through each other's lines.
    assert (code, (tmp_path / "said").read_text()) == (0, "1 2 [1. 1.]\n")
    assert err.splitlines()[-1] == "Next: tracekit report t"
    assert any(name.startswith("$") for name in event_names(tmp_path / "t"))


@pytest.mark.parametrize(
    ("sent", "code", "caught", "work"),
    [
        (signal.SIGINT, 130, "KeyboardInterrupt", "endless"),
        (signal.SIGTERM, 143, "SystemExit", "done"),
        (signal.SIGHUP, 129, "SystemExit", "done"),
        (signal.SIGQUIT, 131, "SystemExit", "done"),
    ],
)
def test_an_interrupted_script_cleans_up_and_leaves_its_trace_at_once(tmp_path, sent, code, caught, work):
    write(
        tmp_path,
        "s.py",
        """
        import os, sys, time
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"  # what is endless takes one core
        import jax, jax.numpy as jnp
        try:
            x = jnp.ones((500, 500))
            (x @ x).block_until_ready()
            if "endless" in sys.argv:
                y = jax.jit(lambda x: jax.lax.while_loop(lambda y: y[0, 0] > 0, lambda y: y @ x / 500, x))(x)
            print("ready", flush=True)
            for _ in range(600):  # a signal that comes just before a sleep does not end it
                time.sleep(0.1)
        except (KeyboardInterrupt, SystemExit) as error:
            print([kind.__name__ for kind in type(error).__mro__ if kind in (KeyboardInterrupt, SystemExit)][0])
            raise
        """,
    )
    with start(tmp_path, "-m", "tracekit", "capture", "--out", "t", "s.py", work) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()  # else a failure would wait for the endless one

    assert (process.returncode, out) == (code, f"{caught}\n")
    assert "tracekit: interrupted; writing the trace.\nWrote t/" in err
    assert "tracekit/" not in err.replace("t/plugins", "")
    assert facts(tmp_path / "t")["exit_code"] == code
    assert any(name.startswith("dot") for name in event_names(tmp_path / "t"))


def test_what_a_script_forks_ends_by_a_signal_as_it_does_without_a_capture(tmp_path):
    """The child has no trace to write: it neither runs the rest of the script nor ends with another status."""
    script = write(
        tmp_path,
        "s.py",
        """
        import jax, os, signal, time
        (jax.numpy.ones((9, 9)) @ jax.numpy.ones((9, 9))).block_until_ready()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, b"ready")
                time.sleep(30)
            finally:
                os.write(writing, b"unwound")
            os._exit(0)
        os.close(writing)
        os.read(reading, 5)
        os.kill(child, signal.SIGTERM)
        print(os.waitpid(child, 0)[1], os.read(reading, 9))
        """,
    )
    code, out, _ = capture(tmp_path, "--out", "t", script)
    assert (code, out) == (0, "15 b''\n")
    assert facts(tmp_path / "t")["exit_code"] == 0


def test_a_fork_that_uses_jax_before_its_parent_does_is_no_capture_that_was_killed(tmp_path):
    script = write(
        tmp_path,
        "s.py",
        """
        import os
        child = os.fork()
        import jax
        jax.numpy.ones(3).block_until_ready()
        if child == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    code, out, err = capture(tmp_path, "--out", "t", script)
    assert (code, out) == (0, "0\n")
    assert "was killed" not in err
    assert err.count("tracekit: ") == 0
    assert "Wrote t/" in err
    assert facts(tmp_path / "t")["exit_code"] == 0


def test_a_limit_of_recursion_that_a_script_leaves_behind_costs_no_trace(tmp_path):
    work = "(jax.numpy.ones((9, 9)) @ jax.numpy.ones((9, 9))).sum()"
    write(tmp_path, "s.py", f"import sys, jax\n{work}\nsys.setrecursionlimit(60)\n")
    code, _, err = capture(tmp_path, "--out", "t", "s.py")
    assert (code, "Traceback" in err, "Wrote t/" in err) == (0, False, True), err
    assert any(name.startswith("dot") for name in event_names(tmp_path / "t"))


@pytest.mark.parametrize(("how", "code"), [("os.kill(os.getpid(), 9)", -9), ("ctypes.string_at(0)", -11)])
def test_a_process_that_is_killed_or_crashes_is_told_to_have_left_nothing(tmp_path, how, code):
    write(tmp_path, "s.py", f"import ctypes, os, jax\njax.numpy.ones(3).block_until_ready()\n{how}")
    (tmp_path / "t").mkdir()
    ended, _, err = capture(tmp_path, "--out", "t", "s.py")
    assert (ended, list((tmp_path / "t").iterdir())) == (code, [])
    assert err.count("\n") == 1
    assert err.startswith(
        "tracekit: the process ended before its trace was written (it was killed, or crashed): nothing"
    )


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_script_that_closes_what_it_did_not_open_is_told_what_is_so(tmp_path, monkeypatch, is_killed):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    script = """
        import os, jax
        jax.numpy.ones(3).block_until_ready()
        os.closerange(3, 1024)
        own = os.open("own.txt", os.O_CREAT | os.O_WRONLY)
        others = [os.dup(own) for _ in range(100)]  # of what was closed, the numbers too
        """
    write(tmp_path, "s.py", script + ("os.kill(os.getpid(), 9)" if is_killed else ""))
    code, _, err = capture(tmp_path, "--out", "t", "s.py")
    assert code == (-9 if is_killed else 0)
    assert (err.count("nothing was saved"), err.count("Wrote ")) == ((1, 0) if is_killed else (0, 1))
    assert (tmp_path / "own.txt").read_bytes() == b""
    assert [*(tmp_path / "tmp").glob("tracekit-*")] == []


class FullDisk:
    """A profiler that finds no room for its second file, or for any."""

    def __init__(self, written, first):
        self.written, self.first = written, first

    def stop_trace(self):
        self.written.mkdir(parents=True)
        (self.written / "vm.xplane.pb").write_bytes(b"whole" if self.first else b"wh")
        if self.first:
            (self.written / "vm.trace.json.gz").write_bytes(b"cut")
        raise RuntimeError(f"RESOURCE_EXHAUSTED: {self.written}/vm; No space left on device")


@pytest.mark.parametrize("first", [True, False])
def test_a_full_disk_leaves_a_whole_trace_or_none(tmp_path, monkeypatch, capsys, first):
    import jax.profiler

    profile = JaxSession(Plan(tmp_path, "name"))
    profile.facts = {"profiled_after_s": 0.0}
    profile._load.start()
    disk = FullDisk(tmp_path / ".name-0" / "plugins" / "profile" / "name", first)
    monkeypatch.setattr(jax.profiler, "stop_trace", disk.stop_trace)
    run = tmp_path / "plugins" / "profile" / "name"
    if first:
        profile.stop()
        assert {path.name for path in run.iterdir()} == {"vm.xplane.pb", "capture.json"}
        assert capsys.readouterr().err == (
            "tracekit: the trace is saved, without the profiler's copy in JSON, which could not be written: No space "
            "left on device.\n"
        )
    else:
        with pytest.raises(OSError, match=r"No space left on device\. Give an --out with room for it\.$"):
            profile.stop()
        assert not run.exists()
    assert not (tmp_path / ".name-0").exists()


def test_a_script_that_profiles_itself_is_told_and_both_go_on(tmp_path):
    script = write(
        tmp_path,
        "s.py",
        """
        import jax
        jax.profiler.start_trace("own")
        with jax.profiler.TraceAnnotation("first"):
            jax.numpy.ones(3).block_until_ready()
        jax.profiler.stop_trace()
        with jax.profiler.trace("own"), jax.profiler.TraceAnnotation("second"):
            jax.numpy.ones(4).block_until_ready()
        print("end")
        """,
    )
    code, out, err = capture(tmp_path, "--out", "t", script)

    assert (code, out) == (0, "end\n")
    assert err.count("the script uses jax.profiler itself; one profile can run at a time") == 1
    assert len(err.splitlines()) == 3
    assert {"first", "second"} <= set(event_names(tmp_path / "t"))
    assert not (tmp_path / "own").exists()


def test_work_that_the_script_did_not_wait_for_is_in_the_trace(tmp_path):
    script = write(
        tmp_path,
        "s.py",
        """
        import os, threading, time
        if os.fork() == 0:
            raise SystemExit(5)  # the child ends as under python, and leaves its parent's trace alone
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        import jax, tracekit
        with tracekit.phase("the first use of a device"):
            jax.numpy.ones((64, 64)).block_until_ready()
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda i, y: y @ x, x))
        g = jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((64, 64), "float32")).compile()

        def later():
            time.sleep(0.3)
            with jax.profiler.TraceAnnotation("in a thread"):
                g(jax.numpy.ones((64, 64)))

        def main():
            f(jax.numpy.ones((700, 700)))  # nobody keeps the result
            threading.Thread(target=later).start()

        main()
        """,
    )
    code, out, err = capture(tmp_path, "--out", "t", script)

    assert (code, len(err.splitlines())) == (0, 2)
    assert re.fullmatch(r"5\nthe first use of a device: [\d.]+ m?s\n", out)
    names = event_names(tmp_path / "t")
    assert names.count("in a thread") == names.count("the first use of a device") == 1
    # XLA writes this one when the loop is done.
    assert sum(name.startswith("end: while") for name in names) == 1


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("print('hello')", 1, "did not import jax in this process"),
        ("raise SystemExit(3)", 3, "did not import jax in this process before it ended with exit code 3"),
        ("import jax; print('hello')", 1, "used no jax device in this process"),
    ],
)
def test_a_script_that_uses_no_device_is_told_so_and_leaves_no_directory(tmp_path, text, code, reason):
    write(tmp_path, "s.py", text)
    returned, _, err = capture(tmp_path, "s.py")

    assert returned == code
    assert err.startswith(f"tracekit: nothing was captured: s.py {reason}")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]


def test_what_cannot_start_is_one_sentence(tmp_path, monkeypatch):
    script = write(tmp_path, "s.py", "import jax")
    (tmp_path / "s.bin").write_bytes(b"\x7fELF\0")
    (tmp_path / "syntax.py").write_bytes(b"import jax\nx = (\n")
    (tmp_path / "coding.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "n.ipynb").write_text('{"cells": []}')

    for name, message in [
        ("missing.py", "there is no script"),
        ("", "is a directory; name the script in it, or run a package with --module"),
        ("s.bin", "is not Python text"),
        ("n.ipynb", r"is a notebook; capture what `jupyter nbconvert --to script .*n\.ipynb` makes\."),
        ("syntax.py", r"(?s)syntax\.py is not valid Python:\n  File .*syntax\.py\", line 2\n.*\nSyntaxError: "),
        ("coding.py", r"(?s)coding\.py is not valid Python:\n  File .*coding\.py\", line 1\n.*\nSyntaxError: "),
    ]:
        with pytest.raises(CaptureError, match=message):
            check_file(str(tmp_path / name))
    with pytest.raises(CaptureError, match="is a file, and a trace is a directory"):
        tracekit.capture(script, out=script)
    with pytest.raises(CaptureError, match=r"s\.py/t cannot be written: Not a directory"):
        tracekit.capture(script, out=script / "t")
    with pytest.raises(CaptureError, match="cannot be written: File name too long; name another directory with --out"):
        tracekit.capture(script, out=tmp_path / "new" / ("t" * 300))
    with pytest.raises(CaptureError, match=r"cannot be written: (l?stat: )?embedded null"):
        tracekit.capture(script, out="\0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coding.py", "n.ipynb", "s.bin", "s.py", "syntax.py"]
    with pytest.raises(CaptureError, match="there is no module tracekit_none"):
        tracekit.capture("tracekit_none.sub", module=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError, match=r"(?s)^syntax is not valid Python:\n  File .*SyntaxError: "):
        tracekit.capture("syntax", module=True, out=tmp_path / "t")
    with pytest.raises(CaptureError, match="at least 1, not 0"):
        tracekit.capture(script, devices=0)
    with pytest.raises(CaptureError, match="0, 1, 2 or 3, not 4"):
        tracekit.capture(script, host_level=4)


def test_an_option_that_does_not_exist_is_not_taken_for_the_script(tmp_path):
    code, _, err = capture(tmp_path, "--ouut", "t", "s.py")
    assert code == 2
    assert (
        "No such option: --ouut. If it is the script's, it comes after the script: tracekit capture SCRIPT --ouut"
        in err
    )


@pytest.mark.parametrize(("text", "told"), [("", True), ("add_argument('--out')", False), ('DEFINE("out")', False)])
def test_an_option_after_a_script_that_does_not_know_it_is_pointed_out(tmp_path, monkeypatch, capsys, text, told):
    script = write(tmp_path, "s.py", f"# {text}\nx = (")
    monkeypatch.setattr(sys, "argv", ["tracekit", "capture", str(script), "--out=x", "--other"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit):
        main()
    said = (
        f"tracekit: --out stands after {script}, so it is the script's; tracekit's own options come before the script."
    )
    first = capsys.readouterr().err.splitlines()[0]
    assert first == said if told else first.startswith(f"tracekit: {script} is not valid Python:")


def test_the_trace_is_written_before_a_script_leaves_past_pythons_end(monkeypatch, capsys, tmp_path):
    class Profile:
        facts, is_stopped = {}, False

        def wait_for_work(self, limit_s):
            assert limit_s < 10

    def finish(ending, exit_code):
        calls.append(("finish", ending.exit_code, exit_code))
        return Captured(Path("t"), Path("t/run"), ending.exit_code)

    calls = []
    program = tmp_path / "program"
    program.write_text("")
    program.chmod(0o755)
    for name in ("_exit", "execv", "execve"):
        monkeypatch.setattr(os, name, lambda *args, name=name: calls.append((name, *args)))
    before = os._exit, os.execv
    with _leaving(Profile(), finish):
        os._exit(259)
        os.execv(program, ["program"])
        os.execv(tmp_path / "missing", ["missing"])
    assert (os._exit, os.execv) == before
    assert calls == [
        ("finish", 3, 3),
        ("_exit", 3),
        ("finish", 0, None),
        ("execv", program, ["program"]),
        ("execv", tmp_path / "missing", ["missing"]),
    ]
    assert capsys.readouterr().err.splitlines()[:3] == [
        "tracekit: the script ended with os._exit(259); writing the trace up to here.",
        "Wrote t/run",
        "Next: tracekit report t",
    ]


def test_a_script_that_leaves_past_pythons_end_without_a_trace_is_told_so(tmp_path):
    write(tmp_path, "s.py", "import os; os._exit(0)")
    code, _, err = capture(tmp_path, "s.py")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("tracekit: the script ended with os._exit(0); nothing was captured: s.py did not import jax")


def test_the_library_twin_puts_the_process_back_and_captures_a_running_jax(tmp_path):
    write(tmp_path, "inner.py", "import os, sys; os.environ['NEW'] = '1'; import jax; jax.numpy.ones(3); sys.exit(4)")
    outer = """
        import os, signal, sys
        import tracekit
        def state():
            handler = signal.getsignal(signal.SIGTERM)
            return sys.argv, sys.path[:], sys.modules["__main__"], dict(os.environ), handler, sys.meta_path[:]
        before = state()
        assert "jax" not in sys.modules
        one = tracekit.capture("inner.py", ["a"], out="t", devices=2)
        two = tracekit.capture("inner.py", out="t")
        assert state() == before
        assert (one.exit_code, one.path, one.run.parent) == (4, two.path, two.run.parent)
        import jax, jax.profiler
        assert jax.device_count() == 2
        assert all(len(list(run.glob("*.xplane.pb"))) == 1 for run in (one.run, two.run)) and one.run != two.run
        try:
            tracekit.capture("inner.py", devices=3)
        except tracekit.CaptureError as error:
            print(error)
        with jax.profiler.trace("own"):  # works as before
            try:
                tracekit.capture("inner.py")
            except tracekit.CaptureError as error:
                print(error)
        assert os.listdir("own/plugins/profile")
    """
    write(tmp_path, "outer.py", outer)
    code, out, err = python(tmp_path, "outer.py")

    assert (code, out.count("\n"), err.count("\n")) == (0, 2, 1), err
    assert out.startswith("jax has its devices already in this process")
    assert "jax.profiler did not start: Profile has already been started" in out
    assert err.startswith("tracekit: this run will leave no trace")
    assert len(list(tmp_path.glob("t/plugins/profile/*/capture.json"))) == 2


def test_importing_tracekit_imports_no_jax():
    code, out, _ = python(ROOT, "-c", "import sys, tracekit; tracekit.capture; print('jax' in sys.modules)")
    assert (code, out) == (0, "False\n")


@pytest.mark.parametrize(("is_ready", "told"), [(False, 1), (True, 0)])
def test_a_run_that_is_stuck_is_told_so_once_and_one_that_is_idle_is_not(tmp_path, monkeypatch, capsys, is_ready, told):
    class Array:
        def is_deleted(self):
            return False

        def is_ready(self):
            looked.append(1)
            if len(looked) == 3:
                profile._stopped.set()
            return is_ready

    looked = []
    profile = JaxSession(Plan(tmp_path, "name"))
    profile._stopped.wait = lambda timeout: profile._stopped.is_set()  # no second passes
    monkeypatch.setattr(jax_session, "_STUCK_S", -1.0)
    monkeypatch.setattr("jax.live_arrays", lambda: [Array()])
    profile._watch()
    assert len(looked) == (1 if told else 3)
    assert capsys.readouterr().err.count("the run seems stuck") == told


def test_what_a_cache_of_jax_refuses_inside_itself_is_asked_past_it():
    bridge = ModuleType("xla_bridge")

    class Cached:
        """As the caches of jax 0.12, which take a question inside the same question for endless recursion."""

        def __init__(self, function):
            self.__wrapped__ = function

        def __call__(self):
            raise RecursionError

        def cache_clear(self):
            raise NotImplementedError

    bridge.process_count = cached = Cached(lambda: 2)
    with _uncached(bridge):
        assert bridge.process_count() == 2
    assert bridge.process_count is cached
