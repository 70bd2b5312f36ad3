"""Phases of an experiment: how long each took, what running together bought, and what it cost each device."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import categorical, frame
from tracekit.intervals import Intervals
from tracekit.timeline.rows import Rows, clock_of_hosts
from tracekit.timeline.timeline import Source, Timeline, timeline_of
from tracekit.trace import KIND_DTYPE
from tracekit.vocabulary.host_calls import of_any_call

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
Column = NDArray[np.int64]
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
    each round, reaching to the last end of the work begun or launched inside it.
    """

    table: pd.DataFrame
    stretch: pd.DataFrame
    rounds: pd.DataFrame
    windows: Mapping[str, Mapping[str, Intervals]]

    def __len__(self) -> int:
        """How many phases there are."""
        return len(self.table)

    def without_shares(self, reason: str) -> "Phases":
        """The phases without what rests on all of their work, with the `reason`; speedups and stretches do."""
        nulls = pd.array([pd.NA] * len(self.table), "Float64")
        table = self.table.assign(speedup=nulls, efficiency=nulls, reason=pd.array([reason] * len(self.table), "str"))
        return replace(self, table=table, stretch=self.stretch[:0])

    def inside(self, windows: Mapping[str, Intervals]) -> "Phases":
        """The phases all of whose rounds lie in `windows`, merged interval sets by clock; the others are left out."""

        def holds(rounds: Mapping[str, Intervals]) -> bool:
            lengths = [(iv.within(windows.get(clock, iv.EMPTY), of), of) for clock, of in rounds.items()]
            return all((inside == of[:, 1] - of[:, 0]).all() for inside, of in lengths)

        names = [name for name, rounds in self.windows.items() if holds(rounds)]
        table, stretch, rounds = (
            frame[frame["name"].isin(names)].reset_index(drop=True) for frame in (self.table, self.stretch, self.rounds)
        )
        return Phases(table, stretch, rounds, {name: self.windows[name] for name in names})

    @property
    def extent(self) -> tuple[int, int] | None:
        """From the first start to the last end of all windows, in ps; None without any."""
        return iv.span([window for by_clock in self.windows.values() for window in by_clock.values()])


