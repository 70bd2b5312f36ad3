"""What determined the length of each step, and how long it would be if some of that took no time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis.critical_path.graph import CALL, DEPENDENCIES, Graph, graph
from tracekit.analysis.critical_path.longest_path import Part, Paths, find_paths
from tracekit.analysis.critical_path.replay import (
    AFTER_END,
    BY_TIME,
    OF_NONE,
    QUEUED,
    Plan,
    Runs,
    Without,
    plan,
    replay,
    with_tails,
)
from tracekit.analysis.critical_path.stretches import STRETCH_COLUMNS, UNKNOWN, Between, between_calls, stretches
from tracekit.analysis.critical_path.what_if import (
    MOST_DOUBT,
    STEP_WHAT_IF_COLUMNS,
    WHAT_IF_COLUMNS,
    predictions,
    refusals,
    scenarios,
)
from tracekit.columns import frame, largest
from tracekit.devices import type_of
from tracekit.intervals import sum_exactly
from tracekit.timeline.rows import Rows
from tracekit.timeline.step_boundaries import StepsOfProgram, outlasting
from tracekit.timeline.timeline import Timeline, why_unseen
from tracekit.trace import Trace
from tracekit.units import percent, quantity

Column = NDArray[np.int64]

STEP_COLUMNS = {
    "clock": "str",
    "step": "Int64",
    "name": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "wall_ps": "int64",
    "unexplained_ps": "int64",
    "pieces": "Int64",
    "example": "str",
}
COMPOSITION_COLUMNS = {"at": "int64", "part": "str", "time_ps": "int64", "ratio": "Float64"}
TOTAL_COLUMNS = {"part": "str", "time_ps": "int64", "ratio": "Float64"}
PATH_COLUMNS = {
    "at": "int64",
    "part": "str",
    "on": "str",
    "name": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "time_ps": "int64",
    "frame": "str",
    "place": "Int64",
}
LATENCY_COLUMNS = {"device": "str", "latency_ps": "Int64"}

# The names of the parts of a path, in their order.
PARTS = {
    Part.COMPUTE: "compute",
    Part.COLLECTIVE: "collective transfer",
    Part.MEMCPY: "memcpy",
    Part.MEMSET: "memset",
    Part.HOST_LAUNCH: "host launch",
    Part.HOST_WORK: "host work",
    Part.HOST_UNRECORDED: UNKNOWN[Part.HOST_UNRECORDED],
    Part.LAUNCH_LATENCY: "launch latency",
    Part.QUEUE_GAP: "queue gap",
    Part.ALONE_COLLECTIVE: "collective, waiting included",
    Part.UNEXPLAINED: UNKNOWN[Part.UNEXPLAINED],
}
# A collective of which ranks are missing may have waited for their hosts.
_NO_DEVICE_PARTS = (
    Part.HOST_LAUNCH,
    Part.HOST_WORK,
    Part.HOST_UNRECORDED,
    Part.LAUNCH_LATENCY,
    Part.ALONE_COLLECTIVE,
    Part.UNEXPLAINED,
)
# The frames of a trace whose rows are of processes.
_OF_PROCESSES = ("spans", "host_work", "launches", "syncs")
# From this share of queued rows on, the queues were deep.
_DEEP = 0.9
_MOST = 0.5
# How many pieces of a path are kept.
PIECES = 1000


@dataclass(frozen=True, repr=False)
class CriticalPath(
    notebook.Result,
    total="",
    what_if="what name measured_ps predicted_ps ratio reason",
):
    """The critical paths of the counted steps; times in ps, ratios in 0..1.

    `steps`: one row a step, the whole trace as one without `step` and `name`. `unexplained_ps`: times on the path at
    which nothing tells why it did not go on. `example` marks the `median` and the `longest` step of the clock and name
    whose steps take longest, of whose paths `pieces` are in `path`. `composition`: the parts of each path, which sum to
    `wall_ps`; `at` is a row of `steps`. `total`: the parts of all paths. `path`: the pieces in order, at most the
    PIECES longest of a step; `on` is a device or a thread, `place` a row of the trace's `frame`; work of the host
    between two calls is named `until` the second, what nothing explains, or of which of the host nothing is recorded,
    `between` two calls or rows. `unexplained`: the longest of both, with the span of the host that lasted meanwhile
    (STRETCH_COLUMNS).

    `what_if`: all counted steps together if `what` took no time, replayed as one run; null with a `reason` where too
    little is explained. `step_what_if`: the same for each step. `edges`: the dependencies that were found, by sort
    (EDGE_COLUMNS). `latency`: device, latency_ps. `notes`: what was left out. `busy_ratio`: the mean busy share of the
    steps of the devices that worked in them. `queued_ratio`: the share of the launched rows that had been launched
    before it was their turn, None without launches; `is_device_bound` if nearly all were, neither the host nor
    collectives of missing ranks are much of the paths, and compute and collectives are most. `is_part`: what has no
    `step` and no `name` is a part of the trace. `lacking`: why there is nothing.
    """

    steps: pd.DataFrame
    composition: pd.DataFrame
    total: pd.DataFrame
    path: pd.DataFrame
    what_if: pd.DataFrame
    step_what_if: pd.DataFrame
    edges: pd.DataFrame
    latency: pd.DataFrame
    notes: tuple[str, ...]
    lacking: str
    busy_ratio: float | None = None
    queued_ratio: float | None = None
    unexplained: pd.DataFrame = field(default_factory=lambda: frame(STRETCH_COLUMNS))
    is_part: bool = False

    @property
    def is_device_bound(self) -> bool:
        """Whether the host launched far enough ahead to be no part of what the steps took, and devices, not copies,
        are most of it."""
        parts = dict(zip(self.total["part"], self.total["ratio"], strict=True))
        host = sum(parts.get(PARTS[part], 0.0) for part in _NO_DEVICE_PARTS)
        work = sum(parts.get(PARTS[part], 0.0) for part in (Part.COMPUTE, Part.COLLECTIVE))
        return self.queued_ratio is not None and self.queued_ratio >= _DEEP and bool(host <= 1 - _DEEP and work > _MOST)


def critical_path(timeline: Timeline, step_table: pd.DataFrame) -> CriticalPath:
    """The critical paths of the steps of `step_table` that are not left out; without any, of the timeline's windows,
    or of all rows of each clock.

    `step_table` has at least clock, step, name, start_ps, end_ps and left_out; the steps of one clock must not overlap,
    unless they are those of several programs: then the paths are those of the one whose steps take longest.
    """
    programs = [each for each in timeline.steps.programs if len(each.steps)]
    if len(programs) > 1 and len(step_table) == len(timeline.steps.table):
        return _of_one_program(timeline, step_table, programs)
    rows, trace = timeline.rows, timeline.trace
    is_part = not len(step_table) and timeline.is_narrowed
    if not len(step_table) and timeline.windows is not None:
        step_table = _separate_steps(timeline.windows)
        if is_part and not step_table["clock"].duplicated().any():
            step_table["name"] = None
    table = _counted_steps(rows, step_table)
    dag = graph(timeline)
    lacking = _lacking(rows, table, timeline.clock_errors)
    if lacking:
        return _empty(dag, lacking)
    wall = (table["end_ps"] - table["start_ps"]).to_numpy()
    runs = plan(dag, _runs(timeline, dag, table), is_last_use=True)
    queued_ratio = _queued_ratio(dag, runs)
    examples = _choose_examples(table, wall)
    op, labels = _ops(rows, dag)
    paths = find_paths(dag, runs, np.array([bool(label) for label in examples]), op)
    cases = scenarios(dag, runs, paths, labels)
    what = [Without(), *(without for _, _, without in cases)]
    lengths = with_tails(runs, replay(dag, runs, [*what, *(replace(without, slack=True) for without in what)], op))
    unexplained_ps = paths.parts[:, Part.UNEXPLAINED]
    tried = [case[:2] for case in cases]
    needed = np.zeros(len(rows), bool)
    nodes = runs.node[runs.step >= 0] - dag.first[3]
    needed[nodes[(nodes >= 0) & (nodes < len(rows))]] = True
    del runs, nodes, op  # of a million rows, 100 MB that nothing of what follows asks
    unknown = refusals(rows, timeline.collectives, why_unseen(timeline), needed, paths, lengths, tried)
    if queued_ratio is None:
        unknown = [reason or _without_launches(rows, paths, wall) for reason in unknown]
    table = table.assign(
        wall_ps=wall,
        unexplained_ps=unexplained_ps,
        pieces=pd.array(
            [None if not label else int((paths.step == step).sum()) for step, label in enumerate(examples)], "Int64"
        ),
        example=pd.array([label or None for label in examples], "str"),
    )
    pieces = _kept_pieces(paths)
    lies = between_calls(rows, trace, dag, paths, pieces)
    return CriticalPath(
        frame(STEP_COLUMNS, table),
        *_composition(paths.parts, wall),
        _path(rows, trace, dag, paths, pieces, lies),
        *predictions(wall, lengths, paths, tried, unknown),
        dag.edges,
        _latency(rows, dag),
        _notes(dag),
        "",
        _busy_ratio(timeline, table),
        queued_ratio,
        stretches(paths, lies, trace.spans),
        is_part,
    )


def _of_one_program(timeline: Timeline, step_table: pd.DataFrame, programs: Sequence[StepsOfProgram]) -> CriticalPath:
    """The critical paths of the program whose counted steps take longest, as if the others had not run beside it."""
    wall = (step_table["end_ps"] - step_table["start_ps"]).to_numpy() * step_table["left_out"].isna().to_numpy(bool)
    longest = max(programs, key=lambda each: int(wall[each.steps].sum()))
    others = {process for each in programs if each is not longest for process in each.processes}
    devices = {device for each in programs if each is not longest for device in each.devices}
    trace = timeline.trace
    kept: dict[str, NDArray[np.int64]] = {}
    for name in _OF_PROCESSES:
        table = getattr(trace, name)
        host, process = (table[column].astype(object).fillna("") for column in ("host", "process"))
        kept[name] = np.flatnonzero([key not in others for key in zip(host, process, strict=True)])
    kept["events"] = np.flatnonzero(~trace.events["device"].isin(devices).to_numpy())
    own = replace(trace, **{name: getattr(trace, name).iloc[at].reset_index(drop=True) for name, at in kept.items()})
    alone = Timeline(own) if timeline.windows is None else Timeline(own).inside(timeline.windows)
    is_other = np.zeros(len(step_table), bool)
    is_other[np.concatenate([each.steps for each in programs if each is not longest])] = True
    found = critical_path(alone, step_table[~is_other].reset_index(drop=True))
    places = {frame_name: np.append(at, -1) for frame_name, at in kept.items()}
    path = found.path.assign(
        place=pd.array(
            [
                place if pd.isna(place) or name not in places else int(places[name][int(place)])
                for name, place in zip(found.path["frame"], found.path["place"], strict=True)
            ],
            "Int64",
        )
    )
    names = " and ".join(sorted(str(name) for name in step_table["name"].iloc[longest.steps].unique()))
    beside = f"Its steps are those of {names}, which take longest of {len(programs)} programs beside each other."
    return replace(found, path=path, notes=(beside, *found.notes))


def _busy_ratio(timeline: Timeline, table: pd.DataFrame) -> float | None:
    """The mean share of the steps in which the devices of their clocks that worked in any were busy."""
    busy = wall = 0
    windows_of = {
        clock: steps[["start_ps", "end_ps"]].to_numpy(np.int64) for clock, steps in table.groupby("clock", sort=False)
    }
    for device in timeline.unions.devices.values():
        windows = windows_of.get(device.clock, iv.EMPTY)
        if own := sum_exactly(iv.within(device.busy, windows)):
            busy += own
            wall += sum_exactly(windows[:, 1] - windows[:, 0])
    return busy / wall if wall else None


def _queued_ratio(dag: Graph, runs: Plan) -> float | None:
    """The share of the rows with a launch that something else than that held up last."""
    launched = (dag.kind < CALL)[runs.node] & (runs.launch != -1)
    others = launched & ((runs.cause_kind == AFTER_END) | (runs.cause_kind == QUEUED))
    return float(np.count_nonzero(others) / np.count_nonzero(launched)) if launched.any() else None


def _without_launches(rows: Rows, paths: Paths, wall: Column) -> str:
    """Why nothing can be said of any scenario where no launch of a row is known: then neither is which streams of a GPU
    waited for each other. "" where next to nothing of the paths waited for that."""
    share = sum_exactly(paths.parts[:, Part.UNEXPLAINED]) / sum_exactly(wall)
    lanes = np.unique(rows.device.astype(np.int64) * len(rows.labels("lane")) + rows.codes("lane"))
    streams = np.bincount(lanes // max(1, len(rows.labels("lane"))), minlength=len(rows.devices))
    has_streams = any(n > 1 and type_of(device) == "gpu" for n, device in zip(streams, rows.devices, strict=True))
    if share <= MOST_DOUBT or not has_streams:
        return ""
    return f"no launch of the devices' work is known, so neither is what {percent(share)} of the time waited for"


def _separate_steps(windows: pd.DataFrame) -> pd.DataFrame:
    """`windows` as steps without number, by clock and start, less those that begin inside another of their clock."""
    table = windows.sort_values(["clock", "start_ps", "end_ps"], kind="stable", ignore_index=True)
    reach = table.groupby("clock")["end_ps"].cummax().groupby(table["clock"]).shift(fill_value=np.iinfo(np.int64).min)
    table = table[table["start_ps"] >= reach].reset_index(drop=True)
    return table.assign(
        step=pd.array([pd.NA] * len(table), "Int64"), left_out=pd.Series([None] * len(table), dtype="str")
    )


def _counted_steps(rows: Rows, step_table: pd.DataFrame) -> pd.DataFrame:
    """The steps that count, with clock, step, name, start_ps and end_ps, by clock and start."""
    columns = ["clock", "step", "name", "start_ps", "end_ps"]
    steps = step_table[step_table["left_out"].isna() & (step_table["end_ps"] > step_table["start_ps"])]
    steps = steps[steps["clock"].fillna("").isin(rows.clocks)].assign(clock=steps["clock"].fillna(""))
    if len(steps):
        return steps.sort_values(["clock", "start_ps"], kind="stable")[columns].reset_index(drop=True)
    windows: dict[str, tuple[int, int]] = {}
    for device, clock in enumerate(rows.clocks):
        if rows.placed[device]:
            device_rows = rows.of(device)
            low, high = windows.get(clock, (int(rows.start[device_rows][0]), int(rows.end[device_rows].max())))
            windows[clock] = min(low, int(rows.start[device_rows][0])), max(high, int(rows.end[device_rows].max()))
    whole_windows = [(clock, None, None, low, high) for clock, (low, high) in windows.items() if high > low]
    return pd.DataFrame(whole_windows, columns=columns)


def _runs(timeline: Timeline, dag: Graph, table: pd.DataFrame) -> Runs:
    """The runs of steps of which each begins when the one before ends; each other window is a run of its own."""
    start, end = table["start_ps"].to_numpy(), table["end_ps"].to_numpy()
    clock = np.array([dag.clocks.index(name) for name in table["clock"]], np.int64)
    boundaries = timeline.steps.table
    are_steps = set(table["end_ps"]) <= set(boundaries["end_ps"])
    step_of = _steps_of(timeline, dag, table) if are_steps else np.full(len(dag.start), BY_TIME, np.int32)
    follows = (start[1:] == end[:-1]) & (clock[1:] == clock[:-1]) & are_steps
    first = np.flatnonzero(np.append(True, ~follows))
    last = np.append(first[1:], len(table))
    return Runs(start[first], end[last - 1], clock[first], np.append(first, len(table)), end, step_of)


def _steps_of(timeline: Timeline, dag: Graph, table: pd.DataFrame) -> NDArray[np.int32]:
    """The first step of `table` that each node of the graph can be of, as the timeline's steps have it, or BY_TIME.

    A row is of its step, a call that launched rows of the first of theirs, and another call not of one before that in
    whose time of the host it began. So what the host does ahead for a later step counts for none of `table` but that. A
    copy that does not hold its step open, and outlasts it, ends none: what waits for it does.
    """
    step_of = np.full(len(dag.start), BY_TIME, np.int32)
    boundaries = timeline.steps.table
    clock_of_boundary, end = boundaries["clock"].fillna("").to_numpy(), boundaries["end_ps"].to_numpy()
    host_end = boundaries["host_end_ps"].to_numpy(np.int64, na_value=0)
    counted_step = np.full(len(boundaries) + 1, -1)
    for number, clock in enumerate(dag.clocks):
        of_clock, steps = np.flatnonzero(clock_of_boundary == clock), np.flatnonzero(table["clock"] == clock)
        if len(steps) == 0:
            continue
        counted_step[of_clock] = steps[0] + np.searchsorted(table["end_ps"].to_numpy()[steps], end[of_clock])
        if boundaries["host_end_ps"].iloc[of_clock].notna().all():
            calls = np.flatnonzero(dag.clock[: dag.first[3]] == number)
            place = np.searchsorted(np.maximum.accumulate(host_end[of_clock]), dag.start[calls], side="right")
            step_of[calls] = np.append(counted_step[of_clock], steps[-1] + 1)[place]
    step_of[dag.step_ends] = counted_step[dag.ended]
    step_of[dag.first[3] : dag.first[4]] = counted_step[timeline.steps.step_of]
    launched = np.flatnonzero((dag.launch >= 0) & (step_of >= 0))[::-1]
    step_of[dag.launch[launched]] = step_of[launched]
    step_of[dag.first[3] + np.flatnonzero(outlasting(timeline.rows, timeline.steps))] = OF_NONE
    return step_of


def _lacking(rows: Rows, table: pd.DataFrame, clock_errors: Mapping[str, str]) -> str:
    if not any(rows.placed):
        return "The trace holds no work of a known device, so it has no critical path."
    if len(table) == 0:
        return "All work of the trace takes no time, so there is no path through it."
    # A TPU runs whole programs in a queue of its own, so it has a path without its host.
    errors = [(device, reason) for device, reason in clock_errors.items() if type_of(device) != "tpu"]
    return next((f"{device}: {reason}, so no path leads over it and its host." for device, reason in errors), "")


def _empty(dag: Graph, lacking: str) -> CriticalPath:
    frames = (STEP_COLUMNS, COMPOSITION_COLUMNS, TOTAL_COLUMNS, PATH_COLUMNS, WHAT_IF_COLUMNS, STEP_WHAT_IF_COLUMNS)
    steps_, composition, total, path, what_if, step_what_if = map(frame, frames)
    return CriticalPath(
        steps_, composition, total, path, what_if, step_what_if, dag.edges, frame(LATENCY_COLUMNS), (), lacking
    )


def _choose_examples(table: pd.DataFrame, wall: Column) -> list[str]:
    """The steps whose paths are kept, of the clock and name whose steps take longest together: the one of median length
    (of an even number the shorter) and the longest."""
    series = table.groupby(["clock", "name"], sort=False, dropna=False).ngroup().to_numpy()
    mine = np.flatnonzero(series == np.argmax(np.bincount(series, wall)))
    examples = [""] * len(wall)
    order = mine[np.argsort(wall[mine], kind="stable")]
    examples[order[(len(order) - 1) // 2]] = "median"
    longest = int(mine[np.argmax(wall[mine])])
    if len(order) > 1 and not examples[longest]:
        examples[longest] = "longest"
    return examples


def _ops(rows: Rows, dag: Graph) -> tuple[NDArray[np.int32], list[str]]:
    """The number of the name of each node's row (N,), -1 for the host and for unknown devices, and the names."""
    op = np.full(len(dag.start), -1, np.int32)
    names = np.where(rows.is_placed, rows.codes("name"), -1)
    op[dag.first[3] : dag.first[4]] = names
    op[dag.first[4] :] = names[dag.pair]
    return op, rows.labels("name")


