"""The rows of a TPU core's plane, TensorCore or SparseCore.

`XLA Ops` (`Sparse Core Ops`) is the truth. It is nested, and asynchronous copies and collectives stand in it as halves,
`-start` and `-done`, which are made one row. `Async XLA Ops` shows the same, in flight, and may be filled on one chip
only: it serves where the halves are missing. `XLA Modules` tells which program ran when.

On the host, `DoEnqueueProgram` puts a program into a core's queue; its `_p` is the `_c` of the execution in `XLA
Modules`, and both have the `run_id`, which counts for each core. It runs when the program's inputs are there; the host
asked for it with `tpu::System::Execute`, whose `_p` is the `_c` of the `tpu::System::Execute=>IssueSequencedEvent`
around it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, concat, constant, distinct, frame
from tracekit.devices import number
from tracekit.readers import nested
from tracekit.readers.hlo import hlo_text, instruction
from tracekit.readers.hlo.instruction import ASYNC, DETAILED, MOVES, Instruction, Op
from tracekit.readers.losses import Lost
from tracekit.readers.xspace import host_events, planes
from tracekit.readers.xspace.host_events import HostEvents
from tracekit.readers.xspace.planes import DeviceRows, EventMetadata, PlaneEvents
from tracekit.trace import LAUNCH_COLUMNS
from tracekit.units import time
from tracekit.vocabulary import collectives, kinds
from tracekit.vocabulary.host_calls import TPU_ENQUEUE, TPU_EXECUTE, TPU_ISSUE
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.losses import Loss

STATS = ("correlation_id", "run_id", "group_id", "hlo_op", "hlo_module", "device_ordinal", "_p", "_c")
_OPS = ("XLA Ops", "Sparse Core Ops")
_IN_FLIGHT = ("Async XLA Ops",)
_MODULES = ("XLA Modules", "Sparse Core Modules")
LINES = frozenset({*_OPS, *_IN_FLIGHT, *_MODULES})

# `slice-start.3`, and `reduce-scatter.5.call-start` of what a SparseCore runs.
_HALF_NAME = re.compile(r"([a-z-]+?)(?:\.\d+|\.call|\.async|\.remat\w*|\.clone)*-(start|update|done)(?:\.\w+)*")
# A fusion of another category is known by that, whatever it holds: an asynchronous collective may run beside a product.
_PLAIN_FUSIONS = (None, "fusion", "custom fusion", "loop fusion")


@dataclass(frozen=True)
class ProgramLaunches:
    """The calls that started executions (LAUNCH_COLUMNS), and the correlation id of each by what joins them: the flow
    to `XLA Modules`, and the run on a chip."""

    launches: pd.DataFrame
    first_id: int
    by_flow: dict[int, int]
    by_run: dict[tuple[int, int], int]

    def astray(self, flow: NDArray[np.int64], run: NDArray[np.int64], has_run: NDArray[np.bool_], chip: int) -> int:
        """How many executions, told as in `of`, have a flow that leads to the call of another run, where that of
        their own is known."""
        keys = [
            (chip, run_id) if has_id else None for run_id, has_id in zip(run.tolist(), has_run.tolist(), strict=True)
        ]
        calls = [None if key is None else self.by_run.get(key) for key in keys]
        return sum(
            call is not None and self.by_flow.get(flow_id, call) != call
            for flow_id, call in zip(flow.tolist(), calls, strict=True)
        )

    def of(
        self, flow: NDArray[np.int64], run: NDArray[np.int64], has_run: NDArray[np.bool_], chip: int
    ) -> NDArray[np.int64]:
        """The correlation id of the executions with `_c` `flow` (0 where there is none) and `run` on a chip; -1 where
        no call is known; all (n,)."""
        correlation_ids = [
            self.by_flow.get(flow_id, self.by_run.get((chip, run_id), -1) if has_id and flow_id == 0 else -1)
            for flow_id, run_id, has_id in zip(flow.tolist(), run.tolist(), has_run.tolist(), strict=True)
        ]
        return np.array(correlation_ids, np.int64)

    def ahead(self, ids: NDArray[np.int64], start: NDArray[np.int64]) -> int:
        """By how many ps an execution started before its call did, the most among those with `ids` (-1 for none) at
        `start` (n,): so much, or more, do the clocks of host and chip differ. Not positive if none did."""
        has_call = ids >= 0
        call_start = self.launches["start_ps"].to_numpy()[ids[has_call] - self.first_id]
        return int((call_start - start[has_call]).max(initial=0))


@dataclass(frozen=True, slots=True)
class _Work:
    """What an op does, one object for all that are alike: which half it is ("start", "update", "done" or ""), whether
    it only encloses others, and what its metadata tell, as EVENT_COLUMNS and OP_COLUMNS have it."""

    op: Op | None
    classification: kinds.Classification
    category: str | None
    half: str
    control: bool
    opcode: str | None


class _Ops(NamedTuple):
    """The n distinct ops, as columns, since a program may have hundreds of thousands: `work` and `program` (n,) are
    places in `works` and `programs` (their ids, 0 where an op does not tell it), `partner` has the name that a half
    gives of its other half, by the place of the op, and `operands` the names that the text of each gives, with a blank
    between them. `counts` are of OP_COLUMNS."""

    names: list[str]
    works: list[_Work]
    work: NDArray[np.int64]
    programs: list[int]
    program: NDArray[np.int64]
    partner: dict[int, str]
    operands: list[str]
    texts: dict[str, list[str | None]]
    counts: dict[str, Any]

    def of_work(self, value: Callable[[_Work], Any], dtype: Any) -> NDArray[Any]:
        """A value of the work of each op, (n,)."""
        return np.array([value(work) for work in self.works], dtype)[self.work]

    def key(self, at: int) -> tuple[int, str]:
        """What tells the op at a place from others."""
        return int(self.program[at]), self.names[at]

    def halves(self, half: str) -> list[int]:
        """The places of the ops that are such halves."""
        return np.flatnonzero(self.of_work(lambda work: work.half == half, bool)).tolist()


class _Rows(NamedTuple):
    """n rows: the event and the op (a place in the distinct ops) of each; start, end, wait in ps (-1: none), (n,)."""

    event: NDArray[np.int64]
    op: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    wait: NDArray[np.int64]

    def at(self, places: NDArray[Any]) -> "_Rows":
        """The rows at some places, or those of a mask."""
        return _Rows(*(column[places] for column in self))


class _Executions:
    """Which execution of which program each time falls into, by the events `modules` of a plane."""

    def __init__(self, events: PlaneEvents, modules: NDArray[np.int64]) -> None:
        plane = events.plane
        rows = modules[np.argsort(events.start[modules], kind="stable")]
        self.start, self._end = events.start[rows], events.end[rows]
        ids, has_id = plane.numbers("run_id")
        flow, has_flow = plane.numbers("_c")
        self.flow = np.where(has_flow, flow, 0)[rows]
        # The last of each stands for no execution.
        self.ids, self.has_id = np.r_[ids[rows], 0], np.r_[has_id[rows], False]
        self.programs = [*map(str, plane.names_of(rows))]
        self.names = [name.rpartition("(")[0] or name for name in self.programs]

    @property
    def keys(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """What tells the call of each: its flow, 0 for none, its run, and whether it has one."""
        return self.flow, self.ids[:-1], self.has_id[:-1]

    def of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The execution in which each time lies, -1 if in none, shape (n,)."""
        at = np.searchsorted(self.start, times, side="right") - 1
        if len(self.start) == 0:
            return at
        return np.where((at >= 0) & (times < self._end[at]), at, -1)


