"""Whether the clocks of several hosts are one, told from the ends of the collectives that they share.

A collective waits for its last rank, so it starts when each rank comes, but ends on all of them within microseconds: on
8 V100 within 7 us, where the starts differ by 7.6 ms. Ends that differ by more than they scatter show a clock that is
off. That holds where every rank needs data from all others; broadcast, reduce, send and permute let a rank go early.
What two hosts send to each other tells it only both ways (shared_sends), and is asked where they share too few others.
NCCL's `SendRecv` kernels are all-to-alls or single sends and do not say which: they count only beside true collectives
and where their ends tell the same. On the 8 V100 they do, to 1-3 us; the three all-reduces alone scatter too little to
tell a skew of 3 us, which the ring brings, from a clock.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from tracekit.readers.merge import clock_fit, shared_sends
from tracekit.readers.merge.clock_fit import UNCHANGED, Line
from tracekit.readers.merge.shared_ends import Column, Compared, Host, by_host, compare
from tracekit.readers.merge.shared_sends import Sends
from tracekit.units import ppm, quantity, time

_NAMED = 4  # so many hosts are named in a note, others are counted


@dataclass(frozen=True)
class Clock:
    """The clock of one host.

    `name`: the host that it was compared with; hosts of one name are aligned, a name of its own is a clock of its own.
    `line`: what was added to its times; null where nothing could be compared. `residual_ps`: by how much ends differ
    after that; null for the host that the others were compared with. `collectives`: how many shared collectives said
    so, and how many of them were matched by number; `disagreeing`: how many of all `shared` ones said something else,
    by up to `disagreement_ps`. `drift_error`: what they leave open of its drift, a ratio, at 99 %. `by_sends`: whether
    they are sends with their receives; then the residual is that of all pairs on the way to that host.
    """

    host: str
    name: str
    line: Line | None = None
    residual_ps: int | None = None
    collectives: int = 0
    numbered: int = 0
    shared: int = 0
    disagreeing: int = 0
    disagreement_ps: int = 0
    drift_error: float = 0.0
    by_sends: bool = False

    @property
    def shift_ps(self) -> int | None:
        """What was added to its times, of a clock that drifts in the middle of the collectives; null without."""
        return self.line.shift_ps if self.line is not None else None


@dataclass(frozen=True)
class _Link:
    """How one host was compared: with which other, what the ends said, and whether both show Unix time."""

    via: str
    comparison: Compared
    timed: bool

    @cached_property
    def line(self) -> Line | None:
        """What is to be added to the host's times to fit those of `via`; null where that is not proven.

        Clocks that show Unix time are only off where that is more than what the ends leave open.
        """
        fit, times = self.comparison.fit, self.comparison.times
        if self.timed and self.comparison.stands:
            return UNCHANGED
        if fit and (not self.timed or fit.significant(int(times[0]), int(times[-1]))):
            return fit.line
        is_close = fit is not None and fit.error_ps <= clock_fit.ENDS_APART_PS
        return UNCHANGED if self.timed and (is_close or self.comparison.agrees) else None

    def clock(self, host: str, root: str, of_via: Clock) -> Clock:
        """The clock of the host, where `of_via` is that of `via`.

        A drift of `via` is the host's too only as far as the two are known to keep one pace: else the host has none.
        """
        fit, times = self.comparison.fit, self.comparison.times
        base, own_error = of_via.line or UNCHANGED, fit.drift_error if fit else math.inf
        line = (self.line or UNCHANGED).then(base)
        error = math.hypot(of_via.drift_error, own_error)
        if 0 < abs(line.drift) <= error and not (self.line and self.line.drift):
            line = line.steady(int(np.median(times)))
        open_ps = clock_fit.SKEW_PS + (fit.error_ps if fit else 0)
        if self.timed and line.largest(int(times[0]), int(times[-1])) <= open_ps:
            line = UNCHANGED  # as it stands, whatever the one between them is
        agreeing = fit.agreeing if fit else np.ones(len(times), bool)

        def rest(times: Column, ahead: Column) -> Column:
            """By how much ends differ still, (n,)."""
            apart: Column = np.abs(ahead + line.shifts(times) - base.shifts(times - ahead))
            return apart

        of_used, of_unused = rest(times, self.comparison.ahead), rest(*self.comparison.unused)
        if self.timed and self.comparison.stands:
            of_used, of_unused = np.concatenate([of_used, of_unused]), of_unused[:0]
            agreeing = of_used <= clock_fit.ENDS_APART_PS
        residual, count = int(of_used[agreeing].max(initial=0)), int(agreeing.sum())
        by_sends = len(self.comparison.sent) > 0
        disagreeing = np.concatenate([of_used[~agreeing], of_unused[of_unused > residual]])
        return Clock(
            host,
            root,
            line,
            residual + (of_via.residual_ps or 0 if by_sends else 0),
            count,
            count * self.comparison.by_number,
            len(of_used) + len(of_unused),
            len(disagreeing),
            int(disagreeing.max(initial=0)),
            error if line.drift else 0.0,
            by_sends,
        )


@dataclass(frozen=True)
class _Pairs:
    """The hosts with their collectives, and what was found out about pairs of them so far."""

    hosts: Mapping[str, Host]
    sends: Mapping[str, Sends]
    timed: Mapping[str, bool]
    links: dict[tuple[str, str], _Link | None] = field(default_factory=dict)

    def link(self, a: str, b: str) -> _Link | None:
        """What the shared collectives say of `b`'s clock seen from `a`'s; None if they prove nothing."""
        if (a, b) not in self.links:
            timed = self.timed[a] and self.timed[b]
            comparison = self._compared(a, b, timed)
            self.links[a, b] = _Link(a, comparison, timed) if comparison else None
        link = self.links[a, b]
        return link if link and link.line is not None else None

    def _compared(self, a: str, b: str, timed: bool) -> Compared | None:
        """What the two share: what all ranks meet in, or else what one sends to the other, if that is told more by."""
        own, other = self.hosts[a], self.hosts[b]
        meetings = compare(own, other, timed)
        if meetings and (len(meetings.ahead) >= clock_fit.ENOUGH or (timed and meetings.agrees)):
            return meetings
        resolution = max(own.resolution_ps, other.resolution_ps)
        exchanges = shared_sends.compare(self.sends[a], self.sends[b], resolution, timed)
        return exchanges if exchanges and (not meetings or exchanges.fit) else meetings

    def around(self, root: str, names: Iterable[str]) -> dict[str, _Link | None]:
        """`root` and those of `names` that shared collectives join to it, straight or through others, nearest first."""
        links: dict[str, _Link | None] = {root: None}
        reached = [root]
        for via in reached:  # grows while it runs
            for name in names:
                if name not in links and (link := self.link(via, name)):
                    links[name] = link
                    reached.append(name)
        return links


def align(events: pd.DataFrame, hosts: Sequence[str], timed: Sequence[bool]) -> tuple[list[Clock], list[str]]:
    """The clock of each of `hosts`, in their order, and what a reader of the report must know of them.

    `events` holds the rows of all hosts (EVENT_COLUMNS), by the time that each host's own clock shows. `timed`: whether
    that is Unix time. Clocks are corrected by an offset, and a drift where there is one, on which `clock_fit.ENOUGH`
    collectives and most of those that are shared agree, if it is larger than what their scatter leaves open; else they
    are one clock as they stand, and the residual is reported. Fewer collectives only tell whether clocks that show Unix
    time agree already. Hosts are compared with the first one whose clock is that of the host in the middle, so that the
    majority of clocks stays as it is.
    """
    sends = shared_sends.by_host(events, hosts)
    pairs = _Pairs(by_host(events, hosts), sends, dict(zip(hosts, timed, strict=True)))
    clocks: dict[str, Clock] = {}
    for host in hosts:
        if host not in clocks:
            links = pairs.around(host, [other for other in hosts if other not in clocks])
            ahead = _offsets(links)
            ranked = sorted(ahead, key=lambda name: ahead[name])
            middle = next(name for name in ahead if name in (ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]))
            fitted_clocks = _fitted(middle, pairs.around(middle, list(links)))
            first = next(name for name in links if name in fitted_clocks and not fitted_clocks[name].line)
            clocks |= _fitted(first, pairs.around(first, list(links))) if first != middle else fitted_clocks
            clocks.setdefault(host, Clock(host, host))  # what is proven of it seen from others is a near thing
    ordered = [clocks[host] for host in hosts]
    return ordered, _notes(ordered, pairs)


def _offsets(links: Mapping[str, _Link | None]) -> dict[str, int]:
    """By how much each clock seems to be ahead of the first one, ps."""
    lines: dict[str, Line] = {}
    ahead: dict[str, int] = {}
    for name, link in links.items():
        lines[name] = (link.line or UNCHANGED).then(lines[link.via]) if link else UNCHANGED
        ahead[name] = -lines[name].shift(int(np.median(link.comparison.times))) if link else 0
    return ahead


def _fitted(root: str, links: Mapping[str, _Link | None]) -> dict[str, Clock]:
    """The clocks of `root` and of the hosts that `links` join to it, each fitted to the one it was compared with."""
    if len(links) == 1:
        return {root: Clock(root, root)}
    clocks: dict[str, Clock] = {}
    for name, link in links.items():
        clocks[name] = link.clock(name, root, clocks[link.via]) if link else Clock(name, root, UNCHANGED)
    return clocks


def _notes(clocks: Sequence[Clock], pairs: _Pairs) -> list[str]:
    """What was found out, in plain words."""
    groups: dict[str, list[Clock]] = {}
    for clock in clocks:
        groups.setdefault(clock.name, []).append(clock)
    notes = []
    for name, group in groups.items():
        others = [clock for clock in group if clock.host != name]
        as_they_stand = [clock for clock in others if not clock.line]
        if as_they_stand:
            aligned = [clock.host for clock in group if not clock.line]
            notes.append(
                f"The clocks of {listing(aligned)} were compared on the ends of {_count(as_they_stand)}: one clock, "
                f"ends differ from {name}'s by at most {_worst(as_they_stand)}; nothing was shifted."
            )
        notes += _shifted(name, [clock for clock in others if clock.line], pairs.timed)
        notes += _disagreeing(others)
    if len(groups) > 1:
        labels = [name if len(group) == 1 else f"{name} (with {len(group) - 1} more)" for name, group in groups.items()]
        refused = _refused(groups, pairs)
        why = "No shared collective compares the clocks of" if not refused else "Nothing aligns the clocks of"
        notes += refused
        notes.append(f"{why} {listing(labels)}: they are unaligned, and overlap between their devices is not computed.")
    return notes


def _shifted(root: str, clocks: Sequence[Clock], timed: Mapping[str, bool]) -> list[str]:
    """The notes on clocks that were corrected."""
    corrected = [clock for clock in clocks if timed[clock.host] and timed[root]]
    aligned = [clock for clock in clocks if clock not in corrected]
    notes = [
        f"The clock of {clock.host} {_difference(clock, root)} by the ends of {_count([clock])}: its times were "
        f"shifted to fit, and ends now differ by at most {_worst([clock])}."
        for clock in corrected[:_NAMED]
    ]
    if len(corrected) > _NAMED:
        furthest = max(corrected, key=lambda clock: abs(clock.shift_ps or 0))
        notes = [
            f"The clocks of {listing(clock.host for clock in corrected)} were off from {root}'s by the ends of "
            f"{_count(corrected)}, {furthest.host}'s most, which {_difference(furthest)} it: their times were "
            f"shifted to fit, and ends now differ by at most {_worst(corrected)}."
        ]
    if aligned:
        notes.append(
            f"The times of {listing(clock.host for clock in aligned)} and {root} are not all Unix times: they were "
            f"aligned by the ends of {_count(aligned)}, which now differ by at most {_worst(aligned)}."
        )
    return notes


def _disagreeing(clocks: Sequence[Clock]) -> list[str]:
    """The note on collectives that say something else than the others."""
    some = [clock for clock in clocks if clock.disagreeing]
    if not some:
        return []
    clock = max(some, key=lambda clock: clock.disagreeing / clock.shared)
    more = f", as some of {len(some) - 1} other hosts" if len(some) > 1 else ""
    return [
        f"{clock.disagreeing} of {clock.shared} shared collectives do not agree with the others on {clock.host}'s "
        f"clock, by up to {time(clock.disagreement_ps)}{more}: they were not used."
    ]


def _refused(groups: Mapping[str, Sequence[Clock]], pairs: _Pairs) -> list[str]:
    """The notes on comparisons that prove nothing, between clocks that stayed unaligned."""
    name_of = {clock.host: name for name, group in groups.items() for clock in group}
    apart = {
        frozenset((a, b)): (a, b, link.comparison)
        for (a, b), link in pairs.links.items()
        if link and link.line is None and name_of[a] != name_of[b]
    }
    if not apart:
        return []
    a, b, comparison = next(iter(apart.values()))
    n, more = len(comparison.ahead), f" (as for {len(apart) - 1} other pairs)" if len(apart) > 1 else ""
    if len(comparison.sent):
        return [
            f"{quantity(n, 'send')} between {a} and {b}{more} tell no offset: a recv may end after its send, so that "
            f"takes {clock_fit.ENOUGH} each way whose ends agree. They were not used."
        ]
    if n < clock_fit.ENOUGH:
        shared = "1 collective is" if n == 1 else f"{n} collectives are"
        return [
            f"{shared} shared by {a} and {b}{more}, with ends {time(abs(comparison.offset))} apart: too few to prove "
            f"an offset, which takes {clock_fit.ENOUGH} that agree. They were not used."
        ]
    return [
        f"{n} collectives of {a} and {b} look shared, but too few of their ends agree on one clock offset and "
        f"drift{more}: they were not used."
    ]


def listing(names: Iterable[str]) -> str:
    """`a, b and c`; of more than a few the first ones, and how many there are."""
    names = list(names)
    if len(names) > _NAMED + 1:
        return f"{len(names)} hosts ({', '.join(names[: _NAMED - 1])} and others)"
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])


def _count(clocks: Sequence[Clock]) -> str:
    fewest, most = min(clock.collectives for clock in clocks), max(clock.collectives for clock in clocks)
    by_number = ", matched by their sequence numbers" if all(clock.numbered for clock in clocks) else ""
    what = "sends with their receives" if all(clock.by_sends for clock in clocks) else "shared collectives"
    if most == 1:
        return f"1 {'send with its recv' if what.startswith('sends') else 'shared collective'}{by_number}"
    return f"{most if fewest == most else f'{fewest} to {most}'} {what}{by_number}"


def _worst(clocks: Sequence[Clock]) -> str:
    return time(max(clock.residual_ps or 0 for clock in clocks))


def _drift(drift: float, error: float) -> str:
    """`20 ± 3 ppm`, in ppm, both to the digit that the error leaves; without an error that is below 0.05."""
    if error < 0.05:
        return ppm(drift)
    digits = 0 if error >= 0.95 else 1
    return f"{drift:,.{digits}f} ± {error:,.{digits}f} ppm"


def _difference(clock: Clock, other: str = "") -> str:
    """`was 1.2 ms ahead of a's halfway and ran 20 ppm fast`, or without a name and its `'s`."""
    shift, drift = clock.shift_ps or 0, clock.line.drift * 1e6 if clock.line else 0.0
    whose, pace = f" {other}'s" if other else "", ""
    if drift:
        pace = f"ran {_drift(abs(drift), clock.drift_error * 1e6)} {'fast' if drift > 0 else 'slow'}"
        pace = f" halfway and {pace}" if other else f" (and {pace})"
    return f"was {time(abs(shift))} {'ahead of' if shift < 0 else 'behind'}{whose}{pace}"
