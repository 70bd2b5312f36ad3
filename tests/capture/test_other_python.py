"""`tracekit capture --python`: another interpreter under MXNet's profiler; a module that stands in for MXNet.

Where TRACEKIT_MXNET names a Python that has MXNet, tests/workloads/test_mxnet.py tries the real one.
"""

import ast
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tracekit
from tracekit.capture import mxnet_runner

ROOT = Path(__file__).parents[2]

# What a script and the runner use of MXNet: its profiler notes what it is told, and dumps it as MXNet does.
MXNET = """
    import json, os, sys, time, types

    __version__ = "1.9.1"
    nd = types.ModuleType("mxnet.nd")
    profiler = types.ModuleType("mxnet.profiler")
    events, is_running, config = [], [False], {}

    def event(ph, name, cat, pid):
        if is_running[0]:
            events.append({"ph": ph, "name": name, "cat": cat, "pid": pid, "tid": 7, "ts": time.time_ns() // 1000})

    def dot():
        event("B", "dot", "operator", 0)
        event("E", "dot", "operator", 0)

    def set_config(**options):
        config.update(options)

    def set_state(state="stop"):
        is_running[0] = state == "run"

    def dump(finished=True):
        names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
                 for pid, name in ((0, "cpu/0"), (9, "tracekit"))]
        with open(config["filename"], "w") as file:
            json.dump({"traceEvents": names + events}, file)

    class Domain:
        def __init__(self, name):
            self.name = name

    class Task:
        def __init__(self, domain, name):
            self.domain, self.name = domain, name

        def start(self):
            event("b", self.name, self.domain.name, 9)

        def stop(self):
            event("e", self.name, self.domain.name, 9)

    nd.dot, nd.waitall = dot, lambda: None
    vars(profiler).update(set_config=set_config, set_state=set_state, dump=dump, Domain=Domain, Task=Task)
    sys.modules["mxnet.nd"], sys.modules["mxnet.profiler"] = nd, profiler
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A directory with the stand-in for MXNet."""
    (tmp_path / "mxnet.py").write_text(textwrap.dedent(MXNET))
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tracekit", "capture", "--python", sys.executable, "--out", "t", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def capture(folder: Path, script: str, *args: str) -> tuple[int, str, str]:
    """What a capture of the script gives."""
    (folder / "s.py").write_text(textwrap.dedent(script))
    done = subprocess.run(command("s.py", *args), cwd=folder, env=environment(), capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def facts(folder: Path) -> dict:
    (path,) = folder.glob("t/plugins/profile/*/capture.json")
    return json.loads(path.read_text())


def test_the_runner_is_of_python_3_7_and_imports_the_standard_library_alone():
    tree = ast.parse(Path(mxnet_runner.__file__).read_text(), feature_version=(3, 7))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"mxnet"}


def test_a_script_runs_as_python_would_run_it_and_its_phases_and_failure_are_kept(folder):
    code, out, err = capture(
        folder,
        """
        import sys, mxnet, tracekit
        print(__name__, sys.argv, sys.path[0] == __file__.rpartition("/")[0])
        with tracekit.unrecorded():
            mxnet.nd.dot()
        with tracekit.phase("one") as times:
            mxnet.nd.dot()
        assert times.wall_ps > 0
        with tracekit.phase("both", alone="one"):
            mxnet.nd.dot()
        mxnet.profiler.set_state("stop")
        mxnet.profiler.dump()
        raise ValueError("boom")
        """,
        "a", "--b",
    )  # fmt: skip
    (run,) = (folder / "t/plugins/profile").iterdir()
    lines = out.splitlines()
    assert (code, lines[0], [line.partition(":")[0] for line in lines[1:]]) == (
        1, "__main__ ['s.py', 'a', '--b'] True", ["one", "both"],
    )  # fmt: skip
    assert "the script uses mxnet.profiler itself" in err.splitlines()[0]
    assert "mxnet_runner" not in err
    assert err.splitlines()[-3:] == [
        "ValueError: boom", f"Wrote t/plugins/profile/{run.name}", "Next: tracekit report t",
    ]  # fmt: skip
    trace = tracekit.read(folder / "t")
    assert (trace.format, len(trace.events)) == ("mxnet", 2)
    spans = trace.spans[["name", "tracekit", "alone"]].astype(object)
    assert spans.where(spans.notna(), None).values.tolist() == [["one", "phase", None], ["both", "phase", "one"]]
    own = facts(folder)
    assert (own["command"], own["exit_code"], own["profiler"]) == (["python", "s.py", "a", "--b"], 1, "mxnet")
    assert set(own["versions"]) == {"python", "mxnet", "tracekit"}
    assert [path.name for path in (folder / "t").iterdir()] == ["plugins"]


