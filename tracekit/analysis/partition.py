"""Exact time accounting: every picosecond of the window belongs to exactly one of eight cells per device."""

import pandas as pd

from tracekit import intervals as iv
from tracekit.columns import frame
from tracekit.timeline.timeline import Source, Windows, timeline_of
from tracekit.timeline.unions import CELLS


def partition(source: Source, window: Windows | None = None) -> pd.DataFrame:
    """One row per device: `window_start_ps`, `window_ps`, `span_ps`, `busy_ps` and the cells in CELLS, int64
    picoseconds.

    A cell is the time in which exactly the kinds in its name ran, so exposed collective time is `collective` +
    `collective+memory`, and exposed memory time is `memory`. The cells sum to `window_ps`, which is checked here.
    Devices on different clocks have windows of their own.
    """
    unions = timeline_of(source, window).unions
    rows = []
    for name, device in unions.devices.items():
        windows = unions.windows[device.clock]
        window_ps = iv.total(windows)
        start = int(windows[0, 0]) if len(windows) else 0
        edges, code = device.cells
        cells = iv.sums(edges[1:] - edges[:-1], code, len(CELLS))
        busy = sum(cells[1:])
        # Idle is also what lies before the first work and after the last.
        cells[0] = window_ps - iv.sum_exactly(iv.within(device.busy, windows))
        if sum(cells) != window_ps:
            raise AssertionError(f"the cells of {name} sum to {sum(cells)} ps, the window is {window_ps} ps")
        rows.append((name, start, window_ps, int(edges[-1] - edges[0]) if len(edges) else 0, busy, *cells))
    numbers = ["window_start_ps", "window_ps", "span_ps", "busy_ps", *CELLS]
    return frame({"device": "str", **dict.fromkeys(numbers, "int64")}, rows)
