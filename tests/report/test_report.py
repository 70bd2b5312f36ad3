"""The report on traces whose answer is known: what it says, what it writes, and what it refuses."""

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import tracekit
from tests.frames import events, spans, trace
from tests.readers.xspaces import write as write_xspace
from tests.report.html import pages
from tests.stepped import annotations, work
from tracekit import cli, heap
from tracekit.columns import concat
from tracekit.errors import TracekitError
from tracekit.report.build import analyse
from tracekit.report.markdown import markdown
from tracekit.report.report import default_directory
from tracekit.report.sections import sections
from tracekit.report.sections.overview import CELL_WORDS
from tracekit.report.terminal import printout
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS

MS = 10**9
PARALLEL = trace(
    events(
        ("gpu:0", "compute", 0, 10 * MS),
        ("gpu:1", "compute", 10 * MS, 20 * MS),
        ("gpu:0", "compute", 20 * MS, 30 * MS),
        ("gpu:1", "compute", 20 * MS, 30 * MS),
    ),
    spans(("device 0", 0, 10 * MS), ("device 1", 10 * MS, 20 * MS), ("both", 20 * MS, 30 * MS, "device 0;device 1")),
)
CONTENDED = trace(
    events(
        ("cpu:0", "compute", 0, 10 * MS),
        ("cpu:1", "compute", 10 * MS, 20 * MS),
        ("cpu:0", "compute", 20 * MS, 40 * MS),
        ("cpu:1", "compute", 20 * MS, 40 * MS),
    ),
    spans(("device 0", 0, 10 * MS), ("device 1", 10 * MS, 20 * MS), ("both", 20 * MS, 40 * MS, "device 0;device 1")),
    capture={"usable_cores": 2},
)


