"""The occurrences of collectives on each device, and which of them are one by their order and their times."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import numbered

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Clocks that count as one may differ by this much.
_CLOCKS_APART_PS = 10_000_000
# Ends this much nearer to each other than under another shift in k were not brought together by chance.
_NEARER = 4
_FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class CollectiveRows:
    """c collectives by device, then start; all columns have shape (c,), times are in ps.

    `synchronises`: no rank of it ends before all have started. `members_known`: which devices take part is told. Rows
    that could be one have equal `signature`; `fine_signature` tells more of them apart, where the devices name things
    alike. `sequence` and `run` are equal for the same number within a group, and for the same op in the same execution;
    `execution` is that of the program on the row's device. They are -1 where there is none.
    """

    device: Column
    start: Column
    end: Column
    operation: Column
    synchronises: Mask
    members_known: Mask
    signature: Column
    fine_signature: Column
    sequence: Column
    run: Column
    execution: Column

    def __len__(self) -> int:
        return len(self.device)


def distinct(*columns: NDArray[Any]) -> Column:
    """Which distinct combination of the columns (each (n,)) every row has, numbered from 0, shape (n,)."""
    combination = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes, values = pd.factorize(column)
        if len(values) > 1:
            combination = pd.factorize(combination * len(values) + codes)[0]
    return combination.astype(np.int64)


def devices_of(key: Column, device: Column) -> Column:
    """On how many devices each key has rows, by key."""
    width = int(device.max(initial=0)) + 1
    return np.bincount(pd.unique(key * width + device) // width)


def match_by_key(
    collectives: CollectiveRows, rows: Column, key: Column, is_proof: bool = False
) -> tuple[Column, Column]:
    """Those of `rows` that are the k-th of their `key` (c,) on their devices, where all devices have equally many and
    the times allow it; and the number of the instance of each, from 0 without gaps.

    Rows that only touch are one if the key proves it (`is_proof`): others that follow each other at once touch as well.
    """
    if not len(rows):
        return rows, rows
    key = distinct(key[rows])
    occurrence, most, fewest = _count_by_key(collectives.device[rows], key)
    times = _times(collectives, rows, _number(key, occurrence, most))
    allowed = times.overlap | (times.touch & is_proof)
    return _keep(
        rows, times.instance, times.several & (most == fewest)[key] & (allowed | ~collectives.synchronises[rows])
    )


def times_agree(collectives: CollectiveRows, rows: Column, number: Column) -> Mask:
    """Whether instances like that of each row (same signature) are together for longer than their ends are apart.

    What follows at once may overlap a little with what it is not one with, and then its ends are far apart.
    """
    if not len(rows):
        return np.zeros(0, bool)
    times = _times(collectives, rows, number)
    return ~_is_vague(collectives.signature[rows], times.overlap_ps, times.end_spread_ps)[collectives.signature[rows]]


def _is_vague(key: Column, overlap_ps: Column, end_spread_ps: Column) -> Mask:
    """Whether the instances of each key are together for less time than their ends are apart."""
    vague: Mask = np.bincount(key, overlap_ps) < np.bincount(key, end_spread_ps)
    return vague


def executions_together(collectives: CollectiveRows, instance: Column) -> Column:
    """Which rows are of executions that met: a number for each set of these, -1 where none is known; shape (c,).

    Hosts that number their executions each for itself tell by the collectives that were matched, whose `instance` (c,)
    is not below 0, which of them are one. Executions that would have met two of one device were not matched rightly.
    """
    met = np.flatnonzero((instance >= 0) & (collectives.execution >= 0))
    together = np.full(len(collectives), -1)
    if not len(met):
        return together
    execution, shared = collectives.execution[met], distinct(instance[met])
    size = int(collectives.execution.max()) + 1
    number = np.arange(size)
    while True:
        least = np.full(int(shared.max()) + 1, size)
        np.minimum.at(least, shared, number[execution])
        lower = number.copy()
        np.minimum.at(lower, execution, least[shared])
        lower = lower[lower]
        if (lower == number).all():
            break
        number = lower
    own, first = np.unique(execution, return_index=True)
    width = int(collectives.device.max()) + 1
    on_device, count = np.unique(number[own] * width + collectives.device[met[first]], return_counts=True)
    is_right = ~np.isin(number[own], on_device[count > 1] // width)
    of_execution = np.full(size, -1)
    of_execution[own[is_right]] = number[own[is_right]]
    known = collectives.execution >= 0
    together[known] = of_execution[collectives.execution[known]]
    return together


def match_in_order(collectives: CollectiveRows, rows: Column, key: Column, coarse: Column) -> tuple[Column, Column]:
    """Those of `rows` that are one by the order of their `key` (c,), and their instances, as `match_by_key` gives them.

    The k-th is the k-th where all devices have equally many and the times of most allow that; else each device's are
    moved by the shift in k under which most of them end nearest to those of the device that has most. Keys that are not
    on all devices of their `coarse` key are left out: what tells them apart has other names on other devices.
    """
    rows, key = _on_all_devices(collectives, rows, key, coarse)
    if not len(rows):
        return rows, rows
    occurrence, most, fewest = _count_by_key(collectives.device[rows], key)
    times = _times(collectives, rows, _number(key, occurrence, most))
    fits, number = times.several & _is_sound(collectives, rows, key, times), times.instance
    overlap_ps, end_spread_ps = times.overlap_ps, times.end_spread_ps
    doubtful = (most != fewest) | (np.bincount(key, ~fits) > 0) | _is_vague(key, overlap_ps, end_spread_ps)
    doubtful_rows = np.flatnonzero(doubtful[key])
    if len(doubtful_rows):
        doubtful_key = distinct(key[doubtful_rows])
        shifted_times = _times(
            collectives,
            rows[doubtful_rows],
            _number_shifted(collectives, rows[doubtful_rows], occurrence[doubtful_rows], doubtful_key),
        )
        fits_shifted = shifted_times.several & shifted_times.overlap
        # No shift is likelier than another, unless more fit under that, or most do with their ends much nearer.
        more_fit = np.bincount(doubtful_key, shifted_times.overlap_ps > 0) > np.bincount(
            doubtful_key, overlap_ps[doubtful_rows] > 0
        )
        nearer = _NEARER * _mean(doubtful_key, shifted_times.end_spread_ps, fits_shifted) < _mean(
            doubtful_key, end_spread_ps[doubtful_rows], fits[doubtful_rows]
        )
        most_fit = 2 * np.bincount(doubtful_key, fits_shifted) > np.bincount(doubtful_key)
        use_shifted = (more_fit | (nearer & most_fit))[doubtful_key]
        fits[doubtful_rows] = np.where(use_shifted, fits_shifted, fits[doubtful_rows])
        number[doubtful_rows] = np.where(use_shifted, number.max() + 1 + shifted_times.instance, number[doubtful_rows])
        overlap_ps[doubtful_rows] = np.where(use_shifted, shifted_times.overlap_ps, overlap_ps[doubtful_rows])
        end_spread_ps[doubtful_rows] = np.where(use_shifted, shifted_times.end_spread_ps, end_spread_ps[doubtful_rows])
    # A little in common, with ends far apart, is what one collective has with the next.
    unlike = _is_vague(key, overlap_ps * fits, end_spread_ps * fits)[key] & collectives.synchronises[rows]
    return _keep(rows, number, fits & ~unlike)


def _on_all_devices(collectives: CollectiveRows, rows: Column, key: Column, coarse: Column) -> tuple[Column, Column]:
    """Those of `rows` whose key is on several devices, and on all of its coarse key; and their keys, from 0."""
    if not len(rows):
        return rows, rows
    key, coarse, device = distinct(key[rows]), distinct(coarse[rows]), collectives.device[rows]
    device_count = devices_of(key, device)[key]
    places = np.flatnonzero((device_count > 1) & (device_count == devices_of(coarse, device)[coarse]))
    return rows[places], distinct(key[places])


@dataclass(frozen=True)
class _Times:
    """What the times say of the instance that each row is in, all of shape (n,).

    `instance`: the instance. `several`: whether it has several rows. `overlap`: whether these overlap for a while, as
    far as the clocks tell; `touch`: whether they overlap or touch. `overlap_ps`: for how long they do; `end_spread_ps`:
    how far their ends are apart; 0 where it is one row.
    """

    instance: Column
    several: Mask
    overlap: Mask
    touch: Mask
    overlap_ps: Column
    end_spread_ps: Column


def _times(collectives: CollectiveRows, rows: Column, number: Column) -> _Times:
    """What the times say of the instances `number` (len(rows),), none of which has two rows of a device."""
    m = int(number.max()) + 1
    several = np.bincount(number, minlength=m) > 1
    last_start, first_end, last_end = np.full(m, -_FOREVER), np.full(m, _FOREVER), np.full(m, -_FOREVER)
    device = collectives.device[rows]
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(device)) + 1).tolist(), len(rows)]):
        device_instances, device_rows = number[low:high], rows[low:high]
        last_start[device_instances] = np.maximum(last_start[device_instances], collectives.start[device_rows])
        first_end[device_instances] = np.minimum(first_end[device_instances], collectives.end[device_rows])
        last_end[device_instances] = np.maximum(last_end[device_instances], collectives.end[device_rows])
    overlap_ps = np.where(several, first_end - last_start, 0)
    end_spread_ps = np.where(several, last_end - first_end, 0)
    synchronises = np.zeros(m, bool)
    synchronises[number] = collectives.synchronises[rows]
    overlap = several & (overlap_ps > 0)
    certain = overlap & synchronises
    # As much as their ends usually differ, the clocks of the devices may.
    slack = min(int(np.median(end_spread_ps[certain])), _CLOCKS_APART_PS) if certain.any() else 0
    if slack:
        overlap |= several & synchronises & (overlap_ps >= -slack)
    touch = several & (overlap_ps >= 0)
    return _Times(
        number,
        several[number],
        overlap[number],
        touch[number],
        np.maximum(overlap_ps, 0)[number],
        end_spread_ps[number],
    )


def _count_by_key(device: Column, key: Column) -> tuple[Column, Column, Column]:
    """Which occurrence of its key on its device each row is, from 0; the most and the fewest of each key a device
    has."""
    width = int(device.max()) + 1
    on_device, pair = pd.factorize(key * width + device)
    counts = np.bincount(on_device)
    # Of numbers of at most two bytes, numpy finds a stable order in linear time.
    order = np.argsort(on_device.astype(np.min_scalar_type(len(pair))), kind="stable")
    occurrence = np.empty(len(key), np.int64)
    occurrence[order] = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
    most, fewest = np.zeros(int(key.max()) + 1, np.int64), np.full(int(key.max()) + 1, len(key))
    np.maximum.at(most, pair // width, counts)
    np.minimum.at(fewest, pair // width, counts)
    return occurrence, most, fewest


def _number(key: Column, occurrence: Column, length: Column) -> Column:
    """A number for each pair of key and k < length[key]."""
    numbers: Column = (np.cumsum(length) - length)[key] + occurrence
    return numbers


def _is_sound(collectives: CollectiveRows, rows: Column, key: Column, times: _Times) -> Mask:
    """Which rows may be matched as they are: those that overlap; all of a key whose ranks may leave early, if most
    do."""
    mostly = 2 * np.bincount(key, times.overlap) >= np.bincount(key)
    return np.where(collectives.synchronises[rows], times.overlap, mostly[key])


def _mean(key: Column, values: Column, mask: Mask) -> NDArray[np.float64]:
    """The mean of the values of each key where a mask is true; all ends of the world where it nowhere is."""
    count = np.bincount(key, mask)
    return np.where(count > 0, np.bincount(key, values * mask) / np.maximum(count, 1), np.inf)


def _number_shifted(collectives: CollectiveRows, rows: Column, occurrence: Column, key: Column) -> Column:
    """The numbers of the instances when each device's k is moved by what most of its rows of the key vote for."""
    shifted = occurrence + _shift(collectives.device[rows], collectives.end[rows], occurrence, key)
    lowest = np.full(int(key.max()) + 1, _FOREVER)
    np.minimum.at(lowest, key, shifted)
    shifted -= lowest[key]
    length = np.zeros(len(lowest), np.int64)
    np.maximum.at(length, key, shifted + 1)
    return _number(key, shifted, length)


