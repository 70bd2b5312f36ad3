"""Commands where something is missing: full or closed streams, no directory to work in, names that are no text."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import feather, parquet

import tracekit
from tests.nsys_stand_in import Nsys
from tests.readers.nsys.exports import Tables, as_parquet
from tracekit.cli import main
from tracekit.console import console
from tracekit.export import FRAMES

TRACE = Path(__file__).parent / "data" / "kineto-rank1.pt.trace.json"
# Runs a command after what its first argument says has been done to its surroundings.
PROGRAM = """
import os, sys
exec(sys.argv.pop(1))
from tracekit.cli import main
main()
"""


def run(before: str, *words: str) -> tuple[int, str, str]:
    process = subprocess.run([sys.executable, "-c", PROGRAM, before, *words], capture_output=True, text=True)
    return process.returncode, process.stdout, process.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_stdout_is_one_sentence():
    assert run("os.dup2(os.open('/dev/full', os.O_WRONLY), 1)", "read", str(TRACE)) == (
        1,
        "",
        "tracekit: what was printed cannot be written: No space left on device.\n",
    )


def test_with_stderr_closed_nothing_more_is_on_stdout(tmp_path):
    code, out, _ = run("sys.stderr = None", "report", "--json", "--out", str(tmp_path / "out"), str(TRACE))
    assert code == 0
    assert json.loads(out)["trace"]["source"] == str(TRACE)


def test_a_working_directory_that_was_removed_is_one_sentence(tmp_path):
    gone = f"os.mkdir({str(tmp_path / 'gone')!r}); os.chdir({str(tmp_path / 'gone')!r}); os.rmdir(os.getcwd())"
    assert run(gone, "report", str(TRACE)) == (
        1,
        "",
        "tracekit: the working directory no longer exists; change to another.\n",
    )


@pytest.mark.parametrize("files", [3, 4, 5])
@pytest.mark.parametrize("command", [["capture", "none.py"], ["report", str(TRACE)]])
def test_too_few_files_is_one_sentence(files, command, tmp_path):
    limit = f"import tracekit.cli, resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
    code, _, err = run(limit, command[0], "--out", str(tmp_path / "out"), *command[1:])
    sentence = "tracekit: too few files may be open at once (`ulimit -n` shows how many): allow more, as with"
    if command[0] == "report" or files == 3:
        assert (code, err) == (1, f"{sentence} `ulimit -n 1024`.\n")
    else:
        assert (code, err.count("\n")) == (1, 1)


def test_a_home_that_is_not_writable_is_no_warning_of_the_users(tmp_path):
    home = tmp_path / "home"
    home.write_text("no directory")
    before = f"os.environ.pop('MPLCONFIGDIR', None); os.environ['HOME'] = {str(home / 'x')!r}"
    code, _, err = run(before, "report", "--out", str(tmp_path / "out"), str(TRACE))
    assert code == 0
    assert (tmp_path / "out" / "gantt.png").exists()
    assert [line for line in err.splitlines() if not line.startswith("Wrote ")] == []


@pytest.mark.parametrize(("backend", "chosen"), [("nonsense", None), ("svg", "svg"), ("", None)])
def test_figures_are_drawn_whatever_backend_is_set_and_it_stays_set(backend, chosen, tmp_path):
    code = """
