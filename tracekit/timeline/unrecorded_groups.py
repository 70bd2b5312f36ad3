"""Whether all devices that ran a collective met in it, where nothing in the trace says who takes part.

In a job of several groups (tensor parallel in pairs, data parallel across them) the k-th collectives of all devices are
then not one, though their times may allow it: each group ends its own, as long after its own last rank came.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.timeline.occurrences import CollectiveRows, Column, Mask

# Ends of one collective differ by no more, as those of 8 V100 do by 7 us, or in any way but that of groups; of sends by
# no more or such a part of the time in which both ran, as on 2 H100, by up to 26 of 90 us.
_ENDS_APART_PS, _OF_EXCHANGE = 10_000_000, 0.5
# Each end has another one so many times nearer than the furthest is, times their number: of ends that scatter at
# random, uniform, normal or exponential, four or more, that holds in 0.7 % of the collectives at most.
_NEARER = 4
# The groups' ends follow from their last starts but for such a part of what these differ by.
_EXPLAINED = 1 / 3
# Of the collectives whose ends are apart, so many in all, and such a part, show groups.
_FEWEST, _SHOW = 4, 0.25
# Of the rows of a kind so many are matched, or none are.
_MOSTLY = 0.25

_FOREVER = np.iinfo(np.int64).max


def of_several_groups(collectives: CollectiveRows, rows: Column, instance: Column, is_exchange: Mask) -> Mask:
    """Which of the `rows` (k places in `collectives`) were matched with those of devices that they did not meet, as far
    as the times show; `instance` (k,): what each was matched to be, one that no other has where it was not matched;
    `is_exchange` (k,): whether it may be a single send.

    No rank leaves a collective that synchronises before all came, so all ends are one moment, whoever was last. Where
    ends come in groups instead, each as long after the last start of its own, all collectives like these are of such
    groups. What may be single sends is one only where all ends are.
    """
    wrong = np.zeros(len(rows), bool)
    order = np.lexsort((collectives.end[rows], instance))
    start, end = collectives.start[rows][order], collectives.end[rows][order]
    first = np.flatnonzero(np.diff(instance[order], prepend=-1))
    size = np.diff(first, append=len(order))
    if not len(first):
        return wrong

    def each(values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, size)

    spread = end[first + size - 1] - end[first]
    gap = np.diff(end, prepend=0)
    gap[first] = _FOREVER
    nearest = np.minimum(gap, np.append(gap[1:], _FOREVER))
    furthest = np.maximum.reduceat(nearest, first)
    is_apart = (spread > _ENDS_APART_PS) & (size > 3)
    in_groups = is_apart & (furthest < spread / (_NEARER * size))
    # Groups begin where a gap is wider than any within them.
    begins = np.flatnonzero((gap > each(furthest)) | (gap == _FOREVER))
    of_group = np.searchsorted(begins, first)
    last_end = np.maximum.reduceat(end, begins)
    transfer = last_end - np.maximum.reduceat(start, begins)

    def over_groups(values: Column) -> Column:
        """By how much the values of the groups of each instance differ."""
        return np.maximum.reduceat(values, of_group) - np.minimum.reduceat(values, of_group)

    in_groups &= over_groups(transfer) <= _EXPLAINED * over_groups(last_end)
    signature = collectives.signature[rows][order][first]
    kinds = int(signature.max()) + 1
    of_kind, matched = (np.bincount(signature, number, kinds) for number in (size, size * (size > 1)))
    shown, apart = (np.bincount(signature, which, kinds) for which in (in_groups, is_apart))
    is_wrong = ((shown >= _FEWEST) & (shown >= _SHOW * apart))[signature]
    together = np.minimum.reduceat(end, first) - np.maximum.reduceat(start, first)
    is_wrong |= is_exchange[order][first] & (spread > np.maximum(_ENDS_APART_PS, _OF_EXCHANGE * together))
    # Where nearly none could be matched, those that could be were so by chance.
    is_wrong |= (matched < _MOSTLY * of_kind)[signature]
    wrong[order] = each(is_wrong)
    return wrong
