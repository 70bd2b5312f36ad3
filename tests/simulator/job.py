"""What a job does: activities that wait for each other, and the rows that a profiler would write of them.

A rank is a process with host threads and one GPU, whose streams run what is launched on them in order. An activity
begins as soon as all that it waits for has ended, each with a lag behind it. All durations are drawn when the job is
made, so that the same job can be simulated again without some of its work. Times are integer nanoseconds.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MAIN, BACKWARD = 0, 1
COMPUTE_STREAM, COMMUNICATION_STREAM, COPY_STREAM = 7, 20, 24


class Part(StrEnum):
    """What an activity is, or the lag between two."""

    COMPUTE = "compute"
    TRANSFER = "collective transfer"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    WORK = "host work"
    CALL = "host launch"
    LATENCY = "launch latency"
    GAP = "queue gap"
    WAKE = "sync wake"


DEVICE_PARTS = (Part.COMPUTE, Part.TRANSFER, Part.MEMCPY, Part.MEMSET)


class Sort(StrEnum):
    """What a row of a trace is."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    LAUNCH = "launch"
    RECORD = "record"
    HOLD = "hold"
    SYNC = "sync"
    RANGE = "range"
    OP = "op"
    STEP = "step"


DEVICE_SORTS = (Sort.KERNEL, Sort.MEMCPY, Sort.MEMSET)


@dataclass(frozen=True, slots=True)
class Wait:
    """That an activity begins `lag_ns` after another has ended or later; `part` says what the lag is."""

    after: int
    lag_ns: int = 0
    part: Part = Part.WORK


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing that takes time on a thread or a stream.

    The first of its `waits` is the order of its thread, or the launch of its stream's work. The members of a
    `collective` (-1: none) end together, `length_ns` after the last of them has begun. `loads` marks data loading.
    """

    part: Part
    length_ns: int
    waits: tuple[Wait, ...]
    rank: int
    step: int
    name: str = ""
    collective: int = -1
    loads: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What a profiler writes: from the begin of activity `first` to the end of `last`.

    A row of a host begins when its thread has come to `first`, which may then have to wait. `lane` is a stream or a
    thread; `stream` what a call is about, -1 for the whole device. `recorded`: the correlation id of the record whose
    event is waited for, 0 for none.
    """

    sort: Sort
    name: str
    rank: int
    lane: int
    first: int
    last: int
    step: int
    correlation: int = 0
    stream: int = -1
    recorded: int = 0
    recorded_stream: int = -1
    bytes: int = 0
    direction: str = ""
    collective: int = -1


@dataclass(frozen=True)
class Job:
    """The activities of all ranks, and their rows; `steps` are numbered from 0.

    `reads_named`: data loading has rows. `has_sync_records`: what is waited for is said even where a format
    may leave it out. `step_label`: what NVTX ranges of steps are called.
    """

    ranks: int
    steps: int
    activities: list[Activity]
    rows: list[Row]
    reads_named: bool = True
    has_sync_records: bool = True
    step_label: str = "ProfilerStep#{}"


@dataclass(frozen=True)
class Mark:
    """An event: the last item of a stream when it was recorded (-1: none), and the record's correlation id."""

    item: int
    correlation: int
    stream: int


