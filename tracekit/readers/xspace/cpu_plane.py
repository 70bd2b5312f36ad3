"""The work of CPU devices, rebuilt from the threads of `/host:CPU`: CPU backends write no device plane.

Evidence for every rule: docs/how-it-works.md. A thunk is an event with `hlo_op` and `device_ordinal`; a device spans
several threads, whose names differ between JAX versions, so that only the stats are trusted.

A region of a pool that copies runs no thunk: its `Record` stands inside the call, if the source was ready, or follows
the thunks that computed the source, which tells the device.
"""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.columns import categorical, concat, constant, distinct, frame
from tracekit.devices import unknown
from tracekit.readers import nested
from tracekit.readers.xspace import cpu_launches, host_events, plane_ops
from tracekit.readers.xspace.host_events import LISTENER, HostEvents
from tracekit.readers.xspace.plane_ops import DeviceRows, Lookup
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


def read(host: str, events: HostEvents, lookup: Lookup, accelerated: bool, first_id: int) -> DeviceRows:
    """The work of a CPU backend, and the calls that started it.

    Beside an accelerator (`accelerated`) the host's copy calls serve that, so only thunks are rows. XLA gives CPU work
    no correlation ids; the calls get ids from `first_id` on.
    """
    rows, operations, calls, notes = _thunks(host, events, lookup)
    if (calls >= 0).any() and (calls < 0).any():
        notes.append(f"The launching call of {(calls < 0).sum()} of {len(calls)} CPU ops is unknown.")
    if not accelerated:
        copies, copy_calls, copy_notes = _copies(host, events)
        rows, calls = concat(EVENT_COLUMNS, [rows, copies]), np.concatenate([calls, copy_calls])
        notes += copy_notes
    launching = np.unique(calls[calls >= 0])
    launching = launching[np.argsort(events.start[launching], kind="stable")]
    ids = np.zeros(len(events.line), np.int64)
    ids[launching] = first_id + np.arange(len(launching))
    launches = host_events.host_columns(host, events, launching) | {"correlation_id": ids[launching]}
    # Without an event there is no id to take, not even for a row that no call started.
    of_row = ids[calls] if len(ids) else calls
    rows = rows.assign(correlation_id=pd.arrays.IntegerArray(of_row, calls < 0))
    return DeviceRows(rows, operations, notes, frame(LAUNCH_COLUMNS, launches))


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

    hlo = plane_ops.hlo_ops(plane, rows, lookup)
    collective_of = _rendezvous_collectives(events, rows, hlo.which)
    pieces = nested.leaves(start, events.end[rows], end, line, hlo.mask(plane_ops.is_control_flow))
    at = pieces[:, 0]
    op, ordinals = hlo.which[at], pd.factorize(device[at])
    judged = [
        plane_ops.judge(name, known, typed=Kind.COLLECTIVE if known is None and number in collective_of else None)
        for number, (name, known) in enumerate(hlo.ops)
    ]
    collective = np.array([verdict.kind == Kind.COLLECTIVE for verdict in judged], bool)[op]
    kinds_of_ops = [(known, verdict.kind) for (_, known), verdict in zip(hlo.ops, judged, strict=True)]
    categories = [known.category if known else collective_of.get(number) for number, (_, known) in enumerate(hlo.ops)]
    data = plane_ops.hlo_columns(kinds_of_ops, op) | {
        "host": constant(host, len(at)),
        "device": categorical([f"cpu:{ordinal}" for ordinal in ordinals[1]], ordinals[0]),
        "lane": categorical(plane_ops.line_names(plane), line[at]),
        "kind": categorical([verdict.kind.value for verdict in judged], op),
        "known_by": categorical([verdict.known_by.value for verdict in judged], op),
        "name": events.names[rows][at],
        "start_ps": pieces[:, 1],
        "end_ps": pieces[:, 2],
        "hlo_op": plane.strings("hlo_op")[rows][at],
        "hlo_module": plane.strings("hlo_module")[rows][at],
        "category": categorical(categories, op),
        "op": op,
        "wait_ps": _rendezvous_wait(events, np.flatnonzero(collective), pieces[:, 1:], line[at]),
    }
    for stat in ("run_id", "group_id"):
        values, known_value = plane.numbers(stat)
        data[stat] = pd.arrays.IntegerArray(values[rows][at], ~known_value[rows][at])
    notes = []
    if unproven:
        notes.append(f"{unproven} CPU ops have no `end:` event: the end of their own event is used.")
    missing = sum(known is None and number not in collective_of for number, (_, known) in enumerate(hlo.ops))
    if missing:
        notes.append(f"{missing} of {len(hlo.ops)} distinct CPU ops have no HLO proto: they are classified by name.")
    return frame(EVENT_COLUMNS, data), hlo.operations, cpu_launches.calls(events, rows)[at], notes


