"""Which collectives two hosts share, and what their ends say of the two clocks.

The k-th occurrence of a collective on one host is the k-th on the other, where both recorded the same ones. Where one
began or stopped recording earlier, the shift in k is found under which the ends differ most evenly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.columns import categorical, distinct, places_of
from tracekit.readers.merge import clock_fit
from tracekit.readers.merge.clock_fit import Fit, Line
from tracekit.vocabulary.collectives import OPERATIONS, operation
from tracekit.vocabulary.kinds import Kind

_UNSURE = "send-recv"  # an all-to-all, in which all ranks meet, or a single send
# What two rows must have in common to be one collective: the first level at which enough is shared counts.
_LEVELS = (
    ("op", "group", "ranks", "hlo_module", "hlo_op", "lane"),
    ("op", "group", "ranks", "hlo_module", "hlo_op"),
    ("op", "group", "ranks"),
)
# So many ends, as ratio, are those of collectives that were matched rightly, when one order is held against another.
_USUAL = 0.8
# Ends that scatter this much more than the steadiest ones do come from collectives that were not matched rightly.
_ALIKE = 4
# Ends this much nearer to each other than to the next ones were not brought together by chance.
_RARE = 20
# So many of the ends, as ratio, are not at one moment by chance.
_FEW = 0.05
_EVERY_SHIFT_UP_TO = 256  # up to so many occurrences every shift in k is tried
_STEPS_PS = (1_000_000, 1000, 1)
_SAMPLE = 4096
_FOREVER = 2**62

Column = NDArray[np.int64]
# First end, last end and last start over the devices of one host, shape (occurrences, 3), in order, ps.
Occurrences = NDArray[np.int64]
Key = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """n rows of collectives, one per device and occurrence, by end; all columns have shape (n,), times are in ps.

    `codes` are numbers of what _LEVELS names, and `number` of the operation, its group and its number in that, the same
    on all hosts; `run` is that of an execution. They are -1 where a row has none. `is_sure`: whether all ranks meet;
    `size` in bytes, -1 where ranks may have others.
    """

    codes: Mapping[str, Column]
    device: Column
    start: Column
    end: Column
    run: Column
    number: Column
    is_sure: NDArray[np.bool_]
    size: Column

    def __len__(self) -> int:
        return len(self.end)

    def taken(self, rows: slice | NDArray[Any]) -> "Rows":
        """Those `rows` alone."""
        columns = (getattr(self, column.name)[rows] for column in fields(self)[1:])
        return Rows({name: codes[rows] for name, codes in self.codes.items()}, *columns)


class _Numbered(NamedTuple):
    """The k collectives that are numbered: their `number` (k,), which rises, when they ended first and last and started
    last over the devices, `times` (k, 3) in ps, and the `size` (k,) in bytes where all ranks have the same, else -1."""

    number: Column
    times: Occurrences
    size: Column


@dataclass(frozen=True)
class Host:
    """The collectives of one host, and the step of its times in ps."""

    rows: Rows
    resolution_ps: int

    @cached_property
    def _levels(self) -> dict[tuple[str, ...], Mapping[Key, Occurrences]]:
        return {}

    def level(self, columns: tuple[str, ...]) -> Mapping[Key, Occurrences]:
        """The occurrences of what has `columns` in common, made when first asked for: most need one of three levels."""
        if columns not in self._levels:
            self._levels[columns] = _occurrences(self.rows, columns)
        return self._levels[columns]

    @cached_property
    def sure(self) -> frozenset[int]:
        """The codes of operations in which all ranks meet."""
        return frozenset(np.unique(self.rows.codes["op"][self.rows.is_sure]).tolist())

    @cached_property
    def numbers(self) -> _Numbered:
        """Of the collectives that are numbered, whose ranks all meet, and that no device ran twice under one number."""
        at = np.flatnonzero((self.rows.number >= 0) & self.rows.is_sure)
        at = at[np.lexsort((self.rows.device[at], self.rows.number[at]))]
        again = (np.diff(self.rows.number[at]) == 0) & (np.diff(self.rows.device[at]) == 0)
        at = at[~np.isin(self.rows.number[at], self.rows.number[at[1:]][again])]
        number, start, end, size = (
            each[at] for each in (self.rows.number, self.rows.start, self.rows.end, self.rows.size)
        )
        first = np.flatnonzero(np.append(True, np.diff(number) != 0)[: len(at)])
        if not len(first):  # of which reduceat has no answer
            return _Numbered(number, np.zeros((0, 3), np.int64), size)
        times = [np.minimum.reduceat(end, first), *(np.maximum.reduceat(each, first) for each in (end, start))]
        return _Numbered(number[first], np.column_stack(times), np.maximum.reduceat(size, first))

    @cached_property
    def _keys(self) -> tuple[tuple[Column, frozenset[int]], ...]:
        """The execution, and the number in its group, of each row, and which there are."""
        columns = (self.rows.run, self.rows.number)
        return tuple((column, frozenset(np.unique(column[column >= 0]).tolist())) for column in columns)

    def shared_with(self, other: "Host") -> "Host":
        """The same host without the executions, and without the numbers of a group, that `other` did not record.

        Rows of no known execution or number stay; so do all where the two hosts have none in common.
        """
        keep = np.ones(len(self.rows), bool)
        for (own, mine), (_, others) in zip(self._keys, other._keys, strict=True):
            common = mine & others
            if common and len(common) < len(mine):
                keep &= (own < 0) | np.isin(own, [*common])
        return self if keep.all() else Host(self.rows.taken(keep), self.resolution_ps)


@dataclass(frozen=True)
class Compared:
    """What shared collectives say of the second host's clock, seen from the first's; times and differences in ps.

    Of each of n collectives, shape (n,): `times`, when it ended by the second's clock; `ahead`, how much later that is
    than by the first's; `earliest` and `latest`, between which offsets no rank ends it before another starts it.
    `apart`: in which time, in the median, one end follows the other. `resolution`: the coarser step of the two files.
    `by_number`: whether the collectives' own numbers told which are the same; else how many orders were tried (`tries`)
    to find the one in which they fit best. `is_told`: whether the trace says which devices meet in them. `unused`:
    `times` and `ahead`, shape (2, m), of those that are shared too, but whose ends scatter more and were left out.
    `sent` (n,): of sends with their receives, whether the first host sent; empty of what all ranks meet in.
    """

    times: Column
    ahead: Column
    earliest: Column
    latest: Column
    apart: int
    resolution: int
    by_number: bool = False
    is_told: bool = True
    tries: int = 1
    unused: Column = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    sent: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    @cached_property
    def offset(self) -> int:
        """The median of `ahead`."""
        ends = np.sort(self.ahead)
        return (int(ends[(len(ends) - 1) // 2]) + int(ends[len(ends) // 2])) // 2

    @cached_property
    def spread(self) -> int:
        """In how little most of `ahead` lie, a steady drift aside; at least the resolution."""
        low, high = clock_fit.narrow(clock_fit.detrended(self.times, self.ahead), _USUAL)
        return max(high - low, self.resolution)

    @property
    def scattered(self) -> bool:
        """Whether the ends scatter as if any had been compared with any: these are not the same collectives."""
        return self.spread > self.apart

    @property
    def as_they_stand(self) -> bool:
        """Whether the times as given let each rank end after all have started."""
        return int(self.earliest.max()) <= self.resolution and int(self.latest.min()) >= -self.resolution

    @cached_property
    def stands(self) -> bool:
        """Whether the clocks are rather one as they stand than as the `fit` has it: nothing tells which devices meet,
        and ends that do not agree with it are at one moment as given, which no other offset of the clocks lets be.

        Else the collectives of groups that do not reach from one host to the other, of which one host's may always come
        as much later, look shared, and the few that are shared would count for nothing.
        """
        if self.is_told or not self.fit:
            return False
        ahead = np.concatenate([self.ahead[~self.fit.agreeing], self.unused[1]])
        together = int((np.abs(ahead) <= clock_fit.ENDS_APART_PS).sum())
        return bool(together >= max(clock_fit.ENOUGH, _FEW * (len(self.ahead) + self.unused.shape[1])))

    @cached_property
    def fit(self) -> Fit | None:
        """What is to be added to the second clock; None if the ends do not prove it, or if it is impossible: by it a
        rank would have ended many collectives before another started them."""
        fit = clock_fit.fit(self.times, self.ahead, self.resolution, self.by_number)
        if fit and clock_fit.by_chance(fit.spread_ps, self.apart, int(fit.agreeing.sum()), self.tries):
            return None
        if fit:
            slack = max(clock_fit.ENDS_APART_PS, self.resolution)
            offset = -fit.line.shifts(self.times)
            is_possible = (self.earliest - slack <= offset) & (offset <= self.latest + slack)
            if (is_possible & fit.agreeing).sum() < _USUAL * fit.agreeing.sum():
                return None
        return None if fit and len(self.sent) and not self._sent_both_ways(fit) else fit

    def _sent_both_ways(self, fit: Fit) -> bool:
        """Whether what was sent one way and the other tells one offset: a recv ends no earlier than its send, but maybe
        later, so that each way alone bounds the offset on one side, and only together they show it."""
        rest = self.ahead + fit.line.shifts(self.times)
        ways = [rest[way & fit.agreeing] for way in (self.sent, ~self.sent)]
        if any(
            len(ends) < max(clock_fit.ENOUGH, np.count_nonzero(way) / 2)
            for ends, way in zip(ways, (self.sent, ~self.sent), strict=True)
        ):
            return False
        later, earlier = map(clock_fit.median, ways)
        return abs(later - earlier) <= max(clock_fit.ENDS_APART_PS, self.resolution)

    @cached_property
    def agrees(self) -> bool:
        """Whether the clocks are one as far as a few ends tell: at least half of these agree, and none is impossible.

        Ends agree that are microseconds apart, or next to nothing of the time in which both ran: over many machines a
        ring of 128 ranks ended 332 us apart after 42 ms. Clocks that are milliseconds off do not agree by accident.
        """
        slack = max(clock_fit.ENDS_APART_PS, self.resolution)
        together = np.minimum(-self.earliest, self.latest)
        near = np.abs(self.ahead) <= np.maximum(slack, together // _RARE)
        return bool(2 * near.sum() >= len(near) and (together >= -slack).all())


# A comparison, and whether it is surely of one collective over all ranks.
_Match = tuple[bool, Compared]


def needed(events: pd.DataFrame, lengths: Sequence[int]) -> Column:
    """The places of the rows of an events frame that a comparison needs: collectives, and of each file, of which it
    holds `lengths` rows one after the other, enough others to see the times' step."""
    collective = (events["kind"] == Kind.COLLECTIVE.value).to_numpy()
    sizes = np.asarray(lengths, np.int64)
    place = np.arange(len(events)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.flatnonzero(collective | (place < _SAMPLE))


def by_host(events: pd.DataFrame, hosts: Sequence[str]) -> dict[str, Host]:
    """The collectives of each of `hosts` in an events frame (EVENT_COLUMNS)."""
    code = events["host"].cat.codes.to_numpy()
    names = [str(name) for name in events["host"].cat.categories]
    of_host = places_of(code, len(names))
    times = events[["start_ps", "end_ps"]].to_numpy()
    rows, host = _rows(events)
    bounds = np.searchsorted(host, np.arange(len(names) + 1))
    found = {
        name: Host(rows.taken(slice(bounds[at], bounds[at + 1])), _resolution(times[of_host[at][:_SAMPLE]]))
        for at, name in enumerate(names)
    }
    nothing = Host(rows.taken(slice(0)), _resolution(times[:0]))
    return {host: found.get(host, nothing) for host in hosts}


def _rows(events: pd.DataFrame) -> tuple[Rows, Column]:
    """The collectives of an events frame by host and end, and the code of the host of each: (n,)."""
    collective = events.iloc[np.flatnonzero((events["kind"] == Kind.COLLECTIVE.value).to_numpy())]
    op = _ops(collective)
    table = collective.assign(op=op)[pd.notna(op)]
    host = table["host"].cat.codes.to_numpy().astype(np.int64)
    order = np.lexsort((table["end_ps"].to_numpy(), host))
    table, host = table.iloc[order], host[order]
    ops, names = pd.factorize(table["op"])
    codes = {name: coded(table[name]) for name in _LEVELS[0] if name != "op"} | {"op": ops}
    sequence = coded(table["sequence"])
    number, _ = distinct(ops, codes["group"], codes["ranks"], sequence)
    equal = np.array([*(OPERATIONS[op].equal for op in names), False], bool)[ops]
    size = table["bytes"].to_numpy(np.int64, na_value=-1)
    rows = Rows(
        codes,
        table["device"].cat.codes.to_numpy().astype(np.int64),
        table["start_ps"].to_numpy(),
        table["end_ps"].to_numpy(),
        coded(table["run_id"]),
        np.where(sequence < 0, -1, number),
        np.array([*(op != _UNSURE for op in names), False], bool)[ops],
        np.where(equal, size, -1),
    )
    return rows, host


def compare(a: Host, b: Host, timed: bool) -> Compared | None:
    """What the collectives that `a` and `b` share say of `b`'s clock; None if they share none that can be told.

    `timed`: whether the times of both are Unix times, so that clocks that are nearly right help to tell which
    occurrence is which.
    """
    resolution = max(a.resolution_ps, b.resolution_ps)
    if not a.level(_LEVELS[-1]).keys() & b.level(_LEVELS[-1]).keys():
        return None
    numbered = _by_number(a, b, resolution)
    if numbered and len(numbered.ahead) >= clock_fit.ENOUGH:
        return numbered
    comparisons: list[_Match] = []
    own, other = a.shared_with(b), b.shared_with(a)
    for columns in _LEVELS:
        level = _matches(own, other, columns, resolution, timed)
        if any(sure and len(comparison.ahead) >= clock_fit.ENOUGH for sure, comparison in level):
            comparisons = level
            break
        if any(sure for sure, _ in level):
            comparisons = comparisons or level
    sure = [comparison for is_sure, comparison in comparisons if is_sure]
    if not sure:
        return None
    sure = [comparison for comparison in sure if not comparison.scattered] or sure
    enough = [comparison for comparison in sure if len(comparison.ahead) >= clock_fit.ENOUGH]
    if not enough:
        return union(sure)
    steadiest = min(enough, key=lambda comparison: (comparison.spread, -len(comparison.ahead)))
    used = [each for _, each in comparisons if each is steadiest or _agree(steadiest, each)]
    unused = [np.stack([each.times, each.ahead]) for each in sure if not any(each is other for other in used)]
    return replace(union(used), unused=np.concatenate([np.zeros((2, 0), np.int64), *unused], axis=1))


def _by_number(a: Host, b: Host, resolution: int) -> Compared | None:
    """The collectives that have the same number of the same group, and the same size, on both hosts; None if none."""
    _, *both = np.intersect1d(a.numbers.number, b.numbers.number, assume_unique=True, return_indices=True)
    times, sizes = (
        [getattr(each.numbers, name)[at] for each, at in zip((a, b), both, strict=True)] for name in ("times", "size")
    )
    same = np.flatnonzero((sizes[0] < 0) | (sizes[1] < 0) | (sizes[0] == sizes[1]))
    order = same[np.argsort(times[1][same, 1], kind="stable")]
    if not len(order):
        return None
    return replace(at_shift(times[0][order], times[1][order], 0, resolution), by_number=True)


def _agree(steadiest: Compared, other: Compared) -> bool:
    """Whether `other` tells the same of the clock, and about as exactly."""
    line = steadiest.fit.line if steadiest.fit else Line(shift_ps=-steadiest.offset)
    low, high = clock_fit.narrow(other.ahead + line.shifts(other.times), _USUAL)
    near = max(_ALIKE * steadiest.spread, clock_fit.ENDS_APART_PS)
    return high - low <= near and -near <= low and high <= near


def union(parts: Sequence[Compared]) -> Compared:
    """Several comparisons of two hosts as one."""
    columns = np.concatenate([[part.times, part.ahead, part.earliest, part.latest] for part in parts], axis=1)
    order = np.argsort(columns[0], kind="stable")
    times, ahead, earliest, latest = columns[:, order]
    sent = np.concatenate([part.sent for part in parts])
    return Compared(
        times,
        ahead,
        earliest,
        latest,
        sent=sent[order] if len(sent) else sent,
        is_told=all(part.is_told for part in parts),
        apart=min(part.apart for part in parts),
        resolution=parts[0].resolution,
        tries=max(part.tries for part in parts),
    )


def _ops(rows: pd.DataFrame) -> NDArray[np.object_]:
    """The operation of each row, shape (n,), where no rank ends before every rank has started; else null."""
    ops = operations(rows)
    meets = [op for op in ops.categories if op == _UNSURE or OPERATIONS[op].synchronises]
    return np.asarray(ops.set_categories(meets), object)


def operations(rows: pd.DataFrame) -> pd.Categorical:
    """The operation of each row of an events frame, shape (n,); null where nothing tells it."""
    category, name = rows["category"].cat, rows["name"].cat
    pair, first = distinct(category.codes.to_numpy(), name.codes.to_numpy())
    labels = [
        operation(
            str(name.categories[name_code]), str(category.categories[category_code]) if category_code >= 0 else None
        )
        for category_code, name_code in zip(category.codes.iloc[first], name.codes.iloc[first], strict=True)
    ]
    return categorical(labels, pair)


def resolution_of(events: pd.DataFrame) -> int:
    """The step in which the times of an events frame of one host are given, as a comparison sees it."""
    return _resolution(events[["start_ps", "end_ps"]].head(_SAMPLE).to_numpy())


def _resolution(times: NDArray[np.int64]) -> int:
    """The step in which times are given: a microsecond, a nanosecond or a picosecond."""
    apart = times - times.flat[0] if times.size else times
    return next(step for step in _STEPS_PS if not (apart % step).any())


def _matches(own: Host, other: Host, columns: tuple[str, ...], resolution: int, timed: bool) -> list[_Match]:
    """Every collective that both have, compared, and whether it is surely one over all ranks."""
    a, b = own.level(columns), other.level(columns)
    shared = [(what, aligned(a[what], b[what], resolution, timed)) for what in a if what in b]
    group, ranks = columns.index("group"), columns.index("ranks")
    return [
        (what[0] in own.sure, replace(comparison, is_told=what[group] >= 0 or what[ranks] >= 0))
        for what, comparison in shared
        if comparison
    ]


def _occurrences(rows: Rows, columns: Sequence[str]) -> Mapping[Key, Occurrences]:
    """The occurrences of each collective, told apart by `columns`; the k-th on each device are one."""
    if not len(rows):
        return {}
    which, first = distinct(*(rows.codes[column] for column in columns))
    on_device, _ = distinct(which, rows.device)
    order = np.argsort(on_device, kind="stable")
    k = np.empty(len(rows), np.int64)
    k[order] = np.arange(len(rows)) - np.searchsorted(on_device[order], on_device[order])
    by_occurrence = np.lexsort((k, which))
    begins = np.flatnonzero(np.diff(which[by_occurrence], prepend=-1) | np.diff(k[by_occurrence], prepend=-1))
    start, end = rows.start[by_occurrence], rows.end[by_occurrence]
    table = np.column_stack(
        [np.minimum.reduceat(end, begins), np.maximum.reduceat(end, begins), np.maximum.reduceat(start, begins)]
    )
    keys = zip(*(rows.codes[column][first].tolist() for column in columns), strict=True)
    return dict(zip(keys, np.split(table, np.flatnonzero(np.diff(which[by_occurrence][begins])) + 1), strict=True))


def coded(column: pd.Series) -> Column:
    """A number for each value of a column, -1 for null."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64)
    return np.asarray(pd.factorize(column)[0], np.int64)


def aligned(a: Occurrences, b: Occurrences, resolution: int, timed: bool) -> Compared | None:
    """`a` and `b` compared occurrence by occurrence; None if nothing tells which is which."""
    in_order = _in_order(a, b, resolution, timed)
    if timed and (not in_order or in_order.scattered or in_order.spread > _ALIKE * resolution):
        near = _by_time(a, b, resolution)
        if near and (not in_order or in_order.scattered or in_order.spread > _ALIKE * near.spread):
            return near
    return in_order


def _in_order(a: Occurrences, b: Occurrences, resolution: int, timed: bool) -> Compared | None:
    """`a` and `b` compared at the shift in k that fits; None if several fit equally well."""
    even = at_shift(a, b, 0, resolution)
    if len(a) == len(b) and timed and even.as_they_stand:
        return even
    fewer = min(len(a), len(b))
    least = max(min(clock_fit.ENOUGH, fewer), fewer // 2)
    lags = _lags(a, b, least)
    spreads = _spreads(a, b, lags, resolution)
    tight = [lag for lag, spread in zip(lags, spreads, strict=True) if spread <= _ALIKE * min(spreads)]
    candidates = [replace(at_shift(a, b, lag, resolution), tries=len(lags)) for lag in tight]
    near = sorted(candidates, key=lambda candidate: abs(candidate.offset))
    if timed and (standing := [candidate for candidate in near if candidate.as_they_stand]):
        return standing[0]
    if len(a) == len(b) and 0 in tight:
        return even
    clear = len(near) == 1 or (timed and 2 * abs(near[0].offset) < abs(near[1].offset))
    return near[0] if clear and fewer > 1 else None


def _by_time(a: Occurrences, b: Occurrences, resolution: int) -> Compared | None:
    """`a` and `b` compared where an end of each is nearest to one of the other, by the times as given.

    That holds where one file lost some. It tells something only if most are found, and much nearer than chance brings
    them: than they follow each other.
    """
    to_a = np.searchsorted((a[1:, 1] + a[:-1, 1]) // 2, b[:, 1])
    to_b = np.searchsorted((b[1:, 1] + b[:-1, 1]) // 2, a[:, 1])
    mutual = to_b[to_a] == np.arange(len(b))
    a, b = a[to_a[mutual]], b[mutual]
    ordered = (a[:, 2] <= b[:, 0]) & (b[:, 2] <= a[:, 0])
    if ordered.sum() < max(clock_fit.ENOUGH, min(len(to_a), len(to_b)) // 2):
        return None
    comparison = at_shift(a[ordered], b[ordered], 0, resolution)
    return comparison if _RARE * comparison.spread <= comparison.apart else None


def _lags(a: Occurrences, b: Occurrences, least: int) -> Sequence[int]:
    """The shifts in k worth trying that leave at least `least` pairs."""
    lowest, highest = least - len(b), len(a) - least
    if max(len(a), len(b)) <= _EVERY_SHIFT_UP_TO:
        return range(lowest, highest + 1)
    near = np.searchsorted(a[:, 1], b[:, 1]) - np.arange(len(b))
    likely = {0, len(a) - len(b), *np.unique(near)[np.argsort(-np.unique(near, return_counts=True)[1])][:16].tolist()}
    return sorted(lag for lag in likely if lowest <= lag <= highest)


def _spreads(a: Occurrences, b: Occurrences, lags: Sequence[int], resolution: int) -> list[int]:
    """The `Compared.spread` of `at_shift` for each of the lags, all of them at once: one by one they took a third of
    the time in which the clocks of a thousand hosts are compared."""
    lag = np.array(lags, np.int64)[:, None]
    first_a, first_b = np.maximum(lag, 0), np.maximum(-lag, 0)
    number = np.minimum(len(a) - first_a, len(b) - first_b)
    k = np.arange(int(number.max()))
    own, other = a[np.minimum(first_a + k, len(a) - 1)], b[np.minimum(first_b + k, len(b) - 1)]
    is_kept = k < number
    lasted = is_kept & (own[:, :, 2] < own[:, :, 1]) & (other[:, :, 2] < other[:, :, 1])
    is_kept = np.where(lasted.any(axis=1, keepdims=True), lasted, is_kept)
    order = np.argsort(~is_kept, axis=1, kind="stable")
    times, ahead = (
        np.take_along_axis(column, order, axis=1) for column in (other[:, :, 1], other[:, :, 1] - own[:, :, 1])
    )
    widths = clock_fit.widths(times, ahead, is_kept.sum(axis=1), _USUAL)
    return [max(width, resolution) for width in widths.tolist()]


def at_shift(a: Occurrences, b: Occurrences, lag: int, resolution: int) -> Compared:
    """`b`'s occurrence k compared with `a`'s occurrence k + lag.

    What has no length on either side does not tell when the ranks met: it counts only where nothing else is shared.
    """
    a, b = a[max(lag, 0) :], b[max(-lag, 0) :]
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    lasted = (a[:, 2] < a[:, 1]) & (b[:, 2] < b[:, 1])
    if lasted.any():
        a, b = a[lasted], b[lasted]
        n = len(a)
    return Compared(
        b[:, 1],
        b[:, 1] - a[:, 1],
        b[:, 2] - a[:, 0],
        b[:, 0] - a[:, 2],
        int(clock_fit.median(np.diff(a[:, 1]))) if n > 1 else _FOREVER,
        resolution,
    )
