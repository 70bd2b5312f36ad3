"""Traces of which rows of compute are left out as they are read give the figures that all rows give."""

import importlib
import io
import re
import shutil
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import tracekit
from tests.simulator.clocks import recorder
from tests.simulator.job import Job
from tests.simulator.random_jobs import habits, job_with, random_job
from tests.simulator.truth import Truth
from tests.simulator.writers import FORMATS
from tests.traces import DATA, REAL, needs_real
from tracekit import heap
from tracekit.analysis import overlap, steady
from tracekit.cli import main
from tracekit.columns import frame
from tracekit.errors import TraceError, TracekitError
from tracekit.executors import Processes
from tracekit.readers import Reduction, read, summary
from tracekit.readers.merge import merge
from tracekit.readers.summary import HostTrace
from tracekit.report.build import analyse
from tracekit.report.figures.figure import draw
from tracekit.report.figures.selection import select
from tracekit.report.html.lanes import lanes
from tracekit.report.html.page import page
from tracekit.report.model import Report, time_zero
from tracekit.report.report import drawn, with_drawn
from tracekit.report.terminal import printout, timeline_text
from tracekit.timeline.reduction import reduced
from tracekit.timeline.timeline import Timeline, all_rows_of, timeline_of
from tracekit.trace import EVENT_COLUMNS, Trace

report_module = importlib.import_module("tracekit.report.report")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What rests on each row or its launch, and is not told.
OF_ROWS = ("top_ops", "idle", "launches", "host_api", "critical_path", "offenders", "bandwidth")


def without_rows(report: Report) -> Report:
    """The report without what is not told where rows are left out, and without the words that tell of it."""
    why = report.explanation
    lacking = analyse(Trace(frame(EVENT_COLUMNS)))
    nothing = {name: getattr(lacking.explanation, name) for name in OF_ROWS}
    steps = replace(
        why.steps, table=why.steps.table.assign(slow_program=pd.array([None] * len(why.steps.table), "str"))
    )
    return replace(
        report,
        known_by=report.known_by[:0],
        guessed=report.guessed[:0],
        operations=report.operations[:0],
        explanation=replace(why, rows=None, steps=steps, **nothing),
        advice=lacking.advice,
        verdict=None,
        verdicts={},
        headline="",
        notes=tuple(note for note in report.notes if "were left out as the files were read" not in note),
    )


def assert_alike(whole: Report, of_reduced: Report) -> None:
    """Every figure that is told of a reduced trace is that of the whole."""
    for name in OF_ROWS:
        assert "left out" in getattr(of_reduced.explanation, name).lacking
    one, other = without_rows(whole), without_rows(of_reduced)
    for part in fields(Report):
        if part.name != "explanation":
            assert replace(one, **{part.name: getattr(other, part.name)}) == one, part.name
    for part in fields(one.explanation):
        its = {part.name: getattr(other.explanation, part.name)}
        assert replace(one, explanation=replace(one.explanation, **its)) == one, part.name
    assert one == other
    if whole.fleet is not None:
        for table in ("ranks", "cells", "bins"):
            assert getattr(whole.fleet, table).equals(getattr(of_reduced.fleet, table)), table


FILES = sorted(
    path
    for path in DATA.rglob("*")
    if path.is_file()
    and path.name.endswith((".xplane.pb", ".xplane.pb.gz", ".sqlite", ".json.gz", "rank1.pt.trace.json"))
)
PHASES = ("jax_two_cpu", "two-cpu-devices", "torch-two-ranks", "torch-phases", "h100-copies-jax")


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(DATA)) for path in FILES])
def test_the_figures_of_every_trace_are_those_of_all_its_rows(path):
    trace = read(path)
    small = reduced(trace)
    if small is trace:
        assert any(name in str(path) for name in PHASES) or "torch-1.13" in path.name
        return
    assert small.row_count == len(trace.events)
    assert {*small.events["name"]} == {*trace.events["name"]}  # which tell of the program
    assert_alike(analyse(trace), analyse(small))


