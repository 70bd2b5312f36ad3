"""Which rows are one collective: its instances over the devices.

What tells it, in this order: the number that NCCL gives each collective of a group; the execution of the program, and
how often it ran the op before; the order in which each device ran the collectives of one kind. All three are held
against the times: no rank can leave an all-reduce, all-gather, reduce-scatter or all-to-all before all have entered it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from tracekit.timeline.collectives import occurrences
from tracekit.timeline.collectives.members import members
from tracekit.timeline.collectives.occurrences import Column, Mask, Talk
from tracekit.timeline.rows import CODE, Rows
from tracekit.vocabulary.collectives import OPERATIONS, Operation, operation
from tracekit.vocabulary.kinds import Kind
from tracekit.vocabulary.names import function


class MatchedBy(StrEnum):
    """What told that rows are one instance; `NOTHING`: the instance has one row."""

    SEQUENCE = "sequence"
    RUN = "run"
    ORDER = "order"
    NOTHING = "nothing"


BY = tuple(MatchedBy)
_PEER_TO_PEER = ("send", "recv")
_UNKNOWN = Operation(bus=None)
_PASSES = 4


@dataclass(frozen=True)
class CollectiveInstances:
    """The collectives among n rows, matched over the devices.

    `instance` (n,): the instance of each row, numbered from 0 by first start, -1 for rows that are no collective. Of
    each of the m instances: `by` (m,), what told it, as the place in BY; `ranks` (m,), how many take part as far as the
    trace says, else 0; `operation` (m,), what it does, as the place in `operations`. `notes`: what could not be
    matched, or only under an assumption.
    """

    instance: Column
    by: Column
    ranks: Column
    operation: Column
    operations: tuple[str, ...]
    notes: tuple[str, ...]


def matched(rows: Rows) -> CollectiveInstances:
    """The instance of a collective that each row belongs to, with what told it.

    An instance has at most one row of a device, all on one clock. Rows whose device is unknown (`cpu:?`) have none. A
    row whose peers the trace does not show, or does not prove, is an instance of its own.
    """
    placed = np.array([*rows.placed, False], bool)
    at = np.flatnonzero((rows.kind == CODE[Kind.COLLECTIVE]) & placed[rows.device])
    instance = np.full(len(rows), -1)
    nothing = np.zeros(0, np.int64)
    if len(at) == 0:
        return CollectiveInstances(instance, nothing, nothing, nothing, (), ())
    talk, operations, ranks, notes = _talk(rows, at)
    one, by = _joined(talk)
    apart = (
        talk.together
        & (by == BY.index(MatchedBy.NOTHING))
        & (occurrences.devices_of(talk.what, talk.device)[talk.what] > 1)
    )
    if apart.any():
        notes.append(
            f"{apart.sum()} of the {len(at)} rows of collectives could not be matched with those of other devices: "
            "they stand alone, and nothing is said of their waiting."
        )
    m = int(one.max()) + 1
    first = np.full(m, np.iinfo(np.int64).max)
    np.minimum.at(first, one, talk.start)
    number = np.empty(m, np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(m)
    one = number[one]
    instance[at] = one
    table = np.zeros((3, m), np.int64)
    table[:, one] = by, ranks, talk.operation
    return CollectiveInstances(instance, table[0], table[1], table[2], operations, tuple(notes))


def _talk(rows: Rows, at: Column) -> tuple[Talk, tuple[str, ...], Column, list[str]]:
    """The collectives `at` (c,) as columns, what they do, how many ranks each has (c,), and notes."""
    place = rows.at[at]
    events = rows.events

    def codes(column: str) -> Column:
        return events[column].array.codes[place].astype(np.int64)  # type: ignore[no-any-return]

    def numbers(column: str) -> tuple[Column, Mask]:
        taken = events[column].array.take(place)
        return taken.to_numpy(np.int64, na_value=0), ~np.asarray(taken.isna())

    device = rows.device[at]
    clock = pd.factorize(np.array(rows.clocks, object))[0][device]
    operation, operations = _operations(codes("category"), codes("name"), rows)
    group, module, hlo_op = codes("group"), codes("hlo_module"), codes("hlo_op")
    own, ranks, notes = _groups(rows, clock, module, codes("ranks"), device, operation, operations)
    base = occurrences.distinct(clock, group, codes("ranks"), own)
    way, paired, more = _peers(base, operation, operations, device)
    what = occurrences.distinct(base, way, module, np.where(way < 0, hlo_op, -1))
    sizes, sized = numbers("bytes")
    known = [OPERATIONS.get(one, _UNKNOWN) for one in operations]
    even = np.array([one.equal for one in known], bool)[operation] & sized
    sequence, has_sequence = numbers("sequence")
    run, has_run = numbers("run_id")
    talk = Talk(
        device=device,
        start=rows.start[at],
        end=rows.end[at],
        operation=operation,
        meets=np.array([one.meets for one in known], bool)[operation],
        together=(own >= 0) & paired,
        what=what,
        fine=occurrences.distinct(what, codes("lane"), codes("name"), codes("dtype"), np.where(even, sizes, -1)),
        sequence=np.where(has_sequence, occurrences.distinct(base, way, sequence), -1),
        run=np.where(has_run & (hlo_op >= 0), occurrences.distinct(what, run), -1),
    )
    return talk, operations, ranks, [*notes, *more]


def _operations(category: Column, name: Column, rows: Rows) -> tuple[Column, tuple[str, ...]]:
    """What each collective does, in HLO's terms, or in its kernel's name where nothing tells more."""
    categories, names = [*rows.labels("category"), None], rows.labels("name")
    which = occurrences.distinct(category, name)
    first = np.unique(which, return_index=True)[1]
    said = [called(names[name[one]], categories[category[one]]) for one in first]
    known = {what: code for code, what in enumerate(dict.fromkeys(said))}
    return np.array([known[what] for what in said], np.int64)[which], tuple(known)


def called(name: str, category: str | None) -> str:
    """What a collective does, else its kernel's name without types and parameters."""
    return operation(name, category) or function(name)


