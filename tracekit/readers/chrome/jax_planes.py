"""JAX's `trace.json.gz` as planes, so that one reading of planes serves it and XSpace.

A process is a plane, a thread is a line, `args` are the stats of an event and of its metadata, as text. Left out are
`_p` and `_c`, which join the events of different threads, `program_id`, the HLO protos, the planes' own stats, the line
`Async XLA Ops` and the host's memory bookkeeping; a line's id is cut to 32 bits. Written by
xla/tsl/profiler/convert/xplane_to_trace_events.cc and trace_events_to_json.cc; XProf's trace viewer writes the same,
but for events without duration, which are instants (`ph` i) there.

Which `end: <op>` event ends which CPU op, the ids that are left out (`_p` and `_c`) would say. Names, threads and times
are left: an op that ends on the thread that started it does so before that thread starts the op again; an op whose
parallel part ends on another thread is the only one of its name that is open then, unless several devices run it at
once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracekit.columns import arrow_texts, by_label, categorical, concat, distinct, places_of, texts
from tracekit.readers import losses, xspace
from tracekit.readers.chrome import Dialect, Document
from tracekit.readers.chrome.document import FAR, NO_JSON, decoded
from tracekit.readers.losses import Lost
from tracekit.readers.xspace.planes import EventMetadata, Line, Plane, XSpace
from tracekit.trace import LOSS_COLUMNS, Trace
from tracekit.vocabulary.copies import XLA_CPU_COPIES
from tracekit.vocabulary.host_calls import END, POOL_START, POOL_STOP
from tracekit.vocabulary.losses import Loss

_HOST = "/host:CPU"
# Which call asked for what stands between them, only ids tell.
_REGIONS = (POOL_START, POOL_STOP)
_PERFORMED = ("X", "i", "I")
_ROWS = 1 << 16
# GetTraceViewerMaxEvents; it was 1,000,000.
_CAP = 5_000_000
# No machine has as many devices. Each plane takes 50 kB while it is read.
_MOST_PLANES = 4096
# Past this many picoseconds (2.5 h) the microseconds, which are written from a double, lose their last digits.
_EXACT_PS = 2**53
# Of so many event metadata the arguments are decoded at once.
_METADATA = 1 << 13

_NAMES = ("long_name", "hlo_category", *dict.fromkeys(xspace.STATS))
_FIELDS = {name: f"stat{at}" for at, name in enumerate(_NAMES)}
# JAX writes every stat as text; these are of whole numbers, this one of a number, and those count something.
_INTEGERS = (
    *("correlation_id", "run_id", "device_ordinal", "group_id", "program_id", "cuda_graph_id"),
    *("step_num", "_p", "_c"),
)
_REALS = ("theoretical_occupancy_pct",)
_COUNTS = ("flops", "model_flops", "bytes_accessed")
# What args hold that have a stat of another type: a value that is no text, or a count, which may be none.
_MAY_BE_ODD = r'"\s*:[^"]|flops|bytes_accessed|\\u'
_Stats = msgspec.defstruct(
    "_Stats",
    [(field, Any, None) for field in _FIELDS.values()],
    rename={field: name for name, field in _FIELDS.items()},
    gc=False,
)

# What `_p` and `_c` read where an event has none: two values, so that no two such events look joined.
_ABSENT = {"_p": -1, "_c": -2}
Links = dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]]


@dataclass(frozen=True)
class JsonPlane(Plane):
    """One process of the file as a plane; no event is aggregated, and the plane has no stats.

    Event metadata are what the events that are `described` (k,), rows of the document, tell of themselves, of which
    `labels` and `long_names` (k,) are the names.
    """

    document: Document = field(repr=False)
    described: NDArray[np.int64]
    labels: pd.Categorical
    long_names: pd.Categorical
    texts: dict[str, pd.Categorical]
    links: Links
    _numbers: dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]] = field(default_factory=dict, repr=False)

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """The plane without the events that are not `kept`, shape (n,)."""
        return replace(
            super().only(kept),
            texts={name: column[kept] for name, column in self.texts.items()},
            links={name: (values[kept], has[kept]) for name, (values, has) in self.links.items()},
        )

    @property
    def event_ids(self) -> list[int]:
        """The ids of all event metadata."""
        return list(range(len(self.described)))

    def event_names(self, event_ids: NDArray[np.int64]) -> pa.Array:
        """The name in the metadata of each of `event_ids`: the long one, if there is one."""
        labels, long_names = (_texts_of(column[event_ids]) for column in (self.labels, self.long_names))
        return pc.if_else(pc.equal(long_names, ""), labels, long_names)

    def all_metadata(self, event_ids: Sequence[int]) -> Iterator[EventMetadata]:
        """The metadata of each of `event_ids`; the arguments of some are decoded at once."""
        for begin in range(0, len(event_ids), _METADATA):
            some = np.array(event_ids[begin : begin + _METADATA], np.int64)
            names = (texts(column[some]) for column in (self.labels, self.long_names))
            for label, long_name, args in zip(*names, self.document.args(self.described[some], dict), strict=True):
                yield EventMetadata(long_name or label or "", (label or "") if long_name else "", _values(args))

    def numbers(self, stat: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The integer stat of every event and whether it has one; text that is no 64 bit integer is none."""
        if stat in self.links:
            return self.links[stat]
        if stat not in self.texts:
            return np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        if stat not in self._numbers:
            self._numbers[stat] = _integers(self.texts[stat])
        bits, has_number = self._numbers[stat]
        return bits[self.texts[stat].codes], has_number[self.texts[stat].codes]

    def reals(self, stat: str) -> NDArray[np.float64]:
        """The numeric stat of every event, shape (n,), nan where absent or no number."""
        return by_label(self.strings(stat), _real, np.nan)

    def has(self, stat: str) -> NDArray[np.bool_]:
        """Whether each event has the stat."""
        return self.links[stat][1] if stat in self.links else self.strings(stat).codes >= 0

    def strings(self, stat: str) -> pd.Categorical:
        """The stat of every event as text, null where absent."""
        return self.texts[stat] if stat in self.texts else categorical([None], np.zeros(len(self), np.int64))