@dataclass
class Builder:
    """A job in the making: each method appends what one thread does next.

    `depth`: so many launches a stream takes before a further call has to wait for the first of them to end, 0 for any
    number.
    """

    ranks: int
    depth: int = 0
    step: int = 0
    activities: list[Activity] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    _threads: dict[tuple[int, int], int] = field(default_factory=dict)
    _items: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _held: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _correlations: dict[int, int] = field(default_factory=dict)

    def job(self, **more: Any) -> Job:
        """What was built; `more` are further fields of Job."""
        return Job(self.ranks, self.step + 1, self.activities, self.rows, **more)

    def work(self, rank: int, ns: int, thread: int = MAIN, *, loads: bool = False) -> int:
        """The thread works without a call."""
        return self._on_thread(rank, thread, Part.WORK, ns, loads=loads)

    def hand_over(self, rank: int, source: int, target: int, ns: int) -> int:
        """A thread goes on when another has come to where it is now, `ns` of work later."""
        waits = (Wait(self._threads[rank, source]),)
        self._threads[rank, target] = self._add(Activity(Part.WORK, ns, waits, rank, self.step))
        return self._threads[rank, target]

    def launch(
        self, rank: int, sort: Sort, name: str, ns: int, *, thread: int = MAIN, stream: int = COMPUTE_STREAM,
        call: str = "cudaLaunchKernel", call_ns: int = 2000, latency_ns: int = 3000, gap_ns: int = 1000,
        collective: int = -1, size: int = 0, direction: str = "", wake_ns: int | None = None,
    ) -> int:  # fmt: skip
        """Launch an item on a stream; with `wake_ns` the call returns so long after the item has ended."""
        items = self._items.setdefault((rank, stream), [])
        full = [Wait(items[-self.depth])] if self.depth and len(items) >= self.depth else []
        submitted = self._on_thread(rank, thread, Part.CALL, call_ns, full)
        waits = [Wait(submitted, latency_ns, Part.LATENCY)]
        if items:
            waits.append(Wait(items[-1], gap_ns, Part.GAP))
        waits += [Wait(item, gap_ns, Part.GAP) for item in self._held.pop((rank, stream), [])]
        part = {Sort.MEMCPY: Part.MEMCPY, Sort.MEMSET: Part.MEMSET}.get(sort, Part.COMPUTE)
        part = Part.TRANSFER if collective >= 0 else part
        item = self._add(Activity(part, ns, tuple(waits), rank, self.step, name, collective))
        items.append(item)
        correlation = self._correlation(rank)
        returned = submitted
        if wake_ns is not None:
            returned = self._on_thread(rank, thread, Part.CALL, 500, [Wait(item, wake_ns, Part.WAKE)])
        self._row(Sort.LAUNCH, call, rank, thread, submitted, returned, correlation=correlation, stream=stream)
        self._row(
            sort, name, rank, stream, item, item, correlation=correlation, stream=stream, bytes=size,
            direction=direction, collective=collective,
        )  # fmt: skip
        return item

    def record(self, rank: int, stream: int, thread: int = MAIN, call_ns: int = 1000) -> Mark:
        """Record an event on a stream."""
        call = self._on_thread(rank, thread, Part.CALL, call_ns)
        mark = Mark(self._items.get((rank, stream), [-1])[-1], self._correlation(rank), stream)
        self._row(Sort.RECORD, "cudaEventRecord", rank, thread, call, call, correlation=mark.correlation, stream=stream)
        return mark

    def hold(self, rank: int, stream: int, mark: Mark, thread: int = MAIN, call_ns: int = 1000) -> None:
        """Let all that is launched on `stream` from now on wait for an event."""
        call = self._on_thread(rank, thread, Part.CALL, call_ns)
        if mark.item >= 0:
            self._held.setdefault((rank, stream), []).append(mark.item)
        self._row(
            Sort.HOLD, "cudaStreamWaitEvent", rank, thread, call, call, correlation=self._correlation(rank),
            stream=stream, recorded=mark.correlation, recorded_stream=mark.stream,
        )  # fmt: skip

    def sync(
        self, rank: int, *, stream: int = -1, mark: Mark | None = None, thread: int = MAIN, call_ns: int = 1000,
        wake_ns: int = 3000,
    ) -> None:  # fmt: skip
        """Wait for the device, a stream or an event."""
        if mark is not None:
            name, awaited, stream = "cudaEventSynchronize", [mark.item], mark.stream
        else:
            name = "cudaStreamSynchronize" if stream >= 0 else "cudaDeviceSynchronize"
            awaited = [
                items[-1] for (owner, own), items in self._items.items() if owner == rank and stream in (-1, own)
            ]
        waits = [Wait(item, wake_ns, Part.WAKE) for item in awaited if item >= 0]
        call = self._on_thread(rank, thread, Part.CALL, call_ns, waits)
        self._row(
            Sort.SYNC, name, rank, thread, call, call, correlation=self._correlation(rank), stream=stream,
            recorded=mark.correlation if mark else 0, recorded_stream=stream if mark else -1,
        )  # fmt: skip

    def span(self, sort: Sort, name: str, rank: int, first: int, thread: int = MAIN) -> None:
        """A range of a thread, from activity `first` to the last one now."""
        self._row(sort, name, rank, thread, first, self._threads[rank, thread])

    def next(self) -> int:
        """The number of the activity that comes next."""
        return len(self.activities)

    def _on_thread(
        self, rank: int, thread: int, part: Part, ns: int, waits: list[Wait] | None = None, *, loads: bool = False
    ) -> int:
        before = self._threads.get((rank, thread), -1)
        order = [Wait(before)] if before >= 0 else []
        number = self._add(Activity(part, ns, (*order, *(waits or ())), rank, self.step, loads=loads))
        self._threads[rank, thread] = number
        return number

    def _add(self, activity: Activity) -> int:
        self.activities.append(activity)
        return len(self.activities) - 1

    def _correlation(self, rank: int) -> int:
        self._correlations[rank] = self._correlations.get(rank, 100) + 1
        return self._correlations[rank]

    def _row(
        self, sort: Sort, name: str, rank: int, lane: int, first: int, last: int, *, correlation: int = 0,
        stream: int = -1, recorded: int = 0, recorded_stream: int = -1, bytes: int = 0, direction: str = "",
        collective: int = -1,
    ) -> None:  # fmt: skip
        self.rows.append(
            Row(
                sort, name, rank, lane, first, last, self.step, correlation, stream, recorded, recorded_stream, bytes,
                direction, collective,
            )
        )  # fmt: skip
