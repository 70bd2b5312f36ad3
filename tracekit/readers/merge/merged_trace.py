"""The traces of many files as one: hosts told apart, devices named after them, all times on one axis."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, concat, constant, distinct, frame
from tracekit.devices import natural, on_host
from tracekit.readers.merge import clock_alignment, same_host, shared_ends
from tracekit.readers.merge.clock_alignment import Clock, listing
from tracekit.readers.merge.clock_fit import UNCHANGED, Line
from tracekit.readers.merge.same_host import Part
from tracekit.trace import (
    DEVICE_COLUMNS,
    EVENT_COLUMNS,
    HOST_COLUMNS,
    HOST_WORK_COLUMNS,
    LAUNCH_COLUMNS,
    LOSS_COLUMNS,
    MEMORY_COLUMNS,
    OP_COLUMNS,
    OPERAND_COLUMNS,
    SPAN_COLUMNS,
    SYNC_COLUMNS,
    Trace,
)
from tracekit.units import others
from tracekit.vocabulary.ranks import process_number

Numbers = NDArray[np.int64]

# Times further apart than this fit on no axis of int64 picoseconds (106 days) that leaves room for the traces.
_FURTHEST_NS = 2**62 // 1000
_TIMES = ("start_ps", "end_ps", "recorded_ps", "time_ps")
_PLURAL = {"process": "processes"}
_FEW = 2  # so many notes that differ only in their figures are all shown
_FIGURE = re.compile(r"\d+")


def merge(traces: Sequence[Trace], world_size: int | None = None, machines: Mapping[str, str] | None = None) -> Trace:
    """`traces`, each of one file, as one.

    Every host has a name of its own, and with several hosts every device is `host/device`. Times are on one axis, whose
    0 is the earliest event of any file; clocks are compared and corrected as `clock_alignment.align` says, and what
    cannot be compared has a `clock` of its own. A file that is there twice counts once. `world_size`: how many ranks
    the job had, if that is known; ranks that are missing are noted. `machines`: the machine of a host, where that is
    known; hosts of one machine have its clock. One trace keeps its names.
    """
    parts, notes = _on_one_axis(traces)
    if len(traces) == 1:
        lacking = _missing(parts, world_size) if world_size else []
        return replace(traces[0], notes=(*lacking, *traces[0].notes)) if lacking else traces[0]
    parts, host_notes = same_host.tell_apart(parts)
    parts.sort(key=lambda part: natural(part.host))
    hosts = list(dict.fromkeys(part.host for part in parts))
    clocks, clock_notes = _clocks(parts, hosts, machines or {})
    zero = min(part.at_ps + _line(clocks[part.host]).shift(part.at_ps) for part in parts)
    several = len(hosts) > 1
    ops = operations([part.trace for part in parts])
    events = [part.trace.events.assign(op=ops.renumbered(part.trace.events["op"], at)) for at, part in enumerate(parts)]

    def table_of(columns: Mapping[str, Any], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """The table of all parts, with their names and on one axis."""
        return concat(
            columns,
            [
                _shifted(part, table, several, _line(clocks[part.host]), zero)
                for part, table in zip(parts, tables, strict=True)
            ],
        )

    return Trace(
        events=_on_clocks(table_of(EVENT_COLUMNS, events), clocks),
        spans=table_of(SPAN_COLUMNS, [part.trace.spans for part in parts]),
        host_work=table_of(HOST_WORK_COLUMNS, [part.trace.host_work for part in parts]),
        launches=table_of(LAUNCH_COLUMNS, [part.trace.launches for part in parts]),
        syncs=table_of(SYNC_COLUMNS, [part.trace.syncs for part in parts]),
        ops=ops.ops,
        operands=ops.operands,
        devices=concat(DEVICE_COLUMNS, [_with_host(part, part.trace.devices, several) for part in parts])
        .drop_duplicates("device")
        .reset_index(drop=True),
        hosts=concat(HOST_COLUMNS, [_host(part, clocks[part.host], zero) for part in parts]),
        losses=table_of(LOSS_COLUMNS, [part.trace.losses for part in parts]),
        memory=table_of(MEMORY_COLUMNS, [part.trace.memory for part in parts]),
        notes=(*clock_notes, *_missing(parts, world_size), *notes, *host_notes, *_host_notes(parts)),
        source=traces[0].source,
        format="+".join(dict.fromkeys(trace.format for trace in traces)),
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
    parts: Sequence[Part], hosts: Sequence[str], machines: Mapping[str, str]
) -> tuple[dict[str, Clock], list[str]]:
    """The clock of every host, and notes; a host on whose devices nothing ran needs no comparison.

    Of the hosts of one machine the first stands for all: its clock is theirs.
    """
    needed = [part for part in parts if len(part.trace.events)]
    of_machine: dict[str, str] = {}
    keeper = {part.host: part.host for part in needed}
    for host in (part.host for part in needed if part.timed and part.host in machines):
        keeper[host] = of_machine.setdefault(machines[host], host)
    timed = {keeper[part.host]: part.timed for part in needed}
    shared = [replace(part, host=keeper[part.host]) for part in needed]
    rows = concat(EVENT_COLUMNS, [_shifted(part, shared_ends.needed(part.trace.events), True) for part in shared])
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


def _with_host(part: Part, table: pd.DataFrame, several: bool) -> pd.DataFrame:
    """`table` with the part's host, and with several hosts its devices named after it."""
    columns: dict[str, Any] = {"host": constant(part.host, len(table))}
    for column in ("device", "on_device") if several else ():
        if column in table:
            devices = {device: on_host(part.host, device) for device in table[column].cat.categories}
            columns[column] = table[column].cat.rename_categories(devices)
    return table.assign(**columns)