def read(document: Document, path: Path) -> Trace:
    """The trace in a document that JAX wrote at `path`.

    The host is the file's stem. Times count from the start of the profile, so that the origin is null. Raises
    TraceError where the planes cannot be read (xspace.trace).
    """
    planes, notes, lost = _planes(document)
    host = path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".trace")
    trace = xspace.trace(XSpace([*planes], [], [], []), path, host, "jax-json")
    table = concat(LOSS_COLUMNS, [losses.table(host, [*_of_document(document), *lost]), trace.losses])
    return replace(trace, losses=table, notes=(*document.notes, *notes, *losses.notes(lost), *trace.notes))


def _planes(document: Document) -> tuple[list[Plane], list[str], list[Lost]]:
    """The planes of the file in its order, with the lines that are to be read, notes on what JSON cost, and what is
    lost."""
    processes, threads = _labels(document)
    performed = np.asarray(document.ph.isin(_PERFORMED))
    notes = _limits(document)
    there = (
        performed
        & document.timed
        & (document.duration_ps >= 0)
        & ~by_label(document.name, lambda name: name in _REGIONS)
    )
    there &= document.has_duration | np.asarray(document.ph != "X")
    planes: list[Plane] = []
    lost = _lost(document, performed, processes)
    if (behind := len(processes) - _MOST_PLANES) > 0:
        lost.append(Lost(Loss.PLANES, behind, len(processes), f"processes behind the first {_MOST_PLANES:,}"))
        processes = dict(islice(processes.items(), _MOST_PLANES))
    number_of = {pid: number for number, pid in enumerate(processes)}
    number = by_label(document.pid, lambda pid: number_of.get(pid, -1)).astype(np.int64)
    rows_of = places_of(np.where(there, number, -1), len(processes))
    for (pid, name), rows in zip(processes.items(), rows_of, strict=True):
        plane, plane_notes, odd, twice = _plane(document, name, rows, threads.get(pid, {}))
        planes.append(plane)
        notes += plane_notes
        lost += twice
        lost += [Lost(Loss.DETAILS, odd, len(plane), f"stats of {name} of another type")] if odd else []
    accelerated = any(xspace.device_name(plane.name) for plane in planes)
    copies = sum(
        int(by_label(plane.names, XLA_CPU_COPIES.__contains__).sum()) for plane in planes if plane.name == _HOST
    )
    if copies and not accelerated:
        notes.append(
            f"{copies} copies between CPU devices are missing: JSON lacks the ids that link a call to the thread that "
            "copies. The *.xplane.pb file of the same capture has them."
        )
    return planes, notes, lost


