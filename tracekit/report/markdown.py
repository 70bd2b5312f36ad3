"""The report as one document in Markdown."""

from tracekit.report.model import Report, time_zero
from tracekit.report.section import Section, Table, brief_text
from tracekit.report.sections.sections import highlights
from tracekit.report.time_zero import TimeZero

# Characters of a name in a table.
_NAME = 60


def markdown(report: Report, figure: str | None = None) -> str:
    """The report as Markdown; `figure` is the file name of the timeline, where it stands beside it."""
    zero = time_zero(report)
    counted = f". {zero.sentence}" if report.windows else ""
    lines = [f"# {report.headline}", "", f"Trace: `{report.trace.source}`{counted}", ""]
    if report.missing and report.missing.sentences:
        lines += _section(report.missing, zero)
    if report.key_figures:
        lines += [f"* **{figure.text}** {figure.label} {_escaped(figure.of)}" for figure in report.key_figures] + [""]
    rest = (report.verdict or "").removeprefix(report.finding).strip()
    lines += [_escaped(rest), ""] if rest else []
    lines += [f"* **{_escaped(name)}**: {_escaped(verdict)}" for name, verdict in report.phase_verdicts]
    lines += [""] if report.verdicts else []
    lines += [f"![{_escaped(report.timeline_title())}]({figure})", ""] if figure else []
    if first := highlights(report.sections):
        numbered = [f"{number}. {_advice(line.sentence, line.action)}" for number, line in enumerate(first, 1)]
        scope = [f"Here, {_escaped(report.scope)}", ""] if report.scope else []
        lines += ["## What matters most", "", *scope, *numbered, ""]
    for section in report.overview:
        lines += [line for table in section.tables for line in _table(table, "##", zero)]
    if report.scope:
        lines += [f"From here on, {_escaped(report.scope)}", ""]
    for section in report.evidence:
        lines += _section(section, zero)
    lines += ["Tables are cut to a few rows; report.html has more of them.", ""]
    if report.lacking:
        reasons = [f"* {titles}: {_escaped(reason)}" for titles, reason in report.lacking]
        lines += ["## Not in this report", "", *reasons, ""]
    if report.notes:
        lines += ["## Notes", "", *(f"* {_escaped(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _section(section: Section, zero: TimeZero) -> list[str]:
    findings = [f"* {_advice(finding.sentence, finding.action)}" for finding in section.findings]
    sentences = [f"* {_escaped(sentence)}" for sentence in section.sentences]
    tables = [line for table in section.tables for line in _table(table, "###", zero)]
    return [f"## {section.title}", "", *findings, *sentences, "", *tables]


def _advice(sentence: str, action: str) -> str:
    return f"{_escaped(sentence)} **Try:** {_escaped(action)}" if action else _escaped(sentence)


def _table(table: Table, level: str, zero: TimeZero) -> list[str]:
    if not table.brief:
        return []
    head, *rows = brief_text(table, _NAME, zero.since)
    lines = [f"{level} {table.title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]
    return [*lines, "", *([_escaped(table.extract), ""] if table.extract else [])]


def _escaped(text: str) -> str:
    """`text` with what Markdown would take for its own made harmless."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
