"""Phases of an experiment: how long each took, what running together bought, and what it cost each device."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from tracekit import intervals as iv
from tracekit.intervals import Intervals
from tracekit.trace import records
from tracekit.unions import unions

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
_KINDS = ("compute", "collective", "memory")
# Where copies stand on an unknown device, their stretch is told for all devices together.
ANY_DEVICE = "any device"


@dataclass(frozen=True)
class _Phase:
    """All spans of one name; `windows` reach to the last end of the work that began inside them.

    By device and kind: `busy` is the median union a round in ps, `work` how often each op ran a round.
    """

    spans: Intervals
    windows: Intervals
    alone: tuple[str, ...]
    baseline: str | None
    busy: Mapping[tuple[str, str], int]
    work: Mapping[tuple[str, str], Mapping[str, Fraction]]
    devices: int

    @property
    def wall(self) -> float:
        """The median wall time in ps, to the last end of the work begun inside."""
        return float(np.median(self.windows[:, 1] - self.windows[:, 0]))


def marked(
    spans: pd.DataFrame, extra: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None
) -> pd.DataFrame:
    """The spans that are phases: columns name, start_ps, end_ps, alone (tuple of names), baseline, by start.

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


def windows(phases: pd.DataFrame, events: pd.DataFrame) -> dict[str, Intervals]:
    """The windows of each phase name, shape (n, 2) ps: each span, reaching to the last end of the work begun inside
    it."""
    order = np.argsort(events["start_ps"].to_numpy(), kind="stable")
    starts, ends = events["start_ps"].to_numpy()[order], events["end_ps"].to_numpy()[order]
    found = {}
    for name, spans in phases.groupby("name", sort=False):
        reach = []
        for start, end in zip(spans["start_ps"], spans["end_ps"], strict=True):
            first, last = np.searchsorted(starts, [start, end])
            reach.append((start, max(end, int(ends[first:last].max(initial=end)))))
        found[str(name)] = np.array(reach, np.int64)
    return found


def phases(marked: pd.DataFrame, events: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Wall, speedup and efficiency per phase (PHASE_COLUMNS); busy time and stretch per device and kind
    (STRETCH_COLUMNS).

    `marked` is what the function of that name gives. A repeated phase is one row with n and medians. With `alone`,
    speedup = sum of the solo walls / this wall; with `baseline`, baseline wall / this wall, and efficiency = speedup *
    baseline devices / devices. Walls reach to the last end of work begun inside; `unfinished_ps` is how far that is
    past the span. Stretch = union here / sum of the unions in the solo phases, null unless the same ops ran
    equally often. What cannot be said is null with a `reason`.
    """
    known = _measured(marked, events)
    rows, stretches = [], []
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
        late = phase.windows[:, 1] - phase.spans[:, 1]
        rows.append(
            (
                name,
                len(phase.spans),
                int(phase.spans[0, 0]),
                round(phase.wall),
                int(np.median(late)),
                phase.devices,
                ", ".join(others) or None,
                speedup,
                efficiency,
                reason,
            )
        )
        solos = [known[other] for other in phase.alone if other in known]
        stretches += [(name, *row) for row in _stretch(phase, solos)]
    return (
        pd.DataFrame(rows, columns=list(PHASE_COLUMNS)).astype(PHASE_COLUMNS),
        pd.DataFrame(stretches, columns=list(STRETCH_COLUMNS)).astype(STRETCH_COLUMNS),
    )


def _measured(marked: pd.DataFrame, events: pd.DataFrame) -> dict[str, _Phase]:
    seen = unions(events)
    starts = events["start_ps"].to_numpy()
    found = {}
    for name, reach in windows(marked, events).items():
        spans = marked[marked["name"] == name]
        begun = np.zeros(len(events), bool)
        for start, end in zip(spans["start_ps"], spans["end_ps"], strict=True):
            begun |= (starts >= start) & (starts < end)
        baseline = spans["baseline"].iloc[-1]
        busy = {
            (device, kind): int(np.median(iv.within(getattr(one, kind), reach)))
            for device, one in {**seen.devices, **seen.unplaced}.items()
            for kind in _KINDS
        }
        work = _work(events[begun], len(reach))
        if seen.unplaced:
            everywhere = iv.union(*(one.memory for one in (*seen.devices.values(), *seen.unplaced.values())))
            busy[ANY_DEVICE, "memory"] = int(np.median(iv.within(everywhere, reach)))
            work[ANY_DEVICE, "memory"] = _added(ops for (_, kind), ops in work.items() if kind == "memory")
        found[name] = _Phase(
            spans=iv.intervals(spans["start_ps"], spans["end_ps"]),
            windows=reach,
            alone=spans["alone"].iloc[-1],
            baseline=baseline if isinstance(baseline, str) else None,
            busy=busy,
            work=work,
            devices=len({device for (device, _), time in busy.items() if time and device in seen.devices}),
        )
    return found


def _work(rows: pd.DataFrame, rounds: int) -> dict[tuple[str, str], dict[str, Fraction]]:
    """How often each op ran a round, by device and kind."""
    found: dict[tuple[str, str], dict[str, Fraction]] = {}
    counts = rows.groupby(["device", "kind", "name"], observed=True).size().reset_index(name="n")
    for row in records(counts):
        kind = row["kind"] if row["kind"] in _KINDS else "memory"
        ops = found.setdefault((row["device"], kind), {})
        ops[row["name"]] = ops.get(row["name"], Fraction(0)) + Fraction(row["n"], rounds)
    return found


def _added(parts: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    """The counts of all `parts`, added op by op."""
    found: dict[str, Fraction] = {}
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
