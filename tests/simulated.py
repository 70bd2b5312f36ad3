"""Programs of host threads and device lanes, run by a simulator that knows nothing of graphs: it counts time in ticks.

A thread runs its instructions in order, on a host of its own, whose devices no other serves. A lane runs what was
launched on it in order, one at a time. A program is written down as what the threads do; `run` gives when everything
happened, `Recording.trace` the trace of it.
"""

from dataclasses import dataclass, field, replace

import pandas as pd

from tracekit.columns import frame
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS, SPAN_COLUMNS, SYNC_COLUMNS, Trace

Lane = tuple[int, int]  # device, stream


@dataclass(frozen=True)
class Do:
    """One instruction of a thread.

    `what`: "work" for `call` ticks; "launch" a row of `kind` that lasts `ticks`, in a call of `call` ticks; "copy": a
    memcpy whose call returns `call` ticks after it; "sync": wait for all that was launched so far on `lane` (or,
    `whole`, on its device), then take `call` ticks; "record": note what was launched so far on `lane` as `event`, in
    `call` ticks; "hold": let `lane` wait for `event`, in `call` ticks. A row of kind "collective" belongs to collective
    `event`.
    """

    what: str
    call: int = 1
    lane: Lane = (0, 0)
    kind: str = "compute"
    ticks: int = 0
    name: str = ""
    event: int = 0
    whole: bool = False


Program = list[list[Do]]


@dataclass
class Item:
    """What stands in a lane: a row, or a wait for the rows of an event."""

    lane: Lane
    do: Do | None
    launched: int
    thread: int
    at: int
    behind: list["Item"] = field(default_factory=list)
    start: int = -1
    end: int = -1


# Of an event: the lane, the moment, and the rows that were on the lane then.
Marks = dict[int, tuple[Lane, int, list[Item]]]


@dataclass
class Recording:
    """When everything happened: rows, calls as (thread, instruction, start, end, do), and the work of threads."""

    rows: list[Item]
    calls: list[tuple[int, int, int, int, Do]]
    works: list[tuple[int, int, int]]
    holds: dict[tuple[int, int], tuple[Lane, int]]

    @property
    def end(self) -> int:
        """When the last row or call ended."""
        return max([row.end for row in self.rows] + [end for _, _, _, end, _ in self.calls], default=0)

    def trace(self) -> Trace:
        """What a profiler would have seen: one tick is one picosecond."""
        rows = sorted(self.rows, key=lambda row: (row.thread, row.at))
        started = [(thread, at) for thread, at, _, _, do in self.calls]
        events = {
            "host": [f"h{row.thread}" for row in rows],
            "device": [_device(row.thread, row.lane) for row in rows],
            "lane": [f"stream {row.lane[1]}" for row in rows],
            "kind": [row.do.kind for row in rows],
            "name": [row.do.name or row.do.kind for row in rows],
            "start_ps": [row.start for row in rows],
            "end_ps": [row.end for row in rows],
            "correlation_id": [started.index((row.thread, row.at)) for row in rows],
        }
        launches = {
            "host": [f"h{thread}" for thread, *_ in self.calls],
            "thread": [f"t{thread}" for thread, *_ in self.calls],
            "name": [do.what for *_, do in self.calls],
            "start_ps": [start for _, _, start, _, _ in self.calls],
            "end_ps": [end for _, _, _, end, _ in self.calls],
            "correlation_id": list(range(len(self.calls))),
        }
        spans = {
            "host": [f"h{thread}" for thread, _, _ in self.works],
            "thread": [f"t{thread}" for thread, _, _ in self.works],
            "name": ["python"] * len(self.works),
            "start_ps": [start for _, start, _ in self.works],
            "end_ps": [end for _, _, end in self.works],
        }
        return Trace(
            events=frame(EVENT_COLUMNS, events),
            spans=frame(SPAN_COLUMNS, spans),
            launches=frame(LAUNCH_COLUMNS, launches),
            syncs=self._syncs(),
            source="simulated",
            format="test",
        )

    def _syncs(self) -> pd.DataFrame:
        waits = []
        for thread, at, start, end, do in self.calls:
            if do.what == "sync":
                lane = None if do.whole else f"stream {do.lane[1]}"
                on = _device(thread, do.lane)
                waits.append((f"h{thread}", None, f"t{thread}", "sync", start, end, None, None, on, lane, start, None))
            if do.what == "hold" and (thread, at) in self.holds:
                on, recorded = self.holds[thread, at]
                ends = _device(thread, do.lane), f"stream {do.lane[1]}", _device(thread, on), f"stream {on[1]}"
                waits.append((f"h{thread}", None, f"t{thread}", "hold", start, end, *ends, recorded, None))
        columns = map(list, zip(*waits, strict=True))
        return frame(SYNC_COLUMNS, dict(zip(SYNC_COLUMNS, columns, strict=True)) if waits else {})


