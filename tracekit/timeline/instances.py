"""Which rows are one collective: its instances over the devices.

What tells it, in this order: the number that NCCL gives each collective of a group; the execution of the program, and
how often it ran the op before; the order in which each device ran the collectives of one kind. All three are held
against the times: no rank can leave an all-reduce, all-gather, reduce-scatter or all-to-all before all have entered it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from tracekit.devices import number as device_number
from tracekit.timeline import occurrences
from tracekit.timeline.occurrences import CollectiveRows, Column, Mask
from tracekit.timeline.rows import CODE, Rows
from tracekit.timeline.unrecorded_groups import of_several_groups
from tracekit.units import quantity
from tracekit.vocabulary.collectives import OPERATIONS, Operation, operation
from tracekit.vocabulary.kinds import Kind, function_name


class MatchedBy(StrEnum):
    """What told that rows are one instance; `NOTHING`: the instance has one row."""

    SEQUENCE = "sequence"
    RUN = "run"
    ORDER = "order"
    NOTHING = "nothing"


MATCHED_BY = tuple(MatchedBy)
# A `-done` that had nothing to wait for took 1 to 4 ns on real TPUs; what waited longer than this was held up.
DONE_PS = 100_000
_PEER_TO_PEER = ("send", "recv")
# NCCL's kernel of this name is an all-to-all, or single sends.
_EXCHANGE = "send-recv"
_UNKNOWN = Operation(bus=None)
_PASSES = 4

_GROUP = re.compile(r"\{([\d,]+)\}")


@dataclass(frozen=True)
class CollectiveInstances:
    """The collectives among n rows, matched over the devices.

    `instance` (n,): the instance of each row, numbered from 0 by first start, -1 for rows that are no collective. Of
    each of the m instances: `matched_by` (m,), what told it, as the place in MATCHED_BY; `ranks` (m,), how many take
    part as far as the trace says, else 0; `operation` (m,), what it does, as the place in `operations`; `complete`
    (m,), whether all that take part have a row in it, so that it is known who was last. `notes`: what could not be
    matched, or only under an assumption.
    """

    instance: Column
    matched_by: Column
    ranks: Column
    operation: Column
    complete: Mask
    operations: tuple[str, ...]
    notes: tuple[str, ...]


def match(rows: Rows, world_size: int | None = None) -> CollectiveInstances:
    """The instance of a collective that each row belongs to, with what told it; `world_size`: how many ranks the job
    had, None if that is not known.

    An instance has at most one row of a device, all on one clock. Rows whose device is unknown (`cpu:?`) have none. A
    row whose peers the trace does not show, or does not prove, is an instance of its own.
    """
    places = np.flatnonzero((rows.kind == CODE[Kind.COLLECTIVE]) & rows.is_placed)
    instance = np.full(len(rows), -1)
    empty = np.zeros(0, np.int64)
    if len(places) == 0:
        return CollectiveInstances(instance, empty, empty, empty, empty > 0, (), ())
    collectives, operations, ranks, notes = _collective_rows(rows, places)
    instance_of, matched_by = _match(collectives)
    mixed = _part_mixed(collectives, instance_of, matched_by, ranks, operations)
    m = int(instance_of.max()) + 1
    first = np.full(m, np.iinfo(np.int64).max)
    np.minimum.at(first, instance_of, collectives.start)
    number = np.empty(m, np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(m)
    instance_of = number[instance_of]
    instance[places] = instance_of
    table = np.zeros((3, m), np.int64)
    table[:, instance_of] = matched_by, ranks, collectives.operation
    complete = _complete(np.bincount(instance_of), table[1], table[2], operations, _all_ranks(rows, world_size))
    alone = matched_by == MATCHED_BY.index(MatchedBy.NOTHING)
    if mixed.any():
        notes.append(
            f"{mixed.sum():,} rows of collectives have no group on record, and their times show that not all devices "
            "met in each: they stand alone, and nothing is said of their waiting."
        )
        alone &= ~mixed
    notes += _unmatched(collectives, ranks, alone, complete[instance_of], instance_of)
    return CollectiveInstances(instance, table[0], table[1], table[2], complete, operations, tuple(notes))


def matched_inside(
    rows: Rows, all_rows: Rows, whole: CollectiveInstances, instance: Column, window: Column
) -> CollectiveInstances:
    """The instances of some of `all_rows`, whose instances are `whole`: of `rows`, which may be cut to windows.

    `instance` (n,) is the one in `whole` of each row, `window` (n,) the number of the window that it is in. What has
    not all its rows in one, each as long as it was, is not complete.
    """
    at = np.flatnonzero(instance >= 0)
    key = instance[at] * (int(window.max(initial=0)) + 1) + window[at]
    _, place, members = np.unique(key, return_index=True, return_inverse=True)
    m = len(place)
    first = np.full(m, np.iinfo(np.int64).max)
    np.minimum.at(first, members, rows.start[at])
    number = np.empty(m, np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(m)
    here = np.full(len(rows), -1)
    here[at] = number[members]
    source = np.empty(m, np.int64)
    source[number] = instance[at][place]
    length = [np.zeros(count, np.int64) for count in (m, len(whole.complete))]
    size = [np.zeros(count, np.int64) for count in (m, len(whole.complete))]
    for which, (of, inside) in enumerate(((rows, here), (all_rows, whole.instance))):
        mine = inside >= 0
        np.add.at(length[which], inside[mine], of.end[mine] - of.start[mine])
        np.add.at(size[which], inside[mine], 1)
    is_cut = (length[0] < length[1][source]) | (size[0] < size[1][source])
    notes = []
    if cut := int((is_cut & whole.complete[source]).sum()):
        notes = [f"Of {quantity(cut, 'collective')} only a part is in this report: nothing is said of their waiting."]
    return CollectiveInstances(
        here,
        whole.matched_by[source],
        whole.ranks[source],
        whole.operation[source],
        whole.complete[source] & ~is_cut,
        whole.operations,
        tuple(notes),
    )


def _unmatched(collectives: CollectiveRows, ranks: Column, alone: Mask, complete: Mask, instance: Column) -> list[str]:
    """The notes on collectives without a row of a rank that ran others of the same kind and group; all columns (c,).

    Of how many `ranks` each is, 0 if that is not told; whether it is matched with none; whether its instance is whole.
    """
    devices = occurrences.devices_of(collectives.signature, collectives.device)[collectives.signature]
    # A row alone, of a kind of which no collective is whole, was perhaps only not recognised.
    is_recognised = ~alone | (np.bincount(collectives.signature, complete)[collectives.signature] > 0)
    partial = collectives.members_known & is_recognised & ~complete & (ranks > 0) & (devices >= ranks)
    notes = []
    if partial.any():
        count = len(np.unique(instance[partial]))
        lacks, was, their = ("lacks", "it was", "its") if count == 1 else ("lack", "they were", "their")
        notes.append(
            f"{count} of {int(instance.max()) + 1} collectives {lacks} the row of a rank that the trace holds: {was} "
            f"cut at the edge of the profile, or a row was lost or not recognised. Nothing is said of {their} waiting."
        )
    unmatched = collectives.members_known & alone & (devices > 1) & ~partial
    if unmatched.any():
        notes.append(
            f"{unmatched.sum()} of the {len(instance)} rows of collectives could not be matched with those of other "
            "devices: they stand alone, and nothing is said of their waiting."
        )
    return notes


class Unseen(StrEnum):
    """Why a trace, or the part of it that was asked for, does not show together all ranks of a collective."""

    PART = "part"
    RANKS = "ranks"
    CLOCKS = "clocks"
    MATCHES = "matches"


def unseen(rows: Rows, instances: CollectiveInstances, world_size: int | None) -> Unseen | None:
    """Why some collectives are not complete, None if all are: ranks are not in the trace; else their clocks are not
    aligned, so that nothing matches what ran on them; else their rows could not be matched."""
    member = np.flatnonzero(instances.instance >= 0)
    member = member[~instances.complete[instances.instance[member]]]
    if not len(member):
        return None
    ranks = max(int(instances.ranks[instances.instance[member]].max()), world_size or 0)
    devices = np.unique(rows.device[member]).tolist()
    if len(devices) == 1 or ranks > sum(rows.placed):
        return Unseen.RANKS
    return Unseen.CLOCKS if len({rows.clocks[device] for device in devices}) > 1 else Unseen.MATCHES


def _complete(size: Column, ranks: Column, operation: Column, operations: tuple[str, ...], all_ranks: bool) -> Mask:
    """Which instances, with `size` (m,) rows, have one of each rank that takes part.

    A send and its recv are two, however many ranks their group has. Where the trace does not tell the `ranks` (m,), all
    of the job's ranks must be there, and more than one.
    """
    lone = np.array([name in _PEER_TO_PEER for name in operations], bool)[operation]
    has_ranks = ranks > 0
    return np.where(has_ranks, size >= np.where(lone, np.minimum(ranks, 2), ranks), (size > 1) & all_ranks)


def _all_ranks(rows: Rows, world_size: int | None) -> bool:
    """Whether a job of so many ranks has them all among the devices with rows; True where the number is not known."""
    return world_size is None or world_size <= sum(rows.placed)


def _collective_rows(rows: Rows, places: Column) -> tuple[CollectiveRows, tuple[str, ...], Column, list[str]]:
    """The collectives `places` (c,) as columns, what they do, how many ranks each has (c,), and notes."""
    events_at = rows.at[places]
    events = rows.events

    def codes(column: str) -> Column:
        return events[column].array.codes[events_at].astype(np.int64)  # type: ignore[no-any-return]

    def numbers(column: str) -> tuple[Column, Mask]:
        values = events[column].array.take(events_at)
        return values.to_numpy(np.int64, na_value=0), ~np.asarray(values.isna())

    device = rows.device[places]
    clock = pd.factorize(np.array(rows.clocks, object))[0][device]
    operation, operations = _operations(codes("category"), codes("name"), rows)
    group, module, hlo_op = codes("group"), codes("hlo_module"), codes("hlo_op")
    group_of, ranks, notes = _groups(rows, clock, module, codes("ranks"), device, operation, operations)
    # What lists no ranks may still say how many there are.
    ranks = np.where((codes("ranks") < 0) & (ranks == 0), numbers("group_size")[0], ranks)
    base = occurrences.distinct(clock, group, codes("ranks"), group_of)
    exchange, paired, peer_notes = _peers(base, operation, operations, device)
    signature = occurrences.distinct(base, exchange, module, np.where(exchange < 0, hlo_op, -1))
    sizes, sized = numbers("bytes")
    facts = [OPERATIONS.get(operation_name, _UNKNOWN) for operation_name in operations]
    equal_sizes = np.array([fact.equal for fact in facts], bool)[operation] & sized
    sequence, has_sequence = numbers("sequence")
    run, has_run = numbers("run_id")
    collectives = CollectiveRows(
        device=device,
        start=rows.start[places],
        end=rows.end[places],
        operation=operation,
        synchronises=np.array([fact.synchronises for fact in facts], bool)[operation],
        members_known=(group_of >= 0) & paired,
        signature=signature,
        fine_signature=occurrences.distinct(
            signature, codes("lane"), codes("name"), codes("dtype"), np.where(equal_sizes, sizes, -1)
        ),
        sequence=np.where(has_sequence, occurrences.distinct(base, exchange, sequence), -1),
        run=np.where(has_run & (hlo_op >= 0), occurrences.distinct(signature, run), -1),
        execution=np.where(has_run, occurrences.distinct(device, module, run), -1),
    )
    return collectives, operations, ranks, [*notes, *peer_notes]


def _operations(category: Column, name: Column, rows: Rows) -> tuple[Column, tuple[str, ...]]:
    """What each collective does, in HLO's terms, or in its kernel's name where nothing tells more."""
    categories, names = [*rows.labels("category"), None], rows.labels("name")
    pair = occurrences.distinct(category, name)
    first = np.unique(pair, return_index=True)[1]
    labels_of_pairs = [operation_label(names[name[place]], categories[category[place]]) for place in first]
    code_of = {label: code for code, label in enumerate(dict.fromkeys(labels_of_pairs))}
    return np.array([code_of[label] for label in labels_of_pairs], np.int64)[pair], tuple(code_of)


def operation_label(name: str, category: str | None) -> str:
    """What a collective does, else its kernel's name without types and parameters."""
    return operation(name, category) or function_name(name)


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
    pairs = np.array([operation_name == "collective-permute" for operation_name in operations], bool)[operation]
    program = occurrences.distinct(clock, module, ranks, pairs)
    on_device = occurrences.distinct(program, device)
    first = np.unique(on_device, return_index=True)[1]
    group, size = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    labels = [*rows.labels("ranks"), ""]
    in_order, unproven = set(), set()
    of_first = program[first]
    for number in range(int(program.max()) + 1):
        entries = np.flatnonzero(of_first == number)
        row = first[entries[0]]
        on = device[first[entries]]
        text = labels[ranks[row]]
        membership = members(text, bool(pairs[row]), [rows.devices[k] for k in on], [rows.hosts[k] for k in on])
        group[entries], size[entries] = membership.group, membership.size
        if membership.in_order:
            in_order.add(text)
        if -1 in membership.group:
            unproven.add(text)
    notes = []
    if in_order:
        notes.append(
            f"The ranks {_example(in_order)} were taken for the devices in order, as JAX numbers those of one process "
            "unless a mesh reorders them."
        )
    if unproven:
        notes.append(
            f"Which devices of this trace are the ranks {_example(unproven)} is not known: those collectives are not "
            "matched, and their waiting is not known either."
        )
    return group[on_device], size[on_device], notes


