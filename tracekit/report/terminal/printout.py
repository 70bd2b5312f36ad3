"""The report on a terminal: what a person reads first on a screen or two, or with `full` all of it."""

from collections.abc import Sequence
from itertools import compress

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tracekit import console as terminal
from tracekit.report.model import Report
from tracekit.report.section import WORDS, Section, Table, Unit, brief_text
from tracekit.report.sections.sections import highlights, in_one_line
from tracekit.report.terminal import timeline_text
from tracekit.timeline.timeline import Timeline
from tracekit.units import DASH, quantity

MAX_VERDICTS, MAX_ROWS = 10, 16
# The section whose first table stands on the first screen, and how many rows of it.
_TOP, MAX_TOP = "top_ops", 5
_GAP, _LONGEST_WORD, _LEAST_NAME = 2, 14, 8
# Characters of the longest names, and to how many they are shortened, first and at last, where a table is too wide.
_LONGEST_NAME, _LEAST_NAMES = 60, (16, 8)


def show(report: Report, on: Console, full: bool = False, timeline: Timeline | None = None) -> None:
    """Print the verdicts first and what matters most, the timeline and the tables, then each section, then the notes.

    Without `full`: of a section only its first sentence, unless it is among what matters most, and the first rows of
    the top operations; of verdicts and tables as much as a person reads, those of compared phases first.
    """
    if report.part:
        _sentence(f"Only {report.part}:", on)
        on.print()
    if (missing := report.missing) and missing.sentences:
        if full:
            _section(missing, on)
        else:
            _heading(missing.title, on)
            for sentence in missing.sentences:
                _sentence(sentence, on, "* ")
            on.print()
    _verdicts(report, on, full)
    on.print()
    first = highlights(report.sections)
    if first:
        _heading("What matters most", on)
        if report.scope:
            _sentence(f"Here, {report.scope}", on)
        for number, line in enumerate(first, 1):
            _sentence(in_one_line(line), on, f"{number}. ")
        on.print()
    if timeline is not None and (lines := timeline_text.timeline(report, timeline, on)):
        for line_of_timeline in lines:
            on.print(line_of_timeline, soft_wrap=True)
        on.print()
    for section in report.overview:
        _tables(section.tables, on, None if full else MAX_ROWS)
    if report.scope:
        _sentence(f"From here on, {report.scope}", on)
        on.print()
    there = report.evidence
    top = [] if full else [section for section in there if section.key == _TOP]
    if full:
        for section in there:
            _section(section, on)
    else:
        for section in top:
            _tables(section.tables[:1], on, MAX_TOP)
            _sentence(section.sentences[0], on)
            on.print()
        _briefly(there, {line.key for line in first} | {_TOP}, on)
    _lacking(report, on, full)
    for note in report.notes:
        _sentence(f"Note: {note}", on)
    more = 0 if full else sum(bool(table.brief) for section in there for table in section.tables) - len(top)
    if more:
        _sentence(f"--full prints {quantity(more, 'more table')}; report.md has all of them.", on)
    elif full and any(len(table.brief) < len(table.rows) for section in there for table in section.tables):
        _sentence("Tables are cut to a few rows; report.html has more of them.", on)


def _verdicts(report: Report, on: Console, full: bool) -> None:
    names = sorted(report.verdicts, key=lambda name: name not in report.compared)
    first = set(names if full else names[:MAX_VERDICTS])
    if report.verdict is not None:
        _sentence(f"{report.whole.label}: {report.verdict}", on)
    for name, verdict in report.verdicts.items():
        if name in first:
            _sentence(f"{name}: {verdict}", on)
    if len(names) > len(first):
        _sentence(f"… and {quantity(len(names) - len(first), 'more verdict')}: --full prints them.", on)


def _heading(title: str, on: Console) -> None:
    on.print(Text(terminal.printable(title, on), style="bold"))


def _sentence(sentence: str, on: Console, mark: str = "") -> None:
    for line in terminal.wrapped(sentence, on, mark):
        on.print(Text(line), soft_wrap=True)


def _section(section: Section, on: Console) -> None:
    _heading(section.title, on)
    lines = [*map(in_one_line, section.findings), *section.sentences]
    for line in lines:
        _sentence(line, on, "* " if len(lines) > 1 else "")
    on.print()
    _tables(section.tables, on)


def _briefly(there: Sequence[Section], first: set[str], on: Console) -> None:
    """The first sentence of each section, but of those in `first`, which are among what matters most."""
    sections = [section for section in there if section.sentences and section.key not in first]
    if sections:
        _heading("Also", on)
        for section in sections:
            _sentence(f"{section.title}: {section.sentences[0]}", on, "* ")
        on.print()


def _lacking(report: Report, on: Console, full: bool) -> None:
    if report.lacking and full:
        _heading("Not in this report", on)
        for titles, reason in report.lacking:
            _sentence(f"{titles}: {reason}", on, "* ")
        on.print()
    elif report.lacking:
        titles = ", ".join(titles for titles, _ in report.lacking)
        _sentence(f"Not in this report (--full says why): {titles}.", on)
        on.print()


def _tables(tables: Sequence[Table], on: Console, most: int | None = None) -> None:
    for table in tables:
        if table.brief:
            _table(table, on, most)


def _table(table: Table, on: Console, most: int | None) -> None:
    """Print a table, or the first `most` of the rows that it shows where there is little room."""
    columns, figures = _columns(table, on)
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
        _sentence(table.extract, on)
    if hidden:
        _sentence(f"… and {quantity(hidden, 'more row')}: --full prints them.", on)
    on.print()


def _columns(table: Table, on: Console) -> tuple[list[list[str]], list[bool]]:
    """The columns with their heads, and which hold figures; of a table that is too wide those without a value go, then
    heads are wrapped and names shortened, those on the right first, but none of a device."""
    units = [column.unit for column in table.columns if column.brief]
    longest = [_LONGEST_NAME] * len(units)
    columns = _cells(table, longest, on)
    wide = _width(columns) > on.width
    there = [not wide or set(column[1:]) != {DASH} for column in columns]
    for least in _LEAST_NAMES:
        for at in reversed(range(len(units))):
            over = _width(list(compress(columns, there)), wrapped=True) - on.width
            if over > 0 and there[at] and units[at] == Unit.NAME:
                longest[at] = min(max(max(map(cell_len, columns[at])) - over, least), longest[at])
                columns = _cells(table, longest, on)
    return list(compress(columns, there)), [unit not in WORDS for unit in compress(units, there)]


def _cells(table: Table, longest: Sequence[int], on: Console) -> list[list[str]]:
    """The columns with their heads, their names in at most so many characters each."""
    lines = brief_text(table, longest)
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
