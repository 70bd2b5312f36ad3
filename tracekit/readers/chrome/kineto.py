"""PyTorch Kineto: a Chrome trace document of one rank to a `Trace`.

Device work is what Kineto took from CUPTI, rocprofiler or PTI as kernels, copies and sets. The annotations that it
repeats on the GPU's rows, synchronisation (a wait does no work) and calls of the host, whatever they are named, are
none. The categories are those of libkineto/include/ActivityType.h; older files write them capitalised and short.

Which operator (`cpu_op`) and line of Python (`python_function`, with `with_stack`) launched a row, time tells: the
innermost around the launch, on the same thread. Newer files also join kernel and operator by an `External id`: in all
that were compared it names the same operator. Kineto writes no FLOPs, even with `with_flops`.

A call's name says that it waits. For what, CUPTI's own records say (`cuda_sync`, written with
`_ExperimentalConfig(enable_cuda_sync_events=True)`): which stream, and which call recorded the event that is waited for
(libkineto/src/CuptiActivityProfiler.cpp). Without them cudaStreamWaitEvent tells nothing, not even its event.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, categorical, concat, constant, distinct, frame
from tracekit.correlation import Calls, outer_calls
from tracekit.devices import is_known
from tracekit.readers import losses, polling, repeats
from tracekit.readers.chrome import (
    Dialect,
    Document,
    kineto_cpu,
    kineto_devices,
    kineto_fields,
    kineto_memory,
    kineto_work,
)
from tracekit.readers.chrome.document import FAR, NO_JSON
from tracekit.readers.chrome.kineto_fields import at_least, is_count, whole
from tracekit.readers.chrome.kineto_work import Call, around, device, integers, lane
from tracekit.readers.losses import Lost
from tracekit.readers.nested import outermost
from tracekit.trace import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    HOST_WORK_COLUMNS,
    LAUNCH_COLUMNS,
    OP_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.units import YEAR_2000_NS, YEAR_2200_NS
from tracekit.vocabulary.host_calls import (
    Activity,
    SyncCall,
    activity_of,
    asks_if_done,
    operator,
    reads_back,
    says_waiting,
    stands_aside,
    step_number,
    sync_call,
)
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.phase_names import span_columns
from tracekit.vocabulary.ranks import process_number

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Threads = Mapping[tuple[str | None, str | None], str]

_CALLS = re.compile(r"(\w+_)?(runtime|driver)")
_ANNOTATIONS = frozenset({"user_annotation"})
_HOST_OPS = frozenset({"cpu_op", "operator"})
_FRAMES = frozenset({"python_function"})
_SUFFIX = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz)?$")
# What PyTorch numbers. Of a sample a smaller share of the numbers is there; of a whole trace nearly all are.
_INSTANTS = frozenset({"cpu_instant_event"})
_NUMBERED = _HOST_OPS | _FRAMES | _ANNOTATIONS | _INSTANTS
SAMPLED, _FEWEST = 0.5, 200
_MICROSECOND_PS = 10**6
_NO_STREAM = 2**32 - 1
# An op that waited for a copy goes on within this time after its end; the clocks may be apart; shorter is no wait.
_WAKE_PS, _CLOCKS_PS, _BRIEF_PS = 50 * _MICROSECOND_PS, 10 * _MICROSECOND_PS, 5 * _MICROSECOND_PS

# `torch/nn/modules/linear.py(124): forward`; what is built in has no file.
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): .")
_OF_TORCH = re.compile(r"(?:^|/)torch/")

# What tells that Kineto wrote a document, where its own keys are missing.
_CATEGORIES = frozenset({"cpu_op", "kernel", "Kernel", "cuda_runtime", "gpu_memcpy", "gpu_memset", "user_annotation"})


class _Numbered(msgspec.Struct):
    """The args of what PyTorch recorded on the host: its place among all that it did."""

    number: Any = msgspec.field(name="Ev Idx", default=None)


_UNTIMED = "kernels, copies or memsets without a valid time"
_OUTSIDE = "kernels, copies or memsets outside of the record window"


def read(document: Document, path: Path) -> Trace:
    """The trace that the document of one rank, read from `path`, holds.

    `host` is `rank<k>`, or the file's stem where neither the trace nor its name tells a rank. Collectives carry what
    NCCL's arguments on their kernel say, in older files what the annotation around their launch says; `bytes` is the
    size of the message as NCCL's tests count it (kineto_work). `sequence` counts the collectives of a process group.
    """
    document = kineto_cpu.categorised(document)
    host, notes = _host(document, path)
    outside = kineto_work.outside_window(document)
    document = document.without_times(outside | kineto_work.before_time_zero(document))
    complete = np.asarray(document.ph == "X") & document.timed
    valid = complete & document.has_duration & (document.duration_ps >= 0)
    work, damaged, skipped = kineto_devices.work(document)
    damaged += [
        Lost(Loss.DETAILS, 1, None, f"{key} of the file's head") for key in kineto_fields.of_head(document.head)
    ]
    damaged += kineto_fields.of_metadata(document)
    whole_work = valid & work
    # Work is written as complete events: what has another phase, or none, lost it.
    is_work = work & (np.asarray(document.ph.isin(["X", "B"])) | document.phaseless | document.has_duration)
    broken = is_work & ~whole_work & ~outside
    if untimed := int((broken & ~document.far).sum()):
        notes.append(f"{untimed} {_UNTIMED} were skipped.")
    annotations = np.flatnonzero(valid & document.of(*_ANNOTATIONS))
    again = kineto_work.repeated(document, annotations)
    damaged += repeats.lost(again, "annotations")
    annotations = annotations[~again]
    is_call = by_label(document.cat, lambda category: bool(_CALLS.fullmatch(category.lower()))).astype(bool)
    damaged += _of_the_host(document, valid, work, is_work, is_call)
    calls = np.flatnonzero(valid & is_call)
    parts = document.args_by_part(calls, Call)
    ids = np.concatenate(
        [np.zeros(0, np.int64), *(kineto_work.ids([args.correlation for args in part]) for part in parts)]
    )
    # Runtimes of other accelerators than GPUs give none to some of their calls.
    ids_of_gpus = ids[by_label(document.cat[calls], lambda category: category.lower().startswith("cuda")).astype(bool)]
    if 0 < (idless := int(np.count_nonzero(ids_of_gpus == 0))) < len(ids_of_gpus):
        damaged.append(Lost(Loss.DETAILS, idless, len(ids_of_gpus), "calls of the host without a correlation id"))
    again = kineto_work.repeated(document, calls)
    damaged += repeats.lost(again, "calls of the host")
    is_own = (ids != 0) & ~again
    calls, ids = calls[is_own], (ids + kineto_work.id_offsets(document, calls))[is_own]
    if len(labels := kineto_work.rank_labels(document)) > 1:
        notes.append(
            f"The file joins {len(labels)} ranks ({', '.join(labels)}): the correlation ids of every one but the first "
            "were offset by a multiple of 2^32."
        )
    work_rows = np.flatnonzero(whole_work)
    again = kineto_work.repeated(document, work_rows)
    damaged += repeats.lost(again, "kernels, copies and memsets")
    work_rows = work_rows[~again]
    of_no_process = by_label(document.pid[work_rows], lambda process: not kineto_fields.is_process(process)).astype(
        bool
    )
    if count := int(of_no_process.sum()):
        damaged.append(Lost(Loss.EVENTS, count, len(work_rows), "work of processes whose numbers are none"))
    events, launch, lost_of_work = kineto_work.read(document, host, work_rows, annotations, calls, ids)
    damaged += lost_of_work
    sampled = _sampled(document)
    notes += [] if sampled else _gaps(document)
    notes += [*kineto_devices.taken(document, work_rows, events["device"].array), *skipped]
    named_ops = np.flatnonzero(valid & document.of(*_HOST_OPS))
    is_step = _steps(document, named_ops) >= 0
    frames = np.flatnonzero(valid & document.of(*_FRAMES))
    ops, op = _operators(document, launch, named_ops[~is_step], frames)
    marks = np.concatenate([annotations, named_ops[is_step | _loads(document, named_ops)]])
    of_host = np.concatenate([named_ops[~is_step], frames])
    threads = _threads(document, np.concatenate([marks, calls, of_host]))
    # Calls of a device's runtime say that it worked, whether its work is in the file or not; so does the list of GPUs
    # of a file that is cut.
    if not len(events) and not len(calls) and not _lacks_gpu_work(document):
        on_cpu = named_ops[~(is_step | _loads(document, named_ops))]
        lanes = _host_columns(document, host, np.concatenate([on_cpu, annotations]), threads)["thread"]
        events, operators = kineto_cpu.read(document, host, on_cpu, annotations, lanes)
        ops, op = kineto_cpu.operations(document, operators, _sources(document, operators, frames))
        launch, of_host = np.full(len(events), -1), frames
    call_table = frame(LAUNCH_COLUMNS, {**_host_columns(document, host, calls, threads), "correlation_id": ids})
    placed = call_table.assign(source=_sources_of_waits(document, calls, call_table["name"].array, frames))
    syncs = _syncs(document, placed, events["device"].cat.categories.tolist())
    damaged += _of_syncs(document)
    call = np.where(launch >= 0, np.searchsorted(calls, launch), -1)
    loops = _query_loops(placed, call, events)
    reads = _reads(document, host, of_host, threads, _LaunchedRows(calls, call, events, frames))
    worked = events["device"].cat.categories.tolist()
    memory, memory_notes, lost_of_memory = kineto_memory.read(document, host, named_ops, worked)
    damaged += lost_of_memory
    return Trace(
        events=events.assign(op=op),
        spans=_spans(document, host, marks, threads),
        host_work=_host_work(document, host, of_host[: len(of_host) - len(frames)], frames, threads),
        launches=call_table,
        syncs=concat(SYNC_COLUMNS, [syncs, loops, reads]) if len(loops) or len(reads) else syncs,
        ops=ops,
        devices=_devices(document, host, worked, memory),
        hosts=frame(
            HOST_COLUMNS,
            {
                "host": [host],
                "source": [str(path)],
                "origin_ns": [_origin_ns(document)],
                "world_size": [_ranks(document)],
            },
        ),
        losses=losses.table(
            host,
            [
                *losses.from_messages(_messages(document)),
                *sampled,
                *_of_events(document, work, broken, outside, len(events)),
                *damaged,
            ],
        ),
        memory=memory,
        notes=(
            *document.notes,
            *notes,
            *losses.notes(damaged),
            *_missing(document, events, launch),
            *memory_notes,
        ),
        source=str(path),
        format="kineto",
    )


def _of_events(document: Document, work: Mask, broken: Mask, outside: Mask, read: int) -> list[Lost]:
    """What the document lost, and of the events that are `work` of devices those that are `broken` or `outside` of the
    record window: these count beside the so many that are `read`, as of few kernels each is much where of all events it
    is little."""
    far, perhaps = int((broken & document.far).sum()), kineto_devices.perhaps_work(document, work)
    of_work = {
        _UNTIMED: int((broken & ~document.far).sum()),
        _OUTSIDE: int(outside.sum()),
        f"kernels, copies or memsets: {FAR}": far,
        f"kernels, copies or memsets, or what may be: {NO_JSON}": perhaps,
    }
    return [
        *document.lost_without({FAR: far, NO_JSON: perhaps}),
        *(Lost(Loss.EVENTS, count, count + read, reason) for reason, count in of_work.items() if count),
    ]


def _of_the_host(document: Document, valid: Mask, work: Mask, is_work: Mask, is_call: Mask) -> list[Lost]:
    """What is damaged of the events of the host, and of what has lost its kind; each mask is (n,).

    `valid`: which events have their times, `work` and `is_work`: which are of a kind that devices work, and written as
    such, `is_call`: which are calls.
    """
    of_the_host = (is_call | document.of(*_ANNOTATIONS, *_HOST_OPS, *_FRAMES)) & ~work
    of_the_host &= np.asarray(document.ph == "X") | document.phaseless
    nameless, instants = by_label(document.name, lambda name: not name, True), document.of(*_INSTANTS)
    placeless = document.placeless | (instants & np.asarray(document.pid.isna() | document.tid.isna()))
    elsewhere = np.zeros(len(document), bool)
    on_host = np.flatnonzero((of_the_host & valid) | instants)
    elsewhere[on_host] = ~kineto_fields.placed(document, on_host) & (not kineto_cpu.is_list(document))
    damaged = []
    for lost, reason in (
        (of_the_host & ~valid & ~document.far, "events of the host without a valid time"),
        (((of_the_host & valid) | instants) & nameless.astype(bool), "events of the host without a name"),
        (elsewhere, "events of the host on processes or threads whose numbers are none"),
        (document.phaseless & ~is_work & ~of_the_host, "events of other kinds without a phase"),
        (placeless, "events without a process or thread"),
    ):
        if count := int(lost.sum()):
            damaged.append(Lost(Loss.DETAILS, count, None, reason))
    return damaged


def _host(document: Document, path: Path) -> tuple[str, list[str]]:
    """The rank as a host's name, and a note where it is only the file's name that tells it."""
    job = document.head.get("distributedInfo")
    rank = whole(job.get("rank")) if isinstance(job, dict) else None
    if rank is not None:
        return f"rank{rank}", []
    if number := process_number(path.name):
        return f"rank{number[1]}", [f"The rank, {number[1]}, is known from the file name only."]
    return _SUFFIX.sub("", path.name) or path.name, []


def _origin_ns(document: Document) -> int | None:
    """Unix time of time 0: newer files count from `baseTimeNanoseconds`, older ones from 1970."""
    first_ns = document.base_ps // 1000
    base_ns = whole(document.head.get("baseTimeNanoseconds")) or 0
    if first_ns > YEAR_2000_NS:
        return first_ns if first_ns < YEAR_2200_NS else None
    return base_ns + first_ns if YEAR_2000_NS < base_ns < YEAR_2200_NS else None


def _messages(document: Document) -> list[object]:
    """What Kineto logged while it recorded: it writes warnings and errors into the file's head."""
    logs = [document.head.get(level) for level in ("WARNING", "ERROR")]
    return [line for log in logs for line in (log if isinstance(log, list) else [log] if isinstance(log, str) else [])]