def _example(texts: set[str]) -> str:
    text = min(texts)
    short = text if len(text) <= 40 else f"{text[:37]}..."
    return short if len(texts) == 1 else f"{short} and {quantity(len(texts) - 1, 'other list')}"


Groups = list[list[int]]


@dataclass(frozen=True)
class Membership:
    """Who of d devices took part together.

    `group` says of each which of the collective's groups it is in, -1 where the trace does not prove that; `size` how
    many ranks its group has, 0 if that is not told; `in_order` whether the numbers of the ranks were taken for those of
    the devices.
    """

    group: tuple[int, ...]
    size: tuple[int, ...]
    in_order: bool = False


def members(ranks: str, pairs: bool, devices: Sequence[str], hosts: Sequence[str]) -> Membership:
    """How the `devices` that ran a collective, on `hosts` (one each), are told apart by its `ranks` ("" if unknown).

    The numbers in a list of replica groups are places in the program's device assignment, which a trace does not tell.
    So devices are told apart by them only where the list leaves one choice, or where one host has exactly as many
    devices: then number k is taken for device k, as JAX orders the devices of one process unless a mesh reorders them.
    """
    count = len(devices)
    if not ranks:
        return Membership((0,) * count, (0,) * count)
    groups = rank_groups(ranks, pairs)
    numbers = {rank: number_of_group for number_of_group, group in enumerate(groups) for rank in group}
    sizes = {len(group) for group in groups}
    size = sizes.pop() if len(sizes) == 1 else 0
    if len(groups) == 1 and count <= size:
        return Membership((0,) * count, (size,) * count)
    distinct_hosts = list(dict.fromkeys(hosts))
    if len(groups) == 1 and all(
        hosts.count(host) == size for host in distinct_hosts
    ):  # as many programs, each with its own ranks
        return Membership(tuple(distinct_hosts.index(host) for host in hosts), (size,) * count)
    ordinals = [-1 if (own_number := device_number(device)) is None else own_number for device in devices]
    numbers_match = set(ordinals) >= set(numbers) if pairs else set(ordinals) == set(numbers)
    if len(distinct_hosts) == 1 and len(set(ordinals)) == count and numbers_match:
        group = [numbers.get(ordinal, -1) for ordinal in ordinals]
        # A permute's device that neither sends nor receives is alone with itself.
        return Membership(tuple(group), tuple(len(groups[place]) if place >= 0 else 1 for place in group), True)
    return Membership((-1,) * count, (size,) * count)