def unknown_lines(plane: planes.Plane) -> tuple[list[str], bool]:
    """The names of the lines of a TPU core with events that no one knows, and whether one of these may be that of its
    operations or programs, as there is none."""
    names = [line.name for line in plane.lines]
    filled = {names[at] for at in np.unique(plane.line)}
    unknown = sorted(name or "without a name" for name in filled - LINES)
    return unknown, bool(unknown) and not (filled & {*_OPS} and filled & {*_MODULES})


def read(host: str, device: str, events: PlaneEvents, lookup: planes.Lookup, calls: ProgramLaunches) -> DeviceRows:
    """The rows of a TPU core, of those of the events that have a time; `calls` started programs on the TPUs."""
    plane = events.plane
    lines = [line.name for line in plane.lines]
    truth, flying, modules = (
        events.rows[np.isin(plane.line[events.rows], [at for at, name in enumerate(lines) if name in names])]
        for names in (_OPS, _IN_FLIGHT, _MODULES)
    )
    if len(truth) == 0 and len(flying) == 0:
        note = f"{len(modules)} executions of programs were recorded, but none of their ops."
        return DeviceRows({}, {}, [note] if len(modules) else [])
    op_of, event_ids = pd.factorize(plane.metadata_id[np.concatenate([truth, flying])])
    ops = _ops(plane.all_metadata(event_ids.tolist()), lookup)
    executions = _Executions(events, modules)
    rows, notes = _join_halves(ops, _leaves(events, ops, truth, op_of[: len(truth)]), executions)
    rows = _with_flying(events, ops, rows, flying, op_of)
    data = planes.event_columns(host, plane, rows.event)
    work = ops.work[rows.op]
    data |= planes.hlo_columns([each.op for each in ops.works], [each.classification for each in ops.works], work)
    data["category"] = categorical([each.category for each in ops.works], work)
    data["name"] = data["hlo_op"] = categorical(ops.names, rows.op)
    data["direction"] = categorical([each.classification.direction for each in ops.works], work)
    data["device"] = constant(device, len(rows.event))
    data["start_ps"], data["end_ps"] = rows.start, rows.end
    data["wait_ps"] = pd.arrays.IntegerArray(rows.wait, rows.wait < 0)
    run = executions.of(rows.start)
    data["op"], operations, operands = _operations(ops, data["hlo_op"], rows.op, executions, run)
    lost: list[Lost] = []
    if executions.names:
        more, launch_notes = _execution_columns(device, executions, run, data["run_id"], calls)
        data |= more
        notes += launch_notes
        if astray := calls.astray(*executions.keys, _chip(device)):
            evidence = f"the flows to programs of {device}, which tell what launched them"
            lost.append(Lost(Loss.DETAILS, astray, len(executions.names), evidence))
    return DeviceRows(data, operations, notes + _async_notes(ops, rows.op), lost=lost, operands=operands)


