"""What waits for what by the order of the program: streams and threads for other streams, ops for their operands."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.queues import Queued
from tracekit.devices import type_of
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind

Column = NDArray[np.int64]
# Predecessors and what waits for them, both (e,).
Edges = tuple[Column, Column]

NONE: Edges = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def synchronised(rows: Rows, launch: Column, launches: pd.DataFrame, syncs: pd.DataFrame) -> tuple[Edges, Edges]:
    """The waits of `syncs` (SYNC_COLUMNS): of lanes as (row, row), and of threads as (row, place in `syncs`).

    What was launched on a lane before the wait was recorded (else: before it began) is awaited, the last of each lane
    for all of them, since a lane runs in order. A lane's wait holds up what is launched on it from then on. A row whose
    launch the trace lacks counts as launched when it started.
    """
    if len(syncs) == 0:
        return NONE, NONE
    lane = _Lanes(rows, launch, launches)
    begun = syncs["start_ps"].to_numpy()
    recorded = np.where(
        syncs["recorded_ps"].isna().to_numpy(bool), begun, syncs["recorded_ps"].to_numpy(np.int64, na_value=0)
    )
    waiting = lane.numbers(syncs["device"], syncs["lane"])
    awaited = lane.numbers(syncs["on_device"], syncs["on_lane"])
    held = np.full(len(syncs), -1)
    for one in np.unique(waiting[waiting >= 0]).tolist():
        mine = np.flatnonzero(waiting == one)
        held[mine] = lane.first_from(one, begun[mine])
    of_lane, of_thread = [NONE], [NONE]
    no_lane = syncs["device"].isna().to_numpy(bool)
    device = lane.device_of(syncs["on_device"])
    for on, several in np.unique(np.column_stack([awaited, device]), axis=0).tolist():
        mine = np.flatnonzero((awaited == on) & (device == several))
        every = [on] if on >= 0 else lane.of_device(several) if on == _Lanes.ALL else []
        for one in every:
            row = lane.last_before(one, recorded[mine])
            for_lane = (row >= 0) & (held[mine] >= 0)
            of_lane.append((row[for_lane], held[mine][for_lane]))
            for_thread = (row >= 0) & no_lane[mine]
            of_thread.append((row[for_thread], mine[for_thread]))
    return _joined(of_lane), _joined(of_thread)


def resumed(rows: Rows, launch: Column, launches: pd.DataFrame, queues: Queued) -> Edges:
    """What began on a CPU device when a copy had arrived, as (copy, row).

    PJRT's CPU client starts a program whose inputs are on their way from the thread that completes the last of them. So
    a row waited for the copy that its thread ran right before it, if it was launched after the copy but before that had
    ended, and nothing else held up its device.
    """
    cpu = np.array([type_of(name) == "cpu" for name in rows.devices] or [False])
    some = np.flatnonzero(cpu[rows.device]) if len(rows) else np.zeros(0, np.int64)
    copies = rows.kind[some] == CODE[Kind.MEMCPY]
    if not copies.any():
        return NONE
    thread = rows.codes("host")[some] * (len(rows.labels("lane")) + 1) + rows.codes("lane")[some]
    order = np.lexsort((rows.start[some], thread))
    some, thread, copies = some[order], thread[order], copies[order]
    at = np.flatnonzero(copies[:-1] & (thread[1:] == thread[:-1]))
    copy, row = some[at], some[at + 1]
    called = np.append(launches["start_ps"].to_numpy(), np.iinfo(np.int64).max)
    ends = np.append(np.append(rows.end, rows.end[queues.pair]), np.iinfo(np.int64).min)
    # A copy without a launch is taken for launched when it started.
    asked = np.where(launch[copy] >= 0, called[launch[copy]], rows.start[copy])
    good = (launch[row] >= 0) & (asked < called[launch[row]]) & (called[launch[row]] < rows.end[copy])
    good &= (rows.end[copy] <= rows.start[row]) & (ends[queues.before[row]] <= rows.end[copy])
    return copy[good], row[good]


def _joined(parts: list[Edges]) -> Edges:
    return np.concatenate([one for one, _ in parts]), np.concatenate([other for _, other in parts])


class _Lanes:
    """The rows of each lane in the order in which they were launched."""

    ALL, NO = -1, -2

    def __init__(self, rows: Rows, launch: Column, launches: pd.DataFrame) -> None:
        at = np.where(launch >= 0, launch, 0)
        called = launches["start_ps"].to_numpy()
        when = np.where(launch >= 0, called[at], rows.start) if len(called) else rows.start
        self._width = len(rows.labels("lane"))
        key = rows.device * self._width + rows.codes("lane")
        order = np.lexsort((np.arange(len(rows)), when, key))
        self._labels = {name: code for code, name in enumerate(rows.labels("lane"))}
        self._devices = {name: code for code, name in enumerate(rows.devices)}
        self._when, self._latest, self._earliest = {}, {}, {}
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        for mine in np.split(order, cuts) if len(order) else []:
            number = int(key[mine[0]])
            self._when[number] = when[mine]
            # Rows stand by start: the latest of a lane is the last.
            self._latest[number] = np.maximum.accumulate(mine)
            self._earliest[number] = np.minimum.accumulate(mine[::-1])[::-1]

    def device_of(self, column: pd.Series) -> Column:
        codes = [self._devices.get(str(name), -1) for name in column.cat.categories]
        return np.array([*codes, -1])[column.cat.codes.to_numpy()]

    def numbers(self, device: pd.Series, lane: pd.Series) -> Column:
        """The lane of each wait: ALL where it names a device alone, NO where it names none, or one that ran nothing."""
        codes = np.array([*(self._labels.get(str(name), self.NO) for name in lane.cat.categories), self.ALL])
        on, at = self.device_of(device), codes[lane.cat.codes.to_numpy()]
        number = np.where((on < 0) | (at == self.NO), self.NO, np.where(at >= 0, on * self._width + at, self.ALL))
        known = np.isin(number, [*self._when, self.ALL])
        return np.where(known, number, self.NO)

    def of_device(self, device: int) -> list[int]:
        return [number for number in self._when if number // self._width == device]

    def last_before(self, number: int, moments: Column) -> Column:
        """The last row that was launched on a lane before each moment, -1 for none."""
        at = np.searchsorted(self._when[number], moments, side="left") - 1
        return np.where(at >= 0, self._latest[number][at], -1)

    def first_from(self, number: int, moments: Column) -> Column:
        """The first row that was launched on a lane at or after each moment, -1 for none."""
        at = np.searchsorted(self._when[number], moments, side="left")
        there = at < len(self._when[number])
        return np.where(there, self._earliest[number][np.minimum(at, len(self._when[number]) - 1)], -1)


def operands(rows: Rows, queues: Queued, table: pd.DataFrame) -> Edges:
    """What needs the result of what by the program, as (row, row), where both ran in different queues of one device.

    `table` (OPERAND_COLUMNS) may lead through ops that left no row (a tuple, a bitcast). Of an op that ran more than
    once in an execution, its latest start before the reader's counts. In one queue the order says as much.
    """
    op, has_op = rows.numbers("op")
    run, has_run = rows.numbers("run_id")
    some = np.flatnonzero(has_op & has_run & (queues.queue >= 0))
    if len(some) == 0 or len(table) == 0:
        return NONE
    count = int(max(op[some].max(), table.to_numpy().max())) + 1
    reads, needs = _between_rows(table, np.bincount(op[some], minlength=count) > 0)
    # An op whose rows all ran in one queue has its number, others -2.
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, op[some], queues.queue[some])
    np.maximum.at(high, op[some], queues.queue[some])
    apart = (low[reads] != low[needs]) | (high[reads] != high[needs]) | (low[reads] != high[reads])
    reads, needs = reads[apart], needs[apart]
    if len(reads) == 0:
        return NONE
    execution = np.unique(np.column_stack([rows.device[some], run[some]]), axis=0, return_inverse=True)[1].reshape(-1)
    key = (execution * count + op[some]) * len(rows) + some
    order = np.argsort(key)
    key, by_key = key[order], some[order]
    by_op = np.argsort(op[some], kind="stable")
    ops = op[some][by_op]
    first, last = np.searchsorted(ops, reads, side="left"), np.searchsorted(ops, reads, side="right")
    times = last - first
    at = by_op[np.repeat(first - np.append(0, np.cumsum(times)[:-1]), times) + np.arange(times.sum())]
    reader = some[at]
    base = (execution[at] * count + np.repeat(needs, times)) * len(rows)
    found = np.searchsorted(key, base + reader, side="left") - 1
    there = (found >= 0) & (key[found] >= base)
    return by_key[found[there]], reader[there]


def _between_rows(table: pd.DataFrame, has_row: NDArray[np.bool_]) -> Edges:
    """Which op with rows needs which other one, through any ops without rows between them."""
    reads, needs = table["op"].to_numpy(), table["operand"].to_numpy()
    hidden = ~has_row[needs]
    through = reads[~has_row[reads]], needs[~has_row[reads]]
    order = np.argsort(through[0], kind="stable")
    by_op, behind = through[0][order], through[1][order]
    pairs = np.column_stack([reads, needs])[has_row[reads]]
    done = [pairs[~hidden[has_row[reads]]]]
    left = pairs[hidden[has_row[reads]]]
    for _ in range(len(has_row)):  # operands form no cycle in a program; in a broken file they may
        if len(left) == 0:
            break
        first, last = np.searchsorted(by_op, left[:, 1], side="left"), np.searchsorted(by_op, left[:, 1], side="right")
        times = last - first
        at = np.repeat(first - np.append(0, np.cumsum(times)[:-1]), times) + np.arange(times.sum())
        left = np.unique(np.column_stack([np.repeat(left[:, 0], times), behind[at]]), axis=0)
        done.append(left[has_row[left[:, 1]]])
        left = left[~has_row[left[:, 1]]]
    found = np.unique(np.concatenate(done), axis=0)
    return found[:, 0], found[:, 1]