def rank_groups(ranks: str, pairs: bool) -> Groups:
    """The ranks that take part together, of the text in `events.ranks`: `0,1` or `{{0,2},{1,3}}`.

    `pairs`: the text lists the source and the target of every transfer of a permute; what they connect is together.
    """
    groups = [[int(rank) for rank in text.split(",") if rank] for text in _GROUP.findall(ranks) or [ranks]]
    if not pairs:
        return groups
    connected: Groups = []
    for pair in groups:
        overlapping = [group for group in connected if set(group) & set(pair)]
        connected = [group for group in connected if group not in overlapping]
        connected.append(sorted({*pair, *(rank for group in overlapping for rank in group)}))
    return sorted(connected)


def _peers(
    base: Column, operation: Column, operations: tuple[str, ...], device: Column
) -> tuple[Column, Mask, list[str]]:
    """What a row's collective is on both sides, whether its peers can be told, and notes.

    A send and its recv are one; both have the number of their sender then, below 0. Others have their operation.
    """
    sides = [
        operations.index(operation_name) if operation_name in operations else -1 for operation_name in _PEER_TO_PEER
    ]
    lone = np.isin(operation, [code for code in sides if code >= 0])
    if not lone.any():
        return operation, np.ones(len(base), bool), []
    low, high = np.full(base.max() + 1, len(device)), np.full(base.max() + 1, -1)
    np.minimum.at(low, base[lone], device[lone])
    np.maximum.at(high, base[lone], device[lone])
    devices = np.ones(len(base), np.int64)
    devices[lone] = occurrences.devices_of(base[lone], device[lone])[base[lone]]
    sends, from_low = operation == sides[0], device == low[base]
    exchange = np.where(lone, np.where(sends == from_low, -1, -2), operation)
    unclear = lone & (devices > 2)
    notes = (
        [f"{unclear.sum()} sends and receives among more than two devices do not tell their peers: they stand alone."]
        if unclear.any()
        else []
    )
    return exchange, ~unclear, notes


