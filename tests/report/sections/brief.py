"""The tables of a section as they read where there is little room."""

import io

from tracekit import console as terminal
from tracekit.report.section import Section, brief_text
from tracekit.report.terminal import printout
from tracekit.report.time_zero import TimeZero

# The times of small frames count from 0 already.
ZERO = TimeZero({"": 0}, {})


def brief(section: Section) -> dict[str, tuple[str, list[str], list[list[str]]]]:
    """Title, head and rows of each table that such a face shows, by key."""
    tables = {}
    for table in section.tables:
        if table.brief:
            head, *rows = brief_text(table, 60, ZERO.since)
            tables[table.key] = (table.title, head, rows)
    return tables


def lines_of(section: Section, width: int = 80) -> list[str]:
    """The lines of a section on a terminal of that width."""
    file = io.StringIO()
    printout._section(section, ZERO, terminal.console(file, width=width))
    return file.getvalue().splitlines()
