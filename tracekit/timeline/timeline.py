"""A trace put in order, once: what every analysis starts from."""

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import concat
from tracekit.files import path_of
from tracekit.intervals import Intervals
from tracekit.readers import Reduction, losses, read, read_hosts
from tracekit.readers.losses import Lost
from tracekit.readers.step_range import with_context
from tracekit.timeline.instances import CollectiveInstances, Unseen, match, matched_inside, unseen
from tracekit.timeline.lost_launches import lost_launches
from tracekit.timeline.named_steps import step_spans
from tracekit.timeline.programs import Evidence
from tracekit.timeline.rows import CODE, Rows, clock_of_hosts, launch_of, rows
from tracekit.timeline.step_boundaries import UNMARKED, StepBoundaries, boundaries, no_steps, steps_inside
from tracekit.timeline.step_marks import ANNOTATION
from tracekit.timeline.syncs import Syncs, syncs
from tracekit.timeline.unions import Unions, gaps, unions
from tracekit.trace import FRAME_COLUMNS, LOSS_COLUMNS, Trace
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import MANY_MISSING, Loss
from tracekit.vocabulary.ranks import process_number

T = TypeVar("T")
Column = NDArray[np.int64]
# Windows of a trace: [start, end) in ps, interval sets on every clock or by clock, or a table of named ones.
Windows = tuple[int, int] | Intervals | Mapping[str, Intervals] | pd.DataFrame

# The columns of events that hold for all of a row only.
_OF_WHOLE_ROWS = ("bytes", "wait_ps", "op")
_LEFT_OUT = (
    "Rows of compute were left out as the files were read (--reduce, or more than memory holds), and this rests on "
    "each of them. Report few steps (--only-steps), or few hosts, for it."
)
_NOT_ANNOTATED = "Its phases name the parts of this trace, not steps."


def part(make: "Callable[[Timeline], T]") -> T:
    """As a decorator: an attribute of a Timeline that is made when first asked for, once, whichever thread asks."""

    @wraps(make)
    def get(timeline: "Timeline") -> T:
        return timeline.once(make.__name__, lambda: make(timeline))

    return cast(T, property(get))


