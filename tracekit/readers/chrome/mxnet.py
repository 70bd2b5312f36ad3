"""MXNet's profiler dumps: what its engine ran on each context, and the host's spans.

A context (`cpu/0`, `gpu/0`) is a process; each operator is a pair of B and E there, written one after the other, and
once more as b and e in the process `operator`, which is left out. Any other process holds host spans: b and e (C API
calls, tasks), B and E (events), `(` and `)` (frames); tasks may be phases. Times are whole microseconds. Source of the
format and of the operators' names: src/profiler/profiler.h, src/ndarray/ndarray.cc and src/kvstore of MXNet 0.11 to
2.0.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import by_label, categorical, constant, distinct, frame
from tracekit.devices import is_known, type_of, unknown
from tracekit.readers import losses, nested, repeats
from tracekit.readers.chrome import Dialect, Document
from tracekit.readers.losses import Lost
from tracekit.trace import DEVICE_COLUMNS, EVENT_COLUMNS, HOST_COLUMNS, SPAN_COLUMNS, Trace
from tracekit.vocabulary import kinds
from tracekit.vocabulary.collectives import MXNET_COLLECTIVE, operation
from tracekit.vocabulary.copies import MXNET_COPY
from tracekit.vocabulary.host_calls import MXNET_ERRANDS
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.phase_names import span_columns

# Where such a part of all pairs that take time are alike, they stand in the file again.
_SHARE_REPEATED = 0.05
_YEAR_2000_PS = 946_684_800 * 10**12
_CONTEXT = re.compile(r"(?P<type>cpu|gpu)/(?P<number>\d+)|cpu (pinned|shared)/\d*")
# What tells that MXNet wrote a document.
_CATEGORIES = frozenset({"MXNET_C_API", "Device Storage"})
_CONTEXT_PROCESS = re.compile(r"(cpu|gpu|cpu pinned|cpu shared)/\d*")
_OPERATOR = "operator"
_CUSTOM = "Custom Operator"
# The categories of operators; MXNet 0.11 has but one.
_OF_OPERATORS = frozenset({_OPERATOR, _CUSTOM, "category"})
_PYTHON = "::pure_python"
_CLOSES = {"B": "E", "b": "e", "(": ")"}


def read(document: Document, path: Path) -> Trace:
    """The trace in a document that MXNet's profiler wrote at `path`; the host is the file's stem.

    A file without operators on contexts gives those of the process `operator`, whose device is unknown. Operators of a
    process that should be a context and has not the name of one are lost.
    """
    pairs, lost = _pairs(document)
    rows = pairs[:, 0]
    process, name = _processes(document, rows), document.name[rows]
    on_context = by_label(process, lambda context: _CONTEXT.fullmatch(context) is not None).astype(bool)
    of_operators = by_label(document.cat[rows], lambda category: category in _OF_OPERATORS).astype(bool)
    # Only on contexts are operators B and E.
    misplaced = of_operators & ~on_context & np.asarray(document.ph[rows] == "B")
    as_tasks = (of_operators | np.asarray(process.isin([_OPERATOR, _CUSTOM]))) & ~on_context & ~misplaced
    as_tasks &= ~by_label(name, lambda operator: _PYTHON in operator).astype(bool)
    operators = on_context if on_context.any() else as_tasks
    errands = operators & by_label(name, lambda operator: _bare(operator) in MXNET_ERRANDS).astype(bool)
    work = operators & ~errands
    host = path.name.removesuffix(".gz").removesuffix(".json")
    events = _events(document, host, pairs[work], process[work])
    spans = _spans(document, host, pairs[errands | ~(on_context | misplaced | as_tasks)])
    lost += [
        *_misplaced(document, rows[on_context], rows[misplaced], int(operators.sum())),
        *_details(document, rows, events),
    ]
    notes = losses.notes(lost)
    if errands.any():
        notes.append(
            f"{errands.sum()} housekeeping operators of the engine (freeing memory, waiting) are host spans, not work."
        )
    if work.any() and not on_context.any():
        notes.append("No operator is recorded on a context: the device of each is unknown.")
    if not work.any() and not lost:
        notes.append("MXNet recorded no operators: profile_all=True or profile_imperative=True records them.")
    unix_ns = document.base_ps // 1000 if document.base_ps > _YEAR_2000_PS else None
    return Trace(
        events=events,
        spans=spans,
        devices=_devices(events, host),
        hosts=frame(HOST_COLUMNS, {"host": [host], "source": [str(path)], "origin_ns": [unix_ns]}),
        losses=losses.table(host, [*document.lost, *lost]),
        notes=(*document.notes, *notes, *_event_notes(events)),
        source=str(path),
        format="mxnet",
    )


def _processes(document: Document, rows: NDArray[np.int64]) -> pd.Categorical:
    """The name of the process of each of the events `rows`."""
    names = [document.processes.get(pid, "") for pid in document.pid.categories]
    return categorical([*names, ""], document.pid.codes[rows])


def _pairs(document: Document) -> tuple[NDArray[np.int64], list[Lost]]:
    """The rows (begin, end) of every pair, shape (n, 2), in the order of their begins, and the events that are lost.

    An end closes the last open begin of its process, thread and name: the file's order tells, not time, since
    asynchronous operators overlap on the thread that reports them done.
    """
    sides = {text: (at, step) for at, (a, b) in enumerate(_CLOSES.items()) for text, step in ((a, 1), (b, -1))}
    kind, step = by_label(document.ph, lambda text: sides.get(text, (0, 0)), (0, 0)).T
    # MXNet counts microseconds from a moment before the profile.
    timed = document.timed & (document.start_ps >= max(-document.base_ps, 0))
    rows = np.flatnonzero((step != 0) & timed)
    key = distinct(kind[rows], document.pid.codes[rows], document.tid.codes[rows], document.name.codes[rows])[0]
    order = np.argsort(key, kind="stable")
    rows, key, way = rows[order], key[order], step[rows[order]]
    depth = np.cumsum(way)
    # How deep a pair lies among those of its key: a begin counts itself, an end what it closes.
    first = np.concatenate([[True], key[1:] != key[:-1]]) if len(rows) else np.zeros(0, bool)
    level = depth - (depth - way)[first][np.cumsum(first) - 1] + (way < 0)
    nested = np.lexsort((level, key))
    a, b = nested[:-1], nested[1:]
    is_pair = (key[a] == key[b]) & (level[a] == level[b]) & (way[a] > 0) & (way[b] < 0)
    pairs = np.column_stack([rows[a[is_pair]], rows[b[is_pair]]])
    pairs = pairs[np.argsort(pairs[:, 0])]
    backwards = document.start_ps[pairs[:, 1]] < document.start_ps[pairs[:, 0]]
    # MXNet writes both events of a pair at once, when it has ended: also where a profile starts or stops none is alone.
    reasons = {
        "begins and ends without a time": int(((step != 0) & ~timed & ~document.far).sum()),
        "without a phase": int(document.phaseless.sum()),
        "begins and ends without a counterpart": len(rows) - 2 * len(pairs),
        "ends before their begins, and these": 2 * int(backwards.sum()),
    }
    total = int(((step != 0) | document.phaseless).sum())
    lost = [Lost(Loss.EVENTS, count, total, reason) for reason, count in reasons.items() if count]
    pairs = pairs[~backwards]
    again = _again(document, pairs)
    return pairs[~again], [*lost, *repeats.lost(again, "operators and spans")]


def _again(document: Document, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which `pairs` (n, 2) repeat one before them, where a large part of the file stands in it again. They have no
    numbers, so that a few that are alike may be two."""
    rows = pairs[:, 0]
    start, end = document.start_ps[pairs].T
    columns = (document.pid.codes[rows], document.tid.codes[rows], document.name.codes[rows])
    which, first = distinct(start, end, *columns)
    again = np.ones(len(pairs), bool)
    again[first] = False
    repeated = again & (end > start)
    if np.count_nonzero(repeated) < max(_SHARE_REPEATED * np.count_nonzero(end > start), 1):
        return np.zeros(len(pairs), bool)
    # Of no length many may be alike: those count that stand where the file does again, and no more than stood before.
    behind = rows >= rows[repeated].min()
    before = np.bincount(which[~behind], minlength=len(first))
    found: NDArray[np.bool_] = again & (repeated | (behind & (before[which] > 0)))
    return found


