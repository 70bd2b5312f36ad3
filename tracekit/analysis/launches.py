"""How the host's launches kept up with the devices: delays, queues, stretches bound by launches, and tiny kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.frames import typed
from tracekit.idleness.gaps import gaps
from tracekit.intervals import Intervals
from tracekit.jit import loop
from tracekit.rows import CODE, Rows
from tracekit.trace import Kind

# A queue is drawn, and bound stretches are found, in this many pieces of a device's time.
SLOTS = 1000
# A slot is bound by launches where the device was idle with an empty queue for more than half of it and yet launches
# started work in it: a long gap is no such slot. A stretch is of such slots, with at least this many launches.
BOUND_SHARE = (1, 2)
BOUND_LAUNCHES = 10
# The median distance of fewer launches says little about what a host needs for one.
LEAST_LAUNCHES = 20

_DELAY = {"n": "int64", "negative": "int64", "median_ps": "Int64", "p90_ps": "Int64", "p99_ps": "Int64"}
BY_DEVICE_COLUMNS = {"device": "str", **_DELAY, "unlinked": "int64"}
BY_CALL_COLUMNS = {"call": "str", **_DELAY}
QUEUE_COLUMNS = {
    "device": "str",
    "span_ps": "int64",
    "mean": "Float64",
    "max": "int64",
    "empty_ps": "int64",
    "empty_ratio": "Float64",
    "starved_ps": "int64",
    "starved_ratio": "Float64",
}
DEPTH_COLUMNS = {"device": "str", "start_ps": "int64", "end_ps": "int64", "mean": "Float64"}
BOUND_COLUMNS = {
    "device": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "launches": "int64",
    "starved_ps": "int64",
    "starved_ratio": "Float64",
}
THREAD_COLUMNS = {"host": "str", "thread": "str", "launches": "int64", "interval_ps": "Int64"}
TINY_COLUMNS = {"name": "str", "kernels": "int64", "time_ps": "int64", "cost_ps": "int64"}
TINY_BY_DEVICE_COLUMNS = {
    "device": "str",
    "kernels": "int64",
    "of_kernels_ratio": "Float64",
    "time_ps": "int64",
    "cost_ps": "int64",
    "cost_ratio": "Float64",
}


@dataclass(frozen=True)
class Launches:
    """How long launches took and whether they kept up; times in ps, one launch counts once per device.

    `by_device` (BY_DEVICE_COLUMNS), `by_call` (BY_CALL_COLUMNS): the delays from a call's begin to the start of the
    first row that it started on a device; `negative` ones show clocks that disagree and are in no quantile; `unlinked`
    rows have no launch. `queue` (QUEUE_COLUMNS): launches called but not started, over `span_ps` from a device's first
    start to its last end; `starved` is time in which the device was idle, too. `depth` (DEPTH_COLUMNS): the exact mean
    of the queue in SLOTS slots a device. `bound` (BOUND_COLUMNS): stretches bound by launches. `threads`
    (THREAD_COLUMNS): the median distance of successive launches of a thread. `tiny` (TINY_COLUMNS) by name and
    `tiny_by_device` (TINY_BY_DEVICE_COLUMNS; ratios of its launched kernels and of its span): kernels shorter than that
    distance, and what they cost. `lacking`: why there is nothing, else "".
    """

    by_device: pd.DataFrame
    by_call: pd.DataFrame
    queue: pd.DataFrame
    depth: pd.DataFrame
    bound: pd.DataFrame
    threads: pd.DataFrame
    tiny: pd.DataFrame
    tiny_by_device: pd.DataFrame
    lacking: str

    def __repr__(self) -> str:
        return notebook.line(self)

    def _repr_html_(self) -> str:
        return notebook.result(
            self,
            queue="device span_ps mean max empty_ratio starved_ratio",
            by_call="call n median_ps p90_ps p99_ps",
            tiny_by_device="",
        )


@dataclass(frozen=True)
class _First:
    """The first row of each launch on one device, by start, each column (m,): its place in Rows, when it started, and
    its launch with its begin; and the rows around each gap of the device (`gaps.gaps`)."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    launch: NDArray[np.int64]
    called: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