def _match(collectives: CollectiveRows) -> tuple[Column, Column]:
    """Which rows are one: numbers from 0 without gaps, and what told it, as the place in MATCHED_BY; both (c,)."""
    instance, matched_by = np.full(len(collectives), -1), np.full(len(collectives), MATCHED_BY.index(MatchedBy.NOTHING))
    count = 0
    for rows, number, evidence in _proposals(collectives, instance):
        if len(rows):
            instance[rows], matched_by[rows] = count + number, MATCHED_BY.index(evidence)
            count += int(number.max()) + 1
    unmatched = np.flatnonzero(instance < 0)
    instance[unmatched] = count + np.arange(len(unmatched))
    return pd.factorize(instance)[0].astype(np.int64), matched_by


def _proposals(collectives: CollectiveRows, instance: Column) -> Iterator[tuple[Column, Column, MatchedBy]]:
    """Rows that are matched, the number of the instance of each, and what told it.

    `instance` (c,) is below 0 where a row is not matched yet; it changes as proposals are taken.
    """

    def unmatched(mask: Mask) -> Column:
        return np.flatnonzero(mask & collectives.members_known & (instance < 0))

    yield (
        *occurrences.match_by_key(
            collectives, unmatched(collectives.sequence >= 0), collectives.sequence, is_proof=True
        ),
        MatchedBy.SEQUENCE,
    )

    # Different numbers of one group are never one, whatever their times.
    unnumbered = collectives.sequence < 0
    rows, number = occurrences.match_by_key(
        collectives, unmatched(unnumbered & (collectives.run >= 0)), collectives.run
    )
    complete = (
        np.bincount(number)[number]
        == occurrences.devices_of(collectives.signature, collectives.device)[collectives.signature[rows]]
    )
    complete &= occurrences.times_agree(collectives, rows, number)
    yield rows[complete], number[complete], MatchedBy.RUN
    # Devices may number their runs each for itself. Where that is likely, their order tells more.
    of_run = np.full(len(collectives), -1)
    of_run[rows[~complete]] = number[~complete]

    for signature in (collectives.fine_signature, *[collectives.signature] * _PASSES):
        rows, number = occurrences.match_in_order(collectives, unmatched(unnumbered), signature, collectives.signature)
        if signature is collectives.signature and not len(rows):
            break
        same_run = _one_run(of_run[rows], number)
        yield rows[same_run], number[same_run], MatchedBy.RUN
        yield rows[~same_run], number[~same_run], MatchedBy.ORDER
    if len(unmatched(unnumbered & (collectives.execution >= 0))):
        together = occurrences.executions_together(collectives, instance)
        rows = unmatched(unnumbered & (together >= 0))
        key = occurrences.distinct(collectives.signature, together)
        yield *occurrences.match_by_key(collectives, rows, key), MatchedBy.RUN
    rows = unmatched(of_run >= 0)
    open_rows = np.bincount(of_run[rows], minlength=int(of_run.max()) + 1)
    intact = open_rows[of_run[rows]] == np.bincount(of_run[of_run >= 0])[of_run[rows]]
    yield rows[intact], of_run[rows[intact]], MatchedBy.RUN


