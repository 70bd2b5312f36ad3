"""The rows of a TPU core's plane, TensorCore or SparseCore.

`XLA Ops` (`Sparse Core Ops`) is the truth. It is nested, and asynchronous copies and collectives stand in it as halves,
`-start` and `-done`, which are made one row. `Async XLA Ops` shows the same, in flight, and may be filled on one chip
only: it serves where the halves are missing. `XLA Modules` tells which program ran when.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, frame
from tracekit.devices import number
from tracekit.readers import nested
from tracekit.readers.distinct import distinct
from tracekit.readers.hlo import hlo_text, instruction
from tracekit.readers.hlo.instruction import ASYNC, MOVES, TOLD, Instruction, Op
from tracekit.readers.xspace import plane_ops
from tracekit.readers.xspace.planes import Plane
from tracekit.readers.xspace.tpu_launches import Enqueued
from tracekit.trace import EVENT_COLUMNS
from tracekit.vocabulary import collectives, kinds
from tracekit.vocabulary.kinds import Kind

STATS = ("correlation_id", "run_id", "group_id", "hlo_op", "hlo_module", "_c")
OPS = ("XLA Ops", "Sparse Core Ops")
IN_FLIGHT = ("Async XLA Ops",)
MODULES = ("XLA Modules", "Sparse Core Modules")
LINES = frozenset({*OPS, *IN_FLIGHT, *MODULES})


# `slice-start.3`, and `reduce-scatter.5.call-start` of what a SparseCore runs.
_HALF_NAME = re.compile(r"([a-z-]+?)(?:\.\d+|\.call|\.async|\.remat\w*|\.clone)*-(start|update|done)(?:\.\w+)*")
# A fusion of another category is known by that, whatever it holds: an asynchronous collective may run beside a product.
_PLAIN_FUSIONS = (None, "fusion", "custom fusion", "loop fusion")


@dataclass(frozen=True)
class TpuOp:
    """One distinct op: what it is, which half it is ("start", "update", "done" or ""), and the name of its partner."""

    name: str
    op: Op | None
    judged: kinds.Judged
    category: str | None
    program: int
    operation: plane_ops.Operation
    half: str = ""
    partner: str = ""
    control: bool = False


def read(
    host: str,
    device: str,
    plane: Plane,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    rows: NDArray[np.int64],
    lookup: plane_ops.Lookup,
    calls: Enqueued,
) -> tuple[pd.DataFrame, list[plane_ops.Operation], list[str]]:
    """The rows (EVENT_COLUMNS) of the events `rows`, the operations that `op` numbers, and notes; `start` and `end` are
    those of all events, in ps."""
    line = [one.name for one in plane.lines]
    truth, flying, modules = (
        rows[np.isin(plane.line[rows], [at for at, name in enumerate(line) if name in names])]
        for names in (OPS, IN_FLIGHT, MODULES)
    )
    if len(truth) == 0 and len(flying) == 0:
        lost = f"{len(modules)} executions of programs were recorded, but none of their ops."
        return frame(EVENT_COLUMNS), [], [lost] if len(modules) else []
    used = np.concatenate([truth, flying])
    ids, distinct = pd.factorize(plane.metadata_id[used])
    seen = [tpu_op(plane, int(one), lookup) for one in distinct]
    control = np.array([one.control for one in seen], bool)
    ran = _Executions(plane, start, end, modules)

    of_truth = ids[: len(truth)]
    pieces = nested.leaves(start[truth], end[truth], end[truth], plane.line[truth], control[of_truth])
    at, starts, ends = pieces[:, 0], pieces[:, 1].copy(), pieces[:, 2].copy()
    wait, keep, notes = _joined(seen, of_truth[at], starts, ends, ran.of(starts))
    event, which = truth[at[keep]], of_truth[at[keep]]
    starts, ends, wait = starts[keep], ends[keep], wait[keep]

    alone = _only_in_flight(seen, ids[len(truth) :], set(of_truth.tolist()))
    if alone.any():
        event, which = np.r_[event, flying[alone]], np.r_[which, ids[len(truth) :][alone]]
        starts, ends = np.r_[starts, start[flying[alone]]], np.r_[ends, end[flying[alone]]]
        wait = np.r_[wait, np.full(alone.sum(), -1)]
        order = np.argsort(starts, kind="stable")
        event, which, starts, ends, wait = (one[order] for one in (event, which, starts, ends, wait))

    data = plane_ops.base(host, device, plane, event)
    data |= plane_ops.described([(one.op, one.judged.kind) for one in seen], which)
    data["category"] = categorical([one.category for one in seen], which)
    data["name"] = data["hlo_op"] = categorical([one.name for one in seen], which)
    data["kind"] = categorical([one.judged.kind.value for one in seen], which)
    data["direction"] = categorical([one.judged.direction for one in seen], which)
    data["known_by"] = categorical([one.judged.known_by.value for one in seen], which)
    data["start_ps"], data["end_ps"] = starts, ends
    data["wait_ps"] = pd.arrays.IntegerArray(wait, wait < 0)
    run = ran.of(starts)
    data["op"], operations = _operations(seen, which, ran, run)
    if ran.names:
        data["hlo_module"] = categorical([*ran.names, None], run)
        absent = data["run_id"].isna()
        data["run_id"][absent] = pd.arrays.IntegerArray(ran.ids[run], ~ran.has_id[run])[absent]
        chip = number(device)  # a SparseCore, which has none, counts its runs for itself
        called = calls.of(ran.flow, ran.ids[:-1], ran.has_id[:-1], -1 if chip is None else chip)
        if (ahead := calls.ahead(called, ran.start)) > 0:
            notes.append(
                f"executions start up to {ahead / 10**6:.0f} us before the host asked for them: the clocks of the host "
                "and of the chip differ by that or more, and times between a launch and its rows mean nothing."
            )
        called = np.append(called, -1)[run]
        data["correlation_id"] = pd.arrays.IntegerArray(called, called < 0)
    return frame(EVENT_COLUMNS, data), operations, notes + _async_notes(seen, which)


class _Executions:
    """Which execution of which program each time falls into, by the events `modules` of a plane."""

    def __init__(
        self, plane: Plane, start: NDArray[np.int64], end: NDArray[np.int64], modules: NDArray[np.int64]
    ) -> None:
        rows = modules[np.argsort(start[modules], kind="stable")]
        self.start, self._end = start[rows], end[rows]
        ids, has_id = plane.numbers("run_id")
        flow, has_flow = plane.numbers("_c")
        self.flow = np.where(has_flow, flow, 0)[rows]
        # The last of each stands for no execution.
        self.ids, self.has_id = np.r_[ids[rows], 0], np.r_[has_id[rows], False]
        self.programs = [str(name) for name in plane.names[rows]]
        self.names = [name.rpartition("(")[0] or name for name in self.programs]

    def of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The execution in which each time lies, -1 if in none, shape (n,)."""
        at = np.searchsorted(self.start, times, side="right") - 1
        if len(self.start) == 0:
            return at
        return np.where((at >= 0) & (times < self._end[at]), at, -1)


