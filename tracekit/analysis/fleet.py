"""Many devices at once: what each rank did in each step, whom the others waited for, and which ranks are unlike the
rest.

Everything follows from the partition, the steps and the collectives, so that a saved report has it too.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracekit.analysis.collectives import Collectives
from tracekit.analysis.idle import EDGES, Cause
from tracekit.analysis.steps import PARTS, Steps, outliers
from tracekit.columns import frame
from tracekit.devices import host_of
from tracekit.timeline.timeline import Timeline
from tracekit.vocabulary.kinds import Kind

# The cells of the matrix of ranks and steps, and its columns: more steps than fit share one.
MOST_CELLS, MOST_BINS = 1 << 19, 1000
# Ranks that stand for all others where each is drawn.
DRAWN = 8
# A smaller share of the window, more or less than the median rank, makes no outlier.
WORTH_TELLING = 0.01
# What the matrix holds of each rank and step.
MEASURES = ("step_ps", "compute_ps", "exposed_collective_ps", "idle_ps")

RANK_COLUMNS = {
    "device": "str",
    "host": "str",
    "window_ps": "int64",
    "busy_ps": "int64",
    "compute_ps": "int64",
    "exposed_collective_ps": "int64",
    "idle_ps": "int64",
    "steps": "int64",
    "step_ps": "Int64",
    "last": "Int64",
    "collectives": "Int64",
    "cost_ps": "Int64",
    "straggler": "bool",
    "differs_in": "str",
    "differs_by": "Float64",
    "role": "str",
}
HOST_COLUMNS = {
    "host": "str",
    "devices": "int64",
    "window_ps": "int64",
    "busy_ps": "int64",
    "exposed_collective_ps": "int64",
    "idle_ps": "int64",
    "step_ps": "Int64",
    "cost_ps": "Int64",
    "last": "Int64",
    "collectives": "Int64",
    "waited_ps": "Int64",
    "straggler": "bool",
}
BIN_COLUMNS = {"name": "str", "first": "Int64", "last": "Int64", "steps": "int64"}
CELL_COLUMNS = {
    "rank": "int64",
    "bin": "int64",
    "steps": "int64",
    "worked": "int64",
    **dict.fromkeys(MEASURES, "int64"),
}
# Why the devices that stand for all stood idle, and on which operations they spent more time than the median device.
IDLE_COLUMNS = {
    "device": "str",
    "role": "str",
    "idle_ps": "int64",
    "ratio": "Float64",
    "cause": "str",
    "cause_ratio": "Float64",
}
LONGER_COLUMNS = {
    "device": "str",
    "role": "str",
    "name": "str",
    "kind": "str",
    "pattern": "str",
    "n": "int64",
    "time_ps": "int64",
    "median_n": "int64",
    "median_ps": "int64",
    "more_ps": "int64",
}
# So many operations of each device are told, which took longer by this share of its window at least.
_LONGER, _WORTH_A_ROW = 3, 0.001

# The end of a host's name that numbers it among those that begin alike: `rack03-node12`.
_NUMBERED = re.compile(r"[-_.]?[a-z]*\d+$", re.IGNORECASE)


@dataclass(frozen=True)
class Grouping:
    """Ranks in groups: what they are groups `by`, the name of each, and of every rank the place of its group in
    `names`, shape (ranks,)."""

    by: str
    names: tuple[str, ...]
    group_of: NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Fleet:
    """The ranks of a fleet, a rank being a device; times are in ps.

    `ranks` (RANK_COLUMNS) has a row per device, in the order of the partition, whose cells its times are sums of:
    `compute_ps` counts what hides behind it too. `step_ps` is the median over its `steps`. It was the `last` in so
    many `collectives`, and the others waited for it for `cost_ps`, all summed; these are null where waiting is not
    known. Where the shares of its window are not like those of the others (analysis.steps.outliers, and WORTH_TELLING
    of the window), `differs_in` says in what, and `differs_by` by how much of the window. `role` tells the ranks
    that stand for all where each is drawn, at most DRAWN: "straggler" and "outlier", of each host one before a second
    of any, of the others the "median", and where there are few of these the ranks of "least" and "most" compute.
    `hosts` (HOST_COLUMNS) are sums over the devices of each host,
    `step_ps` the median of their medians; together they were the `last` in so many `collectives` with other hosts,
    which waited for them for `waited_ps`, and may be a `straggler` as one (analysis.stragglers): null and false where
    each host has one device, or waiting is not known.

    `bins` (BIN_COLUMNS) are the columns of the matrix: a step that counts, or as many in a row as leave it at most
    MOST_CELLS cells and MOST_BINS columns. `cells` (CELL_COLUMNS) are sums over the `steps` of a bin, by the row number
    of the rank. The time of a step lasts from the end of the rank's work in the step before, or else the begin of the
    first step, to its last end in it: over those steps in which it `worked`. What else there is of a step is inside
    its window. `lacking` says why there are no steps.
    """

    ranks: pd.DataFrame
    hosts: pd.DataFrame
    bins: pd.DataFrame
    cells: pd.DataFrame
    lacking: str = ""

    def matrix(self, measure: str) -> NDArray[np.float64]:
        """The mean of one of MEASURES over the steps of each bin, shape (ranks, bins); NaN where there is none."""
        values = np.full((len(self.ranks), len(self.bins)), np.nan)
        count = self.cells["worked" if measure == "step_ps" else "steps"].to_numpy()
        there = count > 0
        rank, place = self.cells["rank"].to_numpy()[there], self.cells["bin"].to_numpy()[there]
        values[rank, place] = self.cells[measure].to_numpy()[there] / count[there]
        return values

    @property
    def stragglers(self) -> pd.DataFrame:
        """The ranks that the others waited for, the costliest first."""
        return self.ranks[self.ranks["cost_ps"].fillna(0) > 0].sort_values("cost_ps", ascending=False, kind="stable")

    @property
    def first_measure(self) -> str:
        """The one of MEASURES to look at first: that in which the furthest outlier differs, or else the step's time."""
        unlike = self.ranks[self.ranks["differs_in"].notna()]
        if not len(unlike):
            return MEASURES[0]
        return str(unlike["differs_in"].iloc[int(unlike["differs_by"].abs().argmax())])

    @cached_property
    def drawn(self) -> tuple[str, ...]:
        """The devices that stand for all, in the order of the ranks."""
        return tuple(self.ranks.loc[self.ranks["role"].notna(), "device"])


