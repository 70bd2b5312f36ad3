"""Findings: what costs time, by figures that passed a threshold. Each rule is one function; the report has the words.

The thresholds are choices, not measurements: below them a finding is seldom worth a change of a program.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit import notebook
from tracekit.analysis import overlap
from tracekit.analysis.collectives import Collectives
from tracekit.analysis.critical_path.critical_path import CriticalPath
from tracekit.analysis.critical_path.what_if import Removed
from tracekit.analysis.explain import Explanation
from tracekit.analysis.host_api import HostApi, launches_ahead
from tracekit.analysis.idle import Cause, Idle
from tracekit.analysis.late_launches import LateLaunches, late_launches
from tracekit.analysis.machine import Machine
from tracekit.analysis.overlap import Breakdown
from tracekit.analysis.phases import Phases
from tracekit.analysis.program import Program, graphs_turned_off, in_loops, program
from tracekit.analysis.slow_groups import slow_group_of
from tracekit.analysis.slower_steps import slower_steps
from tracekit.analysis.steps import ALL_DEVICES, PARTS, Steps
from tracekit.analysis.stragglers import worst
from tracekit.columns import records, rising
from tracekit.devices import type_of
from tracekit.timeline.instances import Unseen
from tracekit.timeline.rows import CODE, FEWEST_MOVES, Rows
from tracekit.timeline.timeline import Timeline, why_unseen
from tracekit.timeline.unions import COLLECTIVE, COMPUTE
from tracekit.units import quantity
from tracekit.vocabulary.copies import host_memory
from tracekit.vocabulary.kinds import Kind

# Shares of the devices' windows from which on a finding is told.
EXPOSED_COLLECTIVES = 0.10
EXPOSED_COPIES = 0.05
# Copies of which less could hide behind the compute that no copy runs beside, and of the window less than
# EXPOSED_COPIES, lack compute, not an earlier start.
HIDEABLE = 0.5
LATE_PEER = 0.05
WAITING = 0.05
# Devices that compute so many times as long as the others hold them up where they meet.
BUSIER = 1.2
SLOW_LINK = 0.05
SLOWER_STEPS = 0.02
# By cause of idle time (analysis.idle) the rule's name and its share.
IDLE = {
    "host-bound": ("host_bound", 0.10),
    "input pipeline": ("input_bound", 0.05),
    "compiling": ("compiling", 0.05),
    "launch latency": ("launch_latency", 0.05),
    "waiting for a copy": ("waits_for_copies", 0.05),
    "waiting for a collective or another device": ("uneven_work", 0.05),
}
# Shares of the copies' exposed time.
IN_COMPUTE_LANE = 0.5
# Where a stream has less of the compute, its copies may hide behind that of others.
ALONE = 0.8
PAGEABLE = 0.5
UNIFIED_MEMORY = 0.05
# The memory of the host that so much of the exposed time of a direction's copies goes through is theirs.
MOST_OF_COPIES = 2 / 3
# A phase must pass both: at once, and yet slowed down.
CONTENDED_OVERLAP = 0.9
CONTENDED_STRETCH = 1.25
# Devices that overlap less take turns, if each works for this share of the time of the busiest, and if at once they
# would all be done so much sooner.
TURNS_OVERLAP = 0.1
TURNS_BUSY = 0.2
TURNS_LOST = 0.1
# Devices that are busy at once for so much of the shorter busy time work together, and may take turns with others.
TOGETHER = 0.5
# Devices that know nothing of each other work at once by chance; those that take turns less than this part of that.
_OF_CHANCE = 0.5
_LOAD = ("cores", "other_cores", "stolen_cores")
_NEVER_ON_CPU = ("exposed_collectives",)
# Without which work steps would be shorter where a rule's cost is one, and what part of its share that is at least.
_REMOVED = {
    "exposed_collectives": Removed.COLLECTIVES.value,
    **dict.fromkeys(("exposed_copies", "copies_in_compute_lane", "pageable_copies"), Removed.COPIES.value),
}
HARDLY = 0.25


@dataclass(frozen=True)
class Finding:
    """One finding; `rule` says which.

    `cost_ps` is the time it stands for, summed over the devices, and `share` that of the sum of their windows; both
    None where it stands for no time. `evidence` has the figures that passed the threshold and what the words need.
    """

    rule: str
    cost_ps: int | None
    share: float | None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Advice:
    """The `findings`, the costliest first, and what they are about.

    `backend` is "gpu", "tpu", "cpu" or "" for a mixture; `xla` tells whether XLA compiled the program; `program` which
    framework it is written in, and what it does already.
    """

    findings: tuple[Finding, ...]
    backend: str
    xla: bool
    program: Program = field(default_factory=Program)

    def __repr__(self) -> str:
        return notebook.line(self, ", ".join(finding.rule for finding in self.findings) or "no finding")

    def _repr_html_(self) -> str:
        rows = [
            [
                finding.rule,
                notebook.cell("cost_ps", finding.cost_ps),
                notebook.cell("share", finding.share),
                ", ".join(f"{name} {notebook.cell(name, value)}" for name, value in finding.evidence.items()),
            ]
            for finding in self.findings
        ]
        summary = quantity(len(rows), "finding")
        table = notebook.table("", ["rule", "cost_ps", "share", "evidence"], rows, [False, True, True, False])
        return notebook.block(notebook.heading("Advice", summary), table if rows else "")


def advice(
    timeline: Timeline,
    why: Explanation,
    whole: Breakdown,
    phases: Phases,
    inside: Mapping[str, Breakdown],
    around: Finding | None = None,
) -> Advice:
    """What every rule says of a timeline: that of the compared phases, or of the steady steps, or of the whole trace.

    `why` is its explanation, `whole` what ran in the whole trace, or in the steady steps, and `inside` what ran in each
    phase. `around` is a finding on what ran around the timeline.
    """
    if why.completeness.rows:
        return by_cost(timeline, [])
    cells = whole.partition
    if timeline.windows is not None and inside:
        # A device that does nothing in any compared phase is not what they compare.
        cells = overlap.partition(timeline)
        cells = cells[cells["device"].isin(timeline.rows.devices)]
    with ThreadPoolExecutor(1) as aside:  # what asks for the host takes as long as what asks for copies
        causes = aside.submit(idle_causes, timeline, cells, why.idle, why.host_api)
        findings = [
            exposed := exposed_collectives(cells, why.collectives, why_unseen(timeline)),
            late := late_peer(cells, why.collectives),
            None if exposed or late else waiting(cells, why.collectives),
            slow_link(cells, why.collectives, late),
            exposed_copies(timeline, cells),
            # Before streams: on any stream, copies of pageable memory block the host.
            pageable_copies(timeline, cells),
            copies_in_compute_lane(timeline, cells),
            unified_memory(timeline, cells),
            *causes.result(),
            slowing_down(cells, why.steps),
            busy_machine(why.machine),
            *contention(phases, inside, why.machine),
            *turns_of(timeline, cells, whole, phases, inside),
            around,
        ]
    found = [_with_gain(finding, why.critical_path) for finding in findings if finding]
    return by_cost(timeline, found, program(timeline, cells))


def _with_gain(finding: Finding, path: CriticalPath) -> Finding:
    """The finding, and if steps would hardly be shorter without what it is about, by which share of them: work that
    holds nothing up is exposed where what does hold them up, as the host, runs beside it."""
    what = _REMOVED.get(finding.rule)
    rows = path.what_if[(path.what_if["what"] == what) & path.what_if["predicted_ps"].notna()]
    if what is None or not len(rows):
        return finding
    gain = max(1 - float(rows["predicted_ps"].iloc[0] / rows["measured_ps"].iloc[0]), 0.0)
    if gain >= HARDLY * (finding.share or 0.0):
        return finding
    return replace(finding, evidence={**finding.evidence, "gain_ratio": gain})


def by_cost(timeline: Timeline, findings: Sequence[Finding], what_runs: Program | None = None) -> Advice:
    """The findings in order of cost, for the devices and the compiler that the timeline shows.

    On CPU devices it is XLA's choice whether anything computes beside a collective, seldom yes: no finding says that it
    should.
    """
    rows = timeline.rows
    backends = {type_of(device) for device in rows.devices}
    backend = backends.pop() if len(backends) == 1 else ""
    relevant = [finding for finding in findings if backend != "cpu" or finding.rule not in _NEVER_ON_CPU]
    # On a busy machine, every other finding may be of that; what is done once is no loss of a longer run, and what
    # holds nothing up is none at all.
    relevant.sort(
        key=lambda finding: (
            finding.rule != "busy_machine",
            finding.evidence.get("again") == [],
            "gain_ratio" in finding.evidence,
            -(finding.cost_ps or 0),
        )
    )
    is_xla = bool((rows.codes("hlo_op") >= 0).any())
    return Advice(tuple(relevant), backend, is_xla, Program() if what_runs is None else what_runs)


def exposed_collectives(
    partition: pd.DataFrame, collectives: Collectives, cause: Unseen | None = None
) -> Finding | None:
    """Collectives beside which nothing computed; not where most of that was waiting for a peer. Where it is not known
    what was waiting, `cause` tells why."""
    exposed = partition[["collective", "collective+memory"]].sum(axis=1)
    cost, share = _cost(exposed, partition)
    waited_ps = sum(map(int, collectives.total["exposed_wait_ps"].dropna()))
    if share < EXPOSED_COLLECTIVES or 2 * waited_ps > cost:
        return None
    worst = int(np.argmax((exposed / partition["window_ps"]).to_numpy()))
    evidence: dict[str, Any] = {
        "device": str(partition["device"].iloc[worst]),
        "most": float((exposed / partition["window_ps"]).iloc[worst]),
    }
    if operation := _most_exposed(collectives.by_op):
        evidence["operation"] = operation
    if collectives.alone:
        evidence["unknown_waiting"] = True
        evidence["cause"] = str(cause or Unseen.RANKS)
    return Finding("exposed_collectives", cost, share, evidence)


def _most_exposed(by_op: pd.DataFrame) -> str | None:
    """The category of the collectives that were exposed most, None where no name tells one."""
    times = by_op.groupby("category")["exposed_ps"].sum()
    return str(times.idxmax()) if len(times) and times.max() else None


def late_peer(partition: pd.DataFrame, collectives: Collectives) -> Finding | None:
    """One device, or a host with all its devices, for which the others waited in collectives, with nothing computing
    beside. Of a host, and of a device that is not late alone, `gain_ps` is what its being on time would save."""
    stragglers = worst(collectives.by_device, collectives.by_host, "exposed_cost_ps")
    if not stragglers:
        return None
    straggler = stragglers[0]
    cost, share = _cost([straggler["exposed_cost_ps"]], partition)
    who = {name: straggler[name] for name in ("device", "host", "devices") if name in straggler}
    evidence: dict[str, Any] = who | {name: int(straggler[name]) for name in ("last", "n")}
    if "device" in straggler and (group := slow_group_of(straggler["device"], collectives.by_group)):
        evidence["slow_link"] = group
    if not straggler.get("is_alone"):
        evidence["gain_ps"] = int(straggler["gain_ps"])
    return Finding("late_peer", cost, share, evidence) if share >= LATE_PEER else None


def waiting(partition: pd.DataFrame, collectives: Collectives) -> Finding | None:
    """Time in collectives that devices spent waiting for others, with nothing computing beside; of collectives that
    wait at once on a device, no more than was exposed.

    Of the `n` collectives, the `longest` waits that make half of it are most of a category, and for a `device`, if half
    or more of their time is. `busiest` are the devices, at most half of all, that compute BUSIER times as long as the
    median of the others, or more, and by `ratio`: who waits for one another is held up by them, be it along a chain, as
    the stages of a pipeline, where those beside them come as late. Then no `device` is told.
    """
    waits = collectives.table[collectives.table["exposed_wait_ps"].notna()]
    exposed = waits["exposed_wait_ps"].to_numpy(np.int64)
    waited_ps, most_ps = iv.sum_exactly(exposed), _cost(partition[PARTS["collective"]].sum(axis=1), partition)[0]
    cost, share = _cost([min(waited_ps, most_ps)], partition)
    if share < WAITING:
        return None
    order = np.argsort(-exposed, kind="stable")
    # As fractions: times of days in ps, summed over thousands of devices, are beyond int64.
    exposed = exposed.astype(np.float64)
    longest = order[: int(np.argmax(2 * np.cumsum(exposed[order]) >= exposed.sum())) + 1]
    evidence: dict[str, Any] = {"longest": len(longest), "n": len(waits)}
    for name, column in (("category", "category"), ("device", "last")):
        times = pd.Series(exposed[longest]).groupby(waits[column].to_numpy(object)[longest]).sum()
        if len(times) and 2 * times.max() >= exposed[longest].sum():
            evidence[name] = str(times.idxmax())
    if busiest := _busiest(partition):
        evidence.pop("device", None)
        evidence |= busiest
    return Finding("waiting", cost, share, evidence)


def _busiest(partition: pd.DataFrame) -> dict[str, Any]:
    """The devices, at most half of all, that compute BUSIER times as long as the median of the others or more, the
    busiest first, and how many times as long their own median is; empty where none does."""
    compute = partition[PARTS["compute"]].sum(axis=1).to_numpy(np.float64)
    order = np.argsort(-compute, kind="stable")
    for count in range(len(order) // 2, 0, -1):
        most, others = compute[order[:count]], np.median(compute[order[count:]])
        if others > 0 and most.min() >= BUSIER * others and most.min() > compute[order[count]]:
            names = partition["device"].to_numpy(object)[order[:count]].tolist()
            return {"busiest": [str(name) for name in names], "ratio": float(np.median(most) / others)}
    return {}


def slow_link(partition: pd.DataFrame, collectives: Collectives, late: Finding | None = None) -> Finding | None:
    """The group of devices whose transfers were exposed most beyond those of groups like it: a link of it is slow.

    Not where the `late` peer that was found is of that group: it is told with that.
    """
    slow = collectives.by_group[collectives.by_group["slow"]]
    if not len(slow):
        return None
    row = records(slow)[int(np.argmax(slow["excess_ps"].to_numpy()))]
    cost, share = _cost([int(row["excess_ps"])], partition)
    if share < SLOW_LINK or (late and late.evidence.get("slow_link", {}).get("devices") == row["devices"]):
        return None
    ratio = row["bus_bytes_per_s"] / row["others_bytes_per_s"]
    evidence = {"devices": row["devices"], "category": row["category"], "n": int(row["n"]), "ratio": float(ratio)}
    return Finding("slow_link", cost, share, evidence)


def slowing_down(partition: pd.DataFrame, steps: Steps) -> Finding | None:
    """Steps that got slower and slower; what they took longer than the first of them, on all their devices."""
    slower = slower_steps(steps)
    if not len(slower):
        return None
    row = records(slower)[int(np.argmax(slower["excess_ps"].to_numpy()))]
    cost, share = _cost([each["excess_ps"] * each["devices"] for each in records(slower)], partition)
    names = ("name", "steps", "first_ps", "last_ps", "part", "grown_ps", "same_events")
    evidence = {name: row[name] for name in names}
    if row["device"] != ALL_DEVICES:
        evidence["device"] = row["device"]
    return Finding("slower_steps", cost, share, evidence) if share >= SLOWER_STEPS else None


def exposed_copies(timeline: Timeline, partition: pd.DataFrame) -> Finding | None:
    """Copies beside which nothing ran, and the direction that was two thirds of it or more, None where none was;
    memsets are none.

    Of the copies of that direction, or of all, `host_memory` is the memory of the host that most of their exposed time
    goes through, where that is known, `hideable` the share of them that the compute without such copies beside it could
    hide at most, where that is little (HIDEABLE), `in_program` the share of their exposed time in which they were
    operations of a compiled program, and `in_loop` that of those which the host launched in a loop of it, where any
    were.
    """
    cost, share = _cost(_exposed_copies_ps(timeline, partition), partition)
    if share < EXPOSED_COPIES:
        return None
    by_direction: dict[str, int] = {}
    for device in timeline.unions.devices.values():
        other_work = device.union_of(COMPUTE | COLLECTIVE)
        for way, times in device.directions.items():
            if len(times):  # a device has a direction that it used elsewhere in the trace
                alone_ps = iv.total(times) - iv.sum_exactly(iv.within(other_work, times))
                by_direction[way] = by_direction.get(way, 0) + alone_ps
    most = max(by_direction, key=lambda direction: by_direction[direction], default=None)
    is_most = most is not None and 3 * by_direction[most] >= 2 * sum(by_direction.values())
    direction = most if is_most else None
    rows = timeline.rows
    exposed_ps = _exposed_of_copies(timeline)
    copies = rows.kind == CODE[Kind.MEMCPY]
    if direction:
        copies &= rows.codes("direction") == rows.labels("direction").index(direction)
    evidence: dict[str, Any] = {"direction": direction, "by_direction_ps": by_direction}
    for memory in ("pinned", "pageable"):
        if _ratio(exposed_ps, copies & _through(rows, memory), copies) >= MOST_OF_COPIES:
            evidence["host_memory"] = memory
    if in_program := _ratio(exposed_ps, copies & (rows.codes("hlo_op") >= 0), copies):
        evidence["in_program"] = in_program
    if in_loop := _ratio(exposed_ps, copies & np.append(in_loops(timeline), False)[timeline.launch], copies):
        evidence["in_loop"] = in_loop
    hideable_ps, exposed_of_way_ps = _hideable(timeline, direction)
    gain = _cost([hideable_ps], partition)[1]
    if gain < EXPOSED_COPIES and exposed_of_way_ps and hideable_ps / exposed_of_way_ps < HIDEABLE:
        evidence["hideable"] = hideable_ps / exposed_of_way_ps
    return Finding("exposed_copies", cost, share, evidence)


def _hideable(timeline: Timeline, direction: str | None = None) -> tuple[int, int]:
    """For how long the compute of each device without copies of a direction beside it, or any copies without one, could
    hide those that are exposed there; and for how long they are."""
    hideable_ps = all_exposed_ps = 0
    for device in timeline.unions.devices.values():
        copies = device.directions.get(direction, iv.EMPTY) if direction else device.copies
        beside = device.union_of(COMPUTE | COLLECTIVE)
        exposed_ps = iv.total(copies) - iv.sum_exactly(iv.within(beside, copies))
        free_ps = iv.total(device.compute) - iv.sum_exactly(iv.within(copies, device.compute))
        hideable_ps += min(exposed_ps, free_ps)
        all_exposed_ps += exposed_ps
    return hideable_ps, all_exposed_ps


def _exposed_copies_ps(timeline: Timeline, partition: pd.DataFrame) -> list[int]:
    """For how long copies, and no memsets, were exposed on each device of the partition."""
    exposed = []
    for name, memory_ps in zip(partition["device"], partition["memory"].tolist(), strict=True):
        device = timeline.unions.devices.get(name)
        if device is not None and iv.total(device.copies) < iv.total(device.memory):
            other_work = device.union_of(COMPUTE | COLLECTIVE)
            memory_ps = iv.total(device.copies) - iv.sum_exactly(iv.within(other_work, device.copies))
        exposed.append(int(memory_ps))
    return exposed


def _exposed_of_copies(timeline: Timeline) -> NDArray[np.int64]:
    """For how long no other work than copies and memsets ran beside each row of the timeline that is a copy, in ps; 0
    of other rows, and of those whose device is not known."""

    def exposed() -> NDArray[np.int64]:
        rows = timeline.rows
        copies, exposed_ps = rows.kind == CODE[Kind.MEMCPY], np.zeros(len(rows), np.int64)
        for number, name in enumerate(rows.devices):  # of a part of a trace, a device may have none
            device = timeline.unions.devices.get(name)
            if device is None:
                continue
            its = rows.of(number)
            at = np.flatnonzero(copies[its]) + its.start
            times = iv.intervals(rows.start[at], rows.end[at])
            exposed_ps[at] = times[:, 1] - times[:, 0] - iv.within(device.union_of(COMPUTE | COLLECTIVE), times)
        return exposed_ps

    return timeline.once("exposed of copies", exposed)  # three rules ask


def copies_in_compute_lane(timeline: Timeline, partition: pd.DataFrame) -> Finding | None:
    """Exposed GPU copies that stand, for most of their exposed time, on streams that run nearly all of the compute.

    It costs what the compute that no copy runs beside could hide of them. Copies within a device are none of these:
    they are steps of the computation, and stand in its order. Where several streams compute, those of one may hide
    behind the compute of another. `in_program` is as in `exposed_copies`.
    """
    rows = timeline.rows
    cost, share = _cost([_hideable(timeline)[0]], partition)
    gpu = np.array([type_of(device) == "gpu" for device in rows.devices], bool)
    if share < EXPOSED_COPIES or not gpu.any():
        return None
    within = rows.codes("direction") == rows.labels("direction").index("D2D")
    copies = np.flatnonzero((rows.kind == CODE[Kind.MEMCPY]) & ~within & gpu[rows.device])
    lane = rows.device * (len(rows.labels("lane")) + 1) + rows.codes("lane") + 1
    in_lane = copies[_computes_alone(rows, lane)[lane[copies]]]
    exposed_ps = _exposed_of_copies(timeline)
    ratio = _ratio(exposed_ps, in_lane, copies)
    if ratio < IN_COMPUTE_LANE:
        return None
    in_program = _ratio(exposed_ps, in_lane[rows.codes("hlo_op")[in_lane] >= 0], in_lane)
    evidence = {"ratio": ratio} | ({"in_program": in_program} if in_program else {})
    return Finding("copies_in_compute_lane", cost, share, evidence)


def _computes_alone(rows: Rows, lane: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which lanes have nearly all of the compute of their device, summed over rows; `lane` (n,) numbers them."""
    compute = np.flatnonzero(rows.kind == CODE[Kind.COMPUTE])
    length = (rows.end - rows.start)[compute].astype(np.float64)
    of_lane = np.bincount(lane[compute], length, lane.max(initial=-1) + 1)
    of_device = np.bincount(rows.device[compute], length, len(rows.devices))
    device_of = np.zeros(len(of_lane), np.int64)
    device_of[lane[compute]] = rows.device[compute]
    nearly_all: NDArray[np.bool_] = of_lane >= ALONE * of_device[device_of]
    return nearly_all & (of_lane > 0)


