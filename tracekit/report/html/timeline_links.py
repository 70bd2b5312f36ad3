"""Times that lead into the timeline of the page."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.report.html.lanes import origins
from tracekit.report.html.markup import Markup, tag
from tracekit.report.model import Report
from tracekit.report.section import Instant
from tracekit.units import time


@dataclass(frozen=True)
class TimelineLinks:
    """How stretches of the trace become links: the timeline's time 0 by clock in ps, and the clock of each device.

    They `lead` nowhere on a page without a timeline: there they are times like all others.
    """

    origins: Mapping[str, int]
    clocks: Mapping[str, str]
    lead: bool = True

    def button(self, instant: Instant, what: str) -> Markup:
        """A button that shows [start, end) in the timeline and is named after its start, counted from time 0 there;
        a screen reader hears `what` it shows."""
        start, end, on = self.place(instant)
        shown = time(start)
        if not self.lead:
            return tag("data", shown, value=start, title=f"{start:,} ps")
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

    def place(self, instant: Instant) -> tuple[int, int, str | None]:
        """Where it lies in the timeline: from, to, and the device to look at.

        The clock is that of the device, where there is one; on one of several clocks the first device on it is shown.
        """
        on = instant.device
        clock = instant.clock if on is None else self.clocks.get(on, instant.clock)
        if on is None and len(self.origins) > 1:
            on = next((name for name, its in self.clocks.items() if its == clock), None)
        origin = self.origins.get(clock, 0)
        return instant.start_ps - origin, instant.end_ps - origin, on


def timeline_links(report: Report, lead: bool) -> TimelineLinks:
    """The links of a report, on a page with or without a timeline."""
    return TimelineLinks(origins(report), report.clock_of, lead)