def _groups(
    rows: Rows,
    clock: Column,
    module: Column,
    ranks: Column,
    device: Column,
    operation: Column,
    operations: tuple[str, ...],
) -> tuple[Column, Column, list[str]]:
    """In which of its collective's groups each row is, -1 where that is not proven; how many ranks that has, else 0."""
    pairs = np.array([one == "collective-permute" for one in operations], bool)[operation]
    which = occurrences.distinct(clock, module, ranks, pairs)
    on_device = occurrences.distinct(which, device)
    first = np.unique(on_device, return_index=True)[1]
    own, size = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    labels = [*rows.labels("ranks"), ""]
    in_order, unproven = set(), set()
    of_first = which[first]
    for one in range(int(which.max()) + 1):
        mine = np.flatnonzero(of_first == one)
        row = first[mine[0]]
        on = device[first[mine]]
        text = labels[ranks[row]]
        found = members(text, bool(pairs[row]), [rows.devices[k] for k in on], [rows.hosts[k] for k in on])
        own[mine], size[mine] = found.group, found.size
        if found.in_order:
            in_order.add(text)
        if -1 in found.group:
            unproven.add(text)
    notes = []
    if in_order:
        notes.append(
            f"The ranks {_some(in_order)} were taken for the devices in order, as JAX numbers those of one process "
            "unless a mesh reorders them."
        )
    if unproven:
        notes.append(
            f"Which devices of this trace are the ranks {_some(unproven)} is not told: those collectives stand alone, "
            "and nothing is said of their waiting."
        )
    return own[on_device], size[on_device], notes


def _some(texts: set[str]) -> str:
    text = min(texts)
    short = text if len(text) <= 40 else f"{text[:37]}..."
    return short if len(texts) == 1 else f"{short} and {len(texts) - 1} other lists"