def _line(clock: Clock) -> Line:
    """What is added to the times of a clock; nothing, where it was not compared."""
    return clock.line or UNCHANGED


def _shifted(part: Part, table: pd.DataFrame, several: bool, line: Line = UNCHANGED, zero: int = 0) -> pd.DataFrame:
    """`table` with the part's names, its times corrected by `line` and counted from `zero`."""
    times = {column: table[column] + part.at_ps for column in _TIMES if column in table}
    if line.drift:
        times = {column: _corrected(times_ps, line) - zero for column, times_ps in times.items()}
    else:
        times = {column: times_ps + (line.shift_ps - zero) for column, times_ps in times.items()}
    return _with_host(part, table, several).assign(**times)


def _corrected(times_ps: pd.Series, line: Line) -> pd.Series:
    """Times of a clock that drifts, corrected; null stays null."""
    numbers = times_ps.to_numpy(np.int64, na_value=0)
    return times_ps + pd.Series(line.shifts(numbers), index=times_ps.index)


def _on_clocks(events: pd.DataFrame, clocks: Mapping[str, Clock]) -> pd.DataFrame:
    """`events` with the clock of each row; null where all are on one."""
    names = {host: clocks[host].name for host in events["host"].cat.categories}
    if len(set(names.values())) < 2:
        return events
    return events.assign(clock=categorical(list(names.values()), events["host"].cat.codes.to_numpy().astype(np.int64)))


def _host(part: Part, clock: Clock, zero: int) -> pd.DataFrame:
    """The part's row of Trace.hosts; the origin is what its own clock showed at the merged time 0."""
    origin, line = _origin(part.trace), _line(clock)
    own_zero = line.inverse(zero)
    return frame(
        HOST_COLUMNS,
        {
            "host": [part.host],
            "source": [part.trace.source],
            "origin_ns": [None if origin is None else origin + (own_zero - part.at_ps) // 1000],
            "clock": [clock.name],
            "shift_ps": [None if clock.line is None else line.shift(own_zero)],
            "drift_ppm": [None if clock.line is None else line.drift * 1e6],
            "residual_ps": [clock.residual_ps],
            "world_size": part.trace.hosts["world_size"].head(1) if len(part.trace.hosts) else [None],
        },
    )


def _missing(parts: Sequence[Part], world_size: int | None) -> list[str]:
    """The note on processes that are not there, by their numbers; none where they are not numbered."""
    for names in ([part.host for part in parts], [Path(part.trace.source).name for part in parts]):
        numbered = [number for number in map(process_number, names) if number]
        if len(numbered) == len(parts) and len({word for word, _ in numbered}) == 1:
            break
    else:
        return []
    word = numbered[0][0]
    numbers = {number for _, number in numbered}
    first = min(0, *numbers) if word == "rank" else min(1, *numbers)
    count, absent = others(numbers, max(*numbers, (world_size or 0) - 1), first)
    if not count:
        return []
    of = f"The job had {world_size} ranks" if world_size else f"The files are numbered up to {max(numbers)}"
    plural = _PLURAL.get(word, f"{word}s")
    return [f"{of}: {f'{word} {absent} is' if count == 1 else f'{plural} {absent} are'} missing."]


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

    def renumbered(self, op: pd.Series, trace: int) -> pd.Series:
        """The column `events.op` of the trace that stands at place `trace`, by the numbers of `ops`; null stays."""
        values = np.append(self.numbers[trace], 0)[op.to_numpy(np.int64, na_value=-1)]
        return pd.Series(pd.arrays.IntegerArray(values, op.isna().to_numpy(bool)), index=op.index)


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
    of_block = _grouped(block, len(linked))
    pairs_of_block = _grouped(block[pairs[:, 0]], len(linked))
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


def _grouped(group: Numbers, groups: int) -> list[Numbers]:
    """The places at which each of the numbers 0..groups stands in `group`, in order."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, groups)))


def _coded(column: pd.Series) -> Numbers:
    """A number for each value of a column, of its own for null."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64)
    return np.asarray(pd.factorize(column)[0], np.int64)
