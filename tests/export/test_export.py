"""What `tracekit export` writes, where, and what it refuses in one sentence."""

from pathlib import Path

import pandas as pd
import pytest

import tracekit
from tests import traces
from tests.export.frames_of import rows
from tests.export.perfetto_reader import read
from tracekit.cli import export as command
from tracekit.columns import concat
from tracekit.errors import TracekitError
from tracekit.export import FRAMES
from tracekit.export.export import export
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace

CASE = "mxnet_two_contexts_naive.json.gz"


@pytest.fixture
def trace_path(tmp_path, monkeypatch) -> Path:
    """A trace file in a directory of its own, and another one to work in."""
    path = tmp_path / "given" / "t.json.gz"
    path.parent.mkdir()
    path.write_bytes(traces.path(CASE).read_bytes())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return path


def files() -> set[str]:
    return {str(path) for path in Path().glob("**/*") if path.is_file()}


def test_by_default_it_writes_for_perfetto(trace_path, capsys):
    assert export(trace_path) == [Path("exports/t.pftrace.gz")]
    assert capsys.readouterr() == ("", "")
    assert len(read(Path("exports/t.pftrace.gz")).rows) == len(traces.trace(CASE).events)
    assert files() == {"exports/t.pftrace.gz"}


@pytest.mark.parametrize(
    ("to", "more", "ending"), [("csv", {"gzip": True}, ".csv.gz"), ("json", {}, ".jsonl"), ("arrow", {}, ".arrow")]
)
def test_tables_go_to_a_directory_with_what_they_are(to, more, ending, trace_path):
    paths = export(trace_path, to=to, **more)
    assert files() == {f"exports/t-{to}/{name}{ending}" for name in FRAMES} | {f"exports/t-{to}/trace.json"}
    assert files() == set(map(str, paths))


@pytest.mark.parametrize("out", ["e.csv.gz", "e.csv"])
def test_the_end_of_out_tells_the_format(out, trace_path):
    export(trace_path, out=Path(out), table="events")
    assert len(pd.read_csv(out)) == len(traces.trace(CASE).events)


def test_without_gz_perfettos_file_is_not_compressed(trace_path):
    export(trace_path, out=Path("a.pftrace"))
    assert len(read(Path("a.pftrace")).rows) == len(traces.trace(CASE).events)


def test_a_file_that_is_there_stays_unless_forced(trace_path):
    Path("mine.parquet").write_text("mine")
    with pytest.raises(TracekitError, match=r"^mine\.parquet exists already\. Give another --out, or .* --force\.$"):
        export(trace_path, out=Path("mine.parquet"), table="events")
    assert Path("mine.parquet").read_text() == "mine"
    export(trace_path, out=Path("mine.parquet"), table="events", force=True)
    assert len(pd.read_parquet("mine.parquet")) == len(traces.trace(CASE).events)


def test_of_a_directory_nothing_is_written_if_one_file_is_there(trace_path):
    Path("d").mkdir()
    Path("d/trace.json").write_text("mine")
    with pytest.raises(TracekitError, match=r"^d/trace\.json exists already\."):
        export(trace_path, to="csv", out=Path("d"))
    assert files() == {"d/trace.json"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "xml"}, "'xml' is not an export format"),
        ({"to": "csv", "out": Path("a.parquet")}, "is named like parquet, but --to says csv"),
        ({"table": "events"}, "--table and --gzip are for tables"),
        ({"gzip": True}, "--table and --gzip are for tables"),
        ({"to": "parquet", "gzip": True}, "parquet files are compressed inside"),
        ({"out": Path("a.parquet.gz"), "table": "events"}, "parquet files are compressed inside"),
        ({"to": "csv", "table": "event"}, "'event' is not a table of a trace; --table takes events, spans"),
        ({"out": Path("a.csv")}, "names one file, but a trace has 11 tables"),
        ({"out": Path(".")}, "is a directory; give the file to write with --out"),
    ],
)
def test_what_does_not_fit_together_is_told_before_reading(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TracekitError, match=message):
        export(tmp_path / "missing", **options)
    assert files() == set()


def test_nothing_is_written_inside_the_trace(tmp_path, monkeypatch):
    run = tmp_path / "log" / "plugins" / "profile" / "r"
    run.mkdir(parents=True)
    trace = Trace(rows(), source=str(tmp_path / "log"))
    with pytest.raises(TracekitError, match="lies inside the trace"):
        export(trace, out=run / "x.pftrace.gz")
    assert list(run.iterdir()) == []


def test_clocks_that_cannot_be_compared_get_a_file_each(tmp_path):
    trace = Trace(concat(EVENT_COLUMNS, [_clock("a/1"), _clock("a 1")]))
    assert export(trace, tmp_path / "o" / "x.pftrace.gz") == [
        tmp_path / "o" / "x-a_1-1.pftrace.gz",
        tmp_path / "o" / "x-a_1-2.pftrace.gz",
    ]


def test_a_trace_without_a_path_has_a_name_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert export(Trace(rows())) == [Path("exports/trace.pftrace.gz")]


def test_what_has_a_trace_is_exported_as_its_trace(tmp_path):
    trace = traces.trace(CASE)
    export(trace, tmp_path / "a.pftrace")
    export(timeline_of(trace), tmp_path / "b.pftrace")
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()


def test_the_command_says_what_it_wrote(trace_path, capsys):
    command(trace_path)
    assert capsys.readouterr() == ("", "Wrote exports/t.pftrace.gz\n")
    command(trace_path, to="csv")
    assert capsys.readouterr().err.startswith("Wrote exports/t-csv/ (events.csv, spans.csv, ")


def test_the_command_says_why_there_are_several_files(tmp_path, monkeypatch, capsys):
    paths = [tmp_path / "x-a.pftrace.gz", tmp_path / "x-b.pftrace.gz"]
    monkeypatch.setattr(tracekit, "export", lambda *_, **__: paths)
    command(tmp_path / "t")
    assert capsys.readouterr().err.splitlines() == [
        "The clocks of 2 hosts are not aligned, and Perfetto has one time axis: each has a file of its own.",
        f"Wrote {tmp_path}/ (x-a.pftrace.gz, x-b.pftrace.gz)",
    ]


def _clock(name: str | None) -> pd.DataFrame:
    return rows({"start_ps": 0, "end_ps": 1, "host": f"{name}", "device": f"{name}/gpu:0", "clock": name})