def _peers(
    base: Column, operation: Column, operations: tuple[str, ...], device: Column
) -> tuple[Column, Mask, list[str]]:
    """What a row's collective is on both sides, whether its peers can be told, and notes.

    A send and its recv are one; both have the number of their sender then, below 0. Others have their operation.
    """
    sides = [operations.index(one) if one in operations else -1 for one in _PEER_TO_PEER]
    lone = np.isin(operation, [one for one in sides if one >= 0])
    if not lone.any():
        return operation, np.ones(len(base), bool), []
    low, high = np.full(base.max() + 1, len(device)), np.full(base.max() + 1, -1)
    np.minimum.at(low, base[lone], device[lone])
    np.maximum.at(high, base[lone], device[lone])
    of = np.ones(len(base), np.int64)
    of[lone] = occurrences.devices_of(base[lone], device[lone])[base[lone]]
    sends, from_low = operation == sides[0], device == low[base]
    way = np.where(lone, np.where(sends == from_low, -1, -2), operation)
    unknown = lone & (of > 2)
    notes = (
        [f"{unknown.sum()} sends and receives among more than two devices do not tell their peers: they stand alone."]
        if unknown.any()
        else []
    )
    return way, ~unknown, notes


def _joined(talk: Talk) -> tuple[Column, Column]:
    """Which rows are one: numbers from 0 without gaps, and what told it, as the place in BY; both (c,)."""
    one, by = np.full(len(talk), -1), np.full(len(talk), BY.index(MatchedBy.NOTHING))
    made = 0
    for rows, number, told in _proposals(talk, one):
        if len(rows):
            one[rows], by[rows] = made + number, BY.index(told)
            made += int(number.max()) + 1
    alone = np.flatnonzero(one < 0)
    one[alone] = made + np.arange(len(alone))
    return pd.factorize(one)[0].astype(np.int64), by


def _proposals(talk: Talk, one: Column) -> Iterator[tuple[Column, Column, MatchedBy]]:
    """Rows that are matched, the number of the instance of each, and what told it.

    `one` (c,) is below 0 where a row is not matched yet; it changes as proposals are taken.
    """

    def still(mask: Mask) -> Column:
        return np.flatnonzero(mask & talk.together & (one < 0))

    yield *occurrences.by_key(talk, still(talk.sequence >= 0), talk.sequence, proven=True), MatchedBy.SEQUENCE

    # Different numbers of one group are never one, whatever their times.
    unnumbered = talk.sequence < 0
    rows, number = occurrences.by_key(talk, still(unnumbered & (talk.run >= 0)), talk.run)
    whole = np.bincount(number)[number] == occurrences.devices_of(talk.what, talk.device)[talk.what[rows]]
    whole &= occurrences.clear(talk, rows, number)
    yield rows[whole], number[whole], MatchedBy.RUN
    # Devices may number their runs each for itself. Where that is likely, their order tells more.
    of_run = np.full(len(talk), -1)
    of_run[rows[~whole]] = number[~whole]

    for level in (talk.fine, *[talk.what] * _PASSES):
        rows, number = occurrences.in_order(talk, still(unnumbered), level, talk.what)
        if level is talk.what and not len(rows):
            break
        same = _one_run(of_run[rows], number)
        yield rows[same], number[same], MatchedBy.RUN
        yield rows[~same], number[~same], MatchedBy.ORDER
    rows = still(of_run >= 0)
    open_rows = np.bincount(of_run[rows], minlength=int(of_run.max()) + 1)
    intact = open_rows[of_run[rows]] == np.bincount(of_run[of_run >= 0])[of_run[rows]]
    yield rows[intact], of_run[rows[intact]], MatchedBy.RUN


def _one_run(of_run: Column, number: Column) -> Mask:
    """Whether the rows of each instance `number` are rows of one run; `of_run` (both (n,)) is below 0 where there is
    none."""
    low, high = np.full(number.max(initial=-1) + 1, len(number)), np.full(number.max(initial=-1) + 1, -1)
    np.minimum.at(low, number, pd.factorize(of_run)[0])
    np.maximum.at(high, number, pd.factorize(of_run)[0])
    same: Mask = (of_run >= 0) & (low == high)[number]
    return same