def pageable_copies(timeline: Timeline, partition: pd.DataFrame) -> Finding | None:
    """Exposed copies that go, for most of their exposed time, through pageable host memory: `host_memory` tells it, or
    the name."""
    rows = timeline.rows
    cost, share = _cost(_exposed_copies_ps(timeline, partition), partition)
    if share < EXPOSED_COPIES:
        return None
    copies = rows.kind == CODE[Kind.MEMCPY]
    ratio = _ratio(_exposed_of_copies(timeline), copies & _through(rows, "pageable"), copies)
    return Finding("pageable_copies", cost, share, {"ratio": ratio}) if ratio >= PAGEABLE else None


def unified_memory(timeline: Timeline, partition: pd.DataFrame) -> Finding | None:
    """Kernels during which the driver moved unified memory, `moves` times: they wait for the pages that they touch. It
    costs the time of these kernels at most, of which most is that of those called `name`."""
    rows = timeline.rows
    moved = rows.is_migration
    if not moved.any():
        return None
    moves, times, of_name = 0, [], np.zeros(len(rows.labels("name")))
    for device in np.unique(rows.device[moved]).tolist():
        its = rows.of(device)
        at = np.flatnonzero(rows.kind[its] == CODE[Kind.COMPUTE]) + its.start
        begins = rows.start[its][moved[its]]  # rows stand by start
        ends_at, begins_at = (np.searchsorted(begins, edge[at]) for edge in (rows.end, rows.start))
        at = at[ends_at > begins_at]
        kernels = iv.union(iv.intervals(rows.start[at], rows.end[at]))
        moves += int(np.diff(np.searchsorted(begins, kernels)).sum())
        times.append(iv.total(kernels))
        np.add.at(of_name, rows.codes("name")[at], rows.end[at] - rows.start[at])
    cost, share = _cost(times, partition)
    if share < UNIFIED_MEMORY or moves < FEWEST_MOVES:
        return None
    return Finding("unified_memory", cost, share, {"moves": moves, "name": rows.labels("name")[of_name.argmax()]})


