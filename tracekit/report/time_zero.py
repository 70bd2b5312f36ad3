"""Time 0 of every face: the first device work of the whole trace, on each clock, also where only a part is shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.report.section import Instant

# What stands at 0 of every axis and of every range of time.
COUNTED_FROM = "the first device work"
COUNTED_FROM_EACH = "each clock's first device work"


@dataclass(frozen=True)
class TimeZero:
    """What every face counts times from: `start_ps`, by clock, in ps of the trace; and the clock of each device."""

    start_ps: Mapping[str, int]
    clock_of: Mapping[str, str]

    @property
    def name(self) -> str:
        """What stands at 0, in words."""
        return COUNTED_FROM if len(self.start_ps) < 2 else COUNTED_FROM_EACH

    @property
    def sentence(self) -> str:
        """That, for a face that shows times."""
        return f"Time 0 is {self.name}."

    def clock(self, instant: Instant) -> str:
        """The clock of an instant: that of its device, where it has one."""
        return instant.clock if instant.device is None else self.clock_of.get(instant.device, instant.clock)

    def since(self, instant: Instant) -> tuple[int, int]:
        """Start and end of an instant as all faces count them, in ps."""
        zero = self.start_ps.get(self.clock(instant), 0)
        return instant.start_ps - zero, instant.end_ps - zero