def _misplaced(document: Document, placed: NDArray[np.int64], misplaced: NDArray[np.int64], read: int) -> list[Lost]:
    """What is lost of the operators that begin in the rows `misplaced`, whose processes are no contexts; `placed` are
    on contexts, and `read` how many are read: where none is on a context, their repeats stand for them."""
    if not len(misplaced):
        return []
    nameless, named = (len(np.unique(document.pid.codes[rows])) for rows in (misplaced, placed))
    lost = [Lost(Loss.PLANES, nameless, nameless + named, "contexts without a valid name")]
    total = len(placed) + len(misplaced)
    if read < total:
        lost.append(Lost(Loss.EVENTS, total - read, total, "operators on contexts without a valid name"))
    return lost


def _details(document: Document, rows: NDArray[np.int64], events: pd.DataFrame) -> list[Lost]:
    """What is lost of the pairs that begin in `rows` and are read, and of the `events` among them."""
    lost = []
    if threadless := int(np.asarray(document.tid[rows].isna()).sum()):
        lost.append(Lost(Loss.DETAILS, threadless, len(rows), "threads of operators and spans"))
    # A name without a letter is that of no operator: it is absent, or a number.
    nameless = by_label(events["name"].array, lambda name: not any(map(str.isalpha, name)), True).astype(bool)
    if nameless.any():
        time_ps = (events["end_ps"] - events["start_ps"]).to_numpy(np.int64)
        of = iv.sum_exactly(time_ps[nameless]), iv.sum_exactly(time_ps)
        lost.append(Lost(Loss.KINDS, *of, "operators whose names are lost"))
    return lost


