"""The windows of a run's steps, and the step that each row of a device belongs to."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import frame
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.steps.marks import AFTER, BEFORE, UNKNOWN, Marks, groups, marks
from tracekit.vocabulary.kinds import Kind

BOUNDARY_COLUMNS = {
    "clock": "str",
    "step": "Int64",
    "name": "str",
    "start_ps": "int64",
    "end_ps": "int64",
    "wall_ps": "int64",
    "host_start_ps": "Int64",
    "host_end_ps": "Int64",
    "device_start_ps": "Int64",
    "device_end_ps": "Int64",
    "rows": "int64",
    "rows_by_time": "int64",
    "hosts": "Int64",
    "compile_ps": "int64",
    "told_by": "str",
}

# What XLA's, JAX's and PyTorch's compilers call their own work on the host. A program of the user may well be called
# `compile`, so nothing else is believed.
_COMPILING = re.compile(
    r"(TSL:)?(backend_compile\w*|\w*Client::Compile\w*|\w+Compiler::(Compile|RunBackend|RunHloPasses)\w*"
    r"|Compile\w*Executable|XlaCompil(e|ation)[\w:]*)([:#(].*)?|[\w.]*compile[\w.]* \(dynamo_timed\)"
)
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class StepBoundaries:
    """The s steps of a trace, by clock and in order, and what belongs to them.

    `table` has BOUNDARY_COLUMNS. The windows [start_ps, end_ps) of one clock touch, so their `wall_ps` sum to the time
    from the first start to the last end. `host_*` is the host's own time of the step, null where no annotation told it;
    `device_*` runs from the first start to the last end of the step's rows, null without any; `rows` counts them, and
    `rows_by_time` those of them that only their start puts there. `hosts` marked the step, `compile_ps` of its host's
    time a compiler ran. `of` (n,) is the step of each row, a row number of `table`, or -1. `nested` annotations inside
    other steps were not counted. `lacking` says why there are no steps.
    """

    table: pd.DataFrame
    of: NDArray[np.int64]
    nested: int = 0
    lacking: str = ""


def boundaries(rows: Rows, spans: pd.DataFrame, launch: NDArray[np.int64], launches: pd.DataFrame) -> StepBoundaries:
    """The windows of the steps; `launch` (n,) is the place in `launches` of the call that started each row, or -1.

    A step ends when the host has ended it and its compute, its collectives and its programs' executions are done on all
    devices of its clock, whichever is later, and never before the step ahead of it; there the next one begins. The
    first begins with its annotation, or when the work launched before it is done, or without annotation with its own
    first row. So time between two annotations belongs to the step that comes, and work that a host dispatches ahead of
    the devices counts where it runs. A copy of no program does not hold a step open: the next one computes beside it.

    A row is of the step whose host time (from the end of the annotation before) holds its launch; or whose group or
    execution it names; or, without launch, of the k-th step if each step runs its program equally often; or else of
    the step during which it starts.
    """
    told = marks(rows, spans)
    if isinstance(told, str):
        return StepBoundaries(frame(BOUNDARY_COLUMNS), np.full(len(rows), -1), 0, told)
    linked = told.linked
    if told.host is not None:
        linked = _by_order(rows, told, _by_launch(rows, told, launch, launches))
    by_time = linked == UNKNOWN
    linked = _by_start(rows, told, linked)
    reach = _extents(rows, linked, len(told.step))
    start, end = np.zeros(len(told.step), np.int64), np.zeros(len(told.step), np.int64)
    of = np.maximum(linked, -1)
    for clock, steps in told.by_clock.items():
        start[steps], end[steps] = _windows(rows, told, clock, steps, linked, reach)
        for device in _devices(rows, clock):
            mine = rows.of(device)
            rest = mine.start + np.flatnonzero(linked[mine] == UNKNOWN)
            at = np.searchsorted(end[steps], rows.start[rest], side="right")
            inside = (at < len(steps)) & (rows.start[rest] >= start[steps[0]])
            of[rest] = np.where(inside, steps[np.minimum(at, len(steps) - 1)], -1)
    return StepBoundaries(_table(rows, spans, told, start, end, of, by_time), of, told.nested)


def _devices(rows: Rows, clock: str) -> list[int]:
    return [number for number, on in enumerate(rows.clocks) if on == clock]


def _during(host: iv.Intervals, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step in whose host time each point lies, from the end of the step before; BEFORE the first, AFTER the last.

    `host` (m, 2) is in order.
    """
    at = np.searchsorted(np.maximum.accumulate(host[:, 1]), points, side="right")
    return np.where(points < host[:, 0].min(), BEFORE, np.where(at < len(host), at, AFTER))


