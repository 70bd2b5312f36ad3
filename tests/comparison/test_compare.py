"""What a comparison says: of real pairs whose truth was found without tracekit, and of hand-made runs."""

import json
import shutil
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from matplotlib.text import Text
from rich.console import Console

import tracekit
from tests import traces
from tests.frames import events, spans, trace
from tests.stepped import annotations
from tests.traces import SIMULATED
from tracekit.analysis.idle import Cause
from tracekit.analysis.top_ops import OPERATION_COLUMNS
from tracekit.columns import frame
from tracekit.comparison import figure as picture
from tracekit.comparison import words
from tracekit.comparison.comparison import shares_of
from tracekit.comparison.faces import markdown, page, show, write_comparison
from tracekit.comparison.figure import steps_of
from tracekit.comparison.model import CELL_COLUMNS, IDLE, PART_COLUMNS
from tracekit.comparison.operations import FAMILY, NAME, OPERATOR, pair
from tracekit.comparison.sides import captures
from tracekit.comparison.verdict import Change
from tracekit.errors import TracekitError

PAIRS = SIMULATED / "compare"
needs_pairs = pytest.mark.skipif(not PAIRS.is_dir(), reason="the folder shared/cases/compare is not here")
MS = 10**9
CELLS = {"wall": "wall", "busy": "busy", "compute": "compute", "mem": "exposed copies", "idle": "idle"}


