"""Why a device stood idle: the causes, and the evidence that gives each piece of an idle interval exactly one."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.analysis.idle.pieces import Pieces, by_start, cut, joined
from tracekit.analysis.idle.threads import Doing, Thread, dispatchers, doings
from tracekit.analysis.idle.waits import awaited, blocked, same_clock, told
from tracekit.intervals import Intervals
from tracekit.timeline.gaps import gaps
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.kinds import Kind


class Cause(StrEnum):
    """Why a device stood idle; docs/concepts.md has the evidence for each."""

    HOST = "host-bound"
    INPUT = "input pipeline"
    COMPILING = "compiling"
    COPY = "waiting for a copy"
    OTHERS = "waiting for a collective or another device"
    LATENCY = "launch latency"
    QUEUED = "between queued work"
    INSIDE = "inside a program"
    BEFORE = "before first work"
    AFTER = "after last work"
    UNEXPLAINED = "unexplained"


CAUSES = tuple(Cause)
CAUSE_CODE = {cause: code for code, cause in enumerate(CAUSES)}
_OF_DOING = {Doing.MEETING: Cause.OTHERS, Doing.COMPILING: Cause.COMPILING, Doing.LOADING: Cause.INPUT}

# Work that was ready starts within this time: on V100, A100 and H100 the largest delay between a launch call's return
# and a start on an idle device was 15.2 us in 15,969 launches, and NVIDIA shows about 20 us from the call's begin:
# https://developer.nvidia.com/blog/understanding-the-visualization-of-overhead-and-latency-in-nsight-systems/
PROMPT_PS = 20_000_000


@dataclass(frozen=True)
class Evidence:
    """What all devices share: who launched each row, what the host's threads did, and what the waits waited for."""

    rows: Rows
    launch: NDArray[np.int64]
    instance: NDArray[np.int64]
    launches: pd.DataFrame
    called: NDArray[np.int64]
    returned: NDArray[np.int64]
    doing: Mapping[Thread, Mapping[Doing, Intervals]]
    dispatchers: Mapping[str, str]
    syncs: pd.DataFrame
    awaited: NDArray[np.int64]
    blocked: Mapping[int, Mapping[str, tuple[Intervals, Intervals]]]


def evidence(
    rows: Rows,
    launch: NDArray[np.int64],
    instance: NDArray[np.int64],
    launches: pd.DataFrame,
    spans: pd.DataFrame,
    syncs: pd.DataFrame,
) -> Evidence:
    """The evidence that a trace holds; the arguments are those of `analysis.idle`."""
    placed = [device for device, good in enumerate(rows.placed) if good]
    waited = awaited(rows, launch, launches, syncs)
    return Evidence(
        rows,
        launch,
        instance,
        launches,
        launches["start_ps"].to_numpy(),
        launches["end_ps"].to_numpy(),
        doings(spans),
        dispatchers(spans),
        syncs,
        waited,
        blocked(rows, placed, launch, launches, syncs, waited),
    )


