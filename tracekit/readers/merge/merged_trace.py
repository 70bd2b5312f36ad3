"""The traces of many files as one: hosts told apart, devices named after them, all times on one axis."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import heap
from tracekit.columns import categorical, concat, distinct, frame, places_of, taken_out
from tracekit.devices import natural, on_host
from tracekit.readers import losses
from tracekit.readers.losses import Lost
from tracekit.readers.merge import clock_alignment, same_host, shared_ends
from tracekit.readers.merge.clock_alignment import Clock, listing
from tracekit.readers.merge.clock_fit import UNCHANGED, Line
from tracekit.readers.merge.same_host import Part
from tracekit.trace import (
    COUNT_COLUMNS,
    FRAME_COLUMNS,
    HOST_COLUMNS,
    LOSS_COLUMNS,
    MERGED_COLUMNS,
    OP_COLUMNS,
    OPERAND_COLUMNS,
    Trace,
)
from tracekit.units import others
from tracekit.vocabulary.losses import Loss
from tracekit.vocabulary.ranks import process_number

Numbers = NDArray[np.int64]

# Times further apart than this fit on no axis of int64 picoseconds (106 days) that leaves room for the traces.
_FURTHEST_NS = 2**62 // 1000
_TIMES = ("start_ps", "end_ps", "recorded_ps", "time_ps")
_DEVICES = ("device", "on_device")
# The frames whose rows stand on the time axis.
_ON_AXIS = ("events", "spans", "host_work", "launches", "syncs", "memory")
_PLURAL = {"process": "processes"}
_WORTH_BYTES = 1 << 26  # so much is given back to the system
_FEW = 2  # so many notes that differ only in their figures are all shown
_MOST_LISTED = 8  # ranks by their numbers
_FIGURE = re.compile(r"\d+")


def merge(
    traces: Sequence[Trace],
    world_size: int | None = None,
    machines: Mapping[str, str] | None = None,
    *,
    is_last_use: bool = False,
) -> Trace:
    """`traces`, each of one file, as one.

    Every host has a name of its own, and with several hosts every device is `host/device`. Times are on one axis, whose
    0 is the earliest event of any file; clocks are compared and corrected as `clock_alignment.align` says, and what
    cannot be compared has a `clock` of its own. A file that is there twice counts once. `world_size`: how many ranks
    the job had, if that is known; ranks that are missing are noted, and lost. `machines`: the machine of a host, where
    that is known; hosts of one machine have its clock. One trace keeps its names. With `is_last_use`, columns are taken
    out of several traces as they are joined, so that none is held twice for longer.
    """
    parts, notes = _on_one_axis(traces)
    if len(traces) == 1:
        lacking, absent = _missing(parts, world_size) if world_size else ([], [])
        return _changed_by(traces[0], lacking, absent) if lacking else traces[0]
    parts, host_notes = same_host.tell_apart(parts)
    parts.sort(key=lambda part: natural(part.host))
    hosts = list(dict.fromkeys(part.host for part in parts))
    several = len(hosts) > 1
    ops = operations([part.trace for part in parts])
    of_ops = ops.renumbered([part.trace.events["op"] for part in parts])
    joined = {name: _joined(name, parts, several, is_last_use) for name in _ON_AXIS}
    counts = _counts(parts, joined["events"].lengths)
    clocks, clock_notes = _clocks(parts, hosts, machines or {}, joined["events"])
    lines = [_line(clocks[part.host]) for part in parts]
    zero = min(part.at_ps + line.shift(part.at_ps) for part, line in zip(parts, lines, strict=True))
    tables: dict[str, Any] = {name: _corrected(joined.pop(name), lines, zero) for name in _ON_AXIS}
    lacking, absent = _missing(parts, world_size)
    tables["events"]["op"] = of_ops
    names = {host: clock.name for host, clock in clocks.items()}
    of_rows = {names[host] for host in tables["events"]["host"].cat.categories}
    axis = Axis(
        zero, names if len(of_rows) > 1 else {}, {part.host: (part.at_ps, _line(clocks[part.host])) for part in parts}
    )
    return Trace(
        **tables | {"events": _on_clocks(tables["events"], axis.clocks)},
        ops=ops.ops,
        operands=ops.operands,
        merged=_merged(parts, lines, zero, several, is_last_use),
        counts=counts,
        devices=_joined("devices", parts, several).table.drop_duplicates("device").reset_index(drop=True),
        hosts=_host_table(parts, clocks, zero),
        losses=concat(LOSS_COLUMNS, [losses.table("", absent), _joined("losses", parts, several).table]),
        notes=(*clock_notes, *lacking, *notes, *host_notes, *_host_notes(parts)),
        source=traces[0].source,
        format="+".join(dict.fromkeys(trace.format for trace in traces)),
        axis=axis,
    )


class Axis(NamedTuple):
    """By what the times of the files of a merged trace have their place: all count from `zero`; by host the name of its
    clock, if there are several `clocks`, how much its file begins after the first by its own clock, with the line that
    corrects that (`places`), and where its file is read (`files`), of which only some `steps` were, if not all."""

    zero: int
    clocks: Mapping[str, str]
    places: Mapping[str, tuple[int, Line]]
    files: Mapping[str, str] = {}
    steps: Any = None


def placed(traces: Mapping[str, Trace], axis: Axis) -> Trace:
    """The `traces` of some hosts, by the names that these have in a merged trace of several, as one: with its names,
    and on its `axis`."""
    parts = [Part(trace, host, axis.places[host][0], True) for host, trace in traces.items()]
    parts.sort(key=lambda part: natural(part.host))
    lines = [axis.places[part.host][1] for part in parts]
    ops = operations([part.trace for part in parts])
    tables: dict[str, Any] = {
        name: _corrected(_joined(name, parts, several=True), lines, axis.zero) for name in _ON_AXIS
    }
    tables["events"]["op"] = ops.renumbered([part.trace.events["op"] for part in parts])
    return Trace(
        **tables | {"events": _on_clocks(tables["events"], axis.clocks)},
        ops=ops.ops,
        operands=ops.operands,
        devices=_joined("devices", parts, several=True).table,
    )


def _on_one_axis(traces: Sequence[Trace]) -> tuple[list[Part], list[str]]:
    """The traces on one axis by their own clocks, and notes."""
    origins = [_origin(trace) for trace in traces]
    usual = sorted(origin for origin in origins if origin is not None)
    middle = usual[len(usual) // 2] if usual else 0
    near = [origin is not None and abs(origin - middle) <= _FURTHEST_NS for origin in origins]
    base_ns = min((origin for origin, good in zip(origins, near, strict=True) if origin and good), default=0)
    parts, far = [], []
    for trace, origin, good in zip(traces, origins, near, strict=True):
        host = str(trace.hosts["host"].iat[0]) if len(trace.hosts) else Path(trace.source).name
        parts.append(Part(trace, host, ((origin or 0) - base_ns) * 1000 if good else 0, good))
        if origin is not None and not good:
            far.append(host)
    note = f"The times of {listing(far)} are more than 50 days from the others, too far for one time axis."
    return parts, [note] if far else []


def _origin(trace: Trace) -> int | None:
    """The Unix time of the trace's time 0 in ns, if its file says it."""
    origins = trace.hosts["origin_ns"].dropna()
    return int(origins.to_numpy()[0]) if len(origins) else None


