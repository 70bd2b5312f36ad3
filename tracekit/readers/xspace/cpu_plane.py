"""The work of CPU devices, rebuilt from the threads of `/host:CPU`: CPU backends write no device plane.

Evidence for every rule: docs/how-it-works.md. A thunk is an event with `hlo_op` and `device_ordinal`; a device spans
several threads, whose names differ between JAX versions, so that only the stats are trusted.

A region of a pool that copies runs no thunk: its `Record` stands inside the call, if the source was ready, or follows
the thunks that computed the source, which tells the device.

A thunk tells its execution (`hlo_module`, `run_id`, `device_ordinal`). A call that starts one device tells none of it;
one that starts several carries the `run_id`, and starts each device by a call of its own inside, with that device's
`global_device_id` (xla/pjrt/common_pjrt_client.cc). What joins them, in order of trust:

* The call holds the thunk, or the `Record` that queued the pool region in which the thunk runs.
* The call has the `run_id`.
* Counting, for a program whose inputs were not ready when it was called: whatever makes them ready queues it, so no
  event leads back to the call. jax numbers the calls of one program in order, on all devices together (the `launch_id`
  of jaxlib/py_executable.cc), and the calls of the function f stand inside of `PjitFunction(f)`. If between two calls
  that are known, or after the last, stand as many calls as there are numbers, they are these. Before the first nothing
  is told: some of the runs may stem from before the profile. Nor are two functions of one name that are called in turn.
"""

import re
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals
from tracekit.columns import categorical, concat, constant, distinct, frame
from tracekit.devices import unknown
from tracekit.readers import nested
from tracekit.readers.losses import Lost
from tracekit.readers.xspace import host_events, planes
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.planes import DeviceRows, Lookup
from tracekit.trace import EVENT_COLUMNS, LAUNCH_COLUMNS
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.copies import XLA_CPU_COPIES, XLA_CPU_TRANSFERS
from tracekit.vocabulary.host_calls import (
    END,
    POOL,
    RENDEZVOUS,
    THUNKS_WAIT,
    WAIT,
    executes,
    jitted_function,
    rendezvous_collective,
)
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

