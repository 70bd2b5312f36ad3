"""`tracekit capture --profiler nsys`, with a stand-in for nsys that knows the options of 2022.4."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tracekit
from tests.nsys_stand_in import Nsys
from tests.readers.nsys.exports import Tables

ROOT = Path(__file__).parents[2]

# A tool that NVTX loads: it writes what is pushed and popped, as nsys's own library would record it.
TOOL = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef int (*get_table)(int, void ****, unsigned *);
struct callbacks { size_t size; get_table table; };
static void say(const char *text) {
    FILE *file = fopen(getenv("RANGES"), "a");
    fprintf(file, "%s\n", text);
    fclose(file);
}
static int push(const char *name) { say(name); return 0; }
static int pop(void) { say("pop"); return 0; }
int InitializeInjectionNvtx2(const void *(*export)(uint32_t)) {
    const struct callbacks *callbacks = export(1);
    void ***core;
    unsigned size;
    if (export(2) || !callbacks->table(1, &core, &size) || size < 12 || core[0]) return 0;
    *core[9] = push;
    *core[11] = pop;
    return 1;
}
"""


# What stands for torch's annotations.
TORCH = """
    class record_function:
        def __init__(self, name, args=None):
            self.name = name

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            pass
"""


@pytest.fixture
def nsys(tmp_path) -> Nsys:
    stand_in = Nsys(tmp_path / "bin")
    Tables().kernel("gemm", 10, 30).write(stand_in.home / "export.sqlite")
    return stand_in


def write(folder: Path, text: str) -> None:
    (folder / "s.py").write_text(textwrap.dedent(text))