def launches(
    rows: Rows,
    launch: NDArray[np.int64],
    launches: pd.DataFrame,
    windows: Mapping[str, Intervals] | None = None,
) -> Launches:
    """How the launches kept up with each device that the trace places.

    `launch` (len(rows),) is what `links.launch_of` gives for `launches` (LAUNCH_COLUMNS). Queues are told of `windows`,
    interval sets by clock, as far as they lie between a device's first start and last end; without them, of all that.
    Quantiles are of the values themselves: the smallest that is at least as large as the stated share of them.
    """
    lacking = ""
    if len(launches) == 0:
        lacking = "The trace holds no host launches, so their delays and queues are not known."
    elif not (launch >= 0).any():
        lacking = "No work of a device is linked to a host launch, so delays and queues are not known."
    called = launches["start_ps"].to_numpy()
    counts = np.bincount(launch[launch >= 0], minlength=len(launches))
    interval, threads = _intervals(np.flatnonzero(counts), launches)
    placed = [device for device, good in enumerate(rows.placed) if good and (launch[rows.of(device)] >= 0).any()]
    queues, depth, bound, by_device, tiny_by_device = [], [], [], [], []
    delays, tiny = [], []
    for device in placed:
        work, inside = _first(rows, device, launch, counts, called), _inside(rows, device, windows)
        unlinked = int((launch[rows.of(device)] < 0).sum())
        delays.append((work.launch, work.start - work.called))
        by_device.append((rows.devices[device], *_delays(delays[-1][1]), unlinked))
        queue, means, stretches = _queue(rows, device, work, inside)
        queues.append(queue)
        depth.append(means)
        bound += stretches
        kernels, line = _tiny(rows, device, work, counts, interval, inside)
        tiny.append(kernels)
        tiny_by_device.append(line)
    return Launches(
        typed(BY_DEVICE_COLUMNS, by_device),
        typed(BY_CALL_COLUMNS, _by_call(launches, delays)),
        typed(QUEUE_COLUMNS, queues),
        pd.concat(depth, ignore_index=True) if depth else typed(DEPTH_COLUMNS),
        typed(BOUND_COLUMNS, bound),
        threads,
        typed(TINY_COLUMNS, _by_name(rows, tiny)),
        typed(TINY_BY_DEVICE_COLUMNS, tiny_by_device),
        lacking,
    )


def _first(
    rows: Rows, device: int, launch: NDArray[np.int64], counts: NDArray[np.int64], called: NDArray[np.int64]
) -> _First:
    """The work of a device; `counts` has the rows of each launch."""
    of = rows.of(device)
    row = np.flatnonzero(launch[of] >= 0) + of.start
    by = launch[row]
    if counts.max() > 1:
        seen = np.full(len(called), -1)
        # The last to be written stays, so the first row of each launch is written last.
        seen[by[::-1]] = row[::-1]
        row = row[seen[by] == row]
        by = launch[row]
    return _First(row, rows.start[row], by, called[by], *gaps(rows, device))


def _inside(rows: Rows, device: int, windows: Mapping[str, Intervals] | None) -> Intervals:
    """The part of `windows` between a device's first start and last end, or all of that."""
    of = rows.of(device)
    whole = iv.intervals([rows.start[of.start]], [rows.end[of].max()])
    return whole if windows is None else iv.intersection(whole, windows.get(rows.clocks[device], iv.EMPTY))


def _delays(delay: NDArray[np.int64]) -> tuple[int, int, int | None, int | None, int | None]:
    """How many delays, how many of them negative, and median, p90 and p99 of the rest, None if there is none."""
    good = delay[delay >= 0]
    if len(good) == 0:
        return len(delay), len(delay), None, None, None
    median, p90, p99 = _quantiles(good, (50, 90, 99))
    return len(delay), len(delay) - len(good), median, p90, p99