def _sampled(document: Document) -> list[Lost]:
    """That the file is a sample, where fewer than SAMPLED of the numbers of its operations are there.

    PyTorch numbers all that it hands to Kineto one after the other (`Ev Idx`, passEventsToKineto in
    torch/csrc/autograd/profiler_kineto.cpp): operators, annotations, calls of Python and records of memory.
    """
    ops, numbered = np.flatnonzero(document.of(*_HOST_OPS)), int(document.of(*_NUMBERED).sum())
    if len(ops) < _FEWEST:
        return []
    some = ops[np.unique(np.linspace(0, len(ops) - 1, _FEWEST).astype(np.int64))]
    # Of a sample, which is small, all numbers are looked at.
    if numbered >= SAMPLED * _extent(document, some) or numbered >= SAMPLED * (total := _extent(document, ops)):
        return []
    return [Lost(Loss.OPERATIONS, total - numbered, total, "gaps in the numbers of its operations (Ev Idx)")]


def _gaps(document: Document) -> list[str]:
    """The note on numbers of PyTorch's (`_sampled`) between which some are missing, as in no file that it wrote: a tool
    left them out, or they are lost."""
    numbered = np.flatnonzero(document.of(*_NUMBERED))
    if len(numbered) < _FEWEST or _extent(document, numbered[[0, -1]]) == len(numbered):
        return []
    total = _extent(document, numbered)
    missing = total - len(numbered)
    if not 0 < missing < SAMPLED * total:
        return []
    return [
        f"{missing:,} of {total:,} events that PyTorch numbered (Ev Idx) are not in the file: a tool left them out, or "
        "a part of the file is lost."
    ]


