"""The phases as the page shows them: what each took, and what running together cost each device."""

from tracekit.columns import records
from tracekit.report.html.markup import Markup, factor, join, name, none, number, picoseconds, share
from tracekit.report.html.tables import table
from tracekit.report.html.timeline_links import Jumps
from tracekit.report.model import Report

# So many rounds of a phase have a link.
_LINKS = 4


def phases(report: Report, to: Jumps) -> Markup:
    """The phases, and how far each device was stretched in those that are compared."""
    rows = [
        [
            name(row["name"]),
            number(row["n"]),
            picoseconds(row["wall_ps"]),
            _larger(report, row["name"]),
            factor(row["speedup"], row["reason"]),
            share(row["efficiency"], "only a phase with a baseline has an efficiency"),
            _stretched(report, row["name"]),
            picoseconds(row["unfinished_ps"]),
            name(row["compared_with"]),
            _rounds(report, row["name"], to),
        ]
        for row in records(report.phases)
    ]
    head = [
        *("phase", "n", "wall", "overlap", "speedup", "efficiency", "stretch", "unfinished", "compared with"),
        "rounds, from",
    ]
    about = "Wall is the median over n rounds. Overlap and stretch are the largest over the devices."
    parts = [table("What each phase took", head, rows, shown=24, about=about)]
    if report.compared:
        stretches = [
            [
                name(row["name"]),
                name(row["device"]),
                row["kind"],
                picoseconds(row["busy_ps"]),
                picoseconds(row["alone_ps"], row["reason"]),
                factor(row["stretch"], row["reason"]),
            ]
            for row in records(report.stretch[report.stretch["name"].isin(report.compared)])
        ]
        head = ["phase", "device", "kind", "busy here", "busy alone", "stretch"]
        about = "1.00x means unhindered: it took as long as alone. Each round, in the median."
        parts.append(table("Stretch: what running together cost each device", head, stretches, about=about))
    return join(parts)


def _larger(report: Report, phase: str) -> Markup:
    ratios = report.inside[phase].pairs["ratio_min"].dropna()
    return share(ratios.max()) if len(ratios) else none("no two devices worked in it")


def _stretched(report: Report, phase: str) -> Markup:
    found = report.stretch.loc[report.stretch["name"] == phase, "stretch"].dropna()
    return factor(found.max()) if len(found) else none("it is not compared with phases of the same work")


def _rounds(report: Report, phase: str, to: Jumps) -> Markup:
    """Links to the first rounds of a phase."""
    mine = report.marks[report.marks["name"] == phase]
    links = [
        to.at(one["start_ps"], one["end_ps"], f"round {at} of {phase}", clock=one["clock"])
        for at, one in enumerate(records(mine.head(_LINKS)), 1)
    ]
    more = len(mine) - len(links)
    parts = [*links, f"and {more:,} more"] if more > 0 else links
    return join([join([", ", part]) if at else part for at, part in enumerate(parts)])