class Timeline:
    """A trace in order; of n rows, columns have shape (n,) and times are in ps.

    `trace` is the whole trace. `windows` (clock, name, start_ps, end_ps) are the only parts of it that count, in
    a Timeline that `inside` or `narrowed` gave; None where all does. `reduced` is the one of which it holds some hosts
    with all their rows (`all_rows_of`): its time, steps and collectives are those of both. Analyses change nothing
    here, and threads may share it.
    """

    def __init__(
        self,
        trace: Trace,
        windows: pd.DataFrame | None = None,
        whole: "Timeline | None" = None,
        origin: "Origin | None" = None,
        reduced: "Timeline | None" = None,
    ) -> None:
        self.trace = trace
        self.reduced = reduced
        self.windows = windows
        self._whole = whole
        self._origin = origin
        self._parts: dict[str, Any] = {}
        self._locks: dict[str, Lock] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Timeline of {self.trace.source or 'a trace'}: {len(self.trace.events):,} events>"

    @property
    def whole(self) -> "Timeline":
        """The Timeline of all of the trace."""
        return self._whole or self  # not kept as self: a cycle would keep all parts until they are collected

    @property
    def recorded(self) -> "Timeline":
        """The Timeline of all that was recorded, also on devices that were left out of this one."""
        if self._origin:
            return self._origin.timeline
        return self if self._whole is None else self._whole.recorded

    @property
    def is_narrowed(self) -> bool:
        """Whether it holds a part of what was recorded that is no phase: one that `narrowed` gave, or windows of it."""
        return self._origin is not None or (self._whole is not None and self._whole._origin is not None)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, called for the first time only; other threads that ask for the same wait for it."""
        if key not in self._parts:
            with self._lock:
                lock = self._locks.setdefault(key, Lock())
            with lock:
                if key not in self._parts:
                    self._parts[key] = make()
        return cast(T, self._parts[key])

    @part
    def _events_inside(self) -> tuple[pd.DataFrame, Column]:
        """The events inside the windows, and the place of each in those of the trace."""
        assert self.windows is not None
        return events_inside(self.whole.rows, _by_clock(self.windows))

    @part
    def rows(self) -> Rows:
        """The device rows, sorted; inside windows, each row is cut to the window it is in."""
        if self.windows is None:
            return rows(self.trace.events, self.trace.counts)
        return rows(self._events_inside[0])  # of how many others the rows inside stand for, nothing tells

    @part
    def place(self) -> Column:
        """The place of each row in the events of the trace."""
        return self.rows.at if self.windows is None else self._events_inside[1][self.rows.at]

    @property
    def place_recorded(self) -> Column:
        """The place of each row in the events of all that was recorded."""
        origin = self._origin or (self._whole and self._whole._origin)
        return origin.kept[self.place] if origin else self.place

    @part
    def is_cut(self) -> NDArray[np.bool_]:
        """Which rows reach over an edge of their window, (n,): of those, not all is told here."""
        if self.windows is None:
            return np.zeros(len(self.rows), bool)
        start, end = (self.trace.events[edge].to_numpy()[self.place] for edge in ("start_ps", "end_ps"))
        is_cut: NDArray[np.bool_] = (start < self.rows.start) | (end > self.rows.end)
        return is_cut

    @part
    def unions(self) -> Unions:
        """The merged intervals of each device and kind inside the windows."""
        if self.windows is None:
            windows = self.reduced.unions.windows if self.reduced else None
            return unions(self.rows, self.trace.merged, windows)
        return self.whole.unions.inside(_by_clock(self.windows))

    @part
    def moments(self) -> dict[str, Column]:
        """When the rows that last no time are, by device, which no union holds; of devices that have such rows."""
        rows = self.whole.rows
        places = np.flatnonzero(rows.end == rows.start)
        if self.windows is not None and len(places):
            places = places[rows_begin_inside(rows, places, self.unions.windows)]
        edges = np.flatnonzero(np.diff(rows.device[places], prepend=-1))
        names = [rows.devices[number] for number in rows.device[places[edges]].tolist()]
        return dict(zip(names, np.split(rows.start[places], edges[1:]), strict=True)) if names else {}

    @property
    def first_work(self) -> dict[str, int]:
        """The first start of any device row of all that was recorded, by clock, in ps of the trace."""
        return {clock: int(of[0, 0]) for clock, of in self.recorded.unions.windows.items() if len(of)}

    @part
    def launch(self) -> Column:
        """The place in `trace.launches` of the call that started each row, -1 for none."""
        if self._origin:
            return self._origin.of_rows(lambda timeline: timeline.launch)[self.place]
        if self.windows is None:
            return launch_of(self.rows, self.trace.launches)
        # Of several calls with one id the times of all rows tell, and of whole ones.
        launch = np.empty(len(self.whole.rows), np.int64)
        launch[self.whole.rows.at] = self.whole.launch
        return launch[self.place]

    @part
    def call_times(self) -> tuple[Column, Column]:
        """When each call of `trace.launches` begins and ends; as columns of the frame, what is asked once a device or
        host would take longer to be found than to be used."""
        calls = self.trace.launches
        return calls["start_ps"].to_numpy(), calls["end_ps"].to_numpy()

    @property
    def timed_launch(self) -> Column:
        """The same, -1 also for rows of devices whose times cannot be compared with those of their host."""
        errors = self.clock_errors
        if not errors:
            return self.launch
        is_wrong = np.array([*(name in errors for name in self.rows.devices), False], bool)
        return np.where(is_wrong[self.rows.device], -1, self.launch)

    @part
    def syncs(self) -> Syncs:
        """What each of `trace.syncs` waited for."""
        return syncs(self.rows, self.launch, self.trace.launches, self.trace.syncs)

    @part
    def lost_launches(self) -> pd.DataFrame:
        """The launches whose work is not in the trace, of the hosts that lack many (LOST_COLUMNS)."""
        return lost_launches(self.rows, self.launch, lambda: self.syncs, self.trace)

    @part
    def collectives(self) -> CollectiveInstances:
        """Which rows of which devices are one collective: `collectives.instance` (n,) is -1 for other rows."""
        if self.reduced:
            return _with_collectives_of(self.rows, self.reduced)
        if self._origin:
            recorded = self._origin.timeline
            instance = self._origin.of_rows(lambda timeline: timeline.collectives.instance)[self.place]
            return matched_inside(self.rows, recorded.rows, recorded.collectives, instance, self._window_of_row)
        return match(self.rows, self.world_size)

    @property
    def world_size(self) -> int | None:
        """How many ranks the job had at least, None where nothing says so: the most that a file tells, or that the
        numbers of files called after ranks count."""
        hosts = self.trace.hosts
        sizes = [int(size) for size in hosts["world_size"].dropna()]
        for names in (hosts["host"], hosts["source"].map(lambda source: Path(str(source)).name)):
            numbered = [process_number(str(name)) for name in names]
            if numbered and all(each and each[0] == "rank" for each in numbered):
                sizes.append(1 + max(number for _, number in filter(None, numbered)))
        return max(sizes, default=None)

    @part
    def spans(self) -> pd.DataFrame:
        """The spans of the trace (SPAN_COLUMNS), with the step of those that their name tells to be one."""
        if self.windows is not None:
            return self.whole.spans
        return step_spans(self.rows, self.trace.spans, self.trace.launches)

    @property
    def left_out(self) -> str:
        """Why nothing is told that rests on each row or its launch, "" where all rows are there."""
        return _LEFT_OUT if len(self.recorded.trace.counts) else ""

    @part
    def steps(self) -> StepBoundaries:
        """Where each step begins and ends; `steps.step_of` (n,) is the step of each row, -1 for none.

        Windows are no steps, and hold some only if those are annotated: an annotated step elsewhere would count with
        nothing in it. Narrowed, it has those of the whole trace that lie inside its windows.
        """
        if self._origin:
            step_of = self._origin.of_rows(lambda timeline: timeline.steps.step_of)[self.place]
            return steps_inside(self._origin.timeline.steps, step_of, self.unions.windows)
        spans = self.spans
        if self.windows is None:
            steps = self._of_all_hosts(boundaries(spans, evidence_of(self)))
            return _with_steps_of(steps, self.reduced.steps) if self.reduced else steps
        spans = spans_inside(spans, _by_clock(self.windows), clock_of_hosts(self.whole.rows))
        steps = boundaries(spans, evidence_of(self))
        if steps.lacking or steps.table["host_start_ps"].isna().any():
            return StepBoundaries(steps.table[:0], np.full(len(self.rows), -1), lacking=_NOT_ANNOTATED)
        return steps

    def _of_all_hosts(self, steps: StepBoundaries) -> StepBoundaries:
        """The steps, unless a host does not annotate them of which rows stand for others: by the annotations of other
        hosts, those may be of several steps."""
        if steps.lacking or not len(self.trace.counts) or (steps.table["marked_by"] != ANNOTATION).any():
            return steps
        hosts = self.trace.events["host"].iloc[self.trace.counts["event"]]
        return steps if hosts.isin({host for host, *_ in steps.ends}).all() else no_steps(self.rows, UNMARKED)

    @part
    def clock_of_host(self) -> dict[str, str]:
        """The clock of every host, with rows or without: that of its rows, else of its file.

        Where all rows are on one clock, every host is; a host without rows among several clocks has one of its own.
        """
        clock_of = clock_of_hosts(self.whole.rows)
        several = len(set(clock_of.values())) > 1
        only = next(iter(clock_of.values()), "")
        hosts = self.trace.hosts
        of_file = dict(zip(hosts["host"].astype(object), hosts["clock"].astype(object), strict=True))
        for frame in (hosts, self.trace.spans, self.trace.launches):
            labels = frame["host"].cat
            for host in map(str, labels.categories[np.unique(labels.codes.to_numpy())]):
                clock = of_file.get(host)
                clock_of.setdefault(host, (clock if isinstance(clock, str) else host) if several else only)
        return clock_of

    @part
    def clock_errors(self) -> dict[str, str]:
        """Why times of a device cannot be compared with its host's, of the devices of which launches or waits show it.

        Where that is so, nothing is told of the host's part in what the device did when.
        """
        table = self.trace.devices[self.trace.devices["clock_error"].notna()]
        return dict(zip(table["device"].astype(str), table["clock_error"].astype(str), strict=True))

    @property
    def clocks(self) -> list[str]:
        """The clocks that anything is on, at least one; a single one is mostly called ""."""
        return list(dict.fromkeys([*self.rows.clocks, *self.clock_of_host.values()])) or [""]

    def gaps(self, device: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows around each idle interval of a device: `before` and `after`, as timeline.gaps gives them."""
        return self.once(f"gaps {device}", lambda: gaps(self.rows, device))

    def inside(self, windows: Windows) -> "Timeline":
        """The same trace, where only what lies inside `windows` counts.

        An interval set counts on every clock, a mapping of them by clock; a table (clock, name, start_ps, end_ps) names
        its windows. Windows are those of the whole trace, also of a Timeline that is inside others already.
        """
        table = _table(windows, self.whole.unions.windows or {"": iv.EMPTY})
        key = f"inside {table.to_dict('list')}"
        return self.whole.once(key, lambda: Timeline(self.whole.trace, table, self.whole))

    def narrowed(self, windows: Windows | None = None, devices: Collection[str] | None = None) -> "Timeline":
        """The same trace, where only what lies inside `windows`, and on `devices`, counts; None for all of either.

        Steps, collectives and launches are told from all that was recorded: a step counts where it lies inside whole,
        and of a collective that is cut, or ran on other devices too, nothing is known of waiting.
        """
        recorded = self.recorded
        clocks = recorded.unions.windows
        table = _table(clocks if windows is None else windows, clocks or {"": iv.EMPTY})
        key = f"narrowed {table.to_dict('list')} {devices and sorted(devices)}"
        return recorded.once(key, lambda: recorded._narrowed(table, devices))

    def _narrowed(self, table: pd.DataFrame, devices: Collection[str] | None) -> "Timeline":
        trace, whole, kept = self.trace, self, np.arange(len(self.trace.events))
        if devices is not None:
            kept = np.flatnonzero(trace.events["device"].isin(list(devices)))
            named = trace.devices[trace.devices["device"].isin(list(devices))].reset_index(drop=True)
            memory = trace.memory[trace.memory["device"].isin(list(devices))].reset_index(drop=True)
            trace = trace.of_events(kept).changed(devices=named, memory=memory)
            whole = Timeline(trace, origin=Origin(self, kept))
        others = self.reduced.narrowed(table) if self.reduced and devices is None else None
        return Timeline(trace, table, whole, Origin(self, kept), others)

    @property
    def _window_of_row(self) -> Column:
        """The number of the window that each row lies in, of those of its clock; (n,)."""
        window_of_row = np.zeros(len(self.rows), np.int64)
        for device, clock in enumerate(self.rows.clocks):
            window = self.unions.windows.get(clock, iv.EMPTY)
            device_rows = self.rows.of(device)
            window_of_row[device_rows] = np.searchsorted(window[:, 0], self.rows.start[device_rows], side="right")
        return window_of_row


