"""Nsight Systems: what `nsys export --type sqlite` wrote, as a `Trace`.

Device rows are kernels, copies, memsets and migrations of unified memory, and whole CUDA graphs where the profile has
only those; synchronisation, events and page faults are none. Spans are NVTX ranges; launches are the CUDA API calls
that started a row, and those that should have and have none.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import nsys_program
from tracekit.columns import by_label, categorical, concat, constant, distinct, frame
from tracekit.devices import MOST_NUMBER, natural
from tracekit.errors import TraceError
from tracekit.readers import losses, polling
from tracekit.readers.losses import Lost
from tracekit.readers.nsys import cuda, job, machine, memory, nvtx
from tracekit.readers.nsys.cuda import CORRELATION_BITS, Calls, Waits, Work
from tracekit.readers.nsys.memory import Allocations
from tracekit.readers.nsys.nvtx import Ranges
from tracekit.readers.nsys.sqlite_export import (
    MISSING,
    REPORT_SUFFIXES,
    Export,
    damaged_pages,
    is_whole,
    lacking_log,
    opened,
    select,
    strings,
    unneeded,
)
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    LAUNCH_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.vocabulary import kinds
from tracekit.vocabulary.host_calls import launches as asks_for_work
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.phase_names import span_columns

T = TypeVar("T", Work, Calls, Ranges, Allocations)

_PS_PER_NS = 1000
_FURTHEST_NS = 2**61 // _PS_PER_NS
# What was on the way when the session ended may be recorded.
_ENDING_NS = 10**9
_FEW = 0.01
_API_VERSION = re.compile(r"_v\d+$")


def read(path: Path) -> Trace:
    """The trace in one SQLite export of Nsight Systems, of any version from 2021 on.

    Devices are `gpu:N`, one for each GPU whichever processes used it. Kernels are called by their demangled name,
    launches without the version that CUDA appends (`cudaLaunchKernel_v7000`). `correlation_id` is unique over the
    processes. `bytes` of a collective is the size that NCCL's NVTX payload gives, `group` the communicator there;
    `hlo_op` and `hlo_module` are those that XLA's NVTX ranges around the launch name. What is missing is null, and a
    note says what nsys must be told to record it. Of damaged tables what is whole is read, and the rest is counted. A
    report in nsys's own format is exported first. Raises TraceError if the file cannot be read or is no such export.
    """
    if path.name.endswith(REPORT_SUFFIXES):
        return _read_report(path)
    with ThreadPoolExecutor(1) as beside:
        whole = beside.submit(is_whole, path)  # SQLite takes a fifth of the time of reading for that
        try:
            trace = _read(path, is_damaged=False)
        except TraceError as error:
            if not damaged_pages(error.__context__):
                raise
        else:
            if whole.result():
                return trace
    return _read(path, is_damaged=True)


def read_parquet(path: Path) -> Trace:
    """The trace in the directory of Parquet that one export wrote, of which `path` is one table; as `read` gives it."""
    return replace(read(path), source=str(path.parent), format="nsys-parquet")


def _read_report(path: Path) -> Trace:
    """The trace in the SQLite that nsys exports of the report at `path`; TraceError too where nsys does not."""
    with nsys_program.exported(path) as export:
        try:
            trace = read(export)
        except TraceError as error:
            raise TraceError(str(error).replace(str(export), str(path))) from None
    named = {str(export): str(path)}
    return replace(
        trace,
        hosts=trace.hosts.assign(source=trace.hosts["source"].cat.rename_categories(named)),
        source=str(path),
    )


def _read(path: Path, is_damaged: bool) -> Trace:
    with opened(path, is_damaged) as export:
        work, notes = cuda.work(export)
        ranges, nvtx_notes = nvtx.read(export)
        bounds = _bounds(export, work, ranges)
        work, ranges = _near(export, bounds, work), _near(export, bounds, ranges)
        host = machine.host(export)
        all_calls = _near(export, bounds, cuda.calls(export))
        notes += cuda.count_unrecorded(export, work, all_calls)
        work, all_calls, id_notes = _with_unique_ids(export, work, all_calls)
        correlation = all_calls.correlation
        has_row = pd.Index(correlation).isin(work.correlation) & (correlation != MISSING)
        calls = select(all_calls, has_row)
        is_own = has_row | cuda.unanswered(export, work, all_calls, has_row)
        allocations, memory_notes = memory.allocations(export)
        allocations = _near(export, bounds, allocations)
        (device, of_allocation), devices, device_notes = _devices(export, host, work, allocations)
        waits = cuda.waits(export, work, all_calls, device.codes.astype(np.int64))
        zero = _earliest(work, all_calls, ranges, allocations)
        events, ops, event_notes = _events(export, host, work, calls, ranges, zero, device)
        communicators = job.communicators(export)
        group = _groups(events, work, communicators)
        launches = _launches(export, host, all_calls, zero)
        syncs = _syncs(waits, launches.iloc[waits.call], events, zero)
        loops = _query_loops(export, host, (work, all_calls), events, zero)
        spans = _spans(export, host, ranges, zero)
        # What asks for work and put none on a device has no id, or its row would be lost.
        asks = by_label(launches["name"].array, asks_for_work).astype(bool)
        launches["correlation_id"] = launches["correlation_id"].mask(asks & ~is_own)
        origin_ns, world_size = machine.unix_ns(export, zero), job.world_size(export, communicators)
        logged = lacking_log(path) if export.path == path else []
        warnings, outdated = machine.warnings(export), machine.outdated(export)
        lost = [*dict.fromkeys(export.lost)]  # of all that was read
        return Trace(
            events=events.assign(group=group, group_size=_group_sizes(group, job.sizes(communicators))),
            spans=spans,
            launches=launches,
            syncs=concat(SYNC_COLUMNS, [syncs, loops]) if len(loops) else syncs,
            ops=ops,
            devices=devices,
            hosts=frame(
                HOST_COLUMNS,
                {
                    "host": [host],
                    "source": [str(path)],
                    "origin_ns": [origin_ns],
                    "world_size": [world_size],
                },
            ),
            losses=losses.table(host, [*losses.from_messages(map(": ".join, warnings)), *lost]),
            memory=memory.table(allocations, host, zero, of_allocation),
            notes=(
                *losses.told(warnings),
                *outdated,
                *logged,
                *losses.notes(lost),
                *unneeded(export),
                *(*notes, *nvtx_notes, *id_notes, *device_notes, *event_notes, *memory_notes),
            ),
            source=str(path),
            format="nsys",
        )


def _with_unique_ids(export: Export, work: Work, calls: Calls) -> tuple[Work, Calls, list[str]]:
    """Rows and calls with correlation ids that are unique over the processes, and notes."""
    notes = []
    process, call_process = work.process, calls.process
    owners, callers = _processes(process), _processes(call_process)
    # Some exports do not say whose a row or a call is; with one process there is no doubt.
    if len(callers) == 1:
        process = np.where(process == MISSING, callers[0], process)
    elif len(owners) == 1:
        call_process = np.where(call_process == MISSING, owners[0], call_process)
    if len(callers) > 1 and (unowned := int((process == MISSING).sum())):
        notes.append(f"The process of {unowned} device rows is unknown, and with it their launches.")
        if unowned < len(process):
            evidence = "device rows whose process is not known, where that of others is"
            export.lost.append(Lost(Loss.EVENTS, unowned, len(process), evidence))
    order = _processes(process)
    if len(order) > 1:
        pids = ", ".join(str(machine.pid(process_id)) for process_id in order.tolist())
        notes.append(
            f"Correlation ids repeat between the {len(order)} processes ({pids}): those of every process but the first "
            "were offset by a multiple of 2^32."
        )
    # Those of which no device has a row come last, so that all ids of others are as they would be without them.
    order = np.append(order, np.setdiff1d(_processes(call_process), order)) if len(order) else order
    work = replace(work, process=process, correlation=_unique(process, work.correlation, order))
    calls = replace(calls, process=call_process, correlation=_unique(call_process, calls.correlation, order))
    return work, calls, notes


def _processes(process: NDArray[np.int64]) -> NDArray[np.int64]:
    """The processes in a column, in order."""
    return np.sort(pd.unique(process[process != MISSING]))


def _unique(process: NDArray[np.int64], correlation: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids that no two processes of `order` share; MISSING for none (0) and for a process that is not there."""
    if not len(order):
        order = np.array([MISSING])
    in_order = np.argsort(order)
    place = in_order[np.minimum(np.searchsorted(order, process, sorter=in_order), len(order) - 1)]
    has_id = (order[place] == process) & (correlation > 0) & (correlation < 1 << CORRELATION_BITS)
    return np.where(has_id, (place << CORRELATION_BITS) + np.where(has_id, correlation, 0), MISSING)