def _operations(
    seen: list[TpuOp], which: NDArray[np.int64], ran: _Executions, run: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[plane_ops.Operation]]:
    """The operation of each row and what is known of these; `which` and `run` (n,) are each row's op and execution.

    The program of an op that does not tell it is the one that ran then.
    """
    code, programs = pd.factorize(np.array([*ran.programs, ""], object)[run])
    named = {program[program.rfind("(") :]: program for program in ran.programs}
    told = np.array([one.program != 0 for one in seen], bool)[which]
    number, first = distinct(which, np.where(told, -1, code))
    found = []
    starts = {(one.program, one.name): one.partner for one in seen if one.half in ("update", "done")}
    for row in first:
        one = seen[which[row]]
        key = f"({one.program & 2**64 - 1})"
        operands = []
        for name in one.operation.operands:
            for _ in range(len(starts)):
                if (one.program, name) not in starts:
                    break
                name = starts[one.program, name]
            operands.append(name)
        program = named.get(key, key) if one.program else programs[code[row]]
        found.append(replace(one.operation, program=program, operands=tuple(operands)))
    return number, found


def _joined(
    seen: list[TpuOp],
    which: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    run: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], list[str]]:
    """The wait in ps of every row, -1 for none, which rows to keep, and notes; `ends` of the halves that start are
    moved.

    The rows are of the ops `seen[which]`, in the execution `run` of a program; all (n,).
    """
    wait, keep = np.full(len(which), -1), np.ones(len(which), bool)
    half = np.array([("", "start", "update", "done").index(one.half) for one in seen], np.int64)[which]
    key_of = _keys(seen)
    rows = np.flatnonzero((half == 1) | (half == 3))
    # One op of one execution: the halves of another must not end it.
    key = key_of[which[rows]] * (run.max(initial=0) + 2) + run[rows]
    first, last = paired_halves(key, starts[rows], half[rows] == 3)
    first, last = rows[first], rows[last]
    wait[half == 3] = (ends - starts)[half == 3]
    wait[first], ends[first] = wait[last], ends[last]
    keep[last] = False
    keep[half == 2] = False
    single, unended = int((half == 3).sum()) - len(last), int((half == 1).sum()) - len(first)
    if not single and not unended:
        return wait, keep, []
    return (
        wait,
        keep,
        [
            f"{single} `-done` ops without their `-start` and {unended} without their `-done` "
            "were cut by the profile's edges; they are as long as what was seen."
        ],
    )


