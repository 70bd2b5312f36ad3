"""The rows of a trace lane by lane, as the timeline shows them: device rows, then the host calls that started them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import numbered
from tracekit.devices import natural, type_of
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Timeline
from tracekit.trace import DIRECTION_DTYPE, KIND_DTYPE

Column = NDArray[np.int64]
# What the rows of a host lane are: calls, no work of a device.
HOST = "host"
# By class: kind, and direction of a copy.
CLASSES = [(str(kind), None) for kind in KIND_DTYPE.categories] + [
    ("memcpy", str(way)) for way in DIRECTION_DTYPE.categories
]


@dataclass(frozen=True)
class Group:
    """A device, a device that the trace does not prove (`cpu:?`, not `placed`), or a host with its calls.

    The lanes of a `pool` are threads that take whatever comes, so that they say nothing of the work.
    """

    name: str
    host: str
    clock: str
    kind: str
    pool: bool = False


@dataclass(frozen=True)
class Lanes:
    """n rows by lane and start; the first `device_rows` are a device's, the others host calls.

    `lanes` are (place of the group, name, rows). Columns have shape (n,): `start` and `end` in ps from time 0 of their
    clock, `name` a place in `names`, `kind` a place in CLASSES + host. Of device rows only, shape (device_rows,):
    `step` (a place in the report's table of steps, -1 for none), `launch` (the row of the host call that started it, -1
    where the trace has none) and `instance` (of a collective, else -1). `bytes` and `wait` (ps) are those that are
    known, with which of the device rows have one. `windows` are by clock what counts, in ps: from the first to the last
    work of all devices, drawn or not, or parts of that.
    """

    groups: tuple[Group, ...]
    lanes: tuple[tuple[int, str, int], ...]
    device_rows: int
    start: Column
    end: Column
    name: NDArray[np.int32]
    names: tuple[str, ...]
    kind: NDArray[np.int8]
    bytes: tuple[Column, NDArray[np.bool_]]
    wait: tuple[Column, NDArray[np.bool_]]
    step: NDArray[np.int32]
    launch: NDArray[np.int32]
    instance: NDArray[np.int32]
    windows: Mapping[str, Intervals]
    notes: tuple[str, ...] = ()

    def of_devices(self) -> "Lanes":
        """The same without the calls of the host."""
        n = self.device_rows
        return replace(
            self,
            groups=tuple(group for group in self.groups if group.kind != HOST),
            lanes=tuple(lane for lane in self.lanes if self.groups[lane[0]].kind != HOST),
            start=self.start[:n],
            end=self.end[:n],
            name=self.name[:n],
            names=self.names[: int(self.name[:n].max(initial=-1)) + 1],  # those of calls come after them
            kind=self.kind[:n],
            launch=np.full(n, -1, np.int32),
        )


def lanes(timeline: Timeline, compared: Timeline, zero: Mapping[str, int]) -> Lanes:
    """The lanes of a trace: devices in natural order, those not proven last, then hosts; `zero` is time 0 by clock.

    The steps are those of `compared`: all of the trace, or windows of it, of which the timeline may hold a part. Only
    calls that started a row have a place.
    """
    trace, rows, launch = timeline.trace, timeline.rows, timeline.launch
    # A row of the trace may be several of those inside the windows, cut to as many of them.
    step = np.full(len(timeline.recorded.trace.events), -1, np.int32)
    step[compared.place_recorded[::-1]] = compared.steps.step_of[::-1]
    step = step[timeline.place_recorded]
    order, places = _by_lane(rows)
    groups = [
        Group(
            name, rows.hosts[at], rows.clocks[at], "device" if rows.placed[at] else "unplaced", type_of(name) == "cpu"
        )
        for at, name in enumerate(rows.devices)
    ]
    used = np.flatnonzero(np.bincount(launch + 1, minlength=1)[1:])
    used, hosts, threads = _threads(trace.launches, used, timeline.clock_of_host, len(groups))
    number = np.full(len(trace.launches) + 1, -1, np.int32)
    number[used] = np.arange(len(rows), len(rows) + len(used), dtype=np.int32)
    names, codes = _names(rows.labels("name"), rows.codes("name")[order], trace.launches["name"], used)
    groups, lanes_of_rows = [*groups, *hosts], [*places, *threads]
    kind = np.append(_classes(rows)[order], np.full(len(used), len(CLASSES), np.int8))
    # Times come last: of millions of rows, few columns are held at once.
    step, number = step[order], number[launch[order]]
    instance = timeline.collectives.instance[order].astype(np.int32)
    start, end = (
        _taken(of_rows, order, of_calls, used)
        for of_rows, of_calls in zip((rows.start, rows.end), timeline.call_times, strict=True)
    )
    first = 0
    for group, _, count in lanes_of_rows:
        for column in (start, end):
            column[first : first + count] -= zero[groups[group].clock]
        first += count
    return Lanes(
        groups=tuple(groups),
        lanes=tuple(lanes_of_rows),
        device_rows=len(rows),
        start=start,
        end=end,
        name=codes,
        names=names,
        kind=kind,
        bytes=_numbers(rows, "bytes", order),
        wait=_numbers(rows, "wait_ps", order),
        step=step,
        launch=number,
        instance=instance,
        windows=timeline.unions.windows,
    )


def _classes(rows: Rows) -> NDArray[np.int8]:
    """The place of each row in CLASSES: its kind, or of a copy with a direction that."""
    direction = rows.codes("direction")
    return np.where(direction >= 0, len(KIND_DTYPE.categories) + direction, rows.kind).astype(np.int8)


def _taken(of_rows: Column, order: Column, of_calls: Column, used: Column) -> Column:
    """Some of one column behind some of another, none of which is held twice."""
    taken = np.empty(len(order) + len(used), np.int64)
    np.take(of_rows, order, out=taken[: len(order)], mode="clip")
    np.take(of_calls, used, out=taken[len(order) :], mode="clip")
    return taken


def _by_lane(rows: Rows) -> tuple[Column, list[tuple[int, str, int]]]:
    """The order by lane, stable, and the lanes: device, name, rows."""
    labels, lane = rows.labels("lane"), rows.codes("lane")
    rank = np.argsort(np.array(sorted(range(len(labels)), key=lambda code: natural(labels[code])), np.int64))
    unproven = ~rows.is_placed
    code = (rows.device + unproven * len(rows.devices)) * len(labels) + rank[lane]
    code, _ = numbered(code, 2 * len(rows.devices) * len(labels))
    count = np.bincount(code)
    order = np.argsort(code.astype(np.min_scalar_type(len(count))), kind="stable")
    first = order[np.cumsum(count) - count]
    devices, names = rows.device[first].tolist(), lane[first].tolist()
    return order, [(d, labels[name], n) for d, name, n in zip(devices, names, count.tolist(), strict=True)]


def _threads(
    launches: pd.DataFrame, used: Column, clocks: dict[str, str], groups: int
) -> tuple[Column, list[Group], list[tuple[int, str, int]]]:
    """The calls at the places `used` by host, thread and start: their places, a group a host (numbered from `groups`),
    a lane a thread."""
    hosts, threads = (list(map(str, launches[column].cat.categories)) for column in ("host", "thread"))
    key = launches["host"].cat.codes.to_numpy()[used].astype(np.int64) * len(threads)
    key += launches["thread"].cat.codes.to_numpy()[used]
    number, code = numbered(key, len(hosts) * len(threads))
    count = np.bincount(number)
    number = number.astype(np.min_scalar_type(len(count)))
    del key  # of millions of calls, few columns are held at once
    used = used[np.lexsort((*(launches[edge].to_numpy()[used] for edge in ("end_ps", "start_ps")), number))]
    present = list(dict.fromkeys((code // len(threads)).tolist()))
    lanes = [
        (groups + present.index(value // len(threads)), threads[value % len(threads)], n)
        for value, n in zip(code.tolist(), count.tolist(), strict=True)
    ]
    names = [hosts[code] for code in present]
    return used, [Group(name, name, clocks.get(name, ""), HOST) for name in names], lanes


def _names(
    labels: list[str], device: Column, calls: pd.Series, used: Column
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The names that occur, and the code of each row; those of the calls `used` come after those of the device rows."""
    texts, columns = [labels, [*map(str, calls.cat.categories)]], [device, calls.cat.codes.to_numpy()[used]]
    names: list[str] = []
    codes = []
    for labels_here, column in zip(texts, columns, strict=True):
        is_used = np.bincount(column, minlength=len(labels_here)) > 0
        codes.append((len(names) - 1 + np.cumsum(is_used)).astype(np.int32)[column])
        names += [labels_here[code] for code in np.flatnonzero(is_used).tolist()]
    return tuple(names), np.concatenate(codes)


def _numbers(rows: Rows, column: str, order: Column) -> tuple[Column, NDArray[np.bool_]]:
    """The values of a column that are there, in this order, and which rows have one."""
    values, has_value = rows.numbers(column)
    has_value = has_value[order]
    return values[order[has_value]], has_value