def _extent(document: Document, rows: Rows) -> int:
    """How many numbers lie from the least to the greatest of the events `rows`; 0 without any."""
    numbers = [number for args in document.args(rows, _Numbered) if (number := whole(args.number)) is not None]
    return max(numbers) - min(numbers) + 1 if numbers else 0


def _lacks_gpu_work(document: Document) -> bool:
    """Whether a file is damaged that lists GPUs: their work may be what is not there."""
    return bool(document.head.get("deviceProperties")) and any(
        lost.what in (Loss.BYTES, Loss.EVENTS) for lost in document.lost
    )


def _missing(document: Document, events: pd.DataFrame, launch: Rows) -> list[str]:
    """Notes on what the trace does not hold, or not as exactly as one may think."""
    notes = []
    if doubtful := int((launch == kineto_work.DOUBTFUL).sum()):
        notes.append(
            f"The launches of {doubtful} device rows are unknown: several calls have their correlation ids, and "
            "neither processes nor times tell them apart."
        )
    if not len(events) and _lacks_gpu_work(document):
        notes.append("What is whole of the file holds no work of its GPUs. Copy it again, or record again.")
    elif not len(events):
        notes.append(
            "No GPU work was recorded: no kernels, copies or memsets. Profile with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] while the GPU is working."
        )
    elif kineto_cpu.DEVICE in events["device"].cat.categories:
        notes.append(
            f"No GPU work was recorded: the operators of the host's threads are the work of {kineto_cpu.DEVICE}, a "
            "lane for each thread. Threads that share the work of one operator (OpenMP) are not recorded."
        )
    # Time 0 may be the only time that is no whole microsecond.
    times = np.concatenate([events["start_ps"], events["end_ps"]]) + document.base_ps % _MICROSECOND_PS
    if len(events) > 1 and not (times % _MICROSECOND_PS).any():
        notes.append(
            "All times are whole microseconds, as older versions of PyTorch write them: short work is rounded."
        )
    return notes