def _chip(device: str) -> int:
    """The number of a chip; -1 of a SparseCore, which has none and counts its runs for itself."""
    chip = number(device)
    return -1 if chip is None else chip


def _leaves(events: PlaneEvents, ops: _Ops, truth: NDArray[np.int64], op_of: NDArray[np.int64]) -> _Rows:
    """The rows of the events `truth` (m,), of the ops `op_of`, without those that only enclose others."""
    start, end = events.start[truth], events.end[truth]
    control = ops.of_work(lambda work: work.control, bool)
    pieces = nested.leaves(start, end, end, events.plane.line[truth], control[op_of])
    at = pieces[:, 0]
    return _Rows(truth[at], op_of[at], pieces[:, 1].copy(), pieces[:, 2].copy(), np.full(len(at), -1))


def _with_flying(
    events: PlaneEvents, ops: _Ops, rows: _Rows, flying: NDArray[np.int64], op_of: NDArray[np.int64]
) -> _Rows:
    """The rows, and of the events `flying`, which are the last of `op_of`, those whose ops stand nowhere as halves."""
    count = len(op_of) - len(flying)
    if not len(flying):
        return rows
    in_flight, place = np.unique(op_of[count:], return_inverse=True)
    keys = [ops.key(at) for at in in_flight.tolist()]
    truth, wanted = np.unique(op_of[:count]).tolist(), {*keys}
    told = {key for key in map(ops.key, truth) if key in wanted}
    told |= {(int(ops.program[at]), ops.partner[at]) for at in truth if at in ops.partner}
    alone = np.array([key not in told for key in keys], bool)[place]
    if not alone.any():
        return rows
    event = flying[alone]
    more = _Rows(event, op_of[count:][alone], events.start[event], events.end[event], np.full(len(event), -1))
    both = _Rows(*map(np.concatenate, zip(rows, more, strict=True)))
    return both.at(np.argsort(both.start, kind="stable"))


