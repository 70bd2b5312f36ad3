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


def blocking(seen: Unions, device: str, kind: Kind) -> Intervals:
    """What hides a row of a kind on a device: its compute; of copies and memsets also its collectives."""
    held = seen.devices[device]
    return held.compute if kind is Kind.COLLECTIVE else held.union_of(COMPUTE | COLLECTIVE)


def exposed(rows: Rows, seen: Unions) -> Exposed:
    """What each row exposes; `seen` are the unions of the whole trace. Rows on unknown devices (`cpu:?`) are left out.

    The costs of a device's collectives sum to |N - C|, those of its copies and memsets to |M - (C | N)|.
    """
    parts = [np.zeros((4, 0), np.int64)]
    for number, name in enumerate(rows.devices):
        if name not in seen.devices:
            continue
        kind = rows.kind[rows.of(number)]
        copying = (kind == CODE[Kind.MEMCPY]) | (kind == CODE[Kind.MEMSET])
        for one, held in ((Kind.COLLECTIVE, kind == CODE[Kind.COLLECTIVE]), (Kind.MEMCPY, copying)):
            at = np.flatnonzero(held) + rows.of(number).start
            if not len(at):
                continue
            reach = np.maximum.accumulate(rows.end[at])
            start = np.append(rows.start[at[:1]], np.maximum(rows.start[at[1:]], reach[:-1]))
            end = np.maximum(rows.end[at], start)
            hidden = iv.within(blocking(seen, name, one), iv.intervals(start, end))
            parts.append(np.stack([at, start, end, end - start - hidden]))
    found = np.concatenate(parts, axis=1)
    return Exposed(*found[:, np.argsort(found[0], kind="stable")])


def remains(spans: Intervals, blocked: Intervals) -> tuple[Intervals, NDArray[np.int64]]:
    """The parts of each row of `spans` that the merged set `blocked` does not hold, and the row each is a part of.

    The parts of one row stand in order; rows of `spans` may be in any order and overlap.
    """
    # Each row is cut by the blocks that end after its start and start before its end; k blocks leave k + 1 parts.
    first = np.searchsorted(blocked[:, 1], spans[:, 0], side="right")
    cuts = np.maximum(np.searchsorted(blocked[:, 0], spans[:, 1], side="left") - first, 0)
    owner = np.repeat(np.arange(len(spans)), cuts + 1)
    part = np.arange(len(owner)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
    edges = np.concatenate([blocked, np.zeros((1, 2), np.int64)])
    block = first[owner] + part
    start = np.where(part == 0, spans[owner, 0], edges[block - 1, 1])
    end = np.where(part == cuts[owner], spans[owner, 1], edges[block, 0])
    kept = np.flatnonzero(end > start)
    return iv.intervals(start[kept], end[kept]), owner[kept]