def fleet(partition: pd.DataFrame, steps: Steps, collectives: Collectives) -> Fleet:
    """The fleet of the devices of a `partition` (analysis.overlap), with what `steps` and `collectives` say of them."""
    devices = partition["device"].astype("str")
    ranks = pd.DataFrame(
        {
            "device": devices,
            "host": [host_of(device) for device in devices],
            **{name: partition[name] for name in ("window_ps", "busy_ps")},
            "compute_ps": partition[PARTS["compute"]].sum(axis=1),
            "exposed_collective_ps": partition[PARTS["collective"]].sum(axis=1),
            "idle_ps": partition["idle"],
        }
    )
    bins, long = _steps_of_ranks(devices, steps)
    typical = long.groupby("rank")["step_ps"].agg(["count", "median"]).reindex(range(len(ranks)))
    late = collectives.by_device.set_index("device").reindex(devices)
    ranks = ranks.assign(
        steps=typical["count"].fillna(0).astype("int64"),
        step_ps=typical["median"].round().astype("Int64"),
        last=late["last"].astype("Int64").where(late["cost_ps"].notna()).to_numpy(),
        collectives=late["n"].astype("Int64").where(late["cost_ps"].notna()).to_numpy(),
        cost_ps=late["cost_ps"].astype("Int64").to_numpy(),
        straggler=late["straggler"].fillna(False).to_numpy(bool),
    )
    ranks["differs_in"], ranks["differs_by"] = _differences(ranks)
    ranks["role"] = _roles(ranks)
    return Fleet(
        frame(RANK_COLUMNS, ranks),
        _hosts(ranks, collectives.by_host),
        *_binned(bins, long, len(ranks)),
        lacking=steps.lacking,
    )


def causes_of_drawn(fleet: Fleet, devices: pd.DataFrame) -> pd.DataFrame:
    """Why those of the `devices` (DEVICE_COLUMNS of analysis.idle) that stand for all stood idle, by the cause of most
    of that time (IDLE_COLUMNS), in the order of the ranks; no rows where nothing explains the time of any between its
    work, whatever is known of other devices."""
    drawn = fleet.ranks.loc[fleet.ranks["role"].notna(), ["device", "role"]]
    table = drawn.merge(devices, on="device")
    is_explained = table["cause"].notna() & ~table["cause"].isin([Cause.UNEXPLAINED, *EDGES])
    return frame(IDLE_COLUMNS, table[: len(table) if is_explained.any() else 0].reset_index(drop=True))