def run(steps, length=10 * MS, work=7 * MS, devices=1, name="op"):
    """A trace of steps of one length in ps, in each of which every device computes for `work`."""
    rows = [
        (f"gpu:{device}", "compute", step * length + MS, step * length + MS + work + step % 3 * MS // 100, name)
        for step in range(steps)
        for device in range(devices)
    ]
    marks = [("train", step, step * length, (step + 1) * length) for step in range(steps)]
    return trace(events(*rows), annotations(*marks))


def text(comparison):
    """All that a comparison says, in sentences."""
    return markdown(comparison)


@pytest.fixture(scope="module")
def truth():
    return json.loads((PAIRS / "truth.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def workers():
    return tracekit.compare(*(PAIRS / f"kineto_resnet50_workers{n}.json.gz" for n in (0, 4)))


@pytest.fixture(scope="module")
def vendors():
    return tracekit.compare(*(PAIRS / f"tl_qwen05_{name}.json.gz" for name in ("h100", "mi300")))


@needs_pairs
def test_more_workers_of_a_loader_shorten_the_step_by_idle_time_alone(workers, truth):
    expected = truth["kineto_resnet50 workers0 -> workers4"]
    wall = expected["wall_median"]
    main = workers.main
    assert (main.kind, main.units) == ("step", (6, 6))
    assert (main.verdict.a_ps, main.verdict.b_ps) == (wall["a"] * 10**6, wall["b"] * 10**6)
    assert main.verdict.outcome == Change.NOT_TESTED
    assert main.verdict.within
    bounds = [100 * (bound - 1) for bound in (main.verdict.low, main.verdict.high)]
    assert bounds == pytest.approx([100 * bound / wall["a"] for bound in wall["ci95_diff"]], abs=3)
    for theirs, ours in CELLS.items():
        cell, figures = main.cell(ours), expected["cells"][theirs]
        for key, sides in (("a_ps", "a"), ("b_ps", "b"), ("diff_ps", "diff")):
            assert cell[key] / 10**6 == pytest.approx(figures[sides], abs=0.01), (ours, key)
        spread = max(abs(figures["ci95_diff"][1] - figures["ci95_diff"][0]), 50)
        assert cell["low_ps"] / 10**6 == pytest.approx(figures["ci95_diff"][0], abs=0.15 * spread)
        assert cell["high_ps"] / 10**6 == pytest.approx(figures["ci95_diff"][1], abs=0.15 * spread)
    idle = main.waterfall.set_index("part")[["a_ps", "b_ps"]] / MS
    assert idle.loc["idle: input pipeline"].tolist() == pytest.approx([47, 0], abs=0.1)
    assert -np.subtract(*idle.loc["idle: host-bound"]) == pytest.approx(-43, abs=0.5)
    said = text(workers)
    assert "117.8 ms instead of 211.8 ms, -44.4 %" in said
    assert "idle -90.47 ms (-84.6 %)" in said
    assert "busy +2.89 ms (+2.8 %), compute +1.91 ms (+1.9 %)" in said
    assert "no verdict on the change" in workers.headline
    assert "collective" not in said


@needs_pairs
def test_kernels_that_were_chosen_anew_are_told_by_name(workers, truth):
    expected = truth["kineto_resnet50 workers0 -> workers4"]
    main = workers.main
    table = main.operations.table.set_index("operation")
    assert main.operations.paired_by == NAME
    for its in (*expected["ops_shrunk"], *expected["ops_grown"]):
        # An nsys name may be demangled otherwise: arguments differ.
        (row,) = [row for name, row in table.iterrows() if name == its["op"]] or [None]
        if row is not None:
            assert row["diff_ps"] / 10**6 == pytest.approx(its["diff"], abs=0.01)
            assert (row["a_n"], row["b_n"]) == pytest.approx((its["calls_a"], its["calls_b"]))
    assert (table["state"] == "came").sum() == len(expected["ops_only_b"])
    assert (table["state"] == "went").sum() == len(expected["ops_only_a"])


@needs_pairs
def test_two_vendors_are_paired_by_operator_and_nothing_is_said_of_noise(vendors, truth):
    expected = truth["qwen05 h100 -> mi300"]
    main = vendors.main
    assert main.operations.paired_by == OPERATOR
    assert main.verdict.low is None
    for theirs, ours in {
        "span": "wall",
        "busy": "busy",
        "compute": "compute",
        "mem": "exposed copies",
        "idle": "idle",
    }.items():
        cell, figures = main.cell(ours), expected["cells"][theirs]
        assert (cell["a_ps"] / 10**6, cell["b_ps"] / 10**6) == pytest.approx((figures["a"], figures["b"]), abs=1e-3)
    table = main.operations.table.set_index("operation")
    for its in (*expected["ops_shrunk"], *expected["ops_grown"]):
        row = table.loc[its["op"]]
        assert row["diff_ps"] / 10**6 == pytest.approx(its["diff"], abs=1e-3), its["op"]
        assert (row["a_n"], row["b_n"]) == (its["calls_a"], its["calls_b"])
    said = text(vendors)
    for figure in ("49.65", "47.09", "memsets"):  # the whole file holds the tail of another iteration
        assert figure not in said
    assert "too few steps for an interval, and nothing is said of noise" in vendors.headline
    assert "33 of 45 names are on one side only" in said


@needs_pairs
@pytest.mark.parametrize("name", ["kineto_resnet50_workers0", "kineto_resnet50_workers4"])
def test_halves_of_one_trace_have_no_certain_difference(name):
    whole = tracekit.timeline_of(PAIRS / f"{name}.json.gz")
    table = whole.steps.table
    middle = int(table["start_ps"].iloc[len(table) // 2]) - int(whole.rows.start.min())
    halves = [tracekit.analyse(whole, **{edge: middle}) for edge in ("end", "start")]
    its = tracekit.compare(*halves)
    assert its.verdict.outcome == Change.NOT_TESTED
    assert "parts of one trace" in its.cautions[0].sentence
    if its.verdict.low is not None:
        assert its.verdict.low <= 1 <= its.verdict.high


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("generated/gpu.xplane.pb", "generated/tpu.xplane.pb"),
        ("generated/gpu.sqlite", "generated/gpu.trace.json.gz"),
        ("two-cpu-devices-jax0.10.2.xplane.pb", "two-cpu-devices-jax0.12.0.xplane.pb"),
        ("report-schema-1/training", "report-schema-1/concurrent"),
    ],
)
def test_traces_of_all_formats_can_be_compared_and_their_parts_sum(a, b):
    its = tracekit.compare(traces.DATA / a, traces.DATA / b)
    for scope in its.scopes:
        wall = scope.cell("wall")
        assert scope.waterfall["diff_ps"].sum() == wall["diff_ps"]
        rows = scope.operations.table
        assert (rows["b_ps"] - rows["a_ps"] == rows["diff_ps"]).all()
    assert markdown(its).startswith(f"# {its.headline}")
    assert (a.startswith("report")) == any("holds no operations" in caution.sentence for caution in its.cautions)


def test_a_trace_against_itself_is_said_to_be_the_same():
    one = traces.trace("stepped-cpu.xplane.pb.gz")
    its = tracekit.compare(one, one)
    assert its.is_same
    assert its.headline == "The same trace is on both sides: there is nothing to compare."
    assert (its.main.waterfall["diff_ps"] == 0).all()
    text = StringIO()
    show(its, Console(file=text, width=100), full=True)
    assert text.getvalue().splitlines()[1:] == ["A: stepped-cpu", "B: stepped-cpu", ""]  # and nothing of a difference
    assert "|" not in markdown(its)
    assert "<table" not in page(its)


def test_runs_of_one_directory_that_are_named_one_by_one_are_told_apart(tmp_path):
    for name in ("first", "second"):
        run = tmp_path / "log" / "plugins" / "profile" / name
        run.mkdir(parents=True)
        shutil.copy(traces.path("view-cpu.xplane.pb"), run / "host.xplane.pb")
    paths = [tmp_path / "log" / "plugins" / "profile" / name for name in ("first", "second")]
    assert [capture.label for path in paths for capture in captures(path)] == ["log/first", "log/second"]


def test_a_trace_is_said_to_be_the_same_where_a_saved_report_holds_no_operations():
    one = tracekit.analyse(traces.trace("stepped-cpu.xplane.pb.gz"))
    old = replace(one, operations=one.operations.iloc[:0])
    assert tracekit.compare(old, one).is_same
    assert tracekit.compare(old, old).is_same
    other = replace(old, explanation=replace(old.explanation, top_ops=tracekit.analyse(run(3)).explanation.top_ops))
    assert not tracekit.compare(other, one).is_same


def test_steps_are_compared_where_windows_hold_different_amounts_of_work():
    its = tracekit.compare(run(6), run(12, length=9 * MS))
    assert its.main.kind == "step"
    assert its.main.units == (6, 12)
    assert its.main.cell("wall")["b_ps"] == 9 * MS
    whole = its.scope("whole")
    assert whole.unit == "step"
    assert whole.units == (6, 12)
    assert "A has 6 steps and B 12" in whole.notes[0]
    assert its.scope("whole").verdict is None


def test_the_longest_name_of_a_part_stands_on_the_picture(monkeypatch):
    its = tracekit.compare(run(6), run(6, length=20 * MS))
    name = f"{IDLE}{max(Cause, key=len)}"
    monkeypatch.setattr(picture, "steps_of", lambda scope: [("A", 0, 10), (name, 10, 20), ("B", 0, 20)])
    drawn = picture.figure(its)
    drawn.draw_without_rendering()
    (shown,) = (text for text in drawn.findobj(Text) if text.get_text() == name)
    assert shown.get_window_extent().x0 > 0


def test_the_waterfall_sums_to_the_difference_exactly():
    its = tracekit.compare(run(7, work=7_000_000_001), run(5, length=9_000_000_007, work=6_999_999_998), floor=0.01)
    wall = its.main.cell("wall")
    assert its.main.waterfall["diff_ps"].sum() == wall["diff_ps"] == wall["b_ps"] - wall["a_ps"] != 0
    assert its.verdict.outcome == Change.FASTER
    bars = steps_of(its.main)
    assert bars[0][2] == wall["a_ps"]
    assert bars[-1][2] == bars[-2][2] == wall["b_ps"]


@pytest.mark.parametrize(
    ("totals", "count"), [([10, 10, 11], 3), ([1, 1, 1], 2), ([0, 5], 7), ([], 1), ([2**70, 1], 3)]
)
def test_shares_are_rounded_so_that_they_sum(totals, count):
    shares = shares_of(totals, count)
    assert abs(sum(shares) - sum(totals) / count) <= max(0.5, sum(totals) / count * 1e-15)
    assert all(abs(share - total / count) <= max(1, total * 1e-15) for share, total in zip(shares, totals, strict=True))


def test_three_captures_a_side_give_a_verdict_and_one_order_is_not_every_order():
    def side(*lengths):
        return [run(6, length=length * MS // 100) for length in lengths]

    its = tracekit.compare(side(1000, 1005, 998), side(900, 903, 899))
    assert its.verdict.outcome == Change.FASTER
    assert its.verdict.captures == (3, 3)
    assert its.headline.startswith("B is faster than A: the median step takes 9.01 ms instead of 10.01 ms, -10.0 %")
    same = tracekit.compare(side(1000, 1005, 998), side(1001, 1004, 999))
    assert same.headline.startswith("No difference larger than")


def stalling(seed, *stalled, steps=20):
    """A capture of steps of about 10 ms in which the device computes for 7 ms; the `stalled` ones take 40 ms longer."""
    noise = np.random.default_rng(seed).normal(0, 0.002, steps)
    lengths = np.round((1 + noise - noise.mean()) * 10 * MS).astype(int)
    lengths[[*stalled]] = 50 * MS
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = [("gpu:0", "compute", int(at) + MS, int(at) + 8 * MS, "op") for at in starts[:-1]]
    marks = [("train", step, int(starts[step]), int(starts[step + 1])) for step in range(steps)]
    return tracekit.analyse(trace(events(*rows), annotations(*marks)))


def stalling_side(first_seed, *counts):
    return [stalling(first_seed + at, *range(4, 4 + 4 * count, 4)) for at, count in enumerate(counts)]


def test_a_stall_in_every_capture_is_slower_though_the_median_step_is_alike():
    its = tracekit.compare(stalling_side(0, 0, 0, 0), stalling_side(10, 2, 2, 2))
    assert its.headline.startswith("B is slower than A: the mean step takes 14.0")
    assert " +40.0 % (98 % interval " in its.headline
    assert ", while the median step is alike: 10.0" in its.headline
    assert "No difference" not in text(its)
    assert "* 6 of 60 steps of B take " in text(its)
    assert " ms longer than the median on average, in 3 of 3 captures; none of A." in text(its)
    plain = its.summary()["scopes"][0]["verdict"]
    assert (plain["outcome"], plain["of_typical"], plain["mean"]["is_proven"]) == ("slower", "no difference", True)
    assert plain["mean"]["b_ps"] == its.main.cell("wall")["b_ps"]
    assert plain["mean"]["long"][1]["number"] == 6


def test_stalls_that_are_gone_are_faster():
    its = tracekit.compare(stalling_side(0, 2, 2, 2), stalling_side(10, 0, 0, 0))
    assert its.headline.startswith("B is faster than A: the mean step takes 10.0")
    assert "* 6 of 60 steps of A take " in text(its)
    assert " ms longer than the median on average, in 3 of 3 captures; none of B." in text(its)


def test_stalls_of_any_number_in_all_captures_of_one_side_alone_are_told_by_their_chance():
    its = tracekit.compare(stalling_side(0, 0, 0, 0), stalling_side(10, 1, 1, 4))
    assert its.verdict.outcome == Change.SLOWER
    assert (
        "has steps of twice the length of its others and none of the other side: chance gives that in 3.1 % of "
        in text(its)
    )


def test_a_stall_in_one_capture_of_three_is_told_and_no_difference_proven():
    its = tracekit.compare(stalling_side(0, 0, 0, 0), stalling_side(10, 0, 2, 0))
    assert its.verdict.outcome == Change.NO_DIFFERENCE
    assert its.headline.startswith("The median step is alike: 10.0")
    assert its.headline.endswith(" +13.3 %, which the captures do not prove.")
    assert "2 of 60 steps of B take 40.00 ms longer than the median on average, in 1 of 3 captures; none of A." in text(
        its
    )
    assert "That does not prove a change of the mean: its 98 % interval between captures is -" in text(its)


def test_of_one_capture_a_side_a_mean_that_differs_is_told_and_not_judged():
    a, b = stalling(0), stalling(1, 3, 8)
    alone = tracekit.compare(a, b)
    assert alone.headline.startswith("Within these two runs, the median step takes 10.0")
    assert alone.headline.endswith(
        "; the mean step takes 14.00 ms instead of 10.00 ms, +40.0 %, which one capture a side cannot judge."
    )
    stated = tracekit.compare(a, b, floor=0.02)
    assert stated.verdict.outcome == Change.INCONCLUSIVE
    assert stated.headline.startswith("The median step is alike: ")
    assert "One capture a side cannot tell what the change did to the mean from what befell one run." in text(stated)


def test_a_median_and_a_mean_that_go_apart_are_both_told():
    fast = [run(20, length=9 * MS + at * MS // 100) for at in range(3)]
    slow = stalling_side(10, 2, 2, 2)
    assert (
        " than A in the median step, but slower in the mean: "
        in tracekit.compare([run(20, length=11 * MS + at * MS // 100) for at in range(3)], slow).headline
    )
    its = tracekit.compare(slow, fast)
    assert its.headline.startswith("B is faster than A: the median step takes")
    assert "; the mean step takes" in its.headline


@pytest.mark.parametrize(
    ("causes", "sentences"),
    [
        (
            {"unexplained": 325, "host-bound": 253, "input pipeline": 230},
            [
                "Of idle time with a proven cause, host-bound grew most: 253.0 µs instead of 0 ps a step.",
                "For 40.2 % of the change of idle time a step the trace proves no cause.",
            ],
        ),
        (
            {"unexplained": 325, "host-bound": 253},
            ["For most of the change of idle time a step the trace proves no cause."],
        ),
        (
            {"unexplained": 20, "host-bound": 253},
            ["Of idle time, host-bound grew most: 253.0 µs instead of 0 ps a step."],
        ),
        (
            {"unexplained": 325, "host-bound": 253, "input pipeline": 230, "launch latency": -300},
            [
                "Of idle time with a proven cause, host-bound grew most: 253.0 µs instead of 0 ps a step.",
                "For 40.2 % of the change of idle time a step the trace proves no cause.",
            ],
        ),
    ],
    ids=["less than half", "more than half", "little", "others fell"],
)
def test_most_of_the_idle_time_has_no_cause_only_where_that_is_more_than_half(causes, sentences):
    scope = tracekit.compare(run(6), run(6, length=11 * MS)).main
    rows = [(f"idle: {cause}", max(-us, 0) * 10**6, max(us, 0) * 10**6, us * 10**6) for cause, us in causes.items()]
    grew = sum(causes.values()) * 10**6
    cells = frame(
        CELL_COLUMNS, [("wall", 10**10, 10**10 + grew, grew, None, None), ("idle", 0, grew, grew, None, None)]
    )
    changed = replace(scope, waterfall=frame(PART_COLUMNS, rows), cells=cells)
    assert words._causes(changed, grew) == sentences


def test_sides_of_several_devices_are_compared_by_their_mean():
    its = tracekit.compare(run(6, devices=2), run(6, devices=4, work=6 * MS))
    assert its.main.cell("compute")["diff_ps"] == -MS
    assert any("means over 2 devices of A and 4 of B" in note for note in its.main.notes)
    assert {caution.what for caution in its.cautions} == {"devices"}


def test_other_programs_are_said_to_be_others():
    its = tracekit.compare(run(6, name="one"), run(6, name="other"))
    assert "different programs" in its.cautions[0].sentence


def operations(*rows):
    """(name, program, operator, n, time_ps) as operations of a step."""
    names = ("name", "program", "operator", "n", "time_ps")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    fixed = {"scope": "step", "part": "train", "device": "gpu:0", "kind": "compute", "pattern": "elementwise"}
    return frame(OPERATION_COLUMNS, columns | {name: [value] * len(rows) for name, value in fixed.items()})


def test_renumbered_fusions_are_one_family_of_their_operator():
    a = operations(
        ("fusion.12", "jit_f", "add", 6, 60), ("fusion.9", "jit_f", "mul", 6, 30), ("dot.1", "jit_f", None, 6, 90)
    )
    b = operations(
        ("fusion.9", "jit_f", "add", 6, 48), ("fusion.11", "jit_f", "mul", 6, 30), ("dot.4", "jit_f", None, 12, 90)
    )
    found = pair(a, b, 6, 6)
    assert found.paired_by == FAMILY
    assert found.table[["operation", "a_ps", "b_ps", "a_n", "b_n", "state"]].to_numpy().tolist() == [
        ["fusion (add)", 10, 8, 1, 1, "both"],
        ["dot", 15, 15, 1, 2, "both"],
        ["fusion (mul)", 5, 5, 1, 1, "both"],
    ]


def test_an_operation_is_the_same_in_another_function():
    a = operations(("fusion.1", "jit_layer", "jit(layer)/dot_general", 60, 600))
    b = operations(
        ("fusion.3", "jit_whole", "jit(whole)/while/body/dot_general", 60, 300),
        ("add.1", "jit_whole", "jit(whole)/add", 6, 6),
    )
    found = pair(a, b, 6, 6).table
    assert found[["operation", "a_ps", "b_ps", "state"]].to_numpy().tolist() == [
        ["fusion (dot_general)", 100, 50, "both"],
        ["add (add)", 0, 1, "came"],
    ]


def test_what_was_saved_gives_the_same_comparison(tmp_path):
    a, b = run(6), run(6, length=9 * MS)
    tracekit.analyse(a).save(tmp_path / "a")
    tracekit.analyse(b).save(tmp_path / "b")
    direct = tracekit.compare(a, b).summary()
    for sides in ((tmp_path / "a", tmp_path / "b" / "summary.json"), (tracekit.load(tmp_path / "a"), b)):
        its = tracekit.compare(*sides).summary()
        assert {**its, "a": 0, "b": 0} == {**direct, "a": 0, "b": 0}


def test_a_directory_of_saved_reports_is_several_captures(tmp_path):
    for at, length in enumerate((1000, 1004, 997)):
        tracekit.analyse(run(6, length=length * MS // 100)).save(tmp_path / "a" / str(at))
        tracekit.analyse(run(6, length=(length + 200) * MS // 100)).save(tmp_path / "b" / str(at))
    its = tracekit.compare(tmp_path / "a", tmp_path / "b")
    assert its.verdict.captures == (3, 3)
    assert its.verdict.outcome == Change.SLOWER


@pytest.mark.parametrize(
    ("a", "options", "sentence"),
    [
        ([], {}, "A side of a comparison has no capture"),
        (run(2), {"floor": 2}, "floor is 2: give a share"),
        ("nowhere", {}, "nowhere does not exist"),
    ],
)
def test_mistakes_are_sentences(a, options, sentence):
    with pytest.raises(tracekit.TracekitError, match=sentence):
        tracekit.compare(a, run(2), **options)


def test_every_file_is_written_and_says_the_same(tmp_path):
    its = tracekit.compare(run(6, devices=2), run(6, length=9 * MS, devices=2), floor=0.02)
    files = write_comparison(its, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(files)
    saved = json.loads((tmp_path / "out" / "comparison.json").read_text("utf-8"))
    assert saved["headline"] == its.headline
    assert saved["scopes"][0]["verdict"]["outcome"] == "faster"
    page = (tmp_path / "out" / "comparison.html").read_text("utf-8")
    assert its.headline.split(":")[0] in page
    assert "data:image/svg+xml" in page
    assert "<script" not in page
    assert its.headline in (tmp_path / "out" / "comparison.md").read_text("utf-8")
    assert words.counted(its.main) == "6 steps of A and 6 of B"


def test_the_command_compares_and_takes_captures_by_side(tmp_path, capsys, monkeypatch):
    from tracekit.cli import main

    lengths = {"a1": 1000, "a2": 1004, "a3": 997, "b1": 900, "b2": 903, "b3": 899}
    for name, length in lengths.items():
        tracekit.analyse(run(6, length=length * MS // 100)).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tracekit", "compare", "--a", "a1", "a2", "a3", "--b", "b1", "b2", "b3", "--json"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert json.loads(capsys.readouterr().out)["scopes"][0]["verdict"]["outcome"] == "faster"
    for arguments, sentence in (
        (["a1"], "A comparison takes two sides"),
        (["a1", "--a", "a2"], "Give either A and B, or the captures"),
        (["a1", "b1", "--floor", "x"], "--floor 'x' is not a share"),
    ):
        monkeypatch.setattr("sys.argv", ["tracekit", "compare", *arguments])
        with pytest.raises(SystemExit, match="1"):
            main()
        assert sentence in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["tracekit", "compare", "a1", "b1"])
    with pytest.raises(SystemExit, match="0"):
        main()
    printed = capsys.readouterr().out
    assert printed.startswith("Within these two runs, the median step of B takes 9.00 ms")
    assert len(printed.splitlines()) < 40


def paced(factor, second=4, name="op", rounds=12):
    """A capture on a machine that is `factor` as slow: rounds of phase first of 4 operations, and of phase second."""
    rows, marks, at = [], [], 0
    for _ in range(rounds):
        for phase, number in (("first", 4), ("second", second)):
            start = at
            for _ in range(number):
                at += round(factor * MS)
                rows.append(("gpu:0", "compute", at - round(0.9 * factor * MS), at, f"{phase}.{name}"))
            marks.append((phase, start, at))
    return trace(events(*rows), spans(*marks))


PACES = (1.0, 1.3, 0.8), (1.1, 0.9, 1.4)


def paced_sides(second_of_b):
    return [
        [tracekit.analyse(paced(factor, number)) for factor in its]
        for its, number in zip(PACES, (4, second_of_b), strict=True)
    ]


def test_a_phase_of_the_same_operations_shows_the_pace_of_each_capture():
    comparison = tracekit.compare(*paced_sides(5))
    first, second = (comparison.scope("phase", name).verdict for name in ("first", "second"))
    assert (first.outcome, first.control) == (Change.INCONCLUSIVE, None)
    assert (second.outcome, second.control) == (Change.SLOWER, "first")
    assert second.ratio == pytest.approx(5 / 4)
    said = text(comparison)
    assert "B is slower than A: at the pace of phase first, the median round of phase second takes" in said
    assert "Phase first ran the same operations on both sides and shows the pace of each capture." in said


def test_only_a_stated_phase_is_the_control_of_one_whose_operations_are_the_same():
    sides = paced_sides(4)
    assert not any(scope.verdict.control for scope in tracekit.compare(*sides).scopes)
    comparison = tracekit.compare(*sides, control="first")
    second = comparison.scope("phase", "second").verdict
    assert (second.outcome, second.control) == (Change.NO_DIFFERENCE, "first")
    assert comparison.scope("phase", "first").verdict.control is None
    with pytest.raises(TracekitError, match=r"No phase warm is on both sides, .*: they share first, second\."):
        tracekit.compare(*sides, control="warm")