@needs_real
@pytest.mark.parametrize(
    "case",
    [
        "xplane/tpu-v6e-4chip/tpu_inference_2.xplane.pb",  # of whose first step a compiler is told by its call
        "kineto/hta-df_index_resolver.json.gz",
        "kineto/hta-nccl_data-A100.json.gz",
    ],
)
def test_the_figures_of_real_traces_are_those_of_all_their_rows(case):
    trace = read(REAL / case)
    small = reduced(trace)
    assert len(small.events) < len(trace.events)
    assert_alike(analyse(trace), analyse(small))


def simulated(job: Job, seed: int, folder: Path, trace_format: str = "xspace") -> tuple[Timeline, Timeline]:
    """The Timelines of hosts with clocks of their own that ran a job: of all rows, and of those that are left."""
    truth = Truth(job)
    path = FORMATS[trace_format](truth, folder / trace_format, recorder("hosts", seed, truth.job.ranks))
    return timeline_of(path), timeline_of(path, reduction=Reduction(reduced))


@pytest.mark.parametrize("trace_format", FORMATS)
@pytest.mark.parametrize("seed", [3, 6, 103, 108])
def test_hosts_with_clocks_of_their_own_give_the_same_reduced(trace_format, seed, tmp_path):
    whole, small = simulated(random_job(seed), seed, tmp_path, trace_format)
    assert small.left_out
    assert len(small.trace.events) < len(whole.trace.events) == small.trace.row_count
    assert_alike(analyse(whole), analyse(small))


def assert_all_rows(whole: Timeline, again: Timeline, devices: Collection[str]) -> None:
    """The rows of the devices, and their launches, are those of the whole; so is what counts of the time."""
    assert {name: its.tolist() for name, its in again.unions.windows.items()} == {
        name: its.tolist() for name, its in whole.unions.windows.items()
    }
    assert again.first_work == whole.first_work
    for device in devices:
        columns = []
        for timeline in (whole, again):
            rows, trace = timeline.rows, timeline.trace
            its = rows.of(rows.number(device))
            table = trace.events.iloc[rows.at[its]].astype(object).reset_index(drop=True)
            calls = (
                trace.launches[["host", "thread", "name", "start_ps", "end_ps"]]
                .astype(object)
                .reindex([*range(-1, len(trace.launches))])
            )
            ops = trace.ops.astype(object).reindex([*range(-1, len(trace.ops))])
            op = table.pop("op").fillna(-1).astype(int)
            columns.append(
                (table, calls.loc[timeline.launch[its]].reset_index(drop=True), ops.loc[op].reset_index(drop=True))
            )
        for one, other in zip(*columns, strict=True):
            pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("trace_format", FORMATS)
@pytest.mark.parametrize("seed", [3, 6, 103, 108])
def test_all_rows_of_hosts_with_clocks_of_their_own_are_read_again(trace_format, seed, tmp_path):
    whole, small = simulated(random_job(seed), seed, tmp_path, trace_format)
    devices = [name for name, is_placed in zip(small.rows.devices, small.rows.placed, strict=True) if is_placed][::3]
    again = all_rows_of(small, devices)
    assert 0 < len(again.trace.events) < len(whole.trace.events)
    assert_all_rows(whole, again, devices)


def assert_drawn_alike(whole: Timeline, small: Timeline) -> Report:
    """What is drawn of a reduced run is what is drawn of all its rows, on the page, the terminal and the picture."""
    report = analyse(small)
    again = drawn(small, report)
    assert again is drawn(small, report) is not None  # read once
    assert report.fleet is not None
    assert_all_rows(whole, again, report.fleet.drawn)
    assert page(report, again) == page(report, whole)
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    assert timeline_text.timeline(report, again, console) == timeline_text.timeline(report, whole, console)
    assert_drawn_explained_alike(whole, small)
    return report