def _rendezvous_collectives(events: HostEvents, rows: NDArray[np.int64], which: NDArray[np.int64]) -> dict[int, str]:
    """What collective each distinct op is in which threads meet, by op; `which` (n,) tells the op of the thunks
    `rows`.

    The `Rendezvous` inside it says so, which serves where no HLO proto was written.
    """
    meets = np.flatnonzero(events.with_name(lambda name: name == "Rendezvous"))
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
    ends = np.flatnonzero(events.with_name(lambda name: name.startswith("end: ")) & plane.has("_c"))
    keys = plane.numbers("_c")[0][ends]
    order = np.argsort(keys, kind="stable")
    keys, ends = keys[order], ends[order]
    produced = plane.numbers("_p")[0][rows]
    place = np.minimum(np.searchsorted(keys, produced), max(len(keys) - 1, 0))
    proven = plane.has("_p")[rows] & (keys[place] == produced) if len(keys) else np.zeros(len(rows), bool)
    end = np.where(proven, events.start[ends[place]] if len(keys) else closed, closed)

    group = distinct(device, run_id)[0]
    times, rank = np.unique(np.concatenate([start, closed]), return_inverse=True)
    width = len(times) + 1
    started = np.sort(group * width + rank[: len(rows)])
    following_rank = np.searchsorted(started, group * width + rank[len(rows) :], side="left")
    has_next = following_rank < len(started)
    following = started[np.minimum(following_rank, len(started) - 1)]
    has_next &= following // width == group
    limit = np.where(has_next, times[np.minimum(following % width, len(times) - 1)], np.iinfo(np.int64).max)
    return np.maximum(start, np.minimum(end, limit)), int((~proven).sum())


def _rendezvous_wait(
    events: HostEvents, collective: NDArray[np.int64], spans: intervals.Intervals, line: NDArray[np.int64]
) -> pd.Series:
    """How long each collective waited for its peers: the `Wait:` events inside it on its thread, null without any.

    `collective` indexes the rows of `spans` (n, 2) and `line` (n,).
    """
    wait = pd.Series(pd.NA, index=range(len(line)), dtype="Int64")
    waits = events.with_name(lambda name: name.startswith("Wait: "))
    meets = events.with_name(lambda name: name == "Rendezvous")
    for number in np.unique(line[collective]):
        rows = collective[line[collective] == number]
        windows = spans[rows]
        waited = intervals.within(events.rows(meets & (events.line == number)), windows) > 0
        wait.iloc[rows[waited]] = intervals.within(events.rows(waits & (events.line == number)), windows)[waited]
    return wait


class _Copy(NamedTuple):
    """One copy: its device and direction, the event that it is of, start and end in ps, and the event of the call that
    asked for it, -1 where nothing proves it or the call is the copy."""

    device: str
    direction: str
    event: int
    start: int
    end: int
    call: int


def _copies(host: str, events: HostEvents) -> tuple[pd.DataFrame, NDArray[np.int64], list[str]]:
    """Copies between CPU devices and from the host (EVENT_COLUMNS), the event of the call that asked for each, -1 where
    nothing proves it or the call is the copy, and notes.

    A copy belongs to its source device where the trace proves it, else to `cpu:?`. Bytes are not written, so null.
    """
    copies, notes = _device_copies(events)
    for row in np.flatnonzero(events.with_name(lambda name: name in _HOST_TO_DEVICE)).tolist():
        copies.append(_Copy(_UNKNOWN, "H2D", row, int(events.start[row]), int(events.end[row]), -1))
    lanes = plane_ops.line_names(events.plane)
    data = {
        "host": constant(host, len(copies)),
        "device": [copy.device for copy in copies],
        "lane": [lanes[events.line[copy.event]] for copy in copies],
        "kind": [Kind.MEMCPY.value] * len(copies),
        "known_by": [kinds.KnownBy.STAT.value] * len(copies),
        "name": ["copy to device" if copy.direction == "H2D" else "copy between devices" for copy in copies],
        "start_ps": np.array([copy.start for copy in copies], np.int64),
        "end_ps": np.array([copy.end for copy in copies], np.int64),
        "direction": [copy.direction for copy in copies],
    }
    return frame(EVENT_COLUMNS, data), np.array([copy.call for copy in copies], np.int64), notes


def _device_copies(events: HostEvents) -> tuple[list[_Copy], list[str]]:
    """Every device-to-device copy, of the event of its `StartRegion`, and notes."""
    is_call = events.with_name(lambda name: name in _COPY_CALLS)
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
        ~events.with_name(lambda name: name.startswith(LISTENER)), events.line[producer], events.start[producer]
    )
    after_run = (before >= 0) & (
        events.names.codes[before] == events.names.categories.get_indexer(pd.Index([_AFTER_EXECUTE]))[0]
    )
    source = events.plane.numbers("device_ordinal")[0][before]
    # A copy whose source was not ready is queued by the thread that computed it, after the call that asked for it.
    waiting = np.setdiff1d(np.flatnonzero(is_call), call[direct])
    waiting = waiting[np.argsort(events.start[waiting], kind="stable")].tolist()
    copies = []
    for at in np.argsort(events.start[producer], kind="stable"):
        if holds_thunk[at]:
            continue
        callers = [row for row in waiting[:2] if events.start[row] <= events.start[producer[at]]]
        if direct[at]:
            device, caller = _UNKNOWN, int(call[at])
        elif after_run[at] and callers:
            waiting.pop(0)
            # Of several that wait, nothing tells which of them this is.
            device, caller = f"cpu:{source[at]}", callers[0] if len(callers) == 1 else -1
        else:
            continue
        start = int(events.start[starts[at]])
        copies.append(_Copy(device, "P2P", int(starts[at]), start, int(stops[at]), caller))
    notes = []
    if unclosed:
        notes.append(f"{unclosed} thread-pool regions were still open when the profile stopped: they end there.")
    if unproven := sum(copy.device == _UNKNOWN for copy in copies):
        notes.append(
            f"The source device of {unproven} of {len(copies)} copies between CPU devices is unknown (their source was "
            f"ready): they are on {_UNKNOWN}, which counts in no device pair."
        )
    return copies, notes