def _part_mixed(
    collectives: CollectiveRows, instance: Column, matched_by: Column, ranks: Column, operations: tuple[str, ...]
) -> Mask:
    """Let rows stand alone that were matched across groups which the trace does not tell, and say which (c,);
    `instance` and `matched_by` (c,) are changed in place. How many `ranks` take part (c,) is 0 where nothing tells."""
    is_exchange = np.array([name == _EXCHANGE for name in operations], bool)[collectives.operation]
    is_told = (ranks > 0) | (collectives.sequence >= 0) | ~collectives.members_known
    rows = np.flatnonzero(~is_told & (collectives.synchronises | is_exchange))
    mixed = np.zeros(len(collectives), bool)
    if not len(rows):
        return mixed
    rows = rows[of_several_groups(collectives, rows, instance[rows], is_exchange[rows])]
    rows = rows[matched_by[rows] != MATCHED_BY.index(MatchedBy.NOTHING)]
    instance[rows] = int(instance.max()) + 1 + np.arange(len(rows))
    matched_by[rows] = MATCHED_BY.index(MatchedBy.NOTHING)
    instance[:] = pd.factorize(instance)[0]
    mixed[rows] = True
    return mixed


def _one_run(of_run: Column, number: Column) -> Mask:
    """Whether the rows of each instance `number` are rows of one run; `of_run` (both (n,)) is below 0 where there is
    none."""
    low, high = np.full(number.max(initial=-1) + 1, len(number)), np.full(number.max(initial=-1) + 1, -1)
    np.minimum.at(low, number, pd.factorize(of_run)[0])
    np.maximum.at(high, number, pd.factorize(of_run)[0])
    same_run: Mask = (of_run >= 0) & (low == high)[number]
    return same_run