def all_rows_of(timeline: Timeline, devices: Collection[str]) -> Timeline:
    """The Timeline of the hosts of some devices alone, with all their rows, of one of which rows were left out: as
    their files tell, which are read again. Raises TraceError where one cannot be read any more, or has changed."""
    recorded = timeline.recorded
    rows = recorded.rows
    of_hosts = read_hosts(recorded.trace, sorted({rows.hosts[rows.number(device)] for device in devices}))
    return Timeline(of_hosts.changed(source=timeline.trace.source), reduced=timeline)


def _with_collectives_of(rows: Rows, others: "Timeline") -> CollectiveInstances:
    """The collectives of others, as those of all hosts are, with the `rows` in them that some hosts have: the k-th
    collective of a device is its k-th there, where none is left out."""
    instance = np.full(len(rows), -1)
    for number, name in enumerate(rows.devices):
        own, there = rows.of(number), others.rows.of(others.rows.number(name))
        is_own, is_there = (its.kind[at] == CODE[Kind.COLLECTIVE] for its, at in ((rows, own), (others.rows, there)))
        instance[own][is_own] = others.collectives.instance[there][is_there]
    return replace(others.collectives, instance=instance)


def _with_steps_of(own: StepBoundaries, others: StepBoundaries) -> StepBoundaries:
    """The steps of others, as those of all hosts are, with the rows in them that some hosts have in their own: the k-th
    of a clock, name and number is the k-th of all hosts."""
    key = ["clock", "name", "step"]
    tables = [
        steps.table[key].assign(often=steps.table.groupby(key, dropna=False).cumcount()) for steps in (own, others)
    ]
    step_of = tables[0].merge(tables[1].reset_index(), how="left", on=[*key, "often"])["index"]
    places = np.append(step_of.fillna(-1).to_numpy(np.int64), -1)
    return StepBoundaries(others.table, places[own.step_of], others.nested, others.lacking)


