"""Phases on hand-made experiments whose speedup, efficiency and stretch are known beforehand."""

import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frames import events, spans, trace
from tests.launch_frames import calls, work
from tracekit.analysis.phases import phase_marks, phases
from tracekit.columns import concat, frame
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, Trace

APART_AND_TOGETHER = spans(("a", 0, 10), ("b", 10, 20), ("both", 20, 30, "a;b"))


def run(marks, *rows, **more):
    result = phases(trace(events(*rows), marks), **more)
    return result.table.set_index("name"), result.stretch.set_index(["name", "device", "kind"])


def test_two_devices_at_once_in_the_time_of_one_are_twice_as_fast_and_unstretched():
    table, stretch = run(
        APART_AND_TOGETHER,
        ("gpu:0", "compute", 0, 10),
        ("gpu:1", "compute", 10, 20),
        ("gpu:0", "compute", 20, 30),
        ("gpu:1", "compute", 20, 30),
    )
    assert table.loc["both", ["speedup", "devices", "unfinished_ps", "wall_ps"]].tolist() == [2.0, 2, 0, 10]
    assert stretch.loc[("both", "gpu:1", "compute"), "stretch"] == 1.0
    assert table.loc["a", "reason"] == "the phase names no other to be compared with"


def test_contention_shows_as_stretch_where_overlap_alone_would_look_perfect():
    table, stretch = run(
        spans(("a", 0, 10), ("b", 10, 20), ("both", 20, 40, "a;b")),
        ("gpu:0", "compute", 0, 10),
        ("gpu:1", "compute", 10, 20),
        ("gpu:0", "compute", 20, 40),
        ("gpu:1", "compute", 20, 40),
    )
    assert table.loc["both", "speedup"] == 1.0
    assert stretch.loc[("both", "gpu:0", "compute"), "stretch"] == 2.0


def test_work_that_runs_on_after_its_phase_counts_against_the_speedup():
    table, _ = run(
        spans(("a", 0, 10), ("b", 10, 20), ("both", 20, 24, "a;b")),
        ("gpu:0", "compute", 0, 10),
        ("gpu:1", "compute", 10, 20),
        ("gpu:0", "compute", 20, 40),
        ("gpu:1", "compute", 20, 23),
    )
    assert table.loc["both", ["wall_ps", "unfinished_ps", "speedup"]].tolist() == [20, 16, 1.0]


def queued(wrong_clock: str | None = None) -> Trace:
    """Each of two devices alone, awaited; then both at once, of which the host only launches the work; and one more."""
    marks = spans(("a", 0, 100), ("b", 100, 200), ("both", 200, 210, "a;b"), ("after", 210, 300))
    rows = work(
        *({"device": "gpu:0", "start": at, "end": at + 40, "id": at} for at in (10, 50)),
        *({"device": "gpu:1", "start": at, "end": at + 40, "id": at} for at in (110, 150)),
        *({"device": "gpu:0", "start": at, "end": at + 40, "id": at} for at in (205, 245)),
        # Of the second row alone no launch is known: it counts where it starts.
        {"device": "gpu:1", "start": 211, "end": 251, "id": 211},
        {"device": "gpu:1", "start": 251, "end": 291, "id": 251},
        {"device": "gpu:1", "start": 292, "end": 296, "name": "other"},
        host="h",
    )
    called = calls(
        *((at, at - 10, at - 5) for at in (10, 50, 110, 150)), *((at, 202, 203) for at in (205, 245, 211, 251))
    )
    devices = frame(DEVICE_COLUMNS, {"host": ["h"], "device": ["gpu:1"], "clock_error": [wrong_clock]})
    return Trace(rows, spans=marks, launches=called, devices=devices)


def test_a_phase_that_does_not_wait_lasts_until_what_it_launched_has_ended():
    result = phases(queued())
    table = result.table.set_index("name")
    assert table.loc["both", ["wall_ps", "unfinished_ps", "devices"]].tolist() == [91, 81, 2]
    assert table.loc["both", "speedup"] == pytest.approx(200 / 91)
    # What another phase launched is no work of this one, though it runs there.
    assert table.loc["after", ["wall_ps", "unfinished_ps"]].tolist() == [90, 0]
    stretch = result.stretch.set_index(["name", "device"])["stretch"]
    assert stretch.loc["both"].to_dict() == {"gpu:0": 1.0, "gpu:1": 1.0}


