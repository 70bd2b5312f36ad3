"""Which stretch of a trace a figure shows, and that the analyses are those of the stretch."""

import numpy as np
import pandas as pd
import pytest

from tests import traces
from tests.frames import events, spans, trace
from tests.report.two_gpus import PHASES, ROWS
from tracekit.analysis.overlap import concurrency, device_pairs, partition
from tracekit.columns import concat, frame
from tracekit.errors import TracekitError
from tracekit.report.build import analyse
from tracekit.report.figures.selection import select
from tracekit.report.part import choose
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import timeline_of
from tracekit.trace import EVENT_COLUMNS, SPAN_COLUMNS


def windows(selection) -> dict[str, list[list[int]]]:
    return {clock: intervals.tolist() for clock, intervals in selection.unions.windows.items()}


def steps(*rows: tuple) -> pd.DataFrame:
    """Annotated steps: rows of (name, step, start, end)."""
    data = {
        "host": ["h"] * len(rows),
        "thread": ["python"] * len(rows),
        "name": [row[0] for row in rows],
        "step": [row[1] for row in rows],
        "start_ps": [row[2] for row in rows],
        "end_ps": [row[3] for row in rows],
    }
    return frame(SPAN_COLUMNS, data)


def test_the_whole_is_from_first_start_to_last_end_and_counts_from_the_first_device_work():
    selection = select(trace(ROWS))
    assert windows(selection) == {"": [[10, 110]]}
    assert (selection.start_ps, selection.axis, selection.name, selection.where) == (
        0,
        "time since the first device work",
        "",
        "",
    )


def test_with_phases_the_whole_is_from_the_first_phase_to_the_end_of_its_last_work():
    selection = select(trace(ROWS, PHASES))
    assert windows(selection) == {"": [[5, 110]]}
    assert (selection.start_ps, selection.axis) == (-5, "time since the first device work")
    assert (selection.trace_name, selection.where) == ("test", "from the first phase to the last")


def test_a_phase_is_all_its_rounds_with_the_work_begun_inside():
    selection = select(trace(ROWS, PHASES), phase="both")
    assert windows(selection) == {"": [[30, 60], [80, 110]]}
    assert (selection.length_ps, selection.start_ps, selection.axis) == (60, 0, "time within the rounds of the phase")
    assert (selection.name, selection.where) == ("phase both", "2 rounds of phase both, end to end")
    assert selection.phase == "both"


def test_a_phase_of_one_round_tells_where_it_lies():
    selection = select(trace(ROWS, PHASES), phase="warm")
    assert (windows(selection), selection.where) == ({"": [[5, 40]]}, "phase warm, from -5 ps to 30 ps")


def test_the_results_are_those_of_the_analyses_inside_the_stretch():
    selection = select(trace(ROWS, PHASES), phase="both")
    inside = selection.timeline
    assert selection.breakdown.partition.equals(partition(inside))
    assert selection.breakdown.pairs.equals(device_pairs(inside))
    assert selection.breakdown.concurrency.equals(concurrency(inside))
    assert selection.breakdown.partition.set_index("device")["compute"].to_dict() == {"gpu:0": 5 + 15, "gpu:1": 30}


def test_a_phase_has_the_figures_that_the_report_gives_it():
    with_phases = trace(ROWS, PHASES)
    report, selection = analyse(with_phases), select(with_phases, phase="both")
    for name in ("partition", "overlap", "pairs", "concurrency"):
        assert getattr(selection.breakdown, name).equals(getattr(report.inside["both"], name))


def test_any_annotation_is_taken_for_a_phase():
    with_annotation = trace(ROWS, spans(("train", 30, 45)).assign(tracekit=pd.Categorical([None])))
    assert windows(select(with_annotation, phase="train")) == {"": [[30, 60]]}
    assert windows(select(with_annotation)) == {"": [[10, 110]]}


def test_a_range_counts_from_the_first_device_work_with_phases_too():
    assert windows(select(trace(ROWS), start_ps=20, end_ps=50)) == {"": [[30, 60]]}
    selection = select(trace(ROWS, PHASES), start_ps=20, end_ps=50)
    assert (windows(selection), selection.start_ps, selection.name) == ({"": [[30, 60]]}, 20, "from 20 ps to 50 ps")


def test_one_end_of_a_range_is_enough_and_a_late_end_is_that_of_the_trace():
    with_phase = trace(ROWS, spans(("late", 50, 60)))
    assert windows(select(with_phase, start_ps=50)) == {"": [[60, 110]]}
    assert windows(select(with_phase, end_ps=40)) == {"": [[10, 50]]}
    assert windows(select(with_phase, end_ps=10**9)) == {"": [[10, 110]]}


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        (100, None, "The range from 100 ps on is outside the trace."),
        (None, -5, "The range up to -5 ps is outside the trace."),
        (-9, 0, "The range from -9 ps to 0 s is outside the trace."),
        (30, 30, "The range from 30 ps to 30 ps is empty."),
        (30, 20, "The range from 30 ps to 20 ps is empty."),
    ],
)
def test_a_range_without_time_in_the_trace_is_told_with_the_range_there_is(start, end, sentence):
    valid = " The trace lasts from 0 s to 100 ps, counted from the first device work."
    with pytest.raises(TracekitError) as caught:
        select(trace(ROWS), start_ps=start, end_ps=end)
    assert str(caught.value) == sentence + valid


LISTED = "tracekit read --full traces/test lists phases, steps and annotations."


