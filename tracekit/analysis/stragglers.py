"""Who comes late to collectives, and what that costs the others: devices, and hosts whose devices are all late."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit import intervals as iv
from tracekit.columns import frame, places_of, records
from tracekit.devices import host_of
from tracekit.timeline.rows import Rows
from tracekit.timeline.unions import Unions

DEVICE_COLUMNS = {
    "device": "str",
    "collectives": "int64",
    "n": "int64",
    "last": "int64",
    "expected_last": "Float64",
    "cost_ps": "Int64",
    "exposed_cost_ps": "Int64",
    "gain_ps": "Int64",
    "held_up_ratio": "Float64",
    "straggler": "bool",
    "waiting_ps": "Int64",
    "transfer_ps": "Int64",
    "device_time_ps": "int64",
    "hidden_ps": "int64",
    "exposed_ps": "int64",
}
HOST_COLUMNS = {
    "host": "str",
    "devices": "int64",
    "n": "int64",
    "last": "int64",
    "expected_last": "float64",
    "cost_ps": "int64",
    "exposed_cost_ps": "int64",
    "gain_ps": "int64",
    "held_up_ratio": "Float64",
    "straggler": "bool",
}

# Fewer collectives do not show a habit.
FEWEST = 8
# Were all alike, this is how likely it may be at most that any of them is last as often as a straggler.
BY_CHANCE = 0.01
# A smaller share of the window, lost by each of the others, is not worth a word.
WORTH_TELLING = 0.01
# The devices of a host are late together where none of them alone, on time, would gain this part of what all would.
ONE_OF_THEM = 0.5

_NEVER = np.iinfo(np.int64).min

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Members:
    """The c rows of collectives by instance, then device; columns have shape (c,) unless said, times are in ps.

    `at` is the place of each in Rows. `first` (m,) is where the rows of each of the m instances begin, `size` how many
    the row's instance has, `shared` whether those are several, and all that take part. `wait` is the time from the
    row's own start to `last_start`, the last start in its instance, or to its own end where the device left before.
    `late` tells the rows that started last, `lates` how many those are. `hidden` is what of its time inside the window
    ran behind its device's compute, `exposed` what ran beside it, and `exposed_wait` what of as much time
    at its end as it waited: so much less would be exposed, had nobody been late.
    """

    at: Column
    first: Column
    size: Column
    shared: Mask
    device: Column
    start: Column
    end: Column
    last_start: Column
    wait: Column
    late: Mask
    lates: Column
    hidden: Column
    exposed: Column
    exposed_wait: Column

    def over(self, function: np.ufunc, values: Column) -> Column:
        """`function` over the values (c,) of each instance, shape (m,)."""
        reduced: Column = function.reduceat(values, self.first)
        return reduced

    def each(self, values: NDArray[Any]) -> NDArray[Any]:
        """The value (m,) of its instance for every row."""
        return np.repeat(values, self.size[self.first])

    def cost(self, waits: Column) -> Column:
        """What the lateness of each row cost its instance: `waits` (c,), summed, for the row that started last.

        Rows that started last together share the sum equally, the first of them the odd picoseconds. So the costs are
        the waits, exactly.
        """
        sums = self.each(self.over(np.add, waits))
        lates_before: Column = np.cumsum(self.late) - self.late
        turn = lates_before - self.each(lates_before[self.first])
        return np.where(self.late, sums // self.lates + (turn < sums % self.lates), 0)


def by_number(number: Column) -> list[tuple[int, Column]]:
    """Each of the numbers (k,), and where it stands."""
    places = places_of(number, int(number.max(initial=-1)) + 1)
    return [(each, its) for each, its in enumerate(places) if len(its)]


def late_devices(rows: Rows, members: Members, unions: Unions) -> pd.DataFrame:
    """One row per device (DEVICE_COLUMNS): how often it was last, what that cost the others, and where its own time
    went.

    `gain_ps`: by how much sooner, in all, its collectives would have begun, had it come with the last of the others.
    """
    cost, exposed_cost = members.cost(members.wait), members.cost(members.exposed_wait)
    has_one_last = members.shared & (members.lates == 1)
    was_last, time = members.late & has_one_last, members.end - members.start
    before = members.each(members.over(np.maximum, np.where(members.late, _NEVER, members.start)))
    lead = np.where(was_last, members.start - np.where(was_last, before, 0), 0)
    data = []
    numbers = by_number(members.device)
    for device, device_members in numbers:
        shared_members = device_members[members.shared[device_members]]
        chance = 1 / members.size[shared_members[has_one_last[shared_members]]]
        last_count = int(was_last[shared_members].sum())
        window = iv.total(unions.windows.get(rows.clocks[device], iv.EMPTY))
        lost_ps = float((exposed_cost[shared_members] / (members.size[shared_members] - 1)).sum())
        ratio = lost_ps / window if window else 0.0
        any_shared = len(shared_members) > 0
        row = (
            rows.devices[device],
            len(device_members),
            len(shared_members),
            last_count,
            float(chance.sum()) if any_shared else None,
            iv.sum_exactly(cost[shared_members]) if any_shared else None,
            iv.sum_exactly(exposed_cost[shared_members]) if any_shared else None,
            iv.sum_exactly(lead[shared_members]) if any_shared else None,
            ratio if any_shared and window else None,
            straggles(last_count, chance, ratio, len(numbers)),
            iv.sum_exactly(members.wait[shared_members]) if any_shared else None,
            iv.sum_exactly(time[shared_members] - members.wait[shared_members]) if any_shared else None,
            iv.sum_exactly(time[device_members]),
            iv.sum_exactly(members.hidden[device_members]),
            iv.sum_exactly(members.exposed[device_members]),
        )
        data.append(row)
    return frame(DEVICE_COLUMNS, data)


def late_hosts(
    rows: Rows, members: Members, unions: Unions, by_device: pd.DataFrame, residuals: Mapping[str, int]
) -> pd.DataFrame:
    """One row per host (HOST_COLUMNS), of its devices together, over the n shared collectives in which it met others;
    no row where each host has one device, which `by_device` tells all of.

    It was `last` where the last of its devices came behind those of all other hosts, by more than the clocks of both
    may be off (`residuals`, in ps). What that cost the devices of the others are their waits, `exposed_cost_ps` those
    beside no compute; `gain_ps`: by how much sooner, in all, the collectives would have begun, had its devices come
    with the last of the others. It is a straggler as a device is one, if none of its devices alone would gain as much
    as ONE_OF_THEM of that.
    """
    host_of, names = pd.factorize(np.array(rows.hosts, object))
    at = np.flatnonzero(members.shared)
    devices = np.unique(members.device[at])
    count = np.bincount(host_of[devices], minlength=len(names))
    if len(names) < 2 or count.max(initial=0) < 2:
        return frame(HOST_COLUMNS)
    # The devices of one host in one collective are a group; those of a collective stand together.
    host = host_of[members.device[at]]
    key = members.each(np.arange(len(members.first)))[at] * len(names) + host
    order = np.argsort(key, kind="stable")
    key, at = key[order], at[order]
    heads = np.flatnonzero(np.diff(key, prepend=-1))
    host, firsts = key[heads] % len(names), np.flatnonzero(np.diff(key[heads] // len(names), prepend=-1))
    groups = np.diff(firsts, append=len(heads))

    def each(values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, groups)

    size = np.diff(heads, append=len(at))
    others = each(np.add.reduceat(size, firsts)) - size
    start = np.maximum.reduceat(members.start[at], heads)
    is_last = start == each(np.maximum.reduceat(start, firsts))
    before = each(np.maximum.reduceat(np.where(is_last, _NEVER, start), firsts))
    is_next = ~is_last & (start == before)
    off = np.array([residuals.get(name, 0) for name in names], np.int64)[host]
    off += each(np.maximum.reduceat(np.where(is_next, off, 0), firsts))
    was_last = is_last & (each(np.add.reduceat(is_last.astype(np.int64), firsts)) == 1) & (others > 0)
    lead = np.where(was_last, start - np.where(was_last, before, 0), 0)
    was_last &= lead > off
    has_last = each(np.logical_or.reduceat(was_last, firsts))
    waits = [np.add.reduceat(wait[at], heads) for wait in (members.wait, members.exposed_wait)]
    cost, exposed_cost = (np.where(was_last, each(np.add.reduceat(wait, firsts)) - wait, 0) for wait in waits)
    device_gain = by_device.set_index("device")["gain_ps"].fillna(0)
    data = []
    for number, places in by_number(host):
        places = places[others[places] > 0]
        if not len(places):
            continue
        own = devices[host_of[devices] == number].tolist()
        chance = (size / (size + others))[places[has_last[places]]]
        gain = iv.sum_exactly(np.where(was_last, lead, 0)[places])
        window = iv.total(unions.windows.get(rows.clocks[own[0]], iv.EMPTY))
        ratio = float((exposed_cost[places] / others[places]).sum()) / window if window else 0.0
        times = int(was_last[places].sum())
        most_alone = device_gain[[rows.devices[device] for device in own]].max()
        is_late = straggles(times, chance, ratio, len(names)) and most_alone < ONE_OF_THEM * gain
        row = (
            names[number],
            len(own),
            len(places),
            times,
            float(chance.sum()),
            iv.sum_exactly(cost[places]),
            iv.sum_exactly(exposed_cost[places]),
            gain,
            ratio if window else None,
            is_late,
        )
        data.append(row)
    return frame(HOST_COLUMNS, data)


def worst(by_device: pd.DataFrame, by_host: pd.DataFrame, cost: str) -> list[dict[str, Any]]:
    """The stragglers, those with the largest `cost` (a column of both) first: the hosts among them, and the devices of
    other hosts. A device has no "host", but with `is_alone` whether it is late alone: on time, its collectives would
    begin sooner by ONE_OF_THEM or more of what each of the others waited for it."""
    hosts = records(by_host[by_host["straggler"]])
    late = {str(row["host"]) for row in hosts}
    devices = [row for row in records(by_device[by_device["straggler"]]) if host_of(row["device"]) not in late]
    others = max(len(by_device) - 1, 1)  # at least as many as met in any of them
    for row in devices:
        gain_ps = row["gain_ps"]  # which an earlier version did not save
        row["is_alone"] = gain_ps is None or gain_ps * others >= ONE_OF_THEM * row["cost_ps"]
    return sorted([*hosts, *devices], key=lambda row: -row[cost])


def straggles(times_last: int, chance: NDArray[np.float64], held_up_ratio: float, number: int) -> bool:
    """Whether a device (or host) that was last `times_last` times is a straggler among such a `number` of them.

    `chance` (n,): how likely it is last in each of its n collectives in which one was, if all devices are alike: its
    part of their number. That it is last so often must then be no more likely than BY_CHANCE for any of them
    (Bonferroni), in FEWEST collectives or more; and it must have held up each of the others for WORTH_TELLING of the
    window, on average.
    """
    if len(chance) < FEWEST or held_up_ratio < WORTH_TELLING:
        return False
    return at_least_so_often(times_last, len(chance), float(chance.mean())) <= BY_CHANCE / number


def at_least_so_often(times: int, trials: int, chance: float) -> float:
    """How likely it is that what has this chance, in 0..1, happens so many `times` or more in the trials.

    The tail of the binomial distribution, in its first terms. Where chances differ, that of their mean is no less than
    the true one beyond the expected number: Hoeffding (1956), https://doi.org/10.1214/aoms/1177728178.
    """
    if times <= trials * chance or chance >= 1:
        return 1.0
    log_of_ways = math.lgamma(trials + 1) - math.lgamma(times + 1) - math.lgamma(trials - times + 1)
    term = math.exp(log_of_ways + times * math.log(chance) + (trials - times) * math.log1p(-chance))
    total = term
    for number in range(times, trials):
        term *= (trials - number) / (number + 1) * chance / (1 - chance)
        total += term
        if term < total * 1e-9:
            break
    return min(total, 1.0)