def _through(rows: Rows, memory: str) -> NDArray[np.bool_]:
    """Which rows are said to go through a memory of the host, by their record or their name."""
    said: NDArray[np.bool_] = np.zeros(len(rows), bool)
    for column in ("host_memory", "name"):
        is_memory = np.array([*(host_memory(label) == memory for label in rows.labels(column)), False], bool)
        if is_memory.any():
            said |= is_memory[rows.codes(column)]
    return said


def idle_causes(timeline: Timeline, partition: pd.DataFrame, idle: Idle, calls: HostApi | None = None) -> list[Finding]:
    """Idle time of a cause that a user can act on; for late launches, with what the host did mostly instead, and if it
    had waited, in which of its `calls` mostly; for devices that wait for others, if some compute longer, with these."""
    findings = []
    for cause, (rule, threshold) in IDLE.items():
        rows = idle.by_device[idle.by_device["cause"] == cause]
        cost, share = _cost(rows["idle_ps"], partition)
        if share >= threshold:
            evidence: dict[str, Any] = {"gaps": int(rows["gaps"].sum())}
            if rule == "host_bound":
                evidence |= _instead(late_launches(timeline, idle), calls)
                if evidence.get("host") == "working" and _after_each_launch(timeline, rows):
                    evidence["each_launch"] = True  # what the host does then it does for each, be it ever so long
            if rule == "launch_latency":
                evidence |= _launched_slowly(timeline, idle)
            if rule == "uneven_work":
                evidence |= _busiest(partition)
                if "busiest" not in evidence:
                    continue
            findings.append(Finding(rule, cost, share, evidence))
    return findings


