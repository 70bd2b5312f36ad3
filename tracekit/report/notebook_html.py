"""A report in a notebook: the verdicts and what matters most, the tables, and the sections folded below them."""

from tracekit import notebook
from tracekit.report import cells
from tracekit.report.model import Report
from tracekit.report.section import WORDS, Section, Table
from tracekit.report.sections.overview import classification, compared, overview
from tracekit.report.sections.sections import Highlight, highlights


def html(report: Report) -> str:
    """The report as one output of a notebook, without a figure: a notebook asks for this of itself, so it is quick."""
    tables = [table for section in overview(report) for table in section.tables if table.brief]
    first = highlights(report.sections)
    known = classification(report)
    there = [section for section in [*report.sections, *([known] if known else [])] if not section.lacking]
    lacking = [f"{section.title}: {section.lacking}" for section in report.sections if section.lacking]
    return notebook.block(
        notebook.heading("Report", report.headline),
        notebook.listed([f"{name}: {verdict}" for name, verdict in report.verdicts.items()]),
        notebook.heading("What matters most") if first else "",
        notebook.listed([line.text for line in first], numbered=True),
        *map(_table, tables[:2]),
        *(notebook.folded(table.title, _table(table, titled=False)) for table in tables[2:]),
        notebook.sentence(compared(report)),
        *map(_section, there),
        notebook.folded("Not in this report", notebook.listed(lacking)) if lacking else "",
        notebook.noted(report.notes),
    )


def _section(section: Section) -> str:
    findings = [Highlight(section.key, finding.sentence, finding.action).text for finding in section.findings]
    tables = "\n".join(_table(table) for table in section.tables if table.brief)
    return notebook.folded(section.title, notebook.listed([*findings, *section.sentences]) + tables)


def _table(table: Table, titled: bool = True) -> str:
    head, *rows = cells.brief(table, notebook.MOST_NAME)
    right = [column.unit not in WORDS for column in table.columns if column.brief]
    return notebook.table(table.title if titled else "", head, rows, right)
