"""The threads of the host: which of them take turns, and when they are proven to have been at work."""

import re
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.jit import loop

Column = NDArray[np.int64]
# Host and name of a thread, and its number.
Names = dict[tuple[str, str], int]
# Thread, start and end, all (n,).
Times = tuple[Column, Column, Column]

# Names of calls and spans in which a thread waits for something that the name does not tell. `cudaStreamWaitEvent` and
# `cuStreamWaitValue` tell a stream to wait, and return at once.
WAITING = re.compile(
    r"(?i)^(?!.*stream_?wait)(.*synchroni[sz]e|.*\bwait\b|.*await|.*block_?until_?ready|.*rendezvous|.*blockhostuntil"
    r"|\$.*\b(acquire|join|poll|select)$|\$queue\.py:\d+ get$)"
)
# Threads that change places after ten calls or more on average take turns; those that work beside each other mix.
_CALLS_A_TURN = 10
# A thread that launched so often while another one stood still may be what that one waited for.
_LAUNCHES_MEANWHILE = 3


def numbered(*tables: pd.DataFrame) -> Names:
    """A number for each thread that the tables hold."""
    found: Names = {}
    for table in tables:
        hosts, threads = table["host"].cat, table["thread"].cat
        wide = len(threads.categories) + 1
        key = hosts.codes.to_numpy().astype(np.int64) * wide + threads.codes.to_numpy()
        for one in np.flatnonzero(np.bincount(key)).tolist():
            name = str(hosts.categories[one // wide]), str(threads.categories[one % wide])
            found.setdefault(name, len(found))
    return found


def numbers(table: pd.DataFrame, names: Names, column: str = "thread") -> Column:
    """The number of each row's thread, -1 where `names` lacks it."""
    hosts, threads = table["host"].cat, table[column].cat
    grid = np.full((len(hosts.categories) + 1, len(threads.categories) + 1), -1)
    for row, host in enumerate(hosts.categories):
        for at, thread in enumerate(threads.categories):
            grid[row, at] = names.get((str(host), str(thread)), -1)
    found: Column = grid[hosts.codes.to_numpy(), threads.codes.to_numpy()]
    return found


def named_waiting(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the name of each row says that its thread waited."""
    says = np.array([bool(WAITING.match(str(name))) for name in table["name"].cat.categories] or [False])
    found: NDArray[np.bool_] = says[table["name"].cat.codes.to_numpy()]
    return found


def flows(names: Names, calls: Times, launching: NDArray[np.bool_]) -> Column:
    """The number of the flow of control that each thread belongs to: threads that take turns are one flow.

    They do if both launch, no call of one lies in a call of the other, and they change places seldom: PyTorch's main
    thread stands still while another one runs the backward pass. `launching` (n,): which of the `calls` launched rows.
    """
    flow = np.arange(len(names))
    hosts = [host for host, _ in names]
    threads = np.flatnonzero(np.bincount(calls[0][launching], minlength=len(names))).tolist()
    if len({hosts[one] for one in threads}) == len(threads):
        return flow
    times = {}
    for one in threads:
        mine = np.flatnonzero(calls[0] == one)
        mine = mine[np.argsort(calls[1][mine], kind="stable")]
        times[one] = calls[1][mine], np.maximum.accumulate(calls[2][mine])
    for a, b in combinations(threads, 2):
        if hosts[a] == hosts[b] and flow[b] == b:
            few = min(len(times[a][0]), len(times[b][0]))
            changes = loop(turns, few)(*times[a], *times[b])
            if 0 <= changes * _CALLS_A_TURN <= few:
                flow[b] = flow[a]
    return flow


def turns(start_a: Column, reach_a: Column, start_b: Column, reach_b: Column) -> int:
    """How often two threads change places, -1 if a call of one lies in a call of the other.

    `start`: when their calls begin, in order; `reach`: when the last so far has ended.
    """
    changes, i, j, last = 0, 0, 0, -1
    while i < len(start_a) or j < len(start_b):
        a = j >= len(start_b) or (i < len(start_a) and start_a[i] <= start_b[j])
        if a:
            if j > 0 and reach_b[j - 1] > start_a[i]:
                return -1
            i += 1
        else:
            if i > 0 and reach_a[i - 1] > start_b[j]:
                return -1
            j += 1
        now = 0 if a else 1
        if last >= 0 and now != last:
            changes += 1
        last = now
    return changes


def work(
    names: Names, thread: Column, flow: Column, spans: pd.DataFrame, own: set[str],
    calls: tuple[Column, Column, NDArray[np.bool_]], idle: list[Times],
) -> dict[int, Intervals]:  # fmt: skip
    """When each flow is proven to have been at work, merged, for those that ever are.

    `thread` and `flow` (n,) are those of the `calls` (start, end, whether it launched). Spans of a flow prove it at
    work. Not so steps and phases, which name a stretch of the program; a call's `own` span, which has its name; spans
    whose name says that they wait; and the times in `idle`, when a thread waited or ran a device's rows. Where another
    flow of the host launched while no span and no call of this one began or ended, it may have waited for that one.
    """
    back = np.full(len(names) + 1, -1)
    back[thread] = flow
    mark = spans["step"].notna().to_numpy(bool) | spans["tracekit"].notna().to_numpy(bool)
    waiting = named_waiting(spans)
    apart = np.array([str(name) in own for name in spans["name"].cat.categories] or [False])
    some = np.flatnonzero(~mark & ~(apart[spans["name"].cat.codes.to_numpy()] & ~waiting))
    of_span = back[numbers(spans, names)[some]]
    times = spans["start_ps"].to_numpy()[some], spans["end_ps"].to_numpy()[some]
    waiting = waiting[some]
    hosts = [host for host, _ in names]
    host_of = {int(back[one]): host for one, host in enumerate(hosts)}
    found = {}
    for one in np.unique(of_span[(of_span >= 0) & ~waiting]).tolist():
        mine = of_span == one
        inside = iv.union(_of(times, mine & ~waiting))
        out = [_of(times, mine & waiting)]
        out += [_of((start, end), back[threads] == one) for threads, start, end in idle]
        for other in {number for number, host in host_of.items() if host == host_of[one] and number != one}:
            points = np.sort(calls[0][calls[2] & (flow == other)])
            out.append(_still([*_edges(times, mine), *_edges(calls[:2], flow == one)], points))
        out = [one_out for one_out in out if len(one_out)]
        inside = iv.difference(inside, iv.union(*out)) if out else inside
        if len(inside):
            found[one] = inside
    return found


def _still(edges: list[Column], points: Column) -> Intervals:
    """The stretches between two `edges` in which many of the sorted `points` lie."""
    if len(points) < _LAUNCHES_MEANWHILE:
        return iv.EMPTY
    moments = np.sort(np.concatenate(edges))
    many = np.diff(np.searchsorted(points, moments)) >= _LAUNCHES_MEANWHILE
    return iv.intervals(moments[:-1][many], moments[1:][many])


def _edges(times: tuple[Column, Column], some: NDArray[np.bool_]) -> list[Column]:
    return [column[some] for column in times]


def _of(times: tuple[Column, Column], some: NDArray[np.bool_]) -> Intervals:
    return iv.intervals(times[0][some], times[1][some])
