"""The small timeline as lines of text for a terminal, with colours where it has them."""

from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracekit import console as terminal
from tracekit.report.model import Report
from tracekit.report.palette import DARK, LIGHT
from tracekit.report.terminal import timeline_cells
from tracekit.report.terminal.timeline_cells import Line, Strip
from tracekit.timeline.rows import CODE
from tracekit.timeline.timeline import Timeline
from tracekit.units import time
from tracekit.vocabulary.kinds import Kind

_MAX_LABEL, _SHARE = 20, 7
# Of both themes, what stands out on a light and on a dark ground alike; and the nearest of 16 colours.
_COLOURS = {
    CODE[Kind.COMPUTE]: (DARK["compute"], "blue"),
    CODE[Kind.COLLECTIVE]: (LIGHT["collective"], "yellow"),
    CODE[Kind.MEMCPY]: (LIGHT["memcpy"], "green"),
    CODE[Kind.MEMSET]: (DARK["grey"], "bright_black"),
}
_CODES = {CODE[kind]: letter for kind, letter in timeline_cells.LETTERS.items()}


def timeline(report: Report, ordered: Timeline, on: Console) -> list[Text]:
    """The lines of the timeline of `report`, as wide as the console; none without device work of any length."""
    rows = ordered.rows
    labels = timeline_cells.labels(rows, report.marks)
    longest = max((cell_len(terminal.shown(name, on)) for name in labels), default=0)
    label = min(longest, _MAX_LABEL, on.width // 3)
    cells = min(max(on.width - label - 2 - _SHARE, timeline_cells.MIN_CELLS), timeline_cells.MAX_CELLS)
    found = timeline_cells.strips(rows, report.windows, report.marks, report.shown, cells)
    made: list[Text] = []
    for one in found[: timeline_cells.MAX_CLOCKS]:
        made += _drawn(one, on, label, cells, report.shown is not None)
    if len(found) > timeline_cells.MAX_CLOCKS:
        made.append(Text(terminal.shown(f"… and {len(found) - timeline_cells.MAX_CLOCKS} clocks more.", on)))
    return made


def _drawn(one: Strip, on: Console, label: int, cells: int, in_phases: bool) -> list[Text]:
    length = int(one.edges[-1] - one.edges[0])
    whole = "from the first phase to the last" if in_phases else "from first start to last end"
    clock = f" on the clock of {one.clock}" if one.clock else ""
    title = terminal.wrapped(f"Timeline: {time(length)} {whole}{clock}", on)
    made = [Text(line, style="bold") for line in title]
    for line in one.lines:
        made += _line(line, on, label, cells)
    made += _axis(one, on, label)
    for name, level in one.phases:
        text = "".join(_mark(int(at), terminal.is_unicode(on)) for at in level)
        made.append(Text(f"{_label(name, on, label)} {text}".rstrip(), style="dim"))
    devices, phases = one.left_out
    if devices or phases:
        more = [f"{number} {what}" for number, what in ((devices, "devices"), (phases, "phases")) if number]
        made.append(Text(terminal.shown(f"… and {' and '.join(more)} more.", on)))
    return made + [Text(line, style="dim") for line in terminal.wrapped(_legend(one, on), on)]


def _label(name: str, on: Console, width: int) -> str:
    return terminal.padded(terminal.shown(name, on), width)


def _line(line: Line, on: Console, label: int, cells: int) -> list[Text]:
    """The bar, and below it the letters of the kinds, where any is not compute."""
    glyphs = timeline_cells.UNICODE if terminal.is_unicode(on) else timeline_cells.ASCII
    bar = Text(_label(line.label, on, label) + " ")
    few = on.color_system in ("standard", "windows")
    cell = zip(line.kind.tolist(), line.level.tolist(), strict=True)
    for kind, same in groupby(cell, key=lambda one: one[0]):
        style = _COLOURS[kind][few] if kind in _COLOURS else ""
        bar.append("".join(glyphs[level] for _, level in same), style)
    bar.append(f"{'':{cells - len(line.level)}} {timeline_cells.busy(line):>{_SHARE}}".rstrip())
    letters = "".join(_CODES.get(kind, " ") for kind in line.kind.tolist())
    return [bar, *([Text(" " * (label + 1) + letters.rstrip())] if letters.strip() else [])]


def _mark(level: int, unicode: bool) -> str:
    """Where a phase is: a line where it holds half of the cell or more, a dot where it holds less."""
    if level == 0:
        return " "
    half = level > timeline_cells.EIGHTHS // 2
    return ("━" if half else "·") if unicode else ("=" if half else ".")


def _axis(one: Strip, on: Console, label: int) -> list[Text]:
    """Ticks with what they say; the last may reach below the busy shares."""
    made = ""
    for place, word in zip(*timeline_cells.axis(one.edges), strict=True):
        made = f"{made:{place}}|{terminal.shown(word, on)}"
    return [Text(f"{'':{label + 1}}{made}"[: label + 2 + len(one.edges) + _SHARE], style="dim")]


def _legend(one: Strip, on: Console) -> str:
    glyphs = timeline_cells.UNICODE if terminal.is_unicode(on) else timeline_cells.ASCII
    cell = int(one.edges[-1] - one.edges[0]) / (len(one.edges) - 1)
    letters = _letters(one.lines)
    scale = f"Each cell spans {time(cell)}: {glyphs[-1]} is 100 % busy, {glyphs[1]} less than an eighth"
    return f"{scale}. {letters}" if letters else f"{scale}."


def _letters(lines: Sequence[Line]) -> str:
    seen = {kind for line in lines for kind in line.kind.tolist()}
    said = [
        f"{letter} {kind}" for kind, letter in timeline_cells.LETTERS.items() if letter != " " and CODE[kind] in seen
    ]
    return f"Letters name the longest kind, where it is not compute: {', '.join(said)}." if said else ""