def _threads(document: Document, rows: Rows) -> Threads:
    """What each thread of the events `rows` is called, by process and thread: as the file's metadata has it, and with
    its process where a thread of another is called so too."""
    names = document.thread_names
    _, first = distinct(document.pid.codes[rows], document.tid.codes[rows])
    keys = list(zip(document.pid[rows[first]], document.tid[rows[first]], strict=True))
    labels = [names.get(key) or f"thread {key[1]}" for key in keys]
    processes: dict[str, set[str | None]] = {label: set() for label in labels}
    for label, (process, _) in zip(labels, keys, strict=True):
        processes[label].add(process)
    return {
        key: f"{label}, process {key[0]}" if len(processes[label]) > 1 else label
        for label, key in zip(labels, keys, strict=True)
    }


def _host_columns(document: Document, host: str, rows: Rows, threads: Threads) -> dict[str, Any]:
    """Where, what and when: the columns that spans and launches share."""
    which, first = distinct(document.pid.codes[rows], document.tid.codes[rows])
    keys = list(zip(document.pid[rows[first]], document.tid[rows[first]], strict=True))
    return {
        "host": constant(host, len(rows)),
        "process": categorical([key[0] if isinstance(key[0], str) else None for key in keys], which),
        "thread": categorical([threads[key] for key in keys], which),
        "name": kineto_work.names(document, rows),
        "start_ps": document.start_ps[rows],
        "end_ps": document.start_ps[rows] + document.duration_ps[rows],
    }