def assert_drawn_explained_alike(whole: Timeline, small: Timeline) -> None:
    """Why the devices that stand for all stood idle, and what they ran, is told of a reduced run as of all its rows."""
    of_all, of_small = analyse(whole), with_drawn(small, analyse(small))
    idle, operations = of_all.explanation.idle.devices, of_all.explanation.top_ops.by_device
    for expected, its in ((idle, of_small.drawn_idle), (operations, of_small.drawn_operations)):
        expected = expected[expected["device"].isin(of_small.fleet.drawn)].reset_index(drop=True)
        assert len(expected)
        order = [*expected.columns]
        columns = [table.sort_values(order).reset_index(drop=True) for table in (expected, its)]
        pd.testing.assert_frame_equal(*columns)
    assert of_small.overview[0].tables == of_all.overview[0].tables
    assert of_small.overview[0].sentences == of_all.overview[0].sentences


def test_what_is_drawn_of_a_reduced_fleet_is_what_is_drawn_of_all_its_rows(run):
    whole, small = timeline_of(run), timeline_of(run, reduction=Reduction(reduced))
    report = assert_drawn_alike(whole, small)
    assert report.fleet.drawn == analyse(whole).fleet.drawn
    assert len(report.fleet.ranks) > 2 * len(drawn(small, report).rows.devices)
    pictures = [draw(select(timeline, report), "gantt").encoded("png") for timeline in (whole, drawn(small, report))]
    assert pictures[0] == pictures[1]


def test_rows_on_the_page_of_a_fleet_are_of_the_steps_of_its_report(run):
    whole = timeline_of(run)
    report = analyse(whole)
    assert report.fleet is not None
    of_drawn = whole.narrowed(None, report.fleet.drawn)
    shown = lanes(of_drawn, whole, time_zero(report).start_ps)
    (zero,) = time_zero(report).start_ps.values()
    rows = whole.rows
    is_drawn = np.isin(rows.device, [rows.number(name) for name in report.fleet.drawn])
    edges = (rows.start - zero, rows.end - zero, whole.steps.step_of)
    expected = sorted(zip(*(column[is_drawn].tolist() for column in edges), strict=True))
    its = (shown.start[: shown.device_rows], shown.end[: shown.device_rows], shown.step)
    assert sorted(zip(*(column.tolist() for column in its), strict=True)) == expected
    assert {step for *_, step in expected} == {*range(len(report.explanation.steps.table))}


@pytest.mark.parametrize("seed", [1, 5, 7, 10])  # in which the devices that are drawn begin or end later than others
def test_rows_of_devices_that_stand_for_all_are_of_the_steps_of_all(seed, tmp_path):
    assert_drawn_alike(*simulated(many_ranks(seed), seed, tmp_path))


def many_ranks(seed: int, ranks: int = 18) -> Job:
    """A random job of so many ranks."""
    its = habits(seed)
    return job_with(replace(its, ranks=ranks, straggler=(its.straggler * ranks)[:ranks]), seed)


def test_of_steady_steps_of_a_reduced_fleet_the_causes_are_those_of_all_rows(run, monkeypatch):
    monkeypatch.setattr(steady, "WORTH_TELLING", 0.0)  # so that the steps are told apart without any warm-up
    whole, small = timeline_of(run), timeline_of(run, reduction=Reduction(reduced))
    assert analyse(small).steady is not None
    assert_drawn_explained_alike(whole, small)