def _by_launch(rows: Rows, told: Marks, launch: NDArray[np.int64], launches: pd.DataFrame) -> NDArray[np.int64]:
    """The step in which each row was launched, BEFORE, AFTER or UNKNOWN."""
    step = np.full(len(launches) + 1, UNKNOWN)
    called, host_of = launches["start_ps"].to_numpy(), launches["host"].cat.codes.to_numpy()
    clock_of = dict(zip(rows.hosts, rows.clocks, strict=True))
    for code, host in enumerate(launches["host"].cat.categories):
        steps, times = _of_host(told, str(host), clock_of.get(str(host)))
        if len(steps) == 0:
            continue
        mine = np.flatnonzero(host_of == code)
        at = _during(times, called[mine])
        step[mine] = np.where(at >= 0, steps[np.maximum(at, 0)], at)
    found: NDArray[np.int64] = step[launch]
    return _queued(rows, found)


def _of_host(told: Marks, host: str, clock: str | None) -> tuple[NDArray[np.int64], iv.Intervals]:
    """The steps that a host marked, with its times of them; of a host that marked none, those of its clock."""
    if host in told.of_host or told.host is None:
        return told.of_host.get(host, (np.empty(0, np.int64), iv.EMPTY))
    steps = told.by_clock.get(clock or "", np.empty(0, np.int64))
    return steps, told.host[steps]


