"""One page of the same experiment by several frameworks: what each overlapped, and what that cost.

    python docs/frameworks.py JAX=traces/jax PyTorch=traces/torch --out reports/frameworks.html

Each argument is a framework's name and its trace: a capture of a workload and of its twins, whose phases have the same
names. The page has a table for each phase that at least two of them have, with the words of `Report.measure`, and the
phases of each drawn on one scale of time. A measure that a trace cannot tell is a dash, with the reason below; of a
framework without a trace, as where MXNet is not installed, the page says why it is not there. The page
says nothing of which is better: frameworks compute by other programs, whose operations differ in number and size (the
last row of a table), and profilers record more or less of it; whether a difference is one between programs, `tracekit
compare` tells, from several captures of each.
"""

import argparse
import base64
import html
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tracekit
from tracekit import NotMeasurable, Report, TracekitError
from tracekit.report.section import Unit
from tracekit.units import count, short, time

# Name and subject of each measure, and what it is on the page.
MEASURES: tuple[tuple[str, str | None, str], ...] = (
    ("wall", None, "wall time, median round"),
    ("speedup", None, "speedup over its parts one after the other"),
    ("overlap", "devices", "devices busy at the same time, of the shorter busy time"),
    ("overlap", "collective", "collectives hidden behind compute"),
    ("overlap", "copy", "copies hidden behind compute"),
    ("exposed-collective", None, "exposed collectives, of the time"),
    ("exposed-copy", None, "exposed copies, of the time"),
    ("idle", None, "idle, of the time, on the worst device"),
)
SIZES = (
    "Times of one framework compare with each other. Across frameworks they do only where the operations are alike: "
    "the last row of each table names the one with most time, how often it ran in a round, and its mean time."
)
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .9rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child{text-align:left;font-weight:normal}img{width:100%;height:auto}small{color:#555}ol{padding-left:1.5rem}
"""


class Cell(NamedTuple):
    """A measure as it is printed, and why it is a dash."""

    text: str
    reason: str = ""


def cell(report: Report, name: str, of: str | None, phase: str) -> Cell:
    """One measure of a phase."""
    try:
        share = Unit.RATIO if name.startswith("exposed") else None
        return Cell(report.measure(name, of=of, phase=phase, unit=share).text)
    except NotMeasurable as error:
        return Cell("-", str(error))


def largest(report: Report, phase: str) -> str:
    """The operation that took most time in a phase, how often it ran in a round on all devices, and its mean time."""
    operations = report.operations
    own = operations[(operations["scope"] == "phase") & (operations["part"] == phase)]
    if own.empty:
        return "-"
    sums = own.groupby("name")[["n", "time_ps"]].sum()
    name = sums["time_ps"].idxmax()
    n, time_ps = (int(value) for value in sums.loc[name])
    rounds = int(report.phases.table.set_index("name")["n"][phase])
    return f"{short(str(name), 40)}, {count(round(n / rounds))} of {time(time_ps // n)}"


def shared_phases(reports: Mapping[str, Report]) -> list[str]:
    """The phases that at least two of the reports have, in the order of the first that has each."""
    names = [name for report in reports.values() for name in report.phases.windows]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def table(reports: Mapping[str, Report], phase: str) -> str:
    """The table of a phase, a column for each framework that has it, and the reasons of its dashes."""
    having = {name: report for name, report in reports.items() if phase in report.phases.windows}
    reasons: dict[str, int] = {}
    rows = []
    for name, of, words in MEASURES:
        cells = [cell(report, name, of, phase) for report in having.values()]
        if all(each.reason for each in cells):
            continue
        marks = [
            f"<sup>{reasons.setdefault(each.reason, len(reasons) + 1)}</sup>" if each.reason else "" for each in cells
        ]
        values = "".join(f"<td>{html.escape(each.text)}{mark}</td>" for each, mark in zip(cells, marks, strict=True))
        rows.append(f"<tr><th>{html.escape(words)}</th>{values}</tr>")
    values = "".join(f"<td>{html.escape(largest(report, phase))}</td>" for report in having.values())
    rows.append(f"<tr><th>operation with most time, on all devices</th>{values}</tr>")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in having)
    notes = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    verdicts = "".join(
        f"<li><b>{html.escape(name)}</b>: {html.escape(report.verdicts[phase])}</li>"
        for name, report in having.items()
        if phase in report.verdicts
    )
    return (
        f"<h2>{html.escape(phase)}</h2><table><tr><th></th>{heads}</tr>{''.join(rows)}</table><ul>{verdicts}</ul>"
        + (f"<small><ol>{notes}</ol></small>" if notes else "")
    )


def picture(name: str, path: str) -> str:
    """The phases of a trace, drawn."""
    image = io.BytesIO()
    tracekit.figure(path, "phases", title=name).savefig(image, format="png", dpi=110)
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'


def page(reports: Mapping[str, Report], paths: Mapping[str, str], lacking: Mapping[str, str]) -> str:
    """The page, and why the frameworks that are `lacking` are not on it; raises TracekitError where no two traces have
    a phase in common."""
    phases = shared_phases(reports)
    if not phases:
        raise TracekitError("No two of these traces have a phase of the same name: give captures of twins.")
    names = html.escape(", ".join(reports))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>The same by {names}</title>'
        f"<style>{STYLE}</style><h1>The same experiment by {names}</h1>"
        + "".join(f"<p>Without {html.escape(name)}: {html.escape(reason)}</p>" for name, reason in lacking.items())
        + f"<p>{SIZES}</p>"
        + "".join(table(reports, phase) for phase in phases)
        + "".join(picture(name, paths[name]) for name in reports)
        + "</html>\n"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", metavar="NAME=TRACE", help="a framework, and a capture of its twin")
    parser.add_argument("--out", type=Path, default=Path("reports/frameworks.html"), help="[reports/frameworks.html]")
    options = parser.parse_args(words)
    paths = dict(each.partition("=")[::2] for each in options.traces)
    if len(paths) < 2 or not all(paths.values()):
        parser.error("give two or more as NAME=TRACE, such as JAX=traces/jax PyTorch=traces/torch")
    reports: dict[str, Report] = {}
    lacking: dict[str, str] = {}
    for name, path in paths.items():
        try:
            reports[name] = tracekit.analyse(path)
        except TracekitError as error:
            lacking[name] = str(error)
            print(f"frameworks.py: without {name}: {error}", file=sys.stderr)
    if len(reports) < 2:
        return 1
    try:
        text = page(reports, paths, lacking)
    except TracekitError as error:
        print(f"frameworks.py: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, "utf-8")
    print(f"Wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
