"""The report on a terminal: what a person reads first on a screen or two, or with `full` all of it."""

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracekit import console as terminal
from tracekit.report import text
from tracekit.report.model import Report
from tracekit.report.section import Section, Titled
from tracekit.report.sections.sections import important
from tracekit.report.terminal import timeline_text
from tracekit.timeline.timeline import Timeline

MAX_VERDICTS, MAX_ROWS = 10, 16
_GAP, _LONGEST_WORD, _LEAST_NAME = 2, 14, 8


def show(report: Report, on: Console, full: bool = False, timeline: Timeline | None = None) -> None:
    """Print the verdicts first and what matters most, the timeline and the tables, then each section, then the notes.

    Without `full`: of a section only its first sentence, unless that has been told among what matters most; of verdicts
    and tables as much as a person reads, those of compared phases first.
    """
    _verdicts(report, on, full)
    on.print()
    first = important(report.sections)
    if first:
        _heading("What matters most", on)
        for number, line in enumerate(first, 1):
            _sentence(line, on, f"{number}. ")
        on.print()
    if timeline is not None and (lines := timeline_text.timeline(report, timeline, on)):
        for drawn_line in lines:
            on.print(drawn_line, soft_wrap=True)
        on.print()
    for table in text.tables(report):
        _table(table, on, None if full else MAX_ROWS)
    if about := text.compared(report):
        _sentence(about, on)
        on.print()
    there = [section for section in report.sections if not section.lacking]
    if full:
        for section in there:
            _section(section, on)
    else:
        _briefly(there, first, on)
    _lacking(report, on, full)
    if told := text.known_by(report):
        _sentence(told, on)
        on.print()
    if full:
        for table in text.guesses(report):
            _table(table, on)
    for note in report.notes:
        _sentence(f"Note: {note}", on)
    more = 0 if full else sum(len(section.tables) for section in there) + len(text.guesses(report))
    if more:
        _sentence(f"--full prints {more} more {'table' if more == 1 else 'tables'}; report.md has all of them.", on)


def _verdicts(report: Report, on: Console, full: bool) -> None:
    names = sorted(report.verdicts, key=lambda name: name not in report.compared)
    kept = set(names if full else names[:MAX_VERDICTS])
    for name, said in report.verdicts.items():
        if name in kept:
            _sentence(f"{name}: {said}", on)
    if len(names) > len(kept):
        _sentence(f"… and {len(names) - len(kept)} more verdicts: --full prints them.", on)


def _heading(said: str, on: Console) -> None:
    on.print(Text(terminal.shown(said, on), style="bold"))


def _sentence(said: str, on: Console, mark: str = "") -> None:
    for line in terminal.wrapped(said, on, mark):
        on.print(Text(line), soft_wrap=True)


def _section(section: Section, on: Console) -> None:
    _heading(section.title, on)
    for said in section.said:
        _sentence(said, on, "* " if len(section.said) > 1 else "")
    on.print()
    for table in section.tables:
        _table(table, on)


def _briefly(there: list[Section], told: list[str], on: Console) -> None:
    """One sentence of each section that has one that is not `told` yet."""
    lines = [f"{section.title}: {section.said[0]}" for section in there if section.said]
    lines = [line for line in lines if not any(line.partition(": ")[2] in said for said in told)]
    if lines:
        _heading("Also", on)
        for line in lines:
            _sentence(line, on, "* ")
        on.print()


def _lacking(report: Report, on: Console, full: bool) -> None:
    lacking = [section for section in report.sections if section.lacking]
    if lacking and full:
        _heading("Not in this report", on)
        for section in lacking:
            _sentence(f"{section.title}: {section.lacking}", on, "* ")
        on.print()
    elif lacking:
        titles = ", ".join(section.title for section in lacking)
        _sentence(f"Not in this report, for want of evidence: {titles}.", on)
        on.print()


def _table(table: Titled, on: Console, most: int | None = None) -> None:
    """Print a table, or the first `most` of its rows and how many there are more."""
    title, head, rows = table
    left = 0 if most is None or len(rows) <= most else len(rows) - most
    rows = rows[: len(rows) - left]
    for line in terminal.wrapped(title, on):  # rich would fold it to the table's width
        on.print(Text(line, style="italic"), soft_wrap=True)
    columns = _telling([[terminal.shown(cell, on) for cell in column] for column in zip(head, *rows, strict=True)], on)
    widths, gap = _widths(columns, on.width)
    shown = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for at, (column, width) in enumerate(zip(columns, widths, strict=True)):
        shown.add_column(Text(column[0]), justify="right" if at else "left", overflow="fold", width=width)
    for row in zip(*(column[1:] for column in columns), strict=True):
        shown.add_row(*map(Text, row))
    on.print(shown)
    if left:
        _sentence(f"… and {left} more rows: --full prints them.", on)
    on.print()


def _telling(columns: list[list[str]], on: Console) -> list[list[str]]:
    """The columns without those that say nothing, where all of them are too wide."""
    if sum(max(map(cell_len, column)) + _GAP for column in columns) - _GAP <= on.width:
        return columns
    return [column for column in columns if set(column[1:]) != {"-"}]


def _widths(columns: list[list[str]], width: int) -> tuple[list[int], int]:
    """How wide each column is, and how far apart they stand: the widest give way first, their words and numbers last.

    rich would take from all of them alike, and so cut numbers in two beside a column with room.
    """
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(part) for cell in column for part in _whole(cell)), default=1) for column in columns]
    least[0] = min(least[0], _LEAST_NAME)
    gap = _GAP if sum(least) + _GAP * (len(least) - 1) <= width else 1
    for floor in (least, [1] * len(least)):
        while sum(widths) + gap * (len(widths) - 1) > width:
            spare = [have - keep for have, keep in zip(widths, floor, strict=True)]
            if not any(one > 0 for one in spare):
                break
            widest = max(range(len(widths)), key=lambda at: (spare[at] > 0, widths[at]))
            widths[widest] -= 1
    return widths, gap


def _whole(cell: str) -> list[str]:
    """The parts of a cell that stay on one line: a number with its unit, the words of anything else; no long name."""
    parts = [cell] if cell[:1].isdigit() or cell[:1] in "<>-" else cell.split()
    return ["", *(part for part in parts if cell_len(part) <= _LONGEST_WORD)]
