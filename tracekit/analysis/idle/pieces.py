"""Pieces of idle intervals, each with a label; they are cut, clipped and joined without losing a picosecond."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.intervals import Intervals


@dataclass(frozen=True)
class Pieces:
    """Disjoint pieces [start, end) in ps by start, each column (m,): a `label`, the place in Rows of the `next` row or
    -1, and the number of the `interval` that a piece belongs to."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int8]
    next: NDArray[np.int64]
    interval: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, places: NDArray[Any] | slice) -> "Pieces":
        """Some of the pieces."""
        return Pieces(*(column[places] for column in self.columns()))

    def columns(self) -> list[NDArray[Any]]:
        """The columns in their order."""
        return [getattr(self, column.name) for column in fields(self)]

    def spans(self) -> Intervals:
        """Shape (m, 2)."""
        return np.column_stack([self.start, self.end])


_EMPTY = np.empty(0, np.int64)
_NONE = Pieces(_EMPTY, _EMPTY, np.empty(0, np.int8), _EMPTY, _EMPTY)


def concatenate(pieces_of: Sequence[Pieces]) -> Pieces:
    """The pieces of all parts, one after the other."""
    columns = zip(*(pieces.columns() for pieces in [_NONE, *pieces_of]), strict=True)
    return Pieces(*(np.concatenate(column) for column in columns))


def by_start(pieces: Pieces) -> Pieces:
    """The pieces in order."""
    return pieces.take(np.argsort(pieces.start, kind="stable"))


def cut(pieces: Pieces, claims: Sequence[tuple[int, Intervals]]) -> Pieces:
    """The pieces cut where a claim, a label and a merged set, holds a part of them; the first claim goes first.

    What no claim holds keeps its label.
    """
    unclaimed, claimed = pieces, []
    for label, claim in claims:
        claimed_part = _inside(unclaimed, iv.intersection(unclaimed.spans(), claim))
        claimed.append(replace(claimed_part, label=np.full(len(claimed_part), label, np.int8)))
        unclaimed = _inside(unclaimed, iv.difference(unclaimed.spans(), claim))
    return by_start(concatenate([*claimed, unclaimed]))


def _inside(pieces: Pieces, spans: Intervals) -> Pieces:
    """The pieces that merged `spans` inside of them leave; where pieces touch, a span may hold parts of several."""
    first_piece = np.searchsorted(pieces.end, spans[:, 0], side="right")
    count = np.searchsorted(pieces.start, spans[:, 1]) - first_piece
    span_of_piece = np.repeat(np.arange(len(spans)), count)
    places = np.arange(len(span_of_piece)) + np.repeat(first_piece - np.cumsum(count) + count, count)
    overlapped = pieces.take(places)
    return replace(
        overlapped,
        start=np.maximum(overlapped.start, spans[span_of_piece, 0]),
        end=np.minimum(overlapped.end, spans[span_of_piece, 1]),
    )


def clip(pieces: Pieces, windows: Intervals) -> Pieces:
    """What merged windows hold of the pieces; those left empty vanish."""
    if len(pieces) and len(windows) == 1 and windows[0, 0] <= pieces.start[0] and pieces.end[-1] <= windows[0, 1]:
        return pieces
    return _inside(pieces, windows)