def _middle(*events: Work | Ranges) -> float:
    """The time in ns around which the events of the first table with any stand: that of one of them."""
    starts = next((table.start_ns for table in events if len(table.start_ns)), np.zeros(1, np.int64))
    half = (len(starts) - 1) // 2
    return float(np.partition(starts, half)[half])


def _bounds(export: Export, *events: Work | Ranges) -> tuple[float, float, str]:
    """The times in ns between which all events of an export are, and what others are.

    Those of the session, where the export tells them and no more than a few of these `events` are outside; else those
    between which int64 picoseconds hold the times.
    """
    begin, end = machine.session_ns(export)
    low, high = begin - _ENDING_NS, end + _ENDING_NS
    starts = np.concatenate([each.start_ns for each in events])
    outside = np.count_nonzero((starts < low) | (starts > high))
    if end - begin < _FURTHEST_NS and outside <= max(1, _FEW * len(starts)):
        return low, high, "their times are outside of the session"
    middle = _middle(*events)
    return middle - _FURTHEST_NS, middle + _FURTHEST_NS, "their times are more than 26 days from the others"


def _near(export: Export, bounds: tuple[float, float, str], table: T) -> T:
    """The events of a table without those that are not inside of the `bounds`, which are counted."""
    low, high, evidence = bounds
    near = (table.start_ns > low) & (table.start_ns < high) & (table.end_ns > low) & (table.end_ns < high)
    if near.all():
        return table
    export.lost.append(Lost(Loss.EVENTS, int((~near).sum()), len(near), evidence))
    return select(table, near)


