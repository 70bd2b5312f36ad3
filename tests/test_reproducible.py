"""The files of every face are the same bytes in whatever surroundings they are made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
# The cores that a process may use decide how many threads and processes work; directories are listed backwards.
PROGRAM = """
import os, sys
cores, is_backwards, trace, *words = sys.argv[1:]
if int(cores) and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [*os.sched_getaffinity(0)][: int(cores)])
if int(is_backwards):
    listdir, scandir = os.listdir, os.scandir

    class Backwards:
        __init__ = lambda self, entries: setattr(self, "entries", iter(entries))
        __enter__ = __iter__ = lambda self: self
        __next__ = lambda self: next(self.entries)
        __exit__ = lambda self, *_: None
        close = lambda self: None

    os.listdir = lambda *path: sorted(listdir(*path), reverse=True)
    os.scandir = lambda *path: Backwards(sorted(scandir(*path), key=lambda entry: entry.name, reverse=True))

if __name__ == "__main__":
    from tracekit.cli import app
    for command in (
        ["report", trace, "--out", "report", *words],
        ["export", trace, "--out", "trace.pftrace.gz"],
        ["export", trace, "--out", "tables", "--to", "csv"],
        ["figure", trace, "--out", "figures", "--format", "svg,png"],
        ["summarise", trace + "/vm-rank0.pt.trace.json.gz", "--out", "summaries"],
    ):
        app(command, standalone_mode=False)
"""
SURROUNDINGS = {
    "another hash seed, locale and time zone": ({"PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Kathmandu"}, 0, 0),
    "one core, and files listed backwards": ({"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}, 1, 1),
}


def made(where: Path, trace: Path, environment: dict[str, str], cores: int, is_backwards: int, *words: str) -> dict:
    """The bytes of all files that the commands write, by their names."""
    where.mkdir()
    (where / "made.py").write_text(PROGRAM)
    command = [sys.executable, "made.py", str(cores), str(is_backwards), str(trace), *words]
    process = subprocess.run(command, cwd=where, env=os.environ | environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    files = (path for path in sorted(where.rglob("*")) if path.is_file() and path.name != "made.py")
    return {str(path.relative_to(where)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> dict:
    return made(tmp_path_factory.mktemp("made") / "first", DATA / "torch-two-ranks", {"PYTHONHASHSEED": "1"}, 0, 0)


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_files_are_the_same_bytes_in_any_surroundings(first, surroundings, tmp_path):
    again = made(tmp_path / "made", DATA / "torch-two-ranks", *SURROUNDINGS[surroundings])
    assert [name for name in {*first, *again} if first.get(name) != again.get(name)] == []
    assert {"report/report.html", "report/gantt.png", "report/overlap.csv", "figures/gantt.svg"} <= {*first}


def test_files_are_the_same_bytes_with_jobs(first, tmp_path):
    again = made(tmp_path / "made", DATA / "torch-two-ranks", {"PYTHONHASHSEED": "2"}, 0, 0, "--jobs", "2")
    assert [name for name in {*first, *again} if first.get(name) != again.get(name)] == []