def _after_each_launch(timeline: Timeline, late: pd.DataFrame) -> bool:
    """Whether half or more of the `late` time (rows of `idle.by_device`) is of devices that have a gap for half or more
    of the launches of their work: other hosts may launch in time."""
    is_ahead, each_ps = np.append(launches_ahead(timeline), False), 0
    for row in records(late):
        launches = rising(timeline.launch[timeline.rows.of(timeline.rows.number(row["device"]))])
        if 0 < np.count_nonzero(is_ahead[launches]) <= 2 * row["gaps"]:
            each_ps += int(row["idle_ps"])
    return 0 < sum(map(int, late["idle_ps"])) <= 2 * each_ps


def _launched_slowly(timeline: Timeline, idle: Idle) -> dict[str, Any]:
    """The share of the idle time by launch latency that is before launches in loops of compiled programs, where any is,
    and the flag that turned CUDA graphs off, where one did."""
    evidence: dict[str, Any] = {}
    pieces = idle.gaps[(idle.gaps["cause"] == str(Cause.LATENCY)).to_numpy(bool) & idle.gaps["next"].notna().to_numpy()]
    is_inside = np.zeros(len(timeline.rows.events), bool)
    is_inside[timeline.rows.at] = np.append(in_loops(timeline), False)[timeline.timed_launch]
    length = (pieces["end_ps"] - pieces["start_ps"]).to_numpy(np.int64)
    in_loop_ps = iv.sum_exactly(length[is_inside[pieces["next"].to_numpy(np.int64)]])
    if in_loop_ps:
        evidence["in_loop"] = in_loop_ps / iv.sum_exactly(length)
    if flag := graphs_turned_off(timeline):
        evidence["graphs_off"] = flag
    return evidence