def evidence_of(timeline: Timeline) -> Evidence:
    """What tells the steps of a timeline, and the ranks of a job, beside its spans."""
    launches = timeline.trace.launches
    return Evidence(timeline.rows, timeline.launch, launches, lambda: timeline.collectives, timeline.world_size)


def why_unseen(timeline: Timeline) -> Unseen | None:
    """Why not all ranks of some collectives are in a timeline; None if all are. A part that was asked for may lack them
    though the trace does not."""
    why = unseen(timeline.rows, timeline.collectives, timeline.world_size)
    return (why_unseen(timeline.recorded) or Unseen.PART) if why and timeline.is_narrowed else why


@dataclass(frozen=True)
class Origin:
    """The `timeline` that another was narrowed from, and the place in its events of each event of the other's trace."""

    timeline: Timeline
    kept: Column

    def of_rows(self, value: Callable[[Timeline], Column]) -> Column:
        """What `value` says of each row of the timeline, for each of the kept events."""
        of_event = np.empty(len(self.timeline.rows), np.int64)
        of_event[self.timeline.rows.at] = value(self.timeline)
        return of_event[self.kept]


# What a user has in hand.
Source = Timeline | Trace | pd.DataFrame | str | os.PathLike[str]


def timeline_of(
    source: Source,
    windows: Windows | None = None,
    *,
    run: str | None = None,
    kinds: str | os.PathLike[str] | None = None,
    steps: tuple[int, int] | None = None,
    strict: bool = False,
    executor: Executor | None = None,
    reduction: Reduction | None = None,
) -> Timeline:
    """The Timeline of a trace, of an events frame (EVENT_COLUMNS) or of the trace at a path; a Timeline passes through.

    With `windows`, only what lies inside them counts (`Timeline.inside`). Of a path, `run`, `kinds`, `strict`,
    `executor` and `reduction` mean what they do for `tracekit.read`, and `steps` are read with one before and one
    behind. Raises TraceError where a path holds no trace, or a frame does not keep the contract, and TypeError for
    anything else.
    """
    if isinstance(source, pd.DataFrame):
        # Without the frame of operations, no row can name one.
        source = Trace(source.assign(op=pd.array([pd.NA] * len(source), "Int64")) if "op" in source else source)
    if not isinstance(source, Timeline | Trace):
        path_of(source, "a trace (its path, a Trace, its events frame or a Timeline)")
        read_steps = None if steps is None else with_context(steps)
        source = read(source, run, kinds, steps=read_steps, strict=strict, executor=executor, reduction=reduction)
    if isinstance(source, Trace):
        source = _of_whole_hosts(Timeline(source))
    return source if windows is None else source.inside(windows)


