"""The data of the timeline as HTML: a header in JSON, and the rows in compressed columns for the page's scripts."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import records
from tracekit.report import palette
from tracekit.report.html import encode
from tracekit.report.html.lanes import CLASSES, HOST, Lanes, lanes, origins
from tracekit.report.model import Report
from tracekit.timeline.timeline import Timeline
from tracekit.units import short

# What the page must hold beside the payload, in this order.
SCRIPTS = (
    "decode.js",
    "intervals.js",
    "units.js",
    "lanes.js",
    "viewport.js",
    "layout.js",
    "coverage.js",
    "measure.js",
    "search.js",
    "canvas.js",
    "print_picture.js",
    "overlay.js",
    "elements.js",
    "lane_tree.js",
    "details.js",
    "panels.js",
    "range_panel.js",
    "address.js",
    "hits.js",
    "actions.js",
    "pointer.js",
    "keys.js",
    "links.js",
    "start.js",
)
STYLES = ("timeline.css",)

# Bytes of the payload past which it holds less; and how much of a name it then keeps.
LIMIT = 14_000_000
SHORT = 160


def payload(report: Report, timeline: Timeline, limit: int = LIMIT) -> str:
    """The script elements of the timeline's data; the page says what was left out to stay in `limit` bytes.

    Times are integers in a unit that is told (`unit_ps`: 1 ps, or 1 ns where all times are whole ones), counted from
    time 0 of their clock (lanes.origins). Where they would exceed 52 bits, the unit is coarser and they are rounded
    down, which the page says.
    """
    looked_at = timeline if report.compared_rounds is None else timeline.inside(report.compared_rounds)
    found = lanes(timeline, looked_at)
    made = _elements(report, found)
    if len(made) > limit and len(found.start) > found.device_rows:
        lacking = "The calls of the host that started the work are left out, since the page would be too large."
        found = lanes(timeline, looked_at, calls=False)
        found = replace(found, notes=(*found.notes, lacking))
        made = _elements(report, found)
    if len(made) > limit and any(len(name) > SHORT for name in found.names):
        names = tuple(short(name, SHORT) for name in found.names)
        lacking = f"Names are cut to {SHORT} characters, since the page would be too large."
        made = _elements(report, replace(found, names=names, notes=(*found.notes, lacking)))
    return made


def _elements(report: Report, found: Lanes) -> str:
    zero = origins(report)
    phases, steps = report.marks, report.explanation.steps.table
    from_zero = np.repeat(
        np.array([zero[found.groups[group].clock] for group, _, _ in found.lanes], np.int64),
        [rows for _, _, rows in found.lanes],
    )
    start, end = found.start - from_zero, found.end - from_zero
    known_wait = found.wait[0][found.wait[1]]
    bands = [_band(table, zero) for table in (phases, steps)]
    unit, rounded = _unit([start, end, known_wait, *(edge for band in bands for edge in band)])
    start, end = start // unit, end // unit
    made = [encode.column(name, values) for name, values in _columns(found, start, end, known_wait // unit).items()]
    reach = [int(start.min()), int(end.max())] if len(start) else None
    shown = [(edge - next(iter(zero.values()))) // unit for edge in report.shown] if report.shown else None
    header = {
        "schema": 1,
        "source": report.trace.source,
        "unit_ps": str(unit),
        "rounded": rounded,
        "clocks": [{"name": name, "origin_ps": str(at)} for name, at in zero.items()],
        "device_rows": found.device_rows,
        "rows": len(start),
        "whole": reach,
        "shown": shown,
        "paper": palette.properties(palette.LIGHT),
        "classes": [*CLASSES, (HOST, None)],
        "notes": list(found.notes),
        "columns": {one.name: one.told for one in made},
    }
    # Names and what is named may be many: they are compressed like the columns.
    named = {
        "names": found.names,
        "groups": [asdict(one) | {"clock": list(zero).index(one.clock)} for one in found.groups],
        "lanes": found.lanes,
        "phases": _named(phases, bands[0], unit, zero),
        "steps": _named(steps, bands[1], unit, zero),
    }
    parts = [f'<script type="application/json" id="timeline-header">{encode.text(header)}</script>']
    parts += [encode.element("named", encode.packed(named))]
    parts += [encode.element(one.name, one.packed) for one in made]
    return "\n".join(parts) + "\n"


def _columns(found: Lanes, start: NDArray[np.int64], end: NDArray[np.int64], wait: Any) -> Mapping[str, Any]:
    """The columns by name. In a lane a row tells how long after the row before it starts: kernels stand in queues."""
    counts = np.array([rows for _, _, rows in found.lanes], np.int64)
    first = np.cumsum(counts) - counts
    before = np.append(0, end)[: len(end)]
    before[first[counts > 0]] = 0
    has_bytes, has_wait, joined = found.bytes[1], found.wait[1], found.instance >= 0
    return {
        "gap": start - before,
        "duration": end - start,
        "name": found.name,
        "kind": found.kind,
        "has_bytes": has_bytes,
        "bytes": found.bytes[0][has_bytes],
        "has_wait": has_wait,
        "wait": wait,
        "step": _steps_of(found.step),
        "launch": _steps_of(found.launch),
        "has_instance": joined,
        "instance": _steps_of(found.instance[joined]),
    }


def _steps_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value as its difference to the one before."""
    return np.diff(values, prepend=0)


def _band(table: pd.DataFrame, zero: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of phases or steps in ps from time 0 of their clock."""
    origin = np.array([zero[str(clock)] for clock in table["clock"]], np.int64)
    return table["start_ps"].to_numpy(np.int64) - origin, table["end_ps"].to_numpy(np.int64) - origin


def _named(
    table: pd.DataFrame, band: tuple[NDArray[np.int64], NDArray[np.int64]], unit: int, zero: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Phases or steps with their names and times."""
    clocks = list(zero)
    made = []
    for row, start, end in zip(records(table), *((edge // unit).tolist() for edge in band), strict=True):
        left_out, step = row.get("left_out"), row.get("step")
        made.append(
            {
                "name": str(row["name"]),
                "clock": clocks.index(str(row["clock"])),
                "start": start,
                "end": end,
                "step": None if step is None or pd.isna(step) else int(step),
                "left_out": left_out if isinstance(left_out, str) else None,
            }
        )
    return made


def _unit(times: list[NDArray[np.int64]]) -> tuple[int, bool]:
    """The unit of all times in ps, and whether they are rounded to it: 1 ns if they are whole ones, else 1 ps."""
    exact = 1000 if all((one % 1000 == 0).all() for one in times) else 1
    reach = max((max(abs(int(one.min())), abs(int(one.max()))) for one in times if len(one)), default=0)
    unit = exact
    while reach // unit >> encode.EXACT_BITS:
        unit *= 1000
    return unit, unit != exact
