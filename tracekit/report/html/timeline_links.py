"""Times that lead into the timeline."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tracekit.report.html.lanes import origins
from tracekit.report.html.markup import Markup, none, tag
from tracekit.report.model import Report
from tracekit.units import time


@dataclass(frozen=True)
class Jumps:
    """How stretches of the trace become links: the timeline's time 0 by clock in ps, and the clock of each device."""

    origins: Mapping[str, int]
    clocks: Mapping[str, str]

    def at(self, start_ps: Any, end_ps: Any, what: str, device: Any = None, clock: str = "") -> Markup:
        """A button that shows [start, end) in the timeline and is named after its start, counted from time 0 there.

        `what` is told to a screen reader. The clock is that of the `device`, where there is one; a stretch on one of
        several clocks leads to the first device on it.
        """
        if pd.isna(start_ps) or pd.isna(end_ps):
            return none()
        start, end, on = self.place(start_ps, end_ps, device, clock)
        shown = time(start)
        return tag(
            "button",
            shown,
            type="button",
            class_="jump",
            data_from=start,
            data_to=end,
            data_device=on,
            aria_label=f"{shown}: show {what} in the timeline",
            title=f"{start:,} ps",
        )

    def place(self, start_ps: Any, end_ps: Any, device: Any = None, clock: str = "") -> tuple[int, int, str | None]:
        """Where a stretch lies in the timeline: from, to, and the device to look at."""
        on = None if device is None or pd.isna(device) else str(device)
        clock = clock if on is None else self.clocks.get(on, clock)
        if on is None and len(self.origins) > 1:
            on = next((name for name, its in self.clocks.items() if its == clock), None)
        origin = self.origins.get(clock, 0)
        return int(start_ps) - origin, int(end_ps) - origin, on

    def device(self, on: str) -> str | None:
        """`on` if it is a device, None if it is a thread of the host."""
        return on if on in self.clocks else None


def jumps(report: Report) -> Jumps:
    """The links of a report."""
    return Jumps(origins(report), report.clock_of)