def _clocks(
    parts: Sequence[Part], hosts: Sequence[str], machines: Mapping[str, str], events: "_Joined"
) -> tuple[dict[str, Clock], list[str]]:
    """The clock of every host, and notes; a host on whose devices nothing ran needs no comparison.

    Of the hosts of one machine the first stands for all: its clock is theirs. `events` are those of all parts.
    """
    needed = [part for part, length in zip(parts, events.lengths, strict=True) if length]
    of_machine: dict[str, str] = {}
    keeper = {part.host: part.host for part in needed}
    for host in (part.host for part in needed if part.timed and part.host in machines):
        keeper[host] = of_machine.setdefault(machines[host], host)
    timed = {keeper[part.host]: part.timed for part in needed}
    needed_rows = shared_ends.needed(events.table, events.lengths)
    rows = events.table.iloc[needed_rows]
    if any(host != first for host, first in keeper.items()):
        names = rows["host"].cat
        first_of = [keeper[str(host)] for host in names.categories]
        rows = rows.assign(host=categorical(first_of, np.asarray(names.codes, np.int64)))
    aligned, notes = clock_alignment.align(rows, list(timed), list(timed.values()))
    clocks = {host: Clock(host, host) for host in hosts} | {clock.host: clock for clock in aligned}
    for host, first in keeper.items():
        if host != first:
            clock = clocks[first]
            clocks[host] = replace(clock, host=host, line=clock.line or UNCHANGED, residual_ps=clock.residual_ps or 0)
    count = Counter(keeper.values())
    same = [host for host, first in keeper.items() if count[first] > 1]
    of_one = len({keeper[host] for host in same}) == 1
    where = (
        "one machine: their clock is one" if of_one else "machines with several of them: those of one share its clock"
    )
    return clocks, [*([f"{listing(same)} ran on {where}."] if same else []), *notes]


