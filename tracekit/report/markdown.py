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
        lines += [f"* **{figure.text}** {figure.label} {escaped(figure.of)}" for figure in report.key_figures] + [""]
    rest = (report.verdict or "").removeprefix(report.finding).strip()
    lines += [escaped(rest), ""] if rest else []
    lines += [f"* **{escaped(name)}**: {escaped(verdict)}" for name, verdict in report.phase_verdicts]
    lines += [""] if report.verdicts else []
    lines += [f"![{escaped(report.timeline_title())}]({figure})", ""] if figure else []
    if first := highlights(report.sections):
        numbered = [f"{number}. {_advice(line.sentence, line.action)}" for number, line in enumerate(first, 1)]
        scope = [f"Here, {escaped(report.scope)}", ""] if report.scope else []
        lines += ["## What matters most", "", *scope, *numbered, ""]
    for section in report.overview:
        if section.key == "fleet":
            lines += _section(section, zero)
            continue
        lines += [line for table in section.tables for line in table_lines(table, "##", zero)]
    if report.scope:
        lines += [f"From here on, {escaped(report.scope)}", ""]
    for section in report.evidence:
        lines += _section(section, zero)
    lines += ["Tables are cut to a few rows; report.html has more of them.", ""]
    if report.lacking:
        reasons = [f"* {titles}: {escaped(reason)}" for titles, reason in report.lacking]
        lines += ["## Not in this report", "", *reasons, ""]
    if report.notes:
        lines += ["## Notes", "", *(f"* {escaped(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _section(section: Section, zero: TimeZero) -> list[str]:
    findings = [f"* {_advice(finding.sentence, finding.action)}" for finding in section.findings]
    sentences = [f"* {escaped(sentence)}" for sentence in section.sentences]
    tables = [line for table in section.tables for line in table_lines(table, "###", zero)]
    return [f"## {section.title}", "", *findings, *sentences, "", *tables]


def _advice(sentence: str, action: str) -> str:
    return f"{escaped(sentence)} **Try:** {escaped(action)}" if action else escaped(sentence)


def table_lines(table: Table, level: str, zero: TimeZero) -> list[str]:
    """A table under a title of a `level` such as "##"; nothing where it has no brief rows."""
    if not table.brief:
        return []
    head, *rows = brief_text(table, _NAME, zero.since)
    lines = [f"{level} {table.title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return [*lines, "", *([escaped(table.extract), ""] if table.extract else [])]


def escaped(text: str) -> str:
    """`text` with what Markdown would take for its own made harmless."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