def _shift(device: Column, end: Column, occurrence: Column, key: Column) -> Column:
    """By how much each row's k is moved, shape (n,), the same for all rows of a key and device.

    Each row votes for the occurrence that ends nearest to it, on the device that has most occurrences of its key.
    """
    width = int(device.max()) + 1
    number, pairs = numbered(key * width + device, (int(key.max()) + 1) * width)
    by_count = np.lexsort((-pairs, np.bincount(number)))  # of equally many the first device
    most = np.zeros(int(key.max()) + 1, np.int64)
    most[pairs[by_count] // width] = pairs[by_count] % width  # the last to be written stays
    steady = np.flatnonzero(device == most[key])
    steady = steady[np.lexsort((end[steady], key[steady]))]
    times, rank = np.unique(end, return_inverse=True)
    code = key * len(times) + rank
    next_end = np.searchsorted(code[steady], code)
    neighbours = np.stack([np.maximum(next_end - 1, 0), np.minimum(next_end, len(steady) - 1)])
    distances = np.where(key[steady[neighbours]] == key, np.abs(end[steady[neighbours]] - end), _FOREVER)
    lags = occurrence[steady[np.where(distances[1] < distances[0], neighbours[1], neighbours[0])]] - occurrence
    lowest = int(lags.min())
    span = int(lags.max()) - lowest + 1
    votes, count = np.unique(number * span + (lags - lowest), return_counts=True)
    pair_of_vote, vote_lags = votes // span, votes % span + lowest
    # The most votes, then the smallest shift.
    order = np.lexsort((np.abs(vote_lags), -count, pair_of_vote))
    best_lag = np.zeros(len(pairs), np.int64)
    best_lag[pair_of_vote[order][::-1]] = vote_lags[order][::-1]
    shift: Column = best_lag[number]
    return shift


def _keep(rows: Column, number: Column, fits: Mask) -> tuple[Column, Column]:
    """The `rows` that fit and their instances, numbered from 0; an instance fits as a whole."""
    return rows[fits], pd.factorize(number[fits])[0].astype(np.int64)