def _limits(document: Document) -> list[str]:
    """Notes on what the writer cut off or rounded."""
    notes = []
    if int((document.ph == "X").sum()) == _CAP:
        notes.append(
            f"The file contains exactly {_CAP} events, the most that JAX writes: later events are missing. The "
            "*.xplane.pb file of the same capture has them."
        )
    if document.base_ps + int(document.start_ps.max(initial=0)) > _EXACT_PS:
        notes.append("Times are so far from the file's zero that its numbers round them to more than a picosecond.")
    return notes


def _lost(document: Document, performed: NDArray[np.bool_], processes: dict[str, str]) -> list[Lost]:
    """The `performed` events that cannot be read, and those of which nobody knows what they were.

    Those that are, or may be, of devices count beside what is read of them: of few kernels each is much, where of all
    events it is little.
    """
    nowhere = performed & ~np.asarray(document.pid.isin(list(processes)))
    rest = performed & ~nowhere
    reasons = {
        "of no named process": nowhere,
        "without a time": rest & ~document.timed & ~document.far,
        "without a duration": rest & np.asarray(document.ph == "X") & document.timed & ~document.has_duration,
        "that end before they start": rest & document.timed & (document.duration_ps < 0),
        "without a phase": document.phaseless,
    }
    of_part = {
        "without a thread": rest & document.placeless,
        "without a name": rest & document.timed & by_label(document.name, lambda name: not name, null=True),
    }
    on_device = _perhaps_on_devices(document.pid, processes)
    total = int((performed | document.phaseless).sum())
    lost = [Lost(Loss.EVENTS, int((of & ~on_device).sum()), total, reason) for reason, of in reasons.items()]
    lost += [
        Lost(Loss.EVENTS, int((of & on_device).sum()), None, f"{reason}, of devices") for reason, of in reasons.items()
    ]
    lost += [Lost(Loss.EVENTS, int(of.sum()), total, reason) for reason, of in of_part.items()]
    return [each for each in lost if each.lost]


def _of_document(document: Document) -> list[Lost]:
    """What the document lost; of devices it counts as in `_lost`."""
    processes, _ = _labels(document)
    far = np.asarray(document.ph.isin(_PERFORMED)) & document.far & _perhaps_on_devices(document.pid, processes)
    skipped = [event for event in document.skipped if event.ph in (None, *_PERFORMED)]
    on_device = _perhaps_on_devices(pd.Categorical([event.pid for event in skipped]), processes)
    counts = {
        FAR: int(far.sum()),
        NO_JSON: sum(document.skipped[event] for event, is_there in zip(skipped, on_device, strict=True) if is_there),
    }
    of_devices = (Lost(Loss.EVENTS, count, None, f"{reason}, of devices") for reason, count in counts.items() if count)
    return [*document.lost_without(counts), *of_devices]


def _perhaps_on_devices(pids: pd.Categorical, processes: dict[str, str]) -> NDArray[np.bool_]:
    """Which of the processes (n,) are devices, or may be, being none that is named; none where no device is."""
    devices = {pid for pid, name in processes.items() if xspace.device_name(name)}
    if not devices:
        return np.zeros(len(pids), bool)
    return by_label(pids, lambda pid: pid in devices or pid not in processes, True).astype(bool)