import os, sys
from tracekit.report.report import report
report(sys.argv[1], out=sys.argv[2])
import matplotlib
print(os.environ["MPLBACKEND"], dict.__getitem__(matplotlib.rcParams, "backend"), sep="\\n")
"""
    process = subprocess.run(
        [sys.executable, "-c", code, str(TRACE), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": backend},
    )
    assert (tmp_path / "out" / "gantt.png").exists(), process.stderr
    kept, now = process.stdout.splitlines()[-2:]
    assert (kept, chosen or now) == (backend, now)


def test_a_terminal_of_any_width_takes_no_memory(monkeypatch):
    monkeypatch.setenv("COLUMNS", "99999999")
    assert console().width == 1000


@pytest.mark.parametrize("columns", ["0", "1", "2"])
def test_a_terminal_without_columns_is_written_to(columns, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.argv", ["tracekit", "report", "--out", str(tmp_path), str(TRACE)])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    out, _ = capsys.readouterr()
    assert console().width == 20
    assert "What is missing" in out


def test_an_error_on_a_file_of_any_name_is_one_harmless_line(monkeypatch, capsys, tmp_path):
    path = tmp_path / "a\nb\x1b[31m\u202e.json"
    monkeypatch.setattr("sys.argv", ["tracekit", "read", str(path)])
    with pytest.raises(SystemExit, match=r"^1$"):
        main()
    _, err = capsys.readouterr()
    assert err.startswith(f"tracekit: {tmp_path}/a b␛[31m�.json does not exist.")
    assert err.count("\n") == 1


def test_a_path_that_is_not_utf8_is_read_and_reported(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/tr\xffce\xfe.pt.trace.json"))
    path.write_bytes(TRACE.read_bytes())
    report = tracekit.report(path, tmp_path / "out")
    assert report.trace.source == f"{tmp_path}/tr\\xffce\\xfe.pt.trace.json"
    assert "tr\\xffce\\xfe.pt.trace.json" in (tmp_path / "out" / "report.md").read_text("utf-8")
    assert tracekit.load(tmp_path / "out").trace.source == report.trace.source


def test_a_path_that_is_not_utf8_is_told_in_one_way(tmp_path, capsys, monkeypatch):
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/o\xfe.pftrace"))
    monkeypatch.setattr("sys.argv", ["tracekit", "export", str(TRACE), "--out", str(out)])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert capsys.readouterr().err == f"Wrote {tmp_path}/o\\xfe.pftrace\n"
    assert out.exists()


def test_into_a_directory_that_is_not_utf8_everything_is_written(tmp_path, monkeypatch):
    """Arrow, pandas and the profilers open files by names of UTF-8 alone."""
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    directory.mkdir()
    shutil.copy(TRACE, directory / "rank0.json")
    monkeypatch.chdir(directory)
    assert tracekit.report("rank0.json") == tracekit.load("reports/rank0")
    assert tracekit.report("rank0.json", "other") == tracekit.load(directory / "other")
    for to in ("parquet", "arrow", "csv", "json"):
        assert len(tracekit.export("rank0.json", directory / to, to=to)) == len(FRAMES) + 1
    trace = tracekit.read("rank0.json")
    with (directory / "parquet" / "events.parquet").open("rb") as file:
        pd.testing.assert_frame_equal(pd.read_parquet(file), trace.events, check_categorical=False)
    history = tracekit.history(directory / "reports")
    with open(history.save(directory / "h.parquet"), "rb") as file:
        pd.testing.assert_frame_equal(pd.read_parquet(file), history.table, check_dtype=False)
    assert tracekit.compare(directory / "other", directory / "other")


def test_a_table_of_arrow_in_a_directory_that_is_not_utf8_is_read(tmp_path):
    tables = as_parquet(Tables().kernel("k", 0, 9).write(tmp_path / "one.sqlite"), tmp_path / os.fsdecode(b"t\xff"))
    for table in tables.iterdir():
        with table.open("rb") as file, table.with_suffix(".arrow").open("wb") as target:
            feather.write_feather(parquet.read_table(file), target)
        table.unlink()
    assert tracekit.read(tables).events["name"].tolist() == ["k"]


@pytest.mark.parametrize("option", [{"python": sys.executable}, {"profiler": "nsys"}])
def test_a_profiler_that_takes_utf8_alone_is_not_begun_for_nothing(tmp_path, monkeypatch, option):
    Nsys(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (script := tmp_path / "s.py").write_text("raise SystemExit(9)")
    with pytest.raises(tracekit.TracekitError, match=r"takes no path that is not UTF-8, as .* is: give another --out"):
        tracekit.capture(script, out=tmp_path / os.fsdecode(b"t\xff"), **option)


def test_a_host_is_no_formula_in_the_csv_of_a_report(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 5, "pid": 0, "tid": 7, "args": {"device": 0}}
    for name, host in enumerate(("=cmd|'calc'!A1", "b")):  # copies of one file would be one host
        file = tmp_path / "run" / f"{host}.1700000000000.pt.trace.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel | {"name": f"k{name}"}]}))
    tracekit.report(tmp_path / "run", tmp_path / "out")
    with (tmp_path / "out" / "overlap.csv").open(newline="") as file:
        assert {row["device"] for row in csv.DictReader(file)} == {
            "'=cmd|'calc'!A1.1700000000000/gpu:0",
            "b.1700000000000/gpu:0",
        }


def test_a_phase_is_no_formula_in_the_csv_of_a_report(tmp_path):
    name = '=HYPERLINK("http://evil")'
    event = {"ph": "X", "ts": 0, "dur": 5, "pid": 0, "tid": 7}
    kernels = [{**event, "cat": "kernel", "name": "k", "args": {"device": device}} for device in (0, 1)]
    note = {**event, "cat": "user_annotation", "name": name, "pid": 9}
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*kernels, note]}))
    tracekit.report(tmp_path / "a.json", tmp_path / "out", phases=[name])
    with (tmp_path / "out" / "overlap.csv").open(newline="") as file:
        assert {row["phase"] for row in csv.DictReader(file)} == {"whole trace", f"'{name}"}
