"""The steps as the page shows them: how long they took, what a typical one is made of, and each of them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tracekit.analysis.steps.steps import PARTS
from tracekit.columns import records
from tracekit.report.html.bars import Segment, bar, bars, legend
from tracekit.report.html.markup import Markup, factor, join, name, number, picoseconds, share, tag
from tracekit.report.html.tables import table
from tracekit.report.html.timeline_links import Jumps
from tracekit.report.model import Report
from tracekit.units import time

# A part of a step as a bar draws it: look and name.
_PARTS = {
    "compute": ("compute", "compute"),
    "collective": ("collective", "exposed collective"),
    "memory": ("memory", "exposed copy"),
    "idle": ("idle", "idle"),
}
assert set(_PARTS) == set(PARTS)
# So many steps are shown; of fewer than so many no columns are drawn.
_MOST, _FEWEST = 200, 5
# How the column of a step looks, and why.
_LOOKS = {"counts": "counts", "outlier": "outlier", "left-out": "left out", "left-out cut": "left out, cut off"}


def steps(report: Report, to: Jumps) -> Markup:
    """The steps in figures, what a typical one is made of on each device, and each step."""
    found = report.explanation.steps
    several = found.summary["name"].nunique() > 1
    sums = [
        [
            name(one["name"]),
            number(one["steps"]),
            number(one["counted"]),
            *(picoseconds(one[f"{what}_ps"]) for what in ("median", "mean", "min", "p90", "max")),
            share(one["spread"], "fewer than five steps count"),
        ]
        for one in records(found.summary)
    ]
    head = ["steps of", "n", "counted", "median", "mean", "shortest", "90 %", "longest", "spread"]
    typical = [
        bar(
            f"{one['device']} ({one['name']})" if several else one["device"],
            [Segment(look, label, int(one[f"{part}_ps"])) for part, (look, label) in _PARTS.items()],
            int(one["wall_ps"]),
            told=len(found.typical) <= 8,
        )
        for one in records(found.typical)
        if one["wall_ps"]
    ]
    ran = [_PARTS[part] for part in _PARTS if found.typical[f"{part}_ps"].any()]
    key = legend([Segment(look, label, 0) for look, label in ran], "What the colours mean")
    parts = [table("How long steps took", head, sums), _walls(report, to)]
    if typical:
        parts += [tag("h3", "What a step is made of"), key, bars(typical, "What a step is made of, by device")]
    return join([*parts, _each_step(report, to, several)])


def _walls(report: Report, to: Jumps) -> Markup | None:
    """The walls of the first _MOST steps side by side, in order; the table below has them for the keyboard.

    A step that does not count and is longer than all that do is cut off at their longest, and looks so.
    """
    found = report.explanation.steps.table
    counted = found[found["left_out"].isna()]
    most = int(counted["wall_ps"].max()) if len(counted) else 0
    if len(found) < _FEWEST or not most:
        return None
    columns, looks = [], []
    for one in records(found.head(_MOST)):
        look = "outlier" if one["outlier"] else "counts" if pd.isna(one["left_out"]) else "left-out"
        looks.append(f"{look} cut" if one["wall_ps"] > most else look)
        start, end, device = to.place(one["start_ps"], one["end_ps"], clock=one["clock"])
        told = f"step {_whole(one['step'])}: {time(one['wall_ps'])}"
        style = f"height:{min(100 * one['wall_ps'] / most, 100):.4g}%"
        places = {"data_from": start, "data_to": end, "data_device": device}
        columns.append(tag("i", class_=f"col {looks[-1]}", style=style, title=told, **places))
    first = f", the first {_MOST} of {len(found):,}" if len(found) > _MOST else ""
    key = [
        tag("li", tag("i", class_=f"col swatch {look}"), " ", told) for look, told in _LOOKS.items() if look in looks
    ]
    label = f"Wall of each step{first}, from 0 to {time(most)}; the table below has them"
    drawn = tag("div", *columns, class_="columns", role="img", aria_label=label)
    caption = tag("figcaption", f"Wall of each step{first}: the height of the box is {time(most)}")
    legends = tag("ul", *key, class_="legend", aria_label="What the colours mean") if len(key) > 1 else None
    return tag("figure", caption, drawn, legends, class_="walls")


def _each_step(report: Report, to: Jumps, several: bool) -> Markup:
    """Steps that stand out first, then the others in order, up to _MOST in all."""
    found = report.explanation.steps
    odd = found.table["outlier"] | (found.table["did_nothing"] > 0) | found.table["left_out"].notna()
    ordered = found.table.assign(odd=odd).sort_values("odd", ascending=False, kind="stable")
    middle = {(one["clock"], one["name"]): one["median_ps"] for one in records(found.summary)}
    rows = []
    for one in records(ordered.head(_MOST)):
        label = f"{one['name']} {_whole(one['step'])}" if several else _whole(one["step"])
        median = middle.get((one["clock"], one["name"]))
        rows.append(
            [
                name(f"{label} ({one['clock']})" if one["clock"] else label),
                to.at(one["start_ps"], one["end_ps"], f"step {label}", clock=one["clock"]),
                picoseconds(one["wall_ps"]),
                factor(one["wall_ps"] / median if median else None),
                number(one["rows"]),
                _remarks(one),
            ]
        )
    shown = max(6, min(int(odd.sum()), 20))
    title = "Each step, those unlike the others first"
    title += f" ({_MOST} of {len(found.table):,}: all are in summary.json)" if len(found.table) > _MOST else ""
    return table(title, ["step", "from", "wall", "of the median", "rows", "remarks"], rows, shown)


def _whole(step: Any) -> str:
    return "-" if pd.isna(step) else str(int(step))


def _remarks(step: Mapping[str, Any]) -> Markup:
    why = {"cut": "cut by the profile's edge", "compiles": "compiles", "warm-up": "warm-up"}
    grew = None
    if pd.notna(step["slow_part"]):
        grew = join([name(step["slow_device"]), f": {step['slow_part']} ", picoseconds(step["slow_ps"]), " longer"])
    said: list[object] = [
        None if pd.isna(step["left_out"]) else f"left out: {why.get(step['left_out'], step['left_out'])}",
        "outlier" if step["outlier"] else None,
        grew,
        f"{step['did_nothing']} devices did nothing" if step["did_nothing"] else None,
    ]
    there = [one for one in said if one is not None]
    return join([one if not at else join(["; ", one]) for at, one in enumerate(there)])