def _keys(seen: list[TpuOp]) -> NDArray[np.int64]:
    """A number for each op, the same for the halves of one: a `-done` is told by its operand, or else, where that is
    carried through a loop, by its channel, or by its name."""
    starts = {(one.program, one.name): at for at, one in enumerate(seen) if one.half == "start"}
    updates = {(one.program, one.name): one.partner for one in seen if one.half == "update"}
    channels: dict[tuple[int, str, str], set[int]] = {}
    for one in seen:
        if one.half == "start" and one.op is not None and one.op.group:
            at = starts[one.program, one.name]
            channels.setdefault((one.program, one.op.does, one.op.group), set()).add(at)
    keys = np.arange(len(seen))
    for at, one in enumerate(seen):
        if one.half == "start":
            keys[at] = starts[one.program, one.name]
        elif one.half == "done":
            partner = one.partner
            for _ in updates:  # an op may be updated several times
                partner = updates.get((one.program, partner), partner)
            named = [starts.get((one.program, name)) for name in (partner, one.name.replace("-done", "-start"))]
            by_channel = channels.get((one.program, one.op.does, one.op.group or ""), set()) if one.op else set()
            if len(by_channel) == 1:
                named.insert(1, *by_channel)
            keys[at] = next((found for found in named if found is not None), at)
    return keys


def _only_in_flight(seen: list[TpuOp], flying: NDArray[np.int64], truth: set[int]) -> NDArray[np.bool_]:
    """Which of the rows of `Async XLA Ops`, ops `flying` (n,), stand nowhere among the ops of `truth` as halves."""
    known = {(seen[at].program, name) for at in truth for name in (seen[at].name, seen[at].partner)}
    return np.array([(one.program, one.name) not in known for one in seen], bool)[flying]


def _async_notes(seen: list[TpuOp], which: NDArray[np.int64]) -> list[str]:
    unknown = np.array([one.op is not None and one.op.does == ASYNC for one in seen], bool)[which]
    if not unknown.any():
        return []
    return [f"{unknown.sum()} halves of asynchronous ops do not tell what they run; they count as compute."]