def _execution_columns(
    device: str,
    executions: _Executions,
    run: NDArray[np.int64],
    run_ids: pd.arrays.IntegerArray,
    calls: ProgramLaunches,
) -> tuple[dict[str, Any], list[str]]:
    """The columns that tell the execution `run` (n,) of each row and the call that started it, and notes; `run_ids` are
    those of the rows' own events."""
    absent = run_ids.isna()
    run_ids[absent] = pd.arrays.IntegerArray(executions.ids[run], ~executions.has_id[run])[absent]
    call = calls.of(*executions.keys, _chip(device))
    notes = []
    if (ahead := calls.ahead(call, executions.start)) > 0:
        notes.append(
            f"executions start up to {time(ahead)} before their launch on the host: the clocks of host and "
            "chip differ by at least that, and launch latencies are meaningless."
        )
    call = np.append(call, -1)[run]
    columns = {
        "hlo_module": categorical([*executions.names, None], run),
        "run_id": run_ids,
        "correlation_id": pd.arrays.IntegerArray(call, call < 0),
    }
    return columns, notes


def _operations(
    ops: _Ops, name: pd.Categorical, which: NDArray[np.int64], executions: _Executions, run: NDArray[np.int64]
) -> tuple[NDArray[np.int64], dict[str, Any], dict[int, str]]:
    """The operation of each row, what is known of these (OP_COLUMNS), and by the number of each the operands that its
    text gives, with a blank between them; `name`, `which` and `run` (n,) are each row's op and
    execution.

    The program of an op that does not tell it is the one that ran then.
    """
    code, programs = pd.factorize(np.array([*executions.programs, ""], object)[run])
    program_of = {program[program.rfind("(") :]: program for program in executions.programs}
    program_id = np.array([program != 0 for program in ops.programs], bool)
    has_program = program_id[ops.program[which]]
    operation, first = distinct(which, np.where(has_program, -1, code))
    of_op = which[first]
    names = [f"({program & 2**64 - 1})" for program in ops.programs]
    names = [program_of.get(name, name) for name in names]
    # Behind those that ops tell stand those that ran.
    number = np.where(has_program[first], ops.program[of_op], len(names) + code[first])
    starts = {ops.key(at): ops.partner[at] for half in ("update", "done") for at in ops.halves(half)}
    operands: dict[int, str] = {}
    for at, op in enumerate(of_op.tolist()):
        if ops.operands[op]:
            operands[at] = _started(int(ops.program[op]), ops.operands[op], starts) if starts else ops.operands[op]
    columns = {
        "program": categorical([name or None for name in (*names, *programs)], number),
        "hlo_op": name[first],
        "opcode": categorical([work.opcode for work in ops.works], ops.work[of_op]),
        **{name: categorical(texts, of_op) for name, texts in ops.texts.items()},
        **{name: values[of_op] for name, values in ops.counts.items()},
    }
    return operation, columns, operands


def _started(program: int, operands: str, starts: Mapping[tuple[int, str], str]) -> str:
    """The names of operands with that of the `-start` for each half that ends it, by what each of these names."""
    names = []
    for name in operands.split(" "):
        for _ in range(len(starts)):
            if (program, name) not in starts:
                break
            name = starts[program, name]
        names.append(name)
    return " ".join(names)


