"""The work of CPU devices, rebuilt from the threads of `/host:CPU`: CPU backends write no device plane.

Evidence for every rule: docs/how-it-works.md. A thunk is an event with `hlo_op` and `device_ordinal`; a device spans
several threads, whose names differ between JAX versions, so that only the stats are trusted.

A region of a pool that copies runs no thunk: its `Record` stands inside the call, if the source was ready, or follows
the thunks that computed the source, which tells the device.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.columns import categorical, concat, constant, frame
from tracekit.devices import unknown
from tracekit.readers import nested
from tracekit.readers.distinct import distinct
from tracekit.readers.xspace import cpu_launches, host_events, plane_ops
from tracekit.readers.xspace.host_events import LISTENER, HostEvents
from tracekit.readers.xspace.plane_ops import Lookup
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.kinds import Kind

STATS = (*cpu_launches.STATS, "device_ordinal", "_p", "_c", "program_id", "_pt", "_ct", "group_id")

# `all reduce RendezvousKey{…}` (xla/backends/cpu/collectives/in_process_communicator.cc).
_RENDEZVOUS = re.compile(r"([a-z ]+) RendezvousKey\b")

_AFTER_EXECUTE = "ThunkExecutor::Execute (wait for completion)"
_COPY_CALLS = ("CopyToMemorySpace", "CopyToMemorySpace_Direct")
_HOST_TO_DEVICE = ("H2D Dispatch", "CommonPjRtClient::LinearizeIntoImpl")
_UNKNOWN = unknown("cpu")


@dataclass(frozen=True)
class Work:
    """What CPU devices did (EVENT_COLUMNS), the operations that its `op` numbers, the calls that started it
    (LAUNCH_COLUMNS), and notes on what had to be guessed."""

    events: pd.DataFrame
    operations: list[plane_ops.Operation]
    launches: pd.DataFrame
    notes: list[str]


def read(host: str, events: HostEvents, lookup: Lookup, accelerated: bool, first_id: int) -> Work:
    """The work of a CPU backend.

    Beside an accelerator (`accelerated`) the host's copy calls serve that, so only thunks are rows. XLA gives CPU work
    no correlation ids; the calls get ids from `first_id` on.
    """
    rows, operations, calls, notes = _thunks(host, events, lookup)
    if (calls >= 0).any() and (calls < 0).any():
        notes.append(f"{(calls < 0).sum()} of {len(calls)} CPU ops do not lead back to the call that started them.")
    if not accelerated:
        copies, copy_calls, copy_notes = _copies(host, events)
        rows, calls = concat(EVENT_COLUMNS, [rows, copies]), np.concatenate([calls, copy_calls])
        notes += copy_notes
    started = np.unique(calls[calls >= 0])
    started = started[np.argsort(events.start[started], kind="stable")]
    ids = np.zeros(len(events.line), np.int64)
    ids[started] = first_id + np.arange(len(started))
    launches = host_events.described(host, events, started) | {"correlation_id": ids[started]}
    # Without an event there is no id to take, not even for a row that no call started.
    of_row = ids[calls] if len(ids) else calls
    rows = rows.assign(correlation_id=pd.arrays.IntegerArray(of_row, calls < 0))
    return Work(rows, operations, frame(LAUNCH_COLUMNS, launches), notes)


def _thunks(
    host: str, events: HostEvents, lookup: Lookup
) -> tuple[pd.DataFrame, list[plane_ops.Operation], NDArray[np.int64], list[str]]:
    """The rows that are thunks, the operations that their `op` numbers, the event of the call that started each row, -1
    for none, and notes."""
    plane = events.plane
    rows = np.flatnonzero(events.thunk)
    if len(rows) == 0:
        return frame(EVENT_COLUMNS), [], rows, []
    start, line = events.start[rows], events.line[rows]
    device = plane.numbers("device_ordinal")[0][rows]
    end, unproven = _true_end(events, rows, device, plane.numbers("run_id")[0][rows])

    which, found, operations = plane_ops.hlo_ops(plane, rows, lookup)
    met = _met(events, rows, which)
    control_of = np.array([plane_ops.is_control_flow(name, one) for name, one in found], bool)

    pieces = nested.leaves(start, events.end[rows], end, line, control_of[which])
    at = pieces[:, 0]
    op, ordinals = which[at], pd.factorize(device[at])
    judged = [
        plane_ops.judge(name, one, typed=Kind.COLLECTIVE if one is None and at in met else None)
        for at, (name, one) in enumerate(found)
    ]
    collective = np.array([one.kind == Kind.COLLECTIVE for one in judged], bool)[op]
    data = plane_ops.described([(one, told.kind) for (_, one), told in zip(found, judged, strict=True)], op) | {
        "host": constant(host, len(at)),
        "device": categorical([f"cpu:{one}" for one in ordinals[1]], ordinals[0]),
        "lane": categorical(plane_ops.line_names(plane), line[at]),
        "kind": categorical([one.kind.value for one in judged], op),
        "known_by": categorical([one.known_by.value for one in judged], op),
        "name": events.names[rows][at],
        "start_ps": pieces[:, 1],
        "end_ps": pieces[:, 2],
        "hlo_op": plane.strings("hlo_op")[rows][at],
        "hlo_module": plane.strings("hlo_module")[rows][at],
        "category": categorical([one.category if one else met.get(at) for at, (_, one) in enumerate(found)], op),
        "op": op,
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
    return frame(EVENT_COLUMNS, data), operations, cpu_launches.calls(events, rows)[at], notes


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
        int(op): operation(match[1]) or match[1].replace(" ", "-")
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


def _copies(host: str, events: HostEvents) -> tuple[pd.DataFrame, NDArray[np.int64], list[str]]:
    """Copies between CPU devices and from the host (EVENT_COLUMNS), the row of the call that asked for each, -1 where
    nothing proves it or the call is the copy, and notes.

    A copy belongs to its source device where the trace proves it, else to `cpu:?`. Bytes are not written, so null.
    """
    rows, notes = _device_copies(events)
    to_device = np.flatnonzero(events.named(lambda name: name in _HOST_TO_DEVICE))
    rows += [(_UNKNOWN, "H2D", int(one), int(events.start[one]), int(events.end[one]), -1) for one in to_device]
    lanes = plane_ops.line_names(events.plane)
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
    return frame(EVENT_COLUMNS, data), np.array([row[5] for row in rows], np.int64), notes


def _device_copies(events: HostEvents) -> tuple[list[tuple[str, str, int, int, int, int]], list[str]]:
    """(device, direction, StartRegion's row, start, end, call's row) of every device-to-device copy, and notes."""
    is_call = events.named(lambda name: name in _COPY_CALLS)
    if not is_call.any():
        return [], []
    starts, stops, closed = events.regions
    unclosed = int((~closed).sum())
    queued = events.queued_by >= 0
    starts, stops, producer = starts[queued], stops[queued], events.queued_by[queued]
    thunk = events.latest(events.thunk, events.line[starts], stops)
    holds_thunk = (thunk >= 0) & (events.start[thunk] >= events.start[starts])
    call = events.around(is_call, producer)
    direct = call >= 0
    before = events.latest(
        ~events.named(lambda name: name.startswith(LISTENER)), events.line[producer], events.start[producer]
    )
    after_run = (before >= 0) & (
        events.names.codes[before] == events.names.categories.get_indexer(pd.Index([_AFTER_EXECUTE]))[0]
    )
    source = events.plane.numbers("device_ordinal")[0][before]
    # A copy whose source was not ready is queued by the thread that computed it, after the call that asked for it.
    waiting = np.setdiff1d(np.flatnonzero(is_call), call[direct])
    waiting = waiting[np.argsort(events.start[waiting], kind="stable")].tolist()
    rows = []
    for at in np.argsort(events.start[producer], kind="stable"):
        if holds_thunk[at]:
            continue
        asked = [one for one in waiting[:2] if events.start[one] <= events.start[producer[at]]]
        if direct[at]:
            device, by = _UNKNOWN, int(call[at])
        elif after_run[at] and asked:
            waiting.pop(0)
            # Of several that wait, nothing tells which of them this is.
            device, by = f"cpu:{source[at]}", asked[0] if len(asked) == 1 else -1
        else:
            continue
        rows.append((device, "P2P", int(starts[at]), int(events.start[starts[at]]), int(stops[at]), by))
    notes = [f"{unclosed} pool regions were still open when the profile stopped; they end there."] if unclosed else []
    if unproven := sum(row[0] == _UNKNOWN for row in rows):
        notes.append(
            f"{unproven} of {len(rows)} copies between CPU devices do not say from which device "
            f"(their source was ready): they stand on {_UNKNOWN}, which counts in no device pair."
        )
    return rows, notes