class _Joined(NamedTuple):
    """The rows of all parts in one `table`, and how many are of each part: `lengths`."""

    table: pd.DataFrame
    lengths: list[int]


def _joined(name: str, parts: Sequence[Part], several: bool, is_last_use: bool = False) -> _Joined:
    """The frames of Trace called `name` of all parts, with the parts' hosts, with several hosts the devices named after
    them, and on the axis of all parts by their own clocks.

    Column by column for all parts at once: of a thousand parts, a frame of each would take minutes.
    """
    columns, tables = FRAME_COLUMNS[name], [getattr(part.trace, name) for part in parts]
    lengths = [len(table) for table in tables]
    of_part = np.repeat(np.arange(len(parts)), lengths)
    named: dict[str, Any] = {"host": _hosts(parts, lengths, of_part)}
    for column in _DEVICES if several else ():
        if column in columns:
            named[column] = _devices(column, parts, tables)
    table = concat(columns, tables, is_last_use=is_last_use)
    at_ps = np.array([part.at_ps for part in parts], np.int64)[of_part]
    return _Joined(table.assign(**named, **{time: table[time] + at_ps for time in _TIMES if time in columns}), lengths)


def _merged(parts: Sequence[Part], lines: Sequence[Line], zero: int, several: bool, is_last_use: bool) -> pd.DataFrame:
    """What all parts tell merged, with the devices and times as in the other frames.

    Part by part, into columns that are there once: these have most of the rows, and a column more is 8 bytes of each.
    """
    tables = [part.trace.merged for part in parts]
    lengths = [len(table) for table in tables]
    labels = [
        on_host(part.host, str(device)) if several else str(device)
        for part, table in zip(parts, tables, strict=True)
        for device in table["device"].cat.categories
    ]
    # No wider than needed: of a thousand hosts these are 50 million rows.
    code, labels_before = np.empty(sum(lengths), np.min_scalar_type(-len(labels) - 1)), 0
    times, freed = {edge: np.empty(sum(lengths), np.int64) for edge in ("start_ps", "end_ps")}, 0
    for part, table, line, low, length in zip(parts, tables, lines, _begins(lengths), lengths, strict=True):
        rows, own = slice(low, low + length), taken_out(table) if is_last_use else dict(table)
        freed += sum(column.nbytes for column in own.values()) if is_last_use else 0
        device = pd.Categorical(own.pop("device"))
        code[rows] = device.codes.astype(code.dtype) + labels_before
        labels_before += len(device.categories)
        for edge, column in times.items():
            column[rows] = np.asarray(own.pop(edge)) + part.at_ps
            column[rows] += line.shifts(column[rows]) - zero
        if freed >= _WORTH_BYTES:
            heap.give_back()
            freed = 0
    return frame(MERGED_COLUMNS, {"device": categorical(labels, code), **times})