def _labels(document: Document) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Plane name by pid, and line name by pid and tid, of all processes that are planes."""
    rows = np.flatnonzero(np.asarray(document.ph == "M"))
    processes: dict[str, str] = {}
    threads: dict[str, dict[str, str]] = {}
    for row, args in zip(rows, document.args(rows, dict), strict=True):
        what, pid, tid = (str(column[row]) for column in (document.name, document.pid, document.tid))
        if what == "process_name" and str(args.get("name", "")).startswith("/"):
            processes[pid] = args["name"]
        elif what == "thread_name":
            name = args.get("name")
            threads.setdefault(pid, {})[tid] = name if isinstance(name, str) else ""
    return processes, threads


def _plane(
    document: Document, name: str, rows: NDArray[np.int64], threads: dict[str, str]
) -> tuple[JsonPlane, list[str], int, list[Lost]]:
    """The plane of the events `rows`, notes, how many stats are damaged, and which events are told twice; `threads`
    names its lines by tid."""
    base_ns = document.base_ps // 1000
    rows, line, lines = _lines(document, name, rows, threads, base_ns)
    stats, odd = _texts(document, rows)
    empty = categorical([None], np.zeros(len(rows), np.int64))
    long, category = stats.pop("long_name", empty), stats.pop("hlo_category", empty)
    which, first = distinct(document.name.codes[rows], long.codes, category.codes)
    duration = document.duration_ps[rows]
    odd += _odd_further(document, rows[first])
    plane = JsonPlane(
        name=name,
        lines=lines,
        line=line,
        metadata_id=which,
        offset_ps=document.start_ps[rows] + (document.base_ps - base_ns * 1000),
        # JAX writes an event without duration as one picosecond; no clock is that fine.
        duration_ps=np.where(duration == 1, 0, duration),
        occurrences=np.broadcast_to(np.int64(-1), len(rows)),
        stats={},
        document=document,
        described=rows[first],
        labels=document.name[rows[first]],
        long_names=long[first],
        texts=stats,
        links={},
    )
    plane, twice = xspace.once(plane, base_ns)  # before arrows between events are followed, which name thread and time
    links, notes = _ends(plane) if name == _HOST else ({}, [])
    return replace(plane, links=links), notes, odd, twice


def _lines(
    document: Document, name: str, rows: NDArray[np.int64], threads: dict[str, str], base_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Line]]:
    """Those of the events `rows` of the plane `name` whose line is to be read, the line of each, and the lines."""
    codes, tids = pd.factorize(document.tid.codes[rows])
    tid_labels = [*map(str, document.tid.categories), ""]
    labels = [tid_labels[tid] for tid in tids]
    lines = [Line(_integer(tid) or 0, threads.get(tid, ""), "", base_ns) for tid in labels]
    is_kept = np.array([xspace.is_decoded(name, line.name, line.id) for line in lines], bool)
    in_kept = is_kept[codes] if len(rows) else np.zeros(0, bool)
    return (
        rows[in_kept],
        (np.cumsum(is_kept) - 1)[codes[in_kept]],
        [line for line, keep in zip(lines, is_kept, strict=True) if keep],
    )


def _ends(plane: JsonPlane) -> tuple[Links, list[str]]:
    """The ids that join CPU ops with their `end:` events, which JSON lacks, and a note if any was guessed."""
    stats, start = plane.texts, plane.offset_ps
    if {"_p", "_c"} & stats.keys() or not {"hlo_op", "device_ordinal"} <= stats.keys():
        return {}, []
    device = np.where(stats["hlo_op"].codes >= 0, stats["device_ordinal"].codes, -1)
    runs = stats["run_id"].codes if "run_id" in stats else np.zeros(len(device), np.int64)
    run = np.where(device >= 0, distinct(device, runs)[0], -1)
    links, guessed = thunk_ends(plane.names, plane.line, start, start + plane.duration_ps, device, run)
    if not guessed:
        return links, []
    return links, [
        f"{guessed} CPU ops ran on several devices at once, and JSON lacks the ids that link an op to its `end:` "
        "event: they were paired in order, so some of these ops may end too early or too late."
    ]


def _texts(document: Document, rows: NDArray[np.int64]) -> tuple[dict[str, pd.Categorical], int]:
    """The stats that any of the events `rows` has, each a column of len(rows), null where an event lacks it; and how
    many are of another type: what is no text, and text of no number where one is wanted."""
    code_of: dict[str, dict[Any, int]] = {name: {None: 0} for name in _FIELDS}
    codes = {name: np.zeros(len(rows), np.int64) for name in _FIELDS}
    odd = 0
    for at in range(0, len(rows), _ROWS):
        args = document.args(rows[at : at + _ROWS], _Stats)
        for name, of_name in _FIELDS.items():
            column = list(map(attrgetter(of_name), args))
            if column.count(None) < len(column):
                values = code_of[name]
                try:
                    numbers = [values.setdefault(value, len(values)) for value in column]
                except TypeError:  # lists and objects have no hash
                    odd += sum(isinstance(value, list | dict) for value in column)
                    plain = [None if isinstance(value, list | dict) else value for value in column]
                    numbers = [values.setdefault(value, len(values)) for value in plain]
                codes[name][at : at + len(column)] = numbers
    columns = {}
    while code_of:  # each is let go of before the next is made
        name, values = code_of.popitem()
        is_odd = np.fromiter((value is not None and _is_odd(name, value) for value in values), bool, len(values))
        odd += int(is_odd[codes[name]].sum()) if is_odd.any() else 0
        if len(values) > 1:
            columns[name] = categorical([None if value is None else str(value) for value in values], codes.pop(name))
    return columns, odd


def _odd_further(document: Document, rows: NDArray[np.int64]) -> int:
    """How many stats of the events `rows` are of another type, of those that are no columns; only what may be odd is
    decoded."""
    odd = 0
    for raw in document.raw_args(rows):
        doubtful = raw.filter(pc.match_substring_regex(raw, _MAY_BE_ODD))
        odd += sum(
            _is_odd(key, value) for args in decoded(doubtful, dict) for key, value in args.items() if key not in _FIELDS
        )
    return odd


def _texts_of(column: pd.Categorical) -> pa.Array:
    """The texts of a column, "" where it is null."""
    return pa.concat_arrays([arrow_texts(column.categories), pa.array([""], pa.large_string())]).take(
        pa.array(np.where(column.codes < 0, len(column.categories), column.codes))
    )


def _integers(column: pd.Categorical) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The 64 bits of the integer that each category of a column is and whether it is one, and of null, the last."""
    labels = arrow_texts(column.categories)
    if pc.all(pc.match_substring_regex(labels, "^-?[0-9]{1,18}$")).as_py():
        bits = pc.cast(labels, pa.int64()).to_numpy()
        return np.append(bits, 0), np.append(np.ones(len(bits), bool), False)
    values = [_integer(text) for text in labels.to_pylist()]
    numbers = np.array([(value or 0) & 2**64 - 1 for value in values] + [0], np.uint64).view(np.int64)
    return numbers, np.array([value is not None for value in values] + [False])