@pytest.mark.parametrize(
    ("asked", "shown"),
    [((-1, 20), ([10, 30], "from 0 s to 20 ps")), ((0, 999), ([10, 110], "from 0 s to 100 ps"))],
)
def test_a_range_that_reaches_over_the_trace_is_cut_to_it_with_a_note(asked, shown):
    selection = select(trace(ROWS), start_ps=asked[0], end_ps=asked[1])
    assert (windows(selection), selection.name) == ({"": [shown[0]]}, shown[1])
    (note,) = choose(timeline_of(trace(ROWS)), start=asked[0], end=asked[1]).notes
    assert note.endswith("is shown. The trace lasts from 0 s to 100 ps, counted from the first device work.")
    assert not choose(timeline_of(trace(ROWS)), start=0, end=100).notes


def test_an_unknown_phase_is_told_with_those_there_are():
    with pytest.raises(TracekitError) as caught:
        select(trace(ROWS, PHASES), phase="bith")
    sentence = "traces/test has no phase or annotation 'bith'. Its phases are 'warm' and 'both'."
    assert str(caught.value) == f"{sentence} {LISTED}"
    with pytest.raises(TracekitError, match=f"It marks no phases; .* {LISTED}"):
        select(trace(ROWS), phase="bith")


def test_a_step_is_its_window():
    with_steps = trace(ROWS, steps(("train", 0, 10, 40), ("train", 1, 40, 85), ("train", 2, 85, 111)))
    selection = select(with_steps, step=1)
    assert (windows(selection), selection.start_ps, selection.axis) == (
        {"": [[60, 90]]},
        50,
        "time since the first device work",
    )
    assert (selection.name, selection.where) == ("step 1", "step 1 (train), from 50 ps to 80 ps")
    assert selection.phase is None


def test_an_unknown_step_is_told_with_those_there_are():
    with_steps = trace(
        ROWS, steps(("train", 0, 10, 40), ("train", 1, 40, 85), ("train", 2, 85, 111), ("eval", 7, 111, 112))
    )
    with pytest.raises(
        TracekitError, match=r"has no step 9\. Its steps are 0 to 2 \(train\) and 7 \(eval\)\. " + LISTED
    ):
        select(with_steps, step=9)
    with pytest.raises(TracekitError, match=f"traces/test has no steps: .* {LISTED}"):
        select(trace(ROWS), step=1)


def test_a_step_of_two_loops_is_told_with_where_each_lies():
    two_loops = trace(
        ROWS, steps(("train", 0, 10, 40), ("train", 1, 40, 85), ("eval", 0, 85, 100), ("eval", 1, 100, 111))
    )
    with pytest.raises(TracekitError) as caught:
        select(two_loops, step=1)
    assert "has several steps 1: train, from 50 ps to 80 ps and eval, from " in str(caught.value)
    assert str(caught.value).endswith("Say which with --from and --to.")


def test_several_windows_at_once_are_refused():
    with pytest.raises(TracekitError, match=r"^Give one of --phase, --step, or --from and --to"):
        select(trace(ROWS, PHASES), phase="both", end_ps=5)


def test_a_report_gives_its_headline_and_its_own_phases():
    with_phases = trace(ROWS, PHASES)
    report = analyse(with_phases)
    assert select(with_phases, report).finding == report.headline.removesuffix(".")
    with_annotation = trace(ROWS, spans(("train", 30, 45)).assign(tracekit=pd.Categorical([None])))
    assert windows(select(with_annotation, analyse(with_annotation, phases=["train"]))) == {"": [[30, 60]]}


def test_a_trace_without_device_rows_says_what_it_lacks():
    selection = select(trace(events()))
    assert selection.lacking == selection.finding + "." == no_device_work(trace(events()))
    assert select(trace(events()), start_ps=5).lacking == selection.lacking
    assert select(trace(events(), PHASES), phase="both").length_ps == 35


def test_each_of_several_clocks_counts_from_its_own_start():
    host_a = events(("a/gpu:0", "compute", 5, 25), host="a", clock="a")
    host_b = events(("b/gpu:0", "compute", 900, 910), host="b", clock="b")
    two_hosts = trace(concat(EVENT_COLUMNS, [host_a, host_b]), PHASES)
    assert windows(select(two_hosts)) == {"a": [[5, 25]], "b": [[900, 910]]}
    selection = select(two_hosts, start_ps=5, end_ps=15)
    assert (windows(selection), selection.length_ps, selection.aligned) == (
        {"a": [[10, 20]], "b": [[905, 910]]},
        10,
        False,
    )
    assert windows(select(two_hosts, start_ps=12)) == {"a": [[17, 25]], "b": []}
    assert selection.axis == "time since each clock's first device work"


@pytest.mark.parametrize("case", traces.cases("generated/kineto", "kineto/dlrm-8xV100"))
def test_ranges_of_a_trace_add_up_to_the_whole(case):
    whole_trace = traces.trace(case)
    whole = select(whole_trace)
    cut = whole.length_ps // 3
    parts = [select(whole_trace, end_ps=cut), select(whole_trace, start_ps=cut)]
    cells = [part.breakdown.partition.drop(columns=["device", "window_start_ps", "span_ps"]) for part in parts]
    assert (sum(cells) == whole.breakdown.partition[cells[0].columns]).all(axis=None)
    times = [part.breakdown.concurrency["time_ps"].to_numpy() for part in parts]
    assert np.array_equal(sum(times), whole.breakdown.concurrency["time_ps"])