def _earliest(*events: Work | Calls | Ranges | Allocations) -> int:
    """The time of the first event in ns, 0 without any."""
    starts = [table.start_ns.min() for table in events if len(table.start_ns)]
    return int(min(starts)) if starts else 0


def _ps(time_ns: NDArray[np.int64], zero_ns: int) -> NDArray[np.int64]:
    return (time_ns - zero_ns) * _PS_PER_NS


def _nullable(values: NDArray[np.int64]) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values, values == MISSING)


def _devices(
    export: Export, host: str, work: Work, allocations: Allocations
) -> tuple[tuple[pd.Categorical, pd.Categorical], pd.DataFrame, list[str]]:
    """The device of each row and of each allocation (null for memory elsewhere), all devices (DEVICE_COLUMNS), and
    notes."""
    on_device = allocations.on_device
    nowhere = (allocations.device < 0) | (allocations.device >= MOST_NUMBER)
    nowhere |= (allocations.process == MISSING) & bool((work.process != MISSING).any())
    if count := int((on_device & nowhere).sum()):
        export.lost.append(Lost(Loss.DETAILS, count, len(on_device), "processes or GPUs of allocations"))
    on_device = on_device & ~nowhere
    process = np.concatenate([work.process, allocations.process[on_device]])
    number = np.concatenate([work.device, allocations.device[on_device]])
    pair, first = distinct(process, number)
    gpus, notes = machine.gpus(export, [(int(process[row]), int(number[row])) for row in first])
    is_guess = np.array([gpu.is_guess for gpu in gpus] + [False])[pair]
    is_guess &= number != MISSING
    for is_its, what, evidence in (
        (is_guess[: len(work.process)], Loss.EVENTS, "device rows"),
        (is_guess[len(work.process) :], Loss.DETAILS, "allocations"),
    ):
        if count := int(is_its.sum()):
            told = "whose GPU TARGET_INFO_CUDA_DEVICE does not tell, as it does that of others"
            export.lost.append(Lost(what, count, len(is_its), f"{evidence} {told}"))
    of_allocation = np.full(len(on_device), len(gpus))
    of_allocation[on_device] = pair[len(work.process) :]
    facts = sorted({gpu.name: gpu for gpu in gpus}.values(), key=lambda gpu: natural(gpu.name))
    devices = frame(
        DEVICE_COLUMNS,
        {
            "host": [host] * len(facts),
            "device": [gpu.name for gpu in facts],
            "model": [gpu.model for gpu in facts],
            "memory_bytes": [gpu.memory_bytes for gpu in facts],
            "memory_bandwidth_bytes_per_s": [gpu.memory_bandwidth_bytes_per_s for gpu in facts],
        },
    )
    names = [gpu.name for gpu in gpus]
    of_row = categorical(names, pair[: len(work.process)])
    return (of_row, categorical([*names, None], of_allocation)), devices, notes


