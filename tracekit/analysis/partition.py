"""Exact time accounting: every picosecond of the window belongs to exactly one of eight cells per device."""

import pandas as pd

from tracekit import intervals as iv
from tracekit.unions import Unions, unions

# Bit 0 = compute, bit 1 = collective, bit 2 = memory.
CELLS = (
    "idle",
    "compute",
    "collective",
    "compute+collective",
    "memory",
    "compute+memory",
    "collective+memory",
    "compute+collective+memory",
)


def partition(events: pd.DataFrame | Unions, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """One row per device: `window_start_ps`, `window_ps`, `span_ps`, `busy_ps` and the cells in CELLS, int64
    picoseconds.

    A cell is the time in which exactly the kinds in its name ran, so exposed collective time is `collective` +
    `collective+memory`, and exposed memory time is `memory`. The cells sum to `window_ps`, which is checked here.
    Devices on different clocks have windows of their own.
    """
    seen = unions(events, window)
    rows = []
    for name, device in seen.devices.items():
        windows = seen.windows[device.clock]
        window_ps = iv.total(windows)
        start = int(windows[0, 0]) if len(windows) else 0
        held = (device.compute, device.collective, device.memory)
        # |exactly these| by inclusion and exclusion would subtract; walking the subsets keeps every term a measured
        # set.
        cells = []
        for cell in range(8):
            inside = windows
            for bit, one in enumerate(held):
                inside = iv.intersection(inside, one) if cell >> bit & 1 else iv.difference(inside, one)
            cells.append(iv.total(inside))
        if sum(cells) != window_ps:
            raise AssertionError(f"the cells of {name} sum to {sum(cells)} ps, the window is {window_ps} ps")
        ends = iv.span([device.busy])
        rows.append((name, start, window_ps, ends[1] - ends[0] if ends else 0, iv.total(device.busy), *cells))
    numbers = ["window_start_ps", "window_ps", "span_ps", "busy_ps", *CELLS]
    return pd.DataFrame(rows, columns=["device", *numbers]).astype({"device": "str", **dict.fromkeys(numbers, "int64")})