def _is_odd(name: str, value: Any) -> bool:
    """Whether a stat has a value that JAX does not write: no text, or text of no number where one is wanted."""
    if not isinstance(value, str):
        return True
    number = _integer(value)
    if name in _COUNTS:
        return number is None or number < 0
    return (name in _INTEGERS and number is None) or (name in _REALS and not np.isfinite(_real(value)))


def _values(args: dict[str, Any]) -> dict[str, Any]:
    """The stats of an event's metadata, integers as such; the event's own stand among them."""
    return {key: value if (number := _integer(value)) is None else number for key, value in args.items()}


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _integer(text: Any) -> int | None:
    """The 64 bit integer that `text` is, None if it is none."""
    try:
        value = int(text) if isinstance(text, str | int) else None
    except ValueError:
        return None
    return value if value is not None and -(2**63) <= value < 2**64 else None


def thunk_ends(
    names: pd.Categorical,
    line: NDArray[np.int64],
    start: NDArray[np.int64],
    closed: NDArray[np.int64],
    device: NDArray[np.int64],
    run: NDArray[np.int64],
) -> tuple[Links, int]:
    """`_p` of the ops and `_c` of the `end:` events as planes.Plane.numbers gives them, and how many were guessed.

    All columns are of shape (n,): `line` is the thread, `start` and `closed` the event's own edges in ps, `device` and
    `run` the device that an op ran on and the run of a program there, -1 if the event is no op. An op whose end is not
    found has no `_p`. Guessed are the ops of which several of one name were open, on other threads, when an end came.
    """
    labels = pa.concat_arrays([arrow_texts(names.categories), pa.array([""], pa.large_string())])
    are_ends = pc.starts_with(labels, END)
    bare = pc.if_else(are_ends, pc.utf8_slice_codeunits(labels, len(END)), labels)
    op = bare.dictionary_encode().indices.to_numpy().astype(np.int64)[names.codes]
    ends = are_ends.to_numpy(zero_copy_only=False)[names.codes]
    rows = np.flatnonzero((run >= 0) | ends)
    rows = rows[np.lexsort((ends[rows], start[rows], op[rows], line[rows]))]
    first, second = rows[:-1], rows[1:]
    beside = (op[first] == op[second]) & (line[first] == line[second]) & ~ends[first] & ends[second]
    pairs = list(zip(first[beside].tolist(), second[beside].tolist(), strict=True))
    rest = np.setdiff1d(rows, np.concatenate([first[beside], second[beside]]))
    queued, guessed = _queued(rest, op, start, _limit(start, closed, run), ends, device)
    links_of_rows = np.array(pairs + queued, np.int64).reshape(-1, 2)
    links = {}
    for column, (stat, absent) in enumerate(_ABSENT.items()):
        value, there = np.full(len(start), absent, np.int64), np.zeros(len(start), bool)
        value[links_of_rows[:, column]], there[links_of_rows[:, column]] = np.arange(len(links_of_rows)), True
        links[stat] = value, there
    return links, guessed


