"""The summary that a trace shows of itself: how long, which devices, their events by kind, how busy they were.

It sorts and unites the events of a device itself, since a notebook asks for it unasked: from the frames alone it takes
some 50 ms for a million events, many times less than it takes to put the trace in order (timeline.rows,
timeline.unions). A test holds both equal.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import notebook
from tracekit.devices import is_known, known_first
from tracekit.units import count, percent, quantity, time

# A longer table is read by nobody.
MAX_DEVICES = 16


def line(source: str, form: str, events: pd.DataFrame) -> str:
    """A trace in one line: `<Trace demo: 2 devices, 1,234 events, 3.20 s, xplane>`."""
    names = _used(events)
    several = len(events) and events["clock"].cat.codes.min() != events["clock"].cat.codes.max()
    length = time(int(events["end_ps"].max()) - int(events["start_ps"].min())) if len(events) else ""
    facts = [
        quantity(sum(is_known(name) for name in names.values()), "device"),
        quantity(len(events), "event"),
        "several clocks" if several else length,
        form,
    ]
    return notebook.visible(f"<Trace {PurePath(source).name}: {', '.join(fact for fact in facts if fact)}>")


def html(source: str, form: str, frames: Mapping[str, pd.DataFrame], notes: Sequence[str]) -> str:
    """A trace for a notebook; `frames` are all its frames by name."""
    table, kinds = devices(frames["events"]), [str(kind) for kind in frames["events"]["kind"].cat.categories]
    hosts = frames["hosts"]["host"].nunique()
    facts = [source, form, quantity(hosts, "host") if hosts else "", _windows(table)]
    first = table[["device", *kinds, "busy_ratio"]].head(MAX_DEVICES).itertuples(index=False)
    rows = [[name, *map(count, counts), percent(ratio)] for name, *counts, ratio in first]
    idle = len(set(frames["devices"]["device"]) - set(table["device"]))
    rest = [f"{len(table) - len(rows)} more devices"] if len(rows) < len(table) else []
    rest += [f"{quantity(idle, 'device')} without events"] if idle else []
    sizes = [f"{name} {count(len(frame))}" for name, frame in frames.items() if len(frame)]
    return notebook.block(
        notebook.heading("Trace", ", ".join(fact for fact in facts if fact)),
        notebook.table("", ["device", *kinds, "busy"], rows) if rows else "",
        notebook.sentence(f"And {' and '.join(rest)}." if rest else ""),
        notebook.sentence(f"Rows of its frames: {', '.join(sizes)}." if sizes else ""),
        notebook.noted(notes),
    )


def devices(events: pd.DataFrame) -> pd.DataFrame:
    """The devices that have events, in natural order, what the trace does not place last.

    Columns: device; clock, a number; one per kind, how many events; busy_ps, their union; window_ps, from the first
    start to the last end on that clock; busy_ratio, null where the window is empty.
    """
    device, kind, clock = (events[column].cat.codes.to_numpy() for column in ("device", "kind", "clock"))
    start, end = events["start_ps"].to_numpy(), events["end_ps"].to_numpy()
    names, kinds = _used(events), list(map(str, events["kind"].cat.categories))
    order = np.argsort(device, kind="stable")  # codes of few bytes, which are sorted in linear time
    rows = []
    for code in sorted(names, key=lambda code: known_first(names[code])):
        mine = order[slice(*np.searchsorted(device, (code, code + 1), sorter=order))]
        counts = np.bincount(kind[mine], minlength=len(kinds)).tolist()
        rows.append((names[code], int(clock[mine[0]]), *counts, *_reach(start[mine], end[mine])))
    table = pd.DataFrame(rows, columns=["device", "clock", *kinds, "start_ps", "end_ps", "busy_ps"])
    by_clock = table.groupby("clock")
    window = by_clock["end_ps"].transform("max") - by_clock["start_ps"].transform("min")
    ratio = (table["busy_ps"] / window).astype("Float64")  # 0 / 0 is null
    return table.drop(columns=["start_ps", "end_ps"]).assign(window_ps=window, busy_ratio=ratio)


def _windows(table: pd.DataFrame) -> str:
    windows = table.drop_duplicates("clock")["window_ps"].tolist()
    if len(windows) > 1:
        return f"{len(windows)} clocks that are not aligned, {time(min(windows))} to {time(max(windows))} on each"
    return f"{time(windows[0])} from the first to the last device event" if windows else "no device event"


def _used(events: pd.DataFrame) -> dict[int, str]:
    """The names of the devices that have rows, by their codes."""
    device = events["device"].cat
    return {code: str(device.categories[code]) for code in np.flatnonzero(np.bincount(device.codes)).tolist()}


def _reach(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[int, int, int]:
    """The first start and the last end of n > 0 intervals, and the length of their union: what is between but gaps."""
    if not (start[1:] >= start[:-1]).all():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    gaps = start[1:] - reach[:-1]
    first, last = int(start[0]), int(reach[-1])
    return first, last, last - first - int(gaps[gaps > 0].sum())
