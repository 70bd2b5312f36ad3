"""The edges of the graph: which of them the measured times allow, by node."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.host import Calls
from tracekit.analysis.critical_path.queues import Queued
from tracekit.columns import frame
from tracekit.jit import loop
from tracekit.timeline.rows import Rows

Column = NDArray[np.int64]

# From so many rows that found their device idle on, the shortest delay of them is taken for its launch latency.
LATENCY_FROM_ROWS = 10
EDGE_COLUMNS = {"edge": "str", "edges": "int64", "dropped": "int64"}


class Tally:
    """Counts edges by sort, those that hold and those that the times contradict."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}

    def add(self, edge: str, good: NDArray[np.bool_]) -> None:
        """Count edges of one sort, of which those not `good` are dropped."""
        self.count(edge, len(good), int(good.sum()))

    def count(self, edge: str, some: int, good: int) -> None:
        """Count `some` edges of one sort, of which `good` are kept."""
        if some:
            kept, dropped = self._counts.get(edge, (0, 0))
            self._counts[edge] = kept + good, dropped + some - good

    def table(self) -> pd.DataFrame:
        """What was counted, as EDGE_COLUMNS."""
        found = [(edge, *numbers) for edge, numbers in self._counts.items()]
        return frame(EDGE_COLUMNS, found)


def in_order(start: Column, end: Column, begun: Column) -> NDArray[np.int32]:
    """The nodes by start, those without length first; among those at one moment, what had `begun` first."""
    key = 2 * start + (end > start)
    order = np.argsort(key, kind="stable").astype(np.int32)
    ordered = key[order]
    tied = (ordered[1:] == ordered[:-1]) & (ordered[1:] & 1 == 0)
    where = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    some = order[where]
    order[where] = some[np.lexsort((some, begun[some], key[some]))]
    return order


def further(
    start: Column, end: Column, rank: NDArray[np.int32], edges: dict[str, tuple[Column, Column]], tally: Tally
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The further predecessors of all nodes, as offsets (N + 1,) and numbers."""
    preds, nodes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, (pred, node) in edges.items():
        good = (end[pred] <= start[node]) & (rank[pred] < rank[node])
        tally.add(name, good)
        preds.append(pred[good])
        nodes.append(node[good])
    pred, node = np.concatenate(preds), np.concatenate(nodes)
    by_node = np.argsort(node, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(node, minlength=len(start))))
    return offsets.astype(np.int32), pred[by_node].astype(np.int32)


def predecessors(
    start: Column,
    end: Column,
    rank: NDArray[np.int32],
    queues: Queued,
    host: Calls,
    returns: Column,
    first: Column,
    tally: Tally,
) -> tuple[NDArray[np.int32], Column]:
    """What its queue or thread had to end before each node, -1 for none, and the work or (negative) lead between."""
    back = np.arange(first[2], dtype=np.int32)
    back[returns] = np.arange(first[2], first[3])
    before = np.full(len(start), -1, np.int32)
    before[: first[2]] = np.append(back, np.int32(-1))[host.before]
    before[first[2] : first[3]] = returns
    before[first[3] :] = np.where(queues.before >= 0, queues.before + first[3], -1)
    lag = np.concatenate([host.work_ps, np.zeros(len(returns), np.int64), -queues.lead_ps])
    for name, low, high in (
        ("order on a thread of the host", 0, first[2]),
        ("order in a queue", first[3], first[5]),
    ):
        some, good = loop(checked, high - low)(start, end, rank, before, lag, int(low), int(high))
        tally.count(name, some, good)
    return before, lag


def checked(
    start: Column, end: Column, rank: NDArray[np.int32], before: NDArray[np.int32], lag: Column, low: int, high: int
) -> tuple[int, int]:
    """Take from `before` and `lag` what the times contradict; how many of low:high had a predecessor and have one."""
    some, good = 0, 0
    for i in range(low, high):
        x = before[i]
        if x < 0:
            continue
        some += 1
        if end[x] + lag[i] <= start[i] and rank[x] < rank[i]:
            good += 1
        else:
            before[i], lag[i] = -1, 0
    return some, good


def launched(
    rows: Rows, launch: Column, launches: pd.DataFrame, waits: NDArray[np.bool_], tally: Tally
) -> tuple[NDArray[np.int32], Column]:
    """The call that launched each row, -1 for none (n,), and the latency of each device and of the host (d + 1,).

    The latency is the shortest delay between the begin of a launch and the start of its row, of those rows of a device
    that found it idle and do not wait (`waits`) for another, if they are LATENCY_FROM_ROWS or more; else 0.
    """
    found, latency = launch.astype(np.int32), np.zeros(len(rows.devices) + 1, np.int64)
    begun = launches["start_ps"].to_numpy()
    for device in range(len(rows.devices)):
        mine = rows.of(device)
        at = np.flatnonzero(found[mine] >= 0)
        if len(at) == 0:
            continue
        called = begun[found[mine][at]]
        delay = rows.start[mine][at] - called
        tally.count("launch", len(at), int((delay >= 0).sum()))
        found[mine][at[delay < 0]] = -1
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(rows.end[mine])[:-1])
        idle = (reach[at] <= called) & (delay >= 0) & ~waits[mine][at]
        if int(idle.sum()) >= LATENCY_FROM_ROWS:
            latency[device] = delay[idle].min()
    return found, latency


def met(
    rows: Rows, instance: Column, tally: Tally
) -> tuple[NDArray[np.int32], Column, NDArray[np.int32], NDArray[np.int32]]:
    """The collective of each row (n,), and of each collective the last start, the row that started last and its rows.

    No member can end before the last has started; where one did, its rows are no collective.
    """
    some = np.flatnonzero(instance >= 0)
    count = int(instance.max()) + 1 if len(some) else 0
    gate = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(gate, instance[some], rows.start[some])
    last = np.zeros(count, np.int32)
    at = some[rows.start[some] == gate[instance[some]]]
    last[instance[at]] = at
    members = np.bincount(instance[some], minlength=count).astype(np.int32)
    wrong = np.zeros(count, bool)
    wrong[instance[some[rows.end[some] <= gate[instance[some]]]]] = True
    wrong &= members > 1
    tally.add("members of a collective", ~wrong[instance[some[members[instance[some]] > 1]]])
    found = np.where(instance >= 0, instance, -1)
    found[some[wrong[instance[some]]]] = -1
    return found.astype(np.int32), gate, last, members