def test_a_report_that_memory_does_not_hold_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(heap, "free_bytes", lambda: 1000)
    with pytest.raises(
        TracekitError, match=r"of 4 events of devices, takes about .* and 1000 B are free\..*--only-steps"
    ):
        tracekit.report(PARALLEL, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    tracekit.report(PARALLEL, tmp_path / "out", devices=["gpu:0"])  # a part takes less, how much is not known
    for free in (None, 10**9):
        monkeypatch.setattr(heap, "free_bytes", lambda free=free: free)
        tracekit.report(PARALLEL, tmp_path / "out")


def full_text(any_trace, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    timeline = timeline_of(any_trace)
    printout.show(analyse(timeline), console, full=True, timeline=timeline)
    return console.file.getvalue()


def test_parallel_work_is_called_parallel():
    report = analyse(PARALLEL)
    assert report.verdicts["both"] == (
        "gpu:0 and gpu:1 were busy at the same time for 100 % of the shorter busy time. "
        "Speedup 2.00x over running one after the other."
    )
    assert report.headline == "both: devices overlapped 100 %, speedup 2.00x"


def test_a_speedup_over_one_other_phase_names_it():
    marks = spans(("by hand", 0, 10 * MS), ("queued", 20 * MS, 25 * MS, "by hand"))
    report = analyse(trace(events(("gpu:0", "compute", 0, 10 * MS), ("gpu:0", "compute", 20 * MS, 25 * MS)), marks))
    assert "Speedup 2.00x over 'by hand'" in report.verdicts["queued"]
    assert report.key_figures[-1].of == "over by hand"


def test_contention_is_called_contention_and_shared_cores_are_named():
    report = analyse(CONTENDED)
    together, _, rest = report.verdicts["both"].partition(". ")
    assert together.startswith("cpu:0 and cpu:1 ")
    assert "100 %" in together
    assert rest == (
        "No speedup over running one after the other (1.00x). Compute on cpu:0 took 2.00x as long as alone: "
        "the overlapping work contends for a shared resource."
    )
    # Of devices that are slowed alike, the finding names the one that the verdict does.
    assert [each.evidence["device"] for each in report.advice.findings if each.rule == "contention"] == ["cpu:0"]
    assert "CPU devices share the machine's cores" in " ".join(report.notes)


def test_more_cpu_devices_than_cores_are_called_time_sharing():
    report = analyse(replace(CONTENDED, capture={"usable_cores": 1.5}))
    assert report.verdicts["both"].startswith(
        "2 devices time-shared 1.5 cores, 2.00 busy at once on average: no parallelism. "
    )
    assert report.headline == "both: time-sharing on 1.5 cores, speedup 1.00x"
    # Of two cores two can compute at once, whatever the devices.
    three = events(*[(f"cpu:{at}", "compute", 0, 10) for at in range(3)])
    told = "3 devices time-shared 2 cores, 3.00 busy at once on average: at most 2 computed in parallel."
    assert told in analyse(trace(three, capture={"usable_cores": 2})).verdict
    assert "2 CPU devices share 1.5 cores" in " ".join(report.notes)


def test_what_stood_in_the_way_of_several_devices_is_told():
    rows = events(
        ("gpu:0", "compute", 0, 100),
        *[(device, "compute", 100, 140) for device in ("gpu:0", "gpu:1")],
        *[(device, "collective", 140, 160) for device in ("gpu:0", "gpu:1")],
    )
    rows["wait_ps"] = rows["wait_ps"].mask(rows["kind"] == "collective", 5)
    report = analyse(trace(rows, spans(("one", 0, 100), ("two", 100, 180, None, "one"))))
    together, _, rest = report.verdicts["two"].partition(". ")
    assert together.startswith("gpu:0 and gpu:1 ")
    assert "100 %" in together
    assert rest == (
        "Compute hid 0 % of the collective time (40 ps summed over 2 devices). Speedup 1.25x over one, efficiency "
        "62.5 %. Of the devices' time, 25.0 % in exposed collectives (25.0 % of it waiting for other devices), 25.0 % "
        "idle."
    )
    assert report.phases.stretch["stretch"].isna().all()


@pytest.mark.parametrize(
    ("busy", "verdict"),
    [
        ([(0, 10), (0, 10), (0, 5)], "2.50 of 3 devices were busy on average while any was."),
        ([(0, 10), (10, 20), (20, 30)], "No two of 3 devices were ever busy at the same time."),
        ([(0, 10), (0, 10), (0, 10)], "All 3 devices were busy together whenever any was."),
        ([(0, 1000), (0, 1000), (0, 999)], "All 3 devices were busy together practically whenever any was."),
    ],
)
def test_more_than_two_devices_are_told_by_how_many_were_busy_on_average(busy, verdict):
    rows = events(*((f"gpu:{at}", "compute", start, end) for at, (start, end) in enumerate(busy)))
    assert analyse(trace(rows)).verdict.partition(". ")[2] == verdict


def test_copies_of_devices_that_are_not_known_are_not_summed_over_a_number_of_devices():
    rows = events(
        *((device, "memcpy", 0, 10, "copy", "P2P") for device in ("cpu:0", "cpu:?")), ("cpu:0", "compute", 0, 5)
    )
    assert analyse(trace(rows)).verdict.endswith("of the copy time (20 ps summed over the devices).")


def test_of_many_pairs_it_says_which_two_are_shown():
    report = analyse(
        trace(events(*((f"gpu:{at}", "compute", 0, 10 + at) for at in range(4)), ("gpu:4", "compute", 5, 9)))
    )
    lines = full_text(trace(events(*((f"gpu:{at}", "compute", 0, 10 + at) for at in range(5))))).splitlines()
    assert lines.count("Of the 10 pairs, the least and the most overlapped.") == 1
    (together,) = [table for section in report.overview for table in section.tables if table.key == "together"]
    assert (len(together.rows), len(together.brief)) == (10, 2)
    assert together.extract in markdown(report)


def test_work_left_unfinished_is_told():
    report = analyse(trace(events(("gpu:0", "compute", 0, 9 * MS)), spans(("p", 0, 2 * MS))))
    assert "Work begun inside ran on for 7.00 ms after its end" in report.verdicts["p"]


def test_what_lies_on_the_edges_of_a_phase_is_not_worth_a_word():
    rows = events(("gpu:0", "memcpy", 0, 1, "copy", "H2D"), ("gpu:0", "compute", 0, 1001))
    verdicts = analyse(trace(rows, spans(("p", 0, 1000), ("copy", 2000, 2010)))).verdicts
    assert verdicts == {
        "p": "gpu:0 was busy 100 % of the time (the trace holds one device).",
        "copy": "No device was busy.",
    }


def test_a_phase_with_nothing_but_unplaced_copies_says_so():
    rows = events(("cpu:0", "compute", 0, 5), ("cpu:?", "memcpy", 10, 19, "copy", "P2P"))
    verdict = analyse(trace(rows, spans(("copy", 10, 20)))).verdicts["copy"]
    assert verdict == "Only copies ran (9 ps), no compute."


@pytest.mark.parametrize(
    ("end", "more"), [(1_500, "; that work spans 1.1 % of the step's 1.41 ns"), (115, "")], ids=["long", "short"]
)
def test_work_that_spans_little_of_its_step_is_not_told_as_if_it_were_all_of_it(end, more):
    rows, launches = work(("gpu:0", "compute", 100, 115, 95))
    report = analyse(trace(rows, annotations(("train", 0, 90, end)), launches=launches))
    assert report.headline == f"gpu:0 was busy 100 % of 15 ps (the trace holds one device){more}."


def test_a_trace_without_phases_gets_one_verdict_for_the_whole():
    report = analyse(trace(events(("gpu:0", "compute", 0, 10), ("gpu:0", "memcpy", 5, 15, "copy", "H2D"))))
    assert report.headline == "gpu:0 was busy 100 % of 15 ps (the trace holds one device); 33.3 % exposed copies."
    assert (report.verdict, report.verdicts) == (f"{report.headline} Compute hid 50.0 % of the copy time (10 ps).", {})


@pytest.mark.parametrize(
    ("copy", "verdict", "work"),
    [
        ([], "gpu:0 was busy 100 % of 200 ps (the trace holds one device); 50.0 % exposed memsets.", []),
        (
            [("gpu:0", "memcpy", 90, 110, "copy", "H2D")],
            "gpu:0 was busy 100 % of 200 ps (the trace holds one device); 50.0 % exposed copies and memsets. Compute "
            "hid 50.0 % of the copy time (20 ps).",
            [["H2D copies", 10, 20]],
        ),
    ],
)
def test_memsets_are_not_called_copies(copy, verdict, work):
    rows = events(("gpu:0", "compute", 0, 100), *copy, ("gpu:0", "memset", 100, 200))
    report = analyse(trace(rows))
    assert report.verdict == verdict
    hidden = next(section for section in report.overview if section.key == "hidden")
    assert [[row[1], row[3], row[4]] for table in hidden.tables for row in table.rows] == work


def test_a_headline_tells_of_no_copies_where_there_are_memsets_alone_or_copies_not_worth_a_word():
    rows = events(
        ("gpu:0", "compute", 0, 1000),
        ("gpu:0", "compute", 1000, 1900),
        ("gpu:0", "memset", 1900, 2000),
        ("gpu:0", "compute", 2000, 2995),
        ("gpu:0", "memcpy", 2995, 3000, "copy", "H2D"),
        ("gpu:0", "compute", 3000, 3900),
        ("gpu:0", "memcpy", 3850, 3950, "copy", "H2D"),
    )
    marks = [(name, at * 1000, at * 1000 + 1000, None, "a") for at, name in enumerate("bcd", 1)]
    report = analyse(trace(rows, spans(("a", 0, 1000), *marks)))
    assert report.headline == ("b: speedup 1.00x | c: speedup 1.00x | d: 50.0 % of the copies hidden, speedup 1.00x")


def test_an_empty_trace_says_so_and_has_no_window():
    report = analyse(trace(events()))
    assert (report.verdict, report.verdicts) == (report.headline, {})
    assert report.headline == no_device_work(trace(events()))
    trace_summary = report.summary()["trace"]
    assert (trace_summary["window_ps"], trace_summary["window_reason"]) == (None, "the trace holds no device rows")


@pytest.mark.parametrize("any_trace", [PARALLEL, CONTENDED, trace(events())])
def test_the_summary_is_json_and_its_cells_sum_to_the_window(any_trace):
    summary = json.loads(json.dumps(analyse(any_trace).summary(), allow_nan=False))
    assert summary["schema"] == 2
    for device in summary["devices"]:
        assert sum(device["partition"].values()) == device["window_ps"]
        assert device["busy_ps"] == device["window_ps"] - device["partition"]["idle"]
    assert sum(summary["concurrency"]) == (summary["trace"]["window_ps"] or 0)


def test_the_summary_holds_the_figures_of_the_phases():
    summary = analyse(PARALLEL).summary()
    both = summary["phases"][2]
    assert {key: both[key] for key in ("name", "n", "wall_ps", "speedup", "efficiency", "compared_with")} == {
        "name": "both",
        "n": 1,
        "wall_ps": 10 * MS,
        "speedup": 2.0,
        "efficiency": None,
        "compared_with": "device 0, device 1",
    }
    assert [row["stretch"] for row in both["stretch"]] == [1.0, 1.0]
    assert both["device_pairs"][0]["ratio_min"] == 1.0
    assert summary["device_pairs"][0]["overlap_ps"] == 10 * MS
    assert summary["concurrency"] == [0, 20 * MS, 10 * MS]


# Mappings whose keys are names, or depend on what was found.
NAMED = {
    "verdicts",
    "lacking",
    "findings.evidence",
    "bandwidth.reasons",
    "top_ops.reasons",
    "machine.reasons",
    "report",
}


def places(value, place=""):
    """The place of every key in plain data; the entries of a list are at its own."""
    if isinstance(value, list):
        for entry in value:
            yield from places(entry, place)
    elif isinstance(value, dict) and place not in NAMED:
        for key, part in value.items():
            yield f"{place}.{key}".lstrip(".")
            yield from places(part, f"{place}.{key}".lstrip("."))


@pytest.mark.parametrize("name", ["phases", "launched", "stepped"])
def test_every_key_of_a_saved_summary_is_documented_by_its_place(name, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "summary.md").read_text("utf-8")
    saved = json.loads((pages.report(name).save(tmp_path) / "summary.json").read_text("utf-8"))
    assert {*places(saved)} - {*re.findall(r"`([^`]+)`", page)} == set()


def test_every_column_of_the_tables_is_defined_in_the_docs():
    docs = Path(__file__).parents[2] / "docs"
    pages = "".join((docs / name).read_text("utf-8") for name in ("concepts.md", "columns.md", "fleet.md"))
    words = set(re.findall(r"`([^`]+)`", pages))
    sources = [path.read_text("utf-8") for path in Path(sections.__file__).parent.glob("*.py")]
    heads = {head for source in sources for head in re.findall(r'(?:Column|Field)\(f?"([^"{]+)"', source)}
    assert len(heads) > 80
    assert {*heads, *CELL_WORDS.values()} - words == set()


def test_tables_fit_80_columns_and_markdown_cannot_be_broken_by_names():
    text = full_text(PARALLEL)
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"both +1 +10.00 ms +100 % +2.00x +- +1.00x", text)
    hostile = trace(events(("gpu:0", "compute", 0, 5)), spans(("a|b<script>", 0, 5), ("[red]x[/red]", 5, 6)))
    assert "a\\|b&lt;script>" in markdown(analyse(hostile), "gantt.png")
    assert "[red]x[/red]" in full_text(hostile)


def test_all_files_are_written_and_can_be_read_back(tmp_path):
    out = tmp_path / "out"
    report = tracekit.report(PARALLEL, out)
    assert sorted(file.name for file in out.iterdir()) == [
        "frames",
        "gantt.png",
        "intervals.parquet",
        "overlap.csv",
        "report.html",
        "report.md",
        "summary.json",
    ]
    saved = json.loads((out / "summary.json").read_text("utf-8"))
    assert {key: value for key, value in saved.items() if key != "report"} == report.summary()
    back = pd.read_parquet(out / "intervals.parquet")
    assert back[["start_ps", "end_ps"]].equals(PARALLEL.events[["start_ps", "end_ps"]])
    assert back["device"].astype(str).tolist() == PARALLEL.events["device"].astype(str).tolist()
    assert set(pd.read_csv(out / "overlap.csv")["phase"]) == {"whole trace", "device 0", "device 1", "both"}


@pytest.mark.parametrize("inside", ["", "report", "plugins/profile/report"])
def test_nothing_is_written_into_the_trace(tmp_path, inside):
    with pytest.raises(TracekitError, match="inside the trace"):
        tracekit.report(replace(PARALLEL, source=str(tmp_path)), tmp_path / inside)
    assert list(tmp_path.iterdir()) == []


def test_beside_a_loose_file_a_report_may_be_written(tmp_path):
    loose = tmp_path / "trace.json"
    loose.write_text("{}")
    tracekit.report(replace(PARALLEL, source=str(loose)), tmp_path / "reports")
    assert (tmp_path / "reports" / "report.html").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(TracekitError, match=r"cannot be written to .*Give another --out"):
        tracekit.report(PARALLEL, tmp_path / "file" / "out")


def test_a_place_that_cannot_be_written_is_found_before_the_trace_is_read(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("here")
    unread = tmp_path / "unread"
    with pytest.raises(TracekitError, match="file is a file, and a report is a directory; name another with --out"):
        tracekit.report(unread, tmp_path / "file")
    with pytest.raises(TracekitError, match="out cannot be written: Not a directory; name another"):
        tracekit.report(unread, tmp_path / "file" / "out")
    with pytest.raises(TracekitError, match="inside the trace"):
        tracekit.report(unread, unread / "out")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").write_text("not a directory")
    with pytest.raises(TracekitError, match="reports is a file"):
        tracekit.report(unread)


def test_what_the_process_keeps_of_memory_is_chosen_by_the_bytes_of_the_trace_before_it_is_read(tmp_path, monkeypatch):
    run = tmp_path / "traces" / "run"
    run.mkdir(parents=True)
    for number in range(2):
        (run / f"{number}.txt").write_text("x" * 600)
    sizes = []
    monkeypatch.setattr(heap, "suit_a_trace_of", sizes.append)
    for source in (run.parent, run, run / "0.txt", tmp_path / "absent"):
        with pytest.raises(TracekitError, match=r"no trace|is not a supported trace|does not exist"):
            tracekit.report(source, tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["tracekit", "report", str(run), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        cli.main()
    assert sizes == [1200, 1200, 600, 0, 1200]


@pytest.mark.parametrize("file", ["intervals", "whole.overlap"])
def test_a_table_that_another_thread_cannot_write_is_said_and_not_left_half_written(file, tmp_path, monkeypatch):
    write = pq.write_table

    def fail(table, opened, **options):
        write(table, opened, **options)
        if f"{file}.parquet" in os.readlink(f"/proc/self/fd/{opened.fileno()}"):
            raise OSError("No space left on device")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(TracekitError, match=r"out: No space left on device. Give another --out"):
        tracekit.report(PARALLEL, tmp_path / "out")
    assert not [path.name for path in tmp_path.rglob("*") if file in path.name]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("traces/mine", "mine"),
        ("traces/mine/plugins/profile/2026_01_01", "mine"),
        ("traces/mine/plugins/profile/2026_01_01/host.xplane.pb", "mine"),
        ("loose/host.xplane.pb.gz", "host"),
        ("loose/worker0.17.pt.trace.json.gz", "worker0.17"),
        ("loose/two_gpus.sqlite", "two_gpus"),
    ],
)
def test_reports_are_named_after_the_log_directory(path, name):
    assert default_directory(Path(path)) == Path("reports") / name


TEXT = """planes { name: "/device:GPU:0" lines { id: 7 name: "Stream #7(Compute)" timestamp_ns: 5
  events { metadata_id: 1 offset_ps: 1000 duration_ps: 4000 } } event_metadata { key: 1 value { id: 1 name: "k" } } }
planes { name: "/host:CPU" lines { id: 1 name: "python" timestamp_ns: 5
  events { metadata_id: 1 offset_ps: 0 duration_ps: 5000 } } event_metadata { key: 1 value { id: 1 name: "step" } } }"""


def test_the_command_reads_prints_and_writes_and_leaves_the_trace_alone(tmp_path, capsys):
    logdir = tmp_path / "log"
    run_dir = logdir / "plugins" / "profile" / "run"
    run_dir.mkdir(parents=True)
    write_xspace(run_dir / "host.xplane.pb", TEXT)
    before = sorted(tmp_path.rglob("*"))
    cli.report(logdir, tmp_path / "out", as_phase=["step"])
    assert "step: gpu:0 was busy 80.0 % of the time" in capsys.readouterr().out
    assert [path for path in sorted(tmp_path.rglob("*")) if tmp_path / "out" not in (path, *path.parents)] == before
    cli.report(logdir, tmp_path / "out", as_json=True)
    assert json.loads(capsys.readouterr().out)["trace"]["runs"] == ["run"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"as_phase": ["nowhere"]}, "holds no annotation 'nowhere'"),
        ({"alone": ["step"]}, "name it in phases (--as-phase NAME)"),
        ({"as_phase": ["step"], "baseline": "other"}, "'other' is no phase"),
        ({"run": "gone"}, "contains no run 'gone'; its runs are: run"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(tmp_path, options, sentence):
    run_dir = tmp_path / "plugins" / "profile" / "run"
    run_dir.mkdir(parents=True)
    write_xspace(run_dir / "host.xplane.pb", TEXT)
    with pytest.raises(TracekitError, match=re.escape(sentence)):
        cli.report(tmp_path, tmp_path.with_name("never"), **options)
    assert not tmp_path.with_name("never").exists()


def test_hosts_on_unaligned_clocks_are_reported_apart_and_nothing_is_said_across_them():
    rows = concat(
        EVENT_COLUMNS,
        [
            events(("a/gpu:0", "compute", 0, 10 * MS), host="a", clock="a"),
            events(("b/gpu:0", "compute", 5 * MS, 20 * MS), host="b", clock="b"),
        ],
    )
    report = analyse(trace(rows))
    summary = report.summary()
    assert report.headline == "2 GPUs were busy 100 % of 10.00 ms to 15.00 ms."
    assert report.verdict == (
        f"{report.headline} 2 devices were busy, on clocks that are not aligned: how far they overlapped is not known."
    )
    reason = "the hosts' clocks are not aligned"
    assert (summary["concurrency"], summary["concurrency_reason"]) == (None, reason)
    assert (summary["trace"]["window_ps"], summary["trace"]["window_reason"]) == (None, reason)
    assert [device["window_ps"] for device in summary["devices"]] == [10 * MS, 15 * MS]
    assert [(pair["overlap_ps"], pair["reason"]) for pair in summary["device_pairs"]] == [
        (None, "their hosts' clocks are not aligned")
    ]
    assert [table.title for section in report.overview for table in section.tables if table.brief] == [
        "Where the windows of 10.00 ms to 15.00 ms went"
    ]