def _device(thread: int, lane: Lane) -> str:
    """Each thread is on a host of its own, all on one clock."""
    return f"h{thread}/gpu:{lane[0]}"


def run(program: Program, latency: int = 0, apart: bool = False) -> Recording:
    """Run a program tick by tick; a row starts `latency` ticks after its call began or later.

    A collective's members all end their own `ticks` after the last of them has started; `apart`, each after its own.
    """
    members: dict[int, int] = {}
    for do in (do for thread in program for do in thread):
        if do.what == "launch" and do.kind == "collective":
            members[do.event] = members.get(do.event, 0) + 1
    lanes: dict[Lane, list[Item]] = {}
    recording = Recording([], [], [], {})
    marks: Marks = {}
    at = [0] * len(program)  # the instruction that each thread is in
    begun = [-1] * len(program)
    free = [-1] * len(program)  # when it ends, -1: not known yet
    behind: list[list[Item]] = [[] for _ in program]
    now = 0
    while True:
        moved = True
        while moved:
            moved = False
            for queue in lanes.values():
                moved |= _lane(queue, now, latency, apart, members, recording)
            for thread, todo in enumerate(program):
                if at[thread] == len(todo):
                    continue
                do = todo[at[thread]]
                if begun[thread] < 0:
                    begun[thread], behind[thread] = now, []
                    _begin(do, thread, at[thread], now, lanes, marks, behind[thread], recording)
                    moved = True
                if free[thread] < 0 and all(0 <= item.end <= now for item in behind[thread]):
                    free[thread] = now + do.call
                    moved = True
                if 0 <= free[thread] <= now:
                    if do.what == "work":
                        recording.works.append((thread, begun[thread], now))
                    else:
                        recording.calls.append((thread, at[thread], begun[thread], now, do))
                    at[thread], begun[thread], free[thread] = at[thread] + 1, -1, -1
                    moved = True
        if all(at[thread] == len(todo) for thread, todo in enumerate(program)) and all(
            0 <= item.end <= now for queue in lanes.values() for item in queue
        ):
            return recording
        now += 1
        assert now < 10_000, "the program does not end"


def _begin(
    do: Do, thread: int, at: int, now: int, lanes: dict[Lane, list[Item]], marks: Marks,
    behind: list[Item], recording: Recording,
) -> None:  # fmt: skip
    queue = lanes.setdefault(do.lane, [])
    rows = [item for item in queue if item.do]
    if do.what in ("launch", "copy"):
        item = Item(do.lane, do if do.what == "launch" else replace(do, kind="memcpy"), now, thread, at)
        queue.append(item)
        recording.rows.append(item)
        if do.what == "copy":
            behind.append(item)
    elif do.what == "sync":
        for lane, other in lanes.items():
            if lane == do.lane or (do.whole and lane[0] == do.lane[0]):
                behind.extend(other)  # with what the lane is held for
    elif do.what == "record":
        marks[do.event] = do.lane, now, rows
    elif do.what == "hold" and do.event in marks:
        on, recorded, rows = marks[do.event]
        recording.holds[thread, at] = on, recorded
        queue.append(Item(do.lane, None, now, thread, at, rows))


def _lane(
    queue: list[Item], now: int, latency: int, apart: bool, members: dict[int, int], recording: Recording
) -> bool:
    """Start what can start on one lane, and end collectives that have met; whether anything happened."""
    for item in queue:
        if 0 <= item.end <= now:
            continue
        if item.start >= 0:
            if item.end < 0 and item.do and item.do.kind == "collective":
                same = [row for row in recording.rows if row.do.kind == "collective" and row.do.event == item.do.event]
                if sum(row.start >= 0 for row in same) == members[item.do.event]:
                    item.end = max(row.start for row in same) + item.do.ticks
                    return True
            return False
        if item.do is None:
            if any(not 0 <= awaited.end <= now for awaited in item.behind):
                return False
            item.start = item.end = now
            return True
        if now < item.launched + latency:
            return False
        item.start = now
        if item.do.kind != "collective" or apart:
            item.end = now + item.do.ticks
        return True
    return False
