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
    """The spans that are phases, by start: columns host, process ("" where that is not told), name, start_ps, end_ps,
    alone (tuple of names), baseline.

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
            "process": phase_spans["process"].astype(object).fillna(""),
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


def _in_rounds(phase_spans: pd.DataFrame, clocks: Mapping[str, str]) -> pd.DataFrame:
    """`phase_spans` with the `clock` of each and the number of its `round` among those of its name and clock; `clocks`
    has the clock of every host.

    Where several hosts, or processes of one, run a phase, each marks its own span of every round: the k-th spans of all
    on one clock are one. Where they marked a phase differently often, or the processes of a host one after the other,
    spans that overlap are one round.
    """
    only_clock = next(iter(clocks.values()), "") if len(set(clocks.values())) < 2 else None
    # Without device rows to compare it with, a host among unaligned ones stands apart.
    clock = phase_spans["host"].map(lambda host: clocks.get(host, host if only_clock is None else only_clock))
    marks = phase_spans.assign(clock=clock, round=0)
    number = marks["round"].to_numpy().copy()
    for _, places in marks.groupby(["clock", "name"], sort=False).indices.items():
        number[places] = _round_of(marks.iloc[places])
    return marks.assign(round=number)


def _round_of(marks: pd.DataFrame) -> Column:
    """The number of the round of each of the marks (k,) of one phase on one clock, which stand by start."""
    by_process = marks.groupby(["host", "process"], sort=False)
    often, turn = by_process["name"].transform("size").to_numpy(), np.asarray(by_process.cumcount(), np.int64)
    if (often == often[0]).all() and _side_by_side(marks, turn):
        return turn
    number = np.empty(len(marks), np.int64)
    start, end = (marks[edge].to_numpy() for edge in ("start_ps", "end_ps"))
    by_start = np.lexsort((end, start))
    reach = np.maximum.accumulate(end[by_start])
    number[by_start] = np.cumsum(np.append(False, start[by_start][1:] > reach[:-1]))
    return number


def _side_by_side(marks: pd.DataFrame, turn: Column) -> bool:
    """Whether the processes of each host ran the rounds of a phase, `turn` (k,) by turn, beside each other: all had
    begun one before any began the next, and if there is but one, before any was done."""
    processes = marks.groupby("host", sort=False)["process"].transform("nunique").to_numpy()
    if not (several := processes > 1).any():
        return True
    its = marks[several].groupby(["host", turn[several]], sort=True)
    first_start, last_start, first_end = its["start_ps"].min(), its["start_ps"].max(), its["end_ps"].min()
    if turn[several].max() == 0:
        return bool((last_start < first_end).all())
    before = last_start.groupby(level=0).shift()
    return bool((before.isna() | (before <= first_start)).all())


def _rounds(marks: pd.DataFrame) -> pd.DataFrame:
    """One row a round (ROUND_COLUMNS, alone, baseline), by start, of `marks` in rounds: from the first start of those
    of it to the last end."""
    keys = ["clock", "name"]
    rounds = marks.groupby([*keys, "round"], sort=False).agg({"start_ps": "min", "end_ps": "max"}).reset_index()
    last = marks.drop_duplicates(keys, keep="last").set_index(keys)
    about = pd.MultiIndex.from_frame(rounds[keys])
    rounds = rounds.assign(
        alone=last["alone"].reindex(about).to_numpy(), baseline=last["baseline"].reindex(about).to_numpy()
    )
    table = rounds[[*ROUND_COLUMNS, "alone", "baseline"]].astype({"start_ps": "int64", "end_ps": "int64"})
    return table.sort_values("start_ps", kind="stable", ignore_index=True)


# The processes that launch the rows of devices: host and process, "" where that is not told, None for any of its host.
_Owner = tuple[str, str | None]


@dataclass(frozen=True)
class _Owned:
    """The n rows of a trace: when each was `called` (n,), which is by what it is of a phase that does not wait for its
    work, and which of the `owners` launched it (n,). A row without a launch is its device's, if one process launches
    there, or else its host's."""

    rows: Rows
    called: Column
    owner: Column
    owners: Sequence[_Owner]

    def of(self, device: int) -> list[tuple[_Owner, Column]]:
        """The owners of the rows of a device, and the places of the rows of each."""
        rows = self.rows.of(device)
        own = self.owner[rows]
        return [(self.owners[number], rows.start + np.flatnonzero(own == number)) for number in np.unique(own).tolist()]