@pytest.mark.parametrize(("ending", "exit_code"), [("sys.exit(4)", 4), ("os._exit(5)", 5), ("sys.exit('no')", 1)])
def test_however_the_script_ends_the_trace_is_written(folder, ending, exit_code):
    code, _, _ = capture(folder, f"import os, sys, mxnet\nmxnet.nd.dot()\n{ending}")
    assert (code, facts(folder)["exit_code"], len(tracekit.read(folder / "t").events)) == (exit_code, exit_code, 1)


def test_a_request_to_end_is_the_scripts_and_its_trace_is_written(folder):
    # A signal that comes just before a sleep does not end it.
    script = "import time, mxnet\nmxnet.nd.dot()\nprint('go', flush=True)\nfor _ in range(600): time.sleep(0.1)\n"
    (folder / "s.py").write_text(script)
    with subprocess.Popen(
        command("s.py"), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "go\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert (process.returncode, len(tracekit.read(folder / "t").events)) == (128 + signal.SIGINT, 1)


def test_processes_of_the_script_are_said_to_be_missing_and_those_of_libraries_are_not(folder):
    code, _, err = capture(
        folder,
        """
        import multiprocessing, os, subprocess, sys
        from concurrent.futures import ProcessPoolExecutor
        import mxnet

        def work(number=0):
            return number

        if __name__ == "__main__":
            mxnet.nd.dot()
            for method in ("fork", "spawn"):
                process = multiprocessing.get_context(method).Process(target=work)
                process.start()
                process.join()
            if (pid := os.fork()) == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            subprocess.run(["true"], check=True)
            with ProcessPoolExecutor(1) as pool:
                assert [*pool.map(work, [3])] == [3]
        """,
    )
    assert (code, err.splitlines()[0]) == (
        0,
        "tracekit: 4 processes that the script started are not in the trace: MXNet's profiler records its own process. "
        "Capture what each runs by itself.",
    )
    assert len(tracekit.read(folder / "t").events) == 1


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("", "nothing was captured: s.py did not import mxnet."),
        (
            "import os\nif os.fork() == 0:\n    os._exit(0)",
            "nothing was captured: s.py did not import mxnet. 1 process that the script started is not in the trace: "
            "MXNet's profiler records its own process. Capture what each runs by itself.",
        ),
        ("exit(3)", "nothing was captured: s.py did not import mxnet before it ended with exit code 3."),
        (
            "import mxnet, os\nos.kill(os.getpid(), 9)",
            "nothing was captured: s.py was ended (exit code 137: killed, or crashed) before its trace was written; "
            "MXNet keeps a trace in memory up to its end.",
        ),
    ],
)
def test_a_script_without_a_trace_leaves_nothing_and_says_why(folder, script, sentence):
    code, _, err = capture(folder, script)
    assert (code > 0, err) == (True, f"tracekit: {sentence}\n")
    assert [*(folder / "t").iterdir()] == []


def test_an_interpreter_that_cannot_run_it_is_one_sentence(tmp_path):
    (tmp_path / "s.py").touch()
    (tmp_path / "text").touch()
    for python, sentence in (
        (sys.executable, f"mxnet is not installed in {sys.executable}: `{sys.executable} -m pip install mxnet==1.9.1"),
        ("no-such-python", "--python no-such-python is not there: give the path of a Python that has mxnet."),
        (str(tmp_path / "text"), f"--python {tmp_path / 'text'} is not executable: give the path of a Python"),
        ("false", "/"),
    ):
        with pytest.raises(tracekit.CaptureError) as raised:
            tracekit.capture(tmp_path / "s.py", python=python, out=tmp_path / "t")
        assert str(raised.value).startswith(sentence)
    assert "false did not run the script (exit code 1)" in str(raised.value)
    assert [*(tmp_path / "t").iterdir()] == []