@dataclass(frozen=True)
class _Phase:
    """All rounds of one name; `windows` reach to the last end of the work of the spans, both by clock.

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
        """The median wall time in ps, to the last end of its work; of several clocks the longest."""
        return max(float(np.median(reach[:, 1] - reach[:, 0])) for reach in self.windows.values())

    @property
    def late(self) -> int:
        """The median time in ps by which the windows are longer than the spans, of several clocks the longest."""
        return max(int(np.median(reach[:, 1] - self.spans[clock][:, 1])) for clock, reach in self.windows.items())

    @property
    def n(self) -> int:
        """How often it ran."""
        return max(map(len, self.spans.values()))


def phase_marks(
    spans: pd.DataFrame, extra: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None
) -> pd.DataFrame:
    """The spans that are phases: columns host, name, start_ps, end_ps, alone (tuple of names), baseline, by start.

    `tracekit.phase` marks its own. `extra` names annotations to take as phases too, all calls of an operator by its
    name alone (`aten::mm` of `aten::mm, op_id = 7`); `alone` or `baseline` then say what the last of them is compared
    with.
    """
    is_phase = (spans["tracekit"] == "phase").to_numpy(bool)
    if extra:
        plain = {name: of_any_call(name) for name in map(str, spans["name"].cat.categories)}
        called = [its if name not in extra and its in extra else name for name, its in plain.items()]
        spans = spans.assign(name=categorical(called, spans["name"].cat.codes.to_numpy().astype(np.int64)))
    is_named = spans["name"].isin(list(extra)).to_numpy(bool)
    phase_spans = spans[is_phase | is_named].sort_values("start_ps", kind="stable")
    names = phase_spans["name"].astype("str")
    is_last = names == extra[-1] if extra else pd.Series(False, index=phase_spans.index)
    texts = phase_spans[["alone", "baseline"]].astype(object).fillna("")
    return pd.DataFrame(
        {
            "host": phase_spans["host"].astype("str"),
            "name": names,
            "start_ps": phase_spans["start_ps"],
            "end_ps": phase_spans["end_ps"],
            "alone": [
                tuple(alone) if is_last_phase and alone else tuple(text.split(";")) if text else ()
                for text, is_last_phase in zip(texts["alone"], is_last, strict=True)
            ],
            "baseline": [
                baseline if is_last_phase and baseline else text or None
                for text, is_last_phase in zip(texts["baseline"], is_last, strict=True)
            ],
        }
    ).reset_index(drop=True)


def _rounds(phase_spans: pd.DataFrame, clocks: Mapping[str, str]) -> pd.DataFrame:
    """`phase_spans` with one row a round (ROUND_COLUMNS, alone, baseline), by start; `clocks` has the clock of every
    host.

    Where several hosts run a phase, each marks its own span of every round: the k-th spans of all hosts on one clock
    are one, from the first start to the last end. Where hosts marked a phase differently often, spans that overlap are
    one round.
    """
    only_clock = next(iter(clocks.values()), "") if len(set(clocks.values())) < 2 else None
    # Without device rows to compare it with, a host among unaligned ones stands apart.
    clock = phase_spans["host"].map(lambda host: clocks.get(host, host if only_clock is None else only_clock))
    rounds = []
    for (clock_name, name), spans in phase_spans.groupby([clock, phase_spans["name"]], sort=False):
        spans_by_host = [
            iv.intervals(host_spans["start_ps"], host_spans["end_ps"])
            for _, host_spans in spans.groupby("host", sort=False)
        ]
        if len(set(map(len, spans_by_host))) == 1:
            times = np.stack(spans_by_host)
            merged = np.column_stack([times[:, :, 0].min(axis=0), times[:, :, 1].max(axis=0)])
        else:
            merged = iv.union(*spans_by_host)
        last_span = spans.iloc[-1]
        rounds += [
            (clock_name, name, int(start), int(end), last_span["alone"], last_span["baseline"]) for start, end in merged
        ]
    table = pd.DataFrame(rounds, columns=[*ROUND_COLUMNS, "alone", "baseline"])
    return table.astype({"start_ps": "int64", "end_ps": "int64"}).sort_values(
        "start_ps", kind="stable", ignore_index=True
    )


def _windows(rounds: pd.DataFrame, rows: Rows, called: Column) -> dict[str, dict[str, Intervals]]:
    """The windows of each phase by name and clock, shape (n, 2) ps: each round, reaching to the last end of the work
    begun or launched inside it; `called` (n,): when each row was launched, or its start where that is not known."""
    windows: dict[str, dict[str, Intervals]] = {}
    for (name, clock_name), spans in rounds.groupby(["name", "clock"], sort=False):
        round_of = iv.intervals(spans["start_ps"], spans["end_ps"])
        reach = round_of.copy()
        for device in rows.on_clock(str(clock_name)):
            device_rows = rows.of(device)
            for moments in (rows.start[device_rows], called[device_rows]):
                order = np.argsort(moments, kind="stable")
                first_row, stop = np.searchsorted(moments[order], round_of).T
                # One more end, so that a round may begin after the last row; of an empty one this gives a row outside.
                ends = np.append(rows.end[device_rows][order], 0)
                last_end = np.maximum.reduceat(ends, np.column_stack([first_row, stop]).ravel())[::2]
                reach[:, 1] = np.maximum(reach[:, 1], np.where(first_row < stop, last_end, reach[:, 1]))
        windows.setdefault(str(name), {})[str(clock_name)] = reach
    return windows


def phases(
    source: Source, phases: Sequence[str] = (), alone: Sequence[str] = (), baseline: str | None = None
) -> Phases:
    """How long each phase took, and what running together bought.

    `tracekit.phase` marks phases; `phases` are annotations to take as phases too, and `alone` or `baseline` then say
    what the last of them is compared with. A repeated phase is one row with n and medians. With `alone`,
    speedup = sum of the solo walls / this wall; with `baseline`, baseline wall / this wall, and efficiency = speedup *
    baseline devices / devices. Walls reach to the last end of work begun or launched inside; `unfinished_ps` is how far
    that is past the span. Stretch = union here / sum of the unions in the solo phases, null unless the same ops ran
    equally often. What cannot be said is null with a `reason`.
    """
    timeline = timeline_of(source)
    marks = phase_marks(timeline.trace.spans, phases, alone, baseline)
    rounds = _rounds(marks, clock_of_hosts(timeline.rows))
    called = _called(timeline)
    windows = _windows(rounds, timeline.rows, called)
    phases_by_name = _measure(rounds, windows, timeline, called)
    table, stretches = [], []
    for name, phase in phases_by_name.items():
        compared = phase.alone or ((phase.baseline,) if phase.baseline else ())
        missing = [name_compared for name_compared in compared if name_compared not in phases_by_name]
        speedup = efficiency = reason = None
        if not compared:
            reason = "the phase names no other to be compared with"
        elif missing:
            reason = f"the trace holds no phase {missing[0]!r} to compare with"
        elif phase.wall == 0:
            reason = "the phase took no time"
        else:
            speedup = sum(phases_by_name[name_compared].wall for name_compared in compared) / phase.wall
            if phase.baseline and phase.devices and phases_by_name[phase.baseline].devices:
                efficiency = speedup * phases_by_name[phase.baseline].devices / phase.devices
        table.append(
            (
                name,
                phase.n,
                min(int(spans[0, 0]) for spans in phase.spans.values()),
                round(phase.wall),
                phase.late,
                phase.devices,
                ", ".join(compared) or None,
                speedup,
                efficiency,
                reason,
            )
        )
        solos = [phases_by_name[name_compared] for name_compared in phase.alone if name_compared in phases_by_name]
        stretches += [(name, *row) for row in _stretch(phase, solos)]
    return Phases(frame(PHASE_COLUMNS, table), frame(STRETCH_COLUMNS, stretches), frame(ROUND_COLUMNS, rounds), windows)


def _called(timeline: Timeline) -> Column:
    """When each row (n,) was launched, or its start where that is not known: by this it is of a phase that does not
    wait for its work."""
    launch, (call_starts, _) = timeline.timed_launch, timeline.call_times
    called = timeline.rows.start.copy()
    called[launch >= 0] = call_starts[launch[launch >= 0]]
    return called


def _measure(
    rounds: pd.DataFrame, windows: Mapping[str, Mapping[str, Intervals]], timeline: Timeline, called: Column
) -> dict[str, _Phase]:
    unions = timeline.unions
    devices = {**unions.devices, **unions.unplaced}
    measured = {}
    for name, reach in windows.items():
        phase_rounds = rounds[rounds["name"] == name]
        spans = {
            str(clock): iv.intervals(clock_rounds["start_ps"], clock_rounds["end_ps"])
            for clock, clock_rounds in phase_rounds.groupby("clock")
        }
        baseline = phase_rounds["baseline"].iloc[-1]
        busy = {
            (device, kind): int(np.median(iv.within(getattr(device_unions, kind), reach[device_unions.clock])))
            for device, device_unions in devices.items()
            if device_unions.clock in reach
            for kind in _KINDS
        }
        work = _work(timeline.rows, called, spans)
        if any(device_unions.clock in reach for device_unions in unions.unplaced.values()) and len(reach) == 1:
            everywhere = iv.union(
                *(device_unions.memory for device_unions in devices.values() if device_unions.clock in reach)
            )
            busy[ANY_DEVICE, "memory"] = int(np.median(iv.within(everywhere, *reach.values())))
            work[ANY_DEVICE, "memory"] = _add_counts(ops for (_, kind), ops in work.items() if kind == "memory")
        measured[name] = _Phase(
            spans=spans,
            windows=reach,
            alone=phase_rounds["alone"].iloc[-1],
            baseline=baseline if isinstance(baseline, str) else None,
            busy=busy,
            work=work,
            devices=len({device for (device, _), time in busy.items() if time and device in unions.devices}),
        )
    return measured


def _work(rows: Rows, called: Column, spans: Mapping[str, Intervals]) -> dict[tuple[str, str], dict[int, Fraction]]:
    """How often each op (a code of `name`) that was launched, or else began, in a round ran, by device and kind."""
    n = max(map(len, spans.values()))
    names, kinds = len(rows.labels("name")), len(_KINDS)
    op = rows.codes("name") * kinds + _KIND_OF[rows.kind]
    runs_by_op: dict[tuple[str, str], dict[int, Fraction]] = {}
    for clock, of_clock in spans.items():
        # Merged, so that what began in two rounds at once counts once.
        merged_spans = iv.union(of_clock)
        for device in rows.on_clock(clock):
            device_rows = rows.of(device)
            order = np.argsort(called[device_rows], kind="stable")
            row_ranges = np.searchsorted(called[device_rows][order], merged_spans).tolist()
            ops_run = np.concatenate([op[:0], *(op[device_rows][order][low:high] for low, high in row_ranges)])
            run_counts = np.bincount(ops_run, minlength=names * kinds)
            for key in np.flatnonzero(run_counts).tolist():
                name, kind = divmod(key, kinds)
                ops = runs_by_op.setdefault((rows.devices[device], _KINDS[kind]), {})
                ops[name] = Fraction(int(run_counts[key]), n)
    return runs_by_op


def _add_counts(count_maps: Iterable[Mapping[int, Fraction]]) -> dict[int, Fraction]:
    """The counts of all `count_maps`, added op by op."""
    sums: dict[int, Fraction] = {}
    for counts in count_maps:
        for op, count in counts.items():
            sums[op] = sums.get(op, Fraction(0)) + count
    return sums


def _stretch(
    phase: _Phase, solos: Sequence[_Phase]
) -> list[tuple[str, str, int, int | None, float | None, str | None]]:
    rows: list[tuple[str, str, int, int | None, float | None, str | None]] = []
    for (device, kind), busy_ps in phase.busy.items():
        if not busy_ps:
            continue
        alone_ps: int | None = None
        ratio: float | None = None
        reason: str | None = None
        if not solos:
            reason = "stretch compares with solo phases (alone=), and none is named"
        else:
            alone_ps = sum(solo.busy.get((device, kind), 0) for solo in solos)
            work = _add_counts(solo.work.get((device, kind), {}) for solo in solos)
            if work == phase.work.get((device, kind), {}) and alone_ps:
                ratio = busy_ps / alone_ps
            else:
                reason = "the work differs from that of the phases it is compared with"
        rows.append((device, kind, busy_ps, alone_ps, ratio, reason))
    return rows