STATS = (
    *("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "global_device_id", "_p", "_c", "name"),
    *("_pt", "_ct", "group_id"),
)

_UNKNOWN = unknown("cpu")
_NO_LETTER = re.compile(r"\W|_")


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
    columns = {name: rows[name].array for name in EVENT_COLUMNS}
    lost = [] if accelerated else _lost_thunks(events)
    return DeviceRows(columns, operations, notes, frame(LAUNCH_COLUMNS, launches), lost)


def _lost_thunks(events: HostEvents) -> list[Lost]:
    """The thunks that lack one of the stats that XLA gives to all of them, where stats are lost."""
    parts = [events.plane.has(stat) for stat in ("hlo_op", "hlo_module", "program_id")]
    whole = np.logical_and.reduce([*parts, events.plane.numbers("device_ordinal")[1]])
    count = int((np.logical_or.reduce(parts) & ~whole).sum())
    # Older versions of XLA wrote fewer of them.
    if not count or not events.plane.lost_stats:
        return []
    return [Lost(Loss.EVENTS, count, count + int(whole.sum()), "CPU ops that lack a module, a program or a device")]


def _thunks(
    host: str, events: HostEvents, lookup: Lookup
) -> tuple[pd.DataFrame, dict[str, Any], NDArray[np.int64], list[str]]:
    """The rows that are thunks, the operations that their `op` numbers, the event of the call that started each row, -1
    for none, and notes."""
    plane = events.plane
    rows = np.flatnonzero(events.thunk)
    if len(rows) == 0:
        return frame(EVENT_COLUMNS), {}, rows, []
    start, line = events.start[rows], events.line[rows]
    device = plane.numbers("device_ordinal")[0][rows]
    end, unproven = _true_end(events, rows, device, plane.numbers("run_id")[0][rows])

    hlo = planes.hlo_ops(plane, rows, lookup, planes.Once())
    collective_of = _rendezvous_collectives(events, rows, hlo.which)
    is_control_flow = np.fromiter(starmap(planes.is_control_flow, hlo), bool, len(hlo))
    pieces = nested.leaves(start, events.end[rows], end, line, is_control_flow[hlo.which])
    at = pieces[:, 0]
    op, ordinals = hlo.which[at], pd.factorize(device[at])
    meets, met = np.full(len(hlo), -1), [*dict.fromkeys(collective_of.values()), None]
    meets[[*collective_of]] = [met.index(each) for each in collective_of.values()]
    class_of, classes = planes.numbered(
        planes.classify(name, facts, typed=Kind.COLLECTIVE if facts is None and meeting >= 0 else None)
        for (name, facts), meeting in zip(hlo, meets, strict=True)
    )
    alike, first = distinct(class_of, hlo.fact, meets)
    alike = alike[op]
    facts = [hlo.facts[number] for number in hlo.fact[first].tolist()]
    classes = [classes[number] for number in class_of[first].tolist()]
    collective = np.array([each.kind == Kind.COLLECTIVE for each in classes], bool)[alike]
    categories = [op.category if op else met[meeting] for op, meeting in zip(facts, meets[first], strict=True)]
    data = {**planes.event_columns(host, plane, rows[at]), "name": plane.names[rows[at]]}
    data |= planes.hlo_columns(facts, classes, alike)
    data |= {
        "device": categorical([f"cpu:{ordinal}" for ordinal in ordinals[1]], ordinals[0]),
        "start_ps": pieces[:, 1],
        "end_ps": pieces[:, 2],
        "category": categorical(categories, alike),
        "op": op,
        "wait_ps": _rendezvous_wait(events, np.flatnonzero(collective), pieces[:, 1:], line[at]),
    }
    notes = []
    if unproven:
        notes.append(f"{unproven} CPU ops have no `end:` event: the end of their own event is used.")
    missing = int((hlo.told(lambda op: op is None) & (meets < 0)).sum())
    if missing:
        notes.append(f"{missing} of {len(hlo)} distinct CPU ops have no HLO proto: they are classified by name.")
    return frame(EVENT_COLUMNS, data), hlo.operations, _launching_calls(events, rows)[at], notes


def _rendezvous_collectives(events: HostEvents, rows: NDArray[np.int64], which: NDArray[np.int64]) -> dict[int, str]:
    """What collective each distinct op is in which threads meet, by op; `which` (n,) tells the op of the thunks
    `rows`.

    The `Rendezvous` inside it says so, which serves where no HLO proto was written.
    """
    meets = np.flatnonzero(events.with_name(lambda name: name == RENDEZVOUS))
    holder = events.latest(events.thunk, events.line[meets], events.start[meets] + 1)
    inside = (holder >= 0) & (events.start[meets] < events.end[holder])
    ops_met = which[np.searchsorted(rows, holder[inside])]
    labels = events.plane.strings("name")[meets[inside]]
    collectives = [rendezvous_collective(str(label)) for label in labels.categories]
    return {
        int(op): operation(collective) or collective.replace(" ", "-")
        for op, code in zip(ops_met, labels.codes, strict=True)
        if code >= 0 and (collective := collectives[code])
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
    ends = np.flatnonzero(events.with_name(lambda name: name.startswith(END)) & plane.has("_c"))
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
    waits = events.with_name(lambda name: name.startswith(WAIT))
    meets = events.with_name(lambda name: name == RENDEZVOUS)
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
    for row in np.flatnonzero(events.with_name(lambda name: name in XLA_CPU_TRANSFERS)).tolist():
        copies.append(_Copy(_UNKNOWN, "H2D", row, int(events.start[row]), int(events.end[row]), -1))
    lanes = planes.line_names(events.plane)
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
    is_call = events.with_name(lambda name: name in XLA_CPU_COPIES)
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
        ~events.with_name(lambda name: name.startswith(POOL)), events.line[producer], events.start[producer]
    )
    after_run = (before >= 0) & (
        events.names.codes[before] == events.names.categories.get_indexer(pd.Index([THUNKS_WAIT]))[0]
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


@dataclass(frozen=True)
class _Executions:
    """The k executions of programs on devices: row of the first thunk, module (a code), run and device, all (k,)."""

    thunk: NDArray[np.int64]
    module: NDArray[np.int64]
    modules: list[str]
    run: NDArray[np.int64]
    device: NDArray[np.int64]


def _launching_calls(events: HostEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the call that started the execution of each of the thunks `rows` (n,), -1 where nothing proves it."""
    plane = events.plane
    is_call = events.with_name(executes)
    if len(rows) == 0 or not is_call.any():
        return np.full(len(rows), -1)
    order = np.argsort(events.start[rows], kind="stable")
    module = plane.strings("hlo_module")[rows[order]]
    run, device = (plane.numbers(stat)[0][rows[order]] for stat in ("run_id", "device_ordinal"))
    which, first = distinct(module.codes, run, device)
    modules = [*map(str, module.categories), ""]
    executions = _Executions(rows[order[first]], module.codes[first], modules, run[first], device[first])
    call_of = _enclosing_calls(events, is_call, executions.thunk)
    _by_run(events, is_call, executions, call_of)
    _by_count(events, is_call, executions, call_of)
    call = np.empty(len(rows), np.int64)
    call[order] = call_of[which]
    return call


def _enclosing_calls(events: HostEvents, is_call: NDArray[np.bool_], thunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The call around each of the events `thunks` (k,), or around the `Record` that queued its region; -1 for none."""
    call = events.around(is_call, thunks)
    begins, ends, _ = events.regions
    region_of = np.full(len(events.line), -1)
    region_of[begins] = np.arange(len(begins))
    region = region_of[events.latest(region_of >= 0, events.line[thunks], events.start[thunks] + 1)]
    inside = np.flatnonzero((call < 0) & (region >= 0))
    inside = inside[events.start[thunks[inside]] < ends[region[inside]]]
    record = events.queued_by[region[inside]]
    call[inside[record >= 0]] = events.around(is_call, record[record >= 0])
    return call


def _by_run(
    events: HostEvents, is_call: NDArray[np.bool_], executions: _Executions, call_of: NDArray[np.int64]
) -> None:
    """Fill in the calls that carry the run's id: the one inside for the device, else the one for all."""
    ids, has_id = events.plane.numbers("run_id")
    outer = np.flatnonzero(is_call & has_id)
    if len(outer) == 0:
        return
    names, produced = events.plane.strings("name"), events.plane.numbers("_p")[0]
    module = [*map(str, names.categories), ""]
    by_run = {(module[names.codes[row]], int(ids[row])): int(row) for row in outer}
    device, has_device = events.plane.numbers("global_device_id")
    consumed, has_consumed = events.plane.numbers("_c")
    inner = {
        (int(consumed[row]), int(device[row])): int(row) for row in np.flatnonzero(is_call & has_device & has_consumed)
    }
    for at in np.flatnonzero(call_of < 0):
        row = by_run.get((executions.modules[executions.module[at]], int(executions.run[at])), -1)
        if row >= 0:
            call_of[at] = inner.get((int(produced[row]), int(executions.device[at])), row)


def _by_count(
    events: HostEvents, is_call: NDArray[np.bool_], executions: _Executions, call_of: NDArray[np.int64]
) -> None:
    """Fill in the calls that the order of the runs tells; those that carry their run's id need no counting."""
    if (call_of >= 0).all():
        return
    rows, functions = _functions(
        events, is_call & ~events.plane.has("global_device_id") & ~events.plane.numbers("run_id")[1]
    )
    first = events.start[executions.thunk]
    for code in np.unique(executions.module[call_of < 0]):
        name = _bare(executions.modules[code].removeprefix("jit_"))
        candidates = rows[[function == name for function in functions]] if len(rows) else rows
        # Calls of several threads at once have no order.
        if len(candidates) == 0 or (events.end[candidates[:-1]] > events.start[candidates[1:]]).any():
            continue
        place = {row: at for at, row in enumerate(candidates.tolist())}
        of_module = np.flatnonzero(executions.module == code)
        of_module = of_module[[call_of[at] < 0 or call_of[at] in place for at in of_module]]
        places = {int(executions.run[at]): place[int(call_of[at])] for at in of_module if call_of[at] >= 0}
        places = _places_by_count(places, np.unique(executions.run[of_module]), len(candidates))
        unknown = [at for at in of_module if call_of[at] < 0 and int(executions.run[at]) in places]
        pairs = [(at, candidates[places[int(executions.run[at])]]) for at in unknown]
        if all(events.start[call] <= first[at] for at, call in pairs):  # else the count is wrong somewhere
            for at, call in pairs:
                call_of[at] = call


def _places_by_count(proven: dict[int, int], runs: NDArray[np.int64], calls: int) -> dict[int, int]:
    """Which place among the `calls` in order each run has, as far as it is `proven` or follows from that.

    `runs` are those that were seen, in rising order. Runs of several programs lie far apart, since each counts from a
    hash of its own. Between two known calls of one program, and after the last, stand those of its runs between: if no
    more calls are open there than these, they are they.
    """
    places = dict(proven)
    programs = [part.tolist() for part in np.split(runs, np.flatnonzero(np.diff(runs) > calls) + 1)]
    settled = -1
    while settled < len(places):
        settled = len(places)
        for program in programs:
            unknown = np.setdiff1d(np.arange(calls), list(places.values()))
            edges = [*((run, places[run]) for run in program if run in places), (program[-1] + 1, calls)]
            open_places = np.searchsorted(unknown, [place for _, place in edges])
            for at, ((run, _), (next_run, _)) in enumerate(pairwise(edges)):
                between = unknown[open_places[at] : open_places[at + 1]]
                if len(between) == next_run - run - 1:
                    places.update(zip(range(run + 1, next_run), between.tolist(), strict=True))
    return places


def _functions(events: HostEvents, is_call: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """The calls that hold no other, by start, and the function in whose `PjitFunction` each stands, "" for none."""
    jitted = [jitted_function(name) for name in events.names.categories]
    functions = ["" if function is None else _bare(function) for function in jitted]
    rows = np.flatnonzero(is_call | events.with_name(lambda name: jitted_function(name) is not None))
    rows = rows[np.lexsort((-events.end[rows], events.start[rows], events.line[rows]))]
    columns = (rows, *(column[rows] for column in (events.line, events.start, events.end, events.names.codes, is_call)))
    around: list[tuple[int, int, str, int]] = []  # line, end, function, the call's row or -1
    function_of: dict[int, str] = {}
    for row, line, start, end, code, is_a_call in zip(*(column.tolist() for column in columns), strict=True):
        while around and (around[-1][0] != line or around[-1][1] <= start):
            around.pop()
        function = functions[code] if not is_a_call else around[-1][2] if around else ""
        if is_a_call:
            if around and around[-1][3] >= 0:
                function_of.pop(around[-1][3], None)
            function_of[row] = function
        around.append((line, end, function, row if is_a_call else -1))
    calls = sorted(function_of, key=lambda row: int(events.start[row]))
    return np.array(calls, np.int64), [function_of[row] for row in calls]


def _bare(name: str) -> str:
    """The letters and digits of a name: a module is called after its function, with `_` for what HLO does not allow."""
    return _NO_LETTER.sub("", name)
