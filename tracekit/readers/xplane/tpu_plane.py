"""The rows of a TPU core's plane, TensorCore or SparseCore.

`XLA Ops` (`Sparse Core Ops`) is the truth. It is nested, and asynchronous copies and collectives stand in it as halves,
`-start` and `-done`, which are made one row. `Async XLA Ops` shows the same, in flight, and may be filled on one chip
only: it serves where the halves are missing. `XLA Modules` tells which program ran when.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import kinds
from tracekit.readers.xplane import hlo_text, instruction, ops
from tracekit.readers.xplane.halves import pair
from tracekit.readers.xplane.instruction import ASYNC, MOVES, TOLD, Instruction, Op
from tracekit.readers.xplane.planes import Plane
from tracekit.trace import EVENT_COLUMNS, Kind, frame, labelled

STATS = ("correlation_id", "run_id", "group_id", "hlo_op", "hlo_module")
OPS = ("XLA Ops", "Sparse Core Ops")
IN_FLIGHT = ("Async XLA Ops",)
MODULES = ("XLA Modules", "Sparse Core Modules")
LINES = frozenset({*OPS, *IN_FLIGHT, *MODULES})

# `slice-start.3`, and `reduce-scatter.5.call-start` of what a SparseCore runs.
_HALF_NAME = re.compile(r"([a-z-]+?)(?:\.\d+|\.call|\.async|\.remat\w*|\.clone)*-(start|update|done)(?:\.\w+)*")
# A fusion of another category is known by that, whatever it holds: an asynchronous collective may run beside a product.
_PLAIN_FUSIONS = (None, "fusion", "custom fusion", "loop fusion")


@dataclass(frozen=True)
class Seen:
    """One distinct op: what it is, which half it is ("start", "update", "done" or ""), and the name of its partner."""

    name: str
    op: Op | None
    judged: kinds.Judged
    category: str | None
    program: int
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
    lookup: ops.Lookup,
) -> tuple[pd.DataFrame, list[str]]:
    """The rows (EVENT_COLUMNS) of the events `rows`, and notes; `start` and `end` are those of all events, in ps."""
    line = [one.name for one in plane.lines]
    truth, flying, modules = (
        rows[np.isin(plane.line[rows], [at for at, name in enumerate(line) if name in names])]
        for names in (OPS, IN_FLIGHT, MODULES)
    )
    if len(truth) == 0 and len(flying) == 0:
        lost = f"{len(modules)} executions of programs were recorded, but none of their ops."
        return frame(EVENT_COLUMNS), [lost] if len(modules) else []
    used = np.concatenate([truth, flying])
    ids, distinct = pd.factorize(plane.metadata_id[used])
    seen = [_seen(plane, int(one), lookup) for one in distinct]
    control = np.array([one.control for one in seen], bool)
    ran = _Executions(plane, start, end, modules)

    of_truth = ids[: len(truth)]
    pieces = ops.leaves(start[truth], end[truth], end[truth], plane.line[truth], control[of_truth])
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

    data = ops.base(host, device, plane, event)
    data |= ops.described([(one.op, one.judged.kind) for one in seen], which)
    data["category"] = labelled([one.category for one in seen], which)
    data["name"] = data["hlo_op"] = labelled([one.name for one in seen], which)
    data["kind"] = labelled([one.judged.kind.value for one in seen], which)
    data["direction"] = labelled([one.judged.direction for one in seen], which)
    data["known_by"] = labelled([one.judged.known_by.value for one in seen], which)
    data["start_ps"], data["end_ps"] = starts, ends
    data["wait_ps"] = pd.arrays.IntegerArray(wait, wait < 0)
    if ran.names:
        run = ran.of(starts)
        data["hlo_module"] = labelled([*ran.names, None], run)
        absent = data["run_id"].isna()
        data["run_id"][absent] = pd.arrays.IntegerArray(ran.ids[run], ~ran.has_id[run])[absent]
    return frame(EVENT_COLUMNS, data), notes + _async_notes(seen, which)


class _Executions:
    """Which execution of which program each time falls into, by the events `modules` of a plane."""

    def __init__(
        self, plane: Plane, start: NDArray[np.int64], end: NDArray[np.int64], modules: NDArray[np.int64]
    ) -> None:
        rows = modules[np.argsort(start[modules], kind="stable")]
        self._start, self._end = start[rows], end[rows]
        ids, has_id = plane.numbers("run_id")
        # The last of each stands for no execution.
        self.ids, self.has_id = np.r_[ids[rows], 0], np.r_[has_id[rows], False]
        self.names = [str(name).rpartition("(")[0] or str(name) for name in plane.names[rows]]

    def of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The execution in which each time lies, -1 if in none, shape (n,)."""
        at = np.searchsorted(self._start, times, side="right") - 1
        if len(self._start) == 0:
            return at
        return np.where((at >= 0) & (times < self._end[at]), at, -1)


