"""Phases of an experiment: how long each took, what running together bought, and what it cost each device."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.columns import frame
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.trace import KIND_DTYPE

PHASE_COLUMNS = {
    "name": "str",
    "n": "int64",
    "start_ps": "int64",
    "wall_ps": "int64",
    "unfinished_ps": "int64",
    "devices": "int64",
    "compared_with": "str",
    "speedup": "Float64",
    "efficiency": "Float64",
    "reason": "str",
}
STRETCH_COLUMNS = {
    "name": "str",
    "device": "str",
    "kind": "str",
    "busy_ps": "int64",
    "alone_ps": "Int64",
    "stretch": "Float64",
    "reason": "str",
}
ROUND_COLUMNS = {"clock": "str", "name": "str", "start_ps": "int64", "end_ps": "int64"}
_KINDS = ("compute", "collective", "memory")
# The place in _KINDS of each code of a row's kind.
_KIND_OF = np.array([_KINDS.index(kind if kind in _KINDS else "memory") for kind in KIND_DTYPE.categories])
# Where copies stand on an unknown device, their stretch is told for all devices together.
ANY_DEVICE = "any device"


@dataclass(frozen=True)
class Phases:
    """The phases of a trace; none if nothing marks any.

    `table` (PHASE_COLUMNS): wall, speedup and efficiency of each. `stretch` (STRETCH_COLUMNS): busy time and stretch by
    device and kind. `rounds` (ROUND_COLUMNS): one row a round, by start. `windows`: by name and clock, shape (n, 2) ps,
    each round, reaching to the last end of the work begun inside it.
    """

    table: pd.DataFrame
    stretch: pd.DataFrame
    rounds: pd.DataFrame
    windows: Mapping[str, Mapping[str, Intervals]]


@dataclass(frozen=True)
class _Phase:
    """All rounds of one name; `windows` reach to the last end of the work that began inside the spans, both by clock.

    By device and kind: `busy` is the median union a round in ps, `work` how often each op ran a round.
    """

    spans: Mapping[str, Intervals]
    windows: Mapping[str, Intervals]
    alone: tuple[str, ...]
    baseline: str | None
    busy: Mapping[tuple[str, str], int]
    work: Mapping[tuple[str, str], Mapping[int, Fraction]]
    devices: int

    @property
    def wall(self) -> float:
        """The median wall time in ps, to the last end of the work begun inside; of several clocks the longest."""
        return max(float(np.median(reach[:, 1] - reach[:, 0])) for reach in self.windows.values())

    @property
    def late(self) -> int:
        """The median time in ps by which the windows are longer than the spans, of several clocks the longest."""
        return max(int(np.median(reach[:, 1] - self.spans[clock][:, 1])) for clock, reach in self.windows.items())

    @property
    def n(self) -> int:
        """How often it ran."""
        return max(map(len, self.spans.values()))


def marked(
    spans: pd.DataFrame, extra: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None
) -> pd.DataFrame:
    """The spans that are phases: columns host, name, start_ps, end_ps, alone (tuple of names), baseline, by start.

    `tracekit.phase` marks its own. `extra` names annotations to take as phases too; `alone` or `baseline` then say what
    the last of them is compared with.
    """
    own = (spans["tracekit"] == "phase").to_numpy(bool)
    named = spans["name"].isin(list(extra)).to_numpy(bool)
    found = spans[own | named].sort_values("start_ps", kind="stable")
    names = found["name"].astype("str")
    last = names == extra[-1] if extra else pd.Series(False, index=found.index)
    return pd.DataFrame(
        {
            "host": found["host"].astype("str"),
            "name": names,
            "start_ps": found["start_ps"],
            "end_ps": found["end_ps"],
            "alone": [
                tuple(alone) if given and alone else tuple(text.split(";")) if isinstance(text, str) and text else ()
                for text, given in zip(found["alone"], last, strict=True)
            ],
            "baseline": [
                baseline if given and baseline else text if isinstance(text, str) and text else None
                for text, given in zip(found["baseline"], last, strict=True)
            ],
        }
    ).reset_index(drop=True)


def _rounds(marked: pd.DataFrame, clocks: Mapping[str, str]) -> pd.DataFrame:
    """`marked` with one row a round (ROUND_COLUMNS, alone, baseline), by start; `clocks` has the clock of every host.

    Where several hosts run a phase, each marks its own span of every round: the k-th spans of all hosts on one clock
    are one, from the first start to the last end. Where hosts marked a phase differently often, spans that overlap are
    one round.
    """
    only = next(iter(clocks.values()), "") if len(set(clocks.values())) < 2 else None
    # Without device rows to compare it with, a host among unaligned ones stands apart.
    clock = marked["host"].map(lambda host: clocks.get(host, host if only is None else only))
    found = []
    for (on, name), spans in marked.groupby([clock, marked["name"]], sort=False):
        each = [iv.intervals(one["start_ps"], one["end_ps"]) for _, one in spans.groupby("host", sort=False)]
        if len(each) > 1:
            same = len({len(one) for one in each}) == 1
            joined = (
                np.column_stack(
                    [np.min([one[:, 0] for one in each], axis=0), np.max([one[:, 1] for one in each], axis=0)]
                )
                if same
                else iv.union(*each)
            )
        else:
            joined = each[0]
        last = spans.iloc[-1]
        found += [(on, name, int(start), int(end), last["alone"], last["baseline"]) for start, end in joined]
    table = pd.DataFrame(found, columns=[*ROUND_COLUMNS, "alone", "baseline"])
    return table.astype({"start_ps": "int64", "end_ps": "int64"}).sort_values(
        "start_ps", kind="stable", ignore_index=True
    )


def _windows(rounds: pd.DataFrame, rows: Rows) -> dict[str, dict[str, Intervals]]:
    """The windows of each phase by name and clock, shape (n, 2) ps: each round, reaching to the last end of the work
    begun inside it."""
    found: dict[str, dict[str, Intervals]] = {}
    for (name, on), spans in rounds.groupby(["name", "clock"], sort=False):
        round_of = iv.intervals(spans["start_ps"], spans["end_ps"])
        reach = round_of.copy()
        for device in _on_clock(rows, str(on)):
            mine = rows.of(device)
            first, stop = np.searchsorted(rows.start[mine], round_of).T
            # One more end, so that a round may begin after the last row; of an empty one this gives a row outside it.
            ends = np.append(rows.end[mine], 0)
            last = np.maximum.reduceat(ends, np.column_stack([first, stop]).ravel())[::2]
            reach[:, 1] = np.maximum(reach[:, 1], np.where(first < stop, last, reach[:, 1]))
        found.setdefault(str(name), {})[str(on)] = reach
    return found


def _on_clock(rows: Rows, clock: str) -> list[int]:
    return [device for device, on in enumerate(rows.clocks) if on == clock]


def phases(source: Source, names: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None) -> Phases:
    """How long each phase took, and what running together bought.

    `tracekit.phase` marks phases; `names` are annotations to take as phases too, and `alone` or `baseline` then say
    what the last of them is compared with. A repeated phase is one row with n and medians. With `alone`,
    speedup = sum of the solo walls / this wall; with `baseline`, baseline wall / this wall, and efficiency = speedup *
    baseline devices / devices. Walls reach to the last end of work begun inside; `unfinished_ps` is how far that is
    past the span. Stretch = union here / sum of the unions in the solo phases, null unless the same ops ran
    equally often. What cannot be said is null with a `reason`.
    """
    timeline = timeline_of(source)
    marks = marked(timeline.trace.spans, names, alone, baseline)
    rounds = _rounds(marks, dict(zip(timeline.rows.hosts, timeline.rows.clocks, strict=True)))
    windows = _windows(rounds, timeline.rows)
    known = _measured(rounds, windows, timeline)
    table, stretches = [], []
    for name, phase in known.items():
        others = phase.alone or ((phase.baseline,) if phase.baseline else ())
        missing = [other for other in others if other not in known]
        speedup = efficiency = reason = None
        if not others:
            reason = "the phase names no other to be compared with"
        elif missing:
            reason = f"the trace holds no phase {missing[0]!r} to compare with"
        elif phase.wall == 0:
            reason = "the phase took no time"
        else:
            speedup = sum(known[other].wall for other in others) / phase.wall
            if phase.baseline and phase.devices and known[phase.baseline].devices:
                efficiency = speedup * known[phase.baseline].devices / phase.devices
        table.append(
            (
                name,
                phase.n,
                min(int(spans[0, 0]) for spans in phase.spans.values()),
                round(phase.wall),
                phase.late,
                phase.devices,
                ", ".join(others) or None,
                speedup,
                efficiency,
                reason,
            )
        )
        solos = [known[other] for other in phase.alone if other in known]
        stretches += [(name, *row) for row in _stretch(phase, solos)]
    return Phases(frame(PHASE_COLUMNS, table), frame(STRETCH_COLUMNS, stretches), frame(ROUND_COLUMNS, rounds), windows)


def _measured(
    rounds: pd.DataFrame, windows: Mapping[str, Mapping[str, Intervals]], timeline: Timeline
) -> dict[str, _Phase]:
    seen = timeline.unions
    devices = {**seen.devices, **seen.unplaced}
    found = {}
    for name, reach in windows.items():
        mine = rounds[rounds["name"] == name]
        spans = {str(clock): iv.intervals(one["start_ps"], one["end_ps"]) for clock, one in mine.groupby("clock")}
        baseline = mine["baseline"].iloc[-1]
        busy = {
            (device, kind): int(np.median(iv.within(getattr(one, kind), reach[one.clock])))
            for device, one in devices.items()
            if one.clock in reach
            for kind in _KINDS
        }
        work = _work(timeline.rows, spans)
        if any(one.clock in reach for one in seen.unplaced.values()) and len(reach) == 1:
            everywhere = iv.union(*(one.memory for one in devices.values() if one.clock in reach))
            busy[ANY_DEVICE, "memory"] = int(np.median(iv.within(everywhere, *reach.values())))
            work[ANY_DEVICE, "memory"] = _added(ops for (_, kind), ops in work.items() if kind == "memory")
        found[name] = _Phase(
            spans=spans,
            windows=reach,
            alone=mine["alone"].iloc[-1],
            baseline=baseline if isinstance(baseline, str) else None,
            busy=busy,
            work=work,
            devices=len({device for (device, _), time in busy.items() if time and device in seen.devices}),
        )
    return found


def _work(rows: Rows, spans: Mapping[str, Intervals]) -> dict[tuple[str, str], dict[int, Fraction]]:
    """How often each op (a code of `name`) ran a round, by device and kind."""
    n = max(map(len, spans.values()))
    names, kinds = len(rows.labels("name")), len(_KINDS)
    op = rows.codes("name") * kinds + _KIND_OF[rows.kind]
    found: dict[tuple[str, str], dict[int, Fraction]] = {}
    for clock, of_clock in spans.items():
        # Merged, so that what began in two rounds at once counts once.
        begun = iv.union(of_clock)
        for device in _on_clock(rows, clock):
            mine = rows.of(device)
            parts = np.searchsorted(rows.start[mine], begun).tolist()
            ran = np.concatenate([op[:0], *(op[mine][first:stop] for first, stop in parts)])
            counts = np.bincount(ran, minlength=names * kinds)
            for one in np.flatnonzero(counts).tolist():
                name, kind = divmod(one, kinds)
                ops = found.setdefault((rows.devices[device], _KINDS[kind]), {})
                ops[name] = Fraction(int(counts[one]), n)
    return found


def _added(parts: Iterable[Mapping[int, Fraction]]) -> dict[int, Fraction]:
    """The counts of all `parts`, added op by op."""
    found: dict[int, Fraction] = {}
    for part in parts:
        for op, count in part.items():
            found[op] = found.get(op, Fraction(0)) + count
    return found


def _stretch(
    phase: _Phase, solos: Sequence[_Phase]
) -> list[tuple[str, str, int, int | None, float | None, str | None]]:
    rows: list[tuple[str, str, int, int | None, float | None, str | None]] = []
    for (device, kind), here in phase.busy.items():
        if not here:
            continue
        apart: int | None = None
        ratio: float | None = None
        reason: str | None = None
        if not solos:
            reason = "stretch compares with solo phases (alone=), and none is named"
        else:
            apart = sum(solo.busy.get((device, kind), 0) for solo in solos)
            work = _added(solo.work.get((device, kind), {}) for solo in solos)
            if work == phase.work.get((device, kind), {}) and apart:
                ratio = here / apart
            else:
                reason = "the work differs from that of the phases it is compared with"
        rows.append((device, kind, here, apart, ratio, reason))
    return rows
