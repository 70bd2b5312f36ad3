"""Reports that nsys exports on this machine: a stand-in for it, which knows the options of 2022.4."""

import os
import time
from pathlib import Path

import pytest

import tracekit
from tests.nsys_stand_in import Nsys
from tests.readers.nsys.exports import Tables
from tracekit import nsys_program, remote
from tracekit.errors import TraceError


@pytest.fixture
def nsys(tmp_path, monkeypatch) -> Nsys:
    """The stand-in on PATH, with an export of one kernel, and a cache of its own."""
    stand_in = Nsys(tmp_path / "bin")
    Tables().kernel("gemm", 10, 30).write(stand_in.home / "export.sqlite")
    monkeypatch.setenv("PATH", f"{stand_in.home}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return stand_in


def report(path: Path, text: str = "a report") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def kept(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "cache/tracekit/nsys/exports").iterdir()]


@pytest.mark.parametrize("name", ["train.nsys-rep", "old.qdrep"])
def test_a_report_is_exported_once_with_the_options_that_this_nsys_knows_and_nothing_is_written_beside_it(
    nsys, tmp_path, name
):
    path = report(tmp_path / "runs" / name)
    first, second = tracekit.read(path), tracekit.read(path)
    assert first.events["name"].tolist() == second.events["name"].tolist() == ["gemm"]
    assert (first.source, first.format, first.hosts["host"].tolist(), first.hosts["source"].tolist()) == (
        str(path), "nsys", [path.stem], [str(path)],
    )  # fmt: skip
    (call,) = nsys.calls("export")
    assert call.startswith("export --type=sqlite --output=")
    assert call.endswith(f"{path.stem}.sqlite --force-overwrite=true --quiet=true {path}")
    assert [*path.parent.iterdir()] == [path]
    assert len(kept(tmp_path)) == 1
    assert not [*(tmp_path / "cache/tracekit/nsys").glob("export-*")]


def test_a_report_that_has_changed_is_exported_anew(nsys, tmp_path):
    path = report(tmp_path / "run.nsys-rep")
    tracekit.read(path)
    report(path, "a report of another run")
    tracekit.read(path)
    assert len(nsys.calls("export")) == 2


def test_the_cache_holds_no_more_than_the_user_gives_it(nsys, tmp_path, monkeypatch):
    monkeypatch.setenv(remote.CACHE_VARIABLE, "0")
    assert len(tracekit.read(report(tmp_path / "run.nsys-rep")).events) == 1
    assert kept(tmp_path) == []


def test_the_ranks_of_a_directory_are_read_whether_exported_or_not(nsys, tmp_path):
    for rank in range(2):
        report(tmp_path / f"runs/rank{rank}.nsys-rep")
    Tables().kernel("own", 10, 30).write(tmp_path / "runs/rank1.sqlite")
    trace = tracekit.read(tmp_path / "runs")
    assert sorted(trace.events["name"]) == ["gemm", "own"]
    assert len(nsys.calls("export")) == 1
    assert not [note for note in trace.notes if note.startswith("Skipped")]


def test_a_raw_stream_is_imported_first_where_the_importer_is_there(nsys, tmp_path):
    path = report(tmp_path / "run.qdstrm")
    with pytest.raises(TraceError, match=r"raw stream of Nsight Systems: convert it to a \.nsys-rep first"):
        tracekit.read(path)
    nsys.add_importer()
    assert tracekit.read(path).events["name"].tolist() == ["gemm"]


def test_a_report_of_a_newer_nsys_is_one_sentence(nsys, tmp_path):
    path = report(tmp_path / "new.nsys-rep", "of another version")
    with pytest.raises(TraceError) as raised:
        tracekit.read(path)
    assert str(raised.value) == (
        f"{path} cannot be exported by nsys 2022.4.2: version 2025.5.1 wrote it, which this nsys does not know. Export "
        "it with that version or a newer one, and give the .sqlite file."
    )
    assert kept(tmp_path) == []


def test_what_is_wrong_with_an_export_is_said_of_the_report(nsys, tmp_path):
    (nsys.home / "export.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    path = report(tmp_path / "run.nsys-rep")
    with pytest.raises(TraceError) as raised:
        tracekit.read(path)
    assert str(raised.value).startswith(f"{path} is truncated")


def test_without_nsys_the_sentence_says_how_to_export(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = report(tmp_path / "run.nsys-rep")
    with pytest.raises(TraceError, match=r"only Nsight Systems can read: run `nsys export --type sqlite"):
        tracekit.read(path)


def test_an_option_is_known_by_its_whole_name(nsys):
    found = nsys_program.known(str(nsys.home / "nsys"), "profile", ["--trace=cuda", "--cuda=x", "--sample=none"])
    assert found == ["--trace=cuda", "--sample=none"]


@pytest.mark.timeout(60)
def test_a_program_that_does_not_end_is_ended_with_what_it_started_and_one_sentence(nsys, tmp_path, monkeypatch):
    """As a wrapper of nsys is, whose program holds on to the pipe."""
    program = nsys.home / "nsys"
    program.rename(nsys.home / "own")
    program.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "export --help" ] || [ "$1" = "--version" ] && exec {nsys.home}/own "$@"\n'
        f"sleep 600 & echo $! > {nsys.home}/pid; wait\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(nsys_program, "_EXPORT_S", 0.5)
    path = report(tmp_path / "run.nsys-rep")
    with pytest.raises(TraceError) as raised:
        tracekit.read(path)
    assert f"{program} did not end within 0.5 s. Copy the report again" in str(raised.value)
    child = Path(f"/proc/{(nsys.home / 'pid').read_text().strip()}/cmdline")  # empty of one that has ended
    deadline = time.monotonic() + 20
    while child.exists() and child.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists() or not child.read_text()