def _steps(document: Document, rows: Rows) -> Rows:
    """The number in the name of each of the events `rows` that is a step of the profiler, -1 for the others."""
    return by_label(document.name[rows], lambda name: -1 if (number := step_number(name)) is None else number, -1)


def _loads(document: Document, rows: Rows) -> NDArray[np.bool_]:
    """Which events load data by their name: older files write these annotations among the ops too."""
    return by_label(document.name[rows], lambda name: activity_of(name) is Activity.LOADING)


def _spans(document: Document, host: str, rows: Rows, threads: Threads) -> pd.DataFrame:
    """The annotations of the user and of PyTorch's own code, and the profiler's steps (SPAN_COLUMNS).

    Older files write steps among the ops.
    """
    rows = np.sort(rows)
    step = _steps(document, rows)
    steps = pd.arrays.IntegerArray(step, step < 0)
    columns = _host_columns(document, host, rows, threads)
    names = columns["name"]
    named = span_columns([*map(str, names.categories)], names.codes.astype(np.int64))
    return frame(SPAN_COLUMNS, {**columns, "step": steps, **named})


def _host_work(document: Document, host: str, ops: Rows, frames: Rows, threads: Threads) -> pd.DataFrame:
    """When operators and Python frames, the events `ops` and `frames`, prove their threads at work (HOST_WORK_COLUMNS).

    There are too many of them to keep: the outermost operator names the time, one with a namespace (`aten::item`)
    before all others. Where one says by its name that it waits, what is around it proves no work.
    """
    rows = np.concatenate([ops, frames])
    waits = by_label(document.name[rows], says_waiting)
    # The order in which they name a time: operators, what is called like none, frames.
    rank = by_label(document.name[rows], lambda name: operator(name) is None, True).astype(np.int8)
    rank[len(ops) :] = 2
    which, first = distinct(document.pid.codes[rows], document.tid.codes[rows])
    order = np.argsort(which, kind="stable")
    event, times, thread = [np.zeros(0, np.int64)], [iv.EMPTY], [np.zeros(0, np.int64)]
    for at, of_thread in enumerate(np.split(order, np.searchsorted(which[order], np.arange(1, len(first))))):
        waiting = of_thread[waits[of_thread]]
        covered = iv.union(iv.intervals(*_times(document, rows[waiting])))
        for number in range(3):
            own = of_thread[(rank[of_thread] == number) & ~waits[of_thread]]
            piece, begin, until = outermost(*_times(document, rows[own]))
            inside, free = _outside(iv.intervals(begin, until), covered)
            event.append(rows[own[piece[inside]]])
            times.append(free)
            thread.append(np.full(len(free), at))
            covered = iv.union(covered, free)
    by_time = np.lexsort((np.concatenate(times)[:, 0], np.concatenate(thread)))
    of_piece, spans = np.concatenate(event)[by_time], np.concatenate(times)[by_time]
    columns = {**_host_columns(document, host, of_piece, threads), "start_ps": spans[:, 0], "end_ps": spans[:, 1]}
    names = columns["name"]
    codes = np.where(document.of(*_FRAMES)[of_piece], -1, names.codes)
    return frame(HOST_WORK_COLUMNS, {**columns, "name": pd.Categorical.from_codes(codes, dtype=names.dtype)})


def _times(document: Document, rows: Rows) -> tuple[Rows, Rows]:
    """When the events `rows` start and end."""
    start = document.start_ps[rows]
    return start, start + document.duration_ps[rows]


def _outside(pieces: iv.Intervals, covered: iv.Intervals) -> tuple[Rows, iv.Intervals]:
    """The parts of `pieces`, sorted and disjoint, outside of `covered`, merged: of which piece each is, and the times;
    unlike `intervals.difference`, which merges them where they touch."""
    # Of two sorted runs, which a stable sort merges; np.unique would hash them.
    edges = np.sort(np.concatenate([pieces.ravel(), covered.ravel()]), kind="stable")
    edges = edges[np.append(True, np.diff(edges) > 0)[: len(edges)]]
    begin = edges[:-1]
    piece, cover = (np.searchsorted(times[:, 0], begin, side="right") - 1 for times in (pieces, covered))
    is_inside = (piece >= 0) & (np.append(pieces[:, 1], 0)[piece] > begin)
    is_covered = (cover >= 0) & (np.append(covered[:, 1], 0)[cover] > begin)
    free = np.flatnonzero(is_inside & ~is_covered)
    return piece[free], iv.intervals(begin[free], edges[free + 1])