def _join_halves(ops: _Ops, rows: _Rows, executions: _Executions) -> tuple[_Rows, list[str]]:
    """The rows with the halves of each asynchronous op as one, which waits as long as its `-done` ran, and notes."""
    wait, end, keep = rows.wait.copy(), rows.end.copy(), np.ones(len(rows.op), np.bool_)
    half = ops.of_work(lambda work: ("", "start", "update", "done").index(work.half), np.int64)[rows.op]
    run = executions.of(rows.start)
    halves = np.flatnonzero((half == 1) | (half == 3))
    # One op of one execution: the halves of another must not end it.
    key = _keys(ops)[rows.op[halves]] * (run.max(initial=0) + 2) + run[halves]
    first, last = paired_halves(key, rows.start[halves], half[halves] == 3)
    first, last = halves[first], halves[last]
    wait[half == 3] = (rows.end - rows.start)[half == 3]
    wait[first], end[first] = wait[last], end[last]
    keep[last] = False
    keep[half == 2] = False
    rows = rows._replace(end=end, wait=wait).at(keep)
    unstarted, unended = int((half == 3).sum()) - len(last), int((half == 1).sum()) - len(first)
    if not unstarted and not unended:
        return rows, []
    return rows, [
        f"{unstarted} `-done` ops without their `-start` and {unended} `-start` ops without their `-done` were cut off "
        "at the edges of the profile: only the recorded part counts."
    ]


def _keys(ops: _Ops) -> NDArray[np.int64]:
    """A number for each op, the same for the halves of one: a `-done` is told by its operand, or else, where that is
    carried through a loop, by its channel, or by its name."""
    starts = {ops.key(at): at for at in ops.halves("start")}
    updates = {ops.key(at): ops.partner[at] for at in ops.halves("update")}
    channels: dict[tuple[int, str, str], set[int]] = {}
    keys = np.arange(len(ops.names))
    for at in ops.halves("start"):
        keys[at] = starts[ops.key(at)]
        op = ops.works[ops.work[at]].op
        if op is not None and op.group:
            channels.setdefault((int(ops.program[at]), op.does, op.group), set()).add(int(keys[at]))
    for at in ops.halves("done"):
        (program, name), op, partner = ops.key(at), ops.works[ops.work[at]].op, ops.partner[at]
        for _ in updates:  # an op may be updated several times
            partner = updates.get((program, partner), partner)
        candidates = [starts.get((program, each)) for each in (partner, name.replace("-done", "-start"))]
        by_channel = channels.get((program, op.does, op.group or ""), set()) if op else set()
        if len(by_channel) == 1:
            candidates.insert(1, *by_channel)
        keys[at] = next((start for start in candidates if start is not None), at)
    return keys


def _async_notes(ops: _Ops, which: NDArray[np.int64]) -> list[str]:
    unknown = ops.of_work(lambda work: work.op is not None and work.op.does == ASYNC, bool)[which]
    if not unknown.any():
        return []
    return [f"{unknown.sum()} halves of asynchronous ops do not say what they run: they count as compute."]


