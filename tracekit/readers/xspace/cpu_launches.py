"""Which call of the host started which execution of a program on a CPU device.

A thunk tells its execution (`hlo_module`, `run_id`, `device_ordinal`). A call that starts one device tells none of it;
one that starts several carries the `run_id`, and starts each device by a call of its own inside, with that device's
`global_device_id` (xla/pjrt/common_pjrt_client.cc). What joins them, in order of trust:

* The call holds the thunk, or the `Record` that queued the pool region in which the thunk runs.
* The call has the `run_id`.
* Counting, for a program whose inputs were not ready when it was called: whatever makes them ready queues it, so no
  event leads back to the call. jax numbers the calls of one program in order, on all devices together (the `launch_id`
  of jaxlib/py_executable.cc), and the calls of the function f stand inside of `PjitFunction(f)`. If between two calls
  that are known, or after the last, stand as many calls as there are numbers, they are these. Before the first nothing
  is told: some of the runs may stem from before the profile. Nor are two functions of one name that are called in turn.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracekit.readers.distinct import distinct
from tracekit.readers.xspace.host_events import HostEvents

STATS = ("hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "global_device_id", "_p", "_c", "name")

# `CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice`, `[1] CommonPjRtLoadedExecutable::Execute (jit_f)`; in older
# versions `PjRtCpuExecutable::ExecuteHelper` and `TfrtCpuExecutable::ExecuteHelper`.
_CALL = re.compile(r"(\[\d+\] )?\w+Executable::Execute(Helper\w*|Sharded|Portable)?( \(.*\))?")
_FUNCTION = re.compile(r"PjitFunction\((.*)\)")
_NO_LETTER = re.compile(r"\W|_")


@dataclass(frozen=True)
class _Executions:
    """The k executions of programs on devices: row of the first thunk, module (a code), run and device, all (k,)."""

    thunk: NDArray[np.int64]
    module: NDArray[np.int64]
    modules: list[str]
    run: NDArray[np.int64]
    device: NDArray[np.int64]


def calls(events: HostEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the call that started the execution of each of the thunks `rows` (n,), -1 where nothing proves it."""
    plane = events.plane
    is_call = events.named(lambda name: bool(_CALL.fullmatch(name)))
    if len(rows) == 0 or not is_call.any():
        return np.full(len(rows), -1)
    order = np.argsort(events.start[rows], kind="stable")
    module = plane.strings("hlo_module")[rows[order]]
    run, device = (plane.numbers(stat)[0][rows[order]] for stat in ("run_id", "device_ordinal"))
    which, first = distinct(module.codes, run, device)
    modules = [*map(str, module.categories), ""]
    seen = _Executions(rows[order[first]], module.codes[first], modules, run[first], device[first])
    found = _held(events, is_call, seen.thunk)
    _by_run(events, is_call, seen, found)
    _by_count(events, is_call, seen, found)
    call = np.empty(len(rows), np.int64)
    call[order] = found[which]
    return call


