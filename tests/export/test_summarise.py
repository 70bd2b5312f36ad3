"""What `tracekit summarise` writes, that it stands for the trace in every figure, and what it refuses."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import tracekit
from tests import traces
from tests.simulator.clocks import Recorder, recorder
from tests.simulator.random_jobs import random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tracekit.cli import main
from tracekit.errors import TracekitError
from tracekit.export.summarise import summarise
from tracekit.readers import read

TWO_DEVICES = "two-cpu-devices-jax0.12.0.xplane.pb"


def files_of(source):
    """The trace files below a directory."""
    return sorted(path for path in source.rglob("*") if path.is_file())


def summaries(files, folder):
    """The summaries of trace files, in one directory."""
    folder.mkdir()
    for file in files:
        summarise(file, folder)
    assert len(files_of(folder)) == len(files)
    return folder


def saved(source, folder):
    """All that the report of a trace holds, by file, but for the path that it was made from."""
    tracekit.analyse(source).save(folder)
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in files_of(folder)}
    document = json.loads(contents.pop("summary.json"))
    for origin in (document["trace"], document["report"]["fields"]["trace"]):
        assert origin.pop("source") == str(source)
        del origin["runs"]
    return contents, document


def assert_same(traces_, summaries_, folder):
    (frames, document), (own_frames, own_document) = saved(traces_, folder / "a"), saved(summaries_, folder / "b")
    assert own_document == document
    assert own_frames == frames
    return document


@pytest.mark.parametrize("trace_format", [*FORMATS])
def test_hosts_on_clocks_that_drift_are_the_same_from_summaries_bit_for_bit(tmp_path, trace_format):
    job = random_job(3)
    source = FORMATS[trace_format](Truth(job), tmp_path / "traces", recorder("hosts", 3, job.ranks))
    files = files_of(source)
    assert len(files) == job.ranks
    document = assert_same(source, summaries(files, tmp_path / "summaries"), tmp_path)
    assert len(document["devices"]) == job.ranks
    assert document["steps"]
    assert any(clock["shift_ps"] and clock["drift_ppm"] for clock in document["trace"]["clocks"])


def test_every_file_of_the_report_is_the_same_page_picture_and_rows(tmp_path):
    run, job = tmp_path / "run", random_job(3)
    files = files_of(FORMATS["xspace"](Truth(job), run, recorder("hosts", 3, job.ranks)))
    tracekit.report(run, tmp_path / "a")
    summarised = summaries(files, tmp_path / "summaries")
    run.rename(tmp_path / "traces")
    summarised.rename(run)
    tracekit.report(run, tmp_path / "b")
    first, second = (
        {str(path.relative_to(folder)): path.read_bytes() for path in files_of(folder)}
        for folder in (tmp_path / "a", tmp_path / "b")
    )
    assert {"report.html", "report.md", "intervals.parquet", "summary.json"} <= first.keys()
    assert [name for name in first if second.get(name) != first[name]] == []


@traces.needs_real
def test_eight_real_ranks_are_the_same_from_summaries_bit_for_bit(tmp_path):
    source = traces.path("kineto/dlrm-8xV100")
    document = assert_same(source, summaries(files_of(source), tmp_path / "summaries"), tmp_path)
    assert len(document["devices"]) == 8
    assert document["collectives"]


@pytest.mark.parametrize("name", ["a.xplane.pb", "a.pb", "a.json", "a.sqlite"])
def test_a_summary_may_be_called_as_a_trace_is(tmp_path, name):
    source = traces.path(TWO_DEVICES)
    summarise(source, tmp_path / name)
    assert len(tracekit.read(tmp_path / name).events) == len(tracekit.read(source).events)


@pytest.mark.parametrize("trace_format", [*FORMATS])
@pytest.mark.parametrize("summarised", [0, 1])
def test_summaries_and_traces_mix(tmp_path, trace_format, summarised):
    job = random_job(3)
    source = FORMATS[trace_format](Truth(job), tmp_path / "traces", recorder("hosts", 3, job.ranks))
    mixed = tmp_path / "mixed"
    shutil.copytree(source, mixed)
    # In place of the file: a run's files lie in one directory, or in one each.
    chosen = files_of(source)[summarised]
    place = mixed / chosen.relative_to(source)
    place.unlink()
    summarise(chosen, place.parent)
    mixed_trace, trace = read(mixed), read(source)
    for name in ("events", "spans", "launches", "syncs"):
        pd.testing.assert_frame_equal(getattr(mixed_trace, name), getattr(trace, name))
    columns = ["host", "origin_ns", "clock", "shift_ps", "drift_ppm", "residual_ps", "world_size"]
    pd.testing.assert_frame_equal(mixed_trace.hosts[columns], trace.hosts[columns])


def test_summaries_above_a_single_run_are_its_other_hosts(tmp_path):
    run = tmp_path / "log" / "plugins" / "profile" / "now"
    run.mkdir(parents=True)
    job = random_job(3)
    source = FORMATS["xspace"](Truth(job), tmp_path / "traces", recorder("hosts", 3, job.ranks))
    first, second = files_of(source)
    shutil.copy(first, run / "host0.xplane.pb")
    above = summarise(second, tmp_path / "log" / "other.tracekit.zip")
    trace = read(tmp_path / "log")
    assert trace.hosts["host"].nunique() == 2
    assert f"Read as other hosts of the run now: {above.name}." in trace.notes
    shutil.copytree(run, run.with_name("before"))
    trace = read(tmp_path / "log")
    assert trace.hosts["host"].nunique() == 1
    assert f"Skipped {above.name}, which is in none of the runs." in trace.notes


def test_a_summary_beside_its_trace_counts_once(tmp_path):
    shutil.copy(traces.path(TWO_DEVICES), tmp_path / "host.xplane.pb")
    alone = read(tmp_path)
    summarise(tmp_path / "host.xplane.pb", tmp_path / "host.tracekit.zip")
    both = read(tmp_path)
    pd.testing.assert_frame_equal(both.events, alone.events)
    assert any("only repeats what" in note for note in both.notes)


def test_the_job_s_size_and_what_capture_wrote_come_along(tmp_path):
    job = random_job(3)
    source = FORMATS["kineto"](Truth(job), tmp_path / "traces", Recorder(apart=True))
    (source / "capture.json").write_text('{"schema": 1, "usable_cores": 3, "commit": null}')
    files = [file for file in files_of(source) if file.name != "capture.json"]
    folder = summaries(files[:1], tmp_path / "summaries")
    assert read(folder).capture == {"schema": 1, "usable_cores": 3, "commit": None}
    lost = [note for note in read(folder).notes if "missing" in note]
    for file in files[1:]:
        file.unlink()
    assert lost == [note for note in read(source).notes if "missing" in note]
    assert lost


def test_rules_of_the_user_hold_for_a_summary_too(tmp_path):
    rules = tmp_path / "kinds.toml"
    rules.write_text('[[rule]]\nname = ".*"\nkind = "collective"\n')
    file = summarise(traces.path(TWO_DEVICES), tmp_path / "s.tracekit.zip")
    pd.testing.assert_frame_equal(read(file, kinds=rules).events, read(traces.path(TWO_DEVICES), kinds=rules).events)


def test_a_summary_is_the_same_bytes_each_time_and_replaces_that_of_its_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = summarise(traces.path(TWO_DEVICES))
    assert file == Path("summaries/two-cpu-devices-jax0.12.0.tracekit.zip")
    before = file.read_bytes()
    assert summarise(traces.path(TWO_DEVICES)) == file
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_it_is_called_after_the_rank_s_directory_too(tmp_path):
    ranked = tmp_path / "rank3" / "host.xplane.pb"
    ranked.parent.mkdir()
    shutil.copy(traces.path(TWO_DEVICES), ranked)
    (tmp_path / "out").mkdir()
    assert summarise(ranked, tmp_path / "out").name == "rank3-host.tracekit.zip"
    assert summarise(ranked, f"{tmp_path}/new/") == tmp_path / "new" / "rank3-host.tracekit.zip"


def test_what_cannot_be_summarised_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = traces.path(TWO_DEVICES)
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(TracekitError, match="taken is there already, and is no summary"):
        summarise(source, tmp_path / "taken")
    other = summarise(traces.path("view-cpu.xplane.pb"), tmp_path / "other.zip")
    with pytest.raises(TracekitError, match=r"other.zip is the summary of another trace, .*view-cpu.xplane.pb"):
        summarise(source, other)
    with pytest.raises(TracekitError, match="lies inside the trace"):
        summarise(source.parent, source.parent / "s.zip")
    with pytest.raises(TracekitError, match="cannot be written: "):
        summarise(source, tmp_path / "taken" / "s.zip")
    two = tmp_path / "two"
    two.mkdir()
    shutil.copy(source, two / "a.xplane.pb")
    shutil.copy(source, two / "b.xplane.pb")
    with (two / "b.xplane.pb").open("ab") as file:
        file.write(b"\x22\x01b")  # a hostname more: no copy
    with pytest.raises(TracekitError, match=r"holds the files of 2 hosts or ranks, .* such as .*a.xplane.pb"):
        summarise(two)
    assert not (tmp_path / "summaries").exists()


def test_the_commands_take_a_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["tracekit", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, capsys.readouterr()

    code, printed = call("summarise", traces.path(TWO_DEVICES), "-o", "s.tracekit.zip")
    assert (code, printed.out) == (0, "")
    assert printed.err.splitlines()[-1] == "Wrote s.tracekit.zip"
    code, printed = call("report", "s.tracekit.zip")
    assert code == 0
    assert "Wrote reports/s/ (report.html" in printed.err
    assert call("summarise", "absent")[0] == 1
    assert call("summarise", traces.path(TWO_DEVICES), "-o", "new/")[0] == 0
    assert [path.suffix for path in Path("new").iterdir()] == [".zip"]
    code, printed = call("view", "s.tracekit.zip")
    assert code != 0
    assert "is a trace in tracekit summary format, which TensorBoard cannot show" in printed.err