def paired_halves(
    key: NDArray[np.int64], time: NDArray[np.int64], is_done: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows (m,) of the halves that start and of those that end them, of all halves `key`, `time`, `is_done` (n,).

    Halves of one `key` are one op run over and over: the first that is open ends first. A `-done` to which nothing is
    open, and a `-start` that nothing ends, are in neither.
    """
    order = np.lexsort((is_done, time, key))
    k, ending = key[order], is_done[order]
    if len(order) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.flatnonzero(np.r_[True, k[1:] != k[:-1]])
    group = np.cumsum(np.r_[True, k[1:] != k[:-1]]) - 1
    step = np.where(ending, -1, 1)
    # How far the dones of a key are ahead of its starts, at its worst so far, is how many of them had nothing open.
    count = np.cumsum(step)
    ahead = -(count - (count[first] - step[first])[group])
    # Each key's numbers lie above those of the keys before it, so that one running maximum serves all.
    lift = group * (2 * len(order) + 1)
    unmatched = np.maximum.accumulate(np.maximum(ahead, 0) + lift) - lift
    nothing_open = ending & (unmatched > np.r_[0, unmatched[:-1]] * ~np.isin(np.arange(len(order)), first))
    starts, ends = order[~ending], order[ending & ~nothing_open]
    # Counted within its key, the first done ends the first start.
    start_group, end_group = group[~ending], group[ending & ~nothing_open]
    rank_of_end = np.arange(len(end_group)) - np.searchsorted(end_group, end_group)
    at = np.searchsorted(start_group, end_group) + rank_of_end
    return starts[at], ends


def _ops(every: Iterable[EventMetadata], lookup: planes.Lookup) -> _Ops:
    """What the metadata of events tell: the name is often the op's whole HLO text, its `hlo_category` a stat."""
    names: list[str] = []
    numbers: dict[str, dict[Any, int]] = {"work": {}, "program": {}}
    places: dict[str, list[int]] = {"work": [], "program": []}
    partner: dict[int, str] = {}
    operands: list[str] = []
    texts: dict[str, list[str | None]] = {"source": [], "framework_op": []}
    counts: dict[str, list[int]] = {"flops": [], "bytes_accessed": []}
    for metadata in every:
        stats = metadata.stats
        head = hlo_text.head(metadata.name)
        name = head[0] if head else metadata.display_name or metadata.name
        program = stats.get("program_id", 0)
        program = program if isinstance(program, int) else 0
        parsed = None
        if head is not None:
            base = kinds.base_opcode(head[1])
            parsed = hlo_text.parse(metadata.name) if base in DETAILED or base != head[1] else Instruction(*head)
        proto = lookup("", str(program & 2**64 - 1), name)
        opcode = head[1] if head else proto.opcode if proto else None
        work = _work(name, parsed, planes.text_stat(stats, "hlo_category"), proto, opcode)
        if work.half in ("update", "done"):
            names_told = parsed.operand_names if parsed else ()
            partner[len(names)] = next(iter(names_told), name.replace(f"-{work.half}", "-start"))
        names.append(name)
        for what, value in (("work", work), ("program", program)):
            places[what].append(numbers[what].setdefault(value, len(numbers[what])))
        operands.append(" ".join(hlo_text.operand_names(metadata.name)) if proto is None else "")
        texts["source"].append(planes.text_stat(stats, "source"))
        texts["framework_op"].append((planes.text_stat(stats, "tf_op") or "").removesuffix(":") or None)
        counts["flops"].append(_count(stats.get("flops")) or _count(stats.get("model_flops")))
        counts["bytes_accessed"].append(_count(stats.get("bytes_accessed")))
    of_ops = {name: np.array(column, np.int64) for name, column in counts.items()}
    return _Ops(
        names,
        [*numbers["work"]],
        np.array(places["work"], np.int64),
        [*numbers["program"]],
        np.array(places["program"], np.int64),
        partner,
        operands,
        texts,
        {name: pd.arrays.IntegerArray(column, column == 0) for name, column in of_ops.items()},
    )


def _work(name: str, parsed: Instruction | None, category: str | None, proto: Op | None, opcode: str | None) -> _Work:
    """What an op does by its name, its text, its category and its proto."""
    op, by_name = _op(name, parsed, category, proto)
    classification = _classify(name, op, category, by_name)
    half = op.half if op is not None and classification.kind != Kind.COMPUTE else ""
    control = not half and (kinds.is_control_flow(category, "") or planes.is_control_flow(name, op))
    return _Work(op, classification, _category(category, op), half, control, opcode)


def _count(value: Any) -> int:
    """A cost that XLA counted, 0 of none; it writes 0 also of what it cannot count, as a custom call."""
    return value if isinstance(value, int) and 0 < value < 1 << 63 else 0


def _op(name: str, parsed: Instruction | None, category: str | None, proto: Op | None) -> tuple[Op | None, bool]:
    """What HLO says of an op, by its text, its proto and its category; and whether its name had to tell what it
    does."""
    if parsed is None:
        if proto is not None or category is not None:
            return proto or Op(category or "", kinds.base_opcode(category or "")), False
        half, does = _HALF_NAME.fullmatch(name), _work_by_name(name)
        return (Op(f"{does}-{half[2]}", does), True) if half and does else (None, False)
    base = kinds.base_opcode(parsed.opcode)
    is_collective = proto is not None and proto.does in collectives.OPCODES
    by_name = False
    if base != parsed.opcode and base not in MOVES | collectives.OPCODES:
        # What a wrapper runs is not printed: the proto tells it, or the name that XLA made of it.
        if proto is not None and is_collective:
            return replace(proto, opcode=parsed.opcode), False
        does = proto.does if proto is not None and proto.does not in (ASYNC, base) else _work_by_name(name)
        by_name = does is not None and (proto is None or proto.does != does)
        parsed = replace(parsed, inner=Instruction(name, does) if does else None)
    op = instruction.describe(parsed)
    if proto is not None and is_collective and op.does == "fusion" and category in _PLAIN_FUSIONS:
        return proto, False
    if proto is not None and is_collective and op.does == proto.does:
        op = replace(op, ranks=op.ranks or proto.ranks, group=op.group or proto.group)
    return op, by_name


def _work_by_name(name: str) -> str | None:
    """What a half does by its name, `slice` of `slice-start.3`, if that is a copy or a collective."""
    match = _HALF_NAME.fullmatch(name)
    return match[1] if match and match[1] in MOVES | collectives.OPCODES else None


def _category(category: str | None, op: Op | None) -> str | None:
    """The category to show: what an async wrapper or a plain fusion does says more than that it is one."""
    vague = category is None or kinds.base_opcode(category) == ASYNC
    if op is None or not (vague or (category in _PLAIN_FUSIONS and op.does in collectives.OPCODES)):
        return category
    return op.category


def _classify(name: str, op: Op | None, category: str | None, by_name: bool) -> kinds.Classification:
    """The kind of an op: by its category if that tells a copy or a collective, else by its opcode."""
    way = op.direction if op else None
    classification = kinds.classify(name, opcode=category, direction=way) if category else None
    if classification is None or classification.kind == Kind.COMPUTE or classification.known_by != kinds.KnownBy.OPCODE:
        classification = planes.classify(name, op)
    if op is not None and op.does in MOVES and (op.half or op.to_or_from_host):
        # What moves data beside the ops copies; in their midst it computes, unless the host is at one end.
        classification = kinds.Classification(Kind.MEMCPY, way, kinds.KnownBy.OPCODE)
    return replace(classification, known_by=kinds.KnownBy.NAME) if by_name else classification


def program_launches(host: str, hosts: list[HostEvents], first_id: int) -> ProgramLaunches:
    """The calls on the planes of a host that started executions on TPUs; their ids count from `first_id`.

    A run that several calls name on one chip is told by its flow alone.
    """
    tables = []
    by_flow: dict[int, int] = {}
    by_run: dict[tuple[int, int], int] = {}
    repeated = set()
    for events in hosts:
        rows = np.flatnonzero(events.with_name(lambda name: name == TPU_ENQUEUE))
        if len(rows) == 0:
            continue
        calls = _callers(events, rows)
        ids = first_id + len(by_flow) + np.arange(len(rows))
        tables.append(frame(LAUNCH_COLUMNS, host_events.host_columns(host, events, calls) | {"correlation_id": ids}))
        flow, chip, run = (events.plane.numbers(stat)[0][rows].tolist() for stat in ("_p", "device_ordinal", "run_id"))
        for flow_id, key, call_id in zip(flow, zip(chip, run, strict=True), ids.tolist(), strict=True):
            by_flow[flow_id or -call_id] = call_id
            if key in by_run:
                repeated.add(key)
            by_run[key] = call_id
    return ProgramLaunches(
        concat(LAUNCH_COLUMNS, tables),
        first_id,
        by_flow,
        {key: call_id for key, call_id in by_run.items() if key not in repeated},
    )


def _callers(events: HostEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `tpu::System::Execute` that led to each of the events `rows`, else the event itself."""
    issues = events.around(events.with_name(lambda name: name == TPU_ISSUE), rows)
    consumed = events.plane.numbers("_c")[0][issues]
    executes = np.flatnonzero(events.with_name(lambda name: name == TPU_EXECUTE))
    by_flow = dict(zip(events.plane.numbers("_p")[0][executes].tolist(), executes.tolist(), strict=True))
    callers = [
        by_flow.get(flow, row) if issue >= 0 and flow != 0 else row
        for row, issue, flow in zip(rows.tolist(), issues.tolist(), consumed.tolist(), strict=True)
    ]
    return np.array(callers, np.int64)
