"""Whether the clocks of several hosts are one, told from the ends of the collectives that they share.

A collective waits for its last rank, so it starts when each rank comes, but ends on all of them within microseconds: on
8 V100 within 7 us, where the starts differ by 7.6 ms. Ends that differ by more than they scatter show a clock that is
off. That holds where every rank needs data from all others; broadcast, reduce, send and permute let a rank go early.
NCCL's `SendRecv` kernels are all-to-alls or single sends and do not say which: they count only beside true collectives
and where their ends tell the same. On the 8 V100 they do, to 1-3 us; the three all-reduces alone scatter too little to
tell a skew of 3 us, which the ring brings, from a clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tracekit.readers.merge.shared_ends import Compared, Host, by_host, compare
from tracekit.units import time

_NAMED = 4  # so many hosts are named in a note, others are counted


@dataclass(frozen=True)
class Clock:
    """The clock of one host.

    `name`: the host that it was compared with; hosts of one name are aligned, a name of its own is a clock of its own.
    `shift_ps`: what was added to its times; 0 where they fitted, null where nothing could be compared. `residual_ps`:
    by how much ends differ after that; null for the host that the others were compared with. `collectives`: how many
    shared collectives said so.
    """

    host: str
    name: str
    shift_ps: int | None = None
    residual_ps: int | None = None
    collectives: int = 0


@dataclass(frozen=True)
class _Link:
    """How one host was compared: with which other, and what the ends said."""

    via: str
    comparison: Compared


@dataclass(frozen=True)
class _Pairs:
    """The hosts with their collectives, and what was found out about pairs of them so far."""

    hosts: Mapping[str, Host]
    timed: Mapping[str, bool]
    comparisons: dict[tuple[str, str], Compared | None] = field(default_factory=dict)

    def compared(self, a: str, b: str) -> Compared | None:
        """What the shared collectives say of `b`'s clock seen from `a`'s; None if nothing that holds together."""
        if (a, b) not in self.comparisons:
            self.comparisons[a, b] = compare(self.hosts[a], self.hosts[b], self.timed[a] and self.timed[b])
        comparison = self.comparisons[a, b]
        return None if comparison is None or comparison.contradicts else comparison

    def around(self, root: str, names: Iterable[str]) -> dict[str, _Link | None]:
        """`root` and those of `names` that shared collectives join to it, straight or through others, nearest first."""
        links: dict[str, _Link | None] = {root: None}
        reached = [root]
        for via in reached:  # grows while it runs
            for name in names:
                if name not in links and (comparison := self.compared(via, name)):
                    links[name] = _Link(via, comparison)
                    reached.append(name)
        return links


def align(events: pd.DataFrame, hosts: Sequence[str], timed: Sequence[bool]) -> tuple[list[Clock], list[str]]:
    """The clock of each of `hosts`, in their order, and what a reader of the report must know of them.

    `events` holds the rows of all hosts (EVENT_COLUMNS), by the time that each host's own clock shows. `timed`: whether
    that is Unix time. An offset within the spread of the ends is one clock: nothing is shifted, and the residual is
    reported. A larger one is corrected by the median. A single shared collective has no spread: it is one clock as long
    as no rank ends it before another starts it. Hosts are compared with the first one whose clock is that of the host
    in the middle, so that the majority of clocks stays as it is.
    """
    pairs = _Pairs(by_host(events, hosts), dict(zip(hosts, timed, strict=True)))
    clocks: dict[str, Clock] = {}
    for host in hosts:
        if host not in clocks:
            links = pairs.around(host, [other for other in hosts if other not in clocks])
            ahead = _offsets(links)
            ranked = sorted(ahead, key=lambda name: ahead[name])
            middle = next(name for name in ahead if name in (ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]))
            fitted_clocks = _fitted(middle, pairs.around(middle, list(links)))
            first = next(name for name in links if name in fitted_clocks and not fitted_clocks[name].shift_ps)
            clocks |= _fitted(first, pairs.around(first, list(links))) if first != middle else fitted_clocks
    ordered = [clocks[host] for host in hosts]
    return ordered, _notes(ordered, pairs)


def _offsets(links: Mapping[str, _Link | None]) -> dict[str, int]:
    """By how much each clock seems to be ahead of the first one, ps."""
    ahead: dict[str, int] = {}
    for name, link in links.items():
        ahead[name] = ahead[link.via] + link.comparison.offset if link else 0
    return ahead


def _fitted(root: str, links: Mapping[str, _Link | None]) -> dict[str, Clock]:
    """The clocks of `root` and of the hosts that `links` join to it, each fitted to the one it was compared with."""
    if len(links) == 1:
        return {root: Clock(root, root)}
    clocks: dict[str, Clock] = {}
    for name, link in links.items():
        if link is None:
            clocks[name] = Clock(name, root, 0)
            continue
        base = clocks[link.via].shift_ps or 0
        # As it stands, or one clock with the host it was compared with, or corrected; never to where an end would come
        # before a start.
        ahead = next((offset for offset in (base, 0) if link.comparison.allows(offset)), link.comparison.corrected)
        clocks[name] = Clock(name, root, base - ahead, link.comparison.residual(ahead), len(link.comparison.ends))
    return clocks


def _notes(clocks: Sequence[Clock], pairs: _Pairs) -> list[str]:
    """What was found out, in plain words."""
    groups: dict[str, list[Clock]] = {}
    for clock in clocks:
        groups.setdefault(clock.name, []).append(clock)
    notes = []
    for name, group in groups.items():
        others = [clock for clock in group if clock.host != name]
        as_they_stand = [clock for clock in others if not clock.shift_ps]
        if as_they_stand:
            aligned = [clock.host for clock in group if not clock.shift_ps]
            notes.append(
                f"The clocks of {listing(aligned)} were compared on the ends of {_count(as_they_stand)}: one clock, "
                f"ends differ from {name}'s by at most {_worst(as_they_stand)}; nothing was shifted."
            )
        notes += _shifted(name, [clock for clock in others if clock.shift_ps], pairs.timed)
    if len(groups) > 1:
        labels = [name if len(group) == 1 else f"{name} (with {len(group) - 1} more)" for name, group in groups.items()]
        notes += _contradictions(groups, pairs)
        notes.append(
            f"No shared collective compares the clocks of {listing(labels)}: they are unaligned, and overlap between "
            "their devices is not computed."
        )
    return notes


def _shifted(root: str, clocks: Sequence[Clock], timed: Mapping[str, bool]) -> list[str]:
    """The notes on clocks that were corrected."""
    corrected = [clock for clock in clocks if timed[clock.host] and timed[root]]
    aligned = [clock for clock in clocks if clock not in corrected]
    notes = [
        f"The clock of {clock.host} was {_offset(clock)} {root}'s by the ends of {_count([clock])}: its times were "
        f"shifted to fit, and ends now differ by at most {_worst([clock])}."
        for clock in corrected[:_NAMED]
    ]
    if len(corrected) > _NAMED:
        furthest = max(corrected, key=lambda clock: abs(clock.shift_ps or 0))
        notes = [
            f"The clocks of {listing(clock.host for clock in corrected)} were off from {root}'s by the ends of "
            f"{_count(corrected)}, {furthest.host}'s most, which was {_offset(furthest)} it: their times were "
            f"shifted to fit, and ends now differ by at most {_worst(corrected)}."
        ]
    if aligned:
        notes.append(
            f"The times of {listing(clock.host for clock in aligned)} and {root} are not all Unix times: they were "
            f"aligned by the ends of {_count(aligned)}, which now differ by at most {_worst(aligned)}."
        )
    return notes


def _contradictions(groups: Mapping[str, Sequence[Clock]], pairs: _Pairs) -> list[str]:
    """The notes on comparisons that held no water, between clocks that stayed unaligned."""
    name_of = {clock.host: name for name, group in groups.items() for clock in group}
    apart = {
        frozenset((a, b)): (a, b, comparison)
        for (a, b), comparison in pairs.comparisons.items()
        if comparison and comparison.contradicts and name_of[a] != name_of[b]
    }
    if not apart:
        return []
    a, b, comparison = next(iter(apart.values()))
    return [
        f"{len(comparison.ends)} collectives of {a} and {b} look shared, but no single clock offset fits their ends"
        f"{f' (as for {len(apart) - 1} other pairs)' if len(apart) > 1 else ''}: they were not used."
    ]


def listing(names: Iterable[str]) -> str:
    """`a, b and c`; of more than a few the first ones, and how many there are."""
    names = list(names)
    if len(names) > _NAMED + 1:
        return f"{len(names)} hosts ({', '.join(names[: _NAMED - 1])} and others)"
    return " and ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]])


def _count(clocks: Sequence[Clock]) -> str:
    fewest, most = min(clock.collectives for clock in clocks), max(clock.collectives for clock in clocks)
    if most == 1:
        return "1 shared collective"
    return f"{most if fewest == most else f'{fewest} to {most}'} shared collectives"


def _worst(clocks: Sequence[Clock]) -> str:
    return time(max(clock.residual_ps or 0 for clock in clocks))


def _offset(clock: Clock) -> str:
    shift = clock.shift_ps or 0
    return f"{time(abs(shift))} {'ahead of' if shift < 0 else 'behind'}"
