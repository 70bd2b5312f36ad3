"""Loops that ask again and again whether work is done: a thread that does so waits, as in a synchronising call.

`torch.cuda.Event.query`, `cudaStreamQuery` and their like return at once. One call of them is a look; many, one after
the other until work ends, are a wait for it, whatever ranges stand around. Not every run of them is one: PyTorch's
allocator looks at all events that it keeps (process_events in c10/cuda/CUDACachingAllocator.cpp; 796 in 2 ms in each
step of one real profile), and is done with that whatever the device does.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import frame
from tracekit.trace import SYNC_COLUMNS

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

PAUSE_PS = 2_000_000_000
"""A loop asks again within this time: some programs sleep for a millisecond between two looks."""
# A loop asks so often, and for so long.
_FEWEST, _SHORTEST_PS = 4, 50_000_000
# Between most looks of a loop that surely waits a program rests so long; if not longer, also where it saw nothing end.
_REST_PS, _LONG_REST_PS, _MOST = 5_000_000, 50_000_000, 0.75
# The clocks of device and host agree to this.
_CLOCKS_PS = 10_000_000
# Where more rows than this are expected to end by chance between the last looks, one that does proves nothing.
_BY_CHANCE = 0.25
_TRIES = 4


@dataclass(frozen=True)
class Calls:
    """c calls of the host; columns (c,), times in ps: numbers for `thread` and `process`, and what the name tells:
    whether it asks if work is done (`queries`), or stands beside such a call and does nothing (`aside`)."""

    thread: Column
    process: Column
    start: Column
    end: Column
    queries: Mask
    aside: Mask


@dataclass(frozen=True)
class Work:
    """r rows of devices; columns (r,), times in ps: the `call` that launched each, -1 for none, a number for its
    `lane`, and its end."""

    call: Column
    lane: Column
    end: Column


def waits(calls: Calls, work: Work) -> tuple[Column, Column, Column]:
    """The first and the last call of each loop of queries that waited, and the row of `work` whose end it saw, all
    (k,), by the starts of the loops; -1 where that is not known.

    A loop waited for a row that was launched before it began and ended between its last two looks, if rows, or the last
    ones that lanes had then, end too seldom for chance. A loop that rests between its looks waited anyhow: for the last
    row of a lane that ended so, or for what is not known, if its thread launches work.
    """
    none = np.zeros(0, np.int64)
    if np.count_nonzero(calls.queries) < _FEWEST:
        return none, none, none
    first, before_last, last, pauses, rests = _loops(calls)
    row = np.full(len(first), -1)
    linked = np.flatnonzero(work.call >= 0)
    process = calls.process[work.call[linked]]
    low, high = calls.start[before_last] - _CLOCKS_PS, calls.end[last] + _CLOCKS_PS
    for number in np.unique(calls.process[first]).tolist():
        own, loops = linked[process == number], np.flatnonzero(calls.process[first] == number)
        if len(own):
            window = (calls.start[first[loops]], low[loops], high[loops])
            row[loops] = _answers(work, own, calls.start[work.call[own]], window, rests[loops])
    launches = np.isin(calls.thread[first], calls.thread[work.call[linked]])
    order = np.flatnonzero((row >= 0) | (rests & (pauses <= _LONG_REST_PS) & launches))
    order = order[np.argsort(calls.start[first[order]], kind="stable")]
    return first[order], last[order], row[order]


def table(calls: pd.DataFrame, events: pd.DataFrame, row: Column, launched: Column) -> pd.DataFrame:
    """Loops as waits (SYNC_COLUMNS), from the first look to the last as `calls` (LAUNCH_COLUMNS) has them.

    `row` (k,): the place in `events` of the row that each saw end, -1 for none, and when that was `launched`, ps.
    """
    where = {
        f"on_{column}": pd.Categorical.from_codes(
            np.where(row >= 0, events[column].cat.codes.to_numpy()[row], -1), categories=events[column].cat.categories
        )
        for column in ("device", "lane")
    }
    # All that was launched before is waited for: this row was the last.
    recorded = pd.arrays.IntegerArray(np.where(row >= 0, launched + 1, 0), row < 0)
    same = {str(name): calls[name].array for name in calls if name != "correlation_id"}
    return frame(SYNC_COLUMNS, {**same, **where, "recorded_ps": recorded})


def _loops(calls: Calls) -> tuple[Column, Column, Column, Column, Mask]:
    """The first, the last but one and the last call of each run of queries long enough for a loop, the mean pause
    between its calls in ps, and whether it rests in most of its pauses."""
    order = np.flatnonzero(~calls.aside)
    order = order[np.lexsort((calls.start[order], calls.thread[order]))]
    is_query, thread = calls.queries[order], calls.thread[order]
    pause = calls.start[order][1:] - calls.end[order][:-1]
    goes_on = is_query[1:] & is_query[:-1] & (thread[1:] == thread[:-1]) & (pause <= PAUSE_PS)
    heads = np.flatnonzero(is_query & ~np.append(False, goes_on))
    tails = np.flatnonzero(is_query & ~np.append(goes_on, False))
    is_loop = (tails - heads + 1 >= _FEWEST) & (calls.end[order[tails]] - calls.start[order[heads]] >= _SHORTEST_PS)
    heads, tails = heads[is_loop], tails[is_loop]
    rounds = tails - heads
    paused, rested = (
        np.append(0, np.cumsum(np.where(goes_on, each, 0))) for each in (np.maximum(pause, 0), pause >= _REST_PS)
    )
    rests = rested[tails] - rested[heads] >= _MOST * rounds
    return order[heads], order[tails - 1], order[tails], (paused[tails] - paused[heads]) // rounds, rests


def _answers(work: Work, own: Column, launched: Column, window: tuple[Column, Column, Column], rests: Mask) -> Column:
    """The row whose end each of k loops saw, -1 where none is proven: of the rows `own`, each `launched` then.

    `window`: when the loops began, and between which times what they saw must have ended; whether each `rests`.
    """
    start, low, high = window
    end, share = work.end[own], (high - low) / (high - start)
    answer, answer_end, lanes = (
        np.full(len(start), -1),
        np.full(len(start), np.iinfo(np.int64).min),
        np.zeros(len(start)),
    )
    for lane in np.unique(work.lane[own]).tolist():
        rows = np.flatnonzero(work.lane[own] == lane)
        rows = rows[np.argsort(launched[rows], kind="stable")]
        reach = np.maximum.accumulate(end[rows])
        newest = rows[np.maximum.accumulate(np.where(end[rows] == reach, np.arange(len(rows)), 0))]
        last = np.append(-1, newest)[np.searchsorted(launched[rows], start)]
        ended = (last >= 0) & (end[last] <= high)
        lanes += ended & (end[last] >= start)
        is_answer = ended & (end[last] >= low) & (end[last] > answer_end)
        answer[is_answer], answer_end[is_answer] = last[is_answer], end[last[is_answer]]
    answer = np.where(rests | (lanes * share <= _BY_CHANCE), answer, -1)
    by_end = np.argsort(end, kind="stable")
    ends = end[by_end]
    until = np.searchsorted(ends, high, side="right")
    is_rare = (until - np.searchsorted(ends, start)) * share <= _BY_CHANCE
    for back in range(1, _TRIES + 1):
        row = by_end[np.maximum(until - back, 0)]
        fits = (until >= back) & (end[row] >= low) & (launched[row] < start) & is_rare
        answer = np.where((answer < 0) & fits, row, answer)
    return np.where(answer >= 0, own[answer], -1)
