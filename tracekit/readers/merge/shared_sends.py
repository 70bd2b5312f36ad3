"""Which sends of one host another received, and what their ends say of the two clocks.

The last of the data is written before a send ends, and read before its recv does: a recv ends no earlier than its send,
and later if it came late and the data fit into NCCL's buffers meanwhile. So what one host sent bounds the offset of the
clocks on one side, and what the other sent on the other side, as the messages of NTP do; where both are one, it is
proven. What was sent one way only, as in a pipeline that only infers, shows at most that clocks agree as they stand.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import distinct, places_of
from tracekit.readers.merge.shared_ends import (
    Column,
    Compared,
    Occurrences,
    aligned,
    at_shift,
    coded,
    operations,
    union,
)
from tracekit.vocabulary.kinds import Kind

_PAIR = re.compile(r"\d+,\d+")
# No bound on this side.
_NEVER = 2**62


@dataclass(frozen=True)
class _Ends:
    """The n sends, or receives, of a host with one other: their `times` (n, 3), as shared_ends has them, and their
    `number` (n,) in their group, -1 where one has none or several have the same."""

    times: Occurrences
    number: Column


# By the numbers of the two ranks with their group, and whether the host sent.
Sends = Mapping[tuple[int, bool], _Ends]


def by_host(events: pd.DataFrame, hosts: Sequence[str]) -> Mapping[str, Sends]:
    """The sends and receives between two ranks of each of `hosts` in an events frame (EVENT_COLUMNS)."""
    found: dict[str, dict[tuple[int, bool], _Ends]] = {host: {} for host in hosts}
    ranks = events["ranks"].cat
    is_pair = np.array([*(_PAIR.fullmatch(str(text)) is not None for text in ranks.categories), False], bool)
    of_pair = is_pair[ranks.codes.to_numpy()] & (events["kind"] == Kind.COLLECTIVE.value).to_numpy()
    table = events.iloc[np.flatnonzero(of_pair)].sort_values("end_ps", kind="stable")
    ops = operations(table)
    is_exchange = np.asarray(ops.isin(["send", "recv"]))
    if not is_exchange.any():
        return found
    table, is_send = table[is_exchange], np.asarray(ops[is_exchange] == "send")
    pair, _ = distinct(coded(table["group"]), coded(table["ranks"]))
    host, device, sequence = (coded(table[name]) for name in ("host", "device", "sequence"))
    which, first = distinct(host, pair, is_send)
    times = table[["end_ps", "end_ps", "start_ps"]].to_numpy(np.int64)
    names = table["host"].cat.categories
    for place, own in zip(first.tolist(), places_of(which, len(first)), strict=True):
        if len(np.unique(device[own])) == 1:
            key = int(pair[place]), bool(is_send[place])
            found[str(names[host[place]])][key] = _Ends(times[own], _once(sequence[own]))
    return found


def _once(number: Column) -> Column:
    """The numbers (n,) that only one has, -1 for others."""
    _, place, count = np.unique(number, return_inverse=True, return_counts=True)
    return np.where(count[place] == 1, number, -1)


def compare(a: Sends, b: Sends, resolution: int, timed: bool) -> Compared | None:
    """What the sends between two hosts say of `b`'s clock; None if nothing tells which are whose receives."""
    parts = []
    for (pair, is_send), own in a.items():
        other = b.get((pair, not is_send))
        if other and (found := _compared(own, other, resolution, timed)):
            # A recv ends at no earlier time than its send, but at any later one.
            bounds = (np.full(len(found.ahead), -_NEVER), found.ahead)
            earliest, latest = bounds if is_send else (found.ahead, np.full(len(found.ahead), _NEVER))
            sent: NDArray[np.bool_] = np.full(len(found.ahead), is_send)
            parts.append(replace(found, earliest=earliest, latest=latest, sent=sent))
    if not parts:
        return None
    return replace(union(parts), by_number=all(part.by_number for part in parts))


def _compared(own: _Ends, other: _Ends, resolution: int, timed: bool) -> Compared | None:
    """Sends and receives compared, those of one number, or else as their order tells."""
    numbers, *both = np.intersect1d(own.number, other.number, return_indices=True)
    if (own.number >= 0).any() and (other.number >= 0).any():
        a, b = (each.times[at[numbers >= 0]] for each, at in zip((own, other), both, strict=True))
        order = np.argsort(b[:, 1], kind="stable")
        return replace(at_shift(a[order], b[order], 0, resolution), by_number=True) if len(order) else None
    return aligned(own.times, other.times, resolution, timed)
