"""The edges of the graph: which of them the measured times allow, by node."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.critical_path.host import Calls
from tracekit.analysis.critical_path.queues import QueueOrder
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

    def add(self, edge: str, valid: NDArray[np.bool_]) -> None:
        """Count edges of one sort, of which those not `valid` are dropped."""
        self.count(edge, len(valid), int(valid.sum()))

    def count(self, edge: str, edges_found: int, valid: int) -> None:
        """Count `edges_found` edges of one sort, of which `valid` are kept."""
        if edges_found:
            valid_before, dropped_before = self._counts.get(edge, (0, 0))
            self._counts[edge] = valid_before + valid, dropped_before + edges_found - valid

    def table(self) -> pd.DataFrame:
        """What was counted, as EDGE_COLUMNS."""
        rows = [(edge, *numbers) for edge, numbers in self._counts.items()]
        return frame(EDGE_COLUMNS, rows)


def node_order(start: Column, end: Column, begin: Column) -> NDArray[np.int32]:
    """The nodes by start, those without length first; among those at one moment, what had `begin` first."""
    key = 2 * start + (end > start)
    order = np.argsort(key, kind="stable").astype(np.int32)
    sorted_key = key[order]
    tied = (sorted_key[1:] == sorted_key[:-1]) & (sorted_key[1:] & 1 == 0)
    tied_places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    tied_nodes = order[tied_places]
    order[tied_places] = tied_nodes[np.lexsort((tied_nodes, begin[tied_nodes], key[tied_nodes]))]
    return order


def further_edges(
    start: Column, end: Column, rank: NDArray[np.int32], edges: dict[str, tuple[Column, Column]], tally: Tally
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The further predecessors of all nodes, as offsets (N + 1,) and numbers."""
    preds, nodes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, (pred, node) in edges.items():
        valid = (end[pred] <= start[node]) & (rank[pred] < rank[node])
        tally.add(name, valid)
        preds.append(pred[valid])
        nodes.append(node[valid])
    pred, node = np.concatenate(preds), np.concatenate(nodes)
    by_node = np.argsort(node, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(node, minlength=len(start))))
    return offsets.astype(np.int32), pred[by_node].astype(np.int32)


def order_edges(
    start: Column,
    end: Column,
    rank: NDArray[np.int32],
    queues: QueueOrder,
    host: Calls,
    returns: Column,
    first: Column,
    tally: Tally,
) -> tuple[NDArray[np.int32], Column]:
    """What its queue or thread had to end before each node, -1 for none, and the work or (negative) lead between."""
    back = np.arange(first[2], dtype=np.int32)
    back[returns] = np.arange(first[2], first[3])
    predecessor = np.full(len(start), -1, np.int32)
    predecessor[: first[2]] = np.append(back, np.int32(-1))[host.predecessor]
    predecessor[first[2] : first[3]] = returns
    predecessor[first[3] :] = np.where(queues.predecessor >= 0, queues.predecessor + first[3], -1)
    lag = np.concatenate([host.work_ps, np.zeros(len(returns), np.int64), -queues.lead_ps])
    for name, low, high in (
        ("order on a thread of the host", 0, first[2]),
        ("order in a queue", first[3], first[5]),
    ):
        count, valid = loop(drop_contradicted, high - low)(start, end, rank, predecessor, lag, int(low), int(high))
        tally.count(name, count, valid)
    return predecessor, lag


def drop_contradicted(
    start: Column,
    end: Column,
    rank: NDArray[np.int32],
    predecessor: NDArray[np.int32],
    lag: Column,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Take from `predecessor` and `lag` what the times contradict; how many of low:high had a predecessor and have
    one."""
    count, valid = 0, 0
    for i in range(low, high):
        x = predecessor[i]
        if x < 0:
            continue
        count += 1
        if end[x] + lag[i] <= start[i] and rank[x] < rank[i]:
            valid += 1
        else:
            predecessor[i], lag[i] = -1, 0
    return count, valid


def launch_edges(
    rows: Rows, launch: Column, launches: pd.DataFrame, waits: NDArray[np.bool_], tally: Tally
) -> tuple[NDArray[np.int32], Column]:
    """The call that launched each row, -1 for none (n,), and the latency of each device and of the host (d + 1,).

    The latency is the shortest delay between the begin of a launch and the start of its row, of those rows of a device
    that found it idle and do not wait (`waits`) for another, if they are LATENCY_FROM_ROWS or more; else 0.
    """
    call, latency = launch.astype(np.int32), np.zeros(len(rows.devices) + 1, np.int64)
    call_starts = launches["start_ps"].to_numpy()
    for device in range(len(rows.devices)):
        device_rows = rows.of(device)
        launched_rows = np.flatnonzero(call[device_rows] >= 0)
        if len(launched_rows) == 0:
            continue
        called_at = call_starts[call[device_rows][launched_rows]]
        delay = rows.start[device_rows][launched_rows] - called_at
        tally.count("launch", len(launched_rows), int((delay >= 0).sum()))
        call[device_rows][launched_rows[delay < 0]] = -1
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(rows.end[device_rows])[:-1])
        idle = (reach[launched_rows] <= called_at) & (delay >= 0) & ~waits[device_rows][launched_rows]
        if int(idle.sum()) >= LATENCY_FROM_ROWS:
            latency[device] = delay[idle].min()
    return call, latency


def collective_members(
    rows: Rows, instance: Column, tally: Tally
) -> tuple[NDArray[np.int32], Column, NDArray[np.int32], NDArray[np.int32]]:
    """The collective of each row (n,), and of each collective the last start, the row that started last and its rows.

    No member can end before the last has started; where one did, its rows are no collective.
    """
    members_of_any = np.flatnonzero(instance >= 0)
    count = int(instance.max()) + 1 if len(members_of_any) else 0
    gate = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(gate, instance[members_of_any], rows.start[members_of_any])
    last_member = np.zeros(count, np.int32)
    last_started = members_of_any[rows.start[members_of_any] == gate[instance[members_of_any]]]
    last_member[instance[last_started]] = last_started
    members = np.bincount(instance[members_of_any], minlength=count).astype(np.int32)
    wrong = np.zeros(count, bool)
    wrong[instance[members_of_any[rows.end[members_of_any] <= gate[instance[members_of_any]]]]] = True
    wrong &= members > 1
    tally.add("members of a collective", ~wrong[instance[members_of_any[members[instance[members_of_any]] > 1]]])
    member = np.where(instance >= 0, instance, -1)
    member[members_of_any[wrong[instance[members_of_any]]]] = -1
    return member.astype(np.int32), gate, last_member, members