def _instead(late: LateLaunches, calls: HostApi | None) -> dict[str, Any]:
    """What the host did most of the host-bound time instead of launching, and in which call mostly."""
    parts = late.parts()
    late_ps = sum(parts.values())
    if not late_ps:
        return {}
    most = max(parts, key=lambda part: parts[part])
    evidence: dict[str, Any] = {"host": most.removesuffix("_ps"), "ratio": parts[most] / late_ps}
    if most in late.calls:
        return evidence | {"call": late.calls[most]}
    if calls is None:
        return evidence
    return evidence | (_waited_in(calls) if most == "after_wait_ps" else {}) | _unrecorded(calls, late_ps)


def compiled(partition: pd.DataFrame, idle: Idle, again: Sequence[int]) -> Finding | None:
    """Idle time while the host compiled, all of it outside the steady steps; `again` are the steps after the first of
    those in which a compiler ran. `partition` and `idle` are those of the whole trace."""
    rule, threshold = IDLE["compiling"]
    rows = idle.by_device[idle.by_device["cause"] == "compiling"]
    cost, share = _cost(rows["idle_ps"], partition)
    evidence = {"gaps": int(rows["gaps"].sum()), "again": list(dict.fromkeys(again))}
    return Finding(rule, cost, share, evidence) if share >= threshold else None


