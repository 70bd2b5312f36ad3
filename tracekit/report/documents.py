"""The report as one document: in Markdown, and as what a notebook shows of it."""

from tracekit import notebook
from tracekit.report.model import Report
from tracekit.report.section import WORDS, Section, Table, brief_text
from tracekit.report.sections.overview import compared, overview, with_evidence
from tracekit.report.sections.sections import highlights, in_one_line

# Characters of a name in a table.
_NAME = 60


def markdown(report: Report, figure: str | None = None) -> str:
    """The report as Markdown; `figure` is the file name of the timeline, where it stands beside it."""
    lines = [f"# {report.headline}", "", f"Trace: `{report.trace.source}`", ""]
    lines += [f"![Timeline]({figure})", ""] if figure else []
    lines += [f"* **{_escaped(name)}**: {_escaped(verdict)}" for name, verdict in report.verdicts.items()] + [""]
    if first := highlights(report.sections):
        numbered = [f"{number}. {_advice(line.sentence, line.action)}" for number, line in enumerate(first, 1)]
        lines += ["## What matters most", "", *numbered, ""]
    for section in overview(report):
        lines += [line for table in section.tables for line in _table(table, "##")]
    if about := compared(report):
        lines += [_escaped(about), ""]
    for section in with_evidence(report):
        lines += _section(section)
    lines += ["Tables are cut to a few rows; report.html has more of them.", ""]
    if lacking := [section for section in report.sections if section.lacking]:
        reasons = [f"* {section.title}: {_escaped(section.lacking)}" for section in lacking]
        lines += ["## Not in this report", "", *reasons, ""]
    if report.notes:
        lines += ["## Notes", "", *(f"* {_escaped(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _section(section: Section) -> list[str]:
    findings = [f"* {_advice(finding.sentence, finding.action)}" for finding in section.findings]
    sentences = [f"* {_escaped(sentence)}" for sentence in section.sentences]
    tables = [line for table in section.tables for line in _table(table, "###")]
    return [f"## {section.title}", "", *findings, *sentences, "", *tables]


def _advice(sentence: str, action: str) -> str:
    return f"{_escaped(sentence)} **Try:** {_escaped(action)}" if action else _escaped(sentence)


def _table(table: Table, level: str) -> list[str]:
    if not table.brief:
        return []
    head, *rows = brief_text(table, _NAME)
    lines = [f"{level} {table.title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]
    return [*lines, ""]


def _escaped(text: str) -> str:
    """`text` with what Markdown would take for its own made harmless."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def notebook_html(report: Report) -> str:
    """The report as one output of a notebook, without a figure: a notebook asks for this of itself, so it is quick."""
    tables = [table for section in overview(report) for table in section.tables if table.brief]
    first = highlights(report.sections)
    lacking = [f"{section.title}: {section.lacking}" for section in report.sections if section.lacking]
    return notebook.block(
        notebook.heading("Report", report.headline),
        notebook.listed([f"{name}: {verdict}" for name, verdict in report.verdicts.items()]),
        notebook.heading("What matters most") if first else "",
        notebook.listed([*map(in_one_line, first)], numbered=True),
        *map(_notebook_table, tables[:2]),
        *(notebook.folded(table.title, _notebook_table(table, titled=False)) for table in tables[2:]),
        notebook.sentence(compared(report)),
        *map(_notebook_section, with_evidence(report)),
        notebook.folded("Not in this report", notebook.listed(lacking)) if lacking else "",
        notebook.noted(report.notes),
    )


def _notebook_section(section: Section) -> str:
    tables = "\n".join(_notebook_table(table) for table in section.tables if table.brief)
    return notebook.folded(
        section.title, notebook.listed([*map(in_one_line, section.findings), *section.sentences]) + tables
    )


def _notebook_table(table: Table, titled: bool = True) -> str:
    head, *rows = brief_text(table, notebook.MOST_NAME)
    right = [column.unit not in WORDS for column in table.columns if column.brief]
    return notebook.table(table.title if titled else "", head, rows, right)