def test_launches_tell_no_phase_of_a_device_on_a_wrong_clock():
    table = phases(queued("its clock is wrong")).table.set_index("name")
    assert table.loc["both", ["wall_ps", "unfinished_ps"]].tolist() == [85, 75]  # gpu:0 alone began inside


def test_a_baseline_gives_efficiency_per_device():
    table, _ = run(
        spans(("one", 0, 30), ("two", 30, 50, None, "one")),
        ("gpu:0", "compute", 0, 30),
        ("gpu:0", "compute", 30, 50),
        ("gpu:1", "compute", 30, 50),
    )
    assert table.loc["two", ["speedup", "efficiency", "compared_with"]].tolist() == [1.5, 0.75, "one"]


def test_stretch_is_null_where_the_work_differs():
    _, stretch = run(
        spans(("a", 0, 10), ("more", 10, 30, "a")),
        ("gpu:0", "compute", 0, 10),
        ("gpu:0", "compute", 10, 20),
        ("gpu:0", "compute", 20, 30),
    )
    row = stretch.loc[("more", "gpu:0", "compute")]
    assert (row["busy_ps"], row["alone_ps"], row["reason"]) == (
        20,
        10,
        "the work differs from that of the phases it is compared with",
    )


def test_a_repeated_phase_is_one_row_with_medians():
    table, stretch = run(
        spans(("a", 0, 10), ("a", 10, 22), ("a", 22, 52), ("x", 60, 66, "a")),
        ("gpu:0", "compute", 0, 9),
        ("gpu:0", "compute", 10, 19),
        ("gpu:0", "compute", 22, 31),
        ("gpu:0", "compute", 60, 66),
    )
    assert table.loc["a", ["n", "wall_ps"]].tolist() == [3, 12]
    assert table.loc["x", "speedup"] == 2.0
    assert stretch.loc[("a", "gpu:0", "compute"), "busy_ps"] == 9
    assert stretch.loc[("x", "gpu:0", "compute"), "stretch"] == pytest.approx(6 / 9)


def test_a_comparison_with_a_phase_that_is_not_there_says_so():
    table, _ = run(spans(("both", 0, 10, "a;b")), ("gpu:0", "compute", 0, 10))
    assert table.loc["both", "reason"] == "the trace holds no phase 'a' to compare with"


def test_any_annotation_can_be_made_a_phase_and_compared():
    marks = APART_AND_TOGETHER.assign(
        tracekit=APART_AND_TOGETHER["tracekit"].cat.remove_categories("phase"), alone=None
    )
    marks["alone"] = marks["alone"].astype("category")
    assert len(phase_marks(marks)) == 0
    rows = [("gpu:0", "compute", start, start + 10) for start in (0, 10, 20)]
    table, _ = run(marks, *rows, phases=["a", "b", "both"], alone=["a", "b"])
    assert table["speedup"].isna().tolist() == [True, True, False]
    assert table.loc["both", "speedup"] == 2.0


def test_copies_on_an_unknown_device_are_stretched_together_with_those_on_known_ones():
    table, stretch = run(
        spans(("compute", 0, 10), ("copy", 10, 14), ("both", 20, 40, "compute;copy")),
        ("cpu:0", "compute", 0, 10),
        ("cpu:?", "memcpy", 10, 12, "copy", "P2P"),
        ("cpu:?", "memcpy", 12, 14, "copy", "P2P"),
        ("cpu:0", "compute", 20, 30),
        ("cpu:0", "memcpy", 24, 30, "copy", "P2P"),
        ("cpu:?", "memcpy", 30, 36, "copy", "P2P"),
    )
    assert stretch.loc[("both", "any device", "memory"), ["busy_ps", "alone_ps", "stretch"]].tolist() == [12, 4, 3.0]
    assert table.loc["both", "devices"] == 1