def _waited_in(calls: HostApi) -> dict[str, str]:
    """The call after which most host-bound time lies, and the operation around it, as far as they are known."""
    places = calls.places[calls.places["host_bound_ps"] > 0]
    if not len(places):
        return {}
    most = records(places.sort_values("host_bound_ps", ascending=False, kind="stable"))[0]
    return {key: str(most[key]) for key in ("call", "operation") if pd.notna(most[key])}


def _unrecorded(calls: HostApi, late_ps: int) -> dict[str, float]:
    """The share of the host-bound time, `late_ps`, of which at least nothing of the host is recorded, by the longest
    gaps; where that is most of it."""
    gaps = calls.longest[calls.longest["unrecorded_ps"].notna()]
    unrecorded = (row["unrecorded_ps"] - (row["idle_ps"] - row["host_bound_ps"]) for row in records(gaps))
    unrecorded_ps = sum(max(0, time) for time in unrecorded)
    return {"unrecorded": unrecorded_ps / late_ps} if 2 * unrecorded_ps > late_ps else {}


def busy_machine(machine: Machine) -> Finding | None:
    """Other processes that took cores which were needed, where they took most: in a compared phase, or the capture."""
    rows = [row for row in records(machine.load) if row["is_busy"]]
    rows = [row for row in rows if pd.notna(row["phase"])] or rows
    if not rows:
        return None
    worst = max(rows, key=lambda row: row["other_cores"] + row["stolen_cores"])
    where = {} if pd.isna(worst["phase"]) else {"phase": worst["phase"]}
    return Finding("busy_machine", None, None, where | {name: worst[name] for name in _LOAD})


