"""The generator writes what it says, and the benchmark runs end to end; how fast is no matter of a test."""

import gc
import importlib
import importlib.util
import io
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from jax.profiler import ProfileData
from pandas.testing import assert_frame_equal

import tracekit
from tests.graph_traces import trace
from tests.known_path import US, known_trace
from tracekit.vocabulary import kinds

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def run(script: str, out: Path, *options: str) -> tuple[dict, str]:
    """What the benchmark `script` wrote to `out` in one round, and what it printed."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, BENCHMARKS / script, "--rounds", "1", "--json", out, *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(out.read_text()), process.stdout


@pytest.fixture
def run_here(monkeypatch) -> Callable[..., tuple[dict, str]]:
    """As `run`, in this process, which has imported everything; XProf's peers still need one without pandas."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    figures = importlib.import_module("fresh").figures

    def main_of(script: str | Path, *words: str | Path) -> str:
        with monkeypatch.context() as patch, redirect_stdout(io.StringIO()) as out:
            patch.setattr(sys, "argv", [str(script), *map(str, words)])
            assert not importlib.import_module(Path(script).stem).main()
        return out.getvalue()

    def figures_here(command, numba_cache=None):
        python, script, *words = command
        assert python == sys.executable
        if any("XProf" in str(word) for word in words):
            return figures(command, numba_cache)
        try:
            return json.loads(main_of(script, *words).splitlines()[-1])
        finally:
            # What a peer turned off for its process.
            gc.enable()
            logging.disable(logging.NOTSET)

    def run_script(script: str, out: Path, *options: str) -> tuple[dict, str]:
        monkeypatch.setattr(importlib.import_module(Path(script).stem), "figures", figures_here)
        output = main_of(script, "--rounds", "1", "--json", out, *options)
        return json.loads(out.read_text()), output

    return run_script


