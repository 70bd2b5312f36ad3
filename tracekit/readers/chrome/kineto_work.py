"""The device rows of a Kineto document: kernels, copies and sets, and what each of them is.

Collective arguments are those of PyTorch's `record_param_comms` (torch/csrc/profiler/util.cpp), which Kineto repeats on
the kernel (libkineto/src/output_json.cpp). Copies are named by CUPTI and rocprofiler (`Memcpy HtoD (Pinned -> Device)`)
or by Intel's PTI (`Memcpy M2D(Memory -> Device)`).
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import by_label, categorical, constant, distinct, frame
from tracekit.correlation import Calls, DeviceRows, calls_of_rows
from tracekit.devices import is_known, on_host, unknown
from tracekit.readers import repeats
from tracekit.readers.chrome import kineto_devices, kineto_fields
from tracekit.readers.chrome.document import Document
from tracekit.readers.chrome.kineto_fields import MOST, at_least, count, damaged, is_count, is_ranks, is_text, whole
from tracekit.readers.losses import Lost
from tracekit.readers.nested import innermost
from tracekit.trace import EVENT_COLUMNS
from tracekit.vocabulary import copies, kinds
from tracekit.vocabulary.collectives import operation
from tracekit.vocabulary.host_calls import launches as asks_for_work
from tracekit.vocabulary.kinds import Kind, KnownBy
from tracekit.vocabulary.losses import Loss

Rows = NDArray[np.int64]

# c10::ScalarType as PyTorch writes it, and the C++ names that `Input type` holds.
_ELEMENT_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "unsigned char", "signed char", "bool"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16", "c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("Int", "Float", "UInt32", "ComplexHalf", "QInt32", "float", "int"), 4),
    **dict.fromkeys(
        ("Long", "Double", "UInt64", "ComplexFloat", "double", "long", "long int", "c10::complex<float>"), 8
    ),
    **dict.fromkeys(("ComplexDouble", "c10::complex<double>"), 16),
}
_NUMBER = re.compile(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?")
# The rank before the number of a process.
_RANK = re.compile(r"\[([^\]/]+)\] ")
# Stands for the call of a row that several calls may have started.
DOUBTFUL = -2
# What only one piece of work, call or range has, or one at a time.
_ID = re.compile(rb'"(correlation|stream|External id|Ev Idx)"')
_ANNOTATION = re.compile(r"([a-z]*ccl|gloo|mpi|ucc):")  # `nccl:all_reduce`
# Of the 64 warps of 32 threads that a multiprocessor holds, or 32 in some models, which have their half percent sooner.
_HALF_A_PERCENT_WARPS = 0.32


# Kineto drops what devices did outside of its window (`outOfRange` in libkineto/src/CuptiActivityProfiler.cpp), and
# marks where that begins and ends; the clocks of devices may be off by some ms.
_WINDOW_BEGIN, _WINDOW_END = "Iteration Start: ", "Record Window End"
_OFF_PS = 10**11
_FEW = 0.01


class _Work(msgspec.Struct, gc=False):
    """The args of a piece of device work; a copy between devices names its own as `inDevice`."""

    device: Any = None
    in_device: Any = msgspec.field(name="inDevice", default=None)
    from_device: Any = msgspec.field(name="fromDevice", default=None)
    to_device: Any = msgspec.field(name="toDevice", default=None)
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    direction: Any = None
    size: Any = None
    collective: Any = msgspec.field(name="Collective name", default=None)
    sent_elements: Any = msgspec.field(name="In msg nelems", default=None)
    received_elements: Any = msgspec.field(name="Out msg nelems", default=None)
    dtype: Any = None
    group: Any = msgspec.field(name="Process Group Name", default=None)
    description: Any = msgspec.field(name="Process Group Description", default=None)
    ranks: Any = msgspec.field(name="Process Group Ranks", default=None)
    group_size: Any = msgspec.field(name="Group size", default=None)
    sequence: Any = msgspec.field(name="Seq", default=None)
    sender: Any = msgspec.field(name="Src Rank", default=None)
    receiver: Any = msgspec.field(name="Dst Rank", default=None)
    occupancy_percent: Any = msgspec.field(name="est. achieved occupancy %", default=None)
    warps_per_sm: Any = msgspec.field(name="warps per SM", default=None)


class Call(msgspec.Struct, gc=False):
    """The args of a host call; only HIP's copies tell a size."""

    correlation: Any = None
    bytes: Any = None
    size: Any = None