def contention(phases: Phases, inside: Mapping[str, Breakdown], machine: Machine) -> list[Finding]:
    """Compared phases in which devices ran at once and slowed each other down; `inside` is what ran in each phase. Not
    where other processes of the `machine` may have done so."""
    findings = []
    for name in phases.table["name"]:
        if machine.during(name):
            continue
        stretch = phases.stretch[(phases.stretch["name"] == name) & phases.stretch["stretch"].notna()]
        ratio = inside[name].pairs["ratio_min"].max()
        if not len(stretch) or pd.isna(ratio) or ratio < CONTENDED_OVERLAP:
            continue
        largest = records(stretch.sort_values("stretch", ascending=False, kind="stable"))[0]
        if largest["stretch"] >= CONTENDED_STRETCH:
            figures = {
                "phase": name,
                "overlap_ratio": float(ratio),
                "stretch": float(largest["stretch"]),
                "device": largest["device"],
                "kind": largest["kind"],
            }
            rows = inside[name].overlap
            of_device = rows.loc[rows["device"] == largest["device"], "what"]
            if largest["kind"] == "memory" and (of_device == overlap.COPIES).any():
                figures["memsets"] = True
            cost, share = _cost([int(largest["busy_ps"]) - int(largest["alone_ps"])], inside[name].partition)
            findings.append(Finding("contention", cost, share, figures))
    return findings


def turns_of(
    timeline: Timeline, cells: pd.DataFrame, whole: Breakdown, phases: Phases, inside: Mapping[str, Breakdown]
) -> list[Finding | None]:
    """Where devices took turns: in the whole trace; of one with phases, which may want just that, in those that are
    compared with others apart, which want it not."""
    if not len(phases.table):
        return [] if timeline.left_out else [took_turns(timeline, cells, whole)]
    compared = phases.table.loc[phases.table["compared_with"].notna(), "name"].astype(str)
    return [
        took_turns(timeline.inside(phases.windows[name]), inside[name].partition, inside[name], name)
        for name in compared
        if name in phases.windows
    ]