def _of_whole_hosts(timeline: Timeline) -> Timeline:
    """The Timeline without few of many hosts that lost work which they launched, as reading leaves few damaged files
    out whole: beside one of them nothing could be told of why the others waited."""
    trace = timeline.trace
    if MANY_MISSING * len(trace.hosts) <= 1 or not len(timeline.lost_launches):
        return timeline
    lost = timeline.lost_launches.sort_values("lost", ascending=False, kind="stable")
    if len(lost) >= MANY_MISSING * len(trace.hosts):
        return timeline
    kept = np.flatnonzero(~trace.events["host"].isin(lost["host"]))
    of_hosts = (name for name, columns in FRAME_COLUMNS.items() if "host" in columns and name != "events")
    frames = {name: getattr(trace, name) for name in of_hosts}
    whole = {name: table[~table["host"].isin(lost["host"])] for name, table in frames.items()}
    first = lost.iloc[0]
    what = f"{first['lost']:,} of {first['total']:,} kernels and copies that it launched have no row on a device"
    more = f"; and {len(lost) - 1} more" if len(lost) > 1 else ""
    files = Lost(Loss.FILES, len(lost), len(trace.hosts), f"{first['host']}, left out as {what}{more}")
    whole["losses"] = concat(LOSS_COLUMNS, [whole["losses"], losses.table("", [files])])
    left = {name: table.reset_index(drop=True) for name, table in whole.items()}
    return Timeline(trace.of_events(kept).changed(**left, notes=(*losses.notes([files]), *trace.notes)))


