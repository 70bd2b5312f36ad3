"""A small timeline in characters: how busy each device was in each cell of time, and with what.

The height of a cell is its busy share, rounded down to eighths: a cell never claims time that is not there, and is full
only where all of it was busy. Less than an eighth is a dot, none is blank. `strips` computes the cells, `timeline`
gives them as lines for a terminal, with colours where it has them; nothing is printed here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit import intervals as iv
from tracekit.devices import is_known, type_of
from tracekit.report.model import Report, time_zero
from tracekit.report.palette import DARK, LIGHT
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.timeline import Timeline
from tracekit.units import exact, percent, quantity, time
from tracekit.vocabulary.kinds import Kind

EIGHTHS = 8
# By busy eighths; the second is less than one, but not none.
UNICODE, ASCII = " ·▁▂▃▄▅▆▇█", " .12345678"
LETTERS: Mapping[Kind, str] = {Kind.COMPUTE: " ", Kind.COLLECTIVE: "c", Kind.MEMCPY: "m", Kind.MEMSET: "s"}
MAX_DEVICES, MAX_LANES, MAX_PHASES, MAX_CLOCKS = 16, 8, 8, 4
MIN_CELLS, MAX_CELLS = 8, 160
# Where it is to be brief: devices, phases, and lines up to which letters stand below each.
_FEW_DEVICES, _FEW_PHASES, _FEW_LINES = 8, 4, 3
_MAX_LABEL, _SHARE = 20, 7
_STEPS, _TICK_CELLS = (1, 2, 5), 10
# Of both themes, what stands out on a light and on a dark ground alike; and the nearest of 16 colours.
_COLOURS = {
    CODE[Kind.COMPUTE]: (DARK["compute"], "blue"),
    CODE[Kind.COLLECTIVE]: (LIGHT["collective"], "yellow"),
    CODE[Kind.MEMCPY]: (LIGHT["memcpy"], "green"),
    CODE[Kind.MEMSET]: (DARK["grey"], "bright_black"),
}
_CODES = {CODE[kind]: letter for kind, letter in LETTERS.items()}


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


def timeline(report: Report, ordered: Timeline, on: Console, brief: bool = False) -> list[Text]:
    """The lines of the timeline of `report`, as wide as the console; none without device work of any length.

    A `brief` one has fewer devices and phases, and letters only where it has few lines.
    """
    most = (_FEW_DEVICES, _FEW_PHASES) if brief else (MAX_DEVICES, MAX_PHASES)
    rows = ordered.rows
    only = report.fleet.drawn if report.fleet else rows.devices
    wanted = {*only}
    numbers = [number for number, device in enumerate(rows.devices) if device in wanted]
    names = [label for label, _, _ in _sets(rows, numbers[: most[0]])]
    names += [str(name) for name in report.phases.rounds["name"].unique()]
    longest = max((cell_len(terminal.printable(name, on)) for name in names), default=0)
    label = min(longest, _MAX_LABEL, on.width // 3)
    cells = min(max(on.width - label - 2 - _SHARE, MIN_CELLS), MAX_CELLS)
    by_clock = strips(
        rows,
        report.windows,
        report.phases.rounds,
        report.extent,
        cells,
        *most,
        lanes=len(rows.devices) == 1 or not (brief or report.fleet),
        only=only,
        # A timeline may hold the hosts of the drawn devices alone.
        clock_of=report.clock_of if report.fleet else None,
    )
    lines: list[Text] = []
    for strip in by_clock[:MAX_CLOCKS]:
        with_letters = not brief or len(strip.lines) <= _FEW_LINES
        lines += _text(strip, report, on, label, cells, letters=with_letters)
    if len(by_clock) > MAX_CLOCKS:
        lines.append(Text(terminal.printable(f"… and {quantity(len(by_clock) - MAX_CLOCKS, 'more clock')}.", on)))
    return lines


def strips(
    rows: Rows,
    windows: Mapping[str, iv.Intervals],
    phases: pd.DataFrame,
    extent: tuple[int, int] | None,
    cells: int,
    most_devices: int = MAX_DEVICES,
    most_phases: int = MAX_PHASES,
    lanes: bool = True,
    only: Collection[str] | None = None,
    clock_of: Mapping[str, str] | None = None,
) -> list[Strip]:
    """A timeline for each clock of `windows` (by clock, shape (n, 2) in ps) that has a length, `cells` wide at most.

    `phases` has name, start_ps and end_ps in order; a name may repeat. `extent` is the part to show, where there is one
    clock; phases are shown only there too; `only` names the devices that stand for all, whose clocks are in `clock_of`.
    Lanes stand below their device where there are at most MAX_LANES of them.
    """
    by_clock = []
    alone, wanted = len(windows) == 1, None if only is None else {*only}
    for clock, window in windows.items():
        span = (extent if alone else None) or iv.span([window])
        if span is None or span[1] <= span[0]:
            continue
        edges = iv.even_edges(span, min(cells, span[1] - span[0]))
        mine = [number for number, of_device in enumerate(rows.clocks) if of_device == clock or alone]
        drawn = [number for number in mine if wanted is None or rows.devices[number] in wanted][:most_devices]
        window_ps = span[1] - span[0] if alone and extent else iv.total(window)
        lines = [_line(rows, *of_line, edges, window_ps) for of_line in _sets(rows, drawn, lanes)]
        # An unknown device is idle nowhere: it has a line only where it did something.
        lines = [line for line in lines if line.level.any() or is_known(line.label)]
        marks, more = _phases(phases, edges, most_phases) if alone else ((), 0)
        devices = len(mine) if clock_of is None else sum(alone or own == clock for own in clock_of.values())
        by_clock.append(Strip(clock, edges, tuple(lines), marks, (devices - len(drawn), more)))
    return by_clock


def _sets(
    rows: Rows, devices: Sequence[int], with_lanes: bool = True
) -> list[tuple[str, slice, NDArray[np.bool_] | None]]:
    """Label, rows of the device, and which of those rows count (None for all) of each line."""
    lane, names = rows.codes("lane"), rows.labels("lane")
    lanes = {number: np.unique(lane[rows.of(number)]).tolist() for number in devices}
    few = with_lanes and sum(map(len, lanes.values())) <= MAX_LANES
    sets: list[tuple[str, slice, NDArray[np.bool_] | None]] = []
    for number in devices:
        mine, name = rows.of(number), rows.devices[number]
        sets.append((name, mine, None))
        # The lanes of a CPU device are threads of a pool, which say nothing of what ran beside what.
        if few and len(lanes[number]) > 1 and type_of(name) != "cpu":
            sets += [(f"  {names[code]}", mine, lane[mine] == code) for code in lanes[number]]
    return sets


def _line(
    rows: Rows, label: str, mine: slice, counts: NDArray[np.bool_] | None, edges: NDArray[np.int64], window_ps: int
) -> Line:
    spans, kinds = iv.intervals(rows.start[mine], rows.end[mine]), rows.kind[mine]
    if counts is not None:
        spans, kinds = spans[counts], kinds[counts]
    by_kind = np.array([_within(spans[kinds == CODE[kind]], edges) for kind in Kind])
    busy = _within(spans, edges)
    order = np.array([CODE[kind] for kind in Kind])
    longest = np.where(busy > 0, order[by_kind.argmax(axis=0)], -1)
    return Line(label, _levels(busy, edges), longest, iv.sum_exactly(busy) / window_ps)


def _within(spans: iv.Intervals, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    return iv.within(iv.union(spans), iv.intervals(edges[:-1], edges[1:]))


def _levels(busy: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for none, 1 for less than an eighth of the cell, 1 + k for k whole eighths."""
    # Eighths first, so that no product of a long time can overflow.
    lengths = np.diff(edges)
    whole, rest = np.divmod(busy, lengths)
    eighths = whole * EIGHTHS + np.array(
        [EIGHTHS * int(part) // int(length) for part, length in zip(rest, lengths, strict=True)], np.int64
    )
    return np.where(busy > 0, 1 + eighths, 0)


def _phases(
    phases: pd.DataFrame, edges: NDArray[np.int64], most: int
) -> tuple[tuple[tuple[str, NDArray[np.int64]], ...], int]:
    """The levels of the first `most` names that have any, and how many more there are."""
    levels = []
    for name in dict.fromkeys(phases["name"]):
        mine = phases[phases["name"] == name]
        level = _levels(_within(iv.intervals(mine["start_ps"], mine["end_ps"]), edges), edges)
        if level.any():
            levels.append((str(name), level))
    return tuple(levels[:most]), max(len(levels) - most, 0)


def _text(strip: Strip, report: Report, on: Console, label: int, cells: int, *, letters: bool) -> list[Text]:
    """A strip as lines; with the busy shares of its lines, unless the trace holds too little of what ran."""
    zero = time_zero(report)
    lines = [Text(line, style="bold") for line in terminal.wrapped(report.timeline_title(strip.clock), on)]
    for line in strip.lines:
        lines += _bar(line, on, label, cells, not report.whole.lacking, letters)
    lines += _axis(strip, on, label, zero.start_ps[strip.clock])
    for name, level in strip.phases:
        text = "".join(_mark(int(at), terminal.is_unicode(on)) for at in level)
        lines.append(Text(f"{_label(name, on, label)} {text}".rstrip(), style="dim"))
    devices, phases = strip.left_out
    if devices or phases:
        more = [quantity(number, f"more {what}") for number, what in ((devices, "device"), (phases, "phase")) if number]
        lines.append(Text(terminal.printable(f"… and {' and '.join(more)}.", on)))
    legend = f"{_legend(strip, on, letters)} {zero.sentence}"
    return lines + [Text(line, style="dim") for line in terminal.wrapped(legend, on)]


def _label(name: str, on: Console, width: int) -> str:
    return terminal.padded(terminal.printable(name, on), width)


def _bar(line: Line, on: Console, label: int, cells: int, shares: bool, with_letters: bool) -> list[Text]:
    """The bar, and below it the letters of the kinds, where any is not compute and they are wanted."""
    glyphs = UNICODE if terminal.is_unicode(on) else ASCII
    bar = Text(_label(line.label, on, label) + " ")
    few = on.color_system in ("standard", "windows")
    cell = zip(line.kind.tolist(), line.level.tolist(), strict=True)
    for kind, same in groupby(cell, key=lambda kind_and_level: kind_and_level[0]):
        style = _COLOURS[kind][few] if kind in _COLOURS else ""
        bar.append("".join(glyphs[level] for _, level in same), style)
    share = percent(line.busy) if shares else ""
    bar.append(f"{'':{cells - len(line.level)}} {share:>{_SHARE}}".rstrip())
    letters = "".join(_CODES.get(kind, " ") for kind in line.kind.tolist())
    return [bar, *([Text(" " * (label + 1) + letters.rstrip())] if with_letters and letters.strip() else [])]


def _mark(level: int, unicode: bool) -> str:
    """Where a phase is: a line where it holds half of the cell or more, a dot where it holds less."""
    if level == 0:
        return " "
    half = level > EIGHTHS // 2
    return ("━" if half else "·") if unicode else ("=" if half else ".")


def _axis(strip: Strip, on: Console, label: int, zero_ps: int) -> list[Text]:
    """Ticks with what they say, as far as there is room; the last may reach below the busy shares."""
    line = ""
    for place, word in zip(*axis(strip.edges, zero_ps), strict=True):
        if place >= len(line):
            line = f"{line:{place}}|{terminal.printable(word, on)}"
    return [Text(f"{'':{label + 1}}{line}"[: label + 2 + len(strip.edges) + _SHARE], style="dim")]


def axis(edges: NDArray[np.int64], zero_ps: int) -> tuple[list[int], list[str]]:
    """The cells that hold the points at round numbers of time since `zero_ps`, and what they say; where that is too
    long, the start and what has passed since."""
    start, end, cells = int(edges[0]) - zero_ps, int(edges[-1]) - zero_ps, len(edges) - 1
    most = max(cells // _TICK_CELLS, 2)
    step = next(size * 10**power for power in range(20) for size in _STEPS if end - start <= most * size * 10**power)
    ticks = list(range(-(-start // step) * step, end, step))
    words = ["0" if not at else exact(at) for at in ticks]
    if not ticks or max(map(len, words)) > _TICK_CELLS - 2:
        ticks = list(range(start, end, step))
        words = [exact(start) if start else "0", *(f"+{exact(at - start)}" for at in ticks[1:])]
    places = [int(np.searchsorted(edges, zero_ps + at, side="right")) - 1 for at in ticks]
    return places, words


def _legend(strip: Strip, on: Console, with_letters: bool) -> str:
    glyphs = UNICODE if terminal.is_unicode(on) else ASCII
    cell = int(strip.edges[-1] - strip.edges[0]) / (len(strip.edges) - 1)
    scale = f"Each cell spans {time(cell)}: {glyphs[-1]} is 100 % busy, {glyphs[1]} less than an eighth."
    there = {kind for line in strip.lines for kind in line.kind.tolist()}
    letters = [f"{letter} {kind}" for kind, letter in LETTERS.items() if letter != " " and CODE[kind] in there]
    if not letters or not with_letters:
        return scale
    return f"{scale} Letters name the longest kind, where it is not compute: {', '.join(letters)}."