def _counts(parts: Sequence[Part], lengths: Sequence[int]) -> pd.DataFrame:
    """The counts of all parts, of which `lengths` rows of events each come one after the other."""
    begins = zip(parts, _begins(lengths), strict=True)
    counts = [part.trace.counts.assign(event=part.trace.counts["event"] + at) for part, at in begins]
    return concat(COUNT_COLUMNS, counts)


def _hosts(parts: Sequence[Part], lengths: Sequence[int], of_part: Numbers) -> pd.Categorical:
    """The host of each row; only those are categories that have one."""
    names = list(dict.fromkeys(part.host for part, length in zip(parts, lengths, strict=True) if length))
    place = {name: code for code, name in enumerate(names)}
    return categorical(names, np.array([place.get(part.host, -1) for part in parts], np.int64)[of_part])


def _devices(column: str, parts: Sequence[Part], tables: Sequence[pd.DataFrame]) -> pd.Categorical:
    """A column of devices of all parts, named after their hosts."""
    labels: list[str | None] = []
    codes = [np.zeros(0, np.int64)]
    for part, table in zip(parts, tables, strict=True):
        if len(table):
            own = table[column].cat
            code = own.codes.to_numpy().astype(np.int64)
            codes.append(np.where(code < 0, -1, code + len(labels)))
            labels += [on_host(part.host, str(device)) for device in own.categories]
    return categorical([*labels, None], np.concatenate(codes))


def _line(clock: Clock) -> Line:
    """What is added to the times of a clock; nothing, where it was not compared."""
    return clock.line or UNCHANGED


def _corrected(joined: _Joined, lines: Sequence[Line], zero: int) -> pd.DataFrame:
    """The rows of all parts with their times corrected, each part's by its line, and counted from `zero`."""
    table, lengths = joined
    added = np.repeat(np.array([line.shift_ps - zero for line in lines], np.int64), lengths)
    drifting = [(line, at, at + n) for line, at, n in zip(lines, _begins(lengths), lengths, strict=True) if line.drift]
    columns: dict[str, Any] = {}
    for name in (name for name in _TIMES if name in table):
        own = added
        if drifting:
            own, times = added.copy(), table[name].to_numpy(np.int64, na_value=0)
            for line, first, end in drifting:
                own[first:end] = line.shifts(times[first:end]) - zero
        columns[name] = table[name] + own
    return table.assign(**columns)


def _begins(lengths: Sequence[int]) -> list[int]:
    """Where the rows of each part begin."""
    return [0, *np.cumsum(lengths).tolist()][: len(lengths)]


def _on_clocks(events: pd.DataFrame, clocks: Mapping[str, str]) -> pd.DataFrame:
    """`events` with the clock of each row by its host; null where all are on one, without `clocks`."""
    if not clocks:
        return events
    names = [clocks[host] for host in events["host"].cat.categories]
    return events.assign(clock=categorical(names, events["host"].cat.codes.to_numpy().astype(np.int64)))


def _host_table(parts: Sequence[Part], clocks: Mapping[str, Clock], zero: int) -> pd.DataFrame:
    """Trace.hosts, a row a part; an origin is what the part's own clock showed at the merged time 0."""
    rows: list[dict[str, Any]] = []
    for part in parts:
        clock, origin, line = clocks[part.host], _origin(part.trace), _line(clocks[part.host])
        own_zero = line.inverse(zero)
        sizes = [None if pd.isna(size) else int(size) for size in part.trace.hosts["world_size"].head(1)]
        rows.append(
            {
                "host": part.host,
                "source": part.trace.source,
                "origin_ns": None if origin is None else origin + (own_zero - part.at_ps) // 1000,
                "clock": clock.name,
                "shift_ps": None if clock.line is None else line.shift(own_zero),
                "drift_ppm": None if clock.line is None else line.drift * 1e6,
                "residual_ps": clock.residual_ps,
                "world_size": sizes[0] if sizes else None,
            }
        )
    table = frame(HOST_COLUMNS, {name: [row[name] for row in rows] for name in HOST_COLUMNS})
    # In the order of the parts, as those of all other frames are.
    texts = [name for name, dtype in HOST_COLUMNS.items() if dtype == "category"]
    return table.assign(**{name: categorical([row[name] for row in rows], np.arange(len(rows))) for name in texts})