def test_the_page_of_a_reduced_fleet_has_a_timeline_unless_its_files_are_gone_or_others(run, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    small = timeline_of(copy, reduction=Reduction(reduced))
    report = tracekit.report(small, tmp_path / "out")
    assert (tmp_path / "out" / "gantt.png").is_file()
    assert report.fleet is not None
    assert all(name in (tmp_path / "out" / "report.html").read_text("utf-8") for name in report.fleet.drawn)
    assert len(report.drawn_idle) == len(report.fleet.drawn)
    assert tracekit.load(tmp_path / "out") == report

    def why() -> str:
        """The note on why there is no timeline, read anew."""
        its = tracekit.report(timeline_of(small.trace), tmp_path / "without")
        assert not (tmp_path / "without" / "gantt.png").exists()
        assert its.notes[-1].startswith("Nothing is drawn over time, for the rows that were left out: ")
        return str(its.notes[-1])

    rows = sum(small.rows.count_of(number) for number in range(8))
    with monkeypatch.context() as patch:
        patch.setattr(report_module, "_refuse_beyond_memory", lambda trace: None)
        patch.setattr(heap, "free_bytes", lambda: 400 * rows)
        assert "would take more memory than is free" in why()
    host = small.rows.hosts[small.rows.number(report.fleet.drawn[0])]
    (file,) = copy.rglob(f"{host}.*")
    others = [each for each in sorted(copy.rglob(f"*{''.join(file.suffixes)}")) if each != file][:2]
    file.write_bytes(others[0].read_bytes())
    assert f"{file} holds other rows than it did" in why()
    file.unlink()
    assert f"{file} does not exist" in why()
    file.mkdir()
    for each in others:
        shutil.copy(each, file)
    assert f"{file} holds the files of several hosts" in why()
    with pytest.raises(TraceError, match="does not say where the file of host00"):
        all_rows_of(timeline_of(small.trace.changed(axis=None)), report.fleet.drawn)


def test_few_devices_of_which_rows_were_left_out_have_no_timeline_and_that_is_said(tmp_path):
    _, small = simulated(random_job(3), 3, tmp_path)
    report = tracekit.report(small, tmp_path / "out")
    assert not (tmp_path / "out" / "gantt.png").exists()
    assert "only of more than 16 devices some stand for all" in report.notes[-1]
    blank = draw(select(small, report), "gantt")
    assert any("Rows of compute were left out" in " ".join(text.get_text().split()) for text in blank.texts)


def test_kinds_of_the_user_go_with_no_reduction(run, tmp_path):
    (tmp_path / "kinds.toml").write_text("")
    with pytest.raises(TracekitError, match="Give one of them"):
        read(run, kinds=tmp_path / "kinds.toml", reduction=Reduction(reduced))


def test_steps_that_were_read_alone_are_read_again_alone(run):
    whole, small = (timeline_of(run, steps=(1, 2), reduction=how) for how in (None, Reduction(reduced)))
    assert small.left_out
    devices = small.rows.devices[::100]
    assert_all_rows(whole, all_rows_of(small, devices), devices)


def test_the_copy_that_was_read_in_the_place_of_a_broken_file_is_read_again(tmp_path):
    truth = Truth(many_ranks(3))
    path = FORMATS["xspace"](truth, tmp_path / "run", recorder("hosts", 3, truth.job.ranks))
    copies = FORMATS["jax-json"](truth, tmp_path / "copies", recorder("hosts", 3, truth.job.ranks))
    shutil.copytree(copies, path, dirs_exist_ok=True)
    broken = sorted(path.rglob("*.xplane.pb"))[5]
    broken.write_bytes(b"no XSpace" * 100)
    small = timeline_of(path, reduction=Reduction(reduced))
    host = next(name for name, place in small.trace.axis.files.items() if place.endswith(".json.gz"))
    (device, *_) = (name for name, its in zip(small.rows.devices, small.rows.hosts, strict=True) if its == host)
    assert_all_rows(timeline_of(path), all_rows_of(small, [device]), [device])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of 48 hosts of eight GPUs whose clocks are off and drift, with slow GPUs, a broken file and one missing."""
    path = tmp_path_factory.mktemp("fleet") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        patch.setattr(summary, "_MOST_BESIDE", 100)  # of so few rows more is left beside them
        make = importlib.import_module("make_fleet")
        make.write(make.with_faults(48, steps=4, kernels=24), path, files=2)
    return path


def test_a_fleet_gives_the_same_reduced_however_many_parts_its_time_is_looked_at_in(run, monkeypatch):
    whole, small = timeline_of(run), timeline_of(run, reduction=Reduction(reduced))
    assert 2 * len(small.trace.events) < small.trace.row_count == len(whole.trace.events)
    assert_alike(analyse(whole), analyse(small))
    monkeypatch.setattr(overlap, "_MOST_AT_ONCE", 500)
    assert len(list(overlap._depths(small.unions))) > 10
    assert_alike(analyse(whole), analyse(timeline_of(small.trace)))


@pytest.mark.parametrize("seed", range(4))
def test_devices_are_busy_together_as_long_in_any_windows(run, seed, monkeypatch):
    """`iv.depth` of the devices' own unions is the oracle."""
    monkeypatch.setattr(overlap, "_MOST_AT_ONCE", 3000)
    whole, small = timeline_of(run), timeline_of(run, reduction=Reduction(reduced))
    ((clock, reach),) = small.unions.windows.items()
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(reach[0, 0] - 10**9, reach[-1, 1] + 10**9, 2 * seed + 2)).reshape(-1, 2)
    one, other = (overlap._made_together(its.unions.inside({clock: edges})) for its in (whole, small))
    assert one.times == other.times
    assert one.several.tolist() == other.several.tolist()
    assert len(one.several)