def longer_on_drawn(fleet: Fleet, by_device: pd.DataFrame) -> pd.DataFrame:
    """The operations, of those of each device (DEVICE_NAME_COLUMNS of analysis.top_ops), on which the devices that
    stand for all spent more time than the median device, by a thousandth of their window at least (LONGER_COLUMNS).

    An operation is a name and kind, of whatever program: a program may have another name on another device. Collectives
    do not count: they take longer where others are waited for. `more_ps` is how much more: `time_ps`, the sum of the
    durations of `n` rows, less `median_ps`, that of `median_n` on the device of the role "median". The largest come
    first, at most three of a device.
    """
    drawn = fleet.ranks.loc[fleet.ranks["role"].notna(), ["device", "role", "window_ps"]]
    is_median = drawn["role"] == "median"
    if not is_median.any():
        return frame(LONGER_COLUMNS)
    operation, times = ["name", "kind"], ["n", "time_ps"]
    each = by_device[by_device["kind"] != Kind.COLLECTIVE].groupby(["device", *operation], sort=False, as_index=False)
    every = each.agg({"pattern": "first", **dict.fromkeys(times, "sum")})
    of_median = every[every["device"] == drawn.loc[is_median, "device"].iloc[0]]
    table = every.merge(drawn[~is_median], on="device").merge(
        of_median[[*operation, *times]].rename(columns={"n": "median_n", "time_ps": "median_ps"}),
        how="left",
        on=operation,
    )
    table = table.fillna({"median_n": 0, "median_ps": 0})
    table["more_ps"] = table["time_ps"] - table["median_ps"].astype("int64")
    longer = table[(table["more_ps"] > 0) & (table["more_ps"] >= _WORTH_A_ROW * table["window_ps"])]
    longer = longer.sort_values("more_ps", ascending=False, kind="stable").groupby("device").head(_LONGER)
    return frame(LONGER_COLUMNS, longer.reset_index(drop=True))


def groupings(fleet: Fleet, timeline: Timeline | None = None) -> tuple[Grouping, ...]:
    """The ways in which the ranks of a fleet are groups, each of at least two groups that hold all ranks, and not each
    one: by host; by what the names of hosts begin with before their last number, as a rack's do; and, with the
    `timeline` of its trace, by process group: the ranks that met in the same collectives, in sets of one size of which
    every rank is in one."""
    hosts = fleet.ranks["host"].tolist()
    found = [_grouping("host", hosts)]
    begins = {host: _NUMBERED.sub("", host) for host in {*hosts}}
    if len({*begins.values()}) < len(begins) and all(begins.values()):
        found.append(_grouping("beginning of the host's name", [begins[host] for host in hosts]))
    if timeline is not None:
        found += _process_groups(fleet.ranks["device"].tolist(), timeline)
    different: dict[bytes, Grouping] = {}
    for grouping in found:
        if 1 < len(grouping.names) < len(fleet.ranks):
            different.setdefault(pd.factorize(grouping.group_of)[0].tobytes(), grouping)
    return tuple(different.values())


def _grouping(by: str, names: Sequence[str]) -> Grouping:
    group_of, distinct = pd.factorize(np.array(names, object))
    return Grouping(by, tuple(map(str, distinct)), group_of.astype(np.int64))