def _changed_by(trace: Trace, notes: Sequence[str], lost: Sequence[Lost]) -> Trace:
    table = concat(LOSS_COLUMNS, [losses.table("", lost), trace.losses])
    return trace.changed(losses=table, notes=(*notes, *trace.notes))


def _missing(parts: Sequence[Part], world_size: int | None) -> tuple[list[str], list[Lost]]:
    """The note on processes that are not there, by their numbers, and their loss; none where they are not numbered.

    Where several processes have one number, or one has none of the job's, that may be wrong: then no other one is said
    to be missing.
    """
    for names in ([part.host for part in parts], [Path(part.trace.source).name for part in parts]):
        numbered = [number for number in map(process_number, names) if number]
        if len(numbered) == len(parts) and len({word for word, _ in numbered}) == 1:
            break
    else:
        return [], []
    word = numbered[0][0]
    plural = _PLURAL.get(word, f"{word}s")
    numbers = {number for _, number in numbered}
    first = min(0, *numbers) if word == "rank" else min(1, *numbers)
    last = world_size - 1 if world_size and word == "rank" else max(*numbers, (world_size or 0) - 1)
    count, absent = others(numbers, last, first)
    of = f"The job had {world_size} ranks" if world_size else f"The files are numbered up to {max(numbers)}"
    which = f"{word} {absent}" if count == 1 else f"{plural} {absent}"
    of_host = {(part.host, number) for part, (_, number) in zip(parts, numbered, strict=True)}
    doubts = {
        "there more than once": sorted(each for each, n in Counter(number for _, number in of_host).items() if n > 1),
        "none of these": sorted(number for number in numbers if number > last),
    }
    if any(doubts.values()) and (count or world_size):
        said = [
            f"{word if len(each) == 1 else plural} {_listed(each)} {'is' if len(each) == 1 else 'are'} {what}"
            for what, each in doubts.items()
            if each
        ]
        why = ", and ".join([*said, *([f"none {'is' if count == 1 else 'are'} {which}"] if count else [])])
        note = f"{of}, but {why}: the files are of several jobs, or a number of one is damaged."
        return [note], [Lost(Loss.RANKS, None, world_size, why)] if count or doubts["none of these"] else []
    if not count:
        return [], []
    note = f"{of}: {which} {'is' if count == 1 else 'are'} missing."
    return [note], [Lost(Loss.RANKS, count, world_size, which)]


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _MOST_LISTED} more" if len(numbers) > _MOST_LISTED else ""
    return ", ".join(map(str, numbers[:_MOST_LISTED])) + more


def _host_notes(parts: Sequence[Part]) -> list[str]:
    """The notes of all parts with their hosts; what several say, with the same or with other figures, is said once."""
    alike: dict[str, list[tuple[Part, str]]] = {}
    for part in parts:
        for note in part.trace.notes:
            bare = note.replace(part.trace.source, "").replace(Path(part.trace.source).name, "")
            alike.setdefault(_FIGURE.sub("#", bare), []).append((part, note))
    notes = []
    for group in alike.values():
        hosts = list(dict.fromkeys(part.host for part, _ in group))
        first, note = group[0]
        everybody = len(hosts) == len({part.host for part in parts}) > 1
        source = (f"All {len(hosts)} hosts" if len(hosts) > 2 else "Both hosts") if everybody else listing(hosts)
        if len({text for _, text in group}) == 1:
            notes.append(f"{source}: {note}")
        elif len(hosts) > _FEW:
            notes.append(f"{source}, each with different figures; {first.host}: {note}")
        else:
            notes += dict.fromkeys(f"{part.host}: {text}" for part, text in group)
    return notes