def test_where_no_device_is_left_none_is_busy(run):
    small = timeline_of(run, reduction=Reduction(reduced))
    assert overlap.concurrency(small.narrowed(None, []))["devices"].tolist() == [0]
    assert overlap.concurrency(small.trace.of_events(np.zeros(0, np.int64)))["time_ps"].sum() == 0


def test_a_run_of_summaries_is_read_without_the_rows_that_they_can_do_without(run, monkeypatch):
    before, read_whole, whole_files = analyse(timeline_of(run, reduction=Reduction(reduced))), summary.read, []

    def noted(path: Path) -> HostTrace:
        whole_files.append(path)
        return read_whole(path)

    monkeypatch.setattr(summary, "read", noted)
    assert analyse(timeline_of(run, reduction=Reduction(reduced))) == before
    assert len(whole_files) == 2  # the broken ones
    timeline_of(run, steps=(1, 2), reduction=Reduction(reduced))
    assert len(whole_files) == 2 + len([*run.glob("*.tracekit.zip")])


def test_workers_reduce_as_this_process_does(run):
    here = timeline_of(run, reduction=Reduction(reduced))
    with Processes(2) as executor:
        there = timeline_of(run, reduction=Reduction(reduced), executor=executor)
    assert there.trace.merged.equals(here.trace.merged)
    assert there.trace.counts.equals(here.trace.counts)
    assert analyse(there) == analyse(here)


