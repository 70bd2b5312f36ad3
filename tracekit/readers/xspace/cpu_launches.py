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

from tracekit.columns import distinct
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
    is_call = events.with_name(lambda name: bool(_CALL.fullmatch(name)))
    if len(rows) == 0 or not is_call.any():
        return np.full(len(rows), -1)
    order = np.argsort(events.start[rows], kind="stable")
    module = plane.strings("hlo_module")[rows[order]]
    run, device = (plane.numbers(stat)[0][rows[order]] for stat in ("run_id", "device_ordinal"))
    which, first = distinct(module.codes, run, device)
    modules = [*map(str, module.categories), ""]
    executions = _Executions(rows[order[first]], module.codes[first], modules, run[first], device[first])
    call_of = _enclosing_calls(events, is_call, executions.thunk)
    _by_run(events, is_call, executions, call_of)
    _by_count(events, is_call, executions, call_of)
    call = np.empty(len(rows), np.int64)
    call[order] = call_of[which]
    return call


def _enclosing_calls(events: HostEvents, is_call: NDArray[np.bool_], thunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The call around each of the events `thunks` (k,), or around the `Record` that queued its region; -1 for none."""
    call = events.around(is_call, thunks)
    begins, ends, _ = events.regions
    region_of = np.full(len(events.line), -1)
    region_of[begins] = np.arange(len(begins))
    region = region_of[events.latest(region_of >= 0, events.line[thunks], events.start[thunks] + 1)]
    inside = np.flatnonzero((call < 0) & (region >= 0))
    inside = inside[events.start[thunks[inside]] < ends[region[inside]]]
    record = events.queued_by[region[inside]]
    call[inside[record >= 0]] = events.around(is_call, record[record >= 0])
    return call


def _by_run(
    events: HostEvents, is_call: NDArray[np.bool_], executions: _Executions, call_of: NDArray[np.int64]
) -> None:
    """Fill in the calls that carry the run's id: the one inside for the device, else the one for all."""
    ids, has_id = events.plane.numbers("run_id")
    outer = np.flatnonzero(is_call & has_id)
    if len(outer) == 0:
        return
    names, produced = events.plane.strings("name"), events.plane.numbers("_p")[0]
    module = [*map(str, names.categories), ""]
    by_run = {(module[names.codes[row]], int(ids[row])): int(row) for row in outer}
    device, has_device = events.plane.numbers("global_device_id")
    consumed, has_consumed = events.plane.numbers("_c")
    inner = {
        (int(consumed[row]), int(device[row])): int(row) for row in np.flatnonzero(is_call & has_device & has_consumed)
    }
    for at in np.flatnonzero(call_of < 0):
        row = by_run.get((executions.modules[executions.module[at]], int(executions.run[at])), -1)
        if row >= 0:
            call_of[at] = inner.get((int(produced[row]), int(executions.device[at])), row)


def _by_count(
    events: HostEvents, is_call: NDArray[np.bool_], executions: _Executions, call_of: NDArray[np.int64]
) -> None:
    """Fill in the calls that the order of the runs tells; those that carry their run's id need no counting."""
    if (call_of >= 0).all():
        return
    rows, functions = _functions(
        events, is_call & ~events.plane.has("global_device_id") & ~events.plane.numbers("run_id")[1]
    )
    first = events.start[executions.thunk]
    for code in np.unique(executions.module[call_of < 0]):
        name = _bare(executions.modules[code].removeprefix("jit_"))
        candidates = rows[[function == name for function in functions]] if len(rows) else rows
        # Calls of several threads at once have no order.
        if len(candidates) == 0 or (events.end[candidates[:-1]] > events.start[candidates[1:]]).any():
            continue
        place = {row: at for at, row in enumerate(candidates.tolist())}
        of_module = np.flatnonzero(executions.module == code)
        of_module = of_module[[call_of[at] < 0 or call_of[at] in place for at in of_module]]
        known = {int(executions.run[at]): place[int(call_of[at])] for at in of_module if call_of[at] >= 0}
        places = _places_by_count(known, np.unique(executions.run[of_module]), len(candidates))
        unknown = [at for at in of_module if call_of[at] < 0 and int(executions.run[at]) in places]
        pairs = [(at, candidates[places[int(executions.run[at])]]) for at in unknown]
        if all(events.start[call] <= first[at] for at, call in pairs):  # else the count is wrong somewhere
            for at, call in pairs:
                call_of[at] = call


def _places_by_count(known: dict[int, int], runs: NDArray[np.int64], calls: int) -> dict[int, int]:
    """Which place among the `calls` in order each run has, as far as it is `known` or follows from that.

    `runs` are those that were seen, in rising order. Runs of several programs lie far apart, since each counts from a
    hash of its own. Between two known calls of one program, and after the last, stand those of its runs between: if no
    more calls are open there than these, they are they.
    """
    places = dict(known)
    programs = [part.tolist() for part in np.split(runs, np.flatnonzero(np.diff(runs) > calls) + 1)]
    settled = -1
    while settled < len(places):
        settled = len(places)
        for program in programs:
            unknown = np.setdiff1d(np.arange(calls), list(places.values()))
            edges = [*((run, places[run]) for run in program if run in places), (program[-1] + 1, calls)]
            open_places = np.searchsorted(unknown, [place for _, place in edges])
            for at, ((run, _), (next_run, _)) in enumerate(pairwise(edges)):
                between = unknown[open_places[at] : open_places[at + 1]]
                if len(between) == next_run - run - 1:
                    places.update(zip(range(run + 1, next_run), between.tolist(), strict=True))
    return places


def _functions(events: HostEvents, is_call: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[str]]:
    """The calls that hold no other, by start, and the function in whose `PjitFunction` each stands, "" for none."""
    matches = [_FUNCTION.fullmatch(name) for name in events.names.categories]
    functions = [_bare(match[1]) if match else "" for match in matches]
    is_function = np.array([*(match is not None for match in matches), False], bool)[events.names.codes]
    rows = np.flatnonzero(is_call | is_function)
    rows = rows[np.lexsort((-events.end[rows], events.start[rows], events.line[rows]))]
    columns = (rows, *(column[rows] for column in (events.line, events.start, events.end, events.names.codes, is_call)))
    around: list[tuple[int, int, str, int]] = []  # line, end, function, the call's row or -1
    function_of: dict[int, str] = {}
    for row, line, start, end, code, is_a_call in zip(*(column.tolist() for column in columns), strict=True):
        while around and (around[-1][0] != line or around[-1][1] <= start):
            around.pop()
        function = functions[code] if not is_a_call else around[-1][2] if around else ""
        if is_a_call:
            if around and around[-1][3] >= 0:
                function_of.pop(around[-1][3], None)
            function_of[row] = function
        around.append((line, end, function, row if is_a_call else -1))
    calls = sorted(function_of, key=lambda row: int(events.start[row]))
    return np.array(calls, np.int64), [function_of[row] for row in calls]


def _bare(name: str) -> str:
    """The letters and digits of a name: a module is called after its function, with `_` for what HLO does not allow."""
    return _NO_LETTER.sub("", name)