@dataclass(frozen=True)
class Operations:
    """`ops` (OP_COLUMNS) and `operands` (OPERAND_COLUMNS) of all traces, and how each trace's operations are numbered.

    `numbers`: for each trace, in the order given, the row in `ops` of each of its own operations, shape (its ops,).
    """

    ops: pd.DataFrame
    operands: pd.DataFrame
    numbers: tuple[Numbers, ...]

    def renumbered(self, columns: Sequence[pd.Series]) -> pd.arrays.IntegerArray:
        """The columns `events.op` of all traces one after the other, by the numbers of `ops`; null stays."""
        values = [
            np.append(numbers, 0)[op.to_numpy(np.int64, na_value=-1)]
            for numbers, op in zip(self.numbers, columns, strict=True)
        ]
        return pd.arrays.IntegerArray(np.concatenate(values), np.concatenate([op.isna() for op in columns]))


def operations(traces: Sequence[Trace]) -> Operations:
    """The operations of all `traces`, in which a program that several hold alike stands once.

    All hosts of a job mostly run the same programs. A program counts as the same where its rows and their operands are:
    a name or an id alone says little, since each process numbers its own. Rows with operands, and all rows of their
    program, count once where another trace holds the same program row for row and operand for operand; other rows where
    another row is equal in every column.
    """
    counts = [len(trace.ops) for trace in traces]
    begins = np.cumsum([0, *counts])
    ops = concat(OP_COLUMNS, [trace.ops for trace in traces])
    pairs = np.concatenate(
        [trace.operands.to_numpy() + begin for trace, begin in zip(traces, begins[:-1], strict=True)]
        or [np.zeros((0, 2), np.int64)]
    )
    value, _ = distinct(*(_coded(ops[column]) for column in OP_COLUMNS))
    # A block is one program of one trace.
    block, _ = distinct(np.repeat(np.arange(len(traces)), counts), ops["program"].cat.codes.to_numpy())
    linked = np.zeros(block.max(initial=-1) + 1, bool)
    linked[block[pairs]] = True
    same = _first_alike(pairs, value, block, linked)
    stays = same == np.arange(len(ops))
    number = (np.cumsum(stays) - 1)[same]
    pairs = number[pairs]
    pairs = pairs[np.sort(distinct(*pairs.T)[1])]
    return Operations(
        ops=ops[stays].reset_index(drop=True),
        operands=frame(OPERAND_COLUMNS, {"op": pairs[:, 0], "operand": pairs[:, 1]}),
        numbers=tuple(np.split(number, begins[1:-1])) if counts else (),
    )


def _first_alike(pairs: Numbers, value: Numbers, block: Numbers, linked: NDArray[np.bool_]) -> Numbers:
    """For each row the first that stands for the same operation, maybe itself.

    `pairs` (p, 2) are the operands, `value` tells which rows are equal, `block` which are of one program, `linked`
    which blocks have operands.
    """
    same = np.arange(len(value))
    loose = np.flatnonzero(~linked[block])
    codes, first = distinct(value[loose])
    same[loose] = loose[first[codes]]
    of_block = places_of(block, len(linked))
    pairs_of_block = places_of(block[pairs[:, 0]], len(linked))
    place = np.zeros(len(block), np.int64)
    for rows in of_block:
        place[rows] = np.arange(len(rows))
    rows_of: dict[tuple[bytes, bytes], Numbers] = {}
    for number in np.flatnonzero(linked).tolist():
        rows, (op, operand) = of_block[number], pairs[pairs_of_block[number]].T
        links = np.stack([place[op], place[operand], value[operand]], 1)
        links = links[np.lexsort(links.T[::-1])]
        same[rows] = rows_of.setdefault((value[rows].tobytes(), links.tobytes()), rows)
    return same


def _coded(column: pd.Series) -> Numbers:
    """A number for each value of a column, of its own for null."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64)
    return np.asarray(pd.factorize(column)[0], np.int64)