class _Annotation(msgspec.Struct):
    """The args of the annotation around a collective's launch (`nccl:all_reduce`)."""

    dims: Any = msgspec.field(name="Input Dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)


def outside_window(document: Document) -> NDArray[np.bool_]:
    """Which kernels, copies and memsets are more than a tenth of a second outside of the record window, (n,).

    None where the document does not say when that ended, or more than a few are, so that they are on another clock.
    """
    nothing = np.zeros(len(document), bool)
    is_end, is_begin = (
        by_label(document.name, is_mark).astype(bool) & document.timed
        for is_mark in (_WINDOW_END.__eq__, lambda name: name.startswith(_WINDOW_BEGIN))
    )
    if not is_end.any():
        return nothing
    work = by_label(document.cat, lambda category: kineto_devices.kind_of(category) is not None).astype(bool)
    work &= document.timed
    start = document.start_ps
    outside: NDArray[np.bool_] = work & (start > start[is_end].max() + _OFF_PS)
    if is_begin.any():
        outside |= work & (start < start[is_begin].min() - _OFF_PS)
    return outside if np.count_nonzero(outside) <= max(1, _FEW * np.count_nonzero(work)) else nothing


def before_time_zero(document: Document) -> NDArray[np.bool_]:
    """Which events, (n,), begin before the time from which Kineto counts; none where more than a few do, in a file that
    another tool has changed."""
    if document.base_ps >= 0:
        return np.zeros(len(document), bool)
    early: NDArray[np.bool_] = document.timed & (document.start_ps < -document.base_ps)
    return early & (np.count_nonzero(early) <= max(1, _FEW * np.count_nonzero(document.timed)))


def read(
    document: Document, host: str, rows: Rows, annotations: Rows, calls: Rows, ids_of_calls: NDArray[np.int64]
) -> tuple[pd.DataFrame, Rows, list[Lost]]:
    """The events `rows`, which are work of devices, as EVENT_COLUMNS; the call that launched each, else -1; and what is
    damaged of them.

    `annotations` are the host's annotations, `calls` its calls and `ids_of_calls` their correlation ids: they tell what
    a collective is whose kernel does not, and how large a copy of HIP's is. The call of a row is DOUBTFUL where several
    have its id, and nothing tells which of them started it.
    """
    records = document.args(rows, _Work)
    numbers = ids([record.correlation for record in records])
    ids_of_rank = pd.arrays.IntegerArray(numbers, numbers == 0)
    correlations = cast(pd.arrays.IntegerArray, ids_of_rank + id_offsets(document, rows))
    devices = [*map(_device_of, records)]
    gpus = _labels(devices, document.pid[rows], device)
    given = np.array([number is not None for number in devices], bool)
    processes = kineto_devices.device_processes(document)
    device_names = _told_apart(kineto_devices.of_processes(document, rows, gpus, given, processes), document.pid[rows])
    lanes = _labels([record.stream for record in records], _threads(document, rows, processes), lane)
    launch = _launches(document, (rows, correlations, device_names, lanes), calls, ids_of_calls)
    name = names(document, rows)
    kind_columns = _kinds(name, kineto_devices.named(document.cat[rows]), records)
    of_gpus = by_label(kineto_devices.named(document.cat[rows]), lambda text: kineto_devices.kind_of(text) is not None)
    own = np.flatnonzero(of_gpus)
    # Of older files, which write categories capitalised, those of one category alone need have the same.
    is_newer = by_label(document.cat[rows[own]], str.islower).astype(bool)
    alike = np.where(is_newer, -1, document.cat.codes[rows[own]])
    lost = _damaged([records[row] for row in own.tolist()], alike)
    collectives = np.flatnonzero(kind_columns["kind"] == Kind.COLLECTIVE.value)
    unnamed = np.array([row for row in collectives.tolist() if records[row].collective is None], np.int64)
    for row, annotation in _annotations(document, unnamed, launch, annotations).items():
        records[row] = _annotated(records[row], *annotation)
    categories = [_category(records[row].collective, str(name[row])) for row in collectives.tolist()]
    copied = np.flatnonzero(kind_columns["kind"] == Kind.MEMCPY.value)
    sizes = _copy_sizes(document, records, copied, launch)
    sequence: list[int | None] = [None] * len(rows)
    group_size: list[int | None] = [None] * len(rows)
    groups, own_rank = _groups(document), _own_rank(document)
    ranks: list[str | None] = []
    for row, category in zip(collectives.tolist(), categories, strict=True):
        sizes[row] = _message_bytes(category, records[row])
        sequence[row] = whole(records[row].sequence)
        group_size[row] = whole(records[row].group_size) or None
        members = _ranks(records[row], groups)
        if pair := _pair(records[row], category, own_rank, members):
            # In a group of more ranks each counts its own sends and receives, whichever the peer.
            sequence[row] = sequence[row] if members == pair else None
            group_size[row], members = 2, pair
        ranks.append(members)

    def is_of_unseen_call(row: int) -> bool:
        return launch[row] < 0 and records[row].bytes is None and records[row].size is None

    def of_collectives(values: Sequence[object]) -> pd.Categorical:
        """The column of `values`, one a collective, as text; null in other rows."""
        which = np.zeros(len(rows), np.int64)
        which[collectives] = np.arange(1, len(collectives) + 1)
        return categorical([None, *(None if value is None else str(value) for value in values)], which)

    table = frame(
        EVENT_COLUMNS,
        {
            **kind_columns,
            "host": constant(host, len(rows)),
            "device": device_names,
            "lane": lanes,
            "name": name,
            "start_ps": document.start_ps[rows],
            "end_ps": document.start_ps[rows] + document.duration_ps[rows],
            "category": of_collectives(categories),
            "bytes": integers(sizes),
            "correlation_id": correlations,
            "group": of_collectives([_group(records[row]) for row in collectives]),
            "ranks": of_collectives(ranks),
            "sequence": integers(sequence),
            "group_size": integers(group_size),
            "dtype": of_collectives([records[row].dtype for row in collectives]),
            "occupancy_ratio": _occupancies(records),
        },
    )
    is_named = ~by_label(name, lambda text: text == kinds.UNNAMED).astype(bool)
    # Of what else has no name the time counts, as that of work whose kind is not known.
    is_typed = kind_columns["known_by"] != KnownBy.NOTHING.value
    nameless = int((~is_named & np.asarray(is_typed)).sum())
    lost.append(Lost(Loss.DETAILS, nameless, len(rows), "names of copies, memsets and collectives"))
    is_lost = given & ~by_label(device_names, is_known).astype(bool)
    lost.append(Lost(Loss.EVENTS, int(is_lost.sum()), len(rows), "work of devices whose numbers are none"))
    # Of the work of GPUs all has an id, and all copies a size, where any has; HIP's, if their calls are there to tell.
    by_call = any(str(call).startswith("hip") for call in document.name.categories)
    own_copies = [row for row in copied.tolist() if of_gpus[row] and not (by_call and is_of_unseen_call(row))]
    sizeless = sum(sizes[row] is None for row in own_copies)
    if sizeless < len(own_copies) or any(records[row].bytes is not None for row in own_copies):
        lost.append(Lost(Loss.DETAILS, sizeless, len(own_copies), "sizes of copies"))
    has_id = numbers[of_gpus.astype(bool)] != 0
    if has_id.any():
        lost.append(Lost(Loss.DETAILS, int((~has_id).sum()), len(has_id), "correlation ids of work"))
    return table, launch, [each for each in lost if each.lost]


def _device_of(record: _Work) -> Any:
    return record.in_device if record.device is None else record.device


def repeated(document: Document, rows: Rows) -> NDArray[np.bool_]:
    """Which of the events `rows`, shape (n,), equal one before them in all that they hold, with an id."""

    def args(some: Rows) -> list[NDArray[np.int64]]:
        texts = (bytes(text) for part in document.args_by_part(rows[some], msgspec.Raw) for text in part)
        # What has no id is like no other.
        return [np.array([hash(text) if _ID.search(text) else at for at, text in enumerate(texts)], np.int64)]

    start = document.start_ps[rows]
    keys = [column.codes[rows] for column in (document.name, document.cat, document.pid, document.tid)]
    return repeats.repeated(start, start + document.duration_ps[rows], keys, args)


# What a collective's kernel tells, and what newer versions of PyTorch add.
_OF_COLLECTIVES: Mapping[str, tuple[str, kineto_fields.Test]] = {
    "collective": ("Collective name", is_text),
    "sent_elements": ("In msg nelems", is_count),
    "received_elements": ("Out msg nelems", is_count),
    "dtype": ("dtype", lambda value: isinstance(value, str) and value in _ELEMENT_BYTES),
    "group_size": ("Group size", at_least(1)),
}
_OF_GROUPS: Mapping[str, tuple[str, kineto_fields.Test]] = {
    "group": ("Process Group Name", is_text),
    "description": ("Process Group Description", lambda value: isinstance(value, str)),
    "ranks": ("Process Group Ranks", is_ranks),
    "sequence": ("Seq", is_count),
}
# A send tells its receiver, a recv its sender.
_OF_PEERS: Mapping[str, tuple[str, kineto_fields.Test]] = {
    "sender": ("Src Rank", is_count),
    "receiver": ("Dst Rank", is_count),
}
_OF_COPIES: Mapping[str, tuple[str, kineto_fields.Test]] = {
    "from_device": ("fromDevice", is_count),
    "to_device": ("toDevice", is_count),
}


def _damaged(records: Sequence[_Work], alike: NDArray[np.integer[Any]]) -> list[Lost]:
    """What is damaged of the args of kernels, copies and memsets, but what is counted of all work: ids and whether
    copies have sizes; what has one number in `alike` (n,) has the same args."""
    if not records:
        return []
    copies = [record for record in records if record.from_device is not None or record.to_device is not None]
    lost = kineto_fields.of_records(copies, _OF_COPIES, "args of copies between devices")
    fields = {name: np.zeros(len(records), bool) for name in ("device", "stream")}
    for number in np.unique(alike):
        rows = np.flatnonzero(alike == number)
        some = [records[row] for row in rows.tolist()]
        # Of a device of another value that is no number nobody knows which it is, and that is counted of all work.
        fields["device"][rows] = damaged([*map(_device_of, some)], lambda number: not isinstance(number, list | dict))
        fields["stream"][rows] = damaged([record.stream for record in some], is_count)
    fields["est. achieved occupancy %"] = _without_occupancy(records)
    lost += kineto_fields.lost(fields, "args of kernels, copies and memsets")
    told = [
        record
        for record in records
        if not (record.collective is record.sent_elements is record.received_elements is None)
        or not (record.dtype is record.group_size is None)
    ]
    tests = {**_OF_COLLECTIVES, **_OF_GROUPS}
    always = {name: damaged([getattr(record, key) for record in told], test) for key, (name, test) in tests.items()}
    always |= {
        name: damaged([getattr(record, key) for record in told], test, lacks=False)
        for key, (name, test) in _OF_PEERS.items()
    }
    return [*lost, *(kineto_fields.lost(always, "args of collectives") if told else [])]


def _without_occupancy(records: Sequence[_Work]) -> NDArray[np.bool_]:
    """Which records have a share of warps that is none, or lack it beside a number of warps where others have both."""
    columns = [[record.occupancy_percent for record in records], [record.warps_per_sm for record in records]]
    (percent, has_percent), (warps, has_warps) = (
        (_floats(values), np.array([value is not None for value in values], bool)) for values in columns
    )
    is_damaged = has_percent & ~((percent >= 0) & (percent <= 100)) | has_warps & ~((warps >= 0) & (warps < MOST))
    is_half = has_percent != has_warps
    bad: NDArray[np.bool_] = is_damaged | is_half if (has_percent & has_warps).any() else is_damaged
    return bad


def id_offsets(document: Document, rows: Rows) -> NDArray[np.int64]:
    """What makes the correlation ids of the events `rows` unique over the ranks whose files a tool joined to one.

    SGLang's puts the rank before the number of every process, that of a device included: `[TP01] 0`
    (python/sglang/srt/utils/profile_merger.py).
    """
    numbers = {label: number for number, label in enumerate(rank_labels(document))}

    def offset(process: str) -> int:
        match = _RANK.match(process)
        return numbers[match[1]] << 32 if match else 0

    return by_label(document.pid[rows], offset, 0).astype(np.int64)


def rank_labels(document: Document) -> list[str]:
    """The ranks whose files a tool joined to this one, as it calls them, in the file's order."""
    matches = map(_RANK.match, document.pid.categories)
    return list(dict.fromkeys(match[1] for match in matches if match))


def _told_apart(devices: pd.Categorical, processes: pd.Categorical) -> pd.Categorical:
    """The names of `devices`, with the process before them where a joined file has one number for several: Kineto
    gives the events of a device the process of its number, which such tools change, and mostly not the number."""
    which, first = distinct(devices.codes, processes.codes)
    pairs = [(str(devices[at]), processes[at]) for at in first.tolist()]
    uses = Counter(name for name, process in pairs if isinstance(process, str))
    labels = [
        on_host((match[1] if (match := _RANK.match(process)) else f"process {process}"), name)
        if isinstance(process, str) and uses[name] > 1
        else name
        for name, process in pairs
    ]
    return categorical(labels, which)


def _threads(document: Document, rows: Rows, processes: Mapping[str, str]) -> pd.Categorical:
    """What tells the lane of the events `rows` where their args do not: the number of the thread, but on `processes` of
    devices that are no GPUs its name, where it has one."""
    threads = document.tid[rows]
    others = kineto_devices.no_gpus(processes)
    if not others:
        return threads
    which, first = distinct(document.pid[rows].codes, threads.codes)
    keys = [(document.pid[row], document.tid[row]) for row in rows[first].tolist()]
    return categorical([document.thread_names.get(key, key[1]) if key[0] in others else key[1] for key in keys], which)


def _launches(
    document: Document,
    work: tuple[Rows, pd.arrays.IntegerArray, pd.Categorical, pd.Categorical],
    calls: Rows,
    ids: NDArray[np.int64],
) -> Rows:
    """The call that started each piece of `work` (its events, correlation ids, devices and lanes), see read."""
    rows, correlations, device_of_row, lane_of_row = work
    has_id = ~np.asarray(correlations.isna(), bool)
    start, end = document.start_ps, document.start_ps[calls] + document.duration_ps[calls]
    call, is_doubtful = calls_of_rows(
        DeviceRows(
            correlations.to_numpy(np.int64, na_value=0)[has_id],
            start[rows][has_id],
            device_of_row.codes.astype(np.int64)[has_id],
            lane_of_row.codes.astype(np.int64)[has_id],
        ),
        Calls(
            ids,
            start[calls],
            end,
            document.pid.codes[calls].astype(np.int64) + 1,
            by_label(document.name[calls], asks_for_work).astype(bool),
        ),
    )
    launch = np.full(len(rows), -1)
    launch[has_id] = np.where(is_doubtful, DOUBTFUL, np.append(calls, -1)[call])
    return launch


def names(document: Document, rows: Rows) -> pd.Categorical:
    """The names of the events `rows`; what has none is called so."""
    names_of_rows = document.name[rows]
    texts = [text or kinds.UNNAMED for text in names_of_rows.categories]
    return categorical([*texts, kinds.UNNAMED], names_of_rows.codes.astype(np.int64))


def _kinds(name: pd.Categorical, category: pd.Categorical, records: Sequence[_Work]) -> dict[str, pd.Categorical]:
    """Kind, direction and what told the kind, for each row."""
    # Whether the args of a copy name two devices, or one for both ends, where they name both.
    apart = {
        row: bool(record.from_device != record.to_device)
        for row, record in enumerate(records)
        if record.from_device is not None and record.to_device is not None
    }
    ends = np.full(len(records), -1)
    ends[[*apart]] = [*apart.values()]
    # NCCL's arguments stand on the kernels that a collective launched.
    is_collective = np.array([record.collective is not None for record in records], bool)
    directions = [None if record.direction is None else _direction(record.direction) for record in records]
    ways, _ = pd.factorize(np.array(directions, object))
    which, first = distinct(name.codes, category.codes, is_collective, ends, ways)
    classifications = [
        kinds.classify(
            name[row],
            typed=_kind(name[row], category[row], bool(is_collective[row]), directions[row]),
            direction=copies.direction(name[row], directions[row] or "", apart=apart.get(int(row))),
        )
        for row in first
    ]
    return kinds.columns(classifications, which)


def _direction(given: object) -> str | None:
    """The direction that the args of an unknown accelerator's event name, None if they name none."""
    return copies.direction(given) if isinstance(given, str) else None


def _kind(name: str, category: str, is_collective: bool, direction: str | None) -> Kind:
    """The kind that the record of a row says; a row of a category that Kineto does not know is a copy if it has a
    direction, or its name says so."""
    if is_collective:
        return Kind.COLLECTIVE
    if known := kineto_devices.kind_of(category):
        return known
    words = kinds.words(name)
    if direction or copies.is_copy(words, copies.direction(name)):
        return Kind.MEMCPY
    return Kind.MEMSET if kinds.is_memset(words) else Kind.COMPUTE


def messages(document: Document, events: Rows, is_collective: NDArray[np.bool_]) -> dict[str, Any]:
    """What the collectives among the `events`, which are annotations, move and between whom: the columns category,
    bytes, dtype, group, ranks and group_size.

    The annotations do not name their process group: it is known where the job has one, and its ranks where all groups
    of the job have the same.
    """
    rows = np.flatnonzero(is_collective)
    group = _group_of_all(document)
    args = zip(document.name[events[rows]], document.args(events[rows], _Annotation), strict=True)
    records = [_annotated(group, name, each) for name, each in args]
    which = np.zeros(len(events), np.int64)
    which[rows] = np.arange(1, len(rows) + 1)
    categories = [_category(record.collective, "") for record in records]
    sizes = [_message_bytes(category, record) for category, record in zip(categories, records, strict=True)]
    return {
        "category": categorical([None, *categories], which),
        "bytes": integers([None, *sizes])[which],
        "dtype": categorical(
            [None, *(None if record.dtype is None else str(record.dtype) for record in records)], which
        ),
        "group": categorical([None, *(_group(record) for record in records)], which),
        "ranks": categorical([None, *(_ranks(record, {}) for record in records)], which),
        "group_size": integers([None, *(whole(record.group_size) for record in records)])[which],
    }


def _copy_sizes(document: Document, records: Sequence[_Work], copies: Rows, launch: Rows) -> list[int | None]:
    """The bytes of each row that is one of `copies`; HIP's may stand on the call that asked for the copy."""
    sizes: list[int | None] = [None] * len(records)
    for row in copies.tolist():
        record = records[row]
        sizes[row] = whole(record.size if record.bytes is None else record.bytes)
    by_call = np.array([row for row in copies.tolist() if sizes[row] is None and launch[row] >= 0], np.int64)
    for row, args in zip(by_call.tolist(), document.args(launch[by_call], Call), strict=True):
        sizes[row] = whole(args.bytes if args.size is None else args.size)
    return sizes


def _annotations(document: Document, rows: Rows, launch: Rows, annotations: Rows) -> dict[int, tuple[str, _Annotation]]:
    """The annotation around the launch of each of `rows`, which are collectives, where there is one.

    Older files tell only there what a collective is: their kernels may all be called SendRecv, whatever they do.
    """
    annotations = annotations[by_label(document.name[annotations], lambda name: _ANNOTATION.match(name) is not None)]
    rows = rows[launch[rows] >= 0]
    annotation = around(document, launch[rows], annotations)
    rows, annotation = rows[annotation >= 0], annotation[annotation >= 0]
    named_args = zip(document.name[annotation], document.args(annotation, _Annotation), strict=True)
    return dict(zip(rows.tolist(), named_args, strict=True))


def _category(collective: object, kernel: str) -> str | None:
    """The operation by PyTorch's name for the collective, else by its kernel's; None where neither tells it.

    A barrier of PyTorch is what its kernel is: NCCL has none, and an all-reduce of one element does.
    """
    operation_of_name = operation(collective) if isinstance(collective, str) else None
    return operation(kernel) or operation_of_name if operation_of_name in (None, "barrier") else operation_of_name


def _message_bytes(collective: str | None, work: _Work) -> int | None:
    """The size of a collective's message, as NCCL's tests count it; None where element count or type are not known.

    One rank's buffer for all-reduce, broadcast, reduce, send and receive; what one rank sends in all for all-to-all;
    the whole (all ranks' parts together) for all-gather, reduce-scatter, gather and scatter, whose two sides differ.
    """
    sent, received, size = whole(work.sent_elements), whole(work.received_elements), _ELEMENT_BYTES.get(str(work.dtype))
    if sent is None or received is None or size is None:
        return None
    elements = sent if collective == "all-to-all" and sent else max(sent, received)
    return min(elements * size, MOST) or None


def _group(work: _Work) -> str | None:
    """The process group, with its description where it has one: `0 (default_pg)`."""
    if work.group in (None, ""):
        return None
    has_description = work.description not in (None, "", "undefined")
    return f"{work.group} ({work.description})" if has_description else str(work.group)


def _ranks(work: _Work, groups: Mapping[str, object]) -> str | None:
    """The members of the process group, `0,1`; of long lists Kineto keeps only the beginning, then `groups` may tell.

    `groups` maps the names of process groups to their ranks, as `distributedInfo` lists them.
    """
    for members in (work.ranks, groups.get(str(work.group))):
        text = ",".join(map(str, members)) if isinstance(members, list) else str(members or "")
        text = text.strip("[] ").replace(" ", "")
        if re.fullmatch(r"\d+(,\d+)*", text):
            return text
    return None


def _own_rank(document: Document) -> int | None:
    """The rank of the job that the document is of, None where it is of several, or does not say."""
    job = document.head.get("distributedInfo")
    return count(job.get("rank")) if isinstance(job, dict) and len(rank_labels(document)) < 2 else None


def _pair(work: _Work, category: str | None, own_rank: int | None, members: str | None) -> str | None:
    """The two ranks of a send or a recv, `1,2`, of the `members` of its group; None where they are not told, or two.

    PyTorch writes the other one, by its number in the job: of a send `Dst Rank`, of a recv `Src Rank`, where
    `own_rank` is the one that wrote the file.
    """
    if category not in ("send", "recv"):
        return None
    sender, receiver = count(work.sender), count(work.receiver)
    if category == "send" and sender is None:
        sender = own_rank
    if category == "recv" and receiver is None:
        receiver = own_rank
    if sender is None or receiver is None or sender == receiver or own_rank not in (None, sender, receiver):
        return None
    pair = {str(sender), str(receiver)}
    if members is not None and not pair <= set(members.split(",")):
        return None
    return ",".join(sorted(pair, key=int))


def _occupancies(records: Sequence[_Work]) -> pd.arrays.FloatingArray:
    """The share of its device's warps that each kernel keeps busy, 0 to 1, as Kineto estimates it.

    Kineto rounds to whole percent and writes 0 also where it could not tell (libkineto/src/DeviceProperties.cpp): 0 is
    known only of kernels too small to reach half a percent.
    """
    percent = _floats([work.occupancy_percent for work in records])
    zeros = np.flatnonzero(percent == 0)
    warps = np.array([_float(records[row].warps_per_sm) for row in zeros.tolist()], np.float64)
    percent[zeros[~(warps < _HALF_A_PERCENT_WARPS)]] = np.nan
    is_ratio = (percent >= 0) & (percent <= 100)
    return pd.arrays.FloatingArray(np.where(is_ratio, percent, 0) / 100, ~is_ratio)


def _floats(values: list[Any]) -> NDArray[np.float64]:
    """Each of the values (n,) as `_float` gives it."""
    if not set(map(type, values)) <= {int, float, type(None)}:
        values = [*map(_float, values)]
    try:
        return np.array(values, np.float64)  # None is NaN
    except OverflowError:
        return np.array([*map(_float, values)], np.float64)


def _float(value: object) -> float:
    """`value` as a float, NaN if it is no number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST
    return float(cast(float, value)) if is_number else math.nan


def _annotated(work: _Work, name: str, args: _Annotation) -> _Work:
    """`work` with what the annotation `name` around its launch says, as newer files write it on the kernel itself.

    Only the tensors that go in are told. All-gather and gather, whose other side counts, get a count where it is known
    that so many ranks give as much; scatter gets none.
    """
    work = msgspec.structs.replace(work, collective=_ANNOTATION.sub("", name, count=1))
    dims, types = args.dims, args.types
    if not (isinstance(dims, list) and isinstance(types, list) and dims and len(dims) == len(types)):
        return work
    if any(kind != types[0] for kind in types) or not all(isinstance(shape, list) for shape in dims):
        return work
    work.dtype = types[0]
    sizes = [[whole(size) for size in shape] for shape in dims]
    ranks = whole(work.group_size) or 0
    givers = {"all-gather": ranks, "gather": ranks, "scatter": 0}.get(_category(work.collective, "") or "", 1)
    if givers and all(size is not None for shape in sizes for size in shape):
        elements = sum(math.prod(size or 0 for size in shape) for shape in sizes)
        work.sent_elements = work.received_elements = givers * elements
    return work


def _listed_groups(document: Document) -> list[dict[str, Any]]:
    """The process groups of this rank, as `distributedInfo` lists them."""
    job = document.head.get("distributedInfo")
    config = job.get("pg_config") if isinstance(job, dict) else None
    return [group for group in (config if isinstance(config, list) else []) if isinstance(group, dict)]


def _groups(document: Document) -> Mapping[str, object]:
    """The ranks of every process group that `distributedInfo` lists, by the group's name."""
    return {str(group.get("pg_name")): group.get("ranks") for group in _listed_groups(document)}


def _group_of_all(document: Document) -> _Work:
    """What a collective says of its process group where it may be of any of the groups that `distributedInfo` lists:
    what these have in common."""
    groups = _listed_groups(document)
    members = groups[0].get("ranks") if groups else None
    if not isinstance(members, list) or not members or any(group.get("ranks") != members for group in groups):
        return _Work()
    only = groups[0] if len(groups) == 1 else {}
    return _Work(group=only.get("pg_name"), description=only.get("pg_desc"), ranks=members, group_size=len(members))


def device(text: str | None) -> str:
    """The name of the device that Kineto calls so."""
    is_number = _NUMBER.fullmatch(text or "")  # that of -5 or 1e300 is none
    match = re.search(r"^\d{1,5}$" if is_number else r"(?<!\d)\d{1,5}$", text or "")
    return f"gpu:{int(match[0])}" if match else unknown("gpu")


def lane(text: str | None) -> str:
    """The name of the lane whose stream Kineto calls so."""
    return f"stream {text}" if re.fullmatch(r"-?\d+", text or "") else text or "stream ?"


def around(document: Document, events: Rows, ranges: Rows) -> Rows:
    """The innermost of `ranges` around the beginning of each of `events` on its thread, -1 where there is none."""
    thread, on = (
        document.pid.codes[rows].astype(np.int64) * (len(document.tid.categories) + 1) + document.tid.codes[rows]
        for rows in (events, ranges)
    )
    start = document.start_ps[ranges]
    place = innermost(document.start_ps[events], thread, start, start + document.duration_ps[ranges], on)
    return np.where(place >= 0, np.append(ranges, -1)[place], -1)


def _labels(texts_of_rows: list[Any], otherwise: pd.Categorical, label: Callable[[str | None], str]) -> pd.Categorical:
    """The column label(told), of `otherwise` where it is null."""
    if not set(map(type, texts_of_rows)) <= {str, int, type(None)}:
        # As text, since 1, 1.0 and True are one key.
        texts_of_rows = [
            None if text is None or isinstance(text, list | dict) else _told(text) for text in texts_of_rows
        ]
    codes, values = pd.factorize(np.array(texts_of_rows, object))
    which, first = distinct(codes, np.where(codes < 0, otherwise.codes, 0))
    texts = [str(values[codes[row]]) if codes[row] >= 0 else otherwise[row] for row in first]
    return categorical([label(None if pd.isna(text) else text) for text in texts], which)


def _told(value: object) -> str:
    """A value as text, a whole number as that of an integer."""
    number = whole(value)
    return str(value) if number is None else str(number)


def ids(values: list[Any]) -> NDArray[np.int64]:
    """The id that each of `values` is, 0 where it is none; a column of plain integers at once."""
    if set(map(type, values)) == {int} and min(values) >= 0 and max(values) < MOST:
        return np.array(values, np.int64)
    return np.array([count(value) or 0 for value in values], np.int64)


def integers(values: list[int | None]) -> pd.arrays.IntegerArray:
    """The Int64 column of `values`; None is null."""
    missing = np.array([value is None for value in values], bool)
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], np.int64), missing)