def _events(
    export: Export, host: str, work: Work, calls: Calls, ranges: Ranges, zero: int, device: pd.Categorical
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The device rows (EVENT_COLUMNS), their operations (OP_COLUMNS) and notes."""
    launch = _launch_of(work, calls)
    size, group, size_notes = nvtx.messages(export, work, calls, launch)
    hlo, ops, op = nvtx.operations(calls, ranges, launch)
    data = {
        "host": constant(host, len(launch)),
        "device": device,
        "lane": _lanes(work, device),
        **kinds.columns([what.classification for what in work.labels], work.label),
        "name": categorical([what.name for what in work.labels], work.label),
        "start_ps": _ps(work.start_ns, zero),
        "end_ps": _ps(work.end_ns, zero),
        "category": categorical([what.category for what in work.labels], work.label),
        "bytes": _nullable(np.where(size == MISSING, work.size_bytes, size)),
        "correlation_id": _nullable(work.correlation),
        "group": group,
        **hlo,
        "op": op,
    }
    return frame(EVENT_COLUMNS, data), ops, size_notes


def _groups(events: pd.DataFrame, work: Work, communicators: Sequence[job.Communicator]) -> pd.Categorical:
    """The communicator of each row: that of the call that launched it, else that of a process which is in one alone, if
    it was made before the first collective of the process."""
    group = events["group"].cat
    codes = group.codes.to_numpy().astype(np.int64)
    labels: list[str | None] = [str(label) for label in group.categories]
    rest = (events["kind"] == Kind.COLLECTIVE.value).to_numpy() & (codes < 0)
    for process, only in job.only_communicators(communicators).items():
        mine = rest & (work.process == process)
        if mine.any() and work.start_ns[mine].min() >= only.start_ns:
            codes[mine] = len(labels)
            labels.append(f"{only.identity:#x}")
    return categorical([*labels, None], codes)


def _group_sizes(group: pd.Categorical, sizes: Mapping[int, int]) -> pd.arrays.IntegerArray:
    """How many ranks the communicator of each row has, null where none is told; `sizes` are those of communicators."""
    of_label = np.array([sizes.get(int(str(label), 16), MISSING) for label in group.categories] + [MISSING])
    return _nullable(of_label.astype(np.int64)[group.codes])


def _launch_of(work: Work, calls: Calls) -> NDArray[np.int64]:
    """The call that started each row, -1 where none is known; of two calls with one id the outer, which began first."""
    if not len(calls.correlation):
        return np.full(len(work.correlation), -1, np.int64)
    order = np.lexsort((calls.start_ns, calls.correlation))
    ids = calls.correlation[order]
    place = np.minimum(np.searchsorted(ids, work.correlation), len(ids) - 1)
    return np.where(ids[place] == work.correlation, order[place], -1)


def _lanes(work: Work, device: pd.Categorical) -> pd.Categorical:
    """The stream of each row; with its process and context where two of them have a stream of that number there."""
    unified = np.array([what.unified for what in work.labels], bool)[work.label]
    stream = np.where(unified, MISSING, work.stream)
    context = np.where(unified, MISSING, work.context)
    on = device.codes.astype(np.int64)
    which, first = distinct(on, stream, unified, work.process, context)
    same: dict[tuple[int, int, bool], set[tuple[int, int]]] = {}
    streams = [
        ((int(on[row]), int(stream[row]), bool(unified[row])), (int(work.process[row]), int(context[row])))
        for row in first
    ]
    for number, owner in streams:
        same.setdefault(number, set()).add(owner)
    labels = []
    for number, (process, in_context) in streams:
        label = "unified memory" if number[2] else "stream ?" if number[1] == MISSING else f"stream {number[1]}"
        owners = same[number]
        if len({owner for owner, _ in owners}) > 1:
            label += f", process {machine.pid(process)}"
        if sum(owner == process for owner, _ in owners) > 1:
            label += f", context {in_context}"
        labels.append(label)
    return categorical(labels, which)


def _spans(export: Export, host: str, ranges: Ranges, zero: int) -> pd.DataFrame:
    """The NVTX ranges (SPAN_COLUMNS)."""
    return frame(
        SPAN_COLUMNS,
        {
            "host": constant(host, len(ranges.start_ns)),
            "process": _process_labels(machine.process_of(ranges.thread)),
            "thread": _threads(export, ranges.thread),
            **span_columns(ranges.names, ranges.name),
            "start_ps": _ps(ranges.start_ns, zero),
            "end_ps": _ps(ranges.end_ns, zero),
            "step": ranges.steps(),
        },
    )


def _launches(export: Export, host: str, calls: Calls, zero: int) -> pd.DataFrame:
    """The API calls (LAUNCH_COLUMNS)."""
    which, ids = pd.factorize(calls.name_id)
    texts = strings(export, ids)
    return frame(
        LAUNCH_COLUMNS,
        {
            "host": constant(host, len(which)),
            "process": _process_labels(calls.process),
            "thread": _threads(export, calls.thread),
            "name": categorical(
                [_API_VERSION.sub("", texts.get(name_id, "")) or "CUDA call" for name_id in ids.tolist()], which
            ),
            "start_ps": _ps(calls.start_ns, zero),
            "end_ps": _ps(calls.end_ns, zero),
            "correlation_id": _nullable(calls.correlation),
        },
    )


def _syncs(waits: Waits, calls: pd.DataFrame, events: pd.DataFrame, zero: int) -> pd.DataFrame:
    """The waits (SYNC_COLUMNS) of the host calls `calls` (LAUNCH_COLUMNS), one for each."""
    nowhere = len(events)
    columns = {}
    for column, row in (
        ("device", waits.lane),
        ("lane", waits.lane),
        ("on_device", waits.on_device),
        ("on_lane", waits.on_lane),
    ):
        values = events[column.removeprefix("on_")].array
        codes = np.append(values.codes, -1)[np.where(row < 0, nowhere, row)]
        columns[column] = pd.Categorical.from_codes(codes, categories=values.categories)
    recorded = np.where(waits.recorded_ns == MISSING, MISSING, _ps(waits.recorded_ns, zero))
    same = {str(name): calls[name].array for name in calls if name != "correlation_id"}
    return frame(SYNC_COLUMNS, {**same, **columns, "recorded_ps": _nullable(recorded)})


def _query_loops(
    export: Export, host: str, records: tuple[Work, Calls], events: pd.DataFrame, zero: int
) -> pd.DataFrame:
    """The loops of queries among the calls as waits (SYNC_COLUMNS); `records`: all rows, which are the `events`, and
    all calls."""
    work, calls = records
    is_query, is_aside = cuda.queries(export, calls)
    if not is_query.any():
        return frame(SYNC_COLUMNS)
    call = _launch_of(work, calls)
    start, (process, _) = _ps(calls.start_ns, zero), pd.factorize(calls.process)
    lane, _ = distinct(events["device"].cat.codes.to_numpy(), events["lane"].cat.codes.to_numpy())
    first, last, row = polling.waits(
        polling.Calls(calls.thread, process, start, _ps(calls.end_ns, zero), is_query, is_aside),
        polling.Work(call, lane, events["end_ps"].to_numpy()),
    )
    queries = replace(select(calls, first), end_ns=calls.end_ns[last])
    return polling.table(_launches(export, host, queries, zero), events, row, start[call[row]])


def _process_labels(process: NDArray[np.int64]) -> pd.Categorical:
    which, ids = pd.factorize(process)
    return categorical(machine.processes(ids.tolist()), which)


def _threads(export: Export, thread: NDArray[np.int64]) -> pd.Categorical:
    which, ids = pd.factorize(thread)
    return categorical(machine.threads(export, ids.tolist()), which)