def _table(windows: Windows, clocks: Mapping[str, Intervals]) -> pd.DataFrame:
    """The windows as a table: clock, name, start_ps, end_ps."""
    if isinstance(windows, pd.DataFrame):
        return windows[["clock", "name", "start_ps", "end_ps"]].reset_index(drop=True)
    by_clock: Mapping[str, Any] = windows if isinstance(windows, Mapping) else dict.fromkeys(clocks, windows)
    sets = {clock: _interval_set(window_set) for clock, window_set in by_clock.items()}
    rows_of_table = [(clock, "window", a, b) for clock, window_set in sets.items() for a, b in window_set.tolist()]
    table = pd.DataFrame(rows_of_table, columns=["clock", "name", "start_ps", "end_ps"])
    return table.astype({"start_ps": "int64", "end_ps": "int64"})


def _interval_set(windows: object) -> Intervals:
    """One window or several as an interval set; raises TypeError for what is none."""
    pairs = np.asarray(windows)
    pairs = pairs.reshape(-1, 2) if pairs.ndim == 1 and len(pairs) in (0, 2) else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or (len(pairs) and pairs.dtype.kind not in "iu"):
        raise TypeError(
            f"windows {windows!r} are not pairs of integers (start_ps, end_ps). Those of a phase are in "
            "tracekit.phases(trace).windows."
        )
    return pairs.astype(np.int64)


def _by_clock(windows: pd.DataFrame) -> dict[str, Intervals]:
    return {
        str(clock): table[["start_ps", "end_ps"]].to_numpy(np.int64)
        for clock, table in windows.groupby("clock", sort=False)
    }