def _queued(rows: Rows, found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with an id but no call, ahead of all rows of their device that have one, were launched BEFORE the trace."""
    has = rows.known("correlation_id")
    for device in range(len(rows.devices)):
        mine = rows.of(device)
        known = np.flatnonzero(found[mine] != UNKNOWN)
        if len(known):
            ahead = slice(mine.start, mine.start + int(known[0]))
            found[ahead][has[ahead]] = BEFORE
    return found


def _by_order(rows: Rows, told: Marks, linked: NDArray[np.int64]) -> NDArray[np.int64]:
    """`linked`, and the rows without launch by the order in which their device ran their program.

    A device runs one program's executions in the order of their dispatch. Where those since the first step are as
    many as the steps (or as those of one name), or a multiple, the k-th step ran the k-th of them, unless one would
    start before its step does.
    """
    which = rows.known("run_id") & (linked == UNKNOWN)
    if told.host is None or not which.any():
        return linked
    run, _ = rows.numbers("run_id")
    ran = groups(rows, [rows.device, rows.codes("hlo_module"), run], which)
    step = np.full(len(ran.start) + 1, UNKNOWN)
    order = np.lexsort((ran.start, ran.key[1], ran.key[0]))
    device, module = ran.key[0][order], ran.key[1][order]
    heads = np.flatnonzero(np.append(True, (device[1:] != device[:-1]) | (module[1:] != module[:-1])))
    names = np.array(told.name, object)
    for its in np.split(order, heads[1:]):
        number = int(ran.key[0][its[0]])
        steps, times = _of_host(told, rows.hosts[number], rows.clocks[number])
        if len(steps) == 0:
            continue
        its = its[ran.start[its] >= times[:, 0].min()]
        for some in [np.ones(len(steps), bool), *(names[steps] == name for name in dict.fromkeys(names[steps]))]:
            often, rest = divmod(len(its), int(some.sum()))
            if often == 0 or rest:
                continue
            at = np.repeat(np.flatnonzero(some), often)
            if (ran.start[its] >= times[at, 0]).all():
                step[its] = steps[at]
                break
    return np.where(which, step[ran.of], linked)


def _by_start(rows: Rows, told: Marks, linked: NDArray[np.int64]) -> NDArray[np.int64]:
    """`linked`, and on clocks where nothing proves the step of any row, that in whose host time each row starts."""
    linked = linked.copy()
    for clock, steps in told.by_clock.items():
        parts = [rows.of(device) for device in _devices(rows, clock)]
        if told.host is None or any((linked[mine] >= 0).any() for mine in parts):
            continue
        for mine in parts:
            at = _during(told.host[steps], rows.start[mine])
            found = np.where(at >= 0, steps[np.maximum(at, 0)], at)
            linked[mine] = np.where(linked[mine] == UNKNOWN, found, linked[mine])
    return linked


@dataclass(frozen=True)
class _Reach:
    """Of each step, (s,): the first start and last end of its rows, the last end of those that hold it open, and their
    number; _NEVER where there are none."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    held: NDArray[np.int64]
    number: NDArray[np.int64]


def _extents(rows: Rows, of: NDArray[np.int64], count: int) -> _Reach:
    """The extents of `count` steps, over the rows on devices that the trace proves."""
    found = _Reach(*(np.full(count, one) for one in (-_NEVER - 1, _NEVER, _NEVER, 0)))
    # Rows of one step mostly stand together on a device, and there their starts grow.
    heads = np.union1d(rows.first[:-1], np.flatnonzero(of[1:] != of[:-1]) + 1)
    size = np.diff(heads, append=len(rows))
    last = np.maximum.reduceat(rows.end, heads)
    held = np.maximum.reduceat(np.where(_holds(rows), rows.end, _NEVER), heads)
    counts = (of[heads] >= 0) & np.array(rows.placed)[rows.device[heads]]
    step = of[heads][counts]
    np.minimum.at(found.first, step, rows.start[heads][counts])
    np.maximum.at(found.last, step, last[counts])
    np.maximum.at(found.held, step, held[counts])
    np.add.at(found.number, step, size[counts])
    return found


def _holds(rows: Rows) -> NDArray[np.bool_]:
    """Which rows hold their step open: compute, collectives, and a program's own copies, as it is not done before."""
    program = rows.known("run_id")
    found: NDArray[np.bool_] = (rows.kind == CODE[Kind.COMPUTE]) | (rows.kind == CODE[Kind.COLLECTIVE]) | program
    return found


def _windows(
    rows: Rows, told: Marks, clock: str, steps: NDArray[np.int64], linked: NDArray[np.int64], reach: _Reach
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start and end of the steps of one clock."""
    done = np.where(reach.held[steps] == _NEVER, reach.last[steps], reach.held[steps])
    if told.host is None:
        end = np.maximum.accumulate(done)
        begin = int(reach.first[steps[0]])
        return np.append(min(begin, int(end[0])), end[:-1]), end
    end = np.maximum.accumulate(np.maximum(done, told.host[steps, 1]))
    begin = int(told.host[steps, 0].min())
    for device in _devices(rows, clock):
        mine = rows.of(device)
        earlier = mine.start + np.flatnonzero(linked[mine] == BEFORE)
        begin = max(begin, int(rows.end[earlier][_holds(rows)[earlier]].max(initial=_NEVER)))
    return np.append(min(begin, int(end[0])), end[:-1]), end


def _table(
    rows: Rows,
    spans: pd.DataFrame,
    told: Marks,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    of: NDArray[np.int64],
    by_time: NDArray[np.bool_],
) -> pd.DataFrame:
    count = len(start)
    reach = _extents(rows, of, count)
    loose = _extents(rows, np.where(by_time, of, -1), count).number if by_time.any() else np.zeros(count, np.int64)
    there = reach.number > 0
    return frame(
        BOUNDARY_COLUMNS,
        {
            "clock": told.clock,
            "step": told.step,
            "name": told.name,
            "start_ps": start,
            "end_ps": end,
            "wall_ps": end - start,
            "host_start_ps": _known(told.host[:, 0] if told.host is not None else None, count),
            "host_end_ps": _known(told.host[:, 1] if told.host is not None else None, count),
            "device_start_ps": pd.arrays.IntegerArray(reach.first, ~there),
            "device_end_ps": pd.arrays.IntegerArray(reach.last, ~there),
            "rows": reach.number,
            "rows_by_time": loose,
            "hosts": _known(told.hosts, count),
            "compile_ps": _compiling(rows, spans, told, start, end),
            "told_by": [told.told_by] * count,
        },
    )


def _known(values: NDArray[np.int64] | None, count: int) -> pd.arrays.IntegerArray:
    if values is None:
        return pd.arrays.IntegerArray(np.zeros(count, np.int64), np.ones(count, bool))
    return pd.arrays.IntegerArray(values, np.zeros(count, bool))


def _compiling(
    rows: Rows, spans: pd.DataFrame, told: Marks, start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For how long, in ps, a compiler ran on any host of the clock in each step's host time, or else in its window."""
    found = np.zeros(len(start), np.int64)
    names = spans["name"].cat
    compiler = [bool(_COMPILING.fullmatch(str(name))) for name in names.categories]
    at = np.flatnonzero(np.append(compiler, False)[names.codes.to_numpy()])
    if len(at) == 0:
        return found
    hosts = spans["host"].iloc[at].astype("str")
    clock_of = dict(zip(rows.hosts, rows.clocks, strict=True))
    busy = iv.intervals(spans["start_ps"].to_numpy()[at], spans["end_ps"].to_numpy()[at])
    clocks = set(clock_of.values())
    on = np.array([clock_of.get(host, next(iter(clocks)) if len(clocks) == 1 else None) for host in hosts], object)
    for clock, steps in told.by_clock.items():
        times = np.column_stack([start[steps], end[steps]])
        if told.host is not None:
            ends = told.host[steps, 1]
            times = np.column_stack([np.append(told.host[steps, 0].min(), ends[:-1]), ends])
        found[steps] = iv.within(iv.union(busy[on == clock]), times)
    return found
