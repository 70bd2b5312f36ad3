"""The steps drawn: the walls of all side by side, and what a typical one is made of on each device."""

from typing import Any

import pandas as pd

from tracekit.analysis.steps import PARTS
from tracekit.columns import records
from tracekit.report.html.bars import Segment, bar, bars, legend
from tracekit.report.html.markup import Markup, join, tag
from tracekit.report.html.timeline_links import TimelineLinks
from tracekit.report.model import Report
from tracekit.report.section import instant
from tracekit.units import time

# A part of a step as a bar draws it: look and name.
_PARTS = {
    "compute": ("compute", "compute"),
    "collective": ("collective", "exposed collective"),
    "memory": ("memory", "exposed copy"),
    "idle": ("idle", "idle"),
}
assert set(_PARTS) == set(PARTS)
# So many steps are drawn; fewer than so many are not. Up to so many bars have their figures written below them.
_MOST, _FEWEST, _WRITTEN = 200, 5, 8
# How the column of a step looks, and why.
_LOOKS = {"counts": "counts", "outlier": "outlier", "left-out": "left out", "left-out cut": "left out, cut off"}


def typical(report: Report) -> Markup:
    """What the steps that count and are no outlier are made of, a bar for each device; nothing without their time."""
    found = report.explanation.steps
    several = found.summary["name"].nunique() > 1
    drawn = [
        bar(
            f"{row['device']} ({row['name']})" if several else row["device"],
            [Segment(look, label, int(row[f"{part}_ps"])) for part, (look, label) in _PARTS.items()],
            int(row["wall_ps"]),
            written=len(found.typical) <= _WRITTEN,
        )
        for row in records(found.typical)
        if row["wall_ps"]
    ]
    if not drawn:
        return Markup("")
    ran = [_PARTS[part] for part in _PARTS if found.typical[f"{part}_ps"].any()]
    key = legend([Segment(look, label, 0) for look, label in ran], "What the colours mean")
    title = "Time of a typical step"
    return join([tag("h3", title), key, bars(drawn, f"{title}, by device")])


def walls(report: Report, links: TimelineLinks) -> Markup:
    """The walls of the first _MOST steps side by side, in order; the table below has them for the keyboard.

    A step that does not count and is longer than all that do is cut off at their longest, and looks so.
    """
    steps = report.explanation.steps.table
    counted = steps[steps["left_out"].isna()]
    most = int(counted["wall_ps"].max()) if len(counted) else 0
    if len(steps) < _FEWEST or not most:
        return Markup("")
    columns, looks = [], []
    for row in records(steps.head(_MOST)):
        look = "outlier" if row["outlier"] else "counts" if pd.isna(row["left_out"]) else "left-out"
        looks.append(f"{look} cut" if row["wall_ps"] > most else look)
        start, end, device = links.place(instant(row, clock=row["clock"]))
        title = f"step {_number(row['step'])}: {time(row['wall_ps'])}"
        style = f"height:{min(100 * row['wall_ps'] / most, 100):.4g}%"
        places = {"data_from": start, "data_to": end, "data_device": device}
        columns.append(tag("i", class_=f"col {looks[-1]}", style=style, title=title, **places))
    first = f", the first {_MOST} of {len(steps):,}" if len(steps) > _MOST else ""
    key = [
        tag("li", tag("i", class_=f"col swatch {look}"), " ", words) for look, words in _LOOKS.items() if look in looks
    ]
    label = f"Wall of each step{first}, from 0 to {time(most)}; the table below has them"
    drawn = tag("div", *columns, class_="columns", role="img", aria_label=label)
    caption = tag("figcaption", f"Wall of each step{first}: the height of the box is {time(most)}")
    legends = tag("ul", *key, class_="legend", aria_label="What the colours mean") if len(key) > 1 else None
    return tag("figure", caption, drawn, legends, class_="walls")


def _number(step: Any) -> str:
    return "-" if pd.isna(step) else str(int(step))