def _devices(document: Document, host: str, worked: list[str], memory: pd.DataFrame) -> pd.DataFrame:
    """One row for each device that worked (DEVICE_COLUMNS); of what the columns want the file tells the model, and
    how large the memory is.

    ROCm counts devices from the first CPU, `deviceProperties` from the first GPU: a number that is not listed there has
    the model that all have.
    """
    properties = document.head.get("deviceProperties")
    gpus = [gpu for gpu in (properties if isinstance(properties, list) else []) if isinstance(gpu, dict)]
    models = {f"gpu:{gpu.get('id')}": str(gpu["name"]) for gpu in gpus if gpu.get("name")}
    sizes = {f"gpu:{gpu.get('id')}": whole(gpu.get("totalGlobalMem")) or None for gpu in gpus}
    names = [*worked, *(name for name in memory["device"].cat.categories if name not in worked)]
    return frame(
        DEVICE_COLUMNS,
        {
            "host": [host] * len(names),
            "device": names,
            "model": [models.get(name, _common(models)) for name in names],
            "memory_bytes": [sizes.get(name, _common(sizes)) for name in names],
        },
    )


def _common(values: Mapping[str, Any]) -> Any:
    """What all devices have; None where they differ."""
    return next(iter(values.values())) if len(set(values.values())) == 1 else None


def _operators(
    document: Document, launch: Rows, ops: Rows, frames: Rows
) -> tuple[pd.DataFrame, pd.arrays.IntegerArray]:
    """The operations (OP_COLUMNS), one for each operator and line, and the row there of each of the n device rows.

    `launch` (n,) is the event that launched each device row, -1 where none is known; `ops` are the operators and
    `frames` the Python frames among the events. `source` is where the innermost function outside of PyTorch begins,
    else the innermost of all.
    """
    calls, call = np.unique(launch[launch >= 0], return_inverse=True)
    innermost = np.append(document.name.codes, -1)[around(document, calls, ops)].astype(np.int64)
    line = _sources(document, calls, frames)
    which, first = distinct(innermost, line.codes.astype(np.int64))
    row = np.full(len(launch), -1)
    row[launch >= 0] = which[call]
    # A launch with neither is of no operation.
    is_operation = (innermost[first] >= 0) | (line.codes[first] >= 0)
    row = np.append(np.where(is_operation, np.cumsum(is_operation) - 1, -1), -1)[row]
    first = first[is_operation]
    names: list[str | None] = [*document.name.categories, None]
    columns = {"framework_op": categorical(names, innermost[first]), "source": line[first]}
    return frame(OP_COLUMNS, columns), pd.arrays.IntegerArray(row, row < 0)


def _sources(document: Document, calls: Rows, frames: Rows) -> pd.Categorical:
    """Where the innermost function around each of the events `calls` begins, one outside of PyTorch before all others;
    null where there is none among the Python frames `frames`."""
    if not len(frames):
        return categorical([None], np.zeros(len(calls), np.int64))
    places = [_FRAME.match(name) for name in document.name.categories]
    files = np.array([bool(place) for place in places] + [False], bool)
    outside_torch = np.array([bool(place and not _OF_TORCH.search(place["file"])) for place in places] + [False], bool)
    frame_names = document.name.codes[frames]
    inner = around(document, calls, frames[outside_torch[frame_names]])
    inner = np.where(inner < 0, around(document, calls, frames[files[frame_names]]), inner)
    line = np.append(document.name.codes, -1)[inner].astype(np.int64)
    return categorical([place and f"{place['file']}:{place['line']}" for place in [*places, None]], line)


def _sources_of_waits(document: Document, calls: Rows, names: pd.Categorical, frames: Rows) -> pd.Categorical:
    """The same of those of `calls` that by their `names` wait, or ask whether work is done; null of others."""
    waits = by_label(names, lambda name: bool(sync_call(name)) or asks_if_done(name)).astype(bool)
    sources = _sources(document, calls[waits], frames)
    codes = np.full(len(calls), -1)
    codes[waits] = sources.codes
    return pd.Categorical.from_codes(codes, dtype=sources.dtype)


