"""A trace is read, analysed and saved where nothing is installed that only capturing, viewing or drawing needs."""

import json
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


def test_a_report_is_written_without_its_picture_where_nothing_draws_and_says_so(tmp_path):
    sentence = (
        "gantt.png is left out: matplotlib is not installed in this Python, and figures need it; `pip install "
        "matplotlib` brings it."
    )
    code = """
import tracekit
from tracekit.cli import main
path, directory = sys.argv[1:]
print(tracekit.report(path, directory).notes[-1])
sys.argv = ["tracekit", "report", "--json", "--out", f"{directory}/2", path]
main()
"""
    process = run(code, ("matplotlib",), str(DATA / TRACES[0]), str(tmp_path))
    assert process.returncode == 0, process.stderr
    note, document = process.stdout.split("\n", 1)
    assert note == sentence
    assert json.loads(document)["notes"][-1] == sentence
    assert process.stderr == (
        f"Wrote {tmp_path}/2/ (report.html, report.md, summary.json, overlap.csv, frames/, intervals.parquet)\n"
    )
    for directory in (tmp_path, tmp_path / "2"):
        assert "gantt.png" not in {path.name for path in directory.iterdir()}
        assert "gantt.png](" not in (directory / "report.md").read_text("utf-8")


def test_a_figure_without_matplotlib_is_an_error_that_says_what_to_install():
    code = """
import tracekit
try:
    tracekit.figure(sys.argv[1])
except tracekit.TracekitError as error:
    print(error)
"""
    process = run(code, ("matplotlib",), str(DATA / TRACES[0]))
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("matplotlib is not installed in this Python, and figures need it")


def test_a_comparison_and_a_history_are_written_without_their_pictures_where_nothing_draws(tmp_path):
    code = """
import tracekit
from tracekit.cli import main
path, directory = sys.argv[1:]
for number in range(2):
    tracekit.analyse(path).save(f"{directory}/runs/{number}")
for words in (["compare", f"{directory}/runs/0", f"{directory}/runs/1"], ["history", f"{directory}/runs"]):
    sys.argv = ["tracekit", *words, "--out", f"{directory}/{words[0]}"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""
    process = run(code, ("matplotlib",), str(DATA / TRACES[0]), str(tmp_path))
    assert (process.returncode, process.stderr.splitlines()) == (
        0,
        [
            f"Wrote {tmp_path}/compare/ (comparison.html, comparison.md, comparison.json)",
            f"Wrote {tmp_path}/history/ (history.html, history.parquet, changes.parquet)",
        ],
    )
    for name in ("compare/comparison.html", "history/history.html"):
        assert "<img" not in (tmp_path / name).read_text("utf-8")
    assert "![" not in (tmp_path / "compare" / "comparison.md").read_text("utf-8")


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
    (
        ("figure", "tests/data/view-cpu.xplane.pb"),
        "tracekit: matplotlib is not installed in this Python, and figures need it; `pip install matplotlib` brings "
        "it.",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), COMMANDS, ids=["capture", "view", "figure"])
def test_a_command_that_cannot_work_says_in_one_sentence_what_to_install(words, sentence):
    process = run("from tracekit.cli import main\nmain()", (*CAPTURING_AND_VIEWING, "matplotlib"), *words)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith(sentence)
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize("package", ["msgspec", "pyarrow", "pandas"])
def test_a_package_without_which_nothing_is_read_is_named_and_no_bug(package):
    process = run("from tracekit.cli import main\nmain()", (package,), "read", "tests/data/view-cpu.xplane.pb")
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith(f"tracekit: {package} is not installed in this Python ({sys.executable}), and ")
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
