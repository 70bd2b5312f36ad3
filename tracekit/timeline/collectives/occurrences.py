"""The occurrences of collectives on each device, and which of them are one by their order and their times."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Clocks that count as one may differ by this much.
_CLOCKS_APART_PS = 10_000_000
# Ends this much nearer to each other than under another shift in k were not brought together by chance.
_NEARER = 4
_FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Talk:
    """c collectives by device, then start; all columns have shape (c,), times are in ps.

    `meets`: no rank of it ends before all have started. `together`: which devices take part is told. Rows that could be
    one have equal `what`; `fine` tells more of them apart, where the devices name things alike. `sequence` and `run`
    are equal for the same number within a group, and for the same op in the same execution; -1 where there is none.
    """

    device: Column
    start: Column
    end: Column
    operation: Column
    meets: Mask
    together: Mask
    what: Column
    fine: Column
    sequence: Column
    run: Column

    def __len__(self) -> int:
        return len(self.device)


def distinct(*columns: NDArray[Any]) -> Column:
    """Which distinct combination of the columns (each (n,)) every row has, numbered from 0, shape (n,)."""
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes, values = pd.factorize(column)
        if len(values) > 1:
            which = pd.factorize(which * len(values) + codes)[0]
    return which.astype(np.int64)


def devices_of(key: Column, device: Column) -> Column:
    """On how many devices each key has rows, by key."""
    width = int(device.max(initial=0)) + 1
    return np.bincount(pd.unique(key * width + device) // width)


def by_key(talk: Talk, rows: Column, key: Column, proven: bool = False) -> tuple[Column, Column]:
    """Those of `rows` that are the k-th of their `key` (c,) on their devices, where all devices have equally many and
    the times allow it; and the number of the instance of each, from 0 without gaps.

    Rows that only touch are one if the key is `proven`: others that follow each other at once touch as well.
    """
    if not len(rows):
        return rows, rows
    key = distinct(key[rows])
    k, most, fewest = _counted(talk.device[rows], key)
    seen = _seen(talk, rows, _numbered(key, k, most))
    allowed = seen.overlap | (seen.touch & proven)
    return _kept(rows, seen.number, seen.several & (most == fewest)[key] & (allowed | ~talk.meets[rows]))


def clear(talk: Talk, rows: Column, number: Column) -> Mask:
    """Whether instances like that of each row (same `what`) are together for longer than their ends are apart.

    What follows at once may overlap a little with what it is not one with, and then its ends are far apart.
    """
    if not len(rows):
        return np.zeros(0, bool)
    seen = _seen(talk, rows, number)
    return ~_vague(talk.what[rows], seen.held, seen.apart)[talk.what[rows]]


def _vague(key: Column, held: Column, apart: Column) -> Mask:
    """Whether the instances of each key are together for less time than their ends are apart."""
    vague: Mask = np.bincount(key, held) < np.bincount(key, apart)
    return vague


def in_order(talk: Talk, rows: Column, key: Column, coarse: Column) -> tuple[Column, Column]:
    """Those of `rows` that are one by the order of their `key` (c,), and their instances, as `by_key` gives them.

    The k-th is the k-th where all devices have equally many and the times of most allow that; else each device's are
    moved by the shift in k under which most of them end nearest to those of the device that has most. Keys that are not
    on all devices of their `coarse` key are left out: what tells them apart has other names on other devices.
    """
    rows, key = _everywhere(talk, rows, key, coarse)
    if not len(rows):
        return rows, rows
    k, most, fewest = _counted(talk.device[rows], key)
    seen = _seen(talk, rows, _numbered(key, k, most))
    good, number, held, apart = seen.several & _sound(talk, rows, key, seen), seen.number, seen.held, seen.apart
    doubtful = (most != fewest) | (np.bincount(key, ~good) > 0) | _vague(key, held, apart)
    moved = np.flatnonzero(doubtful[key])
    if len(moved):
        among = distinct(key[moved])
        other = _seen(talk, rows[moved], _shifted(talk, rows[moved], k[moved], among))
        fits = other.several & other.overlap
        # No shift is likelier than another, unless more fit under that, or most do with their ends much nearer.
        more = np.bincount(among, other.held > 0) > np.bincount(among, held[moved] > 0)
        nearer = _NEARER * _mean(among, other.apart, fits) < _mean(among, apart[moved], good[moved])
        most_fit = 2 * np.bincount(among, fits) > np.bincount(among)
        use = (more | (nearer & most_fit))[among]
        good[moved] = np.where(use, fits, good[moved])
        number[moved] = np.where(use, number.max() + 1 + other.number, number[moved])
        held[moved], apart[moved] = np.where(use, other.held, held[moved]), np.where(use, other.apart, apart[moved])
    # A little in common, with ends far apart, is what one collective has with the next.
    unlike = _vague(key, held * good, apart * good)[key] & talk.meets[rows]
    return _kept(rows, number, good & ~unlike)


def _everywhere(talk: Talk, rows: Column, key: Column, coarse: Column) -> tuple[Column, Column]:
    """Those of `rows` whose key is on several devices, and on all of its coarse key; and their keys, from 0."""
    if not len(rows):
        return rows, rows
    key, coarse, device = distinct(key[rows]), distinct(coarse[rows]), talk.device[rows]
    wide = devices_of(key, device)[key]
    places = np.flatnonzero((wide > 1) & (wide == devices_of(coarse, device)[coarse]))
    return rows[places], distinct(key[places])


@dataclass(frozen=True)
class _Seen:
    """What the times say of the instance that each row is in, all of shape (n,).

    `number`: the instance. `several`: whether it has several rows. `overlap`: whether these overlap for a while, as far
    as the clocks tell; `touch`: whether they overlap or touch. `held`: for how long they do; `apart`: how far their
    ends are apart; 0 where it is one row.
    """

    number: Column
    several: Mask
    overlap: Mask
    touch: Mask
    held: Column
    apart: Column


def _seen(talk: Talk, rows: Column, number: Column) -> _Seen:
    """What the times say of the instances `number` (len(rows),), none of which has two rows of a device."""
    m = int(number.max()) + 1
    several = np.bincount(number, minlength=m) > 1
    last_start, first_end, last_end = np.full(m, -_FOREVER), np.full(m, _FOREVER), np.full(m, -_FOREVER)
    device = talk.device[rows]
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(device)) + 1).tolist(), len(rows)]):
        mine, own = number[low:high], rows[low:high]
        last_start[mine] = np.maximum(last_start[mine], talk.start[own])
        first_end[mine] = np.minimum(first_end[mine], talk.end[own])
        last_end[mine] = np.maximum(last_end[mine], talk.end[own])
    held = np.where(several, first_end - last_start, 0)
    apart = np.where(several, last_end - first_end, 0)
    meets = np.zeros(m, bool)
    meets[number] = talk.meets[rows]
    overlap = several & (held > 0)
    sure = overlap & meets
    # As much as their ends usually differ, the clocks of the devices may.
    slack = min(int(np.median(apart[sure])), _CLOCKS_APART_PS) if sure.any() else 0
    if slack:
        overlap |= several & meets & (held >= -slack)
    touch = several & (held >= 0)
    return _Seen(number, several[number], overlap[number], touch[number], np.maximum(held, 0)[number], apart[number])


def _counted(device: Column, key: Column) -> tuple[Column, Column, Column]:
    """Which occurrence of its key on its device each row is, from 0; the most and the fewest of each key a device
    has."""
    width = int(device.max()) + 1
    on_device, pair = pd.factorize(key * width + device)
    counts = np.bincount(on_device)
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = np.argsort(on_device.astype(np.min_scalar_type(len(pair))), kind="stable")
    k = np.empty(len(key), np.int64)
    k[order] = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
    most, fewest = np.zeros(int(key.max()) + 1, np.int64), np.full(int(key.max()) + 1, len(key))
    np.maximum.at(most, pair // width, counts)
    np.minimum.at(fewest, pair // width, counts)
    return k, most, fewest


def _numbered(key: Column, k: Column, length: Column) -> Column:
    """A number for each pair of key and k < length[key]."""
    numbers: Column = (np.cumsum(length) - length)[key] + k
    return numbers


def _sound(talk: Talk, rows: Column, key: Column, seen: _Seen) -> Mask:
    """Which rows may be matched as they are: those that overlap; all of a key whose ranks may leave early, if most
    do."""
    mostly = 2 * np.bincount(key, seen.overlap) >= np.bincount(key)
    return np.where(talk.meets[rows], seen.overlap, mostly[key])


def _mean(key: Column, values: Column, where: Mask) -> NDArray[np.float64]:
    """The mean of the values of each key where a mask is true; all ends of the world where it nowhere is."""
    count = np.bincount(key, where)
    return np.where(count > 0, np.bincount(key, values * where) / np.maximum(count, 1), np.inf)


def _shifted(talk: Talk, rows: Column, k: Column, key: Column) -> Column:
    """The numbers of the instances when each device's k is moved by what most of its rows of the key vote for."""
    moved = k + _shift(talk.device[rows], talk.end[rows], k, key)
    least = np.full(int(key.max()) + 1, _FOREVER)
    np.minimum.at(least, key, moved)
    moved -= least[key]
    length = np.zeros(len(least), np.int64)
    np.maximum.at(length, key, moved + 1)
    return _numbered(key, moved, length)