def _held(events: HostEvents, is_call: NDArray[np.bool_], thunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The call around each of the events `thunks` (k,), or around the `Record` that queued its region; -1 for none."""
    call = events.around(is_call, thunks)
    begins, ends, _ = events.regions
    place = np.full(len(events.line), -1)
    place[begins] = np.arange(len(begins))
    region = place[events.latest(place >= 0, events.line[thunks], events.start[thunks] + 1)]
    inside = np.flatnonzero((call < 0) & (region >= 0))
    inside = inside[events.start[thunks[inside]] < ends[region[inside]]]
    record = events.queued_by[region[inside]]
    call[inside[record >= 0]] = events.around(is_call, record[record >= 0])
    return call


def _by_run(events: HostEvents, is_call: NDArray[np.bool_], seen: _Executions, found: NDArray[np.int64]) -> None:
    """Fill in the calls that carry the run's id: the one inside for the device, else the one for all."""
    ids, has_id = events.plane.numbers("run_id")
    outer = np.flatnonzero(is_call & has_id)
    if len(outer) == 0:
        return
    names, made = events.plane.strings("name"), events.plane.numbers("_p")[0]
    module = [*map(str, names.categories), ""]
    by_run = {(module[names.codes[row]], int(ids[row])): int(row) for row in outer}
    device, has_device = events.plane.numbers("global_device_id")
    took, has_took = events.plane.numbers("_c")
    inner = {(int(took[row]), int(device[row])): int(row) for row in np.flatnonzero(is_call & has_device & has_took)}
    for at in np.flatnonzero(found < 0):
        row = by_run.get((seen.modules[seen.module[at]], int(seen.run[at])), -1)
        if row >= 0:
            found[at] = inner.get((int(made[row]), int(seen.device[at])), row)


def _by_count(events: HostEvents, is_call: NDArray[np.bool_], seen: _Executions, found: NDArray[np.int64]) -> None:
    """Fill in the calls that the order of the runs tells; those that carry their run's id need no counting."""
    if (found >= 0).all():
        return
    rows, functions = _functions(
        events, is_call & ~events.plane.has("global_device_id") & ~events.plane.numbers("run_id")[1]
    )
    first = events.start[seen.thunk]
    for code in np.unique(seen.module[found < 0]):
        name = _bare(seen.modules[code].removeprefix("jit_"))
        asked = rows[[function == name for function in functions]] if len(rows) else rows
        # Calls of several threads at once have no order.
        if len(asked) == 0 or (events.end[asked[:-1]] > events.start[asked[1:]]).any():
            continue
        place = {row: at for at, row in enumerate(asked.tolist())}
        mine = np.array([at for at in np.flatnonzero(seen.module == code) if found[at] < 0 or found[at] in place])
        known = {int(seen.run[at]): place[int(found[at])] for at in mine if found[at] >= 0}
        told = _counted(known, np.unique(seen.run[mine]), len(asked))
        filled = [(at, asked[told[int(seen.run[at])]]) for at in mine if found[at] < 0 and int(seen.run[at]) in told]
        if all(events.start[call] <= first[at] for at, call in filled):  # else the count is wrong somewhere
            for at, call in filled:
                found[at] = call


def _counted(known: dict[int, int], runs: NDArray[np.int64], calls: int) -> dict[int, int]:
    """Which place among the `calls` in order each run has, as far as it is `known` or follows from that.

    `runs` are those that were seen, in rising order. Runs of several programs lie far apart, since each counts from a
    hash of its own. Between two known calls of one program, and after the last, stand those of its runs between: if no
    more calls are open there than these, they are they.
    """
    told = dict(known)
    programs = [part.tolist() for part in np.split(runs, np.flatnonzero(np.diff(runs) > calls) + 1)]
    settled = -1
    while settled < len(told):
        settled = len(told)
        for program in programs:
            unknown = np.setdiff1d(np.arange(calls), list(told.values()))
            edges = [*((run, told[run]) for run in program if run in told), (program[-1] + 1, calls)]
            places = np.searchsorted(unknown, [place for _, place in edges])
            for at, ((run, _), (next_run, _)) in enumerate(pairwise(edges)):
                between = unknown[places[at] : places[at + 1]]
                if len(between) == next_run - run - 1:
                    told.update(zip(range(run + 1, next_run), between.tolist(), strict=True))
    return told


def _functions(events: HostEvents, is_call: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """The calls that hold no other, by start, and the function in whose `PjitFunction` each stands, "" for none."""
    matches = [_FUNCTION.fullmatch(name) for name in events.names.categories]
    named = [_bare(match[1]) if match else "" for match in matches]
    is_function = np.array([*(match is not None for match in matches), False], bool)[events.names.codes]
    both = np.flatnonzero(is_call | is_function)
    both = both[np.lexsort((-events.end[both], events.start[both], events.line[both]))]
    columns = (events.line[both], events.start[both], events.end[both], events.names.codes[both], is_call[both])
    around: list[tuple[int, int, str, int]] = []  # line, end, function, the call's row or -1
    found: dict[int, str] = {}
    for row, line, start, end, code, calls in zip(both.tolist(), *(one.tolist() for one in columns), strict=True):
        while around and (around[-1][0] != line or around[-1][1] <= start):
            around.pop()
        function = named[code] if not calls else around[-1][2] if around else ""
        if calls:
            if around and around[-1][3] >= 0:
                found.pop(around[-1][3], None)
            found[row] = function
        around.append((line, end, function, row if calls else -1))
    rows = sorted(found, key=lambda row: int(events.start[row]))
    return np.array(rows, np.int64), [found[row] for row in rows]


def _bare(name: str) -> str:
    """The letters and digits of a name: a module is called after its function, with `_` for what HLO does not allow."""
    return _NO_LETTER.sub("", name)