def causes(evidence: Evidence, device: int) -> Pieces:
    """The idle time between a device's first start and last end; a piece's label indexes CAUSES.

    Each interval is what was before the next launch (the host's part), then a proven wait of the launched work, then
    the rest; parts that are empty vanish.
    """
    rows, launch = evidence.rows, evidence.launch
    before, after = gaps(rows, device)
    start, end = rows.end[before], rows.start[after]
    by = launch[after]
    linked = by >= 0
    inside = _one_program(evidence, before, after)
    led = linked & ~inside
    called, returned = (
        np.where(led, one[by] if len(one) else 0, start) for one in (evidence.called, evidence.returned)
    )
    launched = np.clip(called, start, end)
    until, waited = _waits(evidence, device, before, after, start, launched)
    rest = np.full(len(after), CAUSE_CODE[Cause.UNEXPLAINED], np.int8)
    rest[inside] = CAUSE_CODE[Cause.INSIDE]
    rest[led & (end - until <= PROMPT_PS)] = CAUSE_CODE[Cause.QUEUED]
    rest[led & (end - returned <= PROMPT_PS)] = CAUSE_CODE[Cause.LATENCY]
    host = np.full(len(after), CAUSE_CODE[Cause.HOST], np.int8)
    begins, ends, labels = (
        np.column_stack(three).ravel()
        for three in ((start, launched, until), (launched, until, end), (host, waited, rest))
    )
    at = np.flatnonzero(ends > begins)
    pieces = Pieces(begins[at], ends[at], labels[at], after[at // 3], at // 3)
    return _refined(evidence, device, pieces)


def _one_program(evidence: Evidence, before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether no launch was needed between two rows: one call started both, or, where work is not launched piece by
    piece (it has no correlation id), one run of one program holds both."""
    rows, launch = evidence.rows, evidence.launch
    called: NDArray[np.bool_] = (launch[before] >= 0) & (launch[before] == launch[after])
    has_run, has_id = rows.known("run_id"), rows.known("correlation_id")
    if not has_run.any() or has_id.all():
        return called
    run, _ = rows.numbers("run_id")
    module = rows.codes("hlo_module")
    same = has_run[before] & has_run[after] & (run[before] == run[after]) & (module[before] == module[after])
    called |= same & ~has_id[before] & ~has_id[after]
    return called


def _waits(
    evidence: Evidence,
    device: int,
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    start: NDArray[np.int64],
    launched: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Until when the row that ends each interval had to wait for work elsewhere, and the cause: both (m,).

    Either its lane was told to wait for work that ended meanwhile; or the collective that the device had just done
    went on elsewhere, and the row started promptly after its end, in an interval too long for a mere start.
    """
    rows = evidence.rows
    until, cause = launched.copy(), np.full(len(after), CAUSE_CODE[Cause.OTHERS], np.int8)
    end = rows.start[after]
    group = evidence.instance[before]
    some = np.flatnonzero((group >= 0) & (end - start > PROMPT_PS))
    if len(some):
        done = _ends(evidence, device)[group[some]]
        good = (done > launched[some]) & (done <= end[some]) & (end[some] - done <= PROMPT_PS)
        until[some[good]] = done[good]
    for lane, moment, row in told(rows, device, evidence.syncs, evidence.awaited):
        mine = np.flatnonzero((evidence.launch[after] >= 0) & ((lane == -1) | (rows.codes("lane")[after] == lane)))
        last = np.searchsorted(moment, evidence.called[evidence.launch[after[mine]]], side="right") - 1
        mine, row = mine[last >= 0], row[last[last >= 0]]
        done = rows.end[row]
        good = (done > until[mine]) & (done <= end[mine])
        until[mine[good]] = done[good]
        copy = rows.kind[row[good]] == CODE[Kind.MEMCPY]
        cause[mine[good]] = np.where(copy, CAUSE_CODE[Cause.COPY], CAUSE_CODE[Cause.OTHERS])
    return until, cause


def _ends(evidence: Evidence, device: int) -> NDArray[np.int64]:
    """When each collective instance ended on the devices of this device's clock."""
    rows = evidence.rows
    some = np.flatnonzero((evidence.instance >= 0) & same_clock(rows, device)[rows.device])
    found = np.full(int(evidence.instance.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(found, evidence.instance[some], rows.end[some])
    return found


def _refined(evidence: Evidence, device: int, pieces: Pieces) -> Pieces:
    """The pieces, with the host's parts cut by what the launching thread was doing."""
    mine = np.flatnonzero(pieces.label == CAUSE_CODE[Cause.HOST])
    names, codes = evidence.launches["thread"].cat.categories, evidence.launches["thread"].cat.codes.to_numpy()
    thread = codes[evidence.launch[pieces.next[mine]]] if len(mine) else mine
    parted, left = [], np.ones(len(pieces), bool)
    for code in np.unique(thread).tolist():
        claims = _claims(evidence, device, str(names[code]))
        parts = mine[thread == code]
        spans = iv.intervals(pieces.start[parts], pieces.end[parts])
        parts = parts[iv.within(iv.union(*(held for _, held in claims)), spans) > 0]
        left[parts] = False
        parted.append(cut(pieces.take(parts), [(CAUSE_CODE[cause], held) for cause, held in claims]))
    return pieces if left.all() else by_start(joined([pieces.take(left), *parted]))


def _claims(evidence: Evidence, device: int, thread: str) -> list[tuple[Cause, Intervals]]:
    """What a thread that launches for a device, and the one that calls its programs, did when; the first goes first."""
    host = evidence.rows.hosts[device]
    threads = dict.fromkeys([thread, evidence.dispatchers.get(host, thread)])
    waited = [evidence.blocked[device].get(one, (iv.EMPTY, iv.EMPTY)) for one in threads]
    did = [evidence.doing.get((host, one), {}) for one in threads]
    claims = [
        (Cause.COPY, iv.union(*(copy for copy, _ in waited))),
        (Cause.OTHERS, iv.union(*(others for _, others in waited))),
        *((cause, iv.union(*(one.get(doing, iv.EMPTY) for one in did))) for doing, cause in _OF_DOING.items()),
    ]
    return [(cause, held) for cause, held in claims if len(held)]
