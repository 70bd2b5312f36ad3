"""The tables of a report, for every renderer of text, and the report in Markdown."""

import pandas as pd

from tracekit.columns import records
from tracekit.report.model import Report, Stretch
from tracekit.report.section import Titled
from tracekit.report.sections.sections import important
from tracekit.units import factor, percent, short, time

Rows = list[list[str]]
_MANY_DEVICES = 4

_MAX_GUESSES, _MAX_NAME = 5, 36
_TOLD = {
    "rule": "your rules",
    "opcode": "HLO opcode",
    "stat": "profiler's record",
    "stream": "stream label",
    "name": "name",
    "nothing": "nothing (taken for compute)",
}


def markdown(report: Report, figure: str | None = None) -> str:
    """The report as Markdown; `figure` is the file name of the timeline, where it stands beside it."""
    lines = [f"# {report.headline}", "", f"Trace: `{report.trace.source}`", ""]
    lines += [f"![Timeline]({figure})", ""] if figure else []
    lines += [f"* **{_cell(name)}**: {_cell(said)}" for name, said in report.verdicts.items()] + [""]
    if first := important(report.sections):
        lines += ["## What matters most", "", *(f"{number}. {_cell(line)}" for number, line in enumerate(first, 1)), ""]
    for table in tables(report):
        lines += _markdown_table(table)
    if about := compared(report):
        lines += [_cell(about), ""]
    for section in report.sections:
        if not section.lacking:
            lines += [f"## {section.title}", "", *(f"* {_cell(said)}" for said in section.said), ""]
            for table in section.tables:
                lines += _markdown_table(table, "###")
    if lacking := [section for section in report.sections if section.lacking]:
        lines += ["## Not in this report", "", *(f"* {one.title}: {_cell(one.lacking)}" for one in lacking), ""]
    if told := known_by(report):
        lines += ["## How it is known what ran", "", _cell(told), ""]
    for table in guesses(report):
        lines += _markdown_table(table)
    if report.notes:
        lines += ["## Notes", "", *(f"* {_cell(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _markdown_table(table: Titled, level: str = "##") -> list[str]:
    title, head, rows = table
    lines = [f"{level} {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows] + [""]


def _cell(text: str) -> str:
    """`text` with what Markdown would take for its own made harmless."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def tables(report: Report) -> list[tuple[str, list[str], Rows]]:
    """Title, head and rows of every table that has rows."""
    found = [_phases(report), _devices(report.whole), _overlap(report), _pairs(report)]
    return [_without_phase(table) if not report.inside else table for table in found if table[2]]


def _without_phase(table: tuple[str, list[str], Rows]) -> tuple[str, list[str], Rows]:
    """The table without its phase column, if it has one: a trace without phases has nothing to put there."""
    title, head, rows = table
    return (title, head[1:], [row[1:] for row in rows]) if head[0] == "phase" else table


def _phases(report: Report) -> tuple[str, list[str], Rows]:
    rows = []
    for row in records(report.phases):
        stretch = report.stretch.loc[report.stretch["name"] == row["name"], "stretch"].dropna()
        pairs = report.inside[row["name"]].pairs["ratio_min"].dropna()
        rows.append(
            [
                row["name"],
                str(row["n"]),
                time(row["wall_ps"]),
                percent(pairs.max() if len(pairs) else None),
                factor(row["speedup"]),
                percent(row["efficiency"]),
                factor(stretch.max() if len(stretch) else None),
            ]
        )
    return "Phases", ["phase", "n", "wall", "overlap", "speedup", "efficiency", "stretch"], rows


def _devices(whole: Stretch) -> tuple[str, list[str], Rows]:
    """The partition, the cells with two or three kinds in one column."""
    rows = []
    for row in records(whole.partition):
        window = row["window_ps"]
        shared = sum(row[cell] for cell in row if "+" in str(cell))
        parts = [row["compute"], row["collective"], row["memory"], shared, row["idle"]]
        rows.append(
            [row["device"], time(row["busy_ps"]), *(percent(part / window if window else None) for part in parts)]
        )
    head = ["device", "busy", "only compute", "only coll.", "only memory", "together", "idle"]
    windows = [time(window) for window in sorted(set(whole.partition["window_ps"]))]
    went = (
        f"window of {windows[0]}"
        if len(windows) == 1
        else f"windows of {windows[0]} to {windows[-1]}"
        if windows
        else ""
    )
    return f"Where the {went} went", head, rows


def _stretches(report: Report) -> list[Stretch]:
    return list(report.inside.values()) or [report.whole]


def _overlap(report: Report) -> tuple[str, list[str], Rows]:
    """Collectives, memory and copy directions; a direction that is all of a device's memory time shares its row.

    With many devices the directions are left out, so that the table stays readable.
    """
    rows: Rows = []
    for stretch in _stretches(report):
        many = stretch.overlap["device"].nunique() > _MANY_DEVICES
        for device, found in stretch.overlap[stretch.overlap["total_ps"] > 0].groupby("device", sort=False):
            memory = found.loc[found["what"] == "memory", "total_ps"].max()
            for row in records(found):
                label = row["what"]
                if label not in ("memory", "collective"):
                    if row["total_ps"] == memory:
                        rows[-1][2] = f"memory ({label})"
                        continue
                    if many:
                        continue
                    label = f"  {label}"
                cells = [time(row["hidden_ps"]), time(row["total_ps"]), percent(row["ratio"])]
                behind = "compute" if row["behind"] == "compute" else "any compute"
                rows.append([stretch.name, str(device), label, behind, *cells])
    return "Hidden behind compute", ["phase", "device", "what", "behind", "hidden", "of", "ratio"], rows


def _pairs(report: Report) -> tuple[str, list[str], Rows]:
    """Each pair of devices that both worked; with many devices only the extremes, so that the table stays readable."""
    rows = []
    for stretch in _stretches(report):
        pairs = stretch.pairs[stretch.pairs["ratio_min"].notna()]
        if len(pairs) > 6:
            ordered = pairs.sort_values("ratio_min", kind="stable")
            pairs = pd.concat([ordered.iloc[:1], ordered.iloc[-1:]])
        for row in records(pairs):
            rows.append(
                [
                    stretch.name,
                    f"{row['a']} & {row['b']}",
                    time(row["overlap_ps"]),
                    percent(row["ratio_min"]),
                    percent(row["ratio_union"]),
                ]
            )
    return "Devices busy at the same time", ["phase", "devices", "together", "of the shorter", "of either"], rows


def compared(report: Report) -> str:
    """What the sections are about, where that is not the whole trace."""
    if not report.compared:
        return ""
    return f"From here on, only what ran inside the compared phases counts: {', '.join(report.compared)}."


def known_by(report: Report) -> str:
    """What told the kind of the work, by share of the busy time; empty if there is none."""
    told = [f"{_TOLD[row['level']]} {percent(row['ratio'])}" for row in records(report.known_by) if row["busy_ps"]]
    if not told:
        return ""
    said = f"What told compute, collectives and copies apart, by busy time: {', '.join(told)}."
    return f"{said} A wrong guess is corrected with --kinds." if len(report.guessed) else said


def guesses(report: Report) -> list[Titled]:
    """The table of the largest names whose kind was only guessed; none if there are none."""
    rows = []
    for row in records(report.guessed.head(_MAX_GUESSES)):
        name = short(row["name"], _MAX_NAME)
        rows.append([name, row["kind"], row["level"], time(row["device_time_ps"]), percent(row["ratio"])])
    title = "Largest names whose kind is a guess"
    return [(title, ["name", "taken for", "told by", "time", "of busy"], rows)] if rows else []