def _process_groups(devices: Sequence[str], timeline: Timeline) -> list[Grouping]:
    """The families of disjoint sets of ranks of one size that met in collectives whose ranks are all there."""
    rows, instances = timeline.rows, timeline.collectives
    at = np.flatnonzero(instances.instance >= 0)
    at = at[instances.complete[instances.instance[at]]]
    rank = pd.Index(devices).get_indexer(pd.Index(rows.devices))[rows.device[at]]
    pairs = pd.DataFrame({"instance": instances.instance[at], "rank": rank}).drop_duplicates()
    pairs = pairs.sort_values(["instance", "rank"], kind="stable")
    place, rank = pairs["instance"].to_numpy(), pairs["rank"].to_numpy()
    first = np.flatnonzero(np.diff(place, prepend=-1))
    if not len(first):
        return []
    # The same ranks meet again and again, which equal sums of numbers drawn for each rank tell in one pass.
    drawn = np.random.default_rng(0).integers(1 << 62, size=len(devices))
    _, firsts = np.unique(np.add.reduceat(drawn[rank], first), return_index=True)
    every = np.split(rank, first[1:])
    sets = [every[number] for number in firsts.tolist()]
    families: list[tuple[int, NDArray[np.int64]]] = []
    for members in sorted(sets, key=lambda its: (len(its), int(its[0]))):
        if not 1 < len(members) < len(devices) or members[0] < 0:
            continue
        free = (of for size, of in families if size == len(members) and (of[members] < 0).all())
        group_of = next(free, None)
        if group_of is None:
            group_of = np.full(len(devices), -1)
            families.append((len(members), group_of))
        group_of[members] = group_of.max() + 1
    whole = [(size, of) for size, of in families if (of >= 0).all()]
    return [
        Grouping(
            f"process group of {size} ranks",
            tuple(f"group {number}, from {devices[int(np.argmax(of == number))]}" for number in range(of.max() + 1)),
            of,
        )
        for size, of in whole
    ]