def test_a_device_whose_copies_are_unplaced_counts_for_no_device():
    table, _ = run(spans(("copy", 0, 10)), ("cpu:?", "memcpy", 0, 5, "copy", "P2P"))
    assert table.loc["copy", "devices"] == 0


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gpu:0", "gpu:1"]),
            st.sampled_from(["compute", "memcpy", "memset"]),
            st.integers(0, 30),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=10,
    ),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=4),
)
def test_walls_and_busy_times_are_the_medians_of_the_rounds(some, gaps):
    work = [(device, kind, start, start + size) for device, kind, start, size in some]
    marks, at = [], 0
    for gap, size in gaps:
        marks.append(("a", at + gap, at + gap + size))
        at += gap + size
    table, stretch = run(spans(*marks), *work)
    reach = [(start, max([end, *(row[3] for row in work if start <= row[2] < end)])) for _, start, end in marks]
    row = table.loc["a"]
    assert row["wall_ps"] == round(statistics.median(end - start for start, end in reach))
    assert row["unfinished_ps"] == int(
        statistics.median(e - mark[2] for (_, e), mark in zip(reach, marks, strict=True))
    )
    for device in {row[0] for row in work}:
        for kind, kinds in (("compute", {"compute"}), ("memory", {"memcpy", "memset"})):
            busy_points = {p for d, k, start, end in work if d == device and k in kinds for p in range(start, end)}
            busy = int(statistics.median(len(busy_points & set(range(*span))) for span in reach))
            assert stretch["busy_ps"].get(("a", device, kind), 0) == busy


def test_work_begun_in_two_rounds_at_once_counts_once():
    # Rounds of one host that overlap: the op at 6 began in both.
    marks = spans(("solo", 20, 30), ("both", 0, 8, "solo"), ("both", 5, 10, "solo"))
    _, stretch = run(marks, ("gpu:0", "compute", 6, 8), ("gpu:0", "compute", 1, 3), ("gpu:0", "compute", 20, 22))
    # Two ops in two rounds are one a round, as in the solo phase.
    assert stretch.loc[("both", "gpu:0", "compute"), "alone_ps"] == 2
    assert stretch.loc[("both", "gpu:0", "compute"), "stretch"] == 1.5


def test_phases_remain_of_which_all_rounds_lie_in_the_windows():
    table = events(*(("gpu:0", "compute", start, start + 2) for start in (6, 10, 13, 21)))
    result = phases(trace(table, spans(("a", 5, 10), ("b", 12, 15), ("a", 20, 25), ("c", 10, 12))))
    for window, names in (
        ([[0, 30]], "acb"),
        ([[5, 25]], "acb"),
        ([[6, 25]], "cb"),
        ([[5, 12], [20, 25]], "ac"),
        ([], ""),
    ):
        inside = result.inside({"": np.array(window, np.int64).reshape(-1, 2)})
        assert sorted(inside.table["name"]) == sorted(inside.windows) == sorted(names)
        assert set(inside.rounds["name"]) == set(names)


def test_stretch_is_null_where_only_the_copies_differ():
    _, stretch = run(
        spans(("a", 0, 10), ("more", 10, 30, "a")),
        ("gpu:0", "compute", 0, 5),
        ("gpu:0", "memcpy", 5, 8, "op"),
        ("gpu:0", "compute", 10, 16),
        ("gpu:0", "memcpy", 16, 18, "op"),
        ("gpu:0", "memset", 20, 22, "op"),
    )
    assert stretch.loc[("more", "gpu:0", "compute"), "stretch"] == 1.2
    assert stretch.loc[("more", "gpu:0", "memory"), "reason"] == (
        "the work differs from that of the phases it is compared with"
    )


def ranks(late: int, hosts=("rank0", "rank1"), processes=("", ""), later=1) -> Trace:
    """Two ranks run three rounds of `forward`, each until its own work is done, and of `backward`; of the `later` the
    first lasts `late` longer."""
    tables = []
    for rank, (host, process) in enumerate(zip(hosts, processes, strict=True)):
        marks, rows, called, ids, at = [], [], [], 100 * rank, 0
        for turn in range(3):
            at = turn * 1000 + rank  # all meet at the end of each turn
            for name, length in (("forward", 100 + (rank == later) * late), ("backward", 300)):
                marks.append((name, at, at + length))
                ids += 1
                rows.append({"device": f"gpu:{rank}", "start": at + 5, "end": at + length, "id": ids, "name": name})
                called.append((ids, at + 1, at + 2))
                at += length
        tables.append((work(*rows, host=host), spans(*marks), calls(*called)))
        tables[-1] = tuple(
            table.assign(host=pd.Categorical([host] * len(table)))
            if number == 0
            else table.assign(
                host=pd.Categorical([host] * len(table)), process=pd.Categorical([process or None] * len(table))
            )
            for number, table in enumerate(tables[-1])
        )
    columns = (EVENT_COLUMNS, SPAN_COLUMNS, LAUNCH_COLUMNS)
    rows, marks, called = (
        concat(its, list(parts)) for its, parts in zip(columns, zip(*tables, strict=True), strict=True)
    )
    return Trace(rows, spans=marks, launches=called)