def took_turns(
    timeline: Timeline, partition: pd.DataFrame, whole: Breakdown, phase: str | None = None
) -> Finding | None:
    """Devices that all worked, and hardly ever at once, or groups of devices that work together within each, as the
    stages of a pipeline; `partition` and `whole` are those of the timeline.

    It cost each of them the time that all took in turns, less that of the busiest. `ahead` is the share of their
    launches during which another of them was busy, where launches are known: then no wait of the host held them up.
    `groups` names the devices of each, where any has several.
    """
    busy = partition[partition["busy_ps"] >= max(TURNS_BUSY * partition["busy_ps"].max(), 1)]
    pairs = whole.pairs
    busy_pairs = pairs[pairs["a"].isin(busy["device"]) & pairs["b"].isin(busy["device"])]
    if not len(busy_pairs) or busy_pairs["ratio_min"].isna().any():
        return None
    group_of = _together(list(map(str, busy["device"])), busy_pairs)
    members: dict[int, list[str]] = {}
    for name, number in group_of.items():
        members.setdefault(number, []).append(name)
    groups = list(members.values())
    between = busy_pairs[busy_pairs["a"].map(group_of).ne(busy_pairs["b"].map(group_of))]
    ratio = between["ratio_min"].max()
    if not len(between) or ratio >= TURNS_OVERLAP:
        return None
    unions = [iv.union(*(timeline.unions.devices[name].busy for name in names)) for names in groups]
    times = list(map(iv.total, unions))
    edges, count = iv.depth(*unions)
    # Of k groups at once, k - 1 need no turn of their own.
    saved_ps = iv.sum_exactly((edges[1:] - edges[:-1]) * np.maximum(count[:-1].astype(np.int64) - 1, 0))
    window_ps = float(busy["window_ps"].mean())
    shares = np.array(times) / window_ps
    by_chance = float(shares.sum() - (1 - np.prod(1 - shares))) * window_ps
    cost, share = _cost([len(busy) * (sum(times) - saved_ps - max(times))], partition)
    if share < TURNS_LOST or saved_ps >= _OF_CHANCE * by_chance:
        return None
    figures: dict[str, Any] = {"devices": len(busy), "ratio_min": float(ratio)} | ({"phase": phase} if phase else {})
    if len(groups) < len(busy):
        figures["groups"] = [", ".join(names) for names in groups]
    ahead = _launched_ahead(timeline, groups, unions, (edges, count))
    return Finding("took_turns", cost, share, figures | ({} if ahead is None else {"ahead": ahead}))


def _together(devices: Sequence[str], pairs: pd.DataFrame) -> dict[str, int]:
    """The number of the group of each of some devices: those of a group are linked by pairs that are busy at once for
    TOGETHER of the shorter busy time or more."""
    group_of = {name: number for number, name in enumerate(devices)}
    a, b = (pairs.loc[pairs["ratio_min"] >= TOGETHER, side].map(group_of).to_numpy(np.int64) for side in ("a", "b"))
    group, before = np.arange(len(devices)), np.zeros(0, np.int64)
    while not np.array_equal(group, before):  # the least number spreads, by as many links as are known of each
        before = group.copy()
        np.minimum.at(group, a, before[b])
        np.minimum.at(group, b, before[a])
        group = group[group]
    return dict(zip(devices, group.tolist(), strict=True))


def _launched_ahead(
    timeline: Timeline,
    groups: Sequence[Sequence[str]],
    unions: Sequence[iv.Intervals],
    depth: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> float | None:
    """The share of the launched rows of the groups of devices whose call began while another group was busy, as their
    `unions` and the `depth` of these tell; None without."""
    rows, (edges, count) = timeline.rows, depth
    ahead = launched = 0
    for names, union in zip(groups, unions, strict=True):
        for name in names:
            calls = timeline.timed_launch[rows.of(rows.number(name))]
            called_at = timeline.call_times[0][calls[calls >= 0]]
            # All at once, and then without its own: of thousands, one by one takes minutes.
            busy = np.append(count, 0)[np.searchsorted(edges, called_at, side="right") - 1]
            ahead += int((busy > iv.within(union, iv.intervals(called_at, called_at + 1))).sum())
            launched += len(called_at)
    return ahead / launched if launched else None


def _cost(times: Any, partition: pd.DataFrame) -> tuple[int, float]:
    """The time summed over the devices, and its share of their windows."""
    cost, window_ps = sum(map(int, times)), sum(map(int, partition["window_ps"]))
    return cost, cost / window_ps if window_ps else 0.0


def _ratio(times: NDArray[np.int64], part: Any, whole: Any) -> float:
    """The times of the rows `part` over those of `whole`, 0 without any."""
    total = iv.sum_exactly(times[whole])
    return iv.sum_exactly(times[part]) / total if total else 0.0