def _quantiles(values: NDArray[np.int64], shares: Sequence[int]) -> Sequence[int]:
    """The smallest of the values that is at least as large as each of the shares of them, in %."""
    at = [-(-len(values) * share // 100) - 1 for share in shares]
    found: list[int] = np.partition(values, at)[at].tolist()
    return found


def _by_call(
    launches: pd.DataFrame, delays: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> list[tuple[Any, ...]]:
    """The delays by name of the host call, the most frequent first; each device gives its launches and delays."""
    names = launches["name"].cat
    empty = np.empty(0, np.int64)
    launch, delay = (
        (np.concatenate([empty, *column]) for column in zip(*delays, strict=True)) if delays else (empty,) * 2
    )
    code = names.codes.to_numpy()[launch]
    called = np.flatnonzero(np.bincount(code)).tolist()
    found = [(str(names.categories[one]), *_delays(delay[code == one])) for one in called]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _queue(
    rows: Rows, device: int, work: _First, inside: Intervals
) -> tuple[tuple[Any, ...], pd.DataFrame, list[tuple[Any, ...]]]:
    """A row of `queue`, the rows of `depth`, and those of `bound` of one device."""
    name, of = rows.devices[device], rows.of(device)
    low, high = int(rows.start[of.start]), int(rows.end[of].max())
    good = work.start >= work.called
    start, called = work.start[good], work.called[good]
    begun = np.sort(called, kind="stable")  # linear where they are in order
    edges = np.append(np.arange(low, high, max(-(-(high - low) // SLOTS), 1)), high)
    held = np.diff(_integral(begun, edges) - _integral(start, edges))
    queued = iv.union(iv.intervals(called, start))
    idle = iv.union(iv.intervals(rows.end[work.before], rows.start[work.after]))
    starved = iv.intersection(iv.difference(idle, queued), inside)
    deepest = int(loop(_deepest, len(rows))(begun, start, low, high))
    span, hungry = iv.total(inside), iv.total(starved)
    empty = span - iv.total(iv.intersection(queued, inside))
    waiting = np.diff(_integral(begun, inside.ravel()) - _integral(start, inside.ravel()))[::2]
    mean = iv.sum_exactly(waiting) / span if span else None
    ratios = (empty / span, hungry / span) if span else (None, None)
    row = (name, span, mean, deepest, empty, ratios[0], hungry, ratios[1])
    depth = pd.DataFrame(
        {
            "device": pd.Series([name] * (len(edges) - 1), dtype="str"),
            "start_ps": edges[:-1],
            "end_ps": edges[1:],
            "mean": pd.array(held / np.maximum(np.diff(edges), 1), "Float64"),
        }
    )
    return row, depth, _bound(name, edges, starved, start)


def _deepest(begun: NDArray[np.int64], started: NDArray[np.int64], low: int, high: int) -> int:
    """The deepest queue that lasts for any time inside [low, high); both times rise, as many begin as start."""
    depth, deepest, i, j = 0, 0, 0, 0
    while j < len(started):
        now = started[j]
        if i < len(begun) and begun[i] < now:
            now = begun[i]
        # What happens at one moment leaves no time between.
        while i < len(begun) and begun[i] == now:
            depth += 1
            i += 1
        while j < len(started) and started[j] == now:
            depth -= 1
            j += 1
        if j < len(started):
            until = started[j]
            if i < len(begun) and begun[i] < until:
                until = begun[i]
            if depth > deepest and min(until, high) > max(now, low):
                deepest = depth
    return deepest


def _integral(moments: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integral of "how many of the rising moments are past" up to each time, modulo 2^64.

    The sums may overflow; the difference of two of them that fits in int64 is exact all the same.
    """
    past = np.searchsorted(moments, until, "right")
    area: NDArray[np.int64] = past * until - np.append(0, np.cumsum(moments))[past]
    return area


def _bound(name: str, edges: NDArray[np.int64], starved: Intervals, start: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    """The stretches of slots bound by launches in which BOUND_LAUNCHES launches or more started work."""
    slots = iv.intervals(edges[:-1], edges[1:])
    hungry = iv.within(starved, slots)
    share, whole = BOUND_SHARE
    some = iv.union(slots[(hungry * whole > np.diff(edges) * share) & (np.diff(np.searchsorted(start, edges)) > 0)])
    counts = np.searchsorted(start, some[:, 1]) - np.searchsorted(start, some[:, 0])
    times = iv.within(starved, some)
    return [
        (name, begin, end, count, time, time / (end - begin))
        for (begin, end), count, time in zip(some.tolist(), counts.tolist(), times.tolist(), strict=True)
        if count >= BOUND_LAUNCHES
    ]


def _intervals(used: NDArray[np.int64], launches: pd.DataFrame) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """For each launch the median distance between successive launches of its thread, 0 where that is unknown; and the
    same as a table.

    Only `used` calls count, those that started work, and a thread needs LEAST_LAUNCHES of them.
    """
    hosts, threads = launches["host"].cat, launches["thread"].cat
    key = hosts.codes.to_numpy()[used].astype(np.int64) * max(len(threads.categories), 1)
    key += threads.codes.to_numpy()[used]
    counts = np.bincount(key)
    kinds = np.flatnonzero(counts)
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = np.argsort(key.astype(np.min_scalar_type(len(counts))), kind="stable")
    ends = np.cumsum(counts[kinds])
    called = launches["start_ps"].to_numpy()
    interval, rows = np.zeros(len(launches), np.int64), []
    for kind, begin, end in zip(kinds.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False):
        mine = used[order[begin:end]]
        # Sorting what is in order is linear if it is stable.
        apart = np.diff(np.sort(called[mine], kind="stable"))
        median = _quantiles(apart, (50,))[0] if len(mine) >= LEAST_LAUNCHES else None
        interval[mine] = median or 0
        host, name = divmod(kind, len(threads.categories))
        rows.append((str(hosts.categories[host]), str(threads.categories[name]), len(mine), median))
    rows.sort(key=lambda one: -one[2])
    return interval, typed(THREAD_COLUMNS, rows)


def _tiny(
    rows: Rows,
    device: int,
    work: _First,
    counts: NDArray[np.int64],
    interval: NDArray[np.int64],
    inside: Intervals,
) -> tuple[tuple[NDArray[np.int64], ...], tuple[Any, ...]]:
    """The kernels of a device that are shorter than the host needs to launch one: the code of the name, the time and
    the cost of each, and the device's row of `tiny_by_device`.

    Only kernels with a launch of their own count (`counts`: rows of each launch). Each costs the part of the idle
    interval that it ends in which it was not launched yet, but no more than one distance of launches: that is what not
    launching it would save at most.
    """
    start = int(rows.first[device])
    # The kernel that ends a gap costs the host's part of it.
    lost = np.zeros(int(rows.first[device + 1]) - start, np.int64)
    kernels = np.flatnonzero((rows.kind[work.row] == CODE[Kind.COMPUTE]) & (counts[work.launch] == 1))
    row, least = work.row[kernels], interval[work.launch[kernels]]
    lasted = rows.end[row] - rows.start[row]
    tiny = np.flatnonzero(lasted < least)
    called = np.full(len(lost), np.iinfo(np.int64).min)
    called[row[tiny] - start] = work.called[kernels[tiny]]
    begin = rows.end[work.before]
    late = np.minimum(np.maximum(called[work.after - start], begin), rows.start[work.after]) - begin
    if len(inside) > 1:
        late = iv.within(inside, iv.intervals(begin, begin + late))
    lost[work.after - start] = late
    row, lasted = row[tiny], lasted[tiny]
    cost = np.minimum(lost[row - start], least[tiny])
    total, span = iv.sum_exactly(cost), iv.total(inside)
    share = len(tiny) / len(kernels) if len(kernels) else None
    times = iv.sum_exactly(lasted), total, total / span if span else None
    return (rows.codes("name")[row], lasted, cost), (rows.devices[device], len(tiny), share, *times)


def _by_name(rows: Rows, tiny: Sequence[tuple[NDArray[np.int64], ...]]) -> list[tuple[Any, ...]]:
    """The kernels that `_tiny` found, by name, the costliest first."""
    empty = np.empty(0, np.int64)
    code, time, cost = (np.concatenate(columns) for columns in zip((empty,) * 3, *tiny, strict=True))
    labels = rows.labels("name")
    count = np.bincount(code, minlength=len(labels))
    some = np.flatnonzero(count)
    which = (np.cumsum(count > 0) - 1)[code]
    sums = iv.sums(time, which, len(some)), iv.sums(cost, which, len(some))
    table = [(labels[one], int(count[one]), spent, lost) for one, spent, lost in zip(some.tolist(), *sums, strict=True)]
    return sorted(table, key=lambda one: (-one[3], -one[2], one[0]))