def capture(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """What `tracekit capture --profiler nsys` gives in `folder`, where the stand-in is on PATH."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "PATH": path, **variables}
    command = [sys.executable, "-m", "tracekit", "capture", "--profiler", "nsys", "--out", "t", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_script_runs_under_nsys_with_its_own_output_and_exit_code_and_leaves_an_export(nsys, tmp_path):
    write(
        tmp_path,
        """
        import sys
        print(__name__, sys.argv)
        print("said", file=sys.stderr)
        sys.exit(3)
        """,
    )
    code, out, err = capture(tmp_path, "s.py", "a", "--own")
    (run,) = (tmp_path / "t/plugins/profile").iterdir()
    assert (code, out) == (3, "__main__ ['s.py', 'a', '--own']\n")
    own = "tracekit: this nsys gave no way to mark NVTX ranges: phases and steps are not in the trace.\n"
    assert err == f"said\n{own}Wrote t/plugins/profile/{run.name}\nNext: tracekit report t\n"
    (call,) = nsys.calls("profile")
    assert call.startswith(
        "profile --trace=cuda,nvtx --cuda-graph-trace=node --sample=none --cpuctxsw=none --force-overwrite=true "
    )
    facts = json.loads((run / "capture.json").read_text())
    assert (facts["command"], facts["exit_code"], facts["profiler"]) == (["python", "s.py", "a", "--own"], 3, "nsys")
    assert set(facts["versions"]) == {"python", "nsys", "tracekit"}
    assert sorted(file.suffix for file in run.iterdir()) == [".json", ".nsys-rep", ".sqlite"]
    assert [file.name for file in (tmp_path / "t").iterdir()] == ["plugins"]
    trace = tracekit.read(tmp_path / "t")
    (note,) = trace.notes
    assert (trace.events["name"].tolist(), note) == (
        ["gemm"],
        "The script ended with exit code 3: the trace holds what ran until then.",
    )


def test_an_interrupted_script_has_its_own_exit_code_and_leaves_an_export(nsys, tmp_path):
    write(tmp_path, "raise KeyboardInterrupt")
    code, _, err = capture(tmp_path, "s.py")
    assert (code, err.splitlines()[-1]) == (130, "Next: tracekit report t")
    (facts,) = (tmp_path / "t").glob("plugins/profile/*/capture.json")
    assert json.loads(facts.read_text())["exit_code"] == 130


def test_what_the_script_writes_to_a_file_stays_there_where_nsys_hands_no_descriptor_on(nsys, tmp_path):
    write(tmp_path, "for number in range(20):\n    print('line', number)")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path}
    command = f"{sys.executable} -m tracekit capture --profiler nsys --out t s.py; echo trailer"
    with (tmp_path / "log").open("w") as log:
        log.write("header\n")
        log.flush()
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, stdout=log, stderr=log, check=True)
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if line.startswith("line")] == [f"line {number}" for number in range(20)]
    assert (lines[0], lines[-1]) == ("header", "trailer")
    assert any(line.startswith("Wrote t") for line in lines)


@pytest.mark.skipif(subprocess.call(["which", "cc"], stdout=subprocess.DEVNULL) != 0, reason="no C compiler")
def test_phases_and_annotations_of_jax_and_torch_are_nvtx_ranges(nsys, tmp_path):
    (tmp_path / "tool.c").write_text(TOOL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "tool.so", "tool.c"], cwd=tmp_path, check=True)
    (tmp_path / "torch/autograd").mkdir(parents=True)
    (tmp_path / "torch/autograd/profiler.py").write_text(textwrap.dedent(TORCH))
    write(
        tmp_path,
        """
        import jax, tracekit
        from torch.autograd.profiler import record_function
        with tracekit.phase("one"):
            with jax.profiler.StepTraceAnnotation("train", step_num=3):
                with jax.profiler.TraceAnnotation("inner", key=1):
                    pass
        with tracekit.phase("both", alone=["one", "two"]):
            with record_function("step 4"):
                pass
        """,
    )
    ranges = tmp_path / "ranges"
    variables = {"NVTX_INJECTION64_PATH": str(tmp_path / "tool.so"), "RANGES": str(ranges)}
    code, _, err = capture(tmp_path, "s.py", **variables)
    assert (code, "NVTX" in err) == (0, False)
    lines = ranges.read_text().splitlines()
    start = lines.index("one#tracekit=phase#")
    assert lines[start:] == [
        "one#tracekit=phase#", "train#step_num=3#", "inner", "pop", "pop", "pop",
        "both#tracekit=phase,alone=one;two#", "step 4", "pop", "pop",
    ]  # fmt: skip


def test_a_raw_stream_that_nothing_imports_is_kept_and_said(nsys, tmp_path):
    write(tmp_path, "")
    (nsys.home / "raw").touch()
    code, _, err = capture(tmp_path, "s.py")
    (raw,) = (tmp_path / "t").iterdir()
    assert (code, raw.suffix) == (1, ".qdstrm")
    assert err.startswith(
        f"tracekit: nothing was captured: nsys 2022.4.2 left a raw stream, {raw}: its importer is not installed."
    )
    nsys.add_importer()
    assert capture(tmp_path, "s.py")[0] == 0


def test_what_cannot_be_captured_is_one_sentence_and_leaves_nothing(nsys, tmp_path):
    write(tmp_path, "")
    for words, sentence in (
        (["--steps", "3", "s.py"], "--steps is for the profilers of JAX and PyTorch; leave it out with --profiler."),
        (["--devices", "3", "s.py"], "--devices is for jax's profiler; leave it out with --profiler."),
        (["--python", "python3", "s.py"], "--python and --profiler cannot be combined"),
        (["-m", "no_such_module"], "there is no module no_such_module to run"),
    ):
        code, out, err = capture(tmp_path, *words)
        assert (code, out) == (1, "")
        assert err.startswith(f"tracekit: {sentence}")
    (nsys.home / "refuse").touch()
    assert capture(tmp_path, "s.py")[2] == (
        "tracekit: nothing was captured: nsys 2022.4.2 wrote no report: Failed to start the session: no room.\n"
    )
    assert [*(tmp_path / "t").iterdir()] == []
    (nsys.home / "nsys").unlink()
    assert capture(tmp_path, "s.py")[2].startswith("tracekit: there is no `nsys` on PATH: install Nsight Systems")