def _device(context: str) -> str:
    """The device of a context; pinned and shared memory are the host's, whichever of its contexts used them."""
    match = _CONTEXT.fullmatch(context)
    if match and match["type"]:
        return f"{match['type']}:{match['number']}"
    return unknown("cpu" if match else "device")


def _bare(name: str) -> str:
    """An operator's name without that of the custom operator it is part of: `mine::exp` is an exp."""
    return name.rpartition("::")[2]


def _classification(name: str) -> kinds.Classification:
    """What an operator is: MXNet's own names of copies and collectives are records of what it did."""
    bare = _bare(name)
    is_copy, is_collective = MXNET_COPY.fullmatch(bare), MXNET_COLLECTIVE.fullmatch(bare)
    return kinds.classify(bare, typed=Kind.MEMCPY if is_copy else Kind.COLLECTIVE if is_collective else Kind.COMPUTE)


def _events(document: Document, host: str, pairs: NDArray[np.int64], process: pd.Categorical) -> pd.DataFrame:
    """The rows of the operators `pairs`, each on the context that its `process` is (EVENT_COLUMNS)."""
    rows = pairs[:, 0]
    start, end = document.start_ps[pairs].T
    which, codes = pd.factorize(document.name.codes[rows])
    labels = [*map(str, document.name.categories), ""]
    names = [labels[code] for code in codes]
    classifications = [_classification(name) for name in names]
    compute = np.array([classification.kind == Kind.COMPUTE for classification in classifications], bool)[which]
    line = distinct(process.codes, document.tid.codes[rows])[0]
    pieces = nested.leaves(start, end, end, line, np.zeros(len(rows), bool))
    # A copy or collective is one row: its thread may report others done while it is under way.
    whole = np.flatnonzero(~compute)
    pieces = np.concatenate([pieces[compute[pieces[:, 0]]], np.column_stack([whole, start[whole], end[whole]])])
    pieces = pieces[np.argsort(pieces[:, 1], kind="stable")]
    at = pieces[:, 0]
    data = {
        "host": constant(host, len(at)),
        "device": categorical([*map(_device, process.categories)], process.codes[at]).remove_unused_categories(),
        "lane": _threads(document, rows[at]),
        **kinds.columns(classifications, which[at]),
        "name": categorical(names, which[at]),
        "category": categorical(
            [
                operation(_bare(name)) if classification.kind == Kind.COLLECTIVE else None
                for name, classification in zip(names, classifications, strict=True)
            ],
            which[at],
        ),
        "start_ps": pieces[:, 1],
        "end_ps": pieces[:, 2],
    }
    return frame(EVENT_COLUMNS, data)