def _seen(plane: Plane, event_id: int, lookup: ops.Lookup) -> Seen:
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
    op, by_name = _op(name, printed, category, lookup("", str(program & 2**64 - 1), name))
    judged = _judged(name, op, category, by_name)
    half = op.half if op is not None and judged.kind != Kind.COMPUTE else ""
    partner = ""
    if half in ("update", "done"):
        partner = printed.operand_names[0] if printed and printed.operand_names else name.replace(f"-{half}", "-start")
    return Seen(
        name,
        op,
        judged,
        category=_category(category, op),
        program=program,
        half=half,
        partner=partner,
        control=not half and (kinds.is_control_flow(category, "") or ops.is_control_flow(name, op)),
    )


def _op(name: str, printed: Instruction | None, category: str | None, proto: Op | None) -> tuple[Op | None, bool]:
    """What HLO says of an op, by its text, its proto and its category; and whether its name had to tell what it
    does."""
    if printed is None:
        if proto is not None or category is not None:
            return proto or Op(category or "", kinds.whole(category or "")), False
        found, does = _HALF_NAME.fullmatch(name), _named(name)
        return (Op(f"{does}-{found[2]}", does), True) if found and does else (None, False)
    base = kinds.whole(printed.opcode)
    joins = proto is not None and proto.does in kinds.COLLECTIVE_OPCODES
    by_name = False
    if base != printed.opcode and base not in MOVES | kinds.COLLECTIVE_OPCODES:
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
    return found[1] if found and found[1] in MOVES | kinds.COLLECTIVE_OPCODES else None


def _category(category: str | None, op: Op | None) -> str | None:
    """The category to show: what an async wrapper or a plain fusion does says more than that it is one."""
    vague = category is None or kinds.whole(category) == ASYNC
    if op is None or not (vague or (category in _PLAIN_FUSIONS and op.does in kinds.COLLECTIVE_OPCODES)):
        return category
    return op.category


def _judged(name: str, op: Op | None, category: str | None, by_name: bool) -> kinds.Judged:
    """The kind of an op: by its category if that tells a copy or a collective, else by its opcode."""
    way = op.direction if op else None
    told = kinds.classify(name, opcode=category, direction=way) if category else None
    if told is None or told.kind == Kind.COMPUTE or told.known_by != kinds.KnownBy.OPCODE:
        told = ops.judge(name, op)
    if op is not None and op.does in MOVES and (op.half or op.to_or_from_host):
        # What moves data beside the ops copies; in their midst it computes, unless the host is at one end.
        told = kinds.Judged(Kind.MEMCPY, way, kinds.KnownBy.OPCODE)
    return replace(told, known_by=kinds.KnownBy.NAME) if by_name else told


def _joined(
    seen: list[Seen],
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
    first, last = pair(key, starts[rows], half[rows] == 3)
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


def _keys(seen: list[Seen]) -> NDArray[np.int64]:
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


def _only_in_flight(seen: list[Seen], flying: NDArray[np.int64], truth: set[int]) -> NDArray[np.bool_]:
    """Which of the rows of `Async XLA Ops`, ops `flying` (n,), stand nowhere among the ops of `truth` as halves."""
    known = {(seen[at].program, name) for at in truth for name in (seen[at].name, seen[at].partner)}
    return np.array([(one.program, one.name) not in known for one in seen], bool)[flying]


def _async_notes(seen: list[Seen], which: NDArray[np.int64]) -> list[str]:
    unknown = np.array([one.op is not None and one.op.does == ASYNC for one in seen], bool)[which]
    if not unknown.any():
        return []
    return [f"{unknown.sum()} halves of asynchronous ops do not tell what they run; they count as compute."]
