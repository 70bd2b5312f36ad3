"""What figures show: a selection of a trace, and the exact results of the analyses inside it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.analysis.collectives import collectives
from tracekit.analysis.completeness import completeness, unknown_shares
from tracekit.analysis.fleet import Fleet, fleet
from tracekit.analysis.overlap import Breakdown, breakdown
from tracekit.analysis.phases import phases
from tracekit.analysis.steps import steps
from tracekit.devices import FEW
from tracekit.files import trace_name
from tracekit.report.build import headline
from tracekit.report.model import Report
from tracekit.report.part import PHASE_TO_PHASE, Part, choose
from tracekit.report.time_zero import COUNTED_FROM, COUNTED_FROM_EACH
from tracekit.report.trace_contents import no_device_work
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.timeline.unions import Unions
from tracekit.trace import Trace


@dataclass(frozen=True)
class Selection:
    """A part of a trace; figures lay its windows end to end, from 0.

    `timeline` is the trace inside the windows. `phases` are the rounds of its phases: clock, name, start_ps, end_ps.
    `headline` gives that of a report of it, and `known_fleet` is the fleet of that, where it is at hand. The axis of
    time begins at `start_ps`, and `axis` says what that counts from. `name` is what files are named after, "" for the
    whole; `where` says which part it is, `phase` which phase, if it is one; `lacking` why there is nothing to draw,
    `partial` why it holds too little of what ran for any share of time. With `threads` each thread of a CPU device
    has a lane of its own; it `may_omit` devices where nobody asked for just these.
    """

    timeline: Timeline
    phases: pd.DataFrame
    start_ps: int
    axis: str
    name: str = ""
    where: str = ""
    phase: str | None = None
    headline: Callable[[], str] = str
    known_fleet: Fleet | None = None
    may_omit: bool = False
    lacking: str = ""
    partial: str = ""
    threads: bool = False

    @property
    def trace(self) -> Trace:
        """The whole trace."""
        return self.timeline.trace

    @property
    def unions(self) -> Unions:
        """The unions inside the windows."""
        return self.timeline.unions

    @property
    def aligned(self) -> bool:
        """Whether all devices are on one clock."""
        return len(self.unions.windows) < 2

    @property
    def length_ps(self) -> int:
        """How long it is; of several clocks the longest."""
        return max(map(iv.total, self.unions.windows.values()), default=0)

    @property
    def trace_name(self) -> str:
        """Which trace it is."""
        source = self.trace.source.replace("\0", "")
        return trace_name(source) if source else ""

    @property
    def breakdown(self) -> Breakdown:
        """What the analyses say of it."""
        return self.timeline.once(f"breakdown {self.name!r}", lambda: breakdown(self.timeline, self.name))

    @property
    def finding(self) -> str:
        """The headline as a title, without its full stop."""
        return (self.lacking or self.headline()).removesuffix(".")

    def fleet(self) -> Fleet:
        """Its ranks, and what each did in each step."""
        if self.known_fleet:
            return self.known_fleet
        partition, known = self.breakdown.partition, completeness(self.timeline)
        return self.timeline.once(
            "fleet", lambda: fleet(partition, steps(self.timeline), collectives(self.timeline, known.waiting))
        )

    @property
    def device_count(self) -> int:
        """How many devices it is of, of which the trace may hold only those that stand for all."""
        return len(self.known_fleet.ranks) if self.known_fleet else sum(self.timeline.whole.rows.placed)

    @property
    def drawn(self) -> tuple[str, ...] | None:
        """The devices that stand for all where each is drawn; where no shares are known the first; None of few."""
        if not self.may_omit or self.lacking or self.device_count <= FEW:
            return None
        return tuple(self.timeline.whole.rows.devices[:FEW]) if self.partial else self.fleet().drawn

    def unplaced(self, outcome: str) -> list[str]:
        """The sentence on copies whose device the trace does not name, and what becomes of them, if there are any."""
        if not self.unions.unplaced:
            return []
        names = ", ".join(self.unions.unplaced)
        return [f"Copies on {names} {outcome}: the trace does not say which device they ran on."]


def select(
    source: Source,
    report: Report | None = None,
    part: Part | None = None,
    *,
    phase: str | None = None,
    step: int | None = None,
    start_ps: int | None = None,
    end_ps: int | None = None,
    devices: Collection[str] = (),
) -> Selection:
    """What to show of a trace: all of it or a `part`, or the one that `part.choose` gives with the other arguments.

    The whole begins with the first phase and ends with the last, where there are phases. The phases and the headline of
    its `report` are taken where that is at hand.
    """
    timeline = timeline_of(source)
    marked = report.phases if report else timeline.once("phases", lambda: phases(timeline))
    if part is None:
        part = choose(timeline, marked, phase=phase, step=step, start=start_ps, end=end_ps, devices=devices)
    chosen = part

    def finding() -> str:
        if report:
            return report.finding
        return timeline.once(f"headline {chosen.name!r}", lambda: headline(timeline, chosen))

    clocks, zero = timeline.unions.windows, timeline.first_work
    extent = marked.extent if len(clocks) == 1 else None
    windows, where = part.windows, part.where
    if windows is None and extent:
        windows = dict.fromkeys(clocks, np.array([extent]))
        where = ", ".join(filter(None, [PHASE_TO_PHASE, where]))
    inside = timeline if windows is None and part.is_whole else timeline.narrowed(windows, part.devices)
    starts = {int(of[0, 0]) - zero.get(clock, 0) for clock, of in inside.unions.windows.items() if len(of)}
    rounds = max(map(len, inside.unions.windows.values()), default=0)
    is_common = rounds < 2 and len(starts) < 2
    lacking = no_device_work(inside) or ""
    if not lacking and not any(map(len, inside.unions.windows.values())):
        lacking = "No device is on the clock of this selection."
    return Selection(
        inside,
        (marked if report and part.is_whole else part.phases).rounds,
        min(starts, default=0) if is_common else 0,
        f"time since {COUNTED_FROM if len(clocks) < 2 else COUNTED_FROM_EACH}" if is_common else part.own_axis,
        name=part.name,
        where=f"{where}, end to end" if rounds > 1 else where,
        phase=part.phase,
        headline=finding,
        known_fleet=report.fleet if report else None,
        may_omit=not part.devices,
        lacking=lacking,
        partial=timeline.once("unknown shares", lambda: unknown_shares(timeline)),
    )