def _event_notes(events: pd.DataFrame) -> list[str]:
    """What the times and places in `events` do not tell."""
    notes = []
    devices = [str(device) for device in events["device"].cat.categories]
    if any(type_of(device) == "gpu" for device in devices):
        notes.append(
            "GPU times are those of MXNet's engine, from when a worker takes an operator until its stream is done "
            "(with an Async engine: until it is enqueued). They include launch and waiting; kernels are not recorded."
        )
    if len([device for device in devices if type_of(device) == "cpu" and is_known(device)]) > 1:
        notes.append("CPU contexts are names that the program chose: work that overlaps on them shares the same cores.")
    if (place := unknown("cpu")) in devices:
        count = int((events["device"] == place).sum())
        notes.append(
            f"{count} operators on pinned or shared memory name no device: they are on {place}, which counts in no "
            "device pair."
        )
    blind = int(((events["kind"] == Kind.MEMCPY.value) & events["direction"].isna()).sum())
    if blind:
        notes.append(
            f"{blind} copies have no direction: the file does not record between which contexts of a type they go."
        )
    on_host = int(((events["kind"] == Kind.COLLECTIVE.value) & events["device"].map(type_of).eq("cpu")).sum())
    if on_host and any(type_of(device) == "gpu" for device in devices):
        notes.append(
            f"{on_host} collectives are on the CPU, where the engine runs them, even if they move data of GPUs."
        )
    if events["name"].isin(["KVStoreStreamSync"]).any():
        notes.append(
            "The NCCL store starts its collectives on cpu/0 and waits there for them (KVStoreStreamSync): both are "
            "collectives of cpu:0; when they ran on the GPUs is not recorded."
        )
    short = int((events["start_ps"] == events["end_ps"]).sum())
    if short:
        notes.append(f"{short} operators took less than the file's resolution of 1 µs and have zero length.")
    return notes


def _spans(document: Document, host: str, pairs: NDArray[np.int64]) -> pd.DataFrame:
    """The host spans of `pairs` (SPAN_COLUMNS)."""
    names = document.name[pairs[:, 0]]
    return frame(
        SPAN_COLUMNS,
        {
            "host": constant(host, len(pairs)),
            "thread": _threads(document, pairs[:, 0]),
            **span_columns([*map(str, names.categories), ""], names.codes.astype(np.int64)),
            "start_ps": document.start_ps[pairs[:, 0]],
            "end_ps": document.start_ps[pairs[:, 1]],
        },
    )


def _threads(document: Document, rows: NDArray[np.int64]) -> pd.Categorical:
    """The label of the thread of each event: MXNet writes no name but a hash of its id."""
    labels = [f"thread {tid}" for tid in document.tid.categories]
    return categorical([*labels, "thread"], document.tid.codes[rows]).remove_unused_categories()


def _devices(events: pd.DataFrame, host: str) -> pd.DataFrame:
    """One row of DEVICE_COLUMNS a device that did something; MXNet names more contexts than the machine has."""
    devices = [str(device) for device in events["device"].unique() if is_known(str(device))]
    return frame(DEVICE_COLUMNS, {"host": [host] * len(devices), "device": sorted(devices)})


def _is_mxnet(document: Document) -> bool:
    """Whether MXNet wrote the document."""
    categories = _CATEGORIES & set(document.cat.categories)
    return bool(categories) or any(map(_CONTEXT_PROCESS.fullmatch, document.processes.values()))


DIALECT = Dialect(_is_mxnet, read)