def _composition(parts: Column, wall: Column) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The parts of each path that are not 0, and of all paths."""
    steps, part_codes = np.nonzero(parts)
    names = np.array([PARTS[part] for part in Part])
    composition = frame(
        COMPOSITION_COLUMNS,
        {
            "at": steps,
            "part": names[part_codes],
            "time_ps": parts[steps, part_codes],
            "ratio": parts[steps, part_codes] / wall[steps],
        },
    )
    sums = [sum_exactly(parts[:, part]) for part in Part]
    nonzero = [part for part in Part if sums[part]]
    total_ps = sum(sums)
    if total_ps != sum_exactly(wall):
        raise AssertionError("the parts of the critical paths do not sum to the steps")
    total = frame(TOTAL_COLUMNS, [(PARTS[part], sums[part], sums[part] / total_ps) for part in nonzero])
    return composition, total.sort_values("time_ps", ascending=False, kind="stable").reset_index(drop=True)


def _kept_pieces(paths: Paths) -> Column:
    """The places of the pieces in order of time within each step, at most the PIECES longest of each."""
    length = paths.end - paths.start
    is_kept = np.zeros(len(length), bool)
    for step in np.unique(paths.step).tolist():
        pieces_of_step = np.flatnonzero(paths.step == step)
        is_kept[pieces_of_step[largest(length[pieces_of_step], PIECES)]] = True
    places = np.flatnonzero(is_kept)[::-1]
    return places[np.argsort(paths.step[places], kind="stable")]


def _path(rows: Rows, trace: Trace, dag: Graph, paths: Paths, pieces: Column, lies: dict[int, Between]) -> pd.DataFrame:
    """The `pieces` of the paths (PATH_COLUMNS); `lies` tells where those lie that nothing explains."""
    length = paths.end - paths.start
    rows_of_path: list[tuple[object, ...]] = []
    of_waits = np.flatnonzero(trace.syncs["device"].isna().to_numpy(bool))
    labels_of = {
        name: [(table[column].cat.codes.to_numpy(), list(table[column].cat.categories)) for column in (on, "name")]
        for name, table, on in (
            ("events", rows.events, "device"),
            ("launches", trace.launches, "thread"),
            ("syncs", trace.syncs, "thread"),
        )
    }
    for piece in pieces.tolist():
        node = int(paths.node[piece]) if piece not in lies else -1
        source, place = dag.source(node) if node >= 0 else ("", -1)
        if source == "events":
            place = int(rows.at[place])
        elif source == "syncs":
            place = int(of_waits[place])
        on, name = (str(labels[codes[place]]) for codes, labels in labels_of[source]) if source else (None, None)
        times = int(paths.start[piece]), int(paths.end[piece]), int(length[piece])
        part_name = PARTS[Part(int(paths.part[piece]))]
        if piece in lies:
            on, name = lies[piece].on, str(lies[piece])
        if part_name == PARTS[Part.HOST_WORK] and times[1] <= dag.start[node]:
            name = f"until {name}"
        elif part_name == PARTS[Part.HOST_WORK] and times[0] >= dag.end[node]:
            name = f"after {name}"
        rows_of_path.append(
            (int(paths.step[piece]), part_name, on, name, *times, source or None, place if source else None)
        )
    return frame(PATH_COLUMNS, rows_of_path)


def _latency(rows: Rows, dag: Graph) -> pd.DataFrame:
    """The launch latency of each device, null where too few rows tell it."""
    latencies = dag.latency_ps[:-1]
    names = [name for name, is_placed in zip(rows.devices, rows.placed, strict=True) if is_placed]
    values = [
        int(latency_ps) or None
        for latency_ps, is_placed in zip(latencies.tolist(), rows.placed, strict=True)
        if is_placed
    ]
    return frame(LATENCY_COLUMNS, {"device": names, "latency_ps": values})


def _notes(dag: Graph) -> tuple[str, ...]:
    """What the times contradicted, and which waits are not understood."""
    notes = [
        f"{dropped:,} of {edges + dropped:,} dependencies ({DEPENDENCIES[edge]}) {'was' if dropped == 1 else 'were'} "
        f"dropped: the measured times contradict {'it' if dropped == 1 else 'them'}."
        for edge, edges, dropped in dag.edges.itertuples(index=False)
        if dropped
    ]
    if dag.blank_waits:
        notes.append(
            f"{quantity(dag.blank_waits, 'wait')} of the host could not be attributed: on a critical path that time is "
            "unexplained."
        )
    return tuple(notes)