def _shift(device: Column, end: Column, k: Column, key: Column) -> Column:
    """By how much each row's k is moved, shape (n,), the same for all rows of a key and device.

    Each row votes for the occurrence that ends nearest to it, on the device that has most occurrences of its key.
    """
    width = int(device.max()) + 1
    pair = key * width + device
    counts = np.bincount(pair, minlength=(int(key.max()) + 1) * width).reshape(-1, width)
    steady = np.flatnonzero(device == counts.argmax(axis=1)[key])
    steady = steady[np.lexsort((end[steady], key[steady]))]
    times, rank = np.unique(end, return_inverse=True)
    code = key * len(times) + rank
    after = np.searchsorted(code[steady], code)
    near = np.stack([np.maximum(after - 1, 0), np.minimum(after, len(steady) - 1)])
    away = np.where(key[steady[near]] == key, np.abs(end[steady[near]] - end), _FOREVER)
    lag = k[steady[np.where(away[1] < away[0], near[1], near[0])]] - k
    least = int(lag.min())
    span = int(lag.max()) - least + 1
    votes, count = np.unique(pair * span + (lag - least), return_counts=True)
    of, lags = votes // span, votes % span + least
    # The most votes, then the smallest shift.
    order = np.lexsort((np.abs(lags), -count, of))
    won = np.zeros(counts.size, np.int64)
    won[of[order][::-1]] = lags[order][::-1]
    shift: Column = won[pair]
    return shift


def _kept(rows: Column, number: Column, good: Mask) -> tuple[Column, Column]:
    """The `good` ones of `rows` and their instances, numbered from 0; an instance is good as a whole."""
    return rows[good], pd.factorize(number[good])[0].astype(np.int64)
