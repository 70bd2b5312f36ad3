"""A trace is read, analysed and saved where nothing is installed that only capturing, viewing or drawing needs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
CAPTURING_AND_VIEWING = ("jax", "jaxlib", "tensorboard", "tensorboard_plugin_profile", "xprof")
TRACES = (
    "two-cpu-devices-jax0.10.2.xplane.pb",
    "jax_two_cpu_devices.trace.json.gz",
    "kineto-rank1.pt.trace.json",
    "mxnet_two_contexts_threaded.json.gz",
)

# Python that has not installed the packages named by its first argument.
WITHOUT = """
import sys

class Refuse:
    names = sys.argv.pop(1).split(",")

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(code: str, packages: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code, ",".join(packages), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_trace_is_read_analysed_and_saved_without_what_captures_and_shows_it(tmp_path):
    code = """
import tracekit
directory, *paths = sys.argv[1:]
for number, path in enumerate(paths):
    trace = tracekit.read(path)
    tracekit.report(trace, f"{directory}/{number}")
    print(len(trace.events))
"""
    process = run(code, CAPTURING_AND_VIEWING, str(tmp_path), *(str(DATA / name) for name in TRACES))
    assert (process.returncode, process.stderr) == (0, "")
    rows = [int(line) for line in process.stdout.splitlines()]
    assert len(rows) == len(TRACES)
    assert min(rows) > 0
    for number in range(len(TRACES)):
        assert (tmp_path / str(number) / "report.html").stat().st_size > 10_000
        assert (tmp_path / str(number) / "gantt.png").read_bytes().startswith(b"\x89PNG")


def test_results_are_saved_and_loaded_without_what_draws_and_prints_them(tmp_path):
    code = """
import tracekit
directory, *paths = sys.argv[1:]
for number, path in enumerate(paths):
    report = tracekit.analyse(tracekit.read(path))
    report.save(f"{directory}/{number}")
    print(tracekit.load(f"{directory}/{number}").headline == report.headline)
"""
    packages = (*CAPTURING_AND_VIEWING, "matplotlib", "rich", "typer")
    process = run(code, packages, str(tmp_path), *(str(DATA / name) for name in TRACES))
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.split() == ["True"] * len(TRACES)


COMMANDS = [
    (
        ("capture", "tests/data/two_cpu_devices.py"),
        "tracekit: jax is not installed in this Python, and a capture needs it: `pip install jax`, ",
    ),
    (
        ("view", "--port", "0", "tests/data/view-cpu.xplane.pb"),
        "tracekit: TensorBoard and its profile plugin are not installed in this Python; `pip install tensorboard "
        "tensorboard-plugin-profile` brings them.",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), COMMANDS, ids=["capture", "view"])
def test_a_command_that_cannot_work_says_in_one_sentence_what_to_install(words, sentence):
    process = run("from tracekit.cli import main\nmain()", CAPTURING_AND_VIEWING, *words)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith(sentence)
    assert process.stderr.count("\n") == 1


def test_a_script_beside_a_jax_of_its_own_is_captured_with_that_one(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('a checkout of jax')\n")
    (tmp_path / "script.py").write_text("import jax\n")
    code = """
import importlib.util
sys.meta_path.pop(0)
importlib.util.find_spec = lambda name: None
from tracekit.cli import main
main()
"""
    process = run(code, ("jax",), "capture", "--out", str(tmp_path / "trace"), str(tmp_path / "script.py"))
    assert process.stdout == "a checkout of jax\n"
