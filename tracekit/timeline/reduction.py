"""A host's trace without the rows that take most of it, for runs of so many hosts that no memory holds the rows of all.

What is left out are rows of compute, with their launches. In their place stands when each device computed, as merged
intervals, and of what each device computed in each step the first row, the last one, and how many there were. So
whatever rests on when devices worked, on collectives, on copies and on steps is what all rows would tell, to the
picosecond. What asks for each row by its name or its launch is not told (`Timeline.left_out`).
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tracekit.columns import by_label, distinct, frame
from tracekit.readers import step_range
from tracekit.readers.merge.shared_ends import resolution_of
from tracekit.readers.summary import merged_compute
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.step_boundaries import Links, compiler_spans, links
from tracekit.timeline.step_marks import AFTER, ANNOTATION, UNKNOWN
from tracekit.timeline.timeline import Timeline, evidence_of
from tracekit.trace import COUNT_COLUMNS, HOST_WORK_COLUMNS, OPERAND_COLUMNS, SYNC_COLUMNS, Trace
from tracekit.vocabulary.host_calls import jitted_function
from tracekit.vocabulary.kinds import Kind

# Rows that nothing but their start puts into a step are kept; a host with more than so many of them, as a share of its
# compute, stays as it is.
_MOST_UNLINKED = 0.25
_TWO = 2

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


def reduced(trace: Trace) -> Trace:
    """The trace of one host without the rows of compute that others can stand for; as it is where figures could come
    out otherwise: where launches lost their rows, phases are marked, steps are told by names without their numbers or
    are just two, devices ran ahead of them, or ids of launches name several."""
    timeline = Timeline(trace)
    rows, spans = timeline.rows, timeline.spans
    is_compute = (rows.kind == CODE[Kind.COMPUTE]) & rows.is_placed & (rows.end > rows.start)
    is_step = spans["step"].notna().to_numpy(bool)
    # Of names without numbers, or of parts of steps, the spans of all hosts decide.
    is_doubtful = not trace.spans["step"].notna().any() and not step_range.says_step(spans["name"])[is_step].all()
    if is_doubtful or (spans["tracekit"] == "phase").any() or len(timeline.lost_launches) or not is_compute.any():
        return trace
    found = links(spans, evidence_of(timeline))
    if is_step.any() and not _marks_clearly(found):
        return trace
    linked = np.full(len(rows), AFTER) if isinstance(found, str) else found[1]
    is_member = is_compute & (linked != UNKNOWN)
    if np.count_nonzero(is_compute & ~is_member) > _MOST_UNLINKED * np.count_nonzero(is_compute):
        return trace
    places = np.flatnonzero(is_member)
    group, first = _groups(timeline, linked, places)
    kept = ~is_member
    kept[places[first]] = True
    kept[_last(rows, places, group)] = True
    kept[_of_each_name(rows)] = True
    # Each of the first ones stands for those of its group that are left out, too.
    count = np.bincount(group) - np.bincount(group, kept[places]).astype(np.int64) + 1
    at = np.sort(rows.at[kept])
    launch = np.unique(timeline.launch[kept])
    is_told = np.isin(np.arange(len(spans)), compiler_spans(spans))
    is_told |= is_step | spans["tracekit"].notna().to_numpy(bool)
    is_told |= by_label(spans["name"].array, lambda name: jitted_function(name) is not None).astype(bool)
    result = trace.changed(
        events=trace.events.iloc[at].reset_index(drop=True),
        launches=trace.launches.iloc[launch[launch >= 0]].reset_index(drop=True),
        spans=spans[is_told].reset_index(drop=True),
        host_work=frame(HOST_WORK_COLUMNS),
        syncs=frame(SYNC_COLUMNS),
        operands=frame(OPERAND_COLUMNS),
        merged=merged_compute(trace.events),
        counts=frame(COUNT_COLUMNS, {"event": np.searchsorted(at, rows.at[places[first]]), "rows": count}),
    )
    return result if _is_alike(timeline, found, kept, Timeline(result)) else trace


def _marks_clearly(found: Links | str) -> bool:
    """Whether annotations tell the steps, and of no name just two: of two, launches without a row tell whether the
    profile cut one."""
    if isinstance(found, str) or found[0].marked_by != ANNOTATION:
        return False
    return _TWO not in Counter(found[0].name).values()


def _groups(timeline: Timeline, linked: Column, places: Column) -> tuple[Column, Column]:
    """The group of each of the rows at `places`, and of each group its first row among them: they ran on one device, by
    whatever tells steps in the same one, and one process launched them."""
    rows, launches = timeline.rows, timeline.trace.launches
    process = np.append(launches["process"].cat.codes.to_numpy().astype(np.int64), -1)[timeline.launch]
    told = [rows.numbers(name)[0] + rows.has(name) for name in ("run_id", "group_id")]
    columns = (rows.device, linked, process, rows.codes("hlo_module"), *told)
    return distinct(*(column[places] for column in columns))


def _last(rows: Rows, places: Column, group: Column) -> Column:
    """The row of each group that ends last."""
    order = np.lexsort((rows.end[places], group))
    last: Column = places[order[np.flatnonzero(np.append(np.diff(group[order]) != 0, True))]]
    return last


def _of_each_name(rows: Rows) -> Column:
    """A row of each name and program: what is told of a program by its names stays told."""
    return distinct(rows.codes("name"), rows.codes("hlo_module"))[1]


def _is_alike(whole: Timeline, found: Links | str, kept: Mask, reduced: Timeline) -> bool:
    """Whether what is left tells of the rows `kept` what all of it did: their launches, their steps, as `links` has
    `found` them, and how finely times are told."""
    at = whole.rows.at[kept]
    place = np.empty(len(whole.trace.events), np.int64)
    place[np.sort(at)] = np.arange(len(at))
    row = np.empty(len(at), np.int64)
    row[reduced.rows.at] = np.arange(len(at))
    row = row[place[at]]
    calls = [np.append(timeline.trace.launches["start_ps"].to_numpy(), -1) for timeline in (whole, reduced)]
    if not np.array_equal(calls[0][whole.launch[kept]], calls[1][reduced.launch[row]]):
        return False
    if resolution_of(whole.trace.events) != resolution_of(reduced.trace.events):
        return False
    if isinstance(found, tuple) and found[0].marked_by == ANNOTATION:  # by spans and launches, which are the same
        return True
    of_left = links(reduced.spans, evidence_of(reduced))
    if isinstance(found, str) or isinstance(of_left, str):
        return isinstance(found, str) and isinstance(of_left, str)
    return found[0].marked_by == of_left[0].marked_by and np.array_equal(found[1][kept], of_left[1][row])