def test_rows_are_left_out_where_all_would_take_more_memory_than_is_free(run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(heap, "free_bytes", lambda: 10**12)
        assert not tracekit.report(run, tmp_path / "whole").explanation.idle.lacking.startswith("Rows of compute")
    assert (tmp_path / "whole" / "intervals.parquet").is_file()
    assert not any("left out" in note for note in tracekit.load(tmp_path / "whole").notes)
    asked = iter([2_000_000, 10**12, 10**12])  # before reading, before the report is made, and before it is drawn
    monkeypatch.setattr(heap, "free_bytes", lambda: next(asked))
    report = tracekit.report(run, tmp_path / "out")
    assert report.explanation.idle.lacking.startswith("Rows of compute were left out")
    assert not (tmp_path / "out" / "intervals.parquet").exists()
    (note,) = (note for note in report.notes if "left out as the files" in note)
    assert re.fullmatch(r"[\d,]+ of [\d,]+ rows of devices were left out as the files were read; .*", note)
    text = io.StringIO()
    printout.show(tracekit.load(tmp_path / "out"), Console(file=text, width=80, force_terminal=False), full=True)
    assert "Rows of compute were left out" in " ".join(text.getvalue().split())


@pytest.mark.parametrize("trace_format", ["kineto", "xspace", "nsys"])
def test_what_all_files_would_take_is_told_by_the_largest_of_each_type(run, trace_format, tmp_path):
    truth = Truth(random_job(108))
    job = FORMATS[trace_format](truth, tmp_path / trace_format, recorder("hosts", 108, truth.job.ranks))
    for path in (run, job):
        frames = sum(read(file).frame_bytes for file in sorted(path.rglob("*.*")) if can_be_read(file))
        for share, is_reduced in ((0.6, True), (1.5, False)):
            trace = read(path, reduction=Reduction(reduced, int(share * frames)))
            assert bool(len(trace.counts)) is is_reduced, (path, share)


def can_be_read(path: Path) -> bool:
    try:
        return bool(len(read(path).events))
    except TracekitError:
        return False


@pytest.mark.parametrize(
    ("option", "value"),
    [("devices", ["host0001/gpu:1"]), ("step", 2), ("phases", ["x"]), ("kinds", "rules.toml"), ("steps", (1, 2))],
)
def test_what_rests_on_each_row_is_not_asked_of_a_reduced_trace(run, option, value, tmp_path):
    with pytest.raises(TracekitError, match=r"^--reduce leaves out rows that --.* asks for\. Give one of them\.$"):
        tracekit.report(run, tmp_path / "out", reduce=True, **{option: value})
    assert not (tmp_path / "out").exists()


def test_of_a_reduced_trace_no_part_is_told(run, tmp_path):
    small = timeline_of(run, reduction=Reduction(reduced))
    for part in ({"step": 2}, {"devices": ["host0003/gpu:1"]}, {"phases": ["train"]}):
        with pytest.raises(TracekitError, match="no part and no phase is told"):
            analyse(small, **part)
    with pytest.raises(TracekitError, match="nothing is exported"):
        tracekit.export(small, tmp_path / "out", to="csv")
    assert not (tmp_path / "out").exists()
    narrowed = small.narrowed(devices=["host0003/gpu:1", "host0004/gpu:0"])
    whole = timeline_of(run).narrowed(devices=["host0003/gpu:1", "host0004/gpu:0"])
    assert narrowed.trace.row_count == len(whole.trace.events)
    assert overlap.partition(narrowed).equals(overlap.partition(whole))


def test_a_saved_report_is_not_reduced(run, tmp_path):
    tracekit.report(run, tmp_path / "out", reduce=True)
    with pytest.raises(TracekitError, match=r"is a saved report, to which --reduce cannot be applied"):
        tracekit.report(tmp_path / "out", reduce=True)


def test_one_file_is_read_whole():
    path = DATA / "h100-steps-jax0.11.2.xplane.pb.gz"
    assert not timeline_of(path, reduction=Reduction(reduced)).left_out


def test_steps_that_not_all_hosts_mark_are_not_told(run):
    traces = [reduced(read(path)) for path in sorted(run.glob("host000[2-4]*"))]
    unmarked = traces[1].changed(spans=traces[1].spans[:0])
    told = analyse(merge([traces[0], traces[2]])).explanation.steps
    assert len(told.table) == 4
    steps = analyse(merge([traces[0], unmarked, traces[2]])).explanation.steps
    assert steps.lacking.startswith("Rows of compute were left out")
    assert not len(steps.table)


def test_a_host_that_lost_work_is_left_out_of_many_beside_reduced_ones(run):
    with_faults = ("host0014", "host0028")  # see make_fleet
    traces = [read(path) for path in sorted(run.glob("host*.zip")) if path.name[:8] not in with_faults]
    broken = traces[3].changed(events=traces[3].events[::2].reset_index(drop=True))
    small = [reduced(trace) for trace in (*traces[:3], broken, *traces[4:])]
    assert small[3] is broken  # all of what is left is looked at
    left = timeline_of(merge(small))
    assert left.trace.row_count == sum(trace.row_count for trace in small) - len(broken.events)
    assert_alike(analyse(timeline_of(merge([*traces[:3], broken, *traces[4:]]))), analyse(left))


def test_phases_leave_a_trace_whole(run):
    (path,) = run.glob("host0002*")
    trace = read(path)
    assert reduced(trace) is not trace
    phase = trace.spans.assign(tracekit=pd.Categorical(["phase"] * len(trace.spans)))
    marked = trace.changed(spans=phase)
    assert reduced(marked) is marked


def test_times_that_only_rows_that_are_left_out_tell_finely_leave_a_host_whole():
    trace = several(1)[0]
    events = trace.events.assign(**{edge: trace.events[edge] // 1000 * 1000 for edge in ("start_ps", "end_ps")})
    coarse = trace.changed(events=events)
    kept = set(zip(*(reduced(coarse).events[name] for name in ("device", "start_ps")), strict=True))
    place = next(at for at, row in enumerate(zip(events["device"], events["start_ps"], strict=True)) if row not in kept)
    start = events["start_ps"].to_numpy().copy()
    start[place] += 1
    fine = trace.changed(events=events.assign(start_ps=start))
    assert len(reduced(coarse).counts)
    assert reduced(fine) is fine


def several(hosts: int = 3, **sizes: int) -> list[Trace]:
    """The traces of some healthy hosts of eight GPUs, of six steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        make = importlib.import_module("make_fleet")
    made = make.Fleet(hosts, **{"steps": 6, "kernels": 12, **sizes})
    with TemporaryDirectory() as folder:
        times = make.Times(made)
        return [read(make.write_xspace(made, times, host, Path(folder))) for host in range(hosts)]


def assert_whole_or_alike(traces: list[Trace]) -> None:
    """Reduced, they give the same figures, or say that steps are not told."""
    whole, small = analyse(merge(traces)), analyse(merge([*map(reduced, traces)]))
    assert any(len(reduced(trace).counts) for trace in traces)
    if small.explanation.steps.lacking.startswith("Rows of compute"):
        assert replace(whole, **{name: getattr(small, name) for name in TOLD_WITHOUT_STEPS}) == whole
        return
    assert_alike(whole, small)


TOLD_WITHOUT_STEPS = ("windows", "whole", "clock_of", "phases", "inside")


def named(trace: Trace, name: str) -> Trace:
    """The trace whose spans have no step numbers, but a name."""
    spans = trace.spans
    return trace.changed(
        spans=spans.assign(step=pd.array([pd.NA] * len(spans), "Int64"), name=pd.Categorical([name] * len(spans)))
    )


def test_steps_told_by_what_spans_are_called_leave_a_host_whole():
    traces = several()
    called = [traces[0], named(traces[1], "train_step"), traces[2]]
    assert reduced(called[1]) is called[1]
    assert_whole_or_alike(called)
    assert all(reduced(each) is each for each in (named(trace, "train_step") for trace in traces))


def test_hosts_that_number_steps_in_different_ways_are_read_whole(tmp_path):
    traces = several()
    names = pd.Categorical([f"step {step}" for step in range(len(traces[1].spans))])
    steps = pd.array([pd.NA] * len(names), "Int64")
    traces[1] = traces[1].changed(spans=traces[1].spans.assign(name=names, step=steps))
    assert len(reduced(traces[1]).counts)
    for number, trace in enumerate(traces):
        summary.write(HostTrace(trace, is_fitted=True), tmp_path / f"host{number}.tracekit.zip")
    assert not len(read(tmp_path, reduction=Reduction(reduced)).counts)
    (tmp_path / "host1.tracekit.zip").unlink()
    assert len(read(tmp_path, reduction=Reduction(reduced)).counts)


def test_a_host_whose_steps_ran_ahead_without_launches_stays_whole():
    traces = several()
    nothing = traces[1].launches[:0]
    ids = pd.array([pd.NA] * len(traces[1].events), "Int64")
    events = traces[1].events.assign(correlation_id=ids, run_id=ids, group_id=ids)
    early = traces[1].spans.assign(**{edge: traces[1].spans[edge] // 10 for edge in ("start_ps", "end_ps")})
    ahead = traces[1].changed(launches=nothing, events=events, spans=early)
    assert reduced(ahead) is ahead
    assert_whole_or_alike([traces[0], ahead, traces[2]])


def test_programs_that_differ_from_host_to_host_put_no_row_into_a_step_by_its_start():
    traces = []
    for number, trace in enumerate(several()):
        module = pd.Categorical([f"jit_stage_{number}"] * len(trace.events))
        traces.append(trace.changed(events=trace.events.assign(hlo_module=module), spans=trace.spans[:0]))
    assert any(len(reduced(trace).counts) for trace in traces)
    assert_whole_or_alike(traces)


def test_two_steps_of_which_launches_tell_that_one_was_cut_leave_a_host_whole():
    traces = several(steps=2)
    assert all(reduced(trace) is trace for trace in traces)
    mixed = several(steps=6)[0]
    assert reduced(mixed) is not mixed


@pytest.mark.parametrize("what", ["windows of one host", "phases"])
def test_runs_whose_figures_rest_on_each_row_are_read_whole_or_refused(what, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for number, trace in enumerate(several()):
        if what == "phases" and not number:
            trace = trace.changed(spans=trace.spans.assign(tracekit=pd.Categorical(["phase"] * len(trace.spans))))
        if what != "phases" and number == 1:  # two windows of it
            half = len(trace.events) // 2
            for part, rows in enumerate((slice(half), slice(half, None))):
                its = trace.changed(events=trace.events[rows].reset_index(drop=True))
                summary.write(HostTrace(its, is_fitted=True), folder / f"host1.{part}.tracekit.zip")
            continue
        summary.write(HostTrace(trace, is_fitted=True), folder / f"host{number}.tracekit.zip")
    asked = read(folder, reduction=Reduction(reduced))
    assert not len(asked.counts)
    assert len(asked.events) == len(read(folder).events)
    with pytest.raises(
        TracekitError, match=r"take more memory than is free, and none can be left out, as .*--only-steps"
    ):
        read(folder, reduction=Reduction(reduced, 1000))


def test_a_report_of_reduced_rows_compares_no_operations(run, tmp_path):
    traces = tracekit.report(run, tmp_path / "whole"), tracekit.report(run, tmp_path / "small", reduce=True)
    told = tracekit.compare(*traces)
    assert not any(len(scope.operations.table) for scope in told.scopes)
    assert any("make it again from all rows of its trace" in caution.sentence for caution in told.cautions)


def test_the_command_says_that_rows_were_left_out(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tracekit", "report", str(run), "--reduce", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    said = " ".join(capsys.readouterr().err.split())
    words = "operations and causes of idle time are told of the devices that stand for all alone, and no critical path."
    assert f"Rows of compute were left out to save memory, so {words}" in said


def test_compute_of_a_device_that_stands_in_several_places_counts_whole():
    whole = several()
    small = merge([*map(reduced, whole)])
    order = np.random.default_rng(0).permutation(len(small.merged))
    mixed = small.changed(merged=small.merged.iloc[order].reset_index(drop=True))
    for timeline in (timeline_of(small), timeline_of(mixed)):
        assert overlap.partition(timeline).equals(overlap.partition(merge(whole)))
        assert overlap.device_pairs(timeline).equals(overlap.device_pairs(merge(whole)))


def test_a_run_that_memory_does_not_hold_is_told_how_to_be_reported(run, tmp_path, monkeypatch):
    whole, small = timeline_of(run), timeline_of(run, reduction=Reduction(reduced))
    monkeypatch.setattr(heap, "free_bytes", lambda: 1000)
    with pytest.raises(TracekitError, match=r"Or leave out rows of compute \(--reduce\), or use a larger machine\.$"):
        tracekit.report(whole, tmp_path / "out")
    with pytest.raises(TracekitError, match=rf"of {len(whole.trace.events):,} events .*FIRST-LAST\. Or use a larger"):
        tracekit.report(small, tmp_path / "out")