@pytest.fixture
def make_xspace(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("make_xspace")


def _facts(line, events):
    """Name, start, duration and stats of the line's first events, as ProfileData should give them."""
    return [
        (
            line.names[line.name[at]],
            line.timestamp_ns + line.offset_ps[at] / 1000,
            line.duration_ps[at] / 1000,
            {
                stat.name: stat.texts[stat.values[at]] if stat.texts else stat.values[at]
                for stat in line.stats
                if stat.has is None or stat.has[at]
            },
        )
        for at in range(min(events, len(line.name)))
    ]


# jax 0.12 warns while it makes its iterators, in C++ that aborts the interpreter if the warning is an error.
@pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute:DeprecationWarning")
def test_another_reader_finds_every_event_and_stat_that_the_generator_meant(make_xspace, tmp_path):
    path = tmp_path / "host.xplane.pb"
    make_xspace.write(path, 2_000)
    meant = make_xspace.planes(2_000)
    planes = list(ProfileData.from_file(str(path)).planes)

    assert [plane.name for plane in planes] == [plane.name for plane in meant]
    assert sum(len(line.name) for plane in meant for line in plane.lines) == 2_000
    for plane, expected in zip(planes, meant, strict=True):
        assert dict(plane.stats) == {name: value for name, _, value in expected.stats}
        lines = [(line.name, list(line.events)) for line in plane.lines]
        assert [(name, len(events)) for name, events in lines] == [
            (line.title, len(line.name)) for line in expected.lines
        ]
        for (_, events), line in zip(lines, expected.lines, strict=True):
            assert [(at.name, at.start_ns, at.duration_ns, dict(at.stats)) for at in events] == _facts(line, 2_000)


def test_the_generated_trace_has_the_lines_of_a_gpu_trace(make_xspace):
    planes = {plane.name: [line.title for line in plane.lines] for plane in make_xspace.planes(2_000)}
    gpu = [
        "Stream #13(Compute)",
        "Stream #14(MemcpyH2D)",
        "Stream #15(MemcpyD2H)",
        "Stream #24(Compute)",
        "Steps",
        "XLA Modules",
        "XLA Ops",
    ]
    assert planes == {
        "/host:metadata": [],
        **{f"/device:GPU:{at}": gpu for at in range(4)},
        "/host:CPU": [*(f"Host Threads/{3_954_035 + at}" for at in range(4)), "python"],
        "Task Environment": [],
    }


def test_the_same_events_and_seed_give_the_same_bytes_of_about_the_size_of_real_ones(make_xspace, tmp_path):
    first, second, other = (tmp_path / name for name in ("first", "second", "other"))
    size = make_xspace.write(first, 50_000)
    make_xspace.write(second, 50_000)
    make_xspace.write(other, 50_000, seed=1)
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()
    assert size == first.stat().st_size
    assert 75 < size / 50_000 < 95


def test_a_summary_of_eight_gpus_takes_three_bytes_an_event(make_xspace, tmp_path):
    make_xspace.write(tmp_path / "host.xplane.pb", 200_000, kind="eight")
    summary = tracekit.summarise(tmp_path / "host.xplane.pb", tmp_path / "host.tracekit.zip")
    assert summary.stat().st_size < 38_000 + 2.96 * 200_000  # 38 KB whatever the events: 2.99 MB of a million


@pytest.mark.parametrize("events", [500, 501, 777, 12_345])
@pytest.mark.parametrize("kind", ["four", "eight"])
def test_any_number_of_events_is_met_exactly(make_xspace, events, kind):
    planes = make_xspace.planes(events, kind=make_xspace.KINDS[kind])
    assert sum(len(line.name) for plane in planes for line in plane.lines) == events


def test_on_eight_gpus_every_plane_has_300_names_and_the_host_half_of_the_events(make_xspace):
    planes = make_xspace.planes(100_000, kind=make_xspace.KINDS["eight"])
    gpus = [plane for plane in planes if plane.name.startswith("/device:GPU:")]
    names = [[line.names[at] for line in gpu.lines for at in set(line.name.tolist())] for gpu in gpus]
    assert [len(set(of_gpu)) for of_gpu in names] == [303] * 8  # and those of the all-reduce and of copies
    assert all(line.title.startswith("Stream #") for gpu in gpus for line in gpu.lines)
    on_gpus = sum(len(line.name) for gpu in gpus for line in gpu.lines)
    assert 0.47 < on_gpus / 100_000 < 0.5


def test_a_name_that_eight_gpus_have_is_judged_once(make_xspace, tmp_path, monkeypatch):
    asked = []
    classify = kinds.classify

    def counted(name, **evidence):
        asked.append(name)
        return classify(name, **evidence)

    monkeypatch.setattr(kinds, "classify", counted)
    make_xspace.write(tmp_path / "host.xplane.pb", 20_000, kind="eight")
    trace = tracekit.read(tmp_path / "host.xplane.pb")
    times = Counter(asked)
    assert set(times) == set(trace.events["name"])
    assert set(times.values()) == {1}


def test_too_few_events_are_refused(make_xspace):
    with pytest.raises(ValueError, match="499 events are too few"):
        make_xspace.planes(499)


def test_the_benchmark_measures_every_reader_on_the_same_events(run_here, tmp_path):
    result, output = run_here("read_xspace.py", tmp_path / "result.json", "--events", "2000")
    skipped = {name for name, peer in result["peers"].items() if "skipped" in peer}
    assert skipped == (
        set() if importlib.util.find_spec("xprof") else {name for name in result["peers"] if "XProf" in name}
    )
    assert not [name for name, peer in result["peers"].items() if "failed" in peer]
    complete = [name for name in result["peers"] if "XProf" not in name and name != "tracekit, Trace"]
    assert {name: result["peers"][name]["events"] for name in complete} == dict.fromkeys(complete, 2_000)
    assert all(peer["seconds"] > 0 for name, peer in result["peers"].items() if name not in skipped)
    assert {goal["goal"] for goal in result["goals"]} == ({20} if skipped else {20, 60})
    assert all(name in output for name in result["peers"])


@pytest.fixture
def make_kineto(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("make_kineto")


@pytest.mark.parametrize("events", [100, 1_234])
def test_a_generated_kineto_trace_has_the_events_that_it_says_and_every_seed_its_own(make_kineto, tmp_path, events):
    first, second, other = (tmp_path / f"{name}.json" for name in ("first", "second", "other"))
    size = make_kineto.write(first, events)
    make_kineto.write(second, events)
    make_kineto.write(other, events, seed=1)
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()
    assert size == first.stat().st_size
    events_written = json.loads(first.read_text())["traceEvents"]
    assert len(events_written) == events
    trace = tracekit.read(first)
    work = [event for event in events_written if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert (len(trace.events), trace.notes) == (len(work), ())


def test_too_few_events_for_a_kineto_trace_are_refused(make_kineto, tmp_path):
    with pytest.raises(ValueError, match="99 events are too few"):
        make_kineto.write(tmp_path / "t.json", 99)


def test_the_chrome_benchmark_measures_every_reader_on_the_same_events(run_here, tmp_path):
    result, _ = run_here("read_chrome.py", tmp_path / "result.json", "--events", "2000")
    peers = result["peers"]
    assert not [name for name, peer in peers.items() if "failed" in peer]
    assert "skipped" in peers["HTA, TraceAnalysis"]
    counts = {name: peer["events"] for name, peer in peers.items() if "skipped" not in peer}
    rows = counts.pop("tracekit, Trace")
    assert set(counts.values()) == {2_000}
    assert 0 < rows < 2_000
    assert {"tracekit, columns", "msgspec, all objects", "json, all objects"} <= set(counts)


def test_in_a_generated_kineto_trace_streams_run_in_order_and_nothing_before_its_launch(make_kineto, tmp_path):
    path = tmp_path / "rank.json"
    make_kineto.write(path, 20_000)
    trace = tracekit.read(path)
    rows = trace.events.sort_values(["lane", "start_ps"])
    same = rows["lane"].astype(str).shift() == rows["lane"].astype(str)
    assert (rows["start_ps"] >= rows["end_ps"].shift())[same].all()
    call_start_ps = trace.launches.drop_duplicates("correlation_id").set_index("correlation_id")["start_ps"]
    assert (trace.events["start_ps"] > trace.events["correlation_id"].map(call_start_ps)).all()


def test_the_benchmark_of_the_analysis_asks_every_peer_that_is_here(run_here, tmp_path):
    result, output = run_here("analyse.py", tmp_path / "result.json", "--intervals", "500", "--kineto", "300")
    peers = result["peers"]
    skipped = {name for name, peer in peers.items() if "skipped" in peer}
    here = set() if importlib.util.find_spec("xprof") else {"XProf, XSpace"}
    assert skipped == {"HTA, Kineto", "TraceLens, Kineto"} | here
    assert not [name for name, peer in peers.items() if "failed" in peer]
    assert 200 < peers["tracekit, XSpace"]["intervals"] < 1000
    assert 250 < peers["tracekit, Kineto"]["intervals"] < 350
    for kind in ("XSpace", "Kineto"):
        ours = peers[f"tracekit, {kind}"]
        assert ours["again_s"] > 0
        assert 0 < ours["loaded"] <= ours["peak"]
        expected = {
            "overlap.breakdown",
            "classification.known_by",
            "idle.idle",
            "critical_path/critical_path.critical_path",
        }
        assert {f"analysis/{part}" for part in expected} <= set(ours["parts"])
    assert all(name in output for name in peers)


def test_the_benchmark_of_what_if_runs_the_program_with_it_and_the_one_without(compiled, tmp_path, monkeypatch):
    for name, value in compiled.items():
        monkeypatch.setenv(name, value)
    result, output = run(
        "what_if.py",
        tmp_path / "result.json",
        *("--only", "collectives", "--steps", "4", "--width", "64", "--rows", "16"),
    )
    ((what, (round_,)),) = result["pairs"].items()
    assert what == "collectives"
    # Of steps as small as these the report may refuse it.
    if round_["refused"]:
        assert round_["predicted_s"] is round_["error"] is None
        assert "error of the prediction   refused" in output
    else:
        assert 0 < round_["predicted_s"] <= round_["with_s"]
        assert round_["error"] == pytest.approx(round_["predicted_s"] / round_["without_s"] - 1)
    assert f"refused by the report in {round_['refused']:.0f} of 1 rounds" in output


# Of the path of known_trace, from its first kernel at 2 us to 87, the all-reduce is 10 us. Where a kernel begins 20 us
# after the other and nothing tells why, the report refuses.
@pytest.mark.parametrize(
    ("with_it", "with_us", "predicted_us", "error"),
    [
        (known_trace(), 85, 75, 75 / 60 - 1),
        (
            trace([("gpu:0", "s", "collective", 0, 10 * US), ("gpu:1", "s", "compute", 30 * US, 40 * US)]),
            40,
            None,
            None,
        ),
    ],
)
def test_the_benchmark_of_what_if_predicts_from_the_trace_with_it_the_step_without(
    with_it, with_us, predicted_us, error, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    what_if = importlib.import_module("what_if")
    without = trace([("gpu:0", "s", "compute", 0, 60 * US)])
    monkeypatch.setattr(what_if, "capture", lambda program, more, path: None)
    monkeypatch.setattr(what_if.tracekit, "read", lambda path: with_it if path.name.endswith("-with") else without)
    figures = what_if.one_round(tmp_path, 0, list(what_if.PAIRS[:1]), [])["collectives"]
    assert (figures["with_s"], figures["without_s"]) == pytest.approx((with_us / 1e6, 60 / 1e6))
    assert figures["predicted_s"] == (None if predicted_us is None else pytest.approx(predicted_us / 1e6))
    assert figures["error"] == (None if error is None else pytest.approx(error))
    assert figures["refused"] == (predicted_us is None)


def test_the_benchmark_of_reasons_holds_answers_against_the_truth(tmp_path):
    process = subprocess.run(
        [sys.executable, BENCHMARKS / "reasons.py", "--jobs", "1", "--seed", "3", "--json", tmp_path / "result.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    for trace_format, figures in json.loads((tmp_path / "result.json").read_text()).items():
        assert trace_format in process.stdout
        assert figures["jobs"] == 1
        assert 0 <= figures["composition"]["worst"] < 1


def test_the_benchmark_of_exports_writes_the_same_trace_with_every_peer(run_here, tmp_path):
    result, output = run_here("export.py", tmp_path / "result.json", "--intervals", "300", "--only", "Parquet")
    assert set(result["peers"]) == {"tracekit, Parquet", "pandas.to_parquet"}
    for name, peer in result["peers"].items():
        assert peer["write_s"] > 0
        assert peer["bytes"] > 10_000
        assert name in output


def test_the_benchmark_of_reports_gives_the_cost_of_a_row_beyond_that_of_starting(tmp_path):
    result, output = run("report.py", tmp_path / "result.json", "--events", "2000")
    smallest, size = result["sizes"]
    assert (smallest["events"], size["events"]) == (500, 2_000)
    assert 0 < smallest["rows"] < size["rows"] < 2_000
    for its in (smallest, size):
        assert len(its["cpu_s"]) == len(its["wall_s"]) == 1
        assert its["cpu_s"][0] > 0.1
        assert its["peak_bytes"][0] > 50e6
    cost_us = (size["cpu_s"][0] - smallest["cpu_s"][0]) / size["rows"] * 1e6
    further_us = (size["cpu_s"][0] - smallest["cpu_s"][0]) / (size["rows"] - smallest["rows"]) * 1e6
    assert output.splitlines()[-2].split()[-2:] == [f"{cost_us:.2f}", f"{further_us:.2f}"]


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("bench")


def test_the_tables_of_the_pages_are_those_of_the_results(bench):
    """Else: python benchmarks/bench.py --tables."""
    blocks = bench.tables()
    for path in bench.PAGES:
        page = path.read_text("utf-8")
        assert bench.filled(page, blocks) == page, path


def test_every_benchmark_has_its_place_on_one_page(bench):
    pages = "".join(path.read_text("utf-8") for path in bench.PAGES)
    places = re.findall(r"<!-- bench (\w+) -->", pages)
    assert sorted(places) == sorted([*(benchmark.name for benchmark in bench.BENCHMARKS), "headline"])
    assert pages.count("<!-- /bench -->") == len(places)


def test_every_script_is_run_with_the_others_or_says_why_not(bench):
    suite = importlib.import_module("suite")
    scripts = {command.split()[0] for its in bench.BENCHMARKS for command in its.commands}
    assert scripts == {command.split()[0] for its in bench.BENCHMARKS for command in its.quick}
    here = {path.name for path in BENCHMARKS.iterdir() if path.suffix == ".py"} | {"gpu_day"}
    assert sorted([*scripts, *suite.BY_HAND, *suite.PARTS]) == sorted(here)


def test_every_command_of_a_benchmark_has_options_that_its_script_knows(bench):
    for benchmark in bench.BENCHMARKS:
        for command in (*benchmark.commands, *benchmark.quick):
            script, *words = shlex.split(command)
            text = (BENCHMARKS / script).read_text("utf-8")
            for option in [word for word in words if word.startswith("--")] + [f"--{it}" for it in benchmark.peers]:
                assert f'"{option}"' in text, command
            assert '"--json"' in text


# Of the peer that is not there any more, two rounds on another machine are kept.
def test_a_peer_that_is_not_installed_keeps_what_was_measured_of_it_last(bench):
    results = bench.result_files
    old = results.merged(
        None, results.Run("2026-01-01", "old", 2), {"ours": {"s": [2.0, 4.0]}, "HTA": {"s": [8.0, 12.0]}}
    )
    both = results.merged(
        old, results.Run("2026-02-02", "new", 1), {"ours": {"s": [1.0]}, "HTA": "not here", "XProf": "not here"}
    )
    assert [run.date for run in both.runs] == ["2026-01-01", "2026-02-02"]
    assert both.rows == {
        "ours": results.Row(1, {"s": [1.0]}),
        "HTA": results.Row(0, {"s": [8.0, 12.0]}, "not here"),
    }
    assert both.ratios("HTA", "ours", "s") == [10.0]  # of medians: they share no round
    larger = results.merged(both, results.Run("2026-02-03", "new", 1, {"events": 9}), {"HTA": "not here"})
    assert larger.rows == {}  # it was measured on another number of events
    again = results.merged(both, results.Run("2026-03-03", "new", 1), {"ours": {"s": [1.5]}, "HTA": {"s": [6.0]}})
    assert [run.date for run in again.runs] == ["2026-03-03"]
    assert again.ratios("HTA", "ours", "s") == [4.0]


def test_ratios_are_taken_round_by_round_and_shown_with_their_range(bench):
    suite, results = importlib.import_module("suite"), bench.result_files
    found = results.merged(
        None, results.Run("2026-01-01", "here", 3), {"ours": {"s": [1.0, 2.0, 1.0]}, "peer": {"s": [3.0, 4.0, 5.0]}}
    )
    assert suite.table(
        found,
        {"ours": "ours", "peer": "a peer"},
        [suite.Column("s", "s"), suite.Ratio("times", "s", ("ours",))],
        "tool",
    ).splitlines() == [
        "| tool | s | times |",
        "|---|---|---|",
        "| ours | 1.00 (1.00 to 2.00) | 1 |",
        "| a peer | 4.00 (3.00 to 5.00) | 3.0 (2.0 to 5.0) |",
    ]


def test_results_are_the_same_when_they_are_written_and_read_again(bench, tmp_path):
    results = bench.result_files
    found = results.merged(None, results.Run("2026-01-01", "here", 1, {"events": 5}), {"ours": {"s": [0.125]}})
    results.write("ours", found, tmp_path)
    assert results.read("ours", tmp_path) == found
    assert results.read("theirs", tmp_path) is None


def test_a_benchmark_that_fails_says_why_and_leaves_what_was_measured(bench, capsys, monkeypatch):
    suite = importlib.import_module("suite")
    broken = suite.Benchmark("broken", "Does it run?", ("report.py --rounds 0",), ("report.py --rounds 0",), *[len] * 3)
    monkeypatch.setattr(bench, "BENCHMARKS", (broken,))
    monkeypatch.setattr(sys, "argv", ["bench.py", "--quick"])
    assert bench.main() == 1
    assert "report.py: error: --rounds must be at least 1" in capsys.readouterr().err


def test_a_summary_of_a_made_fleet_holds_what_reading_its_file_gives(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    make = importlib.import_module("make_fleet")
    made = make.with_faults(4, steps=2, kernels=6)
    times = make.Times(made)
    summaries = make.Summaries(made, times, tmp_path)
    file = make.write_xspace(made, times, 3, tmp_path)
    read, summarised = tracekit.read(file), summaries.of(3).trace
    for name in ("events", "spans", "launches", "devices", "ops"):
        assert_frame_equal(getattr(read, name), getattr(summarised, name), check_categorical=False)
    assert read.hosts["origin_ns"].equals(summarised.hosts["origin_ns"])