class _Sync(msgspec.Struct):
    """The args of a synchronisation: what waits, on which device, and the call that recorded the event waited for."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    wait_on_stream: Any = None
    recorded_by: Any = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)


# The number of a stream is -1 where none is meant, and that of a call where none recorded the event.
_OF_SYNCS = {
    "device": ("device", is_count),
    "stream": ("stream", at_least(-1)),
    "correlation": ("correlation", is_count),
}
_OF_EVENTS = {
    "wait_on_stream": ("wait_on_stream", at_least(-1)),
    "recorded_by": ("wait_on_cuda_event_record_corr_id", at_least(-1)),
}


def _of_syncs(document: Document) -> list[Lost]:
    """What is damaged of the records of synchronisation."""
    rows = np.flatnonzero(document.of("cuda_sync"))
    records = document.args(rows, _Sync)
    of_streams = by_label(document.name[rows], lambda name: name.startswith("Stream")).astype(bool)
    streamless = {"stream": of_streams & np.array([whole(each.stream) == -1 for each in records], bool)}
    of_events = [each for each in records if each.wait_on_stream is not None or each.recorded_by is not None]
    return [
        *kineto_fields.of_records(records, _OF_SYNCS, "args of synchronisation"),
        *kineto_fields.lost(streamless, "args of synchronisation of streams"),
        *kineto_fields.of_records(of_events, _OF_EVENTS, "args of waits for events", lacks=False),
    ]


class _Wait(NamedTuple):
    """What waits, a host thread where `lane` is None, and what for; all None: for what is not known."""

    device: str | None = None
    lane: str | None = None
    on_device: str | None = None
    on_lane: str | None = None
    recorded_ps: int | None = None


def _syncs(document: Document, calls: pd.DataFrame, devices: Sequence[str]) -> pd.DataFrame:
    """The waits (SYNC_COLUMNS) by start, one for each of `calls` (LAUNCH_COLUMNS) that waits or makes a stream wait.

    `devices` are those that worked. What a host call waits for is null where nothing proves it; a stream that waits for
    what is not proven is left out.
    """
    kinds = [sync_call(str(name)) for name in calls["name"].cat.categories]
    codes = calls["name"].cat.codes.to_numpy()
    ids, starts = calls["correlation_id"].to_numpy(np.int64), calls["start_ps"].to_numpy()
    is_sync = np.array([*map(bool, kinds), False], bool)
    # Of a call of the runtime and one of the driver with the same id the outer one.
    outer = _outer_calls(calls)
    at = outer[is_sync[codes[outer]]]
    at = at[np.argsort(starts[at], kind="stable")]
    rows = np.flatnonzero(document.of("cuda_sync"))
    records, offsets = document.args(rows, _Sync), kineto_work.id_offsets(document, rows).tolist()
    # An id that several calls have does not tell which record is whose.
    several = set(ids[outer[1:][np.diff(ids[outer]) == 0]].tolist())
    numbers = [offset + (whole(args.correlation) or 0) for offset, args in zip(offsets, records, strict=True)]
    record_of = {number: args for number, args in zip(numbers, records, strict=True) if number not in several}
    if shared := {name.split("/")[-1] for name in devices if "/" in name}:
        record_of = {number: args for number, args in record_of.items() if device(str(args.device)) not in shared}
    started = (
        {}
        if not record_of
        else {
            number: time
            for number, time in zip(ids[outer].tolist(), starts[outer].tolist(), strict=True)
            if number not in several
        }
    )
    only = devices[0] if len(devices) == 1 and is_known(devices[0]) else None
    waits: dict[int, _Wait] = {}
    for call in at.tolist():
        args = record_of.get(int(ids[call]), _Sync())
        wait = _wait(kinds[codes[call]], args, int(ids[call]), int(starts[call]), started, only)
        if wait:
            waits[call] = wait
    waiting = np.array([*waits], np.int64)
    same = {str(name): calls[name].array[waiting] for name in calls if name != "correlation_id"}
    *places, recorded_ps = zip(*waits.values(), strict=True) if waits else ((),) * len(_Wait._fields)
    columns = {name: pd.Categorical(place) for name, place in zip(_Wait._fields, places, strict=False)}
    recorded = integers(list(recorded_ps))
    return frame(SYNC_COLUMNS, {**same, **columns, "recorded_ps": recorded})


def _query_loops(calls: pd.DataFrame, call: Rows, events: pd.DataFrame) -> pd.DataFrame:
    """The loops of queries among `calls` (LAUNCH_COLUMNS) as waits (SYNC_COLUMNS); `call` (n,) launched each row."""
    is_query, is_aside = (by_label(calls["name"].array, test).astype(bool) for test in (asks_if_done, stands_aside))
    if not is_query.any():
        return frame(SYNC_COLUMNS)
    process, thread = (calls[column].cat.codes.to_numpy() for column in ("process", "thread"))
    lane, _ = distinct(events["device"].cat.codes.to_numpy(), events["lane"].cat.codes.to_numpy())
    start, end = calls["start_ps"].to_numpy(), calls["end_ps"].to_numpy()
    first, last, row = polling.waits(
        polling.Calls(distinct(process, thread)[0], process.astype(np.int64), start, end, is_query, is_aside),
        polling.Work(call, lane, events["end_ps"].to_numpy()),
    )
    return polling.table(calls.iloc[first].assign(end_ps=end[last]), events, row, start[call[row]])


@dataclass(frozen=True)
class _LaunchedRows:
    """The c `calls`, events of the file, and the place there of the `call` (n,) that launched each of the rows
    `events`, -1 for none; and the `frames` of Python, events of the file."""

    calls: Rows
    call: Rows
    events: pd.DataFrame
    frames: Rows


def _reads(document: Document, host: str, ops: Rows, threads: Threads, launched: _LaunchedRows) -> pd.DataFrame:
    """The waits (SYNC_COLUMNS) of the events `ops` that brought a result to the host, where no call inside tells it.

    Such an op waited from the end of the last call of its thread in it until the copy was done that its thread had
    launched last: that copy ended there, and the op right after. Of ops in each other the innermost counts.
    """
    reads = ops[by_label(document.name[ops], reads_back).astype(bool)]
    calls, call, events = launched.calls, launched.call, launched.events
    is_back = (events["direction"] == "D2H").to_numpy(bool)
    if not len(reads) or not (is_back & (call >= 0)).any():
        return frame(SYNC_COLUMNS)
    row_end, both = events["end_ps"].to_numpy(), np.concatenate([reads, calls])
    thread, _ = distinct(document.pid.codes[both], document.tid.codes[both])
    start, end = document.start_ps[both], document.start_ps[both] + document.duration_ps[both]
    row_of_call = np.full(len(calls), -1)
    linked = np.flatnonzero(call >= 0)
    row_of_call[call[linked]] = linked
    begin, row = start[: len(reads)].copy(), np.full(len(reads), -1)
    for number in np.unique(thread[: len(reads)]).tolist():
        own = np.flatnonzero(thread[: len(reads)] == number)
        of_thread = np.flatnonzero(thread[len(reads) :] == number)
        ends = np.append(np.iinfo(np.int64).min, np.sort(end[len(reads) + of_thread]))
        begin[own] = np.maximum(begin[own], ends[np.searchsorted(ends, end[own], side="right") - 1])
        launching = of_thread[row_of_call[of_thread] >= 0]
        launching = launching[np.argsort(start[len(reads) + launching], kind="stable")]
        last = np.searchsorted(start[len(reads) + launching], begin[own])
        row[own] = np.append(-1, row_of_call[launching])[last]
    end_of_row, until = row_end[row], end[: len(reads)]
    waits = (row >= 0) & is_back[row] & (end_of_row > begin + _BRIEF_PS) & (end_of_row <= until + _CLOCKS_PS)
    waits &= until - end_of_row <= _WAKE_PS
    order = np.flatnonzero(waits)
    order = order[np.lexsort((until[order], -begin[order], row[order]))]
    order = order[np.append(True, np.diff(row[order]) != 0)[: len(order)]]
    order = order[np.argsort(begin[order], kind="stable")]
    columns = {
        **_host_columns(document, host, reads[order], threads),
        "start_ps": begin[order],
        "source": _sources(document, reads[order], launched.frames),
    }
    return polling.table(pd.DataFrame(columns), events, row[order], start[len(reads) + call[row[order]]])


def _outer_calls(calls: pd.DataFrame) -> Rows:
    """The places of those of `calls` (LAUNCH_COLUMNS) that lie in no other of their process with their id, by id."""
    return outer_calls(
        Calls(
            calls["correlation_id"].to_numpy(np.int64),
            calls["start_ps"].to_numpy(),
            calls["end_ps"].to_numpy(),
            calls["process"].cat.codes.to_numpy().astype(np.int64) + 1,
            np.zeros(len(calls), bool),
        )
    )


def _wait(
    kind: SyncCall | None, args: _Sync, number: int, start_ps: int, started: Mapping[int, int], only: str | None
) -> _Wait | None:
    """What the call of this kind, id and start says with the args of its record; None for what is to be left out.

    `started` maps ids of calls to their starts; `only` is the one device that worked, None where several did.
    """
    name = None if args.device is None else device(str(args.device))
    where = name if name and is_known(name) else None
    if kind is SyncCall.STREAM:
        on_lane = _stream(args.stream)
        return _Wait(None, None, where, on_lane, start_ps) if where and on_lane else _Wait()
    if kind not in (SyncCall.STREAM_WAIT, SyncCall.EVENT):
        where = where or only
        return _Wait(None, None, where, None, start_ps) if where else _Wait()
    # The ids of a rank in a joined file are offset together.
    by = number - (whole(args.correlation) or 0) + (whole(args.recorded_by) or 0)
    on_lane, waiting = _stream(args.wait_on_stream), _stream(args.stream)
    # A later id would be of a later use of the same event.
    proven = where and on_lane and by < number and by in started
    if kind is SyncCall.EVENT:
        return _Wait(None, None, where, on_lane, started[by]) if proven else _Wait()
    return _Wait(where, waiting, where, on_lane, started[by]) if proven and waiting else None


def _stream(number: object) -> str | None:
    """The lane of a stream's number, None for the numbers that stand for none."""
    value = whole(number)
    return lane(str(value)) if value is not None and 0 <= value < _NO_STREAM else None


def _is_kineto(document: Document) -> bool:
    """Whether Kineto wrote the document."""
    keys = document.head.keys()
    own_keys = keys & {"deviceProperties", "distributedInfo"} or keys >= {"schemaVersion", "traceName"}
    return bool(own_keys or kineto_cpu.is_list(document) or _CATEGORIES & set(document.cat.categories))


def _ranks(document: Document) -> int | None:
    """The number of ranks that the document says its job had."""
    job = document.head.get("distributedInfo")
    size = job.get("world_size") if isinstance(job, dict) else None
    size = whole(size)
    return size if size and size > 0 else None


DIALECT = Dialect(_is_kineto, read, _ranks)
