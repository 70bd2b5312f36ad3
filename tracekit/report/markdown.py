"""The report as one document in Markdown."""

import re

from tracekit.report.model import Report, time_zero
from tracekit.report.section import Section, Table, brief_text
from tracekit.report.sections.sections import highlights
from tracekit.report.time_zero import TimeZero
from tracekit.units import safe

# Characters of a name in a table.
_NAME = 60

_CODE = re.compile(r"(`[\w .,/:=+-]+`)")
# What is markup wherever it stands; an underscore only at the edge of a word, and the end of what starts an address.
# GitHub looks for the @ of addresses and of users when escapes are resolved: only a tag or a comment parts them. What
# stands between two dollar signs is mathematics to it and to MkDocs: some look for them before escapes are resolved,
# others behind, but none for one that is alone in an element.
_MARKUP = re.compile(
    r"[\\|`*~\[\]<@$]|&(?=[#\w]+;)|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?i:\b(?:https?|ftp|mailto|xmpp):|www\.)"
)
_ENTITIES = {"<": "&lt;", "&": "&amp;", "@": "@<!-- -->", "$": "<span>&#36;</span>"}
# What is markup where a line begins.
_BLOCK = re.compile(r"^(\d*)([#>]|[+-](?=\s)|(?<=\d)[.)](?=\s))")


def markdown(report: Report, figure: str | None = None) -> str:
    """The report as Markdown; `figure` is the file name of the timeline, where it stands beside it."""
    zero = time_zero(report)
    counted = f". {zero.sentence}" if report.windows else ""
    lines = [f"# {escaped(report.headline)}", "", f"Trace: {code(report.trace.source)}{counted}", ""]
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
    """`text` as text: nothing in it is a link, an image, markup, mathematics, hidden, a control or a mark of
    direction.

    What stands between backticks stays code where nothing in it is markup, as tracekit's own commands.
    """
    parts = _CODE.split(safe(text))
    plain = "".join(part if at % 2 else _MARKUP.sub(_as_text, part) for at, part in enumerate(parts))
    return _BLOCK.sub(r"\1\\\2", plain)


def code(text: str) -> str:
    """`text` as code, whatever is in it."""
    text = safe(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def _as_text(match: re.Match[str]) -> str:
    return _ENTITIES.get(match[0]) or match[0][:-1] + "\\" + match[0][-1]
