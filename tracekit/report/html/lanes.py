"""The rows of a trace lane by lane, as the timeline shows them: device rows, then the host calls that started them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.devices import natural
from tracekit.report.model import Report
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
    """A device, a device that the trace does not prove (`cpu:?`, not `placed`), or a host with its calls."""

    name: str
    host: str
    clock: str
    kind: str


@dataclass(frozen=True)
class Lanes:
    """n rows by lane and start; the first `device_rows` are a device's, the others host calls.

    `lanes` are (place of the group, name, rows). Columns have shape (n,): `start` and `end` in ps, `name` a place in
    `names`, `kind` a place in CLASSES + host. Of device rows only, shape (device_rows,): `bytes` and `wait` (ps) with
    which of them are known, `step` (a place in the report's table of steps, -1 for none), `launch` (the row of the host
    call that started it, -1 where the trace has none) and `instance` (of a collective, else -1).
    """

    groups: tuple[Group, ...]
    lanes: tuple[tuple[int, str, int], ...]
    device_rows: int
    start: Column
    end: Column
    name: Column
    names: tuple[str, ...]
    kind: Column
    bytes: tuple[Column, NDArray[np.bool_]]
    wait: tuple[Column, NDArray[np.bool_]]
    step: Column
    launch: Column
    instance: Column
    notes: tuple[str, ...] = ()


def lanes(timeline: Timeline, looked_at: Timeline, calls: bool = True) -> Lanes:
    """The lanes of a trace: devices in natural order, those not proven last, then hosts.

    `looked_at` is what its steps are told of: all of it, or stretches. Only calls that started a row have a place;
    `calls` = False leaves all of them out.
    """
    trace, seen = timeline.trace, timeline.rows
    launch = timeline.launch if calls else np.full(len(seen), -1)
    # A row of the trace may be several of those inside the stretches, cut to as many of them.
    step = np.full(len(trace.events), -1)
    step[looked_at.place[::-1]] = looked_at.steps.step_of[::-1]
    step = step[seen.at]
    order, places = _by_lane(seen)
    groups = [
        Group(name, seen.hosts[at], seen.clocks[at], "device" if seen.placed[at] else "unplaced")
        for at, name in enumerate(seen.devices)
    ]
    used = np.flatnonzero(np.bincount(launch + 1, minlength=1)[1:])
    called, hosts, threads = _threads(trace.launches.iloc[used], timeline.clock_of_host, len(groups))
    number = np.full(len(trace.launches) + 1, -1)
    number[used[called]] = len(seen) + np.arange(len(used))
    call = trace.launches.iloc[used[called]]
    labels = seen.labels("name")
    names, codes = _names(labels, seen.codes("name")[order], call["name"])
    way = seen.codes("direction")[order]
    kind = np.where(way >= 0, len(KIND_DTYPE.categories) + way, seen.kind[order])
    return Lanes(
        groups=(*groups, *hosts),
        lanes=(*places, *threads),
        device_rows=len(seen),
        start=np.concatenate([seen.start[order], call["start_ps"].to_numpy()]),
        end=np.concatenate([seen.end[order], call["end_ps"].to_numpy()]),
        name=codes,
        names=names,
        kind=np.concatenate([kind, np.full(len(call), len(CLASSES))]),
        bytes=_known(seen, "bytes", order),
        wait=_known(seen, "wait_ps", order),
        step=step[order],
        launch=number[launch[order]],
        instance=timeline.collectives.instance[order],
    )


def _by_lane(seen: Rows) -> tuple[Column, list[tuple[int, str, int]]]:
    """The order by lane, stable, and the lanes: device, name, rows."""
    labels, lane = seen.labels("lane"), seen.codes("lane")
    ranked = np.argsort(np.array(sorted(range(len(labels)), key=lambda one: natural(labels[one])), np.int64))
    unproven = ~np.array([*seen.placed], bool)[seen.device] if len(seen) else np.zeros(0, bool)
    code = _dense((seen.device + unproven * len(seen.devices)) * max(len(labels), 1) + ranked[lane])
    order = np.argsort(code.astype(np.min_scalar_type(max(int(code.max(initial=0)), 1))), kind="stable")
    count = np.bincount(code) if len(code) else np.zeros(0, np.int64)
    first = order[np.cumsum(count) - count]
    devices, names = seen.device[first].tolist(), lane[first].tolist()
    return order, [(d, labels[n], rows) for d, n, rows in zip(devices, names, count.tolist(), strict=True)]


def _dense(codes: Column) -> Column:
    """The codes without gaps, in the same order; there are few, so that they are counted and not sorted."""
    found: Column = (np.cumsum(np.bincount(codes) > 0) - 1)[codes]
    return found


def _threads(
    calls: pd.DataFrame, clocks: dict[str, str], groups: int
) -> tuple[Column, list[Group], list[tuple[int, str, int]]]:
    """Host calls by host, thread and start: their order, a group a host (numbered from `groups`), a lane a thread."""
    host, thread = (calls[column].cat.codes.to_numpy(np.int64) for column in ("host", "thread"))
    hosts, threads = (list(map(str, calls[column].cat.categories)) for column in ("host", "thread"))
    order = np.lexsort((calls["end_ps"], calls["start_ps"], thread, host))
    every = np.bincount(host * max(len(threads), 1) + thread) if len(host) else np.zeros(0, np.int64)
    code, count = np.flatnonzero(every), every[every > 0]
    present = list(dict.fromkeys((code // max(len(threads), 1)).tolist()))
    made = [
        (groups + present.index(one // len(threads)), threads[one % len(threads)], n)
        for one, n in zip(code.tolist(), count.tolist(), strict=True)
    ]
    return order, [Group(hosts[one], hosts[one], clocks.get(hosts[one], ""), HOST) for one in present], made


def _names(labels: list[str], device: Column, calls: pd.Series) -> tuple[tuple[str, ...], Column]:
    """The names that occur, and the code of each row; host calls come after the device rows."""
    other = list(map(str, calls.cat.categories))
    codes = np.concatenate([device, len(labels) + calls.cat.codes.to_numpy(np.int64)])
    used = np.flatnonzero(np.bincount(codes))
    number = np.zeros(len(labels) + len(other) + 1, np.int64)
    number[used] = np.arange(len(used))
    every = [*labels, *other]
    return tuple(every[one] for one in used.tolist()), number[codes]


def _known(seen: Rows, column: str, order: Column) -> tuple[Column, NDArray[np.bool_]]:
    values, known = seen.numbers(column)
    return values[order], known[order]


def origins(report: Report) -> dict[str, int]:
    """Time 0 of the page in ps, by clock: the first start of any device row on that clock.

    Clocks that no device is on start at their first phase. There is at least one clock.
    """
    found: dict[str, int] = {}
    for clock, start in report.marks[["clock", "start_ps"]].itertuples(index=False):
        found[str(clock)] = min(found.get(str(clock), int(start)), int(start))
    found |= {clock: int(window[0, 0]) for clock, window in report.windows.items() if len(window)}
    return found or {"": 0}
