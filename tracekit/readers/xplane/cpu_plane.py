"""The work of CPU devices, rebuilt from the threads of `/host:CPU`: CPU backends write no device plane.

Evidence for every rule: docs/how-it-works.md. A thunk is an event with `hlo_op` and `device_ordinal`; a device spans
several threads, whose names differ between JAX versions, so that only the stats are trusted.
"""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals, kinds
from tracekit.readers.distinct import distinct
from tracekit.readers.xplane import ops
from tracekit.readers.xplane.ops import Lookup
from tracekit.readers.xplane.planes import Plane
from tracekit.trace import EVENT_COLUMNS, Kind, concat, constant, frame, labelled

STATS = ("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "_pt", "_p", "_ct", "_c", "group_id", "name")

_LISTENER = "ThreadpoolListener::"
_AFTER_EXECUTE = "ThunkExecutor::Execute (wait for completion)"
_COPY_CALLS = ("CopyToMemorySpace", "CopyToMemorySpace_Direct")
_HOST_TO_DEVICE = ("H2D Dispatch", "CommonPjRtClient::LinearizeIntoImpl")
_UNKNOWN = "cpu:?"
# `all reduce RendezvousKey{…}` (xla/backends/cpu/collectives/in_process_communicator.cc).
_RENDEZVOUS = re.compile(r"([a-z ]+) RendezvousKey\b")


class HostEvents:
    """Columns of the `/host:CPU` plane that several rules share, all of shape (n,), and masks for what each event
    is."""

    def __init__(self, plane: Plane, start: NDArray[np.int64]) -> None:
        self.plane = plane
        self.start = start
        self.end = start + plane.duration_ps
        self.line = plane.line
        self.names = plane.names
        self.thunk = plane.has("hlo_op") & plane.has("device_ordinal")

    def named(self, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Which events have a name that passes `test`, asked once per distinct name."""
        codes = np.flatnonzero([test(name) for name in self.names.categories])
        return np.isin(self.names.codes, codes)

    def rows(self, mask: NDArray[np.bool_]) -> intervals.Intervals:
        """The intervals of the events in `mask`."""
        return intervals.intervals(self.start[mask], self.end[mask])

    def latest(self, mask: NDArray[np.bool_], line: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the last event in `mask` on each `line` that starts before each `time` (both (m,)); -1 if none."""
        rows = np.flatnonzero(mask)
        found = np.full(len(line), -1, np.int64)
        for one in np.unique(line):
            mine = rows[self.line[rows] == one]
            mine = mine[np.argsort(self.start[mine], kind="stable")]
            asked = np.flatnonzero(line == one)
            at = np.searchsorted(self.start[mine], time[asked], side="left") - 1
            found[asked[at >= 0]] = mine[at[at >= 0]]
        return found

    def bookkeeping(self) -> NDArray[np.bool_]:
        """Events that only serve to rebuild the device rows; they are no spans."""
        internal = ("ThreadpoolListener::", "end: ", "ThunkExecutor::", "Rendezvous", "InvokeRendezvous", "Wait: ")
        return self.thunk | self.named(lambda name: name.startswith(internal))


def read(host: str, events: HostEvents, lookup: Lookup, accelerated: bool) -> tuple[pd.DataFrame, list[str]]:
    """The device rows of a CPU backend (EVENT_COLUMNS) and notes on what had to be guessed.

    Beside an accelerator (`accelerated`) the host's copy calls serve that, so only thunks are rows.
    """
    thunks, notes = _thunks(host, events, lookup)
    if accelerated:
        return thunks, notes
    copies, copy_notes = _copies(host, events)
    return concat(EVENT_COLUMNS, [thunks, copies]), notes + copy_notes


def _thunks(host: str, events: HostEvents, lookup: Lookup) -> tuple[pd.DataFrame, list[str]]:
    plane = events.plane
    rows = np.flatnonzero(events.thunk)
    if len(rows) == 0:
        return frame(EVENT_COLUMNS), []
    start, line = events.start[rows], events.line[rows]
    device = plane.numbers("device_ordinal")[0][rows]
    end, unproven = _true_end(events, rows, device, plane.numbers("run_id")[0][rows])

    which, found = ops.hlo_ops(plane, rows, lookup)
    met = _met(events, rows, which)
    control_of = np.array([ops.is_control_flow(name, one) for name, one in found], bool)

    pieces = ops.leaves(start, events.end[rows], end, line, control_of[which])
    at = pieces[:, 0]
    op, ordinals = which[at], pd.factorize(device[at])
    judged = [
        ops.judge(name, one, typed=Kind.COLLECTIVE if one is None and at in met else None)
        for at, (name, one) in enumerate(found)
    ]
    collective = np.array([one.kind == Kind.COLLECTIVE for one in judged], bool)[op]
    data = ops.described([(one, told.kind) for (_, one), told in zip(found, judged, strict=True)], op) | {
        "host": constant(host, len(at)),
        "device": labelled([f"cpu:{one}" for one in ordinals[1]], ordinals[0]),
        "lane": labelled(ops.line_names(plane), line[at]),
        "kind": labelled([one.kind.value for one in judged], op),
        "known_by": labelled([one.known_by.value for one in judged], op),
        "name": events.names[rows][at],
        "start_ps": pieces[:, 1],
        "end_ps": pieces[:, 2],
        "hlo_op": plane.strings("hlo_op")[rows][at],
        "hlo_module": plane.strings("hlo_module")[rows][at],
        "category": labelled([one.category if one else met.get(at) for at, (_, one) in enumerate(found)], op),
        "wait_ps": _rendezvous_wait(events, np.flatnonzero(collective), pieces[:, 1:], line[at]),
    }
    for stat in ("run_id", "group_id"):
        values, there = plane.numbers(stat)
        data[stat] = pd.arrays.IntegerArray(values[rows][at], ~there[rows][at])
    notes = []
    if unproven:
        notes.append(f"{unproven} CPU ops have no `end:` event; their event's own end was taken.")
    missing = sum(one is None and at not in met for at, (_, one) in enumerate(found))
    if missing:
        notes.append(
            f"{missing} of {len(found)} distinct CPU ops have no HLO proto; their kind was read from their name."
        )
    return frame(EVENT_COLUMNS, data), notes


def _met(events: HostEvents, rows: NDArray[np.int64], which: NDArray[np.int64]) -> dict[int, str]:
    """What collective each distinct op is in which threads meet, by op; `which` (n,) tells the op of the thunks
    `rows`.

    The `Rendezvous` inside it says so, which serves where no HLO proto was written.
    """
    meets = np.flatnonzero(events.named(lambda name: name == "Rendezvous"))
    holder = events.latest(events.thunk, events.line[meets], events.start[meets] + 1)
    inside = (holder >= 0) & (events.start[meets] < events.end[holder])
    ops_met = which[np.searchsorted(rows, holder[inside])]
    labels = events.plane.strings("name")[meets[inside]]
    matches = [_RENDEZVOUS.match(str(label)) for label in labels.categories]
    return {
        int(op): match[1].replace(" ", "-")
        for op, code in zip(ops_met, labels.codes, strict=True)
        if code >= 0 and (match := matches[code])
    }


def _true_end(
    events: HostEvents, rows: NDArray[np.int64], device: NDArray[np.int64], run_id: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """When each thunk was really done, and how many have no `end:` event to prove it.

    A thunk's event may close while its parallel part still runs; its `end: <op>` event, often on another thread, then
    starts when the work is done. That is never later than the next thunk of the same run on the same device.
    """
    plane = events.plane
    start, closed = events.start[rows], events.end[rows]
    ends = np.flatnonzero(events.named(lambda name: name.startswith("end: ")) & plane.has("_c"))
    keys = plane.numbers("_c")[0][ends]
    order = np.argsort(keys, kind="stable")
    keys, ends = keys[order], ends[order]
    mine = plane.numbers("_p")[0][rows]
    place = np.minimum(np.searchsorted(keys, mine), max(len(keys) - 1, 0))
    proven = plane.has("_p")[rows] & (keys[place] == mine) if len(keys) else np.zeros(len(rows), bool)
    end = np.where(proven, events.start[ends[place]] if len(keys) else closed, closed)

    group = distinct(device, run_id)[0]
    times, rank = np.unique(np.concatenate([start, closed]), return_inverse=True)
    width = len(times) + 1
    started = np.sort(group * width + rank[: len(rows)])
    nxt = np.searchsorted(started, group * width + rank[len(rows) :], side="left")
    found = nxt < len(started)
    following = started[np.minimum(nxt, len(started) - 1)]
    found &= following // width == group
    limit = np.where(found, times[np.minimum(following % width, len(times) - 1)], np.iinfo(np.int64).max)
    return np.maximum(start, np.minimum(end, limit)), int((~proven).sum())


def _rendezvous_wait(
    events: HostEvents, collective: NDArray[np.int64], spans: intervals.Intervals, line: NDArray[np.int64]
) -> pd.Series:
    """How long each collective waited for its peers: the `Wait:` events inside it on its thread, null if none is shown.

    `collective` indexes the rows of `spans` (n, 2) and `line` (n,).
    """
    wait = pd.Series(pd.NA, index=range(len(line)), dtype="Int64")
    waits = events.named(lambda name: name.startswith("Wait: "))
    meets = events.named(lambda name: name == "Rendezvous")
    for one in np.unique(line[collective]):
        rows = collective[line[collective] == one]
        windows = spans[rows]
        met = intervals.within(events.rows(meets & (events.line == one)), windows) > 0
        wait.iloc[rows[met]] = intervals.within(events.rows(waits & (events.line == one)), windows)[met]
    return wait


def _copies(host: str, events: HostEvents) -> tuple[pd.DataFrame, list[str]]:
    """Copies between CPU devices and from the host: pool regions whose producer stands in a copy call, and host calls.

    A copy belongs to its source device where the trace proves it, else to `cpu:?`. Bytes are not written, so null.
    """
    rows, notes = _device_copies(events)
    to_device = np.flatnonzero(events.named(lambda name: name in _HOST_TO_DEVICE))
    rows += [(_UNKNOWN, "H2D", int(one), int(events.start[one]), int(events.end[one])) for one in to_device]
    lanes = ops.line_names(events.plane)
    data = {
        "host": constant(host, len(rows)),
        "device": [row[0] for row in rows],
        "lane": [lanes[events.line[row[2]]] for row in rows],
        "kind": [Kind.MEMCPY.value] * len(rows),
        "known_by": [kinds.KnownBy.STAT.value] * len(rows),
        "name": ["copy to device" if row[1] == "H2D" else "copy between devices" for row in rows],
        "start_ps": np.array([row[3] for row in rows], np.int64),
        "end_ps": np.array([row[4] for row in rows], np.int64),
        "direction": [row[1] for row in rows],
    }
    return frame(EVENT_COLUMNS, data), notes


def _device_copies(events: HostEvents) -> tuple[list[tuple[str, str, int, int, int]], list[str]]:
    """(device, direction, StartRegion's row, start, end) of every device-to-device copy, and notes."""
    calls = np.flatnonzero(events.named(lambda name: name in _COPY_CALLS))
    if len(calls) == 0:
        return [], []
    starts, stops, unclosed = _regions(events)
    producer = _producers(events, starts)
    starts, stops, producer = starts[producer >= 0], stops[producer >= 0], producer[producer >= 0]
    thunk = events.latest(events.thunk, events.line[starts], stops)
    holds_thunk = (thunk >= 0) & (events.start[thunk] >= events.start[starts])
    call = events.latest(np.isin(np.arange(len(events.line)), calls), events.line[producer], events.start[producer])
    direct = (call >= 0) & (events.start[producer] <= events.end[call])
    before = events.latest(
        ~events.named(lambda name: name.startswith(_LISTENER)), events.line[producer], events.start[producer]
    )
    after_run = (before >= 0) & (
        events.names.codes[before] == events.names.categories.get_indexer(pd.Index([_AFTER_EXECUTE]))[0]
    )
    source = events.plane.numbers("device_ordinal")[0][before]
    # A copy whose source was not ready is queued by the thread that computed it, after the call that asked for it.
    waiting = sorted(events.start[np.setdiff1d(calls, call[direct])].tolist())
    rows = []
    for at in np.argsort(events.start[producer], kind="stable"):
        if holds_thunk[at]:
            continue
        if direct[at]:
            device = _UNKNOWN
        elif after_run[at] and waiting and waiting[0] <= events.start[producer[at]]:
            waiting.pop(0)
            device = f"cpu:{source[at]}"
        else:
            continue
        rows.append((device, "P2P", int(starts[at]), int(events.start[starts[at]]), int(stops[at])))
    notes = [f"{unclosed} pool regions were still open when the profile stopped; they end there."] if unclosed else []
    unknown = sum(row[0] == _UNKNOWN for row in rows)
    if unknown:
        notes.append(
            f"{unknown} of {len(rows)} copies between CPU devices do not say from which device "
            f"(their source was ready): they stand on {_UNKNOWN}, which counts in no device pair."
        )
    return rows, notes


def _regions(events: HostEvents) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """StartRegion rows, the time each region ends, and how many never did (they end with the trace)."""
    edges = np.flatnonzero(events.named(lambda name: name in (f"{_LISTENER}StartRegion", f"{_LISTENER}StopRegion")))
    edges = edges[np.lexsort((events.start[edges], events.line[edges]))]
    begins = events.named(lambda name: name == f"{_LISTENER}StartRegion")[edges]
    follows = np.append(events.line[edges][1:] == events.line[edges][:-1], False)
    times = np.append(events.start[edges][1:], 0)
    ends = np.where(follows, times, events.end.max(initial=0))
    return edges[begins], ends[begins], int((begins & ~follows).sum())


def _producers(events: HostEvents, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the `Record` that queued each region (`_p` = `_c`), -1 where none did."""
    records = np.flatnonzero(events.named(lambda name: name == f"{_LISTENER}Record"))
    by_id = dict(zip(events.plane.numbers("_p")[0][records].tolist(), records.tolist(), strict=True))
    return np.array([by_id.get(one, -1) for one in events.plane.numbers("_c")[0][starts].tolist()], np.int64)
