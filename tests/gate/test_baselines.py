"""Named baselines: what is saved, how large it is, and whether a trace is slower than it."""

import io
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

import tracekit
from tests import traces
from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit import Outcome, Rule, TracekitError, Unit
from tracekit.cli import main
from tracekit.gate.baselines import baselines, find, save

STEPPED = traces.path("stepped-cpu.xplane.pb.gz")


@pytest.fixture(scope="module")
def stepped():
    return tracekit.analyse(traces.trace("stepped-cpu.xplane.pb.gz"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stepped):
    directory = tmp_path_factory.mktemp("repository") / "baselines"
    save("main", [stepped, stepped], directory)
    return directory


def run(scale, seed, stalls=0):
    """A report of twelve rounds of a phase that take about `scale` µs each, `stalls` of them 400 µs longer."""
    walls = (np.random.default_rng(seed).normal(1, 0.01, 12) * scale * 10**6).astype(int)
    walls[3 : 3 + stalls] += 4 * 10**8
    starts = np.concatenate([[0], np.cumsum(walls + 10**5)[:-1]])
    rows = [("gpu:0", "compute", int(at), int(at + wall)) for at, wall in zip(starts, walls, strict=True)]
    marks = [("train", int(at), int(at + wall)) for at, wall in zip(starts, walls, strict=True)]
    return tracekit.analyse(make_trace(events(*rows), spans(*marks)))


def test_a_baseline_is_listed_with_what_it_holds(folder):
    (baseline,) = baselines(folder)
    assert (baseline.name, baseline.captures) == ("main", 2)
    assert baseline.text.startswith(f"main: 2 captures of {STEPPED}, ")
    assert baselines(folder / "none") == ()


def test_a_baseline_is_small_and_measures_what_its_report_does(folder, stepped):
    size = sum(file.stat().st_size for file in (folder / "main" / "1").rglob("*") if file.is_file())
    assert size < 500 * 1024
    loaded = tracekit.load(folder / "main" / "1")
    assert "This baseline does not hold the launch queues over time" in loaded.notes[-1]
    for name in ("idle", "exposed-collective", "step-time"):
        assert loaded.measure(name) == stepped.measure(name)


def test_a_baseline_of_the_same_name_is_replaced(tmp_path, stepped):
    save("main", [stepped, stepped], tmp_path)
    save("main", [stepped], tmp_path)
    assert [(each.name, each.captures) for each in baselines(tmp_path)] == [("main", 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["main"]


def test_a_baseline_lies_in_no_trace(tmp_path):
    run = tmp_path / "plugins" / "profile" / "r"
    run.mkdir(parents=True)
    shutil.copy(STEPPED, run)
    with pytest.raises(TracekitError, match="lies inside the trace"):
        save("main", [tmp_path], tmp_path / "baselines")
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_name_controls_the_terminal(tmp_path, stepped, monkeypatch, capsys, encoding):
    evil = replace(stepped, trace=replace(stepped.trace, source="t\x1b[31m\n\u202eé"))
    save("main", [evil], tmp_path / "b")
    for run in "12":
        evil.save(tmp_path / "runs" / f"r\x1b\n\u202eé{run}")
    for words in (["baseline", "list", "--baselines", str(tmp_path / "b")], ["history", str(tmp_path / "runs")]):
        monkeypatch.setattr(sys, "argv", ["tracekit", *words])
        monkeypatch.setattr(sys, "stdout", stdout := io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        with pytest.raises(SystemExit, match="0"):
            main()
        text = stdout.buffer.getvalue().decode(encoding)
        assert not {"\x1b", "\u202e"} & {*text}
        assert any(letters in text for letters in ("é", "\\xe9"))
        assert "\n\ufffd" not in text


def test_what_is_no_baseline_is_never_replaced(tmp_path, stepped):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("")
    with pytest.raises(tracekit.TracekitError, match="is there and is no baseline"):
        save("src", [stepped], tmp_path)
    with pytest.raises(tracekit.TracekitError, match="is no name for a baseline"):
        save("../src", [stepped], tmp_path)
    assert (tmp_path / "src" / "code.py").exists()


def test_an_unknown_baseline_names_those_there_are(folder, tmp_path):
    with pytest.raises(tracekit.TracekitError, match=r"holds no baseline 'man'\. There are main\."):
        find("man", folder)
    with pytest.raises(tracekit.TracekitError, match=r"There are none: tracekit baseline save NAME REPORT makes one\."):
        find("main", tmp_path)


@pytest.mark.parametrize(
    ("scale", "outcome", "code"), [(100, Outcome.HOLDS, 0), (130, Outcome.BROKEN, 3), (70, Outcome.HOLDS, 0)]
)
def test_three_captures_a_side_tell_whether_the_program_became_slower(tmp_path, scale, outcome, code):
    save("main", [run(100, seed) for seed in range(3)], tmp_path)
    for number in range(3):
        run(scale, 10 + number).save(tmp_path / "new" / str(number))
    result = tracekit.check(tmp_path / "new", baseline=find("main", tmp_path))
    assert ([each.outcome for each in result.results], result.exit_code) == ([outcome], code), result.results[0].text


@pytest.mark.parametrize(
    ("stalls", "outcome", "words"),
    [
        ((2, 2, 2), Outcome.BROKEN, " µs longer than the median on average, in 3 of 3 captures; none of A."),
        ((0, 1, 0), Outcome.HOLDS, " µs longer than the median, in 1 of 3 captures; none of A."),
    ],
)
def test_stalls_in_every_capture_break_the_gate_and_in_one_they_are_told(tmp_path, stalls, outcome, words):
    save("main", [run(100, seed) for seed in range(3)], tmp_path)
    change = [run(100, 10 + at, stalls=count) for at, count in enumerate(stalls)]
    (result,) = tracekit.check(change, baseline=find("main", tmp_path)).results
    assert result.outcome == outcome, result.text
    assert words in result.text
    assert "o difference larger" not in result.text


def test_one_capture_a_side_is_inconclusive_without_a_floor(tmp_path):
    save("main", [run(100, 1)], tmp_path)
    slower, rule = run(130, 2), Rule("busy", 0.5, None, Unit.RATIO)
    result = tracekit.check(slower, [rule], baseline=find("main", tmp_path))
    assert [str(each.outcome) for each in result.results] == ["holds", "inconclusive"]
    assert result.exit_code == 5
    assert tracekit.check(slower, [rule], baseline=find("main", tmp_path), floor=0.02).exit_code == 3
