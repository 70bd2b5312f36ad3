"""The report on a terminal: what a person reads first, on one screen, or with `full` all of it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tracekit import console as terminal
from tracekit.report.model import Report, time_zero
from tracekit.report.part import headline_of, only
from tracekit.report.section import WORDS, Section, Table, Unit, brief_text
from tracekit.report.sections.key_figures import KeyFigure
from tracekit.report.sections.sections import Highlight, highlights, in_one_line
from tracekit.report.terminal import timeline_text
from tracekit.report.time_zero import TimeZero
from tracekit.timeline.timeline import Timeline
from tracekit.units import DASH, quantity

# Verdicts on phases, entries of what matters most, and rows of the table of phases that stand on one screen.
MAX_VERDICTS, MAX_HIGHLIGHTS, MAX_PHASES = 3, 3, 6
# The section whose first table stands on the first screen, and how many rows of it.
_TOP, MAX_TOP = "top_ops", 5
_GAP, _LONGEST_WORD, _LEAST_NAME = 2, 14, 8
# Characters of the longest names, and to how many they are shortened, first and at last, where a table is too wide.
_LONGEST_NAME, _LEAST_NAMES = 60, (16, 8)


def show(report: Report, on: Console, full: bool = False, timeline: Timeline | None = None) -> None:
    """Print the verdicts and the key figures, the timeline, and what matters most, about a screen; with `full` then
    every table and section, what is lacking, and the notes."""
    if (missing := report.missing) and missing.sentences:
        if full:
            _section(missing, time_zero(report), on)
        else:
            sentence(f"{missing.title}: {missing.in_one_line or missing.sentences[0]}", on)
            on.print()
    _verdicts(report, on, full)
    on.print()
    _key_figures(report.key_figures, on)
    lines = timeline_text.timeline(report, timeline, on, brief=not full) if timeline is not None else []
    for line_of_timeline in lines:
        on.print(line_of_timeline, soft_wrap=True)
    zero = time_zero(report)
    if full and report.windows and not lines:
        sentence(zero.sentence, on)
    if lines or (full and report.windows):
        on.print()
    first = highlights(report.sections)
    phases = [table for section in report.overview for table in section.tables if table.key == "phases"]
    # A short table of phases takes the place of an entry.
    phases = [table for table in phases if len(table.brief) <= MAX_PHASES]
    most = MAX_HIGHLIGHTS - len(phases)
    _important(report, first if full else first[:most], on)
    if full:
        for section in report.overview:
            if section.key == "fleet":
                _section(section, zero, on)
            else:
                tables(section.tables, zero, on)
        if report.scope:
            sentence(f"From here on, {report.scope}", on)
            on.print()
        for section in report.evidence:
            _section(section, zero, on)
        _lacking(report, on)
        for note in report.notes:
            sentence(f"Note: {note}", on)
        if any(len(table.brief) < len(table.rows) for section in report.evidence for table in section.tables):
            sentence("Tables are cut to a few rows; report.html has more of them.", on)
        return
    tables(phases, zero, on)
    for section in report.overview if report.fleet else ():
        if section.key == "fleet":
            _section(replace(section, tables=section.tables[:1]), zero, on)
        elif section.key == "time":
            tables(section.tables[:1], zero, on)
    for section in report.evidence:
        if section.key == _TOP and not report.verdicts:
            tables(section.tables[:1], zero, on, MAX_TOP)
            sentence(section.sentences[0], on)
            on.print()
    more = [quantity(len(first) - most, "more loss", "more losses")] if len(first) > most else []
    more += [quantity(len(report.notes), "note")] if report.notes else []
    held = [section for section in (*report.overview, *report.evidence) if not section.lacking]
    more += [quantity(len(held), "section")] if held else []
    if more:
        sentence(f"--full prints the rest: {', '.join(more)}; report.md and report.html have it too.", on)
    if report.lacking:
        sentence(f"Not in this report (--full says why): {', '.join(titles for titles, _ in report.lacking)}.", on)


def _key_figures(figures: Sequence[KeyFigure], on: Console) -> None:
    """The figures side by side, and below each what it is, and of what."""
    if not figures:
        return
    width = (on.width - 1) // len(figures) - _GAP
    columns = [
        [(figure.text, "bold"), *((line, "dim") for line in terminal.folded(f"{figure.label}, {figure.of}", width))]
        for figure in figures
    ]
    for row in zip_longest(*columns, fillvalue=("", "")):
        line = Text()
        for words, style in row:
            line.append(terminal.padded(terminal.printable(words, on), width), style)
            line.append(" " * _GAP)
        line.rstrip()
        on.print(line, soft_wrap=True)
    on.print()


def _important(report: Report, entries: Sequence[Highlight], on: Console) -> None:
    if not entries:
        return
    heading("What matters most", on)
    if report.scope:
        sentence(f"Here, {report.scope}", on)
    for number, line in enumerate(entries, 1):
        sentence(in_one_line(line), on, f"{number}. ")
    on.print()


def _verdicts(report: Report, on: Console, full: bool) -> None:
    verdicts = report.phase_verdicts
    first = verdicts if full else (verdicts[: len(report.compared)] or verdicts)[:MAX_VERDICTS]
    if report.verdict is not None:
        label = "" if report.part or report.steady else f"{report.whole.label}: "
        sentence(headline_of(report.part, f"{label}{report.verdict}"), on)
    elif report.part:
        sentence(only(report.part).rstrip(), on)
    for name, verdict in first:
        sentence(f"{name}: {verdict}", on)
    if len(verdicts) > len(first):
        sentence(f"… and {quantity(len(verdicts) - len(first), 'more verdict')}: --full prints them.", on)


def heading(title: str, on: Console) -> None:
    """Print a title."""
    on.print(Text(terminal.printable(title, on), style="bold"))


def sentence(words: str, on: Console, mark: str = "") -> None:
    """Print a sentence in lines that fit, after a `mark`."""
    for line in terminal.wrapped(words, on, mark):
        on.print(Text(line), soft_wrap=True)


def _section(section: Section, zero: TimeZero, on: Console) -> None:
    heading(section.title, on)
    lines = [*map(in_one_line, section.findings), *section.sentences]
    for line in lines:
        sentence(line, on, "* " if len(lines) > 1 else "")
    on.print()
    tables(section.tables, zero, on)


def _lacking(report: Report, on: Console) -> None:
    if report.lacking:
        heading("Not in this report", on)
        for titles, reason in report.lacking:
            sentence(f"{titles}: {reason}", on, "* ")
        on.print()


def tables(every: Sequence[Table], zero: TimeZero, on: Console, most: int | None = None) -> None:
    """Print tables, of each the rows that it shows where there is little room, or the first `most` of these."""
    for table in every:
        if table.brief:
            _table(table, zero, on, most)


def _table(table: Table, zero: TimeZero, on: Console, most: int | None) -> None:
    """Print a table, or the first `most` of the rows that it shows where there is little room."""
    columns, figures = _columns(table, zero, on)
    hidden = max(len(table.brief) - most, 0) if most else 0
    columns = [column[: len(column) - hidden] for column in columns]
    for line in terminal.wrapped(table.title, on):  # rich would fold it to the table's width
        on.print(Text(line, style="italic"), soft_wrap=True)
    widths, gap = _widths(columns, figures, on.width)
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for at, (column, width) in enumerate(zip(columns, widths, strict=True)):
        grid.add_column(Text(column[0]), justify="right" if at else "left", overflow="fold", width=width)
    for row in zip(*(column[1:] for column in columns), strict=True):
        grid.add_row(*map(Text, row))
    on.print(grid)
    if table.extract:
        sentence(table.extract, on)
    if hidden:
        sentence(f"… and {quantity(hidden, 'more row')}: --full prints them.", on)
    on.print()


def _columns(table: Table, zero: TimeZero, on: Console) -> tuple[list[list[str]], list[bool]]:
    """The columns with their heads, and which hold figures; of a table that is too wide those without a value go, then
    heads are wrapped and names shortened, those on the right first, but none of a device."""
    units = [column.unit for column in table.columns if column.brief]
    longest = [_LONGEST_NAME] * len(units)
    columns = _cells(table, longest, zero, on)
    wide = _width(columns) > on.width
    there = [not wide or set(column[1:]) != {DASH} for column in columns]
    for least in _LEAST_NAMES:
        for at in reversed(range(len(units))):
            over = _width(list(compress(columns, there)), wrapped=True) - on.width
            if over > 0 and there[at] and units[at] == Unit.NAME:
                longest[at] = min(max(max(map(cell_len, columns[at])) - over, least), longest[at])
                columns = _cells(table, longest, zero, on)
    return list(compress(columns, there)), [unit not in WORDS for unit in compress(units, there)]


def _cells(table: Table, longest: Sequence[int], zero: TimeZero, on: Console) -> list[list[str]]:
    """The columns with their heads, their names in at most so many characters each."""
    lines = brief_text(table, longest, zero.since)
    return [[terminal.printable(cell, on) for cell in column] for column in zip(*lines, strict=True)]


def _width(columns: Sequence[Sequence[str]], wrapped: bool = False) -> int:
    """How wide a table is, its heads on one line or wrapped."""
    widths = [_wrapped_head(column) if wrapped else max(map(cell_len, column)) for column in columns]
    return sum(widths) + _GAP * (len(widths) - 1)


def _wrapped_head(column: Sequence[str]) -> int:
    """The width of a column whose head has a word a line."""
    return max(map(cell_len, [*column[0].split(), *column[1:]]), default=0)


def _widths(columns: Sequence[Sequence[str]], figures: Sequence[bool], width: int) -> tuple[list[int], int]:
    """How wide each column is, and how far apart they stand: heads give way first, then the widest columns, their words
    and figures last.

    rich would take from all of them alike, and so cut numbers in two beside a column with room.
    """
    widths = [max(map(cell_len, column)) for column in columns]
    least = [
        max(map(cell_len, parts))
        for column, figure in zip(columns, figures, strict=True)
        for parts in [[part for at, cell in enumerate(column) for part in _whole(cell, figure and at > 0)]]
    ]
    least[0] = min(least[0], _LEAST_NAME)
    gap = _GAP if sum(least) + _GAP * (len(least) - 1) <= width else 1
    for floor in ([*map(_wrapped_head, columns)], least, [1] * len(least)):
        while sum(widths) + gap * (len(widths) - 1) > width:
            spare = [have - keep for have, keep in zip(widths, floor, strict=True)]
            if max(spare) <= 0:
                break
            widest = max(range(len(widths)), key=lambda at: (spare[at] > 0, widths[at]))
            widths[widest] -= 1
    return widths, gap


def _whole(cell: str, figure: bool) -> list[str]:
    """The parts of a cell that stay on one line: a figure with its unit, the words of anything else; no long name."""
    parts = [cell] if figure else cell.split()
    return ["", *(part for part in parts if cell_len(part) <= _LONGEST_WORD)]
