"""How numbers are printed: times with the unit that fits, ratios as percentages, what is missing as a dash."""

from typing import Any

import pandas as pd

_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"))


def time(ps: float) -> str:
    """`ps` picoseconds with three or more significant digits: 1.23 ms."""
    for size, unit in _UNITS:
        if abs(ps) >= size:
            value = ps / size
            return f"{value:.{2 if value < 100 else 1}f} {unit}"
    return f"{ps:.0f} ps"


def percent(ratio: Any) -> str:
    """A ratio in 0..1 as a percentage that says 100 or 0 only where it is exactly that; a dash if null."""
    if pd.isna(ratio):
        return "-"
    value = 100 * float(ratio)
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99.9 < value < 100:
        return ">99.9 %"
    return f"{value:.0f} %" if value in (0, 100) else f"{value:.1f} %"


def factor(value: Any) -> str:
    """A speedup or a stretch: 1.97x; a dash if null."""
    return "-" if pd.isna(value) else f"{float(value):.2f}x"
