"""The report as text: tables for a terminal of 80 columns, and the same in Markdown."""

import pandas as pd
from rich.console import Console
from rich.table import Table

from tracekit.report.build import Report, Stretch
from tracekit.report.units import factor, percent, time
from tracekit.trace import records

Rows = list[list[str]]


def show(report: Report, console: Console) -> None:
    """Print the verdicts first, then the tables, then the notes."""
    for name, said in report.verdicts.items():
        console.print(f"{name}: {said}", markup=False, highlight=False)
    console.print()
    for title, head, rows in tables(report):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for at, column in enumerate(head):
            table.add_column(column, justify="left" if at == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table, markup=False)
        console.print()
    for note in report.notes:
        console.print(f"Note: {note}", markup=False, highlight=False)


def markdown(report: Report, figure: str) -> str:
    """The report as Markdown; `figure` is the file name of the timeline, which stands beside it."""
    lines = [f"# {report.headline}", "", f"Trace: `{report.trace.source}`", "", f"![Timeline]({figure})", ""]
    lines += [f"* **{_cell(name)}**: {_cell(said)}" for name, said in report.verdicts.items()] + [""]
    for title, head, rows in tables(report):
        lines += [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows] + [""]
    if report.notes:
        lines += ["## Notes", "", *(f"* {_cell(note)}" for note in report.notes), ""]
    return "\n".join(lines)


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
    """Collectives, memory and copy directions; a direction that is all of a device's memory time shares its row."""
    rows: Rows = []
    for stretch in _stretches(report):
        for device, found in stretch.overlap[stretch.overlap["total_ps"] > 0].groupby("device", sort=False):
            memory = found.loc[found["what"] == "memory", "total_ps"].max()
            for row in records(found):
                label = row["what"]
                if label not in ("memory", "collective"):
                    if row["total_ps"] == memory:
                        rows[-1][2] = f"memory ({label})"
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
