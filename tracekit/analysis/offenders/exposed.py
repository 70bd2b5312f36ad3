"""How much of every collective and copy its device could not hide, each picosecond given to one row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.unions import COLLECTIVE, COMPUTE, Unions
from tracekit.vocabulary.kinds import Kind


@dataclass(frozen=True)
class Exposed:
    """Of each collective, copy and memset on a known device, (k,): what it adds to those before it, and what of that is
    exposed; times in ps.

    `row` is its place in Rows, rising. Rows of one kind that run at once share time, which belongs to the first of them
    in the order of Rows: the one that started first, of equal starts the one that ended first. The i-th has
    [`start[i]`, `end[i]`) to itself, so these are disjoint among the collectives of a device, and among its copies and
    memsets. `cost[i]` is how much of it ran while the device did not compute, and for a copy or memset ran no
    collective either.
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    cost: NDArray[np.int64]


def blocking(unions: Unions, device: str, kind: Kind) -> Intervals:
    """What hides a row of a kind on a device: its compute; of copies and memsets also its collectives."""
    device_unions = unions.devices[device]
    return device_unions.compute if kind is Kind.COLLECTIVE else device_unions.union_of(COMPUTE | COLLECTIVE)


def exposed(rows: Rows, unions: Unions) -> Exposed:
    """What each row exposes; `unions` are the unions of the whole trace. Rows on unknown devices (`cpu:?`) are left
    out.

    The costs of a device's collectives sum to |N - C|, those of its copies and memsets to |M - (C | N)|.
    """
    tables = [np.zeros((4, 0), np.int64)]
    for number, name in enumerate(rows.devices):
        if name not in unions.devices:
            continue
        kind = rows.kind[rows.of(number)]
        copying = (kind == CODE[Kind.MEMCPY]) | (kind == CODE[Kind.MEMSET])
        for blocked_kind, is_kind in ((Kind.COLLECTIVE, kind == CODE[Kind.COLLECTIVE]), (Kind.MEMCPY, copying)):
            places = np.flatnonzero(is_kind) + rows.of(number).start
            if not len(places):
                continue
            reach = np.maximum.accumulate(rows.end[places])
            start = np.append(rows.start[places[:1]], np.maximum(rows.start[places[1:]], reach[:-1]))
            end = np.maximum(rows.end[places], start)
            hidden = iv.within(blocking(unions, name, blocked_kind), iv.intervals(start, end))
            tables.append(np.stack([places, start, end, end - start - hidden]))
    columns = np.concatenate(tables, axis=1)
    return Exposed(*columns[:, np.argsort(columns[0], kind="stable")])


def subtract_blocks(spans: Intervals, blocked: Intervals) -> tuple[Intervals, NDArray[np.int64]]:
    """The parts of each row of `spans` that the merged set `blocked` does not hold, and the row each is a part of.

    The parts of one row stand in order; rows of `spans` may be in any order and overlap.
    """
    # Each row is cut by the blocks that end after its start and start before its end; k blocks leave k + 1 parts.
    first_block = np.searchsorted(blocked[:, 1], spans[:, 0], side="right")
    cuts = np.maximum(np.searchsorted(blocked[:, 0], spans[:, 1], side="left") - first_block, 0)
    owner = np.repeat(np.arange(len(spans)), cuts + 1)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
    edges = np.concatenate([blocked, np.zeros((1, 2), np.int64)])
    block = first_block[owner] + number
    start = np.where(number == 0, spans[owner, 0], edges[block - 1, 1])
    end = np.where(number == cuts[owner], spans[owner, 1], edges[block, 0])
    nonempty = np.flatnonzero(end > start)
    return iv.intervals(start[nonempty], end[nonempty]), owner[nonempty]
