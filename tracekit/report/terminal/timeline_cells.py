"""A small timeline in characters: how busy each device was in each cell of time, and with what; no printing.

The height of a cell is its busy share, rounded down to eighths: a cell never claims time that is not there, and is full
only where all of it was busy. Less than an eighth is a dot, none is blank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.devices import type_of
from tracekit.timeline.rows import CODE, Rows
from tracekit.units import exact, percent
from tracekit.vocabulary.kinds import Kind

EIGHTHS = 8
# By busy eighths; the second is less than one, but not none.
UNICODE, ASCII = " ·▁▂▃▄▅▆▇█", " .12345678"
LETTERS: Mapping[Kind, str] = {Kind.COMPUTE: " ", Kind.COLLECTIVE: "c", Kind.MEMCPY: "m", Kind.MEMSET: "s"}
MAX_DEVICES, MAX_LANES, MAX_PHASES, MAX_CLOCKS = 16, 8, 8, 4
MIN_CELLS, MAX_CELLS = 8, 160
_STEPS, _TICK_CELLS = (1, 2, 5), 10


@dataclass(frozen=True)
class Line:
    """One line of cells: a device, or one of its lanes, whose label is indented.

    `level` (n,) is 0 for none, 1 for less than an eighth, 1 + k for k whole eighths; `kind` (n,) is the code of the
    kind that ran longest in the cell (of several, the first), -1 where none did. `busy` is the share of the window.
    """

    label: str
    level: NDArray[np.int64]
    kind: NDArray[np.int64]
    busy: float


@dataclass(frozen=True)
class Strip:
    """A timeline of one clock: `edges` (n + 1,) cut its window into cells, in ps; lines from the top down.

    `phases` has for each name how many eighths of each cell it holds, as a Line's `level` says it. `left_out` counts
    the devices and the phases that there was no room for.
    """

    clock: str
    edges: NDArray[np.int64]
    lines: tuple[Line, ...]
    phases: tuple[tuple[str, NDArray[np.int64]], ...]
    left_out: tuple[int, int]


def strips(
    rows: Rows, windows: Mapping[str, iv.Intervals], phases: pd.DataFrame, shown: tuple[int, int] | None, cells: int
) -> list[Strip]:
    """A timeline for each clock of `windows` (by clock, shape (n, 2) in ps) that has a length, `cells` wide at most.

    `phases` has name, start_ps and end_ps in order; a name may repeat. `shown` is the part to show, where there is one
    clock; phases are shown only there too. Lanes stand below their device where there are at most MAX_LANES of them.
    """
    made = []
    alone = len(windows) == 1
    for clock, window in windows.items():
        whole = iv.span([window])
        span = (shown if alone else None) or whole
        if span is None or span[1] <= span[0]:
            continue
        edges = _edges(span, min(cells, span[1] - span[0]))
        mine = [number for number, one in enumerate(rows.clocks) if one == clock or alone]
        lines = [_line(rows, *one, edges) for one in _sets(rows, mine[:MAX_DEVICES])]
        marks, more = _phases(phases, edges) if alone else ((), 0)
        made.append(Strip(clock, edges, tuple(lines), marks, (max(len(mine) - MAX_DEVICES, 0), more)))
    return made


def _edges(span: tuple[int, int], cells: int) -> NDArray[np.int64]:
    start, end = span
    # Python ints: the product overflows int64 from about an hour on.
    return np.array([start + (end - start) * at // cells for at in range(cells + 1)], np.int64)


def labels(rows: Rows, phases: pd.DataFrame) -> list[str]:
    """All labels of lines and phases that `strips` may give."""
    devices = range(min(len(rows.devices), MAX_DEVICES))
    return [label for label, _, _ in _sets(rows, devices)] + [str(name) for name in phases["name"].unique()]


def _sets(rows: Rows, devices: Sequence[int]) -> list[tuple[str, slice, NDArray[np.bool_] | None]]:
    """Label, rows of the device, and which of those rows count (None for all) of each line."""
    lane, names = rows.codes("lane"), rows.labels("lane")
    lanes = {number: np.unique(lane[rows.of(number)]).tolist() for number in devices}
    few = sum(map(len, lanes.values())) <= MAX_LANES
    made: list[tuple[str, slice, NDArray[np.bool_] | None]] = []
    for number in devices:
        mine, name = rows.of(number), rows.devices[number]
        made.append((name, mine, None))
        # The lanes of a CPU device are threads of a pool, which say nothing of what ran beside what.
        if few and len(lanes[number]) > 1 and type_of(name) != "cpu":
            made += [(f"  {names[code]}", mine, lane[mine] == code) for code in lanes[number]]
    return made


def _line(rows: Rows, label: str, mine: slice, held: NDArray[np.bool_] | None, edges: NDArray[np.int64]) -> Line:
    spans, kinds = iv.intervals(rows.start[mine], rows.end[mine]), rows.kind[mine]
    if held is not None:
        spans, kinds = spans[held], kinds[held]
    by_kind = np.array([_within(spans[kinds == CODE[kind]], edges) for kind in Kind])
    busy = _within(spans, edges)
    order = np.array([CODE[kind] for kind in Kind])
    longest = np.where(busy > 0, order[by_kind.argmax(axis=0)], -1)
    return Line(label, _levels(busy, edges), longest, iv.sum_exactly(busy) / int(edges[-1] - edges[0]))


def _within(spans: iv.Intervals, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    return iv.within(iv.union(spans), iv.intervals(edges[:-1], edges[1:]))


def _levels(held: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for none, 1 for less than an eighth of the cell, 1 + k for k whole eighths."""
    # Eighths first, so that no product of a long time can overflow.
    lengths = np.diff(edges)
    whole, rest = np.divmod(held, lengths)
    eighths = whole * EIGHTHS + np.array(
        [EIGHTHS * int(part) // int(length) for part, length in zip(rest, lengths, strict=True)], np.int64
    )
    return np.where(held > 0, 1 + eighths, 0)


def _phases(phases: pd.DataFrame, edges: NDArray[np.int64]) -> tuple[tuple[tuple[str, NDArray[np.int64]], ...], int]:
    names = list(dict.fromkeys(phases["name"]))
    made = []
    for name in names:
        mine = phases[phases["name"] == name]
        level = _levels(_within(iv.intervals(mine["start_ps"], mine["end_ps"]), edges), edges)
        if level.any():
            made.append((str(name), level))
    return tuple(made[:MAX_PHASES]), max(len(made) - MAX_PHASES, 0)


def axis(edges: NDArray[np.int64]) -> tuple[list[int], list[str]]:
    """The cells that hold the points at round numbers of time, the first at 0, and what they say."""
    length, cells = int(edges[-1] - edges[0]), len(edges) - 1
    most = max(cells // _TICK_CELLS, 2)
    step = next(size * 10**power for power in range(20) for size in _STEPS if length <= most * size * 10**power)
    ticks = list(range(0, length, step))
    places = [int(np.searchsorted(edges, int(edges[0]) + at, side="right")) - 1 for at in ticks]
    return places, ["0" if not at else exact(at) for at in ticks]


def busy(line: Line) -> str:
    """The busy share of the window, as the report's tables say it."""
    return percent(line.busy)