def _limit(start: NDArray[np.int64], closed: NDArray[np.int64], run: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each op must have ended: at the start of the next op of its run; the last one at no time."""
    limit = np.full(len(start), np.iinfo(np.int64).max)
    rows = np.flatnonzero(run >= 0)
    rows = rows[np.lexsort((start[rows], run[rows]))]
    for part in np.split(rows, np.flatnonzero(np.diff(run[rows])) + 1):
        following = np.searchsorted(start[part], closed[part])
        there = following < len(part)
        limit[part[there]] = start[part[following[there]]]
    return limit


def _queued(
    rows: NDArray[np.int64],
    op: NDArray[np.int64],
    start: NDArray[np.int64],
    limit: NDArray[np.int64],
    ends: NDArray[np.bool_],
    device: NDArray[np.int64],
) -> tuple[list[tuple[int, int]], int]:
    """(op, its end) of the events `rows`: each end belongs to the first op of its name that must not have ended before,
    else, an end being written late on a busy machine, to the first that had no end so far."""
    pairs, guessed = [], set()
    open_ops: dict[int, list[int]] = {}
    for row in rows[np.lexsort((ends[rows], start[rows]))].tolist():
        waiting = open_ops.setdefault(int(op[row]), [])
        if not ends[row]:
            # An end that still has not come when its device runs the op anew is missing.
            waiting[:] = [other for other in waiting if device[other] != device[row] or limit[other] > start[row]]
            waiting.append(row)
        elif waiting:
            if len(waiting) > 1:
                guessed.update(waiting)
            at = next((at for at, other in enumerate(waiting) if limit[other] >= start[row]), 0)
            pairs.append((waiting.pop(at), row))
    return pairs, len(guessed)


def _is_jax(document: Document) -> bool:
    """Whether JAX wrote the document: its processes are called as planes are."""
    return any(name.startswith(("/device:", "/host:")) for name in document.processes.values())


DIALECT = Dialect(_is_jax, read)
