"""The data of the fleet's heat map as HTML: ranks, steps and groups as JSON, and each measure as a column of cells."""

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.analysis.fleet import MEASURES, Fleet, groupings
from tracekit.report.html.payload import column, element, json_text
from tracekit.report.palette import HEAT
from tracekit.report.sections.fleet import MEASURE_WORDS
from tracekit.timeline.timeline import Timeline

# What the page must hold beside the data, in this order.
SCRIPTS = ("decode.js", "units.js", "heat_cells.js", "heat_map.js")
STYLES = ("heat_map.css",)
# A cell is a whole number of such parts of the largest of its measure; with more than so many bytes, of the second.
_PARTS, _FEW_PARTS = 4000, 250
LIMIT = 3_000_000


def heat_map(fleet: Fleet, timeline: Timeline | None = None, limit: int = LIMIT) -> str:
    """The script elements of the heat map of a `fleet`, "" where it has no steps; with the `timeline` of its trace
    ranks are grouped by process group too.

    A cell is 0 where nothing is known, or else one more than its time in the unit of its measure, rounded, as the page
    says. Where they would take more than `limit` bytes, the unit is coarser.
    """
    if not len(fleet.bins) or not len(fleet.cells):
        return ""
    elements = _elements(fleet, timeline, _PARTS)
    return elements if len(elements) <= limit else _elements(fleet, timeline, _FEW_PARTS)


def _elements(fleet: Fleet, timeline: Timeline | None, parts: int) -> str:
    columns, measures = [], []
    for key in MEASURES:
        cells, unit_ps = _cells(fleet.matrix(key), parts)
        columns.append(column(key, cells))
        measures.append({"key": key, "title": MEASURE_WORDS[key], "unit_ps": unit_ps, **columns[-1].encoding})
    ways = groupings(fleet, timeline)
    bins = [fleet.bins[name].astype(object).where(fleet.bins[name].notna(), None).tolist() for name in fleet.bins]
    facts: dict[str, Any] = {
        "ranks": fleet.ranks["device"].tolist(),
        "hosts": fleet.ranks["host"].tolist(),
        "bins": [*map(list, zip(*bins, strict=True))],
        "groupings": [{"by": way.by, "names": way.names, "group_of": way.group_of.tolist()} for way in ways],
    }
    header = {"measures": measures, "first": fleet.first_measure, "colours": HEAT}
    named = zlib.compress(json_text(facts).encode("ascii"), 9)
    return "\n".join(
        [
            f'<script type="application/json" id="fleet-header">{json_text(header)}</script>',
            element("facts", named, "heat"),
            *(element(packed.name, packed.content, "heat") for packed in columns),
        ]
    )


def _cells(values: NDArray[np.float64], parts: int) -> tuple[NDArray[np.int64], int]:
    """The cells of a measure rank by rank, and their unit in ps: 1, or what its largest has `parts` of."""
    is_known = ~np.isnan(values)
    largest = float(values[is_known].max()) if is_known.any() else 0.0
    unit_ps = max(int(np.ceil(largest / parts)), 1)
    whole = np.rint(np.where(is_known, values, 0) / unit_ps).astype(np.int64)
    return np.where(is_known, whole + 1, 0).ravel(), unit_ps