def _owned(timeline: Timeline) -> _Owned:
    """The rows of a timeline with when they were called and by whom."""
    rows, launch, timed = timeline.rows, timeline.launch, timeline.timed_launch
    called = rows.start.copy()
    called[timed >= 0] = timeline.call_times[0][timed[timed >= 0]]
    is_launched = launch >= 0
    calls = timeline.trace.launches
    host, process = calls["host"].cat, calls["process"].cat
    names = [*map(str, process.categories), ""]
    pair = host.codes.to_numpy().astype(np.int64) * len(names) + process.codes.to_numpy() % len(names)
    pairs, number = np.unique(pair, return_inverse=True)
    owners: list[_Owner] = [
        (str(host.categories[code // len(names)]), names[code % len(names)]) for code in pairs.tolist()
    ]
    owner = np.full(len(rows), -1)
    owner[is_launched] = number[launch[is_launched]]
    for device, name in enumerate(rows.hosts):
        own = owner[rows.of(device)]
        launching = np.unique(own[own >= 0])
        if len(launching) != 1:
            owners.append((name, None))
        own[own < 0] = launching[0] if len(launching) == 1 else len(owners) - 1
    return _Owned(rows, called, owner, owners)


@dataclass(frozen=True)
class _Marked:
    """The n rounds of one phase on one clock: `hull` (n, 2) is from the first start of those who marked it to the last
    end; `own` by who marked it (n, 2), empty in rounds that it did not mark."""

    hull: Intervals
    own: Mapping[_Owner, Intervals]

    def of(self, owner: _Owner) -> Intervals:
        """The rounds by the marks of an owner of rows, else by those of its host, else by those of all."""
        return self.own.get(owner, self.own.get((owner[0], None), self.hull))


def _marked(marks: pd.DataFrame) -> dict[str, dict[str, _Marked]]:
    """The rounds of each phase by name and clock."""
    marked: dict[str, dict[str, _Marked]] = {}
    for (name, clock), its in marks.groupby(["name", "clock"], sort=False):
        hull = its.groupby("round").agg({"start_ps": "min", "end_ps": "max"}).sort_values("start_ps", kind="stable")
        own: dict[_Owner, Intervals] = {}
        for keys in (["host", "process"], ["host"]):
            for key, of_owner in its.groupby(keys, sort=False):
                times = of_owner.groupby("round").agg({"start_ps": "min", "end_ps": "max"}).reindex(hull.index)
                missing = hull["start_ps"]
                edges = (times[edge].fillna(missing).astype("int64") for edge in ("start_ps", "end_ps"))
                own[str(key[0]), None if len(key) == 1 else str(key[1])] = iv.intervals(*edges)
        marked.setdefault(str(name), {})[str(clock)] = _Marked(hull.to_numpy(np.int64), own)
    return marked


def _windows(marked: Mapping[str, Mapping[str, _Marked]], owned: _Owned) -> dict[str, dict[str, Intervals]]:
    """The windows of each phase by name and clock, shape (n, 2) ps: each round, reaching to the last end of the work
    that began or was launched inside it, by the marks of the process that launched it: one that is done with its round
    may begin what comes next while others are not."""
    windows: dict[str, dict[str, Intervals]] = {}
    rows = owned.rows
    for name, by_clock in marked.items():
        for clock, rounds in by_clock.items():
            reach = rounds.hull.copy()
            for device in rows.on_clock(clock):
                for owner, places in owned.of(device):
                    own = rounds.of(owner)
                    for moments in (rows.start[places], owned.called[places]):
                        order = np.argsort(moments, kind="stable")
                        first_row, stop = np.searchsorted(moments[order], own).T
                        # One more end, so that a round may begin after the last row; of an empty one this gives a row
                        # outside.
                        ends = np.append(rows.end[places][order], 0)
                        last_end = np.maximum.reduceat(ends, np.column_stack([first_row, stop]).ravel())[::2]
                        reach[:, 1] = np.maximum(reach[:, 1], np.where(first_row < stop, last_end, reach[:, 1]))
            windows.setdefault(name, {})[clock] = reach
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
    if not len(marks):
        return Phases(frame(PHASE_COLUMNS), frame(STRETCH_COLUMNS), frame(ROUND_COLUMNS), {})
    marks = _in_rounds(marks, clock_of_hosts(timeline.rows))
    rounds, marked, owned = _rounds(marks), _marked(marks), _owned(timeline)
    windows = _windows(marked, owned)
    phases_by_name = _measure(rounds, windows, timeline, marked, owned)
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


def _measure(
    rounds: pd.DataFrame,
    windows: Mapping[str, Mapping[str, Intervals]],
    timeline: Timeline,
    marked: Mapping[str, Mapping[str, _Marked]],
    owned: _Owned,
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
        work = _work(marked[name], owned)
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


def _work(marked: Mapping[str, _Marked], owned: _Owned) -> dict[tuple[str, str], dict[int, Fraction]]:
    """How often each op (a code of `name`) that was launched, or else began, in a round ran, by device and kind."""
    rows = owned.rows
    n = max(len(rounds.hull) for rounds in marked.values())
    names, kinds = len(rows.labels("name")), len(_KINDS)
    op = rows.codes("name") * kinds + _KIND_OF[rows.kind]
    runs_by_op: dict[tuple[str, str], dict[int, Fraction]] = {}
    for clock, rounds in marked.items():
        for device in rows.on_clock(clock):
            ops_run = [op[:0]]
            for owner, places in owned.of(device):
                called = owned.called[places]
                order = np.argsort(called, kind="stable")
                # Merged, so that what began in two rounds at once counts once.
                row_ranges = np.searchsorted(called[order], iv.union(rounds.of(owner))).tolist()
                ops_run += [op[places[order[low:high]]] for low, high in row_ranges]
            run_counts = np.bincount(np.concatenate(ops_run), minlength=names * kinds)
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