def paired_halves(
    key: NDArray[np.int64], time: NDArray[np.int64], done: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows (m,) of the halves that start and of those that end them, of all halves `key`, `time`, `done` (n,).

    Halves of one `key` are one op run over and over: the first that is open ends first. A `-done` to which nothing is
    open, and a `-start` that nothing ends, are in neither.
    """
    order = np.lexsort((done, time, key))
    k, ending = key[order], done[order]
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
    lost = np.maximum.accumulate(np.maximum(ahead, 0) + lift) - lift
    nothing_open = ending & (lost > np.r_[0, lost[:-1]] * ~np.isin(np.arange(len(order)), first))
    starts, ends = order[~ending], order[ending & ~nothing_open]
    # Counted within its key, the first done ends the first start.
    started, ended = group[~ending], group[ending & ~nothing_open]
    rank_of_end = np.arange(len(ended)) - np.searchsorted(ended, ended)
    at = np.searchsorted(started, ended) + rank_of_end
    return starts[at], ends


def tpu_op(plane: Plane, event_id: int, lookup: plane_ops.Lookup) -> TpuOp:
    """What the metadata of an event tells: its name is often the op's whole HLO text, its `hlo_category` a stat."""
    metadata = plane.event_metadata(event_id)
    head = hlo_text.head(metadata.name)
    name = head[0] if head else metadata.display_name or metadata.name
    category = metadata.stats.get("hlo_category") or None
    program = metadata.stats.get("program_id", 0)
    program = program if isinstance(program, int) else 0
    printed = None
    if head is not None:
        told = kinds.whole(head[1]) in TOLD or kinds.whole(head[1]) != head[1]
        printed = hlo_text.parse(metadata.name) if told else Instruction(*head)
    proto = lookup("", str(program & 2**64 - 1), name)
    op, by_name = _op(name, printed, category, proto)
    judged = _judged(name, op, category, by_name)
    half = op.half if op is not None and judged.kind != Kind.COMPUTE else ""
    partner = ""
    if half in ("update", "done"):
        partner = printed.operand_names[0] if printed and printed.operand_names else name.replace(f"-{half}", "-start")
    return TpuOp(
        name,
        op,
        judged,
        category=_category(category, op),
        program=program,
        half=half,
        partner=partner,
        control=not half and (kinds.is_control_flow(category, "") or plane_ops.is_control_flow(name, op)),
        operation=plane_ops.Operation(
            "",
            name,
            head[1] if head else proto.opcode if proto else None,
            source=metadata.stats.get("source") or None,
            framework_op=str(metadata.stats.get("tf_op") or "").removesuffix(":") or None,
            flops=_count(metadata.stats.get("flops")) or _count(metadata.stats.get("model_flops")),
            bytes_accessed=_count(metadata.stats.get("bytes_accessed")),
            operands=hlo_text.operand_names(metadata.name) if proto is None else (),
        ),
    )


def _count(value: Any) -> int | None:
    """A cost that XLA counted; it writes 0 also of what it cannot count, as a custom call."""
    return value if isinstance(value, int) and 0 < value < 1 << 63 else None


def _op(name: str, printed: Instruction | None, category: str | None, proto: Op | None) -> tuple[Op | None, bool]:
    """What HLO says of an op, by its text, its proto and its category; and whether its name had to tell what it
    does."""
    if printed is None:
        if proto is not None or category is not None:
            return proto or Op(category or "", kinds.whole(category or "")), False
        found, does = _HALF_NAME.fullmatch(name), _named(name)
        return (Op(f"{does}-{found[2]}", does), True) if found and does else (None, False)
    base = kinds.whole(printed.opcode)
    joins = proto is not None and proto.does in collectives.OPCODES
    by_name = False
    if base != printed.opcode and base not in MOVES | collectives.OPCODES:
        # What a wrapper runs is not printed: the proto tells it, or the name that XLA made of it.
        if proto is not None and joins:
            return replace(proto, opcode=printed.opcode), False
        does = proto.does if proto is not None and proto.does not in (ASYNC, base) else _named(name)
        by_name = does is not None and (proto is None or proto.does != does)
        printed = replace(printed, inner=Instruction(name, does) if does else None)
    op = instruction.describe(printed)
    if proto is not None and joins and op.does == "fusion" and category in _PLAIN_FUSIONS:
        return proto, False
    if proto is not None and joins and op.does == proto.does:
        op = replace(op, ranks=op.ranks or proto.ranks, group=op.group or proto.group)
    return op, by_name


def _named(name: str) -> str | None:
    """What a half does by its name, `slice` of `slice-start.3`, if that is a copy or a collective."""
    found = _HALF_NAME.fullmatch(name)
    return found[1] if found and found[1] in MOVES | collectives.OPCODES else None


def _category(category: str | None, op: Op | None) -> str | None:
    """The category to show: what an async wrapper or a plain fusion does says more than that it is one."""
    vague = category is None or kinds.whole(category) == ASYNC
    if op is None or not (vague or (category in _PLAIN_FUSIONS and op.does in collectives.OPCODES)):
        return category
    return op.category


def _judged(name: str, op: Op | None, category: str | None, by_name: bool) -> kinds.Judged:
    """The kind of an op: by its category if that tells a copy or a collective, else by its opcode."""
    way = op.direction if op else None
    told = kinds.classify(name, opcode=category, direction=way) if category else None
    if told is None or told.kind == Kind.COMPUTE or told.known_by != kinds.KnownBy.OPCODE:
        told = plane_ops.judge(name, op)
    if op is not None and op.does in MOVES and (op.half or op.to_or_from_host):
        # What moves data beside the ops copies; in their midst it computes, unless the host is at one end.
        told = kinds.Judged(Kind.MEMCPY, way, kinds.KnownBy.OPCODE)
    return replace(told, known_by=kinds.KnownBy.NAME) if by_name else told