@pytest.mark.parametrize("where", [{}, {"hosts": ("h", "h"), "processes": ("1", "2")}])
@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("late", [0, 10, 60])
def test_what_a_rank_begins_behind_its_own_phase_is_no_work_of_that_though_another_is_in_it(late, later, where):
    """Of hosts and of processes of one host alike: the phase ends when the last rank has ended it."""
    result = phases(ranks(late, later=later, **where))
    table = result.table.set_index("name")
    last = 100 + max(late + later, 1 - later)
    assert table["n"].tolist() == [3, 3]
    assert table.loc["forward", ["wall_ps", "unfinished_ps", "devices"]].tolist() == [last, 0, 2]
    first = 100 + min(late + later, 1 - later)
    assert table.loc["backward", ["wall_ps", "unfinished_ps"]].tolist() == [last + 300 - first, 0]
    assert result.windows["forward"][""].tolist() == [[at, at + last] for at in (0, 1000, 2000)]


@pytest.mark.parametrize("later", [0, 1])
def test_work_without_a_launch_is_of_the_process_that_launches_on_its_device(later):
    given = ranks(60, ("h", "h"), ("1", "2"), later)
    is_first = given.launches["correlation_id"] % 100 % 2 == 1
    table = phases(given.changed(launches=given.launches[is_first].reset_index(drop=True))).table.set_index("name")
    assert table["unfinished_ps"].tolist() == [0, 0]


def test_rounds_of_processes_beside_each_other_are_counted_though_the_next_begins_before_all_are_done():
    """The first rank begins a round while the other is still in the one before."""
    given = ranks(0, ("h", "h"), ("1", "2"))
    number = given.spans["start_ps"] // 1000
    marks = given.spans[(given.spans["name"] == "forward").to_numpy()]
    start = 200 * number[marks.index] + 50 * (marks["process"] == "2")
    marks = marks.assign(start_ps=start, end_ps=start + 200).reset_index(drop=True)
    rounds = phases(given.changed(spans=marks)).rounds
    assert rounds[["start_ps", "end_ps"]].to_numpy().tolist() == [[at, at + 250] for at in (0, 200, 400)]


def test_stretch_is_null_where_other_ops_ran_as_often():
    _, stretch = run(
        spans(("a", 0, 10), ("other", 10, 20, "a")),
        ("gpu:0", "compute", 0, 10, "matmul"),
        ("gpu:0", "compute", 10, 20, "softmax"),
    )
    assert pd.isna(stretch.loc[("other", "gpu:0", "compute"), "stretch"])


def test_processes_that_run_one_after_the_other_run_rounds_of_their_own():
    given = ranks(0, ("h", "h"), ("1", "2"))
    is_second = (given.spans["process"] == "2").to_numpy()
    moved = given.spans.assign(**{edge: given.spans[edge] + 5000 * is_second for edge in ("start_ps", "end_ps")})
    rounds = phases(given.changed(spans=moved)).rounds
    assert rounds.loc[rounds["name"] == "forward", "start_ps"].tolist() == [0, 1000, 2000, 5001, 6001, 7001]


@pytest.mark.parametrize("kept", ["rank0", "rank1"])
def test_rounds_that_one_of_two_ranks_did_not_mark_are_those_that_overlap(kept):
    """The other marks the last round alone, which is none of its first."""
    given = ranks(0)
    stays = ((given.spans["host"] == kept) | (given.spans["start_ps"] >= 2000)).to_numpy()
    rounds = phases(given.changed(spans=given.spans[stays].reset_index(drop=True))).rounds
    at = int(kept == "rank1")
    expected = [(at, 100 + at), (1000 + at, 1100 + at), (2000, 2101)]
    edges = rounds.loc[rounds["name"] == "forward", ["start_ps", "end_ps"]]
    assert list(edges.itertuples(index=False, name=None)) == expected


def test_a_rank_whose_phase_is_not_marked_counts_by_the_marks_of_the_others():
    given = ranks(20)
    marked = given.spans[(given.spans["host"] == "rank0").to_numpy()].reset_index(drop=True)
    table = phases(given.changed(spans=marked)).table.set_index("name")
    assert table.loc["forward", ["wall_ps", "unfinished_ps", "devices"]].tolist() == [121, 21, 2]