def _steps_of_ranks(devices: pd.Series, steps: Steps) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The steps that count over all clocks (name, step), and of each rank and step its MEASURES, `step_ps` null where
    the rank did nothing; `rank` is a place in `devices`, `column` one in the steps."""
    table, by_device = steps.table, steps.by_device
    measured = pd.DataFrame(
        {
            "rank": pd.Index(devices).get_indexer(pd.Index(by_device["device"])),
            "place": by_device["place"].to_numpy(),
            "step_ps": _lengths(steps),
            "compute_ps": by_device[PARTS["compute"]].sum(axis=1).to_numpy(),
            "exposed_collective_ps": by_device["exposed_collective_ps"].to_numpy(),
            "idle_ps": by_device["idle"].to_numpy(),
        }
    )
    counted = table[table["left_out"].isna()]
    order, number = counted.groupby("clock").cumcount(), counted.groupby(["clock", "name"]).cumcount()
    # On several clocks a step has a row on each: its number says which are one, or else its place.
    same = counted["step"].where(counted.groupby("name")["step"].transform(lambda step: step.notna().all()), number)
    first = order.groupby([counted["name"], same]).transform("min")
    keyed = pd.DataFrame({"first": first, "name": counted["name"], "same": same, "step": counted["step"]})
    columns = keyed.sort_values("first", kind="stable").drop_duplicates(["name", "same"])
    at = pd.MultiIndex.from_frame(columns[["name", "same"]]).get_indexer(
        pd.MultiIndex.from_frame(keyed[["name", "same"]])
    )
    column = np.full(len(table), -1)
    column[counted.index] = at
    measured["column"] = column[measured["place"]]
    return columns[["name", "step"]], measured[(measured["rank"] >= 0) & (measured["column"] >= 0)]


def _lengths(steps: Steps) -> pd.arrays.IntegerArray:
    """From the end of each device's work in the step before to that in each step, in ps, for each row of
    `steps.by_device`; null where it did nothing."""
    end = steps.by_device["last_end_ps"]
    worked = end.notna().to_numpy(bool)
    begin = steps.table["start_ps"].to_numpy()[steps.by_device["place"].to_numpy()]
    device = pd.factorize(steps.by_device["device"])[0]
    is_first = np.diff(device, prepend=-1) != 0
    # Up to each row the last end of its device, which began with its first step.
    known = np.where(worked, end.to_numpy(np.int64, na_value=0), np.where(is_first, begin, np.iinfo(np.int64).min))
    until = pd.Series(known).groupby(device).cummax().to_numpy()
    before = np.where(is_first, begin, np.append(0, until)[:-1])
    return pd.arrays.IntegerArray(np.where(worked, np.maximum(until - before, 0), 0), ~worked)


def _binned(columns: pd.DataFrame, long: pd.DataFrame, ranks: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The bins, and the sums of what each rank did in them."""
    width = max(-(-len(columns) * ranks // MOST_CELLS), -(-len(columns) // MOST_BINS), 1)
    bin_of = np.arange(len(columns)) // width
    groups = columns.groupby(bin_of)
    bins = groups.agg(name=("name", "first"), first=("step", "first"), last=("step", "last"), steps=("name", "size"))
    key = long["rank"].to_numpy() * len(bins) + bin_of[long["column"].to_numpy()]
    sums = (
        long[[*MEASURES]].assign(worked=long["step_ps"].notna().astype("int64"), steps=1).fillna(0).groupby(key).sum()
    )
    cells = sums.assign(rank=sums.index // max(len(bins), 1), bin=sums.index % max(len(bins), 1))
    return frame(BIN_COLUMNS, bins.reset_index(drop=True)), frame(CELL_COLUMNS, cells.reset_index(drop=True))


def _differences(ranks: pd.DataFrame) -> tuple[list[str | None], list[float | None]]:
    """In what each rank is an outlier, and by which share of its window, more or less; None of those that are like
    the others. Who computes longer waits less in collectives: the cause is named, and not the other two."""
    found: dict[int, tuple[str, float]] = {}
    windows = ranks["window_ps"].where(ranks["window_ps"] > 0)
    for measure in ("compute_ps", "idle_ps", "exposed_collective_ps"):
        share = (ranks[measure] / windows).fillna(0).to_numpy(np.float64)
        off = share - (float(np.median(share)) if len(share) else 0.0)
        for at in np.flatnonzero(outliers(share) & (np.abs(off) >= WORTH_TELLING)).tolist():
            found.setdefault(at, (measure, float(off[at])))
    its = [found.get(at) for at in range(len(ranks))]
    return [one and one[0] for one in its], [one and one[1] for one in its]


def _roles(ranks: pd.DataFrame) -> list[str | None]:
    """The role of each rank, None of those that are not drawn: of each host one straggler or outlier comes before a
    second of any, since the devices of a late host are alike."""
    roles: dict[int, str] = {}
    cost = ranks["cost_ps"].fillna(0).to_numpy(np.int64)
    off = np.abs(ranks["differs_by"].fillna(0).to_numpy(np.float64))
    late = np.flatnonzero(ranks["straggler"].to_numpy(bool))
    for at in late[np.argsort(-cost[late], kind="stable")].tolist():
        roles.setdefault(at, "straggler")
    unlike = np.flatnonzero(off)
    for at in unlike[np.argsort(-off[unlike], kind="stable")].tolist():
        roles.setdefault(at, "outlier")
    hosts, of_host = ranks["host"].tolist(), Counter[str]()
    turn: dict[int, int] = {}
    for at in roles:
        turn[at] = of_host[hosts[at]]
        of_host[hosts[at]] += 1
    roles = dict(sorted(roles.items(), key=lambda entry: turn[entry[0]])[: DRAWN - 1])
    compute = ranks["compute_ps"].to_numpy()
    far = np.abs(compute - np.median(compute)) if len(ranks) else compute
    is_alike = ~(ranks["straggler"].to_numpy(bool) | ranks["differs_in"].notna().to_numpy(bool))
    nearest = [at for at in np.argsort(far, kind="stable").tolist() if at not in roles]
    ordinary = [at for at in nearest if is_alike[at]] or nearest
    roles |= dict.fromkeys(ordinary[:1], "median")
    for extreme, role in ((np.argmin, "least"), (np.argmax, "most")):
        if 0 < len(roles) < 3:
            roles.setdefault(int(extreme(compute)), role)
    return [roles.get(at) for at in range(len(ranks))]


def _hosts(ranks: pd.DataFrame, late: pd.DataFrame) -> pd.DataFrame:
    """One row per host, in order."""
    groups = ranks.groupby("host", sort=False)
    sums = groups[["window_ps", "busy_ps", "exposed_collective_ps", "idle_ps"]].sum()
    step = groups["step_ps"].median().round().astype("Int64")
    cost = groups["cost_ps"].sum(min_count=1).astype("Int64")
    late = late.set_index("host").reindex(sums.index)
    table = sums.assign(
        devices=groups.size(),
        step_ps=step,
        cost_ps=cost,
        last=late["last"].astype("Int64"),
        collectives=late["n"].astype("Int64"),
        waited_ps=late["cost_ps"].astype("Int64"),
        straggler=late["straggler"].eq(True).to_numpy(bool),
    )
    return frame(HOST_COLUMNS, table.reset_index())