def events_inside(rows: Rows, windows: Mapping[str, Intervals]) -> tuple[pd.DataFrame, Column]:
    """The events in `windows`, interval sets by clock, each row cut to the window it is in; and the place in
    `rows.events` of each.

    A row that reaches over several windows is there once in each. Rows on a clock without windows are left out, and so
    are rows that only touch a window; of rows without length, those that lie in [start, end) of one stay. What is known
    of a whole row (bytes, waiting, operation) is null where it is cut: over the time that is left it would be false.
    """
    pieces = [np.zeros((3, 0), np.int64)]
    for device, clock in enumerate(rows.clocks):
        window = iv.union(windows.get(clock, iv.EMPTY))
        start, end = rows.start[rows.of(device)], rows.end[rows.of(device)]
        first_window = np.searchsorted(window[:, 1], start, side="right")
        last_window = np.searchsorted(window[:, 0], np.maximum(end, start + 1), side="left")
        counts = np.maximum(last_window - first_window, 0)
        row = np.repeat(np.arange(len(start)), counts)
        number = np.arange(len(row)) + np.repeat(first_window - np.cumsum(counts) + counts, counts)
        cut_start, cut_end = np.maximum(start[row], window[number, 0]), np.minimum(end[row], window[number, 1])
        pieces.append(np.stack([rows.at[rows.of(device)][row], cut_start, cut_end]))
    place, start, end = np.concatenate(pieces, axis=1)
    order = np.lexsort((start, place))
    events = rows.events.iloc[place[order]].reset_index(drop=True)
    is_cut = (events["start_ps"] != start[order]) | (events["end_ps"] != end[order])
    if is_cut.any():
        events = events.assign(**{column: events[column].mask(is_cut) for column in _OF_WHOLE_ROWS})
    return events.assign(start_ps=start[order], end_ps=end[order]), place[order]


def spans_inside(spans: pd.DataFrame, windows: Mapping[str, Intervals], clocks: Mapping[str, str]) -> pd.DataFrame:
    """The spans (SPAN_COLUMNS) that begin in `windows`, whole; `clocks` names the clock of each host.

    A host without device rows is on the only clock there is, or on none.
    """
    only_clock = next(iter(windows)) if len(windows) == 1 else None
    clock = spans["host"].astype(object).map(lambda host: clocks.get(str(host), only_clock)).to_numpy(object)
    return spans[begins_inside(spans["start_ps"].to_numpy(), clock, windows)]


def begins_inside(start: Column, clock: NDArray[np.object_], windows: Mapping[str, Intervals]) -> NDArray[np.bool_]:
    """Which of n starts in ps, each on a `clock`, lie in `windows`; all (n,)."""
    inside = np.zeros(len(start), bool)
    for name, window_set in windows.items():
        inside |= (clock == name) & _lies_in(start, window_set)
    return inside


def rows_begin_inside(rows: Rows, places: Column, windows: Mapping[str, Intervals]) -> NDArray[np.bool_]:
    """Which of the rows at k `places`, which rise, begin in the `windows` of their clock; (k,)."""
    inside = np.zeros(len(places), bool)
    edges = np.searchsorted(places, rows.first).tolist()
    for clock, low, high in zip(rows.clocks, edges[:-1], edges[1:], strict=True):
        inside[low:high] = _lies_in(rows.start[places[low:high]], windows.get(clock, iv.EMPTY))
    return inside


def _lies_in(moments: Column, window_set: Intervals) -> NDArray[np.bool_]:
    """Which of the moments lie in a set of windows; in one of no length none does."""
    window = iv.union(window_set)
    if not len(window):
        return np.zeros(len(moments), bool)
    window_before = np.searchsorted(window[:, 0], moments, side="right") - 1
    inside: NDArray[np.bool_] = (window_before >= 0) & (moments < window[window_before, 1])
    return inside
