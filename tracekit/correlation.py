"""Which call of the host started which row of a device, where profilers number both alike.

A correlation id counts the calls of one process (CUPTI's `correlationId`, 32 bits wide). So a file that holds several
processes holds most ids several times, and one process may hold an id again: after 2^32 calls, or in a second session.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

EARLY_PS = 10_000_000
"""A row that starts this long before a call may still be of it: their two clocks agree to some microseconds."""
# A device is of the process that explains nearly all of its rows: clocks that jump make some look wrong, and the calls
# of the first rows are not in the file, where those of another process may have their ids.
_NEARLY_ALL = 0.9
# More calls than a joined file has processes do not have one id: of 10,000 calls and rows there would be 10^8 pairs.
_MOST_CALLS = 256


@dataclass(frozen=True)
class Calls:
    """c calls of one host, each with an id; columns (c,), times in ps.

    `process`: a number from 0 on, the same for calls of one process. `launches`: whether the name of a call says that
    it starts work.
    """

    ids: Column
    start: Column
    end: Column
    process: Column
    launches: Mask


@dataclass(frozen=True)
class DeviceRows:
    """n rows of the devices of one host, each with an id; columns (n,), times in ps, `device` and `lane` as codes from
    0 on."""

    ids: Column
    start: Column
    device: Column
    lane: Column


def calls_of_rows(rows: DeviceRows, calls: Calls) -> tuple[Column, Mask]:
    """The place in `calls` of the call that started each row, -1 for none, and of which rows several may have; (n,).

    Of calls that lie in each other (the runtime's and the driver's of one launch) the outer counts. An id that stands
    once tells the call, whatever the times. Of several calls that began before the row, it is one of the process that
    works on the row's device, as all other rows there tell, and the last one of these. Where neither tells, it is none.
    """
    if not len(calls.ids):
        return np.full(len(rows.ids), -1), np.zeros(len(rows.ids), bool)
    if (once := calls_of_ids(rows.ids, calls.ids)) is not None:
        return once, np.zeros(len(rows.ids), bool)
    heads = outer_calls(calls)
    ids = calls.ids[heads]
    low, high = np.searchsorted(ids, rows.ids), np.searchsorted(ids, rows.ids, side="right")
    call = np.where(high > low, np.append(heads, -1)[low], -1)
    if not (ids[1:] == ids[:-1]).any():
        return call, np.zeros(len(rows.ids), bool)
    return _of_repeated_ids(rows, calls, heads, (low, high))


def calls_of_ids(ids: Column, call_ids: Column) -> Column | None:
    """The place in `call_ids` (c,) of each of `ids` (n,), -1 for none; None where ids of calls stand twice, or lie far
    apart."""
    if not len(ids) or not len(call_ids):
        return np.full(len(ids), -1)
    low, high = int(call_ids.min()), int(call_ids.max())
    if high - low >= 8 * len(call_ids):
        return None
    # Most profilers count their ids up: a table of them all is small, and needs no sorting.
    table = np.full(high - low + 2, -1, np.int32)
    table[call_ids - low] = np.arange(len(call_ids), dtype=np.int32)
    if np.count_nonzero(table >= 0) < len(call_ids):
        return None
    is_known = low <= ids.min() and ids.max() <= high
    return table[ids - low if is_known else np.where((ids >= low) & (ids <= high), ids - low, -1)].astype(np.int64)


def outer_calls(calls: Calls) -> Column:
    """The places of the calls that lie in no other of their process with the same id, by id, then start.

    Of several with one id only those that launch, if any does: a row is of no other.
    """
    if not len(calls.ids):
        return np.zeros(0, np.int64)
    order = np.lexsort((calls.start, calls.ids))
    ids = calls.ids[order]
    is_first = np.append(True, ids[1:] != ids[:-1])
    firsts: Column = order[is_first]
    others, around = order[~is_first], np.repeat(firsts, np.diff(np.append(np.flatnonzero(is_first), len(ids))) - 1)
    until = np.maximum(calls.end[around], calls.start[around] + 1)  # times may be rounded
    if (calls.start[others] < until).all() and (calls.process[others] == calls.process[around]).all():
        return firsts
    repeated = np.concatenate([np.unique(around), others])
    is_head = np.ones(len(ids), bool)
    is_head[repeated] = ~_lies_in_another(calls, repeated)
    heads = order[is_head[order]]
    ids = calls.ids[heads]
    begins = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    any_launches = np.maximum.reduceat(calls.launches[heads], begins)
    launching: Column = heads[calls.launches[heads] | ~np.repeat(any_launches, np.diff(np.append(begins, len(ids))))]
    return launching


def _lies_in_another(calls: Calls, places: Column) -> Mask:
    """Which of some calls begin inside an earlier one of their process with the same id."""
    order = np.lexsort((calls.start[places], calls.process[places], calls.ids[places]))
    ids, process, start = (column[places[order]] for column in (calls.ids, calls.process, calls.start))
    same = np.append(False, (ids[1:] == ids[:-1]) & (process[1:] == process[:-1]))[: len(ids)]
    # How far the calls of a group reach, as the number of calls that begin before: groups cannot meet in small numbers.
    starts = np.sort(start)
    shift = np.cumsum(~same) * (len(starts) + 1)
    end = np.maximum(calls.end[places[order]], start + 1)  # times may be rounded
    reach = np.maximum.accumulate(np.searchsorted(starts, end) + shift)
    lies_in = np.zeros(len(places), bool)
    lies_in[order[1:]] = same[1:] & (np.searchsorted(starts, start[1:]) + shift[1:] < reach[:-1])
    return lies_in


def _of_repeated_ids(
    rows: DeviceRows, calls: Calls, heads: Column, of_id: tuple[Column, Column]
) -> tuple[Column, Mask]:
    """See calls_of_rows; the calls with the id of each row are heads[of_id[0]:of_id[1]], by start."""
    low, high = of_id
    process = np.append(calls.process[heads], -1)
    began = np.zeros(len(rows.ids), np.int64)
    is_repeated, is_hopeless = high - low > 1, high - low > _MOST_CALLS
    began[~is_repeated] = (high - low)[~is_repeated]
    places = np.flatnonzero(is_repeated & ~is_hopeless)
    row, head = _pairs(places, low, high)
    before = calls.start[heads[head]] <= rows.start[row] + EARLY_PS
    began += np.bincount(row[before], minlength=len(began))
    last = np.where(began > 0, low + began - 1, len(heads))
    is_sure = (began > 0) & (~is_repeated | (began == 1) | _takes_the_next(rows, began, is_repeated))
    count = int(calls.process.max()) + 1
    if count == 1:
        return np.append(heads, -1)[last], is_repeated & (began == 0)
    owner = _owners(rows, (row[before], process[head[before]]), np.where(is_sure, process[last], -1), count)
    # The last call of the owner's.
    own = before & (process[head] == owner[row])
    of_owner = np.full(len(rows.ids), len(heads))
    of_owner[row[own]] = head[own]  # the last is written last
    of_owner[~is_repeated & (process[last] == owner)] = low[~is_repeated & (process[last] == owner)]
    chosen = np.where(owner >= 0, of_owner, np.where(is_sure, last, len(heads)))
    return np.append(heads, -1)[chosen], is_hopeless | (is_repeated & (owner < 0) & ~is_sure)


def _pairs(places: Column, low: Column, high: Column) -> tuple[Column, Column]:
    """Each of the rows in `places` with each number from its `low` to its `high`."""
    counts = (high - low)[places]
    row = np.repeat(places, counts)
    return row, np.arange(len(row)) + np.repeat(low[places] - np.cumsum(counts) + counts, counts)


def _takes_the_next(rows: DeviceRows, began: Column, is_repeated: Mask) -> Mask:
    """Which rows can only be of the last call with their id that began before: each earlier call started an earlier
    row. `began` (n,): how many calls with its id began before each row."""
    order = np.lexsort((rows.start, rows.ids))
    ids = rows.ids[order]
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    number = np.arange(len(ids)) - np.maximum.accumulate(np.where(is_first, np.arange(len(ids)), 0))
    wrong = np.cumsum(began[order] != number + 1)
    before_id = (wrong - (began[order] != number + 1))[is_first]
    takes = np.zeros(len(ids), bool)
    takes[order] = wrong == before_id[np.cumsum(is_first) - 1]
    return takes & is_repeated


def _owners(rows: DeviceRows, possible: tuple[Column, Column], process: Column, count: int) -> Column:
    """The process that works where each row ran, -1 where it is not known.

    `process` (n,): that of the rows of which it is sure, else -1; `possible`: pairs of a row and a process, of the
    rows whose id several calls have. A device is of one process, or else its streams are. What no row of a device tells
    surely is told by elimination: processes with one id on two devices are two.
    """
    lanes = rows.device * (int(rows.lane.max(initial=0)) + 1) + rows.lane
    owner_of_row = np.full(len(process), -1)
    for place in (rows.device, lanes):
        codes, place_of_row = np.unique(place, return_inverse=True)
        sure = process >= 0
        support = _counts(place_of_row[sure], process[sure], len(codes), count)
        owner = _dominant(support, support.sum(axis=1))
        is_open = support.sum(axis=1) == 0
        if is_open.any():
            feasible = np.unique(np.column_stack(possible), axis=0)
            votes = _counts(place_of_row[feasible[:, 0]], feasible[:, 1], len(codes), count)
            total = np.bincount(place_of_row[np.unique(feasible[:, 0])], minlength=len(codes))
            may_be = votes >= _NEARLY_ALL * total[:, None]
            owner = _eliminate(owner, may_be & (votes > 0), is_open, _sharing(rows.ids, place_of_row, len(codes)))
        owner_of_row = np.where(owner_of_row >= 0, owner_of_row, owner[place_of_row])
    return owner_of_row


def _counts(place: Column, process: Column, places: int, processes: int) -> Column:
    """How many pairs there are of each place and process, (places, processes)."""
    return np.bincount(place * processes + process, minlength=places * processes).reshape(places, processes)


def _dominant(support: Column, total: Column) -> Column:
    """The process with nearly all the support of each place, -1 for none."""
    best = support.argmax(axis=1)
    most = support[np.arange(len(best)), best]
    return np.where((most > 0) & (most >= _NEARLY_ALL * total), best, -1)


def _sharing(ids: Column, place: Column, places: int) -> Mask:
    """Which places have rows with the same id, (places, places)."""
    pairs = np.unique(np.column_stack([ids, place]), axis=0)
    _, of_id = np.unique(pairs[:, 0], return_inverse=True)
    shares = np.zeros((places, places), bool)
    for code in range(places):
        has_id = np.zeros(int(of_id.max(initial=0)) + 1, bool)
        has_id[of_id[pairs[:, 1] == code]] = True
        shares[code, pairs[has_id[of_id], 1]] = True
    np.fill_diagonal(shares, False)
    return shares


def _eliminate(owner: Column, may_be: Mask, is_open: Mask, shares: Mask) -> Column:
    """The owner of each place, of those that are open by what the others leave over."""
    owner, may_be = owner.copy(), may_be.copy()
    while True:
        for place in np.flatnonzero(owner >= 0).tolist():
            may_be[shares[place], owner[place]] = False
        only = np.flatnonzero(is_open & (owner < 0) & (may_be.sum(axis=1) == 1))
        if not len(only):
            return owner
        owner[only[0]] = may_be[only[0]].argmax()
